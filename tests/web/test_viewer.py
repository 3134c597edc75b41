"""The page of a file: what it shows, renders, sanitises and leaves out; and its keys."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from sonde.web.viewer.rendering import DocumentPlace, render_markdown, render_notebook

from .conftest import Server
from .site import SECRET, Page, make_site, serve_site
from .test_browser import CHROMIUM, axe, check  # noqa: F401 - a fixture

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
DATA = base64.b64encode(PICTURE).decode()
README = """# Shop

See the [guide](docs/guide.md#prices), the [outside](https://example.org) and ![logo](logo.png).

- [ ] raise prices
- [x] lower prices

| a | b |
|---|--:|
| 1 | 2 |

```python
def sell(): return 1
```
"""
HOSTILE = """<script>alert(1)</script><img src=x onerror=alert(2)>
<a href="javascript:alert(3)">a</a>
<a href="data:text/html,<script>alert(4)</script>">b</a><style>body{display:none}</style>
<form action="/project/forget"><button>c</button></form><p id="main" class="note on">d</p>
<img src="https://elsewhere.example/pixel.png" alt="counted"><iframe src="/"></iframe>
"""


@pytest.fixture(scope="module")
def site(
    start: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Server, Path]:
    root, environ = make_site(tmp_path_factory.mktemp("viewed"), add=add_files)
    return serve_site(start, root, environ | {"SONDE_EDITOR": "zed"}), root


def make_pdf(text: str) -> bytes:
    """A document of one page."""
    stream = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
    font = b"/Resources << /Font << /F1 5 0 R >> >>"
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R %s >>" % font,
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    data, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 6\n0000000000 65535 f \n" + rows
    end = b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(data)
    return data + head + end


def add_files(root: Path) -> None:
    (root / "peas.pdf").write_bytes(make_pdf("Prices of peas"))
    (root / "README.md").write_text(README)
    (root / "logo.png").write_bytes(PICTURE)
    for number in ("07", "08"):
        with (root / "src" / f"rule_{number}.py").open("a") as file:
            file.write("def same_name():\n    return 1\n")
    (root / "drawing.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>')
    (root / "src" / "shop.py").write_text(
        "from src.cart import total_price\n\n\nclass Shop:\n    def sell(self, items):\n"
        "        return total_price(items)\n"
    )
    (root / "src" / "steps.py").write_text(
        "".join(f"def step_{n}():\n    return {n}\n" for n in range(99))
    )
    cells = [
        {"cell_type": "markdown", "source": ["# Sums\n", HOSTILE]},
        {"cell_type": "code", "execution_count": 1, "source": "total_price([])", "outputs": [
            {"output_type": "stream", "text": ["0\n"]},
            {"output_type": "display_data", "data": {"image/png": DATA}},
            {"output_type": "display_data", "data": {"text/html": HOSTILE}}]},
    ]  # fmt: skip
    (root / "sums.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}}))


@pytest.fixture(scope="module")
def served(site: tuple[Server, Path]) -> Server:
    return site[0]


@pytest.fixture
def visit(visit: Callable[..., Any]) -> Callable[..., Any]:
    return partial(visit, permissions=["clipboard-read"])


needs_browser = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium on this machine")


def read_page(server: Server, path: str, expected: int = 200, /, **query: object) -> Page:
    status, _, body = server.ask(f"{path}?{urlencode(query)}")
    assert status == expected, body[:500]
    return Page(body)


def test_markdown_is_rendered_and_its_links_stay_in_the_project(site):
    page = read_page(site[0], "/view", path="README.md")
    root = urlencode({"project": str(site[1])})
    assert f"/view?{root}&path=docs%2Fguide.md#prices" in page.links
    assert "https://example.org" in page.links
    assert f"/original?{root}&path=logo.png" in page.loaded
    assert "shop" in page.ids, "headings are named as elsewhere"
    assert "☐ raise prices" in page.text
    assert "☑ lower prices" in page.text
    source = read_page(site[0], "/view", path="README.md", view="source")
    assert "- [ ] raise prices" in source.text


def test_a_hit_in_a_rendered_document_is_marked(site):
    page = read_page(site[0], "/view", path="README.md", lines="5-6")
    assert "L5" in page.ids
    html = render_markdown(README, DocumentPlace("/p", "README.md"), (5, 6))
    assert '<span id="L5"></span><ul class="on">' in html
    html = render_markdown(README, DocumentPlace("/p", "README.md"), (1, 1))
    assert '<span id="L1"></span><h1 class="on" id="shop">' in html, "it keeps its own name"
    assert render_markdown("", DocumentPlace("/p", "README.md"), (1, 1)) == ""


def test_nothing_of_a_document_runs_loads_or_poses_as_ours():
    html = render_markdown(HOSTILE, DocumentPlace("/p", "docs/a.md"))
    for bad in ("script", "onerror", "javascript:", "data:", "style", "form", "elsewhere", "frame"):
        assert bad not in html.replace("alert", ""), bad
    assert 'id="main"' not in html
    assert "note" not in html
    assert 'alt="counted"' in html
    outside = "[a](../../etc/passwd) [b](//elsewhere.example/) ![c](/../../x.png)"
    html = render_markdown(outside, DocumentPlace("/p", "docs/a.md"))
    assert "href" not in html
    assert "src" not in html


def test_a_notebook_is_shown_by_its_cells(site):
    page = read_page(site[0], "/view", path="sums.ipynb")
    assert "Sums" in page.text
    assert "total_price([])" in page.text
    assert any(each.startswith("data:image/png;base64,") for each in page.loaded)
    place = DocumentPlace("/p", "a.ipynb")
    text = json.dumps(
        {"cells": [{"cell_type": "code", "outputs": [{"data": {"text/html": HOSTILE}}]}]}
    )
    assert "alert(1)" not in (render_notebook(text, place) or "")
    for broken in ("{", "[]", '{"cells": 3}', '{"cells": [3, {"outputs": [null]}]}'):
        render_notebook(broken, place)


def test_a_picture_is_shown_and_sent_in_a_sandbox(site):
    server, _ = site
    page = read_page(server, "/view", path="logo.png")
    address = next(each for each in page.loaded if each.startswith("/original"))
    status, headers, body = server.ask(address)
    assert (status, headers["content-type"], body) == (200, "image/png", PICTURE)
    for name in ("logo.png", "drawing.svg"):
        _, headers, _ = server.ask(f"/original?{urlencode({'path': name})}")
        assert headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert "<script/>" in read_page(server, "/view", path="drawing.svg", view="source").text


def test_the_text_of_a_pdf_is_shown(site):
    pytest.importorskip("pypdf", reason="sonde[documents] is not installed")
    page = read_page(site[0], "/view", path="peas.pdf")
    assert "Prices of peas" in page.text
    assert any(link.startswith("/original") for link in page.links), "the file itself"


def test_what_searches_may_not_read_is_neither_listed_nor_sent(site):
    server, root = site
    (root / "key.png").write_text("ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6")
    (root / "link.png").symlink_to("/etc/hostname")
    listed = read_page(server, "/view", path="/")
    assert ".env" not in listed.text
    assert "link.png" not in listed.text
    for path in (".env", "link.png", "../home/users.json", "src/cart.py", "nowhere.png", "key.png"):
        status, _, body = server.ask(f"/original?{urlencode({'path': path})}")
        assert status in (403, 404), path
        assert SECRET.encode() not in body
    outside = {"path": "note.md", "project": str(root.parent)}
    assert server.ask(f"/view?{urlencode(outside)}")[0] in (400, 403, 404)
    assert server.ask(f"/names?{urlencode({'name': 'x', 'project': str(root.parent)})}")[0] >= 400


def test_a_permanent_link_follows_its_line(site):
    server, root = site
    file = root / "src" / "moving.py"
    file.write_text("a = 1\nb = 2\nc = 3\n")
    mark = f"{zlib.crc32(b'b = 2'):08x}"
    link = {"path": "src/moving.py", "lines": "2-3", "at": mark}
    assert "line 2" not in read_page(server, "/view", **link).text
    file.write_text("new = 0\n" * 5 + "a = 1\nb = 2\nc = 3\n")
    page = read_page(server, "/view", **link)
    assert "it is line 7 now" in page.text
    file.write_text("gone\n")
    assert "Line 2 has changed" in read_page(server, "/view", **link).text


def test_a_name_leads_to_its_definitions_and_uses(site):
    page = read_page(site[0], "/names", name="total_price")
    assert "1 definition, 3 uses" in page.text
    places = [link for link in page.links if "/view" in link]
    assert any("cart.py" in link and link.endswith("#L4") for link in places)
    assert sum("shop.py" in link for link in places) == 2
    for here in ("src/rule_07.py", "src/rule_08.py"):
        page = read_page(site[0], "/names", name="same_name", path=here)
        first = next(link for link in page.links if link.startswith("/view"))
        assert urlencode({"path": here}) in first, "the file one is in comes first"
    assert "Nothing is named nonsense" in read_page(site[0], "/names", name="nonsense").text


def test_the_editor_of_the_settings_comes_first(site):
    page = read_page(site[0], "/view", path="src/cart.py", lines="4")
    editors = [link for link in page.links if "://file" in link or "jetbrains" in link]
    assert editors[0] == f"zed://file{site[1]}/src/cart.py:4"
    assert len(editors) == 4


def test_it_works_without_scripts(site):
    page = read_page(site[0], "/view", path="src/cart.py", find="PRICE")
    assert set(page.marked) == {"price"}
    folder = read_page(site[0], "/view", path="src")
    links = [link for link in folder.links if "cart.py" in link]
    assert links
    assert any("path=%2F" in link for link in folder.links), "the way up"


@needs_browser
def test_the_outline_marks_the_definition_that_a_link_leads_to(visit):
    page = visit("/view?path=src/steps.py#L81")
    page.locator(".outline [aria-current]", has_text="step_40").wait_for()


@needs_browser
def test_the_keys_of_a_file(visit, site):
    page = visit("/view?path=src/cart.py#L4")
    page.keyboard.press("f")
    page.keyboard.type("items")
    page.locator("output", has_text="1 of 2").wait_for()
    page.keyboard.press("Enter")
    page.locator("output", has_text="2 of 2").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("o")
    assert page.evaluate("document.activeElement.closest('#outline') !== null")
    page.keyboard.press("t")
    assert page.evaluate("document.activeElement.textContent") == "cart.py"
    page.keyboard.press("e")
    assert page.evaluate("document.activeElement.href") == f"zed://file{site[1]}/src/cart.py:4"
    page.keyboard.press("Escape")
    page.keyboard.press("y")
    page.locator(".done", has_text="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert f"at={zlib.crc32(b'def total_price(items):'):08x}" in copied
    page.goto(copied)
    assert page.locator(".whole .on").count() == 1
    page.keyboard.press("d")
    page.locator("#names a", has_text="total_price").first.click()
    page.locator("#names a.open", has_text="return total_price(items)").click()
    page.wait_for_url(re.compile(r"shop\.py.*#L6"))


@needs_browser
def test_a_click_on_a_name_shows_where_it_is_from(visit):
    page = visit("/view?path=src/shop.py")
    page.locator("#L6 .c-function", has_text="total_price").click()
    page.locator("#names", has_text="cart.py").wait_for()
    page.keyboard.press("Escape")
    assert page.locator("#names").is_hidden()


@needs_browser
def test_the_tree_opens_in_place_and_the_head_covers_nothing(visit):
    page = visit("/view?path=README.md")
    page.locator(".tree a", has_text="src").click()
    page.locator(".tree a", has_text="cart.py").click()
    page.wait_for_url(re.compile("cart"))
    page.evaluate("scrollTo(0, 0)")
    top, head = (page.locator(name).bounding_box() for name in (".top", ".whole-file > .head"))
    assert head["y"] >= top["y"] + top["height"]
    page.get_by_role("link", name="shop", exact=True).first.click()
    page.locator(".folder-list", has_text="README.md").wait_for()
    page.keyboard.press("/")


@needs_browser
def test_r_switches_between_rendered_and_source(visit):
    page = visit("/view?path=README.md")
    page.keyboard.press("r")
    page.wait_for_url(re.compile("view=source"))
    page.keyboard.press("r")
    page.locator(".rendered h1", has_text="Shop").wait_for()


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_viewer_is_accessible_and_fits(visit, axe, scheme):  # noqa: F811
    page = visit("/", color_scheme=scheme, bypass_csp=True)
    for path in ("README.md", "sums.ipynb", "logo.png", "src", "src/shop.py"):
        page.goto(f"/view?{urlencode({'path': path})}")
        assert check(page, axe) == [], path
    page.locator("#L6 .c-function", has_text="total_price").click()
    page.locator("#names", has_text="cart.py").wait_for()
    assert check(page, axe) == [], "names"
    page.goto("/names?name=total_price")
    assert check(page, axe) == [], "names by themselves"
    page.set_viewport_size({"width": 360, "height": 740})
    for path in ("README.md", "sums.ipynb", "logo.png", "src", "src/shop.py"):
        page.goto(f"/view?{urlencode({'path': path})}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
