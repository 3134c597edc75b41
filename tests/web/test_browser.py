"""The page in a real browser: what a person does, by mouse, by keyboard, on a phone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sonde.web.figures import show_jobs
from sonde.web.html import tag
from sonde.web.page import frame

from .conftest import Server
from .site import make_site, serve_site

CHROMIUM = shutil.which("chromium") or ""
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium on this machine")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
AXE = "axe-core@4.14.0"
BOUND_MS = 30_000


@pytest.fixture(scope="module")
def served(start: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    root, environ = make_site(tmp_path_factory.mktemp("browsed"))
    return serve_site(start, root, environ)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Any, served: Server) -> Iterator[Callable[..., Any]]:
    """Opens a page; whatever it logs as an error, or asks another server for, fails the test."""
    contexts, problems = [], []

    def note_request(request: Any) -> None:
        if not request.url.startswith(served.url):
            problems.append(f"loads {request.url}")

    def open_page(path: str, **options: Any) -> Any:
        contexts.append(browser.new_context(base_url=served.url, **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(BOUND_MS)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
        page.on("console", lambda said: said.type == "error" and problems.append(said.text))
        page.on("request", note_request)
        page.goto(path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def test_results_come_while_one_types_and_open_at_their_lines(visit):
    page = visit("/")
    page.locator("#q").press_sequentially("total price of the cart")
    hit = page.locator("a.open", has_text="cart.py").first
    hit.wait_for()
    assert page.locator("mark").count() > 0
    page.wait_for_url(re.compile(r"q=total\+price"))
    page.get_by_role("link", name="Code", exact=True).click()
    assert page.locator("#q").input_value() == "total price of the cart"
    page.locator("a.open", has_text="cart.py").first.click()
    page.wait_for_url(re.compile(r"/view.*#L\d+"))
    line = page.locator(".whole .on").first
    assert line.is_visible()
    page.locator("#L2 > a").click()
    page.locator("#L4 > a").click(modifiers=["Shift"])
    page.wait_for_url(re.compile(r"#L2-L4$"))
    assert page.locator(".whole .on").count() == 3


def test_a_filter_acts_at_once(visit):
    page = visit("/?q=price")
    page.locator("input[name=path]").fill("docs")
    page.locator("a.open", has_text="cart.py").first.wait_for(state="detached")
    assert {each.strip() for each in page.locator("a.open").all_inner_texts()} == {"docs/guide.md"}


def test_the_keyboard_suffices(visit):
    page = visit("/projects")
    page.keyboard.press("/")
    page.wait_for_url(re.compile("/$"))
    page.locator("#q:focus").wait_for()
    page.keyboard.type("discount")
    page.locator("a.open").nth(3).wait_for()
    page.keyboard.press("ArrowDown")
    links = page.locator("a.open")
    focused = "(all) => all.indexOf(document.activeElement)"
    assert links.evaluate_all(focused) == 0
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    assert links.evaluate_all(focused) == 1
    page.keyboard.press("/")
    page.locator("#q:focus").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/view"))


def test_everything_works_without_scripts(visit):
    page = visit("/", java_script_enabled=False)
    page.locator("#q").fill("discount")
    page.get_by_role("button", name="Search").click()
    first = page.locator("a.open").first.inner_text()
    page.get_by_role("link", name="Next page").click()
    assert page.locator("a.open").first.inner_text() != first
    page.get_by_role("link", name="First page").click()
    assert page.locator("a.open").first.inner_text() == first


def test_hostile_names_run_nothing(visit):
    page = visit("/?q=hostile_price&tab=code")
    page.locator("a.open", has_text="<script>").first.click()
    page.wait_for_url(re.compile("/view"))
    assert page.locator("text=<script>alert(1)</script>").count() > 0


def test_the_server_going_away_is_told(visit):
    page = visit("/")
    page.route("**/*", lambda route: route.fulfill(body="busy", content_type="text/plain"))
    page.locator("#q").fill("price")
    page.get_by_text("The server does not answer").wait_for()


def scan_project(visit: Callable[..., Any]) -> str:
    """Scan the project by the form; the address of its page."""
    page = visit("/disk")
    page.locator("#root").fill(".")
    page.get_by_role("button", name="Scan").click()
    page.locator(".map a").first.wait_for()
    # a page that shows a running scan is loaded again when it ends
    page.locator("[data-job]").first.wait_for(state="detached")
    return str(page.url)


def test_the_disk_is_walked_by_its_map(visit):
    page = visit(scan_project(visit))
    page.locator(".map .group > a", has_text="src").click()
    page.locator("h1 .name", has_text="src").wait_for()
    page.locator(".listing a.open", has_text="cart.py").click()
    page.get_by_text("The cart of a shop.").wait_for()
    page.get_by_role("link", name="Its folder").click()
    page.get_by_role("link", name="Name").click()
    assert page.locator(".listing a.open").first.inner_text().startswith("<script>")
    page.locator("h1 a").first.click()
    page.get_by_role("link", name="by extension").click()
    page.locator(".bars", has_text=".py").wait_for()


def test_a_running_job_goes_on_by_itself(visit):
    job = {"jobId": "j1", "kind": "index", "subject": "/shop", "status": "running",
           "startedAt": "2026-01-01T00:00:00Z",
           "progress": {"stage": "indexing", "done": 1}}  # fmt: skip
    shown = frame("Projects", "/projects", tag("h1", "Projects"), show_jobs([job])).body
    further = {**job, "progress": {"stage": "indexing", "done": 30, "total": 60}, "progressPct": 50}
    events = [f"event: progress\ndata: {json.dumps(further)}\n\n"]

    def answer_events(route: Any) -> None:
        # a stream that is cut is asked for again, as when a server is restarted
        route.fulfill(content_type="text/event-stream", body="retry: 50\n\n" + events[0])

    page = visit("/")
    page.route("**/projects", lambda route: route.fulfill(content_type="text/html", body=shown))
    page.route("**/api/jobs/j1/events", answer_events)
    page.goto("/projects")
    page.get_by_text("indexing 30 of 60").wait_for()
    assert page.locator("progress").evaluate("bar => bar.value") == 50
    events[0] = f"event: end\ndata: {json.dumps({**further, 'status': 'done'})}\n\n"
    page.locator(".badge.good", has_text="done").wait_for()
    assert page.locator("progress").count() == 0


def test_a_set_is_built_by_ticking(visit):
    page = visit(scan_project(visit))
    page.get_by_label("Tick src").check()
    page.get_by_label("Name of a new set").fill("to look at")
    page.get_by_role("button", name="Keep").click()
    page.locator("h1", has_text="to look at").wait_for()
    page.locator("a.open", has_text="src").click()
    page.get_by_role("link", name="Look inside").click()
    page.locator("h1 .name", has_text="src").wait_for()


def test_a_login_that_has_ended_leads_to_the_login(visit):
    page = visit("/")
    page.route("**/?*part=results", lambda route: route.fulfill(status=303, headers={
        "location": "/login?next=/"}) if "html" in route.request.headers["accept"]
        else route.fulfill(status=401, content_type="application/json", body="{}"))  # fmt: skip
    page.locator("#q").fill("price")
    page.wait_for_url(re.compile("q=price"))


def test_it_fits_a_phone(visit):
    disk = scan_project(visit)
    for path in (
        disk,
        f"{disk}/reports/largest",
        "/?q=price",
        "/?q=price&tab=paths",
        "/projects",
        "/view?path=src/cart.py",
    ):
        page = visit(path, viewport={"width": 360, "height": 740}, has_touch=True)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, f"{path} is {width} wide"


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The accessibility checker's own script, from the npm registry."""
    folder = tmp_path_factory.mktemp("axe")
    if not shutil.which("npm"):
        pytest.skip("there is no npm to get axe-core with")
    got = subprocess.run(["npm", "pack", AXE, "--silent"], cwd=folder, capture_output=True)
    packed = next(folder.glob("*.tgz"), None)
    if got.returncode or packed is None:
        pytest.skip(f"{AXE} cannot be had here")
    with tarfile.open(packed) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member
        return member.read().decode()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(visit, axe, scheme):
    disk = scan_project(visit)
    for path in (disk, f"{disk}/reports/largest", "/disk", "/sets", "/", "/?q=price",
                 "/?q=(&tab=lines", "/?q=cart&tab=paths", "/projects",
                 "/view?path=src/cart.py&lines=2-4"):  # fmt: skip
        page = visit(path, color_scheme=scheme, bypass_csp=True)
        page.evaluate(axe)
        found = page.evaluate("axe.run()")["violations"]
        told = [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]
        assert told == [], path
