"""Ignore files mean what they mean to git, for one path and for the whole walk."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trees import write_files

from sonde.policy.admit import Rules
from sonde.policy.ignore import Patterns
from sonde.policy.walk import check_path, walk_files
from sonde.types import ListedFile

_FOLDERS = ("", "a", "a/b", "a/b/q", "ab", "b", "b/a", "x y", "a/x.d")
_NAMES = ("a.txt", "ab.md", "Ab.md", "c", "-x", "f ", "#h", "!n", "[z]", "x\\y", "é.md", "b.txt")
_PIECES = (
    "a", "b", "c", "ab", "x", ".md", ".txt", "*", "*", "?", "**/", "/**", "/", "/", "/**/", "[ab]",
    "[!a]", "[[:alpha:]]", "[a-c]", "\\ ", " ", "\\#", "\\!", "\\", "[", "-", "é", "#", "!",
    "\\[z]", "**", "\t",
)  # fmt: skip
# Git takes `lit**` for `lit` + `**` after a plain prefix only, against its own manual.
_lines = st.one_of(
    st.lists(st.sampled_from(_PIECES), max_size=5).map("".join),
    st.sampled_from(("a/", "!a/", "*", "!*.md", "/b", "*.txt  ", "b/**", "!a/b", "\ufeffa", "!")),
).filter(lambda line: not re.search(r"[^/*!]\*\*", line))
_files = st.tuples(
    st.lists(st.tuples(st.sampled_from(("", "", "!")), _lines).map("".join), max_size=5),
    st.sampled_from(("\n", "\r\n")),
).map(lambda file: file[1].join(file[0]))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ignored")
    subprocess.run(["git", "init", "-q", root], check=True)
    for folder in _FOLDERS:
        (root / folder).mkdir(exist_ok=True)
        for name in _NAMES if folder in ("", "a/b") else _NAMES[:3]:
            (root / folder / name).write_text("x")
    return root


def list_ignored_by_git(root: Path, paths: list[str], *options: str) -> set[str]:
    asked = "\0".join(paths).encode()
    git = ["git", "-C", root, "-c", "core.excludesFile=/dev/null", *options]
    command = [*git, "check-ignore", "--no-index", "--stdin", "-z"]
    answer = subprocess.run(command, input=asked, capture_output=True)
    assert answer.returncode in (0, 1), answer.stderr
    return set(answer.stdout.decode().split("\0")[:-1])


def list_ignored(root: Path, paths: list[str], rules: Rules) -> set[str]:
    verdicts = {path: check_path(root, path, rules) for path in paths}
    return {
        p for p, v in verdicts.items() if not isinstance(v, ListedFile) and v.reason == "ignored"
    }


def list_paths(root: Path) -> list[str]:
    inside = (path.relative_to(root) for path in sorted(root.rglob("*")))
    return [str(path) for path in inside if path.parts[0] != ".git"]


@given(top=_files, middle=_files, low=_files, folds=st.booleans())
@settings(max_examples=150)
@pytest.mark.row("001-71")
def test_what_git_ignores_is_ignored(
    tree: Path, top: str, middle: str, low: str, folds: bool
) -> None:
    for folder, text in (("", top), ("a", middle), ("a/b", low)):
        (tree / folder / ".gitignore").write_bytes(text.encode())
    paths = list_paths(tree)
    rules = Rules(folds_case=folds)
    ignored = list_ignored_by_git(tree, paths, "-c", f"core.ignoreCase={str(folds).lower()}")
    assert list_ignored(tree, paths, rules) == ignored
    walked = {found.path for found in walk_files(tree, rules) if isinstance(found, ListedFile)}
    assert walked == {path for path in paths if (tree / path).is_file()} - ignored


def list_admitted(root: Path, rules: Rules | None = None) -> list[str]:
    found = walk_files(root, rules or Rules())
    return [entry.path for entry in found if isinstance(entry, ListedFile)]


@pytest.mark.row("001-74")
def test_gitignore_can_be_switched_off_but_sondeignore_cannot(tmp_path: Path) -> None:
    write_files(tmp_path, {".gitignore": "a.py", ".sondeignore": "b.py", "a.py": "", "b.py": ""})
    admitted = list_admitted(tmp_path, Rules(respect_gitignore=False))
    assert admitted == [".gitignore", ".sondeignore", "a.py"]


def test_sondeignore_brings_back_what_git_ignores(tmp_path: Path) -> None:
    write_files(tmp_path, {"gen/.gitignore": "*", ".sondeignore": "!gen/a.py", "gen/a.py": ""})
    assert list_admitted(tmp_path) == [".sondeignore", "gen/a.py"]


def test_nothing_below_an_ignored_folder_comes_back(tmp_path: Path) -> None:
    write_files(tmp_path, {".gitignore": "gen/\n!gen/a.py", "gen/a.py": "", "gen/.gitignore": "!*"})
    assert list_admitted(tmp_path) == [".gitignore"]


def test_an_ignore_file_that_is_a_link_says_nothing(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("*.py")
    write_files(tmp_path / "project", {"a.py": ""})
    (tmp_path / "project/.gitignore").symlink_to(outside)
    assert list_admitted(tmp_path / "project") == ["a.py"]


def test_an_ignore_file_that_is_not_utf8_still_works(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.py": "", "b.py": ""})
    (tmp_path / ".gitignore").write_bytes(b"caf\xe9\n\xff*\na.py\n")
    assert list_admitted(tmp_path) == [".gitignore", "b.py"]


def test_hostile_ignore_lines_take_no_time() -> None:
    started = time.process_time()
    patterns = Patterns("*a" * 200 + "b\n" + "**/a/" * 90 + "b\n" + "x\n" * 20_000)
    assert patterns.decide("a/" * 1000 + "a" * 200, folder=False) is None
    assert time.process_time() - started < 3.0


@pytest.mark.parametrize(
    "line", ["?" * 4000, "[!é]" * 1000, "文" * 4000, "*?" * 2000, "**/é/" * 800]
)
def test_many_huge_lines_are_no_error(line: str) -> None:
    patterns = Patterns(f"{line}\n" * 12 + "a.py", fold_case=True)
    assert patterns.decide("src/a.py", folder=False)
    assert patterns.decide("src/b.py", folder=False) is None


def test_a_pattern_longer_than_a_path_can_be_does_no_harm(tmp_path: Path) -> None:
    write_files(tmp_path, {".gitignore": "x" * 100_000 + "\na.py", "a.py": "", "b.py": ""})
    assert list_admitted(tmp_path) == [".gitignore", "b.py"]
