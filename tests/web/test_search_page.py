"""The search page in a real browser: groups, colours, facets, completion, and results that follow
the keys."""

from __future__ import annotations

import gzip
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from sonde.web.pages.html import STATIC

from .conftest import CHROMIUM, Server
from .site import SONDE, make_site, serve_site
from .test_browser import axe, check  # noqa: F401 - a fixture

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium on this machine")
MOST_BYTES = 120_000


@pytest.fixture(scope="module")
def served(start: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    root, environ = make_site(tmp_path_factory.mktemp("searched"))
    (root / "src" / "stock.py").write_text(
        "".join(
            f'def stock_{name}(shelf):\n    """Count the shelf for {name}."""\n'
            f"    return len(shelf)  # {name}\n\n\n"
            for name in ("books", "pens", "ink", "paper", "glue", "tape")
        )
    )
    (root / "src" / "sorting.py").write_text(
        "".join(
            f'def sort_{name}(shelves):\n    """Return the shelves sorted by colour and {name}.\n\n'
            + "".join(f"    Rule {number} for shelves and their colour.\n" for number in range(12))
            + '    """\n    return sorted(shelves)\n\n\n'
            for name in ("height", "width", "age")
        )
    )
    (root / "tests").mkdir()
    (root / "tests" / "test_stock.py").write_text(
        "def test_stock():\n    assert stock_books([]) == 0\n"
    )
    (root / "web").mkdir()
    (root / "web" / "stock.js").write_text(
        "export function stockShelf(shelf) {\n  return shelf;\n}\n"
    )
    subprocess.run(
        [*SONDE, "--yes", "index"], cwd=root, env=environ, check=True, capture_output=True
    )
    return serve_site(start, root, environ)


def files(page: Any) -> list[str]:
    return [each.strip() for each in page.locator("a.open").all_inner_texts()]


def test_results_are_grouped_by_file_in_colours_and_folded_after_three(visit):
    page = visit("/?q=stock+shelf")
    group = page.locator(".file-group", has=page.locator("a.open", has_text="src/stock.py"))
    assert group.count() == 1, "a file is shown once"
    assert group.locator("> .match").count() == 3
    assert re.search(r"\d matches", group.locator(".count").inner_text())
    assert group.locator(".language").inner_text() == "Python"
    assert group.locator(".symbol").first.inner_text().startswith("stock_")
    assert group.locator(".why").first.inner_text()
    assert group.locator(".c-keyword", has_text="def").count() >= 3
    assert "stock" in group.locator("mark").first.inner_text().lower()
    folded = group.locator("details")
    assert not folded.locator(".match").first.is_visible()
    folded.locator("summary").click()
    folded.locator(".match").first.wait_for()
    number = group.locator(".code a").first
    line = number.inner_text()
    number.click()
    page.wait_for_url(re.compile(rf"/view.*#L{line}$"))


def test_the_best_match_of_a_file_is_shown_in_full_and_the_others_shorter(visit):
    page = visit("/?q=shelves+sorted+by+colour")
    group = page.locator(".file-group", has=page.locator("a.open", has_text="src/sorting.py"))
    sizes = [match.locator(".code a").count() for match in group.locator("> .match").all()]
    assert len(sizes) > 1
    assert sizes[0] > 8
    assert max(sizes[1:]) < 8


def test_the_name_of_a_file_stays_in_sight_and_its_path_is_copied(visit):
    page = visit("/?q=stock+shelf", viewport={"width": 1280, "height": 300},
                 permissions=["clipboard-read", "clipboard-write"])  # fmt: skip
    group = page.locator(".file-group", has=page.locator("a.open", has_text="src/stock.py"))
    group.locator("> .match").nth(2).scroll_into_view_if_needed()
    page.mouse.wheel(0, 80)
    form = page.locator("#search").bounding_box()
    page.wait_for_function("scrollY > 80")
    head = group.locator("> h2").bounding_box()
    assert form["y"] + form["height"] - 2 <= head["y"] < 300, "right below the box"
    group.hover()
    group.get_by_role("button", name="Copy path").click()
    group.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "src/stock.py"


def test_lines_are_shown_under_their_file(visit):
    page = visit("/?tab=lines&q=def+stock_%5Cw%2B+lang:python")
    assert "6 lines in 1 file" in page.locator(".summary").inner_text()
    numbers = page.locator(".by-line .code a").all_inner_texts()
    assert numbers == ["1", "6", "11", "16", "21", "26"]
    assert page.locator("mark").first.inner_text() == "def stock_books"


@pytest.mark.parametrize("scripts", [True, False])
def test_a_facet_narrows_and_is_taken_back(visit, scripts):
    page = visit("/?q=stock+shelf", java_script_enabled=scripts)
    before = files(page)
    assert {"src/stock.py", "web/stock.js"} <= set(before)
    language = page.locator(".facet a", has_text="JavaScript")
    assert language.locator(".number").inner_text() == "1"
    language.click()
    page.wait_for_url(re.compile("lang%3Ajavascript"))
    page.locator(".facet a[aria-current]", has_text="JavaScript").wait_for()
    assert page.locator("#q").input_value() == "stock shelf lang:javascript"
    assert files(page) == ["web/stock.js"]
    page.locator(".facet a[aria-current]", has_text="JavaScript").click()
    page.locator("a.open", has_text="src/stock.py").wait_for()
    assert page.locator("#q").input_value() == "stock shelf"
    page.locator(".facet a", has_text="No tests").click()
    page.locator("a.open", has_text="test_stock.py").wait_for(state="detached")
    assert page.locator("#q").input_value() == "stock shelf -kind:test"


def test_overtaken_requests_are_cancelled_and_the_last_keys_win(visit):
    page = visit("/")
    held, ended = [], []
    page.on("requestfailed", lambda request: ended.append(request.url))

    def hold(route: Any) -> None:
        if "q=stock&" in route.request.url:
            held.append(route)
        else:
            route.continue_()

    page.route("**/?*part=results", hold)
    page.locator("#q").fill("stock")
    page.wait_for_function("document.getElementById('results').hasAttribute('aria-busy')")
    page.locator("#q").fill("stock lang:javascript")
    page.locator("a.open", has_text="web/stock.js").wait_for()
    assert [url for url in ended if "q=stock&" in url], "the request for fewer keys was dropped"
    assert files(page) == ["web/stock.js"]
    assert page.evaluate("location.search") == "?q=stock+lang%3Ajavascript" or "project" in page.url
    assert page.title() == "stock lang:javascript · sonde"
    for route in held:
        route.abort()


def test_a_slow_server_is_asked_at_once_when_free_and_once_for_keys_that_overtake_it(visit):
    page = visit("/")
    page.clock.install(time=0)
    page.reload()
    page.clock.pause_at(1000)  # from here on, time passes only as it is told to
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route("**/?*part=results", hold)
    box = page.locator("#q")

    def type_keys(query: str) -> None:
        with page.expect_request(re.compile("part=results")):
            box.fill(query)

    type_keys("stock")
    page.clock.run_for(1000)
    held.pop().continue_()
    page.locator("a.open", has_text="src/stock.py").wait_for()
    type_keys("stock_")  # it took a second, but nothing is under way
    with page.expect_event("requestfailed"):  # dropped at once, before the keys rest
        box.fill("stock_b")
    box.fill("stock_books")
    assert len(held) == 1, "the keys have not come to rest"
    with page.expect_request(re.compile("q=stock_books")):
        page.clock.run_for(250)
    held.pop().continue_()
    page.locator(".symbol", has_text="stock_books").first.wait_for()
    for route in held:
        route.abort()


def test_back_and_forward_show_what_was_seen(visit):
    page = visit("/?q=stock_books")
    box = page.locator("#q")
    box.fill("total_price")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("q=total_price"))
    box.fill("stock_glue")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("q=stock_glue"))
    page.go_back()
    page.locator(".symbol", has_text="total_price").first.wait_for()
    assert box.input_value() == "total_price"
    page.go_back()
    page.locator(".symbol", has_text="stock_books").first.wait_for()
    assert box.input_value() == "stock_books"
    page.go_forward()
    page.locator(".symbol", has_text="total_price").first.wait_for()
    assert box.input_value() == "total_price"
    page.reload()
    assert box.input_value() == "total_price", "the address is a link to what is seen"


