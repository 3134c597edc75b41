"""The page in a real browser: what a person does, by mouse, by keyboard, on a phone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from .conftest import BOUND_MS, CHROMIUM, Server, browser  # noqa: F401 - a fixture
from .site import hold_index, make_site, serve_site

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium on this machine")
AXE = "axe-core@4.14.0"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    return make_site(tmp_path_factory.mktemp("browsed"))


@pytest.fixture(scope="module")
def served(start: Callable[..., Server], project: tuple[Path, dict[str, str]]) -> Server:
    return serve_site(start, *project)


def test_results_come_while_one_types_and_open_at_their_lines(visit):
    page = visit("/")
    page.locator("#q").press_sequentially("total price of the cart")
    hit = page.locator("a.open", has_text="cart.py").first
    hit.wait_for()
    assert page.locator("mark").count() > 0
    page.wait_for_url(re.compile(r"q=total\+price"))
    page.get_by_role("link", name="Code", exact=True).click()
    page.wait_for_url(re.compile("tab=code"))
    assert page.locator("#q").input_value() == "total price of the cart"
    page.locator("a.open", has_text="cart.py").first.click()
    page.wait_for_url(re.compile(r"/view.*#L\d+"))
    page.locator(".whole .on").first.wait_for()
    page.locator("#L2 > a").click()
    page.locator("#L4 > a").click(modifiers=["Shift"])
    page.wait_for_url(re.compile(r"#L2-L4$"))
    page.locator("#L4.on").wait_for()  # the event of the new address comes after the address
    assert page.locator(".whole .on").count() == 3


def test_a_choice_acts_at_once(visit):
    page = visit("/?q=price")
    page.get_by_label("By").select_option("lexical")
    page.wait_for_url(re.compile("mode=lexical"))
    page.locator("a.open", has_text="cart.py").first.wait_for()


def test_a_tab_takes_along_what_is_in_the_form(visit):
    page = visit("/?q=price")
    page.route("**/*part=results*", lambda _route: None)  # it stays open: no results come
    page.get_by_label("By").select_option("lexical")
    page.locator("#q").press("End")
    page.locator("#q").press_sequentially(" of the cart")
    page.get_by_role("link", name="Code", exact=True).click()
    page.wait_for_url(re.compile("tab=code"))
    assert page.locator("#q").input_value() == "price of the cart"
    assert page.get_by_label("By").input_value() == "lexical"


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
    page.get_by_role("link", name="More results").click()
    assert page.locator("a.open").first.inner_text() != first
    page.get_by_role("link", name="First results").click()
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
    page.locator("#folder").fill(".")
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
    page.get_by_role("link", name="Parent folder").click()
    page.get_by_role("link", name="Name").click()
    page.wait_for_url(re.compile("sort=name"))
    assert page.locator(".listing a.open").first.inner_text().startswith("<script>")
    page.locator("h1 a").first.click()
    page.get_by_role("link", name="by extension").click()
    page.locator(".bars", has_text=".py").wait_for()


def test_a_running_job_goes_on_by_itself(visit, project):
    root, environ = project
    page = visit("/project?" + urlencode({"project": str(root)}))
    # what the page tells, kept across the reload that ends it
    page.add_init_script("""
        const told = JSON.parse(sessionStorage.told || "[]");
        new MutationObserver(() => {
            const now = document.querySelector("[data-note]")?.textContent;
            if (now && now !== told.at(-1)) told.push(now);
            sessionStorage.told = JSON.stringify(told);
        }).observe(document, {subtree: true, childList: true, characterData: true});
    """)
    with hold_index(Path(environ["SONDE_HOME"]), root):
        page.get_by_role("button", name="Rebuild").click()
        page.get_by_role("button", name="Yes, continue").click()
        running = page.locator("[data-job]", has_text="Stop").first
        running.locator(".badge", has_text="running").wait_for()
        running.locator("progress").wait_for()
        assert page.get_by_role("button", name="Stop this index").is_visible()
        assert page.get_by_role("button", name="Rebuild").count() == 0, "it runs already"
    page.get_by_role("button", name="Stop this index").wait_for(state="detached")
    page.locator("tr", has_text="index").locator(".badge.good").first.wait_for()
    told = json.loads(page.evaluate("sessionStorage.told"))
    assert any(re.search(r"\d+ of \d+", each) for each in told), told
    assert page.get_by_role("button", name="Rebuild").is_visible()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_job_is_stopped_by_its_button(visit, project, scripts):
    root, environ = project
    page = visit("/projects", java_script_enabled=scripts)
    with hold_index(Path(environ["SONDE_HOME"]), root):
        page.locator("#folder").fill(str(root))
        page.get_by_role("button", name="Index", exact=True).click()
        with page.expect_navigation():
            page.get_by_role("button", name="Stop this index").click()
        newest = page.locator(".jobs tbody tr").first
        if scripts:
            newest.get_by_text("cancelled", exact=True).wait_for()
        for _ in range(100):
            if newest.get_by_text("cancelled", exact=True).count():
                break
            page.reload()  # without scripts nothing changes by itself
        assert newest.get_by_text("cancelled", exact=True).is_visible()
    assert page.get_by_role("button", name="Stop this index").count() == 0


def test_the_end_of_a_job_calls_off_no_step_to_another_page(visit, project):
    root, environ = project
    page = visit("/projects")
    with hold_index(Path(environ["SONDE_HOME"]), root):
        page.locator("#folder").fill(str(root))
        page.get_by_role("button", name="Index", exact=True).click()
        page.locator("[data-job]").first.wait_for()
        # as a link does whose page is not there yet
        page.evaluate("window.stays = true, dispatchEvent(new Event('beforeunload'))")
    page.locator("[data-job] [data-status]", has_text="done").first.wait_for()
    assert page.evaluate("window.stays")


def test_the_list_of_jobs_outlives_a_server_that_is_away(visit, project, served):
    root, environ = project
    page = visit("/jobs")
    page.route("**/jobs?part=jobs", lambda route: route.abort())
    page.wait_for_event("requestfailed")
    page.wait_for_event("requestfailed")
    page.unroute("**/jobs?part=jobs")
    with hold_index(Path(environ["SONDE_HOME"]), root):
        body = json.dumps({"project": str(root)}).encode()
        sent = served.ask("/api/projects", "POST", body, {"Content-Type": "application/json"})
        job = json.loads(sent[2])["jobId"]
        page.locator(f"[data-job='{job}']").wait_for()
    page.locator(f"[data-row='{job}']:not([data-job]) .badge.good").wait_for()


def save_query(visit: Callable[..., Any], text: str = "size>50 kind:file", **options: Any) -> Any:
    page = visit("/queries", **options)
    page.locator("#filter").fill(text)
    page.get_by_role("button", name="Save and run").click()
    return page


@pytest.mark.parametrize("scripts", [True, False])
def test_a_query_is_written_mended_run_and_forgotten(visit, scripts):
    scan_project(visit)
    page = save_query(visit, "size>5XB", java_script_enabled=scripts)
    page.locator("#problem mark", has_text="5XB").wait_for()
    page.locator("#filter:focus").wait_for()  # one can go on writing
    assert page.locator("#filter").input_value() == "size>5XB"
    page.locator("#filter").fill("size>5KB kind:file")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/queries/\w+"))
    page.locator("td a.open", has_text="long.py").wait_for()
    page.locator("summary", has_text="Query plan").click()
    page.get_by_text("SELECT n.id FROM nodes").wait_for()
    page.get_by_role("link", name="Show all").click()
    page.wait_for_url(re.compile("/sets/"))
    page.go_back()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("link", name="Cancel").click()
    page.wait_for_url(re.compile(r"/queries/\w+"))
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Yes, continue").click()
    page.wait_for_url(re.compile(r"/queries$"))


def test_the_keyboard_reaches_everything_on_the_other_pages(visit, places):
    page = visit("/")
    for name, path in places.items():
        page.goto(path)
        page.locator("main").focus()
        # a line's number is left out on purpose: a file has thousands
        every = """[...document.querySelectorAll("main :is(a[href], button, input, select)")]
            .filter((each) => each.checkVisibility() && each.tabIndex >= 0)"""
        wanted = page.evaluate(f"""() => {{
            window.reached = new Set();
            document.addEventListener("focusin", (event) => reached.add(event.target));
            return {every}.length;
        }}""")
        for _ in range(wanted + 20):  # regions that scroll are reached as well
            page.keyboard.press("Tab")
        missed = page.evaluate(
            f"{every}.filter((each) => !reached.has(each)).map((each) => each.outerHTML)"
        )
        assert missed == [], name


def test_a_set_is_built_by_ticking(visit):
    page = visit(scan_project(visit))
    page.get_by_label("Select src").check()
    page.get_by_label("Name of a new set").fill("to look at")
    page.get_by_role("button", name="Keep").click()
    page.locator("h1", has_text="to look at").wait_for()
    page.locator("a.open", has_text="src").click()
    page.get_by_role("link", name="Open", exact=True).click()
    page.locator("h1 .name", has_text="src").wait_for()


@pytest.mark.parametrize("scripts", [True, False])
def test_two_sets_are_combined(visit, scripts):
    page = visit(scan_project(visit), java_script_enabled=scripts)
    folder = page.url
    for name, ticked in (("code", ["src", "docs"]), ("prose", ["docs"])):
        page.goto(folder)
        for each in ticked:
            page.get_by_label(f"Select {each}").check()
        page.get_by_label("Name of a new set").fill(f"{name} {scripts}")
        page.get_by_role("button", name="Keep").click()
        page.locator("h1", has_text=f"{name} {scripts}").wait_for()
    page.get_by_label("Combine with").select_option(f"code {scripts}")
    page.get_by_label("and keep").select_option("what is in both")
    page.get_by_label("Name of the new set").fill("together")
    page.get_by_role("button", name="Combine").click()
    page.locator("h1", has_text="together").wait_for()
    assert page.locator("td a.open").all_inner_texts() == ["docs"]


def test_a_login_that_has_ended_leads_to_the_login(visit):
    page = visit("/")
    page.route("**/?*part=results", lambda route: route.fulfill(status=303, headers={
        "location": "/login?next=/"}) if "html" in route.request.headers["accept"]
        else route.fulfill(status=401, content_type="application/json", body="{}"))  # fmt: skip
    page.locator("#q").fill("price")
    page.wait_for_url(re.compile("q=price"))


@pytest.fixture(scope="module")
def places(browser: Any, served: Server) -> dict[str, str]:  # noqa: F811
    """Every kind of page, each with something on it."""
    page = browser.new_context(**served.browser_options).new_page()
    page.set_default_timeout(BOUND_MS)
    disk = scan_project(lambda path, **_: page.goto(path) and page)
    for name in ("another", "filled"):
        page.goto(disk)
        page.get_by_label("Select docs").check()
        page.get_by_label("Name of a new set").fill(name)
        page.get_by_role("button", name="Keep").click()
        page.wait_for_url(re.compile("/sets/"))
    made = page.url
    query = save_query(lambda path, **_: page.goto(path) and page)
    query.wait_for_url(re.compile(r"/queries/\w+"))
    question = query.url
    page.goto(f"{disk}?path=src")
    page.locator(".listing a.open", has_text="cart.py").click()
    file = page.url
    page.goto("/?q=raise+price&tab=knowledge")
    page.locator("a.open").first.click()
    page.wait_for_url(re.compile("/entry"))
    entry = page.url
    page.goto("/projects")
    page.locator(".cards a", has_text="Status").first.click()
    page.wait_for_url(re.compile("/project[?]"))
    kept = {"project": page.url, "entry": entry, "set": made, "query": question}
    page.context.close()
    return {
        **kept, "folder": disk, "file of the disk": file, "begin": "/", "found": "/?q=price",
        "wrong": "/?q=(&tab=lines", "paths": "/?q=cart&tab=paths", "projects": "/projects",
        "view": "/view?path=src/cart.py&lines=2-4", "disk": "/disk", "sets": "/sets",
        "queries": "/queries", "nowhere": "/nowhere", "refused": "/view?path=.env",
        "largest": f"{disk}/reports/largest", "by extension": f"{disk}/reports/by-extension",
        "duplicates": f"{disk}/reports/duplicates", "growth": f"{disk}/reports/growth",
    }  # fmt: skip


def test_they_fit_a_phone(visit, places):
    page = visit("/", viewport={"width": 360, "height": 740}, has_touch=True)
    for name, path in places.items():
        page.goto(path)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, f"{name} is {width} wide"


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
def test_axe_finds_nothing(visit, axe, places, scheme):
    page = visit("/", color_scheme=scheme, bypass_csp=True)
    for name, path in places.items():
        page.goto(path)
        if page.locator("details").count():
            page.locator("summary").first.click()
        assert check(page, axe) == [], name
    page.goto("/queries")
    page.locator("#filter").fill("size>")
    page.get_by_role("button", name="Save and run").click()
    page.locator("#problem").wait_for()
    assert check(page, axe) == [], "what is wrong with a filter"
    page.goto(places["set"])
    page.get_by_role("button", name="Delete this set").click()
    page.get_by_role("button", name="Yes, continue").wait_for()
    assert check(page, axe) == [], "a question"


def check(page: Any, axe: str) -> list[Any]:
    page.evaluate(axe)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]
