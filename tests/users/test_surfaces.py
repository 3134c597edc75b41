"""What one user can open in the browser, over REST and as resources is closed to the other."""

from __future__ import annotations

import re
from collections import deque
from urllib.parse import unquote, urlencode

import pytest
from tests.waiting import wait_until

from sonde.web.pages.table import _FORMS as FORMS_OF_SITE
from sonde.web.pages.table import _PAGES as PAGES_OF_SITE

from .site import MARK, User

LINK = re.compile(r'(?:href="|action="|"|=)((?:http://127[^"\s<]*|/[\w][^"\s<]*))"')
PAGES = ("/", "/?q=number&scope=code", "/projects", "/disk", "/queries", "/sets", "/api/projects",
         "/api/jobs", "/api/indexes", "/api/queries", "/api/resource-sets", "/api/openapi.json",
         "/?q=anna&scope=knowledge", "/api/search/knowledge?query=anna", "/metrics")  # fmt: skip
WORD = re.compile(rf"[\w.-]*{MARK}[\w.-]*")
SAID = {f"{MARK}-vault", f"ledger_{MARK}.md"}
"""What the requests themselves say, and answers may repeat."""
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
    assert anna.call("query_run", filter="kind:file", index_id=scan["indexId"])["queryId"]
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


def test_no_page_and_no_form_takes_what_belongs_to_another(site, anna, bert):
    """Every page and form of the tables, filled with anna's handles and sent by bert."""
    vault = str(site.vault)
    anna.agree("create_index", project=vault)
    scan = anna.call("index", root=vault)
    wait_until(lambda: anna.call("job_progress", job_id=scan["jobId"])["status"] == "done", "scan")
    node = anna.call("cd", path=vault)["entries"][0]["nodeId"]
    kept = anna.call("resource_set_ops", op="create", name="mine", node_ids=[node])["selectionId"]
    given = {"filter": "kind:file", "index_id": scan["indexId"]}
    query = anna.call("query_run", name="mine", **given)["queryId"]
    handles = {"index_id": scan["indexId"], "node_id": node, "job_id": scan["jobId"],
               "query_id": query, "selection_id": kept, "report": "largest"}  # fmt: skip
    fields = {"project": vault, "root": vault, "path": f"ledger_{MARK}.md", "filter": "kind:file",
              "name": "his", "index_id": scan["indexId"], "node_ids": node, "other": kept,
              "query": query, "q": "number", "action": "rebuild"}  # fmt: skip
    form = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
    tried = 0
    for table, method in ((PAGES_OF_SITE, "GET"), (FORMS_OF_SITE, "POST")):
        for template in table:
            way = template.format(**handles)
            for name, value in ({"": ""} | fields).items():
                sent = urlencode({name: value} if name else {})
                address = way if method == "POST" else f"{way}?{sent}"
                body = sent.encode() if method == "POST" else None
                headers = bert.headers | form
                _, _, answer = bert.server.ask(address, method, body, headers)
                seen = set(WORD.findall(unquote(answer.decode("utf-8", "replace"))))
                assert not seen - SAID, (method, address, sent, seen - SAID)
                tried += 1
    assert tried > 250
    assert anna.call("resource_set_ops", op="get", selection_id=kept)["counts"]
    assert anna.call("query_get", query_id=query)["queryId"] == query
    assert anna.call("inspect", node_id=node)["nodeId"] == node
    assert vault in str(anna.call("list_projects"))


def test_no_page_runs_what_a_user_has_named(site, anna):
    """Folders, files, contents, sets, queries and notes, on every page that anna is led to."""
    evil = "<img src=x onerror=alert(1)>"
    place = site.folder / "anna" / evil
    place.mkdir()
    (place / "pyproject.toml").write_text("[project]\n")
    (place / f"{evil}.py").write_text(f"def pay():\n    return '{evil}'\n")
    (place / f"{evil}.md").write_text(f"# {evil}\n\n{evil}\n")
    site.run("knowledge", "add", f"A {evil} of anna.", "--title", evil, "--user", "anna")
    assert anna.agree("create_index", project=str(place))["status"] == "success"
    scan = anna.call("index", root=str(place))
    wait_until(lambda: anna.call("job_progress", job_id=scan["jobId"])["status"] == "done", "scan")
    node = anna.call("cd", path=str(place))["entries"][0]["nodeId"]
    anna.call("resource_set_ops", op="create", name=evil, node_ids=[node])
    anna.call("query_run", filter="kind:file", name=evil, index_id=scan["indexId"])
    way = urlencode({"project": str(place), "path": f"{evil}.py"})
    asked = [urlencode({"q": evil, "scope": scope}) for scope in ("code", "lines", "knowledge")]
    disk = f"/disk/{scan['indexId']}"
    seeds = [f"/view?{way}", f"/project?{way}", disk, f"{disk}/nodes/{node}", "/queries", "/sets",
             "/jobs", "/projects", "/knowledge", *(f"/?{words}" for words in asked)]  # fmt: skip
    opened = crawl(anna, seeds)
    pages = {way: body for way, body in opened.items() if body.lstrip().startswith("<")}
    assert [way for way, body in pages.items() if "<img src=x" in body] == []
    assert sum("&lt;img src=x" in body for body in pages.values()) >= 10, list(pages)
