"""A project with hostile names, indexed and served, and what reads its pages."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

from sonde.runtime.work import WriterLock

from .conftest import Server

EVIL = "<script>alert(1)</script>"
EVIL_NAME = '<script>alert("2")&.py'
SECRET = "hunter2-never-shown"
SONDE = (sys.executable, "-m", "sonde.cli.main")


def make_site(
    folder: Path, add: Callable[[Path], None] = lambda _root: None
) -> tuple[Path, dict[str, str]]:
    """An indexed project below `folder`, with the files that `add` adds to it, and the environment
    to serve it in."""
    root = folder / "shop"
    (root / "src").mkdir(parents=True)
    (root / "docs").mkdir()
    (root / "pyproject.toml").write_text('[project]\nname = "shop"\n')
    (root / "src" / "cart.py").write_text(
        '"""The cart of a shop."""\n\n\n'
        "def total_price(items):\n"
        '    """Add up the price of everything in the cart."""\n'
        "    return sum(item.price for item in items)\n"
    )
    (root / "src" / EVIL_NAME).write_text(f'def hostile_price():\n    return "{EVIL}"\n')
    for number in range(60):
        (root / "src" / f"rule_{number:02}.py").write_text(
            f"def discount_{number}(price):\n    return price * {number}\n"
        )
    (root / "src" / "long.py").write_text("".join(f"x{n} = {n}\n" for n in range(1, 7001)))
    (root / "docs" / "guide.md").write_text(f"# Prices\n\nHow a price is made. {EVIL}\n")
    (root / ".env").write_text(f"PASSWORD={SECRET}\n")
    add(root)
    environ = {
        **os.environ, "SONDE_HOME": str(folder / "home"), "SONDE_FILE_ROOTS": str(folder),
        "SONDE_EMBEDDING": "none", "SONDE_RATE_LIMIT": "0", "HOME": str(folder),
    }  # fmt: skip
    subprocess.run([*SONDE, "--yes", "index"], cwd=root, env=environ, check=True,
                   capture_output=True)  # fmt: skip
    note = folder / "note.md"
    note.write_text(f"# Meeting on prices\n\nWe raise every price. {EVIL}\n")
    added = [*SONDE, "knowledge", "import", str(note)]
    subprocess.run(added, cwd=root, env=environ, check=True, capture_output=True)
    return root, environ


def serve_site(start: Callable[..., Server], root: Path, environ: dict[str, str]) -> Server:
    """The server, started in the project."""
    return start(*SONDE[1:], "serve", "--port", "0", "--json", env=environ, cwd=root)


class Page(HTMLParser):
    """What is on a page, as a browser would read it."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.scripts = 0
        self.foreign_scripts = 0
        self.text = ""
        self.marked: list[str] = []
        self.cells: list[str] = []
        self.ticks: list[str] = []
        self.tiles: list[str] = []
        self.fields: list[tuple[str, str]] = []
        self.actions: list[str] = []
        self.inside: list[str] = []
        self.feed(body.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in ("input", "link", "meta", "br", "hr", "img"):
            self.inside.append(tag)
        if tag == "a":
            self.links.append(given.get("href") or "")
            if "section" in self.inside and "td" not in self.inside:
                self.tiles.append(given.get("href") or "")
        if tag in ("link", "script", "img"):
            self.loaded.append(given.get("href") or given.get("src") or "")
        if given.get("type") == "checkbox":
            self.ticks.append(given["value"] or "")
        if given.get("type") == "hidden":
            self.fields.append((given["name"] or "", given["value"] or ""))
        if tag == "form" and given.get("method") == "post":
            self.actions.append(given["action"] or "")
        self.scripts += tag == "script"
        ours = (given.get("src") or "").startswith("/static/")
        self.foreign_scripts += tag == "script" and not ours
        assert not [name for name in given if name.startswith("on")], given
        if given.get("id"):
            assert given["id"] not in self.ids, given
            self.ids.add(given["id"] or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.inside.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "td" in self.inside:
            self.cells.append(data)
        if "mark" in self.inside:
            self.marked.append(data)


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def send(server: Server, path: str, *fields: tuple[str, str]) -> tuple[int, str, Page]:
    """Send a form; the status, where it leads, and the page that came."""
    status, headers, body = server.ask(path, "POST", urlencode(fields).encode(), FORM)
    return status, headers.get("location", ""), Page(body)


def agree(server: Server, path: str, *fields: tuple[str, str]) -> str:
    """Send a form that is asked about first, say yes, and give where it leads."""
    status, _, page = send(server, path, *fields)
    assert status == 200
    assert page.actions == [path]
    assert "?" in page.text
    assert set(fields) < set(page.fields), "nothing of what was sent is lost"
    status, way, _ = send(server, path, *page.fields)
    assert status == 303
    return way


@contextmanager
def hold_index(home: Path, root: Path) -> Iterator[None]:
    """Be the process that writes a project's index: whoever wants to, waits."""
    key = hashlib.sha256(str(root).encode()).hexdigest()[:32]
    with WriterLock(home / "indexes" / key).held(wait_s=30):
        yield
