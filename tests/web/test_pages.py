"""Every page through the real server: what it says, what it escapes, where its links lead."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, quote, urlencode, urljoin, urlsplit

import pytest

from sonde.types import Hit, Span
from sonde.web.results.groups import describe_reasons

from .conftest import TOKENS, Server
from .site import EVIL, EVIL_NAME, SECRET, SONDE, Page, make_site, serve_site

EDITOR_LINKS = ("vscode://file/", "cursor://file/", "zed://file/", "jetbrains://idea/")


@pytest.fixture(scope="module")
def site(start, tmp_path_factory) -> tuple[Server, Path]:
    root, environ = make_site(tmp_path_factory.mktemp("site"))
    return serve_site(start, root, environ), root


def open_page(server: Server, path: str, expected: int = 200, /, **query: object) -> Page:
    address = f"{path}?{urlencode(query)}" if query else path
    status, headers, body = server.ask(address)
    assert status == expected, (address, status, body[:500])
    assert headers["content-type"].startswith("text/html"), address
    assert "default-src 'self'" in headers["content-security-policy"]
    page = Page(body)
    ours = [each for each in page.loaded if re.fullmatch(r"/static/\w+\.js", each)]
    assert page.scripts == len(ours), f"{address}: something was not escaped"
    assert bool(ours) == ("part" not in query)
    assert page.inside == [], address
    return page


def wait_for_job(server: Server, job: str) -> None:
    """The event stream of a job ends when the job does."""
    assert b"event: end" in server.ask(f"/api/jobs/{job}/events")[2]


def test_the_beginning_shows_the_projects(site):
    page = open_page(site[0], "/")
    assert "ready, last change" in page.text
    assert "a pattern" in page.text
    assert {"q", "search", "results", "main"} <= page.ids


@pytest.mark.parametrize(
    ("tab", "query", "said"),
    [
        ("all", "total price of the cart", "src/cart.py"),
        ("code", "total_price", "def total_price(items):"),
        ("docs", "how is a price made", "How a price is made."),
        ("lines", r"def \w+_price", "def hostile_price():"),
        ("paths", "cart", "src/cart.py"),
        ("paths", "**/gu*.md", "docs/guide.md"),
        ("knowledge", "raise price", "We raise every price."),
    ],
)
def test_every_tab_finds_and_its_results_open(site, tab, query, said):
    page = open_page(site[0], "/", q=query, tab=tab)
    assert said in page.text
    assert page.marked, "nothing is highlighted"
    hits = [link for link in page.links if link.startswith(("/view", "/entry"))]
    assert hits
    opened = open_page(site[0], hits[0].partition("#")[0])
    lines = parse_qs(urlsplit(hits[0]).query).get("lines")
    if lines:
        assert f"L{lines[0].partition('-')[0]}" in opened.ids
        assert urlsplit(hits[0]).fragment in opened.ids


def test_words_are_marked_and_expressions_exactly(site):
    page = open_page(site[0], "/", q=r"total_\w+", tab="lines")
    assert page.marked == ["total_price"]
    page = open_page(site[0], "/", q="total price", tab="code", mode="lexical")
    assert {"price", "total_price"} <= {each.lower() for each in page.marked}


def test_pages_follow_each_other_by_cursor_and_none_repeats(site):
    seen: list[str] = []
    address = "/?" + urlencode({"q": r"def discount_\d+", "tab": "lines"})
    for _ in range(10):
        page = open_page(site[0], address)
        rows = {link for link in page.links if link.startswith("/view")}
        assert rows
        seen += rows
        following = [link for link in page.links if "cursor=" in link]
        if not following:
            break
        address = following[-1]
    assert len(seen) == len(set(seen)) == 60


def test_filters_narrow(site):
    page = open_page(site[0], "/", q="price", path="docs")
    assert {
        parse_qs(urlsplit(link).query)["path"][0] for link in page.links if "/view" in link
    } == {"docs/guide.md"}
    page = open_page(site[0], "/", q="price", language="markdown")
    assert all("guide.md" in link for link in page.links if "/view" in link)


def test_a_part_is_only_the_results(site):
    page = open_page(site[0], "/", q="total price", part="results")
    assert "src/cart.py" in page.text
    assert "main" not in page.ids
    assert not page.loaded


@pytest.mark.parametrize("tab", ["all", "code", "docs", "lines", "paths", "knowledge"])
def test_hostile_questions_are_only_text(site, tab):
    for query in (EVIL, '"><img src=x onerror=alert(1)>', "'); drop table", "\x00\ud7ff", "{x}"):
        page = open_page(site[0], "/", q=query, tab=tab, path=EVIL, language=EVIL)
        assert "img" not in page.loaded
        assert not [name for name in page.loaded if not name.startswith("/static/")]


def test_hostile_names_and_contents_are_only_text(site):
    server, root = site
    page = open_page(server, "/", q="hostile_price", tab="code")
    assert EVIL_NAME in page.text
    assert EVIL in page.text
    page = open_page(server, "/view", project=str(root), path=f"src/{EVIL_NAME}")
    assert f'return "{EVIL}"' in page.text
    assert EVIL_NAME in page.text


def test_a_file_has_anchors_and_marks_a_range(site):
    server, root = site
    page = open_page(server, "/view", project=str(root), path="src/cart.py", lines="4-6")
    assert {f"L{number}" for number in range(1, 7)} <= page.ids
    body = server.ask(f"/view?project={quote(str(root))}&path=src/cart.py&lines=4-6")[2].decode()
    assert body.count('class="on"') == 3
    page = open_page(server, "/view", project=str(root), path="src/long.py", lines="6500")
    assert "L6500" in page.ids
    assert "L1" not in page.ids
    assert "7,000 lines" in page.text


@pytest.mark.parametrize(
    ("path", "status"),
    [(".env", 403), ("../home", 403), ("src/none.py", 404), ("/etc/passwd", 403)],
)
def test_what_may_not_be_seen_is_not_shown(site, path, status):
    server, root = site
    found, _, body = server.ask("/view?" + urlencode({"path": path, "project": str(root)}))
    assert found == status, body
    assert SECRET.encode() not in body
    page = Page(body)
    assert "error" in body.decode()
    assert page.foreign_scripts == 0


def test_another_folder_is_not_opened_by_naming_it(site):
    server, root = site
    for named, expected in (("/etc", 403), (str(root.parent), 404)):
        status, _, body = server.ask("/view?" + urlencode({"path": "passwd", "project": named}))
        assert status == expected
        assert b"root:" not in body


def test_projects_and_their_jobs(site):
    server, root = site
    sent = json.dumps({"root": str(root)}).encode()
    status, answer = server.read("/api/indexes", "POST", sent, {"Content-Type": "application/json"})
    assert status == 202
    wait_for_job(server, answer["jobId"])
    page = open_page(server, "/projects")
    assert f"~/{root.name}" in page.text
    assert "ready" in page.text
    assert "Scanned" in page.text
    assert "done" in page.text
    page = open_page(server, "/project", project=str(root))
    assert "Chunks" in page.text
    open_page(server, "/project", 400, project=str(root / "none"))


def test_errors_are_pages_with_a_status_and_a_way_on(site):
    page = open_page(site[0], "/", 400, tab="nowhere")
    assert "tab must be one of" in page.text, "backticks become code"
    page = open_page(site[0], "/", q="(", tab="lines")
    assert "invalid" in page.text
    open_page(site[0], "/entry", 400, uri="javascript:alert(1)")


def test_files_of_the_page_carry_tags_and_cost_nothing_twice(site):
    for name, kind in (("page.css", "text/css"), ("page.js", "text/javascript"),
                       ("icon.svg", "image/svg+xml")):  # fmt: skip
        status, headers, body = site[0].ask(f"/static/{name}")
        assert (status, headers["content-type"].partition(";")[0]) == (200, kind)
        assert b"http://" not in body.replace(b"http://www.w3.org/2000/svg", b"")
        again = site[0].ask(f"/static/{name}", headers={"If-None-Match": headers["etag"]})
        assert (again[0], again[2]) == (304, b"")
    assert site[0].ask("/static/../guard.py")[0] == 400


def test_no_link_is_dead(site):
    server, _ = site
    begin = ["/", "/projects", "/?q=price", "/?q=price&tab=knowledge", "/?q=.&tab=paths"]
    waiting, seen = list(begin), set(begin)
    while waiting:
        address = waiting.pop()
        status, headers, body = server.ask(address)
        assert status == 200, (address, status, body[:300])
        if not headers["content-type"].startswith("text/html"):
            continue
        page = Page(body)
        for link in page.links + page.loaded:
            split = urlsplit(urljoin(f"{server.url}{address}", link))
            if link.startswith(("data:image/", *EDITOR_LINKS)):
                continue
            assert f"{split.scheme}://{split.netloc}" == server.url, f"{address} leads to {link}"
            target = split.path + (f"?{split.query}" if split.query else "")
            if not link.startswith("#") and target not in seen and len(seen) < 150:
                seen.add(target)
                waiting.append(target)
            if link.startswith("#"):
                assert link[1:] in page.ids
    assert len(seen) > 50


def test_nothing_is_indexed_yet(start, tmp_path):
    environ = {"SONDE_HOME": str(tmp_path / "home"), "PATH": "/usr/bin", "HOME": str(tmp_path)}
    server = serve_site(start, tmp_path, environ)
    assert "Nothing is indexed yet" in open_page(server, "/").text
    assert "No project is indexed yet" in open_page(server, "/projects").text


def test_with_tokens_a_page_asks_for_one(start, tmp_path):
    (tmp_path / "tokens").write_text(f"anna {TOKENS['anna']}\n")
    environ = {"SONDE_HOME": str(tmp_path / "home"), "PATH": "/usr/bin", "HOME": str(tmp_path),
               "SONDE_TOKEN_FILE": str(tmp_path / "tokens")}  # fmt: skip
    server = serve_site(start, tmp_path, environ)
    for path in ("/", "/projects", "/view?path=x"):
        status, headers, _ = server.ask(path, headers={"Accept": "text/html"})
        assert status == 303
        assert headers["location"].startswith("/login?next=")
    assert server.ask("/")[0] == 401


def test_paths_are_found_in_one_project_where_all_were_chosen(site):
    page = open_page(site[0], "/", q="cart", tab="paths", project="all")
    assert "src/cart.py" in page.text


def test_half_a_character_is_shown_as_a_question_mark(start, tmp_path):
    root, environ = make_site(tmp_path)
    chat = [{"uuid": "c", "name": "Prices \ud83d", "chat_messages": [
        {"uuid": "m", "sender": "human", "text": "raise each \ude00 price"}]}]  # fmt: skip
    (tmp_path / "chat.json").write_text(json.dumps(chat))
    added = [*SONDE, "knowledge", "import", str(tmp_path / "chat.json")]
    subprocess.run(added, cwd=root, env=environ, check=True, capture_output=True)
    server = serve_site(start, root, environ)
    page = open_page(server, "/", q="raise each", tab="knowledge")
    assert "Prices ?" in page.text
    (way,) = {link for link in page.links if "chats" in link}
    assert "raise each ? price" in open_page(server, way).text


def test_the_same_text_in_two_files_is_one_result_that_names_the_other(start, tmp_path):
    root, environ = make_site(tmp_path)
    (tmp_path / "in").mkdir()
    for name in ("one.txt", "two.txt"):
        (tmp_path / "in" / name).write_text("Walruses pay in clams.")
    added = [*SONDE, "knowledge", "import", str(tmp_path / "in")]
    subprocess.run(added, cwd=root, env=environ, check=True, capture_output=True)
    server = serve_site(start, root, environ)
    page = open_page(server, "/knowledge", q="clams")
    assert "1 entry" in page.text
    assert re.search(r"also in: (one|two)\.txt", page.text)
    assert len({link for link in page.links if link.startswith("/entry?")}) == 2
    found = open_page(server, "/", q="clams", tab="knowledge").text
    assert re.search(r"also in: (one|two)\.txt", found)


def test_an_entry_says_where_it_is_from_and_what_was_left_out(start, tmp_path):
    root, environ = make_site(tmp_path)
    place = tmp_path / "WhatsApp Chat with Ann.txt"
    place.write_text(
        "12/01/2024, 10:00 - Ann: Walruses pay in clams.\n"
        "12/01/2024, 10:01 - Bob: <Media omitted>\n"
    )
    subprocess.run([*SONDE, "knowledge", "import", str(place)], cwd=root, env=environ, check=True)
    server = serve_site(start, root, environ)
    page = open_page(server, "/knowledge", q="clams")
    way = next(link for link in page.links if link.startswith("/entry"))
    assert "1 message without text left out" in open_page(server, way).text
    uri = parse_qs(way.partition("?")[2])["uri"][0].partition("#")[0]
    shown = subprocess.run([*SONDE, "knowledge", "get", uri], cwd=root, env=environ, check=True,
                           capture_output=True, text=True)  # fmt: skip
    assert shown.stdout.splitlines()[1] == f"{place.name}, 1 message without text left out"


def test_results_that_hold_none_of_the_words_say_so(start, tmp_path):
    root, environ = make_site(tmp_path)
    server = serve_site(start, root, environ | {"SONDE_EMBEDDING": "static"})
    subprocess.run([*SONDE, "-y", "reindex"], cwd=root, check=True, capture_output=True,
                   env=environ | {"SONDE_EMBEDDING": "static"})  # fmt: skip
    assert "semantically similar" in open_page(server, "/", q="concert tickets").text
    assert "semantically similar" not in open_page(server, "/", q="total price").text


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("/api/search/code?query=total_price&top_k=1", "src/cart.py"),
        ("/api/search/docs?query=how+is+a+price+made", "docs/guide.md"),
        ("/api/search/paths?pattern=**/gu*.md", "docs/guide.md"),
        ("/api/search/lines?pattern=def+total_%5Cw%2B", "src/cart.py"),
        ("/api/search/knowledge?query=raise+price", "We raise every price."),
    ],
)
def test_every_search_has_an_address_for_programs(site, address, found):
    status, answer = site[0].read(address)
    assert status == 200
    assert found in json.dumps(answer)


def test_reasons_are_those_of_the_features_that_count() -> None:
    def describe(name: str) -> tuple[str, ...]:
        span, why = Span(1, 1, 0, 1), ((name, 1.0),)
        return describe_reasons(Hit("/p", "code", "a.py", span, "x", 1.0, "relevance", why=why))

    assert describe("code_lexical") == describe("lexical_rel") == ("contains your words",)
    assert describe("code_dense") == describe("dense_rel") == ("close in meaning",)
