"""Every page as it is laid out: nothing shifts, nothing is wider than a phone or a 4K screen."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from .conftest import CHROMIUM, Server
from .site import SONDE, make_site, send, serve_site
from .test_home import sign_in
from .test_pages import wait_for_job
from .test_viewer import read_page

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium on this machine")

SCREENS = {"phone": (360, 740), "laptop": (1280, 800), "4K": (3840, 2160)}
LONG = "a_very_long_name_" * 12
"""Without a place to break, as names of files are."""
SHIFT = """() => new Promise((done) => {
    const moved = [], name = (source) => source.node?.outerHTML?.slice(0, 120);
    new PerformanceObserver((list) => {
        for (const each of list.getEntries()) moved.push([each.value, ...each.sources.map(name)]);
    }).observe({type: "layout-shift", buffered: true});
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(moved))));
})"""
"""What moved since the page began, and by how much."""
OVERFLOW = """() => {
    const wide = document.documentElement.clientWidth;
    const kept = (each) => {  // by something that scrolls or cuts off
        for (let at = each.parentElement; at && at !== document.body; at = at.parentElement)
            if (getComputedStyle(at).overflowX !== "visible") return true;
        return false;
    };
    const right = (each) => each.getBoundingClientRect().right;
    const beyond = (each) => each.checkVisibility() && right(each) > wide + 1;
    const out = [...document.body.querySelectorAll("*")]
        .filter((each) => beyond(each) && !kept(each)).map((each) => each.outerHTML.slice(0, 120));
    const page = document.documentElement.scrollWidth;
    return page > wide ? [`the page: ${page}`, ...out] : out;
}"""
"""What reaches beyond the right edge of the window."""
LINKS = """() => [...document.links].map((each) => each.href)
    .filter((way) => way.startsWith(location.origin))"""


def add_long_names(root: Path) -> None:
    (root / "src" / f"{LONG}.py").write_text(f"def {LONG}():\n    return '{LONG}'\n")
    (root / "docs" / "wide.md").write_text(
        f"# {LONG}\n\n{LONG}\n\n`{LONG}`\n\n| a | b |\n|---|---|\n| {LONG} | {LONG} |\n"
    )


@pytest.fixture(scope="module")
def site(
    start: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Server, dict[str, str]]:
    """A server with something long on every page, and what stands for parts of addresses."""
    folder = tmp_path_factory.mktemp("laid-out")
    root, environ = make_site(folder, add_long_names)
    (folder / ".cursor").mkdir()
    (folder / ".cursor" / "mcp.json").write_text(f'{{"mcpServers": {{"{LONG}": {{}}}}}}\n')
    (folder / f"{LONG}.md").write_text(f"---\ntags: [{LONG}]\n---\n# {LONG}\n\n{LONG}\n")
    imported = [*SONDE, "knowledge", "import", str(folder / f"{LONG}.md")]
    subprocess.run(imported, cwd=root, env=environ, check=True, capture_output=True)
    server = serve_site(start, root, environ)
    disk = send(server, "/disk", ("root", str(root)))[1]
    wait_for_job(server, server.read(f"/api/indexes/{disk[6:]}")[1]["job"]["jobId"])
    node = server.read(f"/api/indexes/{disk[6:]}/detail?path=src/{LONG}.py")[1]["nodeId"]
    entry = next(way for way in read_page(server, "/knowledge").links if way.startswith("/entry?"))
    kept = send(server, "/sets", ("name", LONG[:200]), ("node_ids", node))[1]
    query = (
        ("index_id", disk[6:]),
        ("filter", "size>10 kind:file"),
        ("name", LONG[:200]),
        ("then", "run"),
    )
    return server, {
        "disk": disk, "node": node, "set": kept, "query": send(server, "/queries", *query)[1],
        "entry": entry,
        "project": quote(str(root)), "long": LONG, "cookie": sign_in(server)["Cookie"],
    }  # fmt: skip


@pytest.fixture(scope="module")
def served(site: tuple[Server, dict[str, str]]) -> Server:
    return site[0]


PLACES = (
    "/?q=price", "/", "/?q={long}", "/?q=price+lang:haskell", "/?q=(&tab=lines",
    "/?q=def+a_very&tab=lines", "/?q=a_very&tab=paths", "/?q=raise+price&tab=knowledge",
    "/?q=src/cart.py:2&tab=related", "/?q=price&tab=history", "/?q=price&tab=code",
    "/?q=price&tab=docs",
    "/view?path=src/cart.py&lines=2-4", "/view?path=src/{long}.py", "/view?path=docs/wide.md",
    "/view?path=docs/wide.md&view=source", "/view?path=src", "/view?path=.env",
    "/names?path=src/cart.py&name=total_price", "/projects", "/project?project={project}",
    "/disk", "{disk}", "{disk}?path=src&by=age", "{disk}/nodes/{node}", "{disk}/reports/largest",
    "{disk}/reports/by-extension", "{disk}/reports/by-age", "{disk}/reports/duplicates",
    "{disk}/reports/growth", "/queries", "{query}", "/sets", "{set}", "/knowledge",
    "/knowledge?source=notes", "{entry}", "/jobs", "/setup", "/keys", "/go?q=cart", "/nowhere",
    "/logout",
)  # fmt: skip
REFUSED = {"/view?path=.env": 403, "/nowhere": 404}


@pytest.mark.parametrize("screen", SCREENS)
def test_nothing_shifts_and_nothing_overflows(visit, site, screen):
    server, parts = site
    width, height = SCREENS[screen]
    name, _, value = parts["cookie"].partition("=")
    cookies = [{"name": name, "value": value, "url": server.url}]
    # as the person at this machine, who alone sees the set-up of agents
    page = visit("/login", extra_http_headers={}, viewport={"width": width, "height": height})
    page.context.add_cookies(cookies)
    found = {"/login": page.evaluate(SHIFT) + page.evaluate(OVERFLOW)}
    links: dict[tuple[str, int], str] = {}
    for place in PLACES:
        answer = open_at_rest(page, place.format_map(parts))
        assert answer.status == REFUSED.get(place, 200), place
        assert page.url == server.url + place.format_map(parts), "it leads nowhere else"
        found[place] = page.evaluate(SHIFT) + page.evaluate(OVERFLOW)
        links |= {kind_of(link): link for link in page.evaluate(LINKS)}
    page.goto(parts["set"])
    page.get_by_role("button", name="Delete this set").click()
    page.get_by_role("button", name="Yes, continue").wait_for()
    found["a question"] = page.evaluate(SHIFT) + page.evaluate(OVERFLOW)
    assert {place: wrong for place, wrong in found.items() if wrong} == {}
    seen = {kind_of(server.url + place.format_map(parts)) for place in PLACES}
    others = [link for kind, link in links.items() if kind not in seen]
    pages = [link for link in others if "html" in page.request.get(link).headers["content-type"]]
    assert pages == [], "these were not looked at"


def open_at_rest(page: Any, address: str) -> Any:
    """Open a page and give the answer. A page that shows a running job is loaded again when it
    ends, so it is opened once none runs."""
    answer = page.goto(address)
    while page.locator("[data-job]").count():
        page.locator("[data-job]").first.wait_for(state="detached")
        answer = page.goto(address)
    return answer


def kind_of(link: str) -> tuple[str, int]:
    """What the addresses of one page have in common, whatever it shows: `/sets/1`, `/sets/2`."""
    steps = urlsplit(link).path.split("/")
    return steps[1], len(steps)


def test_the_measures_see_what_they_are_to_see(visit):
    page = visit("/keys", bypass_csp=True)
    page.evaluate(
        """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
            document.querySelector("main").style.marginTop = "300px";
            document.querySelector("main h1").style.width = "9000px";
            document.body.style.overflowX = "clip";
            requestAnimationFrame(done);
        })))"""
    )
    assert page.evaluate(SHIFT) != []
    assert any("<h1" in each for each in page.evaluate(OVERFLOW))