def test_conditions_are_completed(visit):
    page = visit("/")
    box = page.locator("#q")
    box.press_sequentially("stock la")
    page.locator("#completions li", has_text="lang:").wait_for()
    page.keyboard.press("Tab")
    assert box.input_value() == "stock lang:"
    box.press_sequentially("javas")
    page.locator("#completions li:nth-child(1)", has_text="lang:javascript").wait_for()
    page.keyboard.press("ArrowDown")
    assert box.get_attribute("aria-activedescendant") == "completion-0"
    page.keyboard.press("Enter")
    assert box.input_value() == "stock lang:javascript "
    page.locator("a.open", has_text="web/stock.js").wait_for()
    assert page.locator("#completions").is_hidden()
    box.fill("stock file:we")
    page.locator("#completions li", has_text="file:web/").click()
    assert box.input_value() == "stock file:web/"


def test_more_results_come_below_and_the_place_is_kept(visit):
    page = visit("/?tab=lines&q=def+discount_")
    assert "60 lines in 60 files" in page.locator(".summary").inner_text()
    first = files(page)
    more = page.locator("a.next")
    more.scroll_into_view_if_needed()
    at = page.evaluate("scrollY")
    more.click()
    page.locator(f".hits > li:nth-child({len(first) + 1})").wait_for()
    assert files(page)[: len(first)] == first
    assert len(set(files(page))) == len(files(page)) > len(first)
    assert page.evaluate("scrollY") == at


