"""Resource sets, saved queries and reports through the tools."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from sonde.app import App
from sonde.disk.reports import REPORTS
from sonde.errors import (
    ConfirmationRequired,
    HandleUnknown,
    IndexNotFound,
    InvalidPattern,
    InvalidRequest,
    NotScanned,
)
from sonde.runtime.work import Work
from sonde.tools import TOOLS
from sonde.tools.disk import cd, inspect, read_report_page
from sonde.tools.index import create_index
from sonde.tools.sets import (
    change_entries,
    make_set,
    query_get,
    query_list,
    query_run,
    read_set,
    resource_set_ops,
)
from sonde.tools.tool import bind_arguments, find_tool
from sonde.types import Caller

from .conftest import scan

YES = Work(caller=Caller(session="a connection"), ask=lambda _question: True)


def find_names(app: App, text: str, work: Work) -> set[str]:
    answer = query_run(app, text, work=work)
    assert answer["report"]["matches"] == len(answer["report"]["sample"])
    return {row["name"] for row in answer["report"]["sample"]}


def node_ids(app: App, disk: Path, *paths: str, work: Work) -> list[str]:
    found = [inspect(app, path=str(disk / path), work=work)["nodeId"] for path in paths]
    return [node for node in found if node]


@pytest.fixture
def here(app: App, disk: Path, work: Work) -> str:
    """The disk is scanned and the session is in it; the handle of its index."""
    index = scan(app, disk)
    cd(app, str(disk), work=work)
    return index


@pytest.mark.row("002-19", "002-50", "002-53", "002-55")
def test_sets_are_made_of_handles_and_answer_with_the_documents_fields(
    app: App, disk: Path, here: str, work: Work
) -> None:
    nodes = node_ids(app, disk, "src/main.py", "docs/guide.md", work=work)
    made = resource_set_ops(app, "create", node_ids=tuple(nodes), name="mine", work=work)
    assert list(made) == [
        "selectionId", "name", "indexId", "counts", "totalSize", "entriesUrl", "link", "sample",
    ]  # fmt: skip
    assert made["name"] == "mine"
    assert made["indexId"] == here
    assert made["counts"] == {"entries": 2, "files": 2, "folders": 0}
    assert made["totalSize"] == 1500 + 3009
    assert made["entriesUrl"] == f"sonde://resource-sets/{made['selectionId']}/entries"
    assert [list(row) for row in made["sample"]] == [["nodeId", "name", "size", "link"]] * 2
    handle = made["selectionId"]
    more = node_ids(app, disk, "src", work=work)
    added = resource_set_ops(app, "add", handle, tuple(more), work=work)
    assert added["totalSize"] == 1507 + 3009
    assert resource_set_ops(app, "remove", handle, tuple(more), work=work) == made
    assert resource_set_ops(app, "get", handle, work=work) == made


@pytest.mark.row("002-69")
def test_sets_combine_into_new_ones(app: App, disk: Path, here: str, work: Work) -> None:
    a, b, c = node_ids(app, disk, "src/main.py", "docs/guide.md", ".env", work=work)
    first = resource_set_ops(app, "create", node_ids=(a, b), name="first", work=work)
    second = resource_set_ops(app, "create", node_ids=(b, c), name="second", work=work)
    for op, nodes in (("union", {a, b, c}), ("intersection", {b}), ("difference", {a})):
        made = resource_set_ops(
            app, op, first["selectionId"], other=second["selectionId"], work=work  # type: ignore[arg-type]
        )  # fmt: skip
        assert {row["nodeId"] for row in made["sample"]} == nodes
        assert made["name"] == f"first {op} second"
    assert resource_set_ops(app, "get", first["selectionId"], work=work) == first


@pytest.mark.row("002-55")
def test_entries_that_changed_or_went_are_marked(
    app: App, disk: Path, here: str, work: Work
) -> None:
    nodes = node_ids(app, disk, "src/main.py", "docs/guide.md", ".env", work=work)
    made = resource_set_ops(app, "create", node_ids=tuple(nodes), work=work)
    (disk / "src" / "main.py").write_text("shorter")
    (disk / "docs" / "guide.md").unlink()
    scan(app, disk)
    now = resource_set_ops(app, "get", made["selectionId"], work=work)
    stale = {row["name"]: row.get("stale") for row in now["sample"]}
    assert stale == {"main.py": "changed", "guide.md": "gone", ".env": None}
    assert now["counts"]["stale"] == 2
    assert now["totalSize"] == 7 + 8


@pytest.mark.row("002-52")
def test_a_set_is_deleted_only_with_consent(app: App, disk: Path, here: str, work: Work) -> None:
    made = resource_set_ops(app, "create", name="mine", work=work)["selectionId"]
    with pytest.raises(ConfirmationRequired) as asked:
        resource_set_ops(app, "delete", made, work=work)
    token = asked.value.facts["token"]
    other = resource_set_ops(app, "create", work=work)["selectionId"]
    with pytest.raises(ConfirmationRequired):
        resource_set_ops(app, "delete", other, confirm=token, work=work)
    told = resource_set_ops(app, "delete", made, confirm=token, work=work)
    assert told == {"selectionId": made, "status": "deleted"}
    with pytest.raises(HandleUnknown):
        resource_set_ops(app, "get", made, work=work)
    resource_set_ops(app, "delete", other, work=YES)
    assert resource_set_ops(app, "list", work=work) == {"sets": [], "nextPageUrl": None}


@pytest.mark.row("002-53", "002-71")
def test_what_is_missing_or_foreign_is_told(app: App, disk: Path, here: str, work: Work) -> None:
    node = node_ids(app, disk, "src", work=work)[0]
    made = resource_set_ops(app, "create", node_ids=(node,), work=work)["selectionId"]
    with pytest.raises(InvalidRequest):
        resource_set_ops(app, "get", work=work)
    with pytest.raises(InvalidRequest):
        resource_set_ops(app, "add", made, work=work)
    for bad in (f"{here}.zzz", "other000.1", "junk"):
        with pytest.raises(HandleUnknown):
            resource_set_ops(app, "add", made, (bad,), work=work)
    ben = Work(caller=Caller("ben"))
    with pytest.raises(HandleUnknown):
        resource_set_ops(app, "get", made, work=ben)
    with pytest.raises(HandleUnknown):
        resource_set_ops(app, "create", node_ids=(node,), work=ben)
    assert resource_set_ops(app, "list", work=ben)["sets"] == []


@pytest.mark.row("002-51", "002-70")
def test_sets_are_listed_in_pages(app: App, here: str, work: Work) -> None:
    made = [
        resource_set_ops(app, "create", name=f"n{n}", work=work)["selectionId"] for n in range(25)
    ]
    seen: list[str] = []
    cursor = None
    while True:
        page = resource_set_ops(app, "list", cursor=cursor, work=work)
        seen += [card["selectionId"] for card in page["sets"]]
        cursor = page["nextPageUrl"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(made)
    assert len(seen) == 25


@pytest.mark.row("002-74")
def test_the_documents_own_names_of_the_operations_work(
    app: App, disk: Path, here: str, work: Work
) -> None:
    node = node_ids(app, disk, "src", work=work)[0]

    def call(tool_name: str, /, **arguments: object) -> dict[str, object]:
        tool = find_tool(TOOLS, tool_name)
        answer: dict[str, object] = tool.call(app, **bind_arguments(tool, arguments), work=YES)
        return answer

    made = call("resource-set-create", nodeIds=[node], name="x")["selectionId"]
    assert call("resource-set-get", selectionId=made)["name"] == "x"
    call("resource-set-remove", selectionId=made, nodeIds=[node])
    call("resource-set-add", selectionId=made, nodeIds=[node])
    assert call("resource-set-list")["sets"]
    assert call("resource-set-delete", selectionId=made)["status"] == "deleted"


@pytest.mark.row("002-56")
def test_queries_find_by_metadata(app: App, disk: Path, here: str, work: Work) -> None:
    os.utime(disk / "docs" / "copy.md", (1_000_000_000, 1_000_000_000))
    scan(app, disk)
    assert find_names(app, "ext:md", work) == {"guide.md", "copy.md"}
    assert find_names(app, "ext:md age>30d", work) == {"copy.md"}
    assert find_names(app, "modified<2002-01-01 kind:file", work) == {"copy.md"}
    assert find_names(app, "size>2KB kind:file not name:copy*", work) == {"guide.md"}
    assert find_names(app, "path:src/** kind:file", work) == {"main.py", "note.txt"}
    assert find_names(app, 'name~"^(main|note)"', work) == {"main.py", "note.txt"}
    assert find_names(app, "under:src/deep or is:hidden", work) == {"note.txt", ".env"}
    assert find_names(app, "is:empty", work) == {"empty"}
    assert find_names(app, "depth=1 kind:symlink", work) == {"link"}
    assert query_run(app, "", work=work)["report"]["matches"] == 10
    with pytest.raises(InvalidPattern):
        query_run(app, 'name~"("', work=work)
    with pytest.raises(InvalidPattern):
        query_run(app, "size>", work=work)


@pytest.mark.row("002-14", "002-56")
def test_queries_find_copies_by_their_contents(app: App, disk: Path, here: str, work: Work) -> None:
    (disk / "same size.md").write_bytes(b"z" * (disk / "docs" / "copy.md").stat().st_size)
    (disk / ".env.copy").write_text("TOKEN=x\n")
    scan(app, disk)
    assert find_names(app, "is:duplicate", work) == {"guide.md", "copy.md"}
    digest = inspect(app, path=str(disk / "docs" / "copy.md"), work=work)["digest"]
    assert digest.startswith("sha256:")
    assert "digest" not in inspect(app, path=str(disk / ".env"), work=work)
    (disk / "docs" / "copy.md").write_text("different now")
    scan(app, disk)
    assert find_names(app, "is:duplicate", work) == set()


def test_queries_find_by_our_own_searches(app: App, disk: Path, here: str, work: Work) -> None:
    assert find_names(app, 'content~"^print"', work) == {"main.py"}
    with pytest.raises(IndexNotFound):
        query_run(app, "lexical:guide", work=work)
    (disk / "pyproject.toml").write_text("")
    create_index(app, str(disk), work=YES)
    assert find_names(app, "lexical:guide ext:md", work) == {"guide.md", "copy.md"}
    assert find_names(app, "hybrid:hello not ext:md", work) == {"main.py"}


@pytest.mark.row("002-3", "002-22", "002-24", "002-56", "002-57", "002-58")
def test_a_query_is_saved_once_and_runs_into_the_same_set(
    open_app: Callable[[], App], disk: Path
) -> None:
    app, work = open_app(), Work(caller=Caller(session="c"))
    scan(app, disk)
    cd(app, str(disk), work=work)
    first = query_run(app, "ext:md", name="papers", work=work)
    assert list(first) == ["queryId", "selectionId", "sampleUrl", "link", "report"]
    (disk / "third.md").write_text("x")
    scan(app, disk)
    app.close()
    app = open_app()
    again = query_run(app, query_id=first["queryId"], work=Work())
    assert (again["queryId"], again["selectionId"]) == (first["queryId"], first["selectionId"])
    assert again["report"]["matches"] == 3
    card = query_get(app, first["queryId"], work=Work())
    assert {"queryId", "name", "filterSummary", "lastExecutedAt", "runUrl", "link"} <= set(card)
    assert (card["name"], card["filterSummary"]) == ("papers", "ext:md")
    listed = query_list(app, work=Work())["queries"]
    assert [list(row) for row in listed] == [
        ["queryId", "name", "filterSummary", "lastExecutedAt", "runUrl", "link"]
    ]
    with pytest.raises(HandleUnknown):
        query_get(app, first["queryId"], work=Work(caller=Caller("ben")))
    with pytest.raises(InvalidRequest):
        query_run(app, "ext:md", first["queryId"], work=Work())


def test_the_same_from_python(disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sonde

    monkeypatch.setenv("SONDE_HOME", str(tmp_path / "home"))
    with pytest.raises(NotScanned):
        sonde.select("ext:md", disk)
    stages: list[str] = []
    report = sonde.scan(disk, report=lambda progress: stages.append(progress.stage))
    assert report.files == 5
    assert "scanning" in stages
    assert {row.path for row in sonde.select("ext:md", disk)} == {"docs/guide.md", "docs/copy.md"}
    assert [row.path for row in sonde.select("kind:file", disk, limit=1)] == ["docs/copy.md"]


@pytest.mark.row("002-63", "002-70")
def test_every_report_pages_without_gap_or_repeat(
    app: App, disk: Path, here: str, work: Work
) -> None:
    (disk / "second empty").mkdir()
    scan(app, disk)
    (disk / "src" / "main.py").write_text("x" * 9000)
    (disk / "new.bin").write_bytes(b"b" * 500)
    scan(app, disk)
    for report in REPORTS:
        seen: list[str] = []
        cursor: str | None = None
        while True:
            page = read_report_page(app, here, report, 1, cursor, "0d", work=work)
            seen += [str(row) for row in page["rows"]]
            if page["nextPageUrl"] is None:
                break
            cursor = page["nextPageUrl"].partition("cursor=")[2]
        assert len(seen) == len(set(seen)), report
        whole = read_report_page(app, here, report, 100, None, "0d", work=work)
        assert [str(row) for row in whole["rows"]] == seen, report
        explained = read_report_page(app, here, report, 5, format="explain", work=work)
        assert explained["plan"], report
    with pytest.raises(InvalidRequest):
        read_report_page(app, here, "nothing", 1, work=work)


def test_reports_say_what_grew_and_what_is_double(
    app: App, disk: Path, here: str, work: Work
) -> None:
    assert read_report_page(app, here, "growth", 5, work=work)["rows"] == []
    (disk / "src" / "main.py").write_text("x" * 9000)
    (disk / "docs" / "guide.md").unlink()
    scan(app, disk)
    rows = read_report_page(app, here, "growth", 50, work=work)["rows"]
    by_name = {row["name"]: row["growth"] for row in rows}
    assert by_name["main.py"] == 7500
    assert by_name["src"] == 7500
    assert by_name["guide.md"] == -3009
    assert by_name["docs"] == -3009
    assert next(row for row in rows if row["name"] == "guide.md")["state"] == "gone"
    (disk / "docs" / "guide.md").write_text((disk / "docs" / "copy.md").read_text())
    scan(app, disk)
    copies = read_report_page(app, here, "duplicates", 5, work=work)
    assert copies["complete"] is True
    assert [(row["copies"], row["wasted"]) for row in copies["rows"]] == [(2, 3009)]
    assert {entry["path"] for entry in copies["rows"][0]["entries"]} == {
        "docs/copy.md", "docs/guide.md",
    }  # fmt: skip


@pytest.mark.row("002-50")
def test_a_set_of_nodes_that_are_not_there_is_not_made(
    app: App, disk: Path, here: str, work: Work
) -> None:
    (good,) = node_ids(app, disk, "src", work=work)
    for bad in ("nothing", f"{here}.999999", "elsewhere.1"):
        with pytest.raises(HandleUnknown):
            resource_set_ops(app, "create", node_ids=(good, bad), name="half", work=work)
    assert resource_set_ops(app, "list", work=work)["sets"] == []


@pytest.mark.row("002-53")
def test_a_change_of_a_set_is_made_whole_or_not_at_all(
    app: App, disk: Path, here: str, work: Work
) -> None:
    first, second = node_ids(app, disk, "src", "docs", work=work)
    made = make_set(app, "mine", (first,), work=work)
    with pytest.raises(HandleUnknown):
        change_entries(app, made["selectionId"], (second,), ("elsewhere.1",), work=work)
    assert read_set(app, made["selectionId"], work=work) == made


def test_the_next_page_of_growth_keeps_the_moment_as_it_was_given(
    app: App, disk: Path, here: str, work: Work
) -> None:
    (disk / "src" / "main.py").write_text("x" * 9000)
    (disk / "new.bin").write_bytes(b"b" * 500)
    scan(app, disk)
    moment = "2026-01-31T00:00:00+00:00"
    page = read_report_page(app, here, "growth", 1, None, moment, work=work)
    query = parse_qs(urlsplit(page["nextPageUrl"]).query)
    assert query["since"] == [moment]
