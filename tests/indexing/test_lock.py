"""One writer at a time, whatever happens to it."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sonde.errors import Cancelled, IndexBusy, StorageUnusable
from sonde.runtime.system import try_lock
from sonde.runtime.work import Work, WriterLock

HOLD = """
import sys
from pathlib import Path
from sonde.runtime.work import WriterLock
with WriterLock(Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.read()
"""


def start_holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=30)


class Turn(Work):
    """Does something once it is found to have to wait."""

    def __init__(self, act: Callable[[], None], cancelled: threading.Event | None = None) -> None:
        super().__init__(cancelled=cancelled)
        self.act: Callable[[], None] | None = act

    def check(self) -> None:
        if self.act:
            self.act()
            self.act = None
        super().check()


def test_who_will_not_wait_is_told_and_who_will_is_let_in_afterwards(tmp_path: Path) -> None:
    holder = start_holder(tmp_path)
    lock = WriterLock(tmp_path)
    with pytest.raises(IndexBusy), lock.held(wait_s=0):
        pass
    turn = Turn(lambda: end(holder))
    with lock.held(turn, wait_s=60):
        assert turn.act is None, "it waited"


@pytest.mark.row("001-153")
def test_a_killed_holder_leaves_no_lock_behind(tmp_path: Path) -> None:
    holder = start_holder(tmp_path)
    holder.send_signal(signal.SIGKILL)
    end(holder)
    with WriterLock(tmp_path).held(wait_s=0):
        pass


def test_waiting_ends_when_the_work_is_called_off(tmp_path: Path) -> None:
    holder = start_holder(tmp_path)
    cancelled = threading.Event()
    work = Turn(cancelled.set, cancelled)
    with pytest.raises(Cancelled), WriterLock(tmp_path).held(work):
        pass
    end(holder)


def test_a_thread_may_hold_it_twice_and_another_thread_not_at_all(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path)
    seen: list[str] = []

    def attempt() -> None:
        try:
            with lock.held(wait_s=0):
                seen.append("held")
        except IndexBusy:
            seen.append("busy")

    with lock.held(), lock.held():
        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
    attempt()
    assert seen == ["busy", "held"]


def test_the_lock_of_a_deleted_index_keeps_nobody_out_and_lets_nobody_in_twice(
    tmp_path: Path,
) -> None:
    first, second, third = (WriterLock(tmp_path / "index") for _ in range(3))
    with first.held():
        (tmp_path / "index" / "writer.lock").unlink()
        with second.held(wait_s=0), pytest.raises(IndexBusy), third.held(wait_s=0):
            pass


def test_a_folder_that_cannot_be_made_is_told_and_the_lock_stays_free(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    lock = WriterLock(tmp_path / "file" / "index")
    with pytest.raises(StorageUnusable), lock.held():
        pass
    (tmp_path / "file").unlink()
    seen: list[bool] = []

    def attempt() -> None:
        with lock.held(wait_s=0):
            seen.append(True)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert seen == [True]


def test_storage_without_locks_is_an_error_and_not_waited_for(tmp_path: Path) -> None:
    errors = [OSError(errno.ENOLCK, "No locks available")]

    def lock_file(descriptor: int) -> bool:
        if errors:
            raise errors.pop()
        return try_lock(descriptor)

    lock = WriterLock(tmp_path, lock=lock_file)
    with pytest.raises(StorageUnusable, match="No locks"), lock.held(wait_s=5):
        pass
    with lock.held(wait_s=0):
        assert lock.is_in_place()
