"""A census finds what a walk finds, whatever happened since it looked last."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sonde.errors import FileMissing
from sonde.policy.admit import Rules, Source
from sonde.policy.census import Census
from sonde.policy.walk import walk_files
from sonde.types import ListedFile, Skipped

RULES = Rules(max_file_bytes=50, max_depth=3, exclude=("*.out",))
NAMES = ("a", "b", "c.py", "d.txt", "e.out", ".env", ".gitignore", "node_modules", "x.png")
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)
CONTENTS = ("", "a\n", "c.py\n", "d*\n!b\n", "x" * 60)
actions = st.lists(
    st.one_of(
        st.tuples(st.just("write"), paths, st.sampled_from(CONTENTS)),
        st.tuples(st.just("delete"), paths, st.just("")),
        st.tuples(st.just("move"), paths, paths),
        st.tuples(st.just("swap"), paths, paths),
        st.tuples(st.just("link"), paths, paths),
        st.tuples(st.just("hard link"), paths, paths),
        st.tuples(st.just("look"), st.just(""), st.just("")),
    ),
    max_size=12,
)


AT_REST = -(10**19)
"""Trusts the time of every folder, however recent."""
_listings: list[list[str]] = []


def _record_listing(event: str, arguments: tuple[object, ...]) -> None:
    if event == "os.scandir":
        for listed in _listings:
            listed.append(str(arguments[0]))


sys.addaudithook(_record_listing)  # for good: Python offers no way to remove one


@contextmanager
def recorded_listings() -> Iterator[list[str]]:
    """The folders that are listed within the block."""
    _listings.append([])
    yield _listings[-1]
    _listings.pop()


def walk(root: Path) -> dict[str, ListedFile]:
    return {found.path: found for found in walk_files(root, RULES) if isinstance(found, ListedFile)}


def skip(root: Path) -> set[Skipped]:
    return {found for found in walk_files(root, RULES) if isinstance(found, Skipped)}


def act(root: Path, what: str, path: str, other: str) -> None:
    place = root / path
    try:
        if what == "write":
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(other)
        elif what == "delete":
            shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
        elif what == "move":
            place.rename(root / other)
        elif what == "swap":
            place.rename(root / "aside")
            (root / other).rename(place)
            (root / "aside").rename(root / other)
        elif what == "link":
            place.symlink_to(root / other)
        elif what == "hard link":
            os.link(root / other, place)
    except OSError:
        pass


@settings(max_examples=150)
@given(actions)
def test_a_look_finds_what_a_walk_finds(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, str, str]]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    census = Census([Source("", root, RULES)])
    for what, path, other in [*actions, ("look", "", "")]:
        act(root, what, path, other)
        assert census.confirm([*walk(root), path]).items() <= walk(root).items()
        if what == "look":
            assert dict(census.look()) == walk(root)
            assert set(census.list_skipped()) == skip(root)


def tell(place: Path) -> tuple[int, ...]:
    facts = place.lstat()
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


@settings(max_examples=150)
@given(actions)
def test_a_look_trusts_the_times_of_folders_that_have_come_to_rest(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, str, str]]
) -> None:
    """As on a file system whose clock moves on between any two changes."""
    root = tmp_path_factory.mktemp("tree")
    census = Census([Source("", root, RULES)], settle_ns=AT_REST)
    seen: dict[Path, tuple[int, ...]] = {}
    clock = 10**18
    for what, path, other in [*actions, ("look", "", "")]:
        act(root, what, path, other)
        for place in (root, *root.rglob("*")):
            if seen.get(place) != tell(place) and not place.is_symlink():
                clock += 10**6
                os.utime(place, ns=(clock, clock))
                seen[place] = tell(place)
        assert census.confirm([*walk(root), path]).items() <= walk(root).items()
        if what == "look":
            assert dict(census.look()) == census.confirm(walk(root)) == walk(root)
            assert set(census.list_skipped()) == skip(root)


def test_nothing_is_listed_again_when_nothing_changed(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"folder{number}").mkdir()
        (tmp_path / f"folder{number}" / "file.py").write_text("x")
    census = Census([Source("", tmp_path, RULES)], settle_ns=AT_REST)
    first, version = census.look(), census.version
    with recorded_listings() as listed:
        assert census.look() is first
        assert (census.version, listed) == (version, [])
        (tmp_path / "folder3" / "new.py").write_text("y")
        assert "folder3/new.py" in census.look()
        assert len(listed) == 1
        (tmp_path / "folder3" / "new.py").write_text("changed")
        assert census.look()["folder3/new.py"].size == 7
        assert len(listed) == 1


def test_a_root_that_is_a_link_may_be_turned_elsewhere(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "src").mkdir(parents=True)
        (tmp_path / name / "src" / f"{name}.py").write_text("x")
    link = tmp_path / "link"
    link.symlink_to("one")
    census = Census([Source("", link, RULES)], settle_ns=AT_REST)
    assert list(census.look()) == ["src/one.py"]
    link.unlink()
    link.symlink_to("two")
    assert list(census.look()) == ["src/two.py"]


def test_a_folder_that_becomes_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("x")
    census = Census([Source("", tmp_path, RULES)])
    assert list(census.look()) == ["src/a.py"]
    (tmp_path / "src").rename(tmp_path / "kept")
    (tmp_path / "src").symlink_to("kept")
    assert list(census.look()) == ["kept/a.py"]
    (tmp_path / "src").unlink()
    (tmp_path / "kept").rename(tmp_path / "src")
    assert list(census.look()) == ["src/a.py"]
    shutil.rmtree(tmp_path)
    with pytest.raises(FileMissing):
        census.look()


def test_several_places_are_one_project(tmp_path: Path) -> None:
    for name in ("main/a.py", "main/part/hidden.py", "part/b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    places = [Source("", tmp_path / "main", RULES), Source("part/", tmp_path / "part", RULES)]
    assert list(Census(places).look()) == ["a.py", "part/b.py"]


@settings(max_examples=150)
@given(actions)
@example([("swap", "a", "b")])
def test_a_look_at_what_was_noted_finds_what_a_walk_finds(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, str, str]]
) -> None:
    """Where the system notes every change, and nothing else is looked at."""
    root = tmp_path_factory.mktemp("tree")
    for number, path in enumerate(
        ("a/a/c.py", "a/b/c.py", "a/b/b/d.txt", "b/b/c.py", "b/a/b/c.py")
    ):
        act(root, "write", path, "x" * number)
    census = Census([Source("", root, RULES)], whole_s=float("inf"))
    census.look()
    for what, path, other in actions:
        assert dict(census.look()) == walk(root)
        act(root, what, path, other)
    assert dict(census.look()) == walk(root)
    assert set(census.list_skipped()) == skip(root)


def test_files_with_several_names_are_watched_and_not_looked_at_each_time(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    pairs = ("b/x.py", "c/x.py", "d/y.py", "e/y.py", "f/z.py", "g/z.py")
    names = [*(f"a/{number}.py" for number in range(50)), *pairs]
    outside.mkdir()
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if not (outside / name[2:]).exists():
            (outside / name[2:]).write_text("x")
        os.link(outside / name[2:], root / name)
    census = Census([Source("", root, Rules(owner=root.stat().st_uid))], whole_s=float("inf"))
    for _ in range(3):
        census.look()
    assert count_calls(os.lstat, census.look) < 25  # half of the files

    (outside / "x.py").write_text("xyz")
    seen = census.look()
    assert [seen[path].size for path in ("b/x.py", "c/x.py", "d/y.py")] == [3, 3, 1]
    for gone, stays in (pairs[:2], pairs[3:1:-1], pairs[4:]):
        (root / gone).unlink()
        census.look()
        (outside / gone[2:]).write_text("xy")
        assert census.look()[stays].size == 2

    (root / "a" / "new.py").write_text("")
    census.look()
    os.link(root / "a" / "new.py", root / "b" / "new.py")  # which nothing tells of in a
    census.look()
    (root / "b" / "new.py").write_text("xyz")
    assert census.look()["a/new.py"].size == 3


def count_calls(function: Any, act: Callable[[], object]) -> int:
    """How often a function of the system is called."""
    count = 0

    def take(_frame: object, event: str, called: object) -> None:
        nonlocal count
        count += event == "c_call" and called is function

    sys.setprofile(take)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def test_what_happens_under_another_name_of_a_file_is_seen(tmp_path: Path) -> None:
    """Also after a look at everything, which finds nothing new about it."""
    rules = Rules(owner=tmp_path.stat().st_uid)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "one.py").write_text("x")
    os.link(tmp_path / "a" / "one.py", tmp_path / "b" / "two.py")
    now = [0.0]
    census = Census([Source("", tmp_path, rules)], whole_s=10.0, clock=lambda: now[0])
    for at in (0.0, 1.0, 20.0, 21.0):
        now[0] = at
        census.look()
        (tmp_path / "b" / "two.py").write_text("x" * int(at + 2))
        assert census.look()["a/one.py"].size == at + 2
