"""What the stores of handles and of jobs promise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sonde.errors import IndexCorrupt, IndexTooNew
from sonde.runtime.jobs import JobRecord, JobStore
from sonde.runtime.processes import name_process
from sonde.stores.disk.base import DiskIndex, ResourceSet, SavedQuery, ShellSession
from sonde.stores.disk.sqlite import SavedStore
from sonde.stores.jobs import SqliteJobStore


@pytest.fixture
def open_saved(tmp_path: Path) -> Callable[..., SavedStore]:
    return partial(SavedStore, tmp_path / "files.db")


@pytest.fixture
def saved(open_saved: Callable[[], SavedStore]) -> Iterator[SavedStore]:
    opened = open_saved()
    yield opened
    opened.close()


@pytest.fixture
def open_jobs(tmp_path: Path) -> Callable[..., JobStore]:
    return partial(SqliteJobStore, tmp_path / "jobs.db")


@pytest.fixture
def jobs(open_jobs: Callable[..., JobStore]) -> Iterator[JobStore]:
    opened = open_jobs()
    yield opened
    opened.close()


def test_everything_comes_back_as_it_was_also_after_a_restart(
    open_saved: Callable[[], SavedStore],
) -> None:
    session = ShellSession("s", "anna", "/a/caf\udce9", "i", "/b", {"units": "iec"}, 5)
    index = DiskIndex("i", "anna", "/a\udcff", 3, follow_symlinks=True, created_ms=1, job="j")
    made = ResourceSet("r", "anna", "i", "a 'name'; DROP TABLE sets", 2)
    query = SavedQuery("q", "anna", "i", "n", "size>1", 3, 4, "r")
    first = open_saved()
    first.put(session)
    first.put(index)
    first.put(made)
    first.put(query)
    first.close()
    again = open_saved()
    assert again.get(ShellSession, "s", "anna") == session
    assert again.get(DiskIndex, "i", "anna") == index
    assert again.get(ResourceSet, "r", "anna") == made
    assert again.get(SavedQuery, "q", "anna") == query
    again.close()


def test_nobody_sees_or_removes_what_another_owns(saved: SavedStore) -> None:
    saved.put(ShellSession("s", "anna"))
    saved.put(DiskIndex("i", "anna", "/a"))
    saved.put(ResourceSet("r", "anna", "i", ""))
    saved.put(SavedQuery("q", "anna", "i", "", ""))
    assert saved.get(ShellSession, "s", "ben") is None
    assert saved.get(DiskIndex, "i", "ben") is None
    assert saved.get(ResourceSet, "r", "ben") is None
    assert saved.get(SavedQuery, "q", "ben") is None
    for kind in (DiskIndex, ResourceSet, SavedQuery):
        assert saved.newest(kind, "ben") == []
    assert not saved.delete(ResourceSet, "r", "ben")
    assert not saved.delete(SavedQuery, "q", "ben")
    assert not saved.delete(DiskIndex, "i", "ben")
    assert saved.get(ResourceSet, "r", "anna")
    assert saved.delete(DiskIndex, "i", "anna")
    assert saved.get(ResourceSet, "r", "anna") is None
    assert saved.get(SavedQuery, "q", "anna") is None


def test_lists_are_newest_first_and_go_on_after_a_row(saved: SavedStore) -> None:
    for number in range(7):
        saved.put(ResourceSet(f"r{number}", "anna", "i", "", number // 2))
    seen: list[str] = []
    after = None
    while rows := saved.newest(ResourceSet, "anna", 3, after):
        seen += [row.id for row in rows]
        after = (-rows[-1].created_ms, rows[-1].id)
    assert seen == ["r6", "r4", "r5", "r2", "r3", "r0", "r1"]


def test_sessions_are_bounded(open_saved: Callable[..., SavedStore]) -> None:
    saved = open_saved(max_sessions=3)
    for number in range(6):
        saved.put(ShellSession(f"s{number}", "anna", updated_ms=number))
    kept = [bool(saved.get(ShellSession, f"s{n}", "anna")) for n in range(6)]
    assert kept == [False] * 3 + [True] * 3
    saved.close()


@pytest.mark.row("002-57")
def test_queries_without_a_name_are_not_listed_and_bounded(
    open_saved: Callable[..., SavedStore],
) -> None:
    saved = open_saved(max_unnamed=2)
    saved.put(SavedQuery("named", "anna", "i", "mine", "ext:md"))
    for number in range(5):
        saved.put(SavedQuery(f"q{number}", "anna", "i", "", "ext:py", created_ms=number))
    assert [row.id for row in saved.newest(SavedQuery, "anna", named=True)] == ["named"]
    assert [row.id for row in saved.newest(SavedQuery, "anna")] == ["q4", "q3", "named"]
    saved.close()


def test_a_job_is_updated_in_place_and_its_end_can_be_asked_for(jobs: JobStore) -> None:
    record = JobRecord("j", "scan", "running", 1, process=name_process(), updated_ms=1)
    assert jobs.put(record) is False
    assert jobs.get("j") == record
    assert jobs.cancel("j")
    assert jobs.put(replace(record, done=5)) is True
    done = replace(record, status="done", finished_ms=9, report={"files": 3}, total=5)
    jobs.put(done)
    assert jobs.get("j") == done
    assert not jobs.cancel("j")
    assert jobs.get("other") is None


def test_a_job_whose_process_died_was_interrupted(jobs: JobStore) -> None:
    code = "from sonde.runtime.processes import name_process; print(name_process())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    process = told.stdout.strip()
    jobs.put(JobRecord("dead", "scan", "running", 1, process=process, updated_ms=7))
    jobs.put(JobRecord("alive", "scan", "running", 2, process=name_process(), updated_ms=7))
    jobs.put(JobRecord("reborn", "scan", "running", 3, process=f"{os.getpid()}:1", updated_ms=7))
    found = {record.id: record for record in jobs.recent(10)}
    assert found["dead"].status == "interrupted"
    assert found["dead"].finished_ms == 7
    assert found["reborn"].status == "interrupted"
    assert found["alive"].status == "running"


def test_history_is_pruned_but_never_what_runs(open_jobs: Callable[..., JobStore]) -> None:
    jobs = open_jobs(max_jobs=4)
    jobs.put(JobRecord("runs", "scan", "running", 0, process=name_process()))
    for number in range(1, 9):
        jobs.put(JobRecord(f"j{number}", "scan", "done", number, finished_ms=number))
    assert [record.id for record in jobs.recent(10)] == ["j8", "j7", "j6", "j5", "runs"]
    assert [r.id for r in jobs.recent(2, (-7, "j7"))] == ["j6", "j5"]
    jobs.close()


def test_files_of_others_and_of_later_versions_are_refused(tmp_path: Path) -> None:
    import apsw

    path = tmp_path / "jobs.db"
    SqliteJobStore(path).close()
    with pytest.raises(IndexCorrupt):
        SavedStore(path)
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 99)
    connection.close()
    with pytest.raises(IndexTooNew):
        SqliteJobStore(path)
