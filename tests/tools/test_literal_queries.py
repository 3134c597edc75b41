"""Queries that are no questions: what they name or spell comes first, in every search."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.trees import write_files

from sonde.app import App
from sonde.runtime.work import Work
from sonde.tools.code import search_code, search_docs
from sonde.tools.index import create_index
from sonde.tools.pages import hybrid_search

CART = '''"""The cart."""
import decimal as dec


class Cart:
    def add_item(self, item, quantity):
        if quantity < 1:
            raise ValueError(f"cannot add {quantity} of {item!r}: at least one is needed")
        self.items.append((item, quantity))

    def price_handler(self):
        return sum(item.price for item in self.items)

    def tax_handler(self):
        raise RuntimeError(
            "the tax of this country is not known, "
            "so that no price can be told"
        )
'''
FILES = {
    "pyproject.toml": "[project]\nname = 'shop'\n",
    "src/shop/cart.py": CART,
    "src/shop/__init__.py": "",
    "src/shop/mail/send.py": "def send_invoice(cart):\n    return cart.price_handler()\n",
    "lib/send.py": "def send_parcel(cart):\n    return cart\n",
    "tests/test_cart.py": "class TestCart:\n    def test_price(self):\n        assert 1\n\n"
    "    def test_tax(self):\n        assert 2\n",
    "java/com/shop/Order.java": "package com.shop;\n\nclass Order {\n  void pay() {\n  }\n}\n",
    "docs/guide.md": "# Guide\n\nHow the price_handler is used.\n",
    "wide.min.js": "x=1;" * 500 + "needle_in_code();" + "y=2;" * 500 + "\n",
    "urls.py": "ROUTES = [r'^items/(?P<id>[0-9]+)/$']\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_files(tmp_path / "project", FILES)


def ask(app: App, query: str, **options: Any) -> list[Any]:
    return search_code(app, query, work=Work(), **options)["results"]


def note(app: App, query: str, **options: Any) -> str:
    return str(search_code(app, query, work=Work(), **options)["metadata"].get("note", ""))


def shows(row: Any, line: int) -> bool:
    return bool(row["startLine"] <= line <= row["endLine"])


@pytest.mark.parametrize(
    ("query", "path", "line"),
    [
        ("src/shop/cart.py", "src/shop/cart.py", 1),
        ("cart.py:11", "src/shop/cart.py", 11),
        ("./shop/cart.py:11:7", "src/shop/cart.py", 11),
        ("shop/cart.py#L11-L12", "src/shop/cart.py", 11),
        ('File "/srv/lib/shop/cart.py", line 11, in run', "src/shop/cart.py", 11),
        (r"C:\work\shop\mail\send.py:2", "src/shop/mail/send.py", 2),
        ("shop/mail/send", "src/shop/mail/send.py", 1),
        ("tests/test_cart.py::TestCart::test_tax", "tests/test_cart.py", 5),
        ("at com.shop.Order.pay(Order.java:4)", "java/com/shop/Order.java", 4),
        ("cart.py:900", "src/shop/cart.py", 17),
        ("docs/guide.md", "docs/guide.md", 1),
        ("SHOP/Cart.py", "src/shop/cart.py", 1),
    ],
)
def test_a_named_file_is_first_and_shows_the_line(
    app: App, query: str, path: str, line: int
) -> None:
    rows = ask(app, query)
    assert rows[0]["path"] == path
    assert shows(rows[0], line)
    assert rows[0]["text"]
    assert len(rows) > 1
    assert [row["score"] for row in rows] == sorted((r["score"] for r in rows), reverse=True)


def test_an_absolute_path_names_the_file_of_this_project(app: App, root: Path) -> None:
    rows = ask(app, f"{root}/lib/send.py:2")
    assert rows[0]["path"] == "lib/send.py"
    assert "src/shop/mail/send.py" not in [row["path"] for row in rows[:1]]


def test_the_line_is_shown_however_small_the_answer(app: App, root: Path) -> None:
    lines = "".join(f"    step_{number}(1)\n" for number in range(300))
    (root / "long.py").write_text(f"def long():\n{lines}")
    create_index(app, work=Work())
    rows = ask(app, "long.py:222", max_tokens=200)
    assert shows(rows[0], 222)
    assert "step_220" in rows[0]["text"]


def test_several_files_of_one_name_all_lead(app: App) -> None:
    rows = ask(app, "send.py")
    assert {row["path"] for row in rows[:2]} == {"lib/send.py", "src/shop/mail/send.py"}


def test_an_empty_file_is_found_by_its_path(app: App) -> None:
    assert ask(app, "shop/__init__.py")[0]["path"] == "src/shop/__init__.py"


def test_a_path_that_is_not_there_is_said_to_be_missing(app: App) -> None:
    assert note(app, "other/cart.py") == (
        "No indexed file is `other/cart.py`. Of that name: src/shop/cart.py."
    )
    assert note(app, "src/nothing.py:12") == "No indexed file is `src/nothing.py`."
    assert not note(app, "price/total")  # two words with a slash, as far as anybody knows


def test_a_folder_is_read_as_its_files(app: App) -> None:
    assert {row["path"] for row in ask(app, "src/shop/")[:3]} == {
        path for path in FILES if path.startswith("src/shop/")
    }
    assert note(app, "src/shop/") == "Read as a folder: 3 files."


def test_a_path_outside_a_filter_is_not_found(app: App) -> None:
    rows = ask(app, "src/shop/cart.py:11", path="lib")
    assert {row["path"] for row in rows} == {"lib/send.py"}


def test_a_regular_expression_finds_the_lines_it_matches(app: App) -> None:
    rows = ask(app, r"def \w+_handler\(")
    assert [(row["path"], row["startLine"], row["text"]) for row in rows] == [
        ("src/shop/cart.py", 11, "    def price_handler(self):"),
        ("src/shop/cart.py", 14, "    def tax_handler(self):"),
    ]
    assert note(app, r"def \w+_handler\(") == (
        "Read as a regular expression: all matching lines. For words: mode `lexical`."
    )
    assert "the first 1 matching lines" in note(app, r"def \w+_handler\(", top_k=1)
    assert "def" in ask(app, r"def \w+_handler\(", mode="lexical")[0]["text"]


def test_a_match_in_a_very_long_line_is_shown(app: App) -> None:
    (row,) = ask(app, r"needle\w+\(")
    assert "needle_in_code" in row["text"]
    assert len(row["text"]) < 1000


def test_an_expression_that_matches_nothing_is_looked_for_as_it_is(app: App) -> None:
    rows = ask(app, "^items/(?P<id>[0-9]+)/$")
    assert rows[0]["path"] == "urls.py"
    assert "matches no line" in note(app, "^items/(?P<id>[0-9]+)/$")


def test_a_glob_finds_paths(app: App) -> None:
    assert [row["path"] for row in ask(app, "src/**/*.py")] == [
        path for path in sorted(FILES) if path.startswith("src/")
    ]
    assert note(app, "**/send.py") == "Read as a glob: 2 files."
    assert note(app, "*.py", top_k=2) == "Read as a glob: 6 files. search_by_path lists all."
    assert [row["path"] for row in ask(app, "docs/*")] == ["docs/guide.md"]


def test_a_glob_without_a_path_finds_nothing(app: App) -> None:
    assert not ask(app, "*.tf")
    assert note(app, "*.tf") == "No indexed path matches this glob."
    assert ask(app, "cart.*price")  # an expression, not a glob


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ('"at least one is needed"', 8),
        ("ValueError: cannot add 0 of 'shoe': at least one is needed", 8),
        ("cannot add -3 of <Item '7'>: at least one is needed", 8),
        ("RuntimeError: the tax of this country is not known, so that no price can be told", 16),
    ],
)
def test_a_message_finds_the_line_that_writes_it(app: App, query: str, line: int) -> None:
    row = ask(app, query)[0]
    assert row["path"] == "src/shop/cart.py"
    assert shows(row, line)
    assert "raise" in row["text"]


@pytest.mark.parametrize("key", ["cart-max-age", "--cart-age", "CART_DEBUG", "conf.cartAge"])
def test_a_key_that_nothing_defines_finds_the_lines_that_spell_it(
    app: App, root: Path, key: str
) -> None:
    (root / "src/shop/options.py").write_text(f"LIMIT = 3\n\n\nAGES = [LIMIT, '{key}']\n")
    (root / "tests/test_options.py").write_text("class TestOptions:\n    CART_DEBUG = 1\n")
    row = ask(app, key)[0]
    assert (row["path"], row["endLine"]) == ("src/shop/options.py", 4)
    assert ask(app, "LIMIT")[0]["symbol"] == "LIMIT"
    assert "No line holds this text." in note(app, "cart-max-size")


def test_every_line_with_a_text_counts_alike(app: App, root: Path) -> None:
    (root / "lib/notes.py").write_text("# price_handler and price_handler\n")
    create_index(app, work=Work())
    found = {row["path"] for row in ask(app, '"price_handler"')[:3]}
    assert found == {"src/shop/cart.py", "src/shop/mail/send.py", "lib/notes.py"}


def test_a_quoted_text_that_is_nowhere_is_said_to_be_nowhere(app: App) -> None:
    assert note(app, '"price of the moon"') == "No line holds this text."


def test_lines_are_looked_for_in_the_kind_that_is_searched(app: App) -> None:
    code = ask(app, '"price_handler"')
    docs = search_docs(app, '"price_handler"', work=Work())["results"]
    assert "docs/guide.md" not in {row["path"] for row in code}
    assert docs[0]["path"] == "docs/guide.md"


@pytest.mark.parametrize(
    "query", ["cart.py:11", r"def price_\w+\(", "*cart*.py", '"price_handler"']
)
def test_pages_of_a_hybrid_search_begin_with_the_same(app: App, query: str) -> None:
    page = hybrid_search(app, query, work=Work())
    first = json.loads(json.dumps(page))["results"]["matches"][0]
    assert "cart" in first["file"]["path"]


def test_the_next_page_goes_on_after_the_exact_hits(app: App) -> None:
    first = search_code(app, "src/shop/cart.py:11", max_tokens=200, work=Work())
    rest = search_code(app, cursor=first["nextCursor"], work=Work())
    paths = [(row["path"], row["startLine"]) for row in first["results"] + rest["results"]]
    assert len(paths) == len(set(paths))


def test_an_edited_file_is_shown_as_it_is_now(app: App, root: Path) -> None:
    (root / "lib/send.py").write_text("# moved\n" * 20 + "def send_parcel(cart):\n    pass\n")
    assert "def send_parcel" in ask(app, "lib/send.py:21")[0]["text"]


def test_every_project_is_searched_for_what_is_named(
    open_app: Callable[..., App], root: Path, tmp_path: Path
) -> None:
    other = write_files(tmp_path / "other", {"pyproject.toml": "", "src/cart.py": "x = 1\n"})
    for start in (root, other):
        create_index(open_app(start=start), work=Work())
    rows = ask(open_app(), "cart.py:1", project="all")
    assert {row["path"] for row in rows[:2]} == {"src/shop/cart.py", "src/cart.py"}
    lines = ask(open_app(), r"def \w+_handler\(", project="all")
    assert {row["path"] for row in lines} == {"src/shop/cart.py"}
