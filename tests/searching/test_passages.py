"""A search shows the definition that answers: its lines, its name, and what was left out."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from tests.trees import write_files

import sonde
from sonde.ranking.question import read_question

LONG = "".join(f"    step_{at} = prepare({at})\n" for at in range(80))
FILES = {
    "shop/cart.py": (
        '"""Carts."""\n\n\ndef total_price(items):\n    return sum(items)\n\n\n'
        "class Cart:\n"
        '    """Holds what is bought."""\n\n'
        "    @property\n    def size(self):\n        return len(self.items)\n\n"
        "    def add_item(self, item):\n        self.items.append(item)\n\n"
        "    def save(self):\n        self.store.write(self)\n"
    ),
    "shop/store.py": (
        "class Store:\n    def save(self):\n        self.flush()\n\n\n"
        f"def migrate_database(target):\n    check(target)\n{LONG}    rename_columns(target)\n"
    ),
    "shop/net.rs": (
        "/// Sends a request and waits.\n#[inline]\n"
        "pub fn send_request(url: &str) -> u8 {\n    1\n}\n"
    ),
    "shop/Money.java": (
        "class Money {\n"
        "    long round(long cents) {\n        return cents / 100;\n    }\n\n"
        "    long round(double cents) {\n        return (long) cents / 100;\n    }\n\n"
        "    void print() {\n        out.print(this);\n    }\n\n"
        "    long round(String cents) {\n        return parse(cents) / 100;\n    }\n"
        "}\n"
    ),
    "docs/guide.md": "# Guide\n\nAbout us.\n\n## Returns\n\nParcels come back to the depot.\n\n"
    + "".join(f"Step {at} of a return asks for form {at}.\n" for at in range(60)),
    "shop/pay.rs": "".join(f"/// Says {at} of what this is for.\n" for at in range(60))
    + "pub trait IntoPayment {\n    fn into_payment(self) -> u8;\n}\n\n"
    + "".join(
        f"impl IntoPayment for u{at} {{\n    fn into_payment(self) -> u8 {{ 1 }}\n}}\n"
        for at in range(8, 12)
    ),
    "web/guards/index.ts": "export * from './consumer.js';\nexport * from './context.js';\n",
    "web/guards/consumer.ts": "export class Consumer {\n  execute(all: Guard[]) {\n"
    "    return all.every(one => one.allows());\n  }\n}\n",
    "tests/test_cart.py": "def add_item():\n    pass\n\n\ndef test_total():\n    assert True\n",
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sonde.Sonde]:
    folder = tmp_path_factory.mktemp("passages")
    root = write_files(folder / "project", FILES)
    with sonde.open(root, home=folder / "home") as made:
        made.index()
        yield made


def first(opened: sonde.Sonde, query: str, max_tokens: int = 2_000) -> sonde.Hit:
    return opened.search(query, max_tokens=max_tokens)[0]


def lines_of(path: str, start: int, end: int) -> str:
    return "\n".join(FILES[path].split("\n")[start - 1 : end])


@pytest.mark.parametrize(
    ("query", "symbol", "lines"),
    [
        ("total_price", "total_price", (4, 5)),
        ("totalPrice", "total_price", (4, 5)),
        ("TOTAL_PRICE", "total_price", (4, 5)),
        ("total_price()", "total_price", (4, 5)),
        ("def total_price(items):", "total_price", (4, 5)),
        ("add_item", "Cart.add_item", (15, 16)),
        ("size", "Cart.size", (11, 13)),
        ("Cart.save", "Cart.save", (18, 19)),
        ("Cart::save", "Cart.save", (18, 19)),
        ("Cart#save", "Cart.save", (18, 19)),
        ("cart->save", "Cart.save", (18, 19)),
        ("shop.cart.Cart.save", "Cart.save", (18, 19)),
    ],
)
def test_a_name_leads_to_exactly_its_definition(
    opened: sonde.Sonde, query: str, symbol: str, lines: tuple[int, int]
) -> None:
    hit = first(opened, query)
    assert (hit.path, hit.symbol) == ("shop/cart.py", symbol)
    assert (hit.start_line, hit.end_line) == lines
    assert hit.text == lines_of(hit.path, *lines)
    assert not hit.is_clipped


def test_documentation_and_attributes_belong_to_a_definition(opened: sonde.Sonde) -> None:
    hit = first(opened, "send_request")
    assert (hit.path, hit.start_line, hit.end_line) == ("shop/net.rs", 1, 5)


def test_a_long_documentation_does_not_hide_what_is_defined(opened: sonde.Sonde) -> None:
    hit = first(opened, "IntoPayment")
    assert (hit.path, hit.symbol) == ("shop/pay.rs", "IntoPayment")


def test_a_part_of_a_section_says_where_the_whole_is(opened: sonde.Sonde) -> None:
    (hit, *_) = opened.search("parcels come back to the depot", docs=True, max_tokens=300)
    row = hit.as_dict()
    assert (row["symbol"], row["clipped"], row["definition"]) == ("Guide", True, (1, 68))
    assert row["endLine"] < 68


def test_a_file_that_only_passes_names_on_does_not_answer(opened: sonde.Sonde) -> None:
    assert first(opened, "guards").path == "web/guards/consumer.ts"
    assert first(opened, "web/guards/index.ts").path == "web/guards/index.ts"


def test_the_scope_decides_between_equal_names(opened: sonde.Sonde) -> None:
    assert first(opened, "Store.save").path == "shop/store.py"
    assert first(opened, "Cart.save").path == "shop/cart.py"


def test_tests_come_after_what_they_test(opened: sonde.Sonde) -> None:
    named = [hit.path for hit in opened.search("add_item") if hit.symbol.endswith("add_item")]
    assert named == ["shop/cart.py", "tests/test_cart.py"]


def test_a_long_definition_shows_its_signature_and_says_what_it_left_out(
    opened: sonde.Sonde,
) -> None:
    hit = first(opened, "rename the columns of the database", max_tokens=400)
    assert hit.symbol == "migrate_database"
    whole = (6, 6 + 82)
    row = hit.as_dict()
    assert row["clipped"]
    assert row["definition"] == whole
    assert hit.text.startswith("def migrate_database(target):")
    assert hit.text.endswith("    rename_columns(target)")
    (start, end), (again, last) = row["parts"]
    assert (start, last) == (hit.start_line, hit.end_line) == whole
    shown = [lines_of(hit.path, start, end), "⋮", lines_of(hit.path, again, last)]
    assert hit.text == "\n".join(shown)


def test_a_file_gives_a_hit_for_each_answer(opened: sonde.Sonde) -> None:
    found = opened.search("the total price of what a cart holds")
    ours = [hit for hit in found if hit.path == "shop/cart.py"]
    assert ours[0].symbol == "total_price"
    assert len(ours) > 1
    lines = sorted((hit.start_line, hit.end_line) for hit in ours)
    assert all(end < start for (_, end), (start, _) in pairwise(lines))


def test_a_question_about_what_is_done_leads_to_the_function_that_does_it(
    opened: sonde.Sonde,
) -> None:
    question = "Appends a given item to the list of items of a cart"
    assert first(opened, question).symbol == "Cart.add_item"
    assert read_question(question).is_description
    assert not read_question("item list of shopping carts").is_description


@pytest.mark.parametrize("query", ["Money.round", "rounds the cents of some money"])
def test_overloads_that_stand_together_are_one_hit(opened: sonde.Sonde, query: str) -> None:
    found = [hit for hit in opened.search(query) if hit.symbol == "Money.round"]
    assert sorted((hit.start_line, hit.end_line) for hit in found) == [(2, 8), (14, 16)]
    texts = {hit.start_line: hit.text.rstrip("\n") for hit in found}
    assert texts[2] == lines_of("shop/Money.java", 2, 8)
