"""The deep model in a process of its own: out of everybody's way, and gone when it should be."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.processes import is_running
from tests.waiting import wait_until

from sonde.embedding.base import BackgroundEmbedder
from sonde.errors import Cancelled, EmbeddingFailed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
LONG = ["def read(path):\n    return open(path).read()\n" * 40] * 200

PARENT = """
from sonde.embedding.base import BackgroundEmbedder
embedder = BackgroundEmbedder(lambda: None)
while True:
    embedder.embed(["a text"], "passage")
    print("going", flush=True)
"""


def find_child(parent: int) -> int:
    for task in Path(f"/proc/{parent}/task").glob("*/children"):
        for number in task.read_text().split():
            if b"sonde.embedding.base" in Path(f"/proc/{number}/cmdline").read_bytes():
                return int(number)
    return 0


@pytest.fixture
def embedder() -> Iterator[BackgroundEmbedder]:
    with closing(BackgroundEmbedder(lambda: None)) as made:
        yield made


def test_every_thread_of_it_yields_to_everything_else(embedder: BackgroundEmbedder) -> None:
    assert not find_child(os.getpid())
    embedder.embed(["a text"], "passage")
    child = find_child(os.getpid())
    threads = [int(task.name) for task in Path(f"/proc/{child}/task").iterdir()]
    assert len(threads) > 1
    assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {19}
    assert os.getpriority(os.PRIO_PROCESS, 0) < 19


def test_one_that_was_killed_is_told_of_and_replaced(embedder: BackgroundEmbedder) -> None:
    before = embedder.embed(["a text"], "passage")
    os.kill(find_child(os.getpid()), signal.SIGKILL)
    with pytest.raises(EmbeddingFailed):
        embedder.embed(["a text"], "passage")
    assert (embedder.embed(["a text"], "passage") == before).all()


def test_whoever_waits_can_be_called_off() -> None:
    asked = []

    def stop_at_work() -> None:
        asked.append(find_child(os.getpid()))
        if len(asked) > 2:
            raise Cancelled("enough")

    with closing(BackgroundEmbedder(stop_at_work)) as embedder:
        with pytest.raises(Cancelled):
            embedder.embed(LONG, "passage")
        wait_until(lambda: not is_running(asked[0]))


def test_it_ends_when_its_parent_is_killed_in_the_middle_of_something() -> None:
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "going\n"
        child = find_child(parent.pid)
        assert is_running(child)
        parent.kill()
    wait_until(lambda: not is_running(child))


def test_it_is_waited_for_however_many_files_are_open(embedder: BackgroundEmbedder) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1_100):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        assert embedder.embed(["a text"], "passage").any()
