"""What a scan finds: the same as `du` and `find`, whatever is on the disk and whatever happens."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.errors import Cancelled, FileMissing
from sonde.runtime.work import Work
from sonde.stores.disk.base import ROOT_ID, STATES
from sonde.stores.disk.sqlite import TreeStore
from sonde.types import Progress

from .conftest import list_tree, scan_store


def disk_usage(root: Path) -> int:
    out = subprocess.run(["du", "-sxB1", root], capture_output=True, check=True).stdout
    return int(out.split()[0])


def states(store: TreeStore) -> dict[str, str]:
    return {p: STATES[n.state] for p, n in list_tree(store).items() if n.state}


def facts(store: TreeStore) -> dict[str, tuple[object, ...]]:
    """All that does not depend on when a node was first seen."""
    return {path: node[3:15] for path, node in list_tree(store).items()}


def test_totals_are_those_of_du_and_find(disk: Path, store: TreeStore) -> None:
    report = scan_store(store, disk)
    root = store.get(ROOT_ID)
    assert root
    assert root.disk == report.disk == disk_usage(disk)
    files = [p for p in disk.rglob("*") if p.is_file() and not p.is_symlink()]
    files = [p for p in files if "link" not in p.relative_to(disk).parts[:1]]
    assert root.size == sum(p.stat().st_size for p in files)
    assert (root.files, root.folders, root.children) == (5, 4, 5)
    found = list_tree(store)
    assert found["src"].size == 15 * 100 + 7
    assert found["link"].target == "docs"
    assert found["src/main.py"].mode == (disk / "src" / "main.py").stat().st_mode & 0o7777


def test_a_second_scan_of_the_same_changes_nothing(disk: Path, store: TreeStore) -> None:
    scan_store(store, disk)
    before = list_tree(store)
    report = scan_store(store, disk)
    assert (report.added, report.changed, report.removed) == (0, 0, 0)
    assert list_tree(store) == before


@pytest.mark.row("002-3")
def test_what_did_not_move_keeps_its_id(disk: Path, store: TreeStore) -> None:
    scan_store(store, disk)
    before = {path: node.id for path, node in list_tree(store).items()}
    (disk / "src" / "main.py").write_text("x" * 10)
    (disk / "docs").rename(disk / "papers")
    (disk / "empty").rmdir()
    (disk / "empty").write_text("now a file")
    (disk / "new").mkdir()
    report = scan_store(store, disk)
    after = {path: node.id for path, node in list_tree(store).items()}
    for path in ("src", "src/main.py", "src/deep", "src/deep/note.txt", ".env", "link"):
        assert after[path] == before[path]
    assert "docs" not in after
    assert not {after["papers"], after["empty"], after["new"]} & set(before.values())
    assert (report.added, report.changed, report.removed) == (5, 1, 2)


def test_hard_links_count_once_wherever_they_are(disk: Path, store: TreeStore) -> None:
    big = disk / "src" / "big.bin"
    big.write_bytes(b"x" * 100_000)
    os.link(big, disk / "docs" / "again.bin")
    os.link(big, disk / "docs" / "a third.bin")
    report = scan_store(store, disk)
    assert report.disk == disk_usage(disk)
    assert report.problems == {"linked": 2}
    root = store.get(ROOT_ID)
    assert root
    assert 100_000 < root.size < 200_000
    assert scan_store(store, disk).changed == 0


def test_names_that_are_no_unicode_and_every_other_odd_one(disk: Path, store: TreeStore) -> None:
    names = [
        b"caf\xe9",
        b"\xff\xfe",
        "ünï".encode(),
        b"new\nline",
        b"tab\t",
        b'"quote"',
        b" ",
        b"-rf",
    ]
    for name in names:
        (disk / os.fsdecode(name)).mkdir()
        (disk / os.fsdecode(name) / "in").write_text("x")
    scan_store(store, disk)
    found = list_tree(store)
    for name in names:
        assert found[os.fsdecode(name)].files == 1
        assert store.find((os.fsdecode(name), "in"))
    assert scan_store(store, disk).added == 0


def test_a_folder_of_many_names_is_compared_in_parts(disk: Path, store: TreeStore) -> None:
    many = disk / "many"
    many.mkdir()
    for number in range(50):
        (many / f"{number:03}").touch()
        os.close(os.open(bytes(many) + b"/\xff%d" % number, os.O_CREAT))
    scan_store(store, disk, names_at_once=7)
    before = list_tree(store)
    for path in sorted(many.iterdir())[::3]:
        path.unlink()
    (many / "0005").touch()
    report = scan_store(store, disk, names_at_once=7)
    assert (report.added, report.removed) == (1, 34)
    after = list_tree(store)
    assert {f"many/{p.name}" for p in many.iterdir()} == {p for p in after if p.startswith("many/")}
    assert all(after[path].id == node.id for path, node in before.items() if path in after)


def test_nesting_has_no_end(tmp_path: Path, store: TreeStore) -> None:
    deep = 700
    root = tmp_path / "well"
    root.mkdir()
    descriptor = os.open(root, os.O_RDONLY)
    for _ in range(deep):
        os.mkdir("x" * 20, dir_fd=descriptor)
        inner = os.open("x" * 20, os.O_RDONLY, dir_fd=descriptor)
        os.close(os.open("file", os.O_CREAT, dir_fd=inner))
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    report = scan_store(store, root)
    assert (report.files, report.folders, report.problems) == (deep, deep + 1, {})
    assert store.find(["x" * 20] * deep)
    shutil.rmtree(root)


@pytest.mark.row("002-34")
def test_a_depth_limit_leaves_folders_unentered(disk: Path, store: TreeStore) -> None:
    report = scan_store(store, disk, depth_limit=1)
    assert report.problems == {"too_deep": 3}
    assert states(store) == {"src": "too_deep", "docs": "too_deep", "empty": "too_deep"}
    assert scan_store(store, disk).problems == {}
    assert "src/deep/note.txt" in list_tree(store)
    scan_store(store, disk, depth_limit=1)
    assert len(list_tree(store)) == 5


@pytest.mark.row("002-35")
def test_links_are_followed_only_when_asked_and_never_twice(
    disk: Path, tmp_path: Path, store: TreeStore
) -> None:
    outside = tmp_path / "elsewhere"
    (outside / "inner").mkdir(parents=True)
    (outside / "inner" / "file").write_text("x" * 5000)
    forbidden = tmp_path / "forbidden"
    forbidden.mkdir()
    (forbidden / "secret").write_text("x")
    (disk / "out").symlink_to(outside)
    (disk / "again").symlink_to(outside / "inner")
    (disk / "up").symlink_to(disk)
    (disk / "self").symlink_to("self")
    (disk / "broken").symlink_to("nowhere")
    (disk / "never").symlink_to(forbidden)
    scan_store(store, disk)
    assert "out/inner" not in list_tree(store)
    report = scan_store(store, disk, follow=(disk, outside))
    found = list_tree(store)
    assert ("out/inner/file" in found) != ("again/file" in found)
    assert "never/secret" not in found
    assert "up/src" not in found
    assert "link/guide.md" not in found
    assert report.problems == {"linked": 2, "loop": 2}
    assert report.size - 5000 == sum(
        p.stat().st_size for p in disk.rglob("*") if p.is_file() and "link" not in p.parts
        and not p.is_symlink() and p.resolve().is_relative_to(disk)
    )  # fmt: skip
    scan_store(store, disk)
    assert "out/inner" not in list_tree(store)


@pytest.mark.row("002-76")
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can pose")
def test_what_may_not_be_read_is_reported_as_root_cannot(disk: Path, store: TreeStore) -> None:
    for path in (disk, *disk.parents):
        if path.stat().st_uid == 0 and path != Path("/") and not path.stat().st_mode & 0o001:
            path.chmod(path.stat().st_mode | 0o055)
    (disk / "docs").chmod(0o700)
    os.seteuid(65534)
    try:
        report = scan_store(store, disk)
    finally:
        os.seteuid(0)
    assert report.problems == {"unreadable": 1}
    assert states(store) == {"docs": "unreadable"}
    assert report.disk == disk_usage(disk) - disk_usage(disk / "docs") + 4096


def test_folders_that_vanish_meanwhile_are_reported(disk: Path, store: TreeStore) -> None:
    def vanish(_progress: Progress) -> None:
        shutil.rmtree(disk / "docs", ignore_errors=True)

    # the first report comes when the root is read and no folder in it is entered yet
    report = scan_store(store, disk, Work(report=vanish), flush_rows=1)
    assert report.problems == {"vanished": 1}
    assert "src/deep/note.txt" in list_tree(store)
    scan_store(store, disk)
    assert "docs" not in list_tree(store)
    with pytest.raises(FileMissing):
        scan_store(store, disk / "nowhere")


@pytest.mark.row("002-76")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a mount that is always there")
def test_mount_points_are_reported_and_not_entered(store: TreeStore) -> None:
    mounted = [p for p in Path("/dev").iterdir() if p.is_dir() and os.path.ismount(p)]
    if not mounted:
        pytest.skip("nothing is mounted below /dev")
    scan_store(store, Path("/dev"))
    found = states(store)
    assert all(found[path.name] == "mount" for path in mounted)


@pytest.mark.row("002-40")
def test_a_scan_that_is_called_off_keeps_a_tree_and_the_next_one_completes_it(
    disk: Path, store: TreeStore
) -> None:
    reports: list[Progress] = []

    def stop(progress: Progress) -> None:
        reports.append(progress)
        if len(reports) == 2:
            raise Cancelled("enough")

    with pytest.raises(Cancelled):
        scan_store(store, disk, Work(report=stop), flush_rows=1)
    assert "pending" in states(store).values()
    scan_store(store, disk)
    assert states(store) == {}
    assert len(list_tree(store)) == 10


def test_progress_grows_to_the_end(disk: Path, store: TreeStore) -> None:
    reports: list[Progress] = []
    scan_store(store, disk, Work(report=reports.append), flush_s=0.0)
    shares = [report.done / report.total for report in reports if report.total]
    assert len(shares) > 3
    assert max(shares) <= 1.0
    assert shares[-1] == 1.0


NAMES = st.sampled_from(["a", "b", "c", "ü", "\udcff", "d.txt"])
ACTIONS = st.sampled_from(["file", "dir", "rm", "link"])
PLACES = st.lists(NAMES, min_size=1, max_size=4)
STEPS = st.lists(st.tuples(PLACES, ACTIONS, st.integers(0, 9000)), max_size=12)


def play(root: Path, steps: list[tuple[list[str], str, int]]) -> None:
    """Do to a folder whatever the steps say, as far as it can be done."""
    for names, action, size in steps:
        place = root.joinpath(*names)
        try:
            if action == "rm":
                shutil.rmtree(
                    place
                ) if place.is_dir() and not place.is_symlink() else place.unlink()
            elif action == "dir":
                place.mkdir(parents=True)
            elif action == "link":
                os.link(next(p for p in sorted(root.rglob("*")) if p.is_file()), place)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(b"x" * size)
        except (OSError, StopIteration):
            continue


@settings(max_examples=40)
@given(first=STEPS, second=STEPS)
def test_scanning_again_equals_scanning_anew(
    first: list[tuple[list[str], str, int]],
    second: list[tuple[list[str], str, int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    base = tmp_path_factory.mktemp("law")
    root = base / "root"
    root.mkdir()
    again, anew = TreeStore(base / "again.db"), TreeStore(base / "anew.db")
    play(root, first)
    scan_store(again, root)
    play(root, second)
    scan_store(again, root)
    report = scan_store(anew, root)
    assert facts(again) == facts(anew)
    assert report.disk == disk_usage(root)
    again.close()
    anew.close()
    shutil.rmtree(base)
