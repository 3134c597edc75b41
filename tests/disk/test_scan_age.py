"""What answers say about the age of a scan, and what they link to."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sonde.app import App
from sonde.errors import InvalidRequest, NodeMissing, UnknownArgument
from sonde.runtime.work import Work
from sonde.stores.disk.base import DiskIndex
from sonde.tools import ROUTES, TOOLS
from sonde.tools.disk import cd, inspect, read_session, scan_folder
from sonde.tools.index import job_progress
from sonde.tools.route import find_route
from sonde.tools.sets import query_get, query_list, query_run, resource_set_ops
from sonde.tools.tool import Tool, bind_arguments, find_tool
from sonde.types import Json

from .conftest import scan


def open_link(app: App, link: str, work: Work) -> Json:
    route, texts = find_route(ROUTES, link)
    answer: Json = route.call(app, **route.bind(texts), work=work)
    return answer


def states(answer: Json) -> dict[str, str]:
    return {row["name"]: row.get("state", "ok") for row in answer["entries"]}


@pytest.mark.row("002-77")
def test_a_listing_says_when_it_was_scanned_and_marks_what_is_gone(
    app: App, disk: Path, work: Work
) -> None:
    scan(app, disk)
    fresh = dict(cd(app, str(disk / "docs"), work=work))
    assert states(fresh) == {"copy.md": "ok", "guide.md": "ok"}
    assert "stale" not in fresh
    (disk / "docs" / "copy.md").unlink()
    (disk / "docs" / "guide.md").write_text("shorter")
    old = dict(cd(app, ".", work=work))
    assert states(old) == {"copy.md": "gone", "guide.md": "changed"}
    assert old["stale"] is True
    assert old["scannedAt"] == fresh["scannedAt"]
    assert inspect(app, path="copy.md", work=work)["state"] == "gone"
    assert inspect(app, path="guide.md", work=work)["state"] == "changed"
    scan(app, disk)
    again = dict(cd(app, ".", work=work))
    assert states(again) == {"guide.md": "ok"}
    assert "stale" not in again
    assert again["scannedAt"] >= old["scannedAt"]


@pytest.mark.row("002-77")
def test_a_new_name_makes_a_listing_stale_and_a_folder_that_went_is_gone(
    app: App, disk: Path, work: Work
) -> None:
    scan(app, disk)
    (disk / "src" / "new.py").write_text("x")
    listed = dict(cd(app, str(disk / "src"), work=work))
    assert listed["stale"] is True
    assert states(dict(cd(app, str(disk), work=work)))["src"] == "changed"
    assert inspect(app, path=str(disk / "src" / "new.py"), work=work)["state"] == "pending"
    shutil.rmtree(disk / "src")
    listed = dict(cd(app, str(disk / "src"), work=work))
    assert (listed["state"], listed["stale"]) == ("gone", True)
    assert set(states(listed).values()) == {"gone"}
    assert inspect(app, path=str(disk / "src"), work=work)["state"] == "gone"


@pytest.mark.row("002-77")
def test_what_links_lead_to_is_not_called_gone(app: App, disk: Path, work: Work) -> None:
    (disk.parent / "beside").mkdir()
    (disk.parent / "beside" / "file").write_text("x")
    (disk / "out").symlink_to(disk.parent / "beside")
    scan(app, disk, follow=True)
    inner = dict(cd(app, str(disk / "out"), work=work))
    assert states(inner) == {"file": "ok"}
    assert "stale" not in inner
    assert not {"gone", "changed"} & set(states(dict(cd(app, str(disk), work=work))).values())


@pytest.mark.row("002-61", "002-8", "002-7")
def test_every_handle_has_a_link_to_what_it_names(app: App, disk: Path, work: Work) -> None:
    scan(app, disk)
    here = cd(app, str(disk / "src"), work=work)
    session = open_link(app, here["link"], work)
    for name in ("sessionId", "cwd", "breadcrumb", "indexId", "link"):
        assert session[name] == dict(here)[name]
    made = resource_set_ops(app, "create", node_ids=(here["entries"][0]["nodeId"],), work=work)
    assert open_link(app, made["link"], work) == made
    (card,) = resource_set_ops(app, "list", work=work)["sets"]
    assert card["link"] == made["link"]
    ran = query_run(app, "ext:py", name="python", work=work)
    run = open_link(app, ran["link"], work)
    assert (run["queryId"], run["selectionId"]) == (ran["queryId"], ran["selectionId"])
    assert run["link"] == ran["link"]
    (query,) = query_list(app, work=work)["queries"]
    assert open_link(app, query["link"], work)["filter"] == "ext:py"
    assert query_get(app, ran["queryId"], work=work)["link"] == query["link"]


@pytest.mark.row("002-8")
def test_a_session_in_no_tree_has_an_empty_breadcrumb(app: App, disk: Path, work: Work) -> None:
    index = scan(app, disk)
    here = cd(app, str(disk), work=work)["sessionId"]
    assert read_session(app, here, work=work)["indexId"] == index
    app.disk.saved.delete(DiskIndex, index, "local")
    left = read_session(app, here, work=work)
    assert (left["indexId"], left["breadcrumb"]) == (None, [])


@pytest.mark.row("002-9", "002-44", "002-64")
def test_progress_and_reports_lead_to_aggregates(app: App, disk: Path, work: Work) -> None:
    started = scan_folder(app, str(disk), work=work)
    scan(app, disk)
    told = job_progress(app, started["jobId"], work=work)
    index = open_link(app, told["indexUrl"], work)
    assert (index["indexId"], index["job"]["status"]) == (started["indexId"], "done")
    assert index["files"] == told["report"]["files"] == 5
    assert index["scans"]
    cd(app, str(disk), work=work)
    ran = query_run(app, "kind:file", work=work)
    for link in (told["reportsUrl"], str(ran["report"]["reportsUrl"])):
        reports = {row["report"]: row["link"] for row in open_link(app, link, work)["reports"]}
        rows = open_link(app, reports["largest"], work)["rows"]
        assert rows[0]["name"] in ("copy.md", "guide.md")


@pytest.mark.row("002-57")
def test_filters_without_a_name_run_and_are_not_listed(
    open_app: Callable[[], App], disk: Path, work: Work
) -> None:
    app = open_app()
    scan(app, disk)
    cd(app, str(disk), work=work)
    first = query_run(app, "ext:md", work=work)
    assert query_run(app, "ext:md", work=work)["queryId"] == first["queryId"]
    assert query_list(app, work=work)["queries"] == []
    assert query_get(app, first["queryId"], work=work)["name"] == "ext:md"
    named = query_run(app, "ext:md", name="papers", work=work)
    assert named["queryId"] == first["queryId"], "a name keeps the query that is there"
    (card,) = query_list(app, work=work)["queries"]
    assert (card["name"], card["filterSummary"]) == ("papers", "ext:md")
    other = query_run(app, "ext:py", work=work)
    query_run(app, query_id=other["queryId"], name="sources", work=work)
    assert [row["name"] for row in query_list(app, work=work)["queries"]] == ["sources", "papers"]


@pytest.mark.row("002-21")
def test_a_set_can_be_renamed(app: App, disk: Path, work: Work) -> None:
    scan(app, disk)
    node = inspect(app, path=str(disk / "src" / "main.py"), work=work)["nodeId"]
    made = resource_set_ops(app, "create", node_ids=(str(node),), name="old", work=work)
    renamed = resource_set_ops(app, "rename", made["selectionId"], name="new", work=work)
    assert renamed == made | {"name": "new"}
    assert resource_set_ops(app, "get", made["selectionId"], work=work)["name"] == "new"


@pytest.mark.row("002-54")
@pytest.mark.parametrize("tool", [*TOOLS], ids=lambda tool: tool.name)
def test_the_nearest_name_is_offered_for_an_argument_that_is_not_there(tool: Tool) -> None:
    for argument in tool.arguments:
        for wrong in (f"{argument.name}eration", f"the_{argument.name}", argument.name[:-1]):
            with pytest.raises(UnknownArgument) as caught:
                bind_arguments(tool, {wrong: "x"})
            assert "Did you mean `" in caught.value.next_action


@pytest.mark.row("002-54")
@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("operation", "op"),
        ("selection", "selection_id"),
        ("ids", "node_ids"),
        ("nodes", "node_ids"),
    ],
)
def test_a_word_that_means_an_argument_leads_to_it(wrong: str, meant: str) -> None:
    tool = next(tool for tool in TOOLS if tool.name == "resource_set_ops")
    with pytest.raises(UnknownArgument) as caught:
        bind_arguments(tool, {wrong: "create"})
    assert caught.value.next_action == f"Did you mean `{meant}`?"


@pytest.mark.row("002-26", "002-33", "002-34", "002-46")
@pytest.mark.parametrize(
    ("name", "given"),
    [
        *(("cd", {"limit": wrong}) for wrong in (0, -1, 21, "5", 3.5, True)),
        *(("index", {"root": ".", "depthLimit": wrong}) for wrong in (0, -1, 10_001)),
        ("inspect", {}),
        ("inspect", {"path": ".", "nodeId": "x.1"}),
    ],
)
def test_what_is_out_of_bounds_is_refused(
    app: App, disk: Path, work: Work, name: str, given: Json
) -> None:
    scan(app, disk)
    cd(app, str(disk), work=work)
    tool = find_tool(TOOLS, name)
    with pytest.raises(InvalidRequest):
        tool.call(app, **bind_arguments(tool, given), work=work)


@pytest.mark.row("002-33")
def test_only_folders_are_scanned(app: App, disk: Path, work: Work) -> None:
    for name in ("src/main.py", "nowhere"):
        with pytest.raises(NodeMissing):
            scan_folder(app, str(disk / name), work=work)


@pytest.mark.row("002-38")
def test_a_folder_is_scanned_by_one_job_at_a_time(app: App, disk: Path, work: Work) -> None:
    known = scan(app, disk)
    with app.disk.lock(known).held(Work()):  # so the next scan waits, and runs
        first = scan_folder(app, str(disk), work=work)
        second = scan_folder(app, str(disk), work=work)
    assert (first["jobId"], first["indexId"]) == (second["jobId"], second["indexId"])
    assert first["indexId"] == known
