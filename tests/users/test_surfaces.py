"""What one user can open in the browser, over REST and as resources is closed to the other."""

from __future__ import annotations

import re
from collections import deque

import pytest
from tests.waiting import wait_until

from .site import MARK, User

LINK = re.compile(r'(?:href="|action="|"|=)((?:http://127[^"\s<]*|/[\w][^"\s<]*))"')
PAGES = ("/", "/?q=number&scope=code", "/projects", "/disk", "/queries", "/sets", "/api/projects",
         "/api/jobs", "/api/indexes", "/api/queries", "/api/resource-sets", "/api/openapi.json",
         "/?q=anna&scope=knowledge", "/api/search/knowledge?query=anna", "/metrics")  # fmt: skip
MOST = 150
"""Addresses that are opened; more are of the same kinds."""


def crawl(user: User, seeds: list[str]) -> dict[str, str]:
    """Every address that a user is led to from some pages, without forms -> what is there."""
    opened: dict[str, str] = {}
    kinds: dict[str, int] = {}
    waiting = deque(seeds)
    while waiting and len(opened) < MOST:
        way = waiting.popleft().replace("&amp;", "&").removeprefix(user.server.url)
        kind = re.sub(r"[0-9a-hj-np-tv-z]{8,}(\.\w+)?|=[^&]*|\d+", "*", way)
        kinds[kind] = kinds.get(kind, 0) + 1
        if way in opened or kinds[kind] > 3 or not way.startswith("/"):
            continue
        if way.endswith(("/stop", "/forget", "/run", "/remove", "/combine")):
            continue
        status, _, body = user.server.ask(way, headers=user.headers | {"Accept": "text/html"})
        opened[way] = body.decode("utf-8", "replace") if status == 200 else ""
        waiting.extend(LINK.findall(opened[way]))
    return opened


def test_every_address_that_leads_anna_somewhere_leads_bert_nowhere(site, anna, bert):
    vault = str(site.vault)
    anna.agree("create_index", project=vault)
    scan = anna.call("index", root=vault)
    wait_until(lambda: anna.call("job_progress", job_id=scan["jobId"])["status"] == "done", "scan")
    listed = anna.call("cd", path=vault)
    node = listed["entries"][1]
    anna.call("resource_set_ops", op="create", name="mine", node_ids=[node["nodeId"]])
    anna.call("query_run", filter="kind:file")
    base = f"/api/indexes/{scan['indexId']}/nodes/{node['nodeId']}"
    seeds = [*PAGES, f"{base}/preview", f"{base}/download", f"{base}/detail",
             f"/api/jobs/{scan['jobId']}/events", f"/disk/{scan['indexId']}",
             f"/disk/{scan['indexId']}/nodes/{node['nodeId']}", f"/project?project={vault}",
             f"/view?project={vault}&path=ledger_{MARK}.md",
             f"/api/files/ledger_{MARK}.md?project={vault}"]  # fmt: skip
    opened = crawl(anna, seeds)
    shown = [way for way, body in opened.items() if MARK in body]
    assert len(shown) >= 25, shown
    for way in opened:
        status, answer = bert.ask(way, Accept="text/html")
        said = way.replace("%20", " ")
        text = str(answer).replace(said, "").replace(vault, "").replace(f"ledger_{MARK}.md", "")
        assert MARK not in text, (way, status, text[:2000])
    for way in shown:
        if way.startswith("/api/"):
            uri = f"sonde://{way.removeprefix('/api/')}"
            text = str(bert.read(uri)).replace(vault, "").replace(f"ledger_{MARK}.md", "")
            assert MARK not in text.replace(uri, ""), uri


def test_what_was_withdrawn_is_gone_at_once(site, anna, bert):
    place = site.folder / "bert" / "later"
    place.mkdir()
    (place / "a.txt").write_text("dwindle")
    scan = bert.call("index", root=str(place))
    wait_until(lambda: bert.call("job_progress", job_id=scan["jobId"])["status"] == "done", "scan")
    node = bert.call("inspect", path=f"{place}/a.txt")["nodeId"]
    way = f"/api/indexes/{scan['indexId']}/nodes/{node}/preview"
    assert bert.ask(way) == (200, "dwindle")
    site.run("users", "withdraw", "bert", str(site.folder / "bert"))
    try:
        assert bert.ask(way)[0] == 404
        assert "code" in bert.call("cd", path=str(place))
        assert "code" in bert.call("regex_search", pattern="dwindle", path=str(place))
    finally:
        site.run("users", "allow", "bert", str(site.folder / "bert"))
    assert bert.ask(way)[0] == 200


def test_a_shared_project_is_searched_and_read_but_not_changed(site, anna, bert):
    vault = str(site.vault)
    anna.agree("create_index", project=vault)
    site.run("users", "share", "bert", vault)
    try:
        assert vault in str(bert.call("list_projects"))
        assert MARK in str(bert.call("search_code", query="number", project=vault))
        assert MARK in str(bert.call("regex_search", pattern="number", path=vault))
        assert bert.ask(f"/api/files/ledger_{MARK}.md?project={vault}")[0] == 200
        for tool in ("delete_index", "reindex_project"):
            assert bert.agree(tool, project=vault)["code"] == "OUTSIDE_ROOTS"
        assert bert.call("regex_search", pattern="anna", path=str(site.folder / "anna"))["code"]
        assert bert.call("index", root=vault)["code"] == "OUTSIDE_ROOTS"
        assert MARK not in str(bert.call("knowledge_search", query="anna"))
    finally:
        site.run("users", "withdraw", "bert", vault)
    assert bert.call("search_code", query="number", project=vault)["code"] == "OUTSIDE_ROOTS"
    site.run("users", "share", "all", vault)
    assert MARK in str(bert.call("search_code", query="number", project=vault))
    site.run("users", "withdraw", "all", vault)
    assert "code" in bert.call("search_code", query="number", project=vault)


def test_a_folder_that_is_swapped_for_a_link_is_not_followed_out(site, bert):
    place = site.folder / "bert" / "swapped"
    place.mkdir()
    (place / "pyproject.toml").write_text("[project]\n")
    scan = bert.call("index", root=str(place))
    wait_until(lambda: bert.call("job_progress", job_id=scan["jobId"])["status"] == "done", "scan")
    assert bert.agree("create_index", project=str(place))["status"] == "success"
    place.rename(place.with_name("was"))
    place.symlink_to(site.vault)
    said = len(bert.said)
    bert.call("regex_search", pattern="number", project=str(place))
    bert.call("regex_search", pattern="number", path=str(place))
    bert.call("search_code", query="number", project=str(place))
    bert.call("reindex_project", project=str(place))
    bert.call("cd", path=str(place))
    bert.call("inspect", path=f"{place}/ledger_{MARK}.md")
    bert.ask(f"/api/files/ledger_{MARK}.md?project={place}")
    bert.ask(f"/api/indexes/{scan['indexId']}/tree?path=")
    assert MARK not in bert.said[said:].replace(f"ledger_{MARK}.md", "")
    place.unlink()


@pytest.mark.row("004-5")
def test_an_operator_fills_the_library_of_a_user(site, anna, bert):
    assert MARK in site.run("knowledge", "search", "anna", "--user", "anna")
    assert MARK not in site.run("knowledge", "search", "anna", code=1)
    assert MARK in str(anna.call("knowledge_search", query="anna may"))
    site.run("knowledge", "add", "The till is closed at six.", "--title", "Till", "--user", "bert")
    assert "closed at six" in str(bert.call("notes_search", query="till"))
    assert not anna.call("notes_search", query="till closed")["results"]
