"""The beginning, the palette, the keys, knowledge, jobs, and agents set up on a page."""

from __future__ import annotations

import base64
import json
import os
import re
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest

from sonde.stores.users import Users

from .conftest import Server
from .site import EVIL, SONDE, Page, hold_index, make_site, serve_site
from .test_browser import axe, check  # noqa: F401 - a fixture
from .test_viewer import PICTURE, needs_browser, read_page

CHAT = [{
    "title": "Selling", "create_time": 1_700_000_000, "update_time": 1_700_000_100, "mapping": {
        "a": {"id": "a", "parent": None, "children": ["b"], "message": {
            "id": "a", "author": {"role": "user"}, "create_time": 1_700_000_000,
            "content": {"content_type": "text", "parts": ["How do I sell?"]}}},
        "b": {"id": "b", "parent": "a", "children": [], "message": {
            "id": "b", "author": {"role": "assistant"}, "create_time": 1_700_000_050,
            "content": {"content_type": "text", "parts": [f"**Slowly.** {EVIL}"]}}}},
}]  # fmt: skip


def make_card(name: str) -> bytes:
    """A picture with a character card in it."""
    text = json.dumps({"spec": "chara_card_v2", "data": {"name": name, "description": "Sells."}})
    data = b"chara\0" + base64.b64encode(text.encode())
    chunk = struct.pack(">I", len(data)) + b"tEXt" + data
    chunk += struct.pack(">I", zlib.crc32(b"tEXt" + data))
    return PICTURE[:33] + chunk + PICTURE[33:]


