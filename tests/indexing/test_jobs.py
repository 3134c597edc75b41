"""Long work in a thread: joined, followed, called off, and what comes of it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sonde.errors import Cancelled, DiskFull, OutOfMemory, SondeError
from sonde.runtime.jobs import JobRecord, Jobs, start_thread
from sonde.runtime.work import Work
from sonde.stores.jobs import SqliteJobStore
from sonde.types import Progress

BOUND_S = 30.0


def until(event: threading.Event) -> Any:
    def run(work: Work) -> str:
        while not event.wait(0.01):
            work.report(Progress("working", done=1))
        return "done"

    return run


def test_asking_for_running_work_joins_it() -> None:
    jobs, free = Jobs(), threading.Event()
    first = jobs.submit("k", "index", until(free))
    assert jobs.submit("k", "index", until(free)) is first
    assert jobs.submit("other", "index", until(free)) is not first
    free.set()
    assert first.wait(timeout_s=BOUND_S)
    assert first.outcome() == "done"
    assert jobs.submit("k", "index", until(free)) is not first
    jobs.close()


def test_work_that_was_called_off_is_not_joined() -> None:
    jobs, reached, free = Jobs(), threading.Event(), threading.Event()

    def stubborn(work: Work) -> str:
        reached.set()
        free.wait(BOUND_S)
        work.check()
        return "unreachable"

    first = jobs.submit("k", "index", stubborn)
    assert reached.wait(BOUND_S)
    first.cancel()
    second = jobs.submit("k", "index", lambda _work: "fresh")
    assert second is not first
    free.set()
    assert second.wait(timeout_s=BOUND_S)
    assert second.outcome() == "fresh"
    assert first.wait(timeout_s=BOUND_S)
    assert first.status == "cancelled"
    with pytest.raises(Cancelled):
        first.outcome()


def test_only_the_last_who_leaves_takes_the_work_along() -> None:
    jobs = Jobs()
    job = jobs.submit("k", "index", until(threading.Event()))
    joined = threading.Barrier(3, timeout=BOUND_S)
    calls = [Work(report=lambda _: join_once()) for _ in "ab"]
    seen = threading.local()

    def join_once() -> None:
        if not hasattr(seen, "once"):
            seen.once = True
            joined.wait()

    def join(call: Work) -> str:
        try:
            return str(job.join(call))
        except Cancelled:
            return "called off"

    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(join, call) for call in calls]
        joined.wait()
        calls[0].cancel()
        assert ends[0].result(BOUND_S) == "called off"
        assert job.status == "running"
        assert not job.called_off
        calls[1].cancel()
        assert ends[1].result(BOUND_S) == "called off"
    assert job.status == "cancelled"


def test_errors_reach_whoever_asks_and_surprises_become_ours() -> None:
    jobs = Jobs()

    def fill(_work: Work) -> None:
        raise DiskFull("full")

    def break_(_work: Work) -> None:
        raise KeyError("surprise")

    for function, kind, told in ((fill, DiskFull, "full"), (break_, SondeError, "surprise")):
        job = jobs.submit(told, "index", function)
        assert job.wait(timeout_s=BOUND_S)
        assert job.status == "failed"
        with pytest.raises(kind, match=told):
            job.outcome()


def test_a_caller_that_is_called_off_stops_waiting_while_silent_work_goes_on() -> None:
    jobs, free = Jobs(), threading.Event()
    job = jobs.submit("k", "index", lambda _work: free.wait(BOUND_S))
    seen: list[Progress] = []
    caller = Work(report=lambda progress: (seen.append(progress), caller.cancel()))  # type: ignore[func-returns-value]
    with pytest.raises(Cancelled):
        job.wait(caller)
    assert seen
    assert job.status == "running"
    free.set()
    assert job.wait(timeout_s=BOUND_S)
    assert job.status == "done"


def test_closing_stops_everything() -> None:
    jobs = Jobs()
    made = [jobs.submit(str(n), "refine", until(threading.Event()), gently=True) for n in range(3)]
    jobs.cancel("0")
    assert made[0].status == "cancelled"
    jobs.close()
    assert {job.status for job in made} == {"cancelled"}


def test_progress_is_recorded_whatever_happens_to_the_clock(tmp_path: Path) -> None:
    store = SqliteJobStore(tmp_path / "jobs.db")
    now = [time.time()]
    jobs = Jobs(lambda: store, "1:2", clock=lambda: now[0], save_interval_s=0.0)
    kept = threading.Event()

    def body(work: Work) -> None:
        now[0] = 1_000.0
        for done in itertools.count():
            work.report(Progress("going", done))
            record = next(iter(store.recent(1)), None)
            if record and record.done > 3:
                kept.set()

    job = jobs.submit("k", "long", body, lasting=True)
    assert kept.wait(BOUND_S)
    assert store.cancel(job.id)
    assert job.wait(timeout_s=BOUND_S)
    assert job.status == "cancelled"
    jobs.close()


def test_a_job_without_a_thread_is_a_failed_one(tmp_path: Path) -> None:
    store = SqliteJobStore(tmp_path / "jobs.db")
    threads = [0, 1]

    def start(body: Callable[[], None], name: str) -> None:
        if not threads.pop(0):
            raise RuntimeError("can't start new thread")
        start_thread(body, name)

    jobs = Jobs(lambda: store, "1:2", start=start)
    with pytest.raises(OutOfMemory):
        jobs.submit("k", "long", lambda _: None, lasting=True)
    (record,) = store.recent(9)
    assert (record.status, record.error and record.error["code"]) == ("failed", OutOfMemory.code)
    assert jobs.submit("k", "long", lambda _: 7).join(Work()) == 7
    jobs.close()


def test_jobs_of_dead_processes_are_forgotten_in_time(tmp_path: Path) -> None:
    store = SqliteJobStore(tmp_path / "jobs.db", max_jobs=4)
    now = int(time.time() * 1000)
    old = now - 7 * 86_400_000
    for number in range(9):
        store.put(JobRecord(f"old{number}", "scan", "running", old, updated_ms=old))
    store.put(JobRecord("going", "scan", "running", old - 1, updated_ms=now))
    store.put(JobRecord("new", "scan", "done", now, finished_ms=now, updated_ms=now))
    kept = {record.id for record in store.recent(1_000)}
    assert len(kept) == 5
    assert {"going", "new"} <= kept
    store.close()
