"""Patterns over paths: git's meaning, braces, bounds and errors with a position."""

from __future__ import annotations

import itertools
import re
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sonde.errors import InvalidPattern
from sonde.text.globs import MAX_BRANCHES, MAX_LENGTH, compile_glob

_FOLDERS = ("a", "b", "ab", "x.d")
_FILES = ("a.md", "b.md", "ab.txt", "c", "[a]", "a*b", "-.c", ".a", "Ab", "]")
PATHS = sorted(
    "/".join((*folders, file))
    for depth in range(3)
    for folders in itertools.product(_FOLDERS, repeat=depth)
    for file in _FILES
)
_PIECES = (
    "a", "b", "ab", "c", ".md", ".a", "-", "*", "*", "?", "**", "/", "/", "[ab]", "[!a]", "[^b.]",
    "[a-c]", "[[:alpha:]]", "[![:punct:]]", "[]a]", "[a-]", "[c-a]", "[+-b]", r"[\]]", r"\*", r"\[",
    r"\a", "**/", "/**/", "/**", "*.md", "[[:upper:]]", "[[:a]",
)  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("globs")
    subprocess.run(["git", "init", "-q", folder], check=True)
    blob = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    lines = "".join(f"100644 {blob}\t{path}\n" for path in PATHS)
    git = ["git", "-C", folder, "update-index", "--index-info"]
    subprocess.run(git, input=lines.encode(), check=True)
    return folder


def list_with_git(repository: Path, pattern: str) -> list[str]:
    """What git lists for our pattern, written in git's words."""
    body = pattern.rstrip("/")
    below = "/" if pattern.endswith("/") else ""
    anchored = body if "/" in body else f"**/{body}"
    specs = [f":(glob){anchored}{below and '/**'}", f":(literal){body}{below}"]
    if not re.search(r"[*?\[\\]", body):
        specs.append(f":(glob){anchored}/**")
    command = ["git", "-C", repository, "ls-files", "-z", "--", *specs]
    listed = subprocess.run(command, capture_output=True, check=True).stdout
    return sorted(listed.decode().split("\0")[:-1])


@given(pattern=st.lists(st.sampled_from(_PIECES), min_size=1, max_size=7).map("".join))
@settings(max_examples=250)
def test_a_pattern_means_what_it_means_to_git(repository: Path, pattern: str) -> None:
    assume(not pattern.startswith("/") and "//" not in pattern)
    # Git takes `lit**` for `lit` + `**` after a plain prefix only, against its own manual.
    assume(not re.search(r"[^/*]\*\*", pattern) and not re.search(r"\*\*/$", pattern))
    glob = compile_glob(pattern)
    assert [path for path in PATHS if glob.matches(path)] == list_with_git(repository, pattern)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("**/auth*.ts", ["auth.ts", "src/a/auth-x.ts"], ["src/auth/x.ts", "auth.tsx"]),
        ("src/**/*.md", ["src/a.md", "src/a/b/c.md"], ["a.md", "lib/src/a.md"]),
        ("*.md", ["a.md", "docs/a.md"], ["a.md.txt"]),
        ("/*.md", ["a.md"], ["docs/a.md"]),
        ("./src/*.py", ["src/a.py"], ["src/a/b.py", "a.py"]),
        ("docs", ["docs", "docs/a.md", "pkg/docs/a.md"], ["docs2/a.md", "mydocs"]),
        ("docs/", ["docs/a.md", "pkg/docs/b/a.md"], ["docs"]),
        ("src/docs", ["src/docs/a.md"], ["pkg/src/docs/a.md"]),
        ("gen-*/", ["gen-x/a.c", "lib/gen-y/b/a.c"], ["gen-x"]),
        ("app/[id]/page.tsx", ["app/[id]/page.tsx", "app/i/page.tsx"], ["app/x/page.tsx"]),
        ("{{name}}/*.py", ["{{name}}/a.py"], ["name/a.py"]),
        ("a{b,c{d,e}}f", ["abf", "acdf", "x/acef"], ["af", "acf"]),
        ("{src,test/**}/*.py", ["src/a.py", "test/a.py", "test/x/y/a.py"], ["src/x/a.py"]),
        ("[{,}]x", ["{x", ",x", "}x"], ["x"]),
        ("a,b}", ["a,b}"], ["a", "b"]),
        ("**", ["a", "a/b/c"], []),
        ("naïve/文?.md", ["naïve/文書.md"], ["naïve/文.md"]),
        ("a\nb*", ["a\nb", "a\nbc\nd"], ["a"]),
    ],
)
def test_it_matches_these_and_not_those(pattern: str, yes: list[str], no: list[str]) -> None:
    glob = compile_glob(pattern)
    assert ([p for p in yes if not glob.matches(p)], [p for p in no if glob.matches(p)]) == ([], [])


@pytest.mark.parametrize(
    ("pattern", "at"),
    [
        ("", 0),
        ("/", 0),
        ("src/[a-z", 4),
        ("[]", 0),
        ("a[[:nope:]]", 2),
        ("src/{a,b", 4),
        ("abc\\", 3),
        ("a\0b", 1),
        ("ab\udcff", 2),
        ("x" * (MAX_LENGTH + 1), MAX_LENGTH),
        ("{a,b}" * 8, 30),
    ],
)
def test_a_broken_pattern_says_where(pattern: str, at: int) -> None:
    with pytest.raises(InvalidPattern, match=rf"position {at}\b") as caught:
        compile_glob(pattern)
    assert pattern in caught.value.user_message


def test_case_is_folded_on_request() -> None:
    assert compile_glob("src/*.MD", fold_case=True).matches("SRC/readme.md")
    assert not compile_glob("src/*.MD").matches("src/readme.md")


_words = st.text("abc/*?", max_size=4)


def _alternatives(inner: st.SearchStrategy[tuple[str, list[str]]]) -> st.SearchStrategy:
    choice = st.lists(inner, min_size=2, max_size=3).map(
        lambda parts: (
            "{" + ",".join(text for text, _ in parts) + "}",
            [word for _, words in parts for word in words],
        )
    )
    sequence = st.tuples(inner, inner).map(
        lambda pair: (pair[0][0] + pair[1][0], [a + b for a in pair[0][1] for b in pair[1][1]])
    )
    return choice | sequence


@given(
    case=st.recursive(_words.map(lambda word: (word, [word])), _alternatives, max_leaves=6),
    path=st.text("abc/", min_size=1, max_size=6),
)
@settings(max_examples=200)
def test_braces_mean_any_of_their_expansions(case: tuple[str, list[str]], path: str) -> None:
    pattern, expanded = case
    assume(pattern.strip("/") and len(expanded) <= MAX_BRANCHES)
    assume(all(word.strip("/") for word in expanded) and not path.startswith("/"))
    assert compile_glob(pattern).matches(path) == any(
        compile_glob(word).matches(path) for word in expanded
    )


HOSTILE = (
    "*a" * (MAX_LENGTH // 2),
    "**/" * 100 + "x",
    "{a*,b*}" * 6 + "c",
    "[a-z]*" * 80,
    "{" * 100 + "a,b" + "}" * 100,
    "{a," * 99 + "b" + "}" * 99,
)


@pytest.mark.parametrize("pattern", HOSTILE, ids=range(len(HOSTILE)))
def test_no_pattern_takes_long(pattern: str) -> None:
    started = time.process_time()
    compile_glob(pattern).matches("a" * 4000 + "/" + "ab/" * 1000)
    assert time.process_time() - started < 1.0
