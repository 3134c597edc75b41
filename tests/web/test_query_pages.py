"""Saved queries on the page: written, mended, explained, run, changed and forgotten."""

from __future__ import annotations

import pytest

from .conftest import Server
from .site import EVIL, FORM, agree, make_site, send, serve_site
from .test_pages import open_page, wait_for_job


@pytest.fixture(scope="module")
def scanned(start, tmp_path_factory) -> tuple[Server, str]:
    """A server, and the index of the folder that it has scanned."""
    root, environ = make_site(tmp_path_factory.mktemp("queried"))
    server = serve_site(start, root, environ)
    assert "No folder is scanned yet" in open_page(server, "/queries").text
    index = send(server, "/disk", ("root", str(root)))[1].rpartition("/")[2]
    wait_for_job(server, server.read(f"/api/indexes/{index}")[1]["job"]["jobId"])
    return server, index


def save(server: Server, index: str, text: str, *more: tuple[str, str]) -> str:
    status, way, page = send(server, "/queries", ("index_id", index), ("filter", text), *more)
    assert status == 303, page.text
    return way


def test_a_query_is_saved_explained_and_run_into_a_set(scanned):
    server, index = scanned
    way = save(server, index, "ext:md or (size>40KB kind:file)", ("name", EVIL))
    page = open_page(server, way)
    assert EVIL in page.text
    assert "Not run yet" in page.text
    assert "SELECT n.id FROM nodes" in page.text, "the plan is shown"
    assert "SCAN n" in page.text or "SEARCH n" in page.text
    assert send(server, f"{way}/run")[:2] == (303, way)
    page = open_page(server, way)
    assert {"guide.md", "long.py"} <= set(page.cells)
    (kept,) = [link for link in page.links if link.startswith("/sets/")]
    assert len(open_page(server, kept).ticks) == 2
    assert EVIL in open_page(server, "/queries").text


def test_what_cannot_be_read_is_shown_beside_the_field(scanned):
    server, index = scanned
    fields = (("index_id", index), ("filter", f"ext:py size>{EVIL}"), ("name", "kept"))
    status, _, page = send(server, "/queries", *fields)
    assert status == 400
    assert page.marked[0].startswith("<script>"), "the word that is wrong is marked"
    assert "does not fit size" in page.text
    assert "problem" in page.ids
    assert page.foreign_scripts == 0
    way = save(server, index, "ext:py")
    status, _, page = send(server, way, ("filter", "ext:py (("), ("name", "n"))
    assert status == 400
    assert "problem" in page.ids
    assert "ext:py" in open_page(server, way).text, "the query is as it was"


def test_a_query_is_changed_and_runs_anew(scanned):
    server, index = scanned
    way = save(server, index, "name:cart.py", ("then", "run"))
    assert "cart.py" in open_page(server, way).cells
    first = [x for x in open_page(server, way).links if x.startswith("/sets/")]
    status, back, _ = send(server, way, ("filter", "name:long.py"), ("name", "long ones"))
    assert (status, back) == (303, way)
    page = open_page(server, way)
    assert "Not run yet" in page.text, "what the old filter found is not shown as new"
    send(server, way, ("filter", "name:long.py"), ("name", "long ones"), ("then", "run"))
    page = open_page(server, way)
    assert "long.py" in page.cells
    assert first[0] not in page.links
    assert "cart.py" in open_page(server, first[0]).cells, "the set of the old filter stays"
    patched = server.read(
        f"/api{way}", "PATCH", b'{"name": "renamed"}', {"Content-Type": "application/json"}
    )
    assert patched[1]["name"] == "renamed"
    assert patched[1]["lastExecutedAt"], "another name is no other query"


def test_forgetting_is_asked_about(scanned):
    server, index = scanned
    way = save(server, index, "depth=1")
    assert agree(server, f"{way}/forget") == "/queries"
    open_page(server, way, 404)
    status, _, _ = send(server, f"{way}/forget", ("confirm", "1.x"))
    assert status == 404
    other = save(server, index, "depth=2")
    for token in ("", "7fffffff.AAAAAAAAAAAAAAAA", EVIL):
        assert send(server, f"{other}/forget", ("confirm", token))[0] == 200, "asked again"
    open_page(server, other)


@pytest.mark.parametrize("origin", ["http://elsewhere.example", "null", "http://127.0.0.1:1"])
def test_no_form_takes_what_another_site_sends(scanned, origin):
    server, index = scanned
    way = save(server, index, "depth=3")
    sent = b"index_id=" + index.encode() + b"&filter=depth=9"
    for path in ("/queries", way, f"{way}/run", f"{way}/forget", "/projects", "/project/forget",
                 "/jobs/x/stop", "/disk", f"/disk/{index}/forget"):  # fmt: skip
        status, _, _ = server.ask(path, "POST", sent, FORM | {"Origin": origin})
        assert status == 403, path
    foreign = FORM | {"Sec-Fetch-Site": "cross-site"}
    assert server.ask(f"{way}/run", "POST", b"", foreign)[0] == 403
    assert "depth=9" not in open_page(server, "/queries").text


@pytest.mark.parametrize("referer", ["http://[", "//[", "http://elsewhere.example/x", "{}//evil"])
def test_a_question_leads_back_to_a_page_of_ours(scanned, referer):
    server, index = scanned
    way = save(server, index, "depth=4")
    sent = FORM | {"Referer": referer.format(server.url)}
    status, _, page = server.ask(f"{way}/forget", "POST", b"", sent)
    assert status == 200
    assert b'<a href="/" class="button quiet">' in page
    _, _, page = server.ask(f"{way}/forget", "POST", b"", FORM | {"Referer": server.url + way})
    assert f'<a href="{way}" class="button quiet">'.encode() in page
