"""cd, index, inspect and session_preferences as SHELL describes them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sonde.app import App
from sonde.errors import BadCursor, Cancelled, HandleUnknown, NodeMissing, NotScanned, OutsideRoots
from sonde.runtime.work import Work
from sonde.stores.disk.base import DiskIndex
from sonde.tools import TOOLS
from sonde.tools.disk import cd, inspect, scan_folder, session_preferences
from sonde.tools.tool import find_tool
from sonde.types import Caller, Progress

from .conftest import scan, scan_store

HANDLE = r"[0-9a-hjkmnp-tv-z]"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


@pytest.mark.row("002-36")
def test_index_answers_at_once_with_the_documents_fields(app: App, disk: Path, work: Work) -> None:
    answer = scan_folder(app, ".", work=work)
    assert list(answer) == ["jobId", "indexId", "statusUrl", "progressUrl", "cwdHint"]
    assert re.fullmatch(f"{HANDLE}{{12}}", answer["jobId"])
    assert re.fullmatch(f"{HANDLE}{{8}}", answer["indexId"])
    assert answer["statusUrl"] == f"sonde://jobs/{answer['jobId']}"
    assert answer["cwdHint"] == str(disk)
    again = scan_folder(app, str(disk), work=work)
    assert again["indexId"] == answer["indexId"]


@pytest.mark.row("002-7", "002-10", "002-11", "002-28")
def test_cd_lists_entries_with_the_documents_fields(app: App, disk: Path, work: Work) -> None:
    index = scan(app, disk)
    answer = cd(app, str(disk), work=work)
    assert list(answer) == [
        "sessionId", "cwd", "breadcrumb", "indexId", "entries", "nextPageUrl", "link", "scannedAt",
    ]  # fmt: skip
    assert answer["cwd"] == str(disk)
    assert answer["indexId"] == index
    assert answer["breadcrumb"] == [{"nodeId": f"{index}.1", "name": "disk"}]
    assert answer["nextPageUrl"] is None
    assert [entry["name"] for entry in answer["entries"]] == [
        ".env",
        "docs",
        "empty",
        "link",
        "src",
    ]
    folder = answer["entries"][4]
    assert list(folder) == ["nodeId", "name", "kind", "size", "counts", "modifiedAt", "link"]
    assert folder["kind"] == "directory"
    assert folder["size"] == 1507
    assert folder["counts"] == {"children": 2, "files": 2, "folders": 1}
    assert re.fullmatch(TIME, folder["modifiedAt"])
    assert folder["link"] == f"sonde://indexes/{index}/nodes/{folder['nodeId']}"
    assert [entry["kind"] for entry in answer["entries"]] == [
        "file", "directory", "directory", "symlink", "directory",
    ]  # fmt: skip


@pytest.mark.row("002-6", "002-25", "002-67")
def test_a_session_walks_as_a_shell_does(app: App, disk: Path, work: Work) -> None:
    scan(app, disk)
    assert cd(app, str(disk), work=work)["cwd"] == str(disk)
    inner = cd(app, "src/deep", work=work)
    assert inner["cwd"] == str(disk / "src" / "deep")
    assert [crumb["name"] for crumb in inner["breadcrumb"]] == ["disk", "src", "deep"]
    assert cd(app, "..", work=work)["cwd"] == str(disk / "src")
    assert cd(app, "-", work=work)["cwd"] == str(disk / "src" / "deep")
    assert cd(app, "-", work=work)["cwd"] == str(disk / "src")
    assert cd(app, "../docs/./../src//deep", work=work)["cwd"] == str(disk / "src" / "deep")
    assert cd(app, work=work)["cwd"] == str(disk / "src" / "deep")


@pytest.mark.row("002-25")
def test_the_home_folder_has_its_short_name(
    app: App, disk: Path, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan(app, disk)
    monkeypatch.setenv("HOME", str(disk / "src"))
    assert cd(app, "~", work=work)["cwd"] == str(disk / "src")
    assert cd(app, "~/deep", work=work)["cwd"] == str(disk / "src" / "deep")


@pytest.mark.row("002-3", "002-6")
def test_sessions_are_apart_and_survive_a_restart(
    open_app: Callable[[], App], disk: Path, work: Work
) -> None:
    app = open_app()
    scan(app, disk)
    first = cd(app, str(disk / "src"), work=work)["sessionId"]
    other = Work(caller=Caller(session="another connection"))
    second = cd(app, str(disk / "docs"), work=other)["sessionId"]
    assert first != second
    app.close()
    again = open_app()
    assert cd(again, "deep", session_id=first, work=Work())["cwd"] == str(disk / "src" / "deep")
    assert cd(again, ".", session_id=second, work=Work())["cwd"] == str(disk / "docs")
    with pytest.raises(HandleUnknown):
        cd(again, ".", session_id=first, work=Work(caller=Caller("somebody else")))


@pytest.mark.row("002-25")
def test_links_inside_are_walked_through_and_those_that_lead_out_are_not(
    app: App, disk: Path, tmp_path: Path, work: Work
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("x")
    (disk / "out").symlink_to(tmp_path / "outside")
    (disk / "round").symlink_to("round")
    scan(app, disk)
    assert cd(app, f"{disk}/link", work=work)["cwd"] == str(disk / "docs")
    assert inspect(app, path=f"{disk}/link/guide.md", work=work)["path"].endswith("docs/guide.md")
    with pytest.raises(OutsideRoots):
        cd(app, f"{disk}/out", work=work)
    with pytest.raises(NodeMissing):
        cd(app, f"{disk}/round", work=work)


@pytest.mark.row("002-31", "002-33")
@pytest.mark.parametrize("path", ["/etc", "/no/such/place", "../../..", "\0", "/proc/1/root"])
def test_what_lies_outside_is_refused_alike_whether_it_exists_or_not(
    app: App, disk: Path, work: Work, path: str
) -> None:
    scan(app, disk)
    app = app.seen_by(work.caller)
    cd(app, str(disk), work=work)
    for call in (lambda: cd(app, path, work=work), lambda: inspect(app, path=path, work=work)):
        with pytest.raises(OutsideRoots) as refused:
            call()
        assert "/etc" not in refused.value.developer_message
    if path.startswith("/"):
        with pytest.raises(OutsideRoots):
            scan_folder(app, path, work=work)


def test_the_home_of_another_is_no_place(app: App, disk: Path, work: Work) -> None:
    scan(app, disk)
    cd(app, str(disk), work=work)
    with pytest.raises(NodeMissing):
        cd(app, "~root", work=work)


@pytest.mark.row("002-32")
def test_what_may_be_scanned_but_was_not_says_so(app: App, disk: Path, work: Work) -> None:
    with pytest.raises(NotScanned) as told:
        cd(app, str(disk / "src"), work=work)
    assert str(disk / "src") in told.value.next_action
    with pytest.raises(NodeMissing):
        scan_folder(app, str(disk / "nowhere"), work=work)
    scan(app, disk)
    with pytest.raises(NodeMissing):
        cd(app, str(disk / "src" / "main.py"), work=work)
    with pytest.raises(NodeMissing):
        cd(app, str(disk / "nowhere"), work=work)


@pytest.mark.row("002-37")
def test_what_the_scan_has_not_reached_is_listed_live_and_marked(
    app: App, disk: Path, work: Work
) -> None:
    def stop(_progress: Progress) -> None:
        raise Cancelled("the root is read, nothing below it")

    index = DiskIndex("halfdone", work.caller.user, str(disk))
    app.disk.saved.put(index)
    with pytest.raises(Cancelled):
        scan_store(app.disk.tree(index.id), disk, Work(report=stop), flush_rows=1)
    answer = cd(app, str(disk), work=work)
    assert {entry["name"]: entry.get("state") for entry in answer["entries"]}["src"] == "pending"
    inner = cd(app, "src", work=work)
    assert inner["state"] == "pending"
    assert [(e["name"], e["nodeId"], e["state"]) for e in inner["entries"]] == [
        ("deep", None, "pending"), ("main.py", None, "pending"),
    ]  # fmt: skip
    detail = inspect(app, path="main.py", work=work)
    assert (detail["nodeId"], detail["size"], detail["state"]) == (None, 1500, "pending")
    assert scan(app, disk) == index.id
    assert "state" not in cd(app, ".", work=work)


@pytest.mark.row("002-26", "002-27", "002-70")
def test_pages_follow_one_another_without_gap_or_repeat(app: App, disk: Path, work: Work) -> None:
    many = disk / "many"
    many.mkdir()
    names = sorted([f"file {number}" for number in range(45)] + ["\udcff odd", "ü"])
    for name in names:
        (many / name).write_text("x" * len(name))
    scan(app, disk)
    for sort in ("name", "size", "modified"):
        session_preferences(app, sort=sort, work=work)  # type: ignore[arg-type]
        seen: list[str] = []
        cursor = None
        while True:
            answer = cd(app, str(many), limit=7, cursor=cursor, work=work)
            seen += [entry["nodeId"] for entry in answer["entries"]]
            cursor = answer["nextPageUrl"]
            if cursor is None:
                break
        assert len(seen) == len(set(seen)) == 47
    first = cd(app, str(many), limit=7, work=work)["nextPageUrl"]
    assert first
    with pytest.raises(BadCursor):
        cd(app, str(disk), cursor=first, work=work)
    with pytest.raises(BadCursor):
        cd(app, str(many), cursor=first[:-2], work=work)


@pytest.mark.row("002-13", "002-45", "002-46", "002-47", "002-48")
def test_inspect_answers_with_the_documents_fields(app: App, disk: Path, work: Work) -> None:
    index = scan(app, disk)
    detail = inspect(app, path=f"{disk}/src/main.py", work=work)
    assert {"nodeId", "path", "kind", "size", "modifiedAt", "permissions", "link"} <= set(detail)
    assert detail["path"] == str(disk / "src" / "main.py")
    assert detail["permissions"] == "-rw-r--r--"
    assert detail["link"] == f"sonde://indexes/{index}/nodes/{detail['nodeId']}/detail"
    assert detail["previewUrl"].endswith("/preview")
    assert "downloadUrl" not in detail  # a resource is no place for a file of any size
    over_http = Work(caller=Caller(base_url="http://127.0.0.1:8420"))
    url = inspect(app, node_id=detail["nodeId"], work=over_http)["downloadUrl"]
    assert url.startswith(f"http://127.0.0.1:8420/api/indexes/{index}/nodes/")
    assert inspect(app, node_id=detail["nodeId"], work=work) == detail
    folder = inspect(app, path=str(disk / "src"), work=work)
    assert folder["counts"]["files"] == 2
    assert folder["childrenUrl"].startswith(f"sonde://indexes/{index}/tree?parent=")
    assert inspect(app, path=f"{disk}/link", work=work)["symlink"] == "docs"


def test_a_secret_is_counted_but_never_linked(app: App, disk: Path, work: Work) -> None:
    os.link(disk / ".env", disk / "harmless.txt")
    scan(app, disk)
    for name in (".env", "harmless.txt"):
        detail = inspect(app, path=str(disk / name), work=work)
        assert detail["size"] == 8
        assert not {"downloadUrl", "previewUrl"} & set(detail)


def test_names_that_are_no_unicode_can_be_shown_and_named(app: App, disk: Path, work: Work) -> None:
    odd = disk / os.fsdecode(b"caf\xe9")
    odd.mkdir()
    (odd / "in").write_text("x")
    scan(app, disk)
    shown = [entry["name"] for entry in cd(app, str(disk), work=work)["entries"]]
    assert "caf\\xe9" in shown
    assert cd(app, "caf\\xe9", work=work)["entries"][0]["name"] == "in"
    (disk / "caf\\xe9").mkdir()
    scan(app, disk)
    assert cd(app, str(disk / "caf\\xe9"), work=work)["entries"] == []


def test_a_tree_that_cannot_be_read_is_set_aside_and_scanned_anew(
    open_app: Callable[[], App], disk: Path, work: Work
) -> None:
    app = open_app()
    index = scan(app, disk)
    app.close()
    file = app.disk.folder / "trees" / f"{index}.db"
    file.write_bytes(b"no database at all" * 100)
    again = open_app()
    assert cd(again, str(disk), work=work)["state"] == "pending"
    assert scan(again, disk) == index
    assert len(cd(again, str(disk), work=work)["entries"]) == 5


@pytest.mark.row("002-45", "002-71")
def test_nobody_reaches_another_users_nodes(app: App, disk: Path) -> None:
    anna, ben = Caller("anna"), Work(caller=Caller("ben"))
    index = scan(app, disk, anna)
    for call in (
        lambda: inspect(app, node_id=f"{index}.1", work=ben),
        lambda: inspect(app, node_id="0" * 8 + ".1", work=ben),
        lambda: inspect(app, node_id=f"{index}.zz", work=Work(caller=anna)),
        lambda: inspect(app, node_id="nonsense", work=ben),
    ):
        with pytest.raises(HandleUnknown):
            call()
    with pytest.raises(NotScanned):
        cd(app, str(disk), work=ben)


@pytest.mark.row("002-59")
def test_preferences_are_kept_and_an_argument_wins_over_them(
    app: App, disk: Path, work: Work
) -> None:
    scan(app, disk)
    told = session_preferences(app, units="iec", limit=2, sort="size", work=work)
    assert {k: told[k] for k in ("units", "limit", "sort")} == {  # type: ignore[literal-required]
        "units": "iec", "limit": 2, "sort": "size",
    }  # fmt: skip
    answer = cd(app, str(disk), work=work)
    assert [entry["size"] for entry in answer["entries"]] == ["5.9 KiB", "1.5 KiB"]
    assert len(cd(app, ".", limit=3, work=work)["entries"]) == 3
    assert session_preferences(app, work=work) == told


@pytest.mark.row("002-74")
def test_the_documents_spellings_are_accepted() -> None:
    for name in ("job-progress", "session-preferences", "cd", "index", "inspect"):
        assert find_tool(TOOLS, name).toolset == "files"
