"""Which file a question or a report leads to, asked through `import sonde`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.trees import write_files

import sonde

FILES = {
    "shop/__init__.py": "",
    "shop/cart.py": "class Cart:\n    def add(self, item):\n        self.items.append(item)\n",
    "shop/net/sessions.py": (
        "class Session:\n    def resolve(self, reply):\n        return self.follow(reply)\n"
    ),
    "shop/net/cookies.py": "class CookieJar:\n    def keep(self, cookie):\n        pass\n",
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
