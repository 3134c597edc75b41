"""What the REST API tells of nodes and jobs beyond what the tools do."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from sonde.app import App
from sonde.runtime.work import Work
from sonde.tools.disk import read_detail, read_tree
from sonde.tools.index import list_jobs, read_job

from .conftest import scan


def test_a_node_leads_to_the_folder_above_it(app: App, disk: Path, work: Work) -> None:
    index = scan(app, disk)
    top = read_tree(app, index, work=work)
    inner = read_tree(app, index, path="src", work=work)
    assert (top["path"], inner["path"]) == ("", "src")
    detail = read_detail(app, index, inner["parent"], work=work)
    assert (detail["name"], detail["depth"]) == ("src", 1)
    above = detail["parentUrl"].rpartition("/")[2]
    assert "parentUrl" not in read_detail(app, index, above, work=work)


def test_a_job_that_has_ended_says_when(app: App, disk: Path, work: Work) -> None:
    scan(app, disk)
    (row,) = list_jobs(app, work=work)["jobs"]
    job = read_job(app, row["jobId"], work=work)
    assert datetime.fromisoformat(job["finishedAt"]) >= datetime.fromisoformat(job["startedAt"])