@pytest.fixture(scope="module")
def site(
    start: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Server, Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("home")
    root, environ = make_site(folder)
    notes = folder / "notes"
    notes.mkdir()
    (notes / "Soup.md").write_text("---\ntags: [home]\n---\n# Soup\n\nPeas and **salt**.\n")
    (notes / "chat.json").write_text(json.dumps(CHAT))
    (notes / "trader.png").write_bytes(make_card("Trader"))
    (folder / ".cursor").mkdir()
    (folder / ".cursor" / "mcp.json").write_text('{"mcpServers": {"other": {"command": "x"}}}\n')
    command = [*SONDE, "knowledge", "import", str(notes)]
    subprocess.run(command, cwd=root, env=environ, check=True, capture_output=True)
    environ = environ | {"PATH": os.defpath}
    return serve_site(start, root, environ), root, environ


@pytest.fixture(scope="module")
def served(site: tuple[Server, Path, object]) -> Server:
    return site[0]


def test_projects_are_described_in_words_and_examples_find_something(site):
    server, _, _ = site
    page = read_page(server, "/")
    assert re.search(r"ready, last change (just now|\d+ \w+ ago)", page.text), page.text
    examples = [link for link in page.links if link.startswith("/?") and "q=" in link]
    assert len(examples) >= 3
    for link in examples:
        found = Page(server.ask(link)[2])
        assert "Nothing found" not in found.text, link


def test_without_projects_the_first_steps_are_shown(start, tmp_path):
    environ = {**os.environ, "SONDE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path),
               "SONDE_EMBEDDING": "none"}  # fmt: skip
    (tmp_path / "empty").mkdir()
    server = serve_site(start, tmp_path / "empty", environ)
    page = read_page(server, "/")
    assert "Nothing is indexed yet" in page.text
    assert page.actions == ["/projects"]
    assert "Set up your agents" in page.text


def test_the_palette_finds_projects_files_symbols_and_actions(site):
    page = read_page(site[0], "/go", q="shop")
    assert any(link.startswith("/view?") and "path=%2F" in link for link in page.links)
    page = read_page(site[0], "/go", q="crtpy")
    assert any("path=src%2Fcart.py" in link for link in page.links), "letters in order suffice"
    page = read_page(site[0], "/go", q="totalPri")
    assert any("cart.py" in link and link.endswith("#L4") for link in page.links)
    assert "/disk" in read_page(site[0], "/go", q="disk").links
    assert "/setup" not in read_page(site[0], "/go").links, "only a person sets up agents"
    assert "Nothing matches" in read_page(site[0], "/go", q="qqqqzzzz").text


def test_knowledge_is_filtered_by_source_tag_and_date(site):
    server = site[0]
    page = read_page(server, "/knowledge")
    assert "4 entries" in page.text
    assert "Soup" in page.text
    assert "1 entry" in read_page(server, "/knowledge", source="chats").text
    assert "1 entry" in read_page(server, "/knowledge", label="home").text
    assert "1 entry" in read_page(server, "/knowledge", until="2023-12-31").text
    assert "Nothing matches" in read_page(server, "/knowledge", since="2999-01-01").text
    found = read_page(server, "/knowledge", q="peas", label="home")
    assert "peas" in [each.lower() for each in found.marked]
    assert "# Soup" not in found.text, "the heading repeats the title"
    assert "Nothing matches" in read_page(server, "/knowledge", q="peas", label="work").text


def test_a_conversation_is_shown_once_beside_files(site):
    alone = read_page(site[0], "/", q="sell slowly", tab="knowledge")
    assert sum("/entry?uri=chats" in link for link in alone.links) > 1, "each message of its own"
    page = read_page(site[0], "/", q="sell slowly")
    assert sum("/entry?uri=chats" in link for link in page.links) == 1


def test_entries_are_rendered_and_conversations_look_like_some(site):
    server = site[0]
    page = read_page(server, "/knowledge", source="chats")
    entry = next(link for link in page.links if link.startswith("/entry"))
    status, _, body = server.ask(entry)
    assert status == 200
    assert body.count(b'class="message ') == 2
    assert b"<strong>Slowly.</strong>" in body
    assert EVIL.encode() not in body
    assert b"**Slowly.**" in server.ask(f"{entry}&view=source")[2]


def test_a_character_has_its_picture(site):
    server, _, _ = site
    page = read_page(server, "/knowledge", source="characters")
    picture = next(each for each in page.loaded if each.startswith("/entry/picture"))
    status, headers, body = server.ask(picture)
    assert (status, headers["content-type"]) == (200, "image/png")
    assert body.startswith(b"\x89PNG")
    assert server.ask("/entry/picture?uri=notes://1")[0] == 404
    assert server.ask("/entry/picture?uri=characters://999")[0] == 404


def sign_in(server: Server) -> dict[str, str]:
    """The cookie of a browser that used the printed link."""
    link = server.facts["link"].removeprefix(server.url)
    _, headers, _ = server.ask(link, headers={"Accept": "text/html", "Cookie": "a=b"})
    return {"Cookie": headers["set-cookie"].partition(";")[0], "Accept": "text/html"}


def test_agents_are_set_up_by_a_person_who_saw_the_change(site):
    server, root, _ = site
    config = root.parent / ".cursor" / "mcp.json"
    before = config.read_text()
    assert server.ask("/setup")[0] == 403, "an agent with a key is no person"
    person = sign_in(server)
    status, _, body = server.ask("/setup", headers=person)
    assert status == 200
    page = Page(body)
    assert "~/.cursor/mcp.json" in page.text
    assert '"sonde": {' in page.text
    sent = dict(page.fields)
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": server.url}
    wrong = urlencode(sent | {"seen": "0" * 64}).encode()
    assert server.ask("/setup", "POST", wrong, person | form)[0] >= 400
    assert server.ask("/setup", "POST", urlencode(sent).encode(), form)[0] == 403
    assert config.read_text() == before
    status, headers, _ = server.ask("/setup", "POST", urlencode(sent).encode(), person | form)
    assert (status, headers["location"]) == (303, "/setup?done=cursor")
    written = json.loads(config.read_text())["mcpServers"]
    assert written["other"] == {"command": "x"}
    assert "mcp" in written["sonde"]["args"]
    assert "set up" in Page(server.ask("/setup?done=cursor", headers=person)[2]).text
    config.write_text(before)


def test_other_users_see_none_of_it(site):
    server, root, environ = site
    _, secret = Users(Path(environ["SONDE_HOME"]) / "users.json").add_key("bert")
    bert = {"Authorization": f"Bearer {secret}"}
    named = {"project": str(root), "path": "src/cart.py", "name": "total_price", "q": "cart"}
    pictures = read_page(server, "/knowledge", source="characters").loaded
    picture = next(each for each in pictures if each.startswith("/entry/picture"))
    for path in ("/view", "/original", "/names", "/setup", picture):
        wanted = {key: named[key] for key in ("project", "path") if path in ("/view", "/original")}
        wanted |= {"project": str(root), "name": "total_price"} if path == "/names" else {}
        address = f"{path}?{urlencode(wanted)}" if wanted else path
        status, _, body = server.ask(address, headers=bert)
        assert status >= 400, path
        assert b"def total_price" not in body
    for path in ("/", "/jobs", "/projects", "/knowledge", "/go?q=cart",
                 f"/go?{urlencode({'q': 'cart', 'project': str(root)})}"):  # fmt: skip
        status, _, body = server.ask(path, headers=bert)
        assert status == 200, path
        assert not re.search(rb"cart\.py|Trader|>shop<", body), path


@needs_browser
def test_ctrl_k_goes_to_a_file_by_keyboard(visit):
    page = visit("/")
    page.keyboard.press("Control+k")
    page.keyboard.type("cart.py")
    page.locator("dialog [aria-selected=true]", has_text="cart.py").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/view.*cart\.py"))
    page.keyboard.press("?")
    page.locator("dialog.keys", has_text="find in the file").wait_for()
    page.keyboard.press("Escape")
    page.locator("dialog.keys").wait_for(state="detached")
    page.locator(".go").click()
    page.locator("dialog.palette[open]").wait_for()
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0


@needs_browser
def test_enter_in_the_palette_waits_for_what_was_typed(visit):
    page = visit("/projects")
    page.keyboard.press("Control+k")
    page.locator("dialog [aria-selected=true]").wait_for()
    page.keyboard.insert_text("Keys")
    page.keyboard.press("Enter")  # before the server has answered
    page.wait_for_url(re.compile("/keys$"))


@needs_browser
def test_recent_searches_are_kept_in_the_browser_and_results_lead_on(visit):
    page = visit("/?q=discount")
    page.locator("#results a[href^='/view']").first.click()
    page.wait_for_url(re.compile("/view"))
    page.locator("[data-results]", has_text="result 1 of").wait_for()
    page.keyboard.press("]")
    page.locator("[data-results]", has_text="result 2 of").wait_for()
    page.goto("/")
    page.locator("#recent a", has_text="discount").click()
    page.wait_for_url(re.compile("q=discount"))
    page.goto("/")
    page.get_by_role("button", name="Clear").click()
    page.reload()
    assert page.locator("#recent").is_hidden()


@needs_browser
def test_jobs_that_others_start_come_by_themselves(visit, site):
    server, root, environ = site
    page = visit("/jobs")
    with hold_index(Path(environ["SONDE_HOME"]), root):
        body = json.dumps({"project": str(root), "action": "check"}).encode()
        server.ask("/api/projects", "POST", body, {"Content-Type": "application/json"})
        page.locator("#jobs tr", has_text=re.compile("Check")).first.wait_for()
    page.get_by_text("Nothing is running").wait_for()


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_they_are_accessible_fit_and_do_not_shift(visit, axe, site, scheme):  # noqa: F811
    page = visit("/", color_scheme=scheme, bypass_csp=True)
    entry = "/entry?" + urlencode({"uri": next(
        link for link in read_page(site[0], "/knowledge", source="chats").links if "/entry" in link
    ).partition("uri=")[2].replace("%3A%2F%2F", "://")})  # fmt: skip
    places = (
        "/",
        "/go?q=shop",
        "/keys",
        "/knowledge",
        "/knowledge?source=characters",
        "/jobs",
        entry,
    )
    for path in places:
        page.goto(path)
        assert check(page, axe) == [], path
    page.keyboard.press("Control+k")
    page.locator("dialog [aria-selected=true]").wait_for()
    assert check(page, axe) == [], "palette"
    page.set_viewport_size({"width": 360, "height": 740})
    for path in places:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        shift = page.evaluate("""() => new Promise((done) => {
            let sum = 0;
            new PerformanceObserver((list) => {
                for (const each of list.getEntries()) if (!each.hadRecentInput) sum += each.value;
            }).observe({type: "layout-shift", buffered: true});
            requestAnimationFrame(() => requestAnimationFrame(() => done(sum)));
        })""")
        assert shift == 0, (path, shift)
