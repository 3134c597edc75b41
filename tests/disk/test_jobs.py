"""Jobs outlive the call, the connection and the process that started them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.waiting import wait_until

from sonde.app import App
from sonde.errors import DiskFull, HandleUnknown
from sonde.projects.find import find_job
from sonde.runtime.work import Work
from sonde.tools.disk import cd, scan_folder
from sonde.tools.index import create_index, job_progress, list_jobs
from sonde.tools.sets import resource_set_ops
from sonde.types import Caller, Progress

from .conftest import BOUND_S, scan

SLOW_SCAN = """
import sys, time
from pathlib import Path
from sonde.settings import load_settings
from sonde.wiring import build_app
from sonde.types import Progress
app = build_app(load_settings({}, home=Path(sys.argv[1])), start=Path(sys.argv[2]), stays=True)
def work_on(work):
    number = 0
    while True:
        number += 1
        work.report(Progress("waiting", min(number, 90), 100, eta_s=5.0))
        time.sleep(0.02)
job = app.workspace.jobs.submit("slow", "scan", work_on, owner="local", subject="x", lasting=True)
print(job.id, flush=True)
job.wait()
print(job.status, flush=True)
"""


MANY_CALLS = """
import sys
from pathlib import Path
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.tools.disk import cd, inspect
from sonde.tools.sets import query_run, resource_set_ops
from sonde.wiring import build_app
disk, work = sys.argv[2], Work()
app = build_app(load_settings({}, home=Path(sys.argv[1]), embedding="none"), start=Path(disk))
for number in range(20):
    listed = cd(app, disk, work=work)
    inspect(app, path=f"{disk}/src", work=work)
    query_run(app, f"size>{number}", work=work)
    node = next(row["nodeId"] for row in listed["entries"] if row["name"] == "src")
    resource_set_ops(app, "add", sys.argv[3], (node,), work=work)
