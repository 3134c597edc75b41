"""Lines are those of the files as they are now, whatever an index knows."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trees import write_files
from tests.waiting import wait_until

from sonde.app import App
from sonde.errors import SondeError
from sonde.indexing.sources import TreeReader
from sonde.projects.find import find_project
from sonde.projects.freshness import KnownFiles
from sonde.projects.lines import LineScan, scan_project
from sonde.projects.update import update_project
from sonde.runtime.work import Work
from sonde.tools.code import grep
from sonde.tools.index import create_index, delete_index, reindex_file

PATTERNS = ("walrus", r"wal\w+ (one|two)", "WALRUS", r"\d+", "(sea|ice) walrus", "größ", "absent",
            r"\w{3} = \W", r"^$", r"\b\w\b", r"\S\r$", r"[^\x00-\x7f]")  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files: dict[str, str | bytes] = {
        f"f{n}.py": f"# walrus one\nsea{n} = 'größer'\n" for n in range(12)
    }
    files["pyproject.toml"] = "[project]\n"
    files["notes.md"] = "The sea walrus, two of them.\n"
    files["data.mo"] = b"\0walrus"
    return write_files(tmp_path / "project", files)


def lines(app: App, pattern: str, **options: Any) -> list[tuple[str, int, str]]:
    found = grep(app, pattern, limit=10_000, work=Work(), **options)
    return [(match["path"], match["line"], match["text"]) for match in found["matches"]]


def edit(root: Path, what: str, name: str, text: str) -> None:
    place = root / name
    if what == "write":
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    elif what == "same size and time" and place.exists():
        # as close to unchanged as a file can look, but for being written just now
        facts = place.stat()
        place.write_text(text.ljust(facts.st_size)[: facts.st_size])
    elif what == "delete":
        place.unlink(missing_ok=True)
    elif what == "ignore":
        (root / ".gitignore").write_text(f"/{name}\n")


edits = st.tuples(
    st.sampled_from(["write", "same size and time", "delete", "ignore", "index"]),
    st.sampled_from(["f0.py", "f1.py", "new.py", "sub/new.md", "notes.md"]),
    st.sampled_from(["walrus two\n", "sea walrus 7\r\n", "nothing", "größte Walrus"]),
)


@settings(max_examples=15)
@given(st.lists(edits, min_size=1, max_size=5))
def test_an_index_changes_no_answer_while_files_change(
    open_app: Callable[..., App], root: Path, edits: list[tuple[str, str, str]]
) -> None:
    server = open_app("server")
    create_index(server, work=Work())
    for what, name, text in edits:
        edit(root, what, name, text)
        if what == "index":
            project = server.workspace.projects.get(root)
            update_project(server.workspace, project, Work())
        plain = open_app("plain")
        for pattern in PATTERNS:
            assert lines(server, pattern) == lines(plain, pattern), pattern
    (root / ".gitignore").unlink(missing_ok=True)


def test_only_files_that_the_index_does_not_know_are_read(
    open_app: Callable[..., App], root: Path
) -> None:
    (root / "rare.py").write_text("needle = 1\n")
    long_ago = 10**18
    for place in root.iterdir():
        os.utime(place, ns=(long_ago, long_ago))
    server = open_app("server")
    create_index(server, work=Work())
    project = find_project(server.workspace)
    opened: list[str] = []

    class Recorder(TreeReader):
        def read_utf8(self, path: str, **options: Any) -> Any:
            opened.append(path)
            return super().read_utf8(path, **options)

    def scan(pattern: str, **options: Any) -> list[str]:
        opened.clear()
        wanted = LineScan(pattern, **options)
        return [f.path for f, _ in scan_project(project, wanted, Work(), open_reader=Recorder)]

    def is_trusted() -> bool:
        update_project(server.workspace, project, Work())
        return not scan("nowhere to be found") and not opened

    # what the index holds as it is on disk is not opened, once its last change is some time ago
    wait_until(is_trusted)
    assert scan("needle|nowhere to be found", ignore_case=True) == ["rare.py"]
    assert scan("needle", include=("*.md",)) == []
    assert scan(r"^\w+ = \d$") == ["rare.py"]
    assert opened == []
    (root / "f3.py").write_text("another needle\n")
    assert scan("needle") == ["f3.py", "rare.py"]
    assert opened == ["f3.py"]


def test_an_index_that_goes_away_meanwhile_costs_no_answer(
    open_app: Callable[..., App], root: Path
) -> None:
    server = open_app("server")
    create_index(server, work=Work())
    expected = lines(server, "walrus")
    done = threading.Event()

    def rebuild() -> None:
        for verb in (delete_index, create_index, partial(reindex_file, path="f1.py")) * 4:
            with suppress(SondeError):  # what the searches have just opened may be in the way
                verb(server, work=Work())
        done.set()

    thread = threading.Thread(target=rebuild)
    thread.start()
    while not done.is_set():
        assert lines(server, "walrus") == expected
    thread.join()


def test_a_part_that_is_asked_for_first_is_looked_at_alone(
    open_app: Callable[..., App], root: Path
) -> None:
    for name in ("sub/deep/a.py", "sub/b.py", "node_modules/c.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("walrus one\n")
    (root / "sub" / ".gitignore").write_text("b.py\n")
    create_index(open_app("server"), work=Work())
    for paths in (("sub",), ("f1.py",), ("sub/deep", "f1.py"), ("node_modules",), ("gone",)):
        for home in ("server", "plain"):
            first, later = open_app(home), open_app(home)
            everything = [row for row in lines(later, "walrus") if within(row[0], paths)]
            assert lines(first, "walrus", paths=paths) == everything
            assert not find_project(first.workspace).part(KnownFiles).candidates.seen
            assert lines(later, "walrus", paths=paths) == everything


def within(path: str, paths: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in paths)


@pytest.mark.parametrize("language", ["python", "py", "Python", ".py", "pyi"])
def test_a_language_goes_by_many_names(
    open_app: Callable[..., App], root: Path, language: str
) -> None:
    found = lines(open_app("plain"), "walrus", language=language)
    assert len(found) == 12
    assert lines(open_app("plain"), "walrus", language="markdown")
    assert lines(open_app("plain"), "walrus", language="klingon") == []
