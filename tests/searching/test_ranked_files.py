"""Which file a question or a report leads to, asked through `import sonde`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.trees import write_files

import sonde
from sonde.chunking.parse import parse_source
from sonde.ranking.passages import FILES as BEST
from sonde.ranking.question import read_question
from sonde.ranking.weights import CODE
from sonde.searching.modes import weigh_files
from sonde.searching.search import Search, gather_files, read_names
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.types import FileState, Filter, ParsedFile

FILES = {
    "shop/__init__.py": "",
    "shop/cart.py": "class Cart:\n    def add(self, item):\n        self.items.append(item)\n",
    "shop/net/sessions.py": (
        "class Session:\n    def resolve(self, reply):\n        return self.follow(reply)\n"
    ),
    "shop/net/cookies.py": "class CookieJar:\n    def keep(self, cookie):\n        pass\n",
    "shop/filters.py": "class Filter:\n    def __or__(self, other):\n        return other\n",
    "shop/pages.py": ('"""Redirects lose cookies: what the title says, where it is not."""\n'),
    "tests/test_cookies.py": "def test_cookies_lost_on_redirect():\n    assert True\n",
}
TITLE = "Cookies are lost on redirects"
REPORT = f"""{TITLE}

When the server answers with a redirect, everything that was stored before is gone. I would have
expected it to be sent again, as browsers do. It happens with every server that I tried.

```
Traceback (most recent call last):
  File "/home/me/try.py", line 8, in <module>
    shop.get(address)
  File "/usr/lib/python3/dist-packages/shop/net/sessions.py", line 2, in resolve
    return self.follow(reply)
AttributeError: no such thing
```
"""


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sonde.Sonde]:
    monkeypatch.setenv("SONDE_EMBEDDING", "static")
    root = write_files(tmp_path / "project", FILES)
    with sonde.open(root, home=tmp_path / "home") as made:
        made.index()
        yield made


def paths(opened: sonde.Sonde, query: str) -> list[str]:
    return [hit.path for hit in opened.search(query)]


def test_a_stack_trace_leads_to_its_file(opened: sonde.Sonde) -> None:
    assert paths(opened, TITLE)[0] != "shop/net/sessions.py"
    assert paths(opened, REPORT)[0] == "shop/net/sessions.py"


def test_an_empty_file_of_the_right_name_has_nothing_to_show(opened: sonde.Sonde) -> None:
    assert "shop/__init__.py" not in paths(opened, "shop.__init__")


def test_a_report_says_why_its_file_is_there(opened: sonde.Sonde) -> None:
    best = opened.search(REPORT)[0]
    assert "told_frame" in str(best)


def test_a_file_defines_the_name_whatever_the_question_puts_before_it(opened: sonde.Sonde) -> None:
    found = {hit.path: str(hit) for hit in opened.search("Cart.__or__")}
    assert "defines_symbol" in found["shop/filters.py"]


@pytest.mark.parametrize("query", ["total of the cart items", "add_total", "how is a price made"])
def test_files_left_out_of_the_look_at_definitions_could_not_lead(
    tmp_path: Path, query: str
) -> None:
    store = SqliteChunkStore(tmp_path, "code")
    names = ["total", "cart_items", "add_total", "price", "make_price", "run", "cart", "helper"]
    for at in range(60):
        folder = "tests/a/b/c/d" if at % 4 == 0 else f"part{at % 7}"  # which counts much against it
        path, text = f"{folder}/{names[at % 8]}{at}.py", f"def {names[at * 5 % 8]}(): {at}\n"
        cut = parse_source(path, text + "# total cart price\n" * (at % 3), kind="code")
        state = FileState(path, str(at), len(text), at, "python", "code")
        store.replace([ParsedFile(state, cut.chunks, cut.symbols)])
    search, question = Search(store, Filter(), 10), read_question(query)
    every = gather_files(search, question)
    read_names(search, question, every)
    for file in every:
        file.weigh(CODE)
    every.sort(key=lambda file: (-file.score, file.state.path))
    found = weigh_files(search, question)
    store.close()
    assert len(found) == len(every) > BEST
    assert [(file.state.path, pytest.approx(file.score)) for file in every[:BEST]] == [
        (file.state.path, file.score) for file in found[:BEST]
    ]
    assert not all(file.is_settled for file in found)
