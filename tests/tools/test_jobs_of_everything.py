"""Whatever takes long is a job: told while it runs, kept with its report, stopped by its handle."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.trees import write_files

from sonde.app import App
from sonde.disk.indexes import read_root, start_scan
from sonde.errors import Cancelled, InvalidRequest
from sonde.knowledge.editing import add_entry, import_knowledge, restore_knowledge, write_knowledge
from sonde.projects.find import indexed_project
from sonde.projects.maintenance import check_now, convert_store, flush_index
from sonde.projects.views import export_chunks
from sonde.runtime.work import Work
from sonde.tools.index import (
    create_index,
    job_progress,
    list_jobs,
    read_job,
    read_progress,
    reindex_project,
    stop_job,
)
from sonde.types import Caller, Progress

BOUND_S = 30.0


@pytest.fixture
def app(open_app: Callable[..., App]) -> App:
    """An app whose project is indexed, and which records even the shortest jobs."""
    made = open_app(record_after_s=0.0)
    create_index(made, work=Work())
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "pyproject.toml": '[project]\nname = "shop"\n',
        "cart.py": "def total_price(items):\n    return sum(items)\n",
        "guide.md": "# Prices\n\nHow a price is made.\n",
    }
    return write_files(tmp_path / "shop", files)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    notes = {f"{n}.md": f"# Note {n}\n\nHow a price is made.\n" for n in range(3)}
    return write_files(tmp_path / "notes", notes)


def scan(app: App, place: Path, work: Work) -> None:
    start_scan(app.disk, work.caller, read_root(app.disk, str(place), str(place))).join(work)


def export_and_restore(app: App, place: Path, work: Work) -> None:
    target = place.with_suffix(".jsonl")
    import_knowledge(app.knowledge, str(place), work=work)
    assert write_knowledge(app.knowledge, target, work=work) == 3
    with target.open() as lines:
        assert restore_knowledge(app.knowledge, lines, name="all.jsonl", work=work) == 3


OPERATIONS: dict[str, Callable[[App, Path, Work], object]] = {
    "scan": scan,
    "index": lambda app, place, work: create_index(app, work=work),
    "index anew": lambda app, place, work: reindex_project(app, work=work),
    "index what waits": lambda app, place, work: flush_index(app.workspace, work=work),
    "check": lambda app, place, work: check_now(
        app.workspace, indexed_project(app.workspace), work
    ),
    "convert": lambda app, place, work: convert_store(app.workspace, "lance", work=work),
    "export": lambda app, place, work: export_chunks(app.workspace, str(place / "out"), work=work),
    "import": lambda app, place, work: import_knowledge(app.knowledge, str(place), work=work),
    "restore": export_and_restore,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_long_operation_is_a_job(app: App, notes: Path, name: str) -> None:
    told: list[Progress] = []
    caller = Caller()
    before = {job["jobId"] for job in list_jobs(app, work=Work(caller=caller))["jobs"]}
    (app.workspace.start / "new.py").write_text("def brand_new():\n    return 1\n")
    OPERATIONS[name](app, notes, Work(report=told.append, caller=caller))
    assert told, "the caller sees how far it is: a bar, or notifications of progress"
    rows = list_jobs(app, work=Work(caller=caller))["jobs"]
    fresh = [job for job in rows if job["jobId"] not in before]
    new = [job for job in fresh if job["kind"] == name.split(maxsplit=1)[0]]
    assert len(new) == 1
    work, key = Work(caller=caller), new[0]["jobId"]
    whole = read_job(app, key, work=work)
    assert (whole["status"], whole["progressPct"]) == ("done", 100.0)
    assert job_progress(app, key, work=work) == read_progress(app, key, work=work)
    if name != "convert":
        assert whole["report"], "what came of it is kept"
    stranger = Work(caller=Caller(user="somebody else"))
    if name in ("scan", "import", "restore"):
        seen = app.seen_by(stranger.caller)
        assert key not in {job["jobId"] for job in list_jobs(seen, work=stranger)["jobs"]}


@pytest.mark.parametrize("name", ["index", "check", "convert", "index what waits"])
def test_a_job_is_stopped_by_its_handle_wherever_it_waits(app: App, notes: Path, name: str) -> None:
    project = indexed_project(app.workspace)
    ended: list[BaseException] = []
    (project.root / "new.py").write_text("def brand_new():\n    return 1\n")

    def run() -> None:
        try:
            OPERATIONS[name](app, notes, Work())
        except Cancelled as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    with project.lock.held():
        thread.start()
        while not (running := [r for r in app.workspace.jobs.recent(5) if r.status == "running"]):
            assert thread.is_alive()
        stop_job(app, running[0].id, work=Work())
        thread.join(BOUND_S)
    assert len(ended) == 1
    record = app.workspace.jobs.look_up(running[0].id)
    assert record
    assert record.status == "cancelled"


def test_what_cannot_be_written_or_read_is_told_as_such(app: App, notes: Path) -> None:
    import_knowledge(app.knowledge, str(notes), work=Work())
    with pytest.raises(InvalidRequest) as refused:
        write_knowledge(app.knowledge, notes / "none" / "x.jsonl", work=Work())
    assert "cannot be written" in refused.value.user_message
    broken = notes / "broken.jsonl"
    broken.write_bytes(b'{"format": "sonde-knowledge-1"}\n' + b"\n" * 20_000 + b"\xff\xfe\n")
    with broken.open(encoding="utf-8") as lines, pytest.raises(InvalidRequest) as refused:
        restore_knowledge(app.knowledge, lines, name="broken.jsonl", work=Work())
    assert "'broken.jsonl' cannot be read" in refused.value.user_message


def test_an_export_that_fails_leaves_the_one_before(app: App, notes: Path, tmp_path: Path) -> None:
    import_knowledge(app.knowledge, str(notes), work=Work())
    target = tmp_path / "all.jsonl"
    write_knowledge(app.knowledge, target, work=Work())
    before = target.read_text("utf-8")
    add_entry(app.knowledge, "notes", "more", "words " * 50_000, work=Work())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))  # as a disk that is full
    try:
        with pytest.raises(InvalidRequest):
            write_knowledge(app.knowledge, target, work=Work())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert target.read_text("utf-8") == before
    assert [path.name for path in tmp_path.iterdir() if "jsonl" in path.name] == [target.name]