app.close()
"""


def start_elsewhere(home: Path, disk: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_SCAN, str(home), str(disk)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    return process, process.stdout.readline().strip()


@pytest.mark.row("002-39", "002-42")
def test_another_process_follows_and_stops_a_job(app: App, disk: Path, work: Work) -> None:
    process, handle = start_elsewhere(app.workspace.home, disk)
    try:
        wait_until(lambda: "progressPct" in job_progress(app, handle, work=work))
        answer = job_progress(app, handle, work=work)
        assert answer["status"] == "running"
        assert 0 < answer["progressPct"] < 100
        assert answer["eta"] == 5
        assert answer["indexId"] == "x"
        scan_folder(app, cancel=handle, work=work)
        assert process.stdout
        assert process.stdout.readline().strip() == "cancelled"
        assert job_progress(app, handle, work=work)["status"] == "cancelled"
    finally:
        process.kill()
        process.communicate()


@pytest.mark.row("002-39")
def test_a_job_whose_process_is_killed_is_interrupted(app: App, disk: Path, work: Work) -> None:
    process, handle = start_elsewhere(app.workspace.home, disk)
    assert job_progress(app, handle, work=work)["status"] == "running"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert job_progress(app, handle, work=work)["status"] == "interrupted"


def test_indexing_is_a_job_like_any_other(open_app: Callable[[], App], disk: Path) -> None:
    app = open_app()
    (disk / "pyproject.toml").write_text("")
    create_index(app, str(disk), work=Work(ask=lambda _question: True))
    job = app.workspace.jobs.find(f"index:{disk}")
    assert job
    answer = job_progress(app, job.id, work=Work(caller=Caller("anybody")))
    assert answer["status"] == "done"
    assert answer["report"]["filesIndexed"] > 0


@pytest.mark.row("002-3", "002-5", "002-18", "002-43", "002-68")
def test_what_came_of_a_job_is_there_after_a_restart(
    open_app: Callable[[], App], disk: Path, work: Work
) -> None:
    app = open_app()
    handle = scan_folder(app, str(disk), work=work)["jobId"]
    wait_until(lambda: job_progress(app, handle, work=work)["status"] == "done")
    told = job_progress(app, handle, work=work)
    app.close()
    assert job_progress(open_app(), handle, work=work) == told
    assert told["progressPct"] == 100.0
    assert told["report"]["files"] == 5


def test_a_moment_of_work_leaves_no_record_but_a_failure_does(app: App) -> None:
    quick = app.workspace.jobs.submit("quick", "refresh", lambda _work: 1)
    assert quick.wait(timeout_s=BOUND_S)

    def fill(_work: Work) -> None:
        raise DiskFull("full")

    failed = app.workspace.jobs.submit("bad", "index", fill)
    assert failed.wait(timeout_s=BOUND_S)
    assert [record.id for record in app.workspace.jobs.recent(10)] == [failed.id]
    assert find_job(app.workspace, quick.id).status == "done"
    report = job_progress(app, failed.id, work=Work())["report"]
    assert report["code"] == "DISK_FULL"


@pytest.mark.row("002-41", "002-71")
def test_nobody_sees_another_users_job(app: App, disk: Path) -> None:
    anna, ben = Work(caller=Caller("anna")), Work(caller=Caller("ben"))
    handle = scan_folder(app, str(disk), work=anna)["jobId"]
    with pytest.raises(HandleUnknown) as foreign:
        job_progress(app, handle, work=ben)
    with pytest.raises(HandleUnknown) as missing:
        job_progress(app, handle[::-1], work=ben)
    assert foreign.value.user_message.replace(handle, "X") == missing.value.user_message.replace(
        handle[::-1], "X"
    )
    with pytest.raises(HandleUnknown):
        scan_folder(app, cancel=handle, work=ben)


def test_a_home_that_cannot_be_written_costs_the_record_not_the_work(app: App) -> None:
    app.workspace.home.mkdir(parents=True, exist_ok=True)
    (app.workspace.home / "files").write_text("in the way")
    job = app.workspace.jobs.submit(
        "k", "scan", lambda work: work.report(Progress("x", 1)), lasting=True
    )
    assert job.wait(timeout_s=BOUND_S)
    assert job.status == "done"
    assert [record.id for record in app.workspace.jobs.recent(5)] == [job.id]


def test_the_command_line_lists_and_stops_jobs(app: App, disk: Path) -> None:
    process, handle = start_elsewhere(app.workspace.home, disk)
    environ = {**os.environ, "SONDE_HOME": str(app.workspace.home)}

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sonde.cli.main", "jobs", *args]
        return subprocess.run(command, env=environ, capture_output=True, text=True)

    try:
        listed = json.loads(run("--json").stdout)["jobs"]
        assert [(job["jobId"], job["status"]) for job in listed] == [(handle, "running")]
        assert run("--stop", handle).returncode == 0
        assert process.stdout
        assert process.stdout.readline().strip() == "cancelled"
        assert "cancelled" in run().stdout
        assert run("--stop", "nothing").returncode == 2
    finally:
        process.kill()
        process.communicate()


def test_jobs_of_others_take_no_room_in_a_list(app: App, disk: Path) -> None:
    anna, ben = Work(caller=Caller("anna")), Work(caller=Caller("ben"))
    mine = scan_folder(app, str(disk), work=anna)["jobId"]
    for _ in range(3):
        handle = scan_folder(app, str(disk), work=ben)["jobId"]
        wait_until(lambda handle=handle: app.workspace.jobs.look_up(handle).status == "done")
    page = list_jobs(app.seen_by(anna.caller), 1, work=anna)
    assert [row["jobId"] for row in page["jobs"]] == [mine]
    assert page["nextPageUrl"] is None


@pytest.mark.row("002-72")
def test_processes_read_and_collect_while_another_scans(app: App, disk: Path, work: Work) -> None:
    scan(app, disk)
    cd(app, str(disk), work=work)
    made = resource_set_ops(app, "create", name="shared", work=work)["selectionId"]
    command = [sys.executable, "-c", MANY_CALLS, str(app.workspace.home), str(disk), made]
    others = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    while any(process.poll() is None for process in others):
        with (disk / "src" / "growing.txt").open("a") as file:
            file.write("x")
        scan(app, disk)
    for process in others:
        assert process.communicate()[1] == ""
        assert process.returncode == 0
    assert resource_set_ops(app, "get", made, work=work)["counts"]["entries"] == 1