def test_nothing_found_says_what_to_take_back(visit):
    page = visit("/?q=stock+lang:haskell")
    assert "Nothing found" in page.locator(".note").inner_text()
    page.locator(".note a", has_text="lang:haskell").click()
    page.locator("a.open", has_text="src/stock.py").wait_for()


def test_a_word_that_occurs_nowhere_finds_no_notes_but_one_of_a_note_does(visit):
    page = visit("/?q=zzzqqqxx")
    assert "Nothing found" in page.locator(".note").inner_text()
    assert page.locator(".note code", has_text="semantic").count() == 1
    page.locator(".note a", has_text="Search by meaning").click()
    page.wait_for_url(re.compile("mode=semantic"))
    page.goto("/?q=meeting")
    assert page.locator(".of-notes").count() == 1


def test_a_note_that_answers_better_than_any_file_comes_first(visit):
    page = visit("/?q=when+do+we+raise+the+price+at+the+meeting")
    assert files(page)[0] == "note"
    assert len(files(page)) > 1
    page.goto("/?q=price")
    assert files(page).index("note") > 0


def test_notes_that_do_not_answer_are_left_out(visit):
    for query in ("stock every shelf", "count the shelf for every ink"):
        page = visit(f"/?q={query}")
        assert files(page)
        assert "note" not in files(page)


def test_a_file_that_is_not_there_can_be_looked_for(visit):
    page = visit("/view?path=web/nope/stock.js")
    page.get_by_role("link", name="Look for it by name").click()
    assert files(page) == ["web/stock.js"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_any_state(visit, axe, scheme):  # noqa: F811
    page = visit("/?q=stock+shelf+lang:python", color_scheme=scheme, bypass_csp=True)
    page.locator(".file-group details summary").first.click()
    assert check(page, axe) == [], "a facet is chosen, a file unfolded"
    page.goto("/?q=stock+lang:haskell")
    assert check(page, axe) == [], "nothing found"
    page.goto("/?tab=lines&q=def+stock_")
    assert check(page, axe) == [], "lines"
    page.locator("#q").fill("stock lang:py")
    page.locator("#completions li").first.wait_for()
    page.keyboard.press("ArrowDown")
    assert check(page, axe) == [], "completions"


def test_nothing_moves_while_a_page_is_laid_out(visit):
    page = visit("/?q=stock+shelf")
    shift = page.evaluate("""() => new Promise((done) => {
        let sum = 0;
        new PerformanceObserver((list) => {
            for (const each of list.getEntries()) sum += each.value;
        }).observe({ type: "layout-shift", buffered: true });
        requestAnimationFrame(() => requestAnimationFrame(() => done(sum)));
    })""")
    assert shift == 0


def test_scripts_and_styles_stay_small():
    sizes = {name: len(gzip.compress(body)) for name, body in STATIC.items()}
    assert sum(size for name, size in sizes.items() if not name.endswith(".svg")) < MOST_BYTES, (
        sizes
    )
