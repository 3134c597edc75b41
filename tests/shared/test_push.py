"""Pushing a commit, and reading it back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.shared.conftest import FILES, Clone, run_git

from sonde.errors import (
    FileMissing,
    IndexTooNew,
    InvalidRequest,
    NoHistory,
    SharedIndexMissing,
    SharedIndexUnreachable,
    Uncommitted,
)
from sonde.runtime.work import Work
from sonde.shared.index import SharedIndex
from sonde.shared.manifest import name_repository
from sonde.shared.push import push_project
from sonde.shared.tables import FORMAT, SharedTables
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.types import Progress


def test_a_pushed_commit_can_be_listed_resolved_and_read(ci: Clone, tmp_path: Path) -> None:
    commit = run_git(ci.root, "rev-parse", "HEAD")
    report = ci.push(tmp_path / "shared")
    shared = SharedIndex(str(tmp_path / "shared"))
    (branch,) = shared.list_branches()
    assert (branch.name, branch.is_default) == ("shop@main", True)
    assert branch.commit == commit == report.commit
    assert shared.find_head("shop") == commit
    files = shared.read_commit("shop", commit).files
    assert files.keys() == FILES.keys()
    assert files["run.sh"].executable
    assert not files["src/orders.py"].executable
    assert (files["docs/guide.md"].kind, files["src/users.py"].kind) == ("docs", "code")
    texts = dict(shared.read_texts(fact.digest for fact in files.values()))
    assert {path: texts[fact.digest].decode() for path, fact in files.items()} == FILES


@pytest.mark.parametrize("rows", [False, True])
def test_a_filled_folder_is_an_ordinary_index(ci: Clone, tmp_path: Path, *, rows: bool) -> None:
    commit = ci.push(tmp_path / "shared").commit
    folder = tmp_path / "filled"
    folder.mkdir()
    filled = SharedIndex(str(tmp_path / "shared")).fill("shop", commit, folder, rows=rows)
    assert filled.source == ("rows" if rows else "snapshot")
    store = SqliteChunkStore(folder, "code")
    assert store.verify() == []
    assert store.files().keys() == {"src/orders.py", "src/users.py", "run.sh"}
    assert store.paths_named(["Order.total"]) == {"src/orders.py"}
    assert store.importers(["orders"]) == {"orders": 1}
    assert [chunk.path for chunk in store.chunks([s.id for s in store.lexical(["prices"], 5)])]
    store.close()


def test_only_what_is_new_is_added_by_the_next_push(ci: Clone, tmp_path: Path) -> None:
    first = ci.push(tmp_path / "shared")
    ci.commit({"src/new.py": "def added():\n    pass\n"}, "src/users.py")
    second = ci.push(tmp_path / "shared")
    assert second.base == first.commit
    assert (second.added.files, second.added.texts) == (1, 1)
    shared = SharedIndex(str(tmp_path / "shared"))
    assert "src/users.py" in shared.read_commit("shop", first.commit).files
    assert "src/users.py" not in shared.read_commit("shop", second.commit).files
    assert "src/new.py" in shared.read_commit("shop", second.commit).files
    folder = tmp_path / "filled"
    folder.mkdir()
    shared.fill("shop", second.commit, folder)
    store = SqliteChunkStore(folder, "code")
    assert store.files().keys() == {"src/orders.py", "run.sh", "src/new.py"}
    store.close()
    assert ci.push(tmp_path / "shared").added.files == 0


def test_a_seed_is_used_instead_of_reading_blocks_again(ci: Clone, tmp_path: Path) -> None:
    commit = ci.push(tmp_path / "shared").commit
    shared = SharedIndex(str(tmp_path / "shared"))
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    assert shared.fill("shop", commit, tmp_path / "one").source == "snapshot"
    for name in shared.tables.list_names():
        if name.startswith("pack_"):
            shared.tables.drop(name)
    assert shared.fill("shop", commit, tmp_path / "three").source == "rows"
    filled = shared.fill("shop", commit, tmp_path / "two", seed=tmp_path / "one")
    assert filled.source == "snapshot"
    assert (tmp_path / "one" / "index.db").read_bytes() == (tmp_path / "two/index.db").read_bytes()


def test_what_is_not_committed_is_not_pushed(ci: Clone, tmp_path: Path) -> None:
    (ci.root / "untracked.py").write_text("def private():\n    pass\n")
    report = ci.push(tmp_path / "shared")
    assert report.left_out == 1
    shared = SharedIndex(str(tmp_path / "shared"))
    assert shared.read_commit("shop", report.commit).files.keys() == FILES.keys()
    (ci.root / "src" / "users.py").write_text("changed = 1\n")
    with pytest.raises(Uncommitted, match=r"src/users\.py"):
        ci.push(tmp_path / "shared")


def test_secrets_and_denied_files_are_not_pushed(ci: Clone, tmp_path: Path) -> None:
    key = "AKIA" + "Z7Q3M5K2J8W4X6T1"
    ci.commit({".env": "TOKEN=1\n", "src/leak.py": f'aws_access_key_id = "{key}"\n'})
    report = ci.push(tmp_path / "shared")
    files = SharedIndex(str(tmp_path / "shared")).read_commit("shop", report.commit).files
    assert ".env" not in files
    for path in (tmp_path / "shared").rglob("*"):
        assert not path.is_file() or b"TOKEN=1" not in path.read_bytes()


def test_a_file_that_changes_during_a_push_is_not_pushed_as_it_was(
    ci: Clone, tmp_path: Path
) -> None:
    """Other text of the same length, under the old time, after its chunks were made."""
    app, project = ci.open()
    path = ci.root / "src" / "users.py"
    facts = path.stat()

    def change(progress: Progress) -> None:
        if progress.stage == "indexing":
            path.write_text(path.read_text().upper())
            os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    with pytest.raises(FileMissing, match=r"src/users\.py changed"):
        push_project(app.workspace, project, str(tmp_path / "shared"), Work(report=change))
    assert SharedIndex(str(tmp_path / "shared")).tables.read_column("texts", "digest") == set()


def test_an_older_commit_does_not_move_the_branch_back(ci: Clone, tmp_path: Path) -> None:
    older = run_git(ci.root, "rev-parse", "HEAD")
    newer = ci.commit({"src/new.py": "x = 1\n"})
    ci.push(tmp_path / "shared")
    run_git(ci.root, "checkout", "-q", older)
    report = ci.push(tmp_path / "shared", branch="main")
    assert (report.branch, "later commit" in report.note) == ("", True)
    shared = SharedIndex(str(tmp_path / "shared"))
    assert shared.find_head("shop") == newer
    assert shared.nearest("shop", ["f" * 40, older, newer]) == older


def test_what_does_not_exist_is_named(ci: Clone, tmp_path: Path) -> None:
    with pytest.raises(SharedIndexMissing):
        SharedIndex(str(tmp_path / "nothing" / "there"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(SharedIndexMissing):
        SharedIndex(str(tmp_path / "empty"))
    with pytest.raises(InvalidRequest, match="ftp"):
        SharedIndex("ftp://host/path")
    ci.push(tmp_path / "shared")
    shared = SharedIndex(str(tmp_path / "shared"))
    assert shared.find_head("shopp") is None
    with pytest.raises(SharedIndexMissing):
        shared.read_commit("shop", "f" * 40)


def test_a_newer_format_is_refused(ci: Clone, tmp_path: Path) -> None:
    ci.push(tmp_path / "shared")
    SharedTables(str(tmp_path / "shared")).open(f"format_{FORMAT + 1}", create=True)
    with pytest.raises(IndexTooNew):
        SharedIndex(str(tmp_path / "shared"))


def test_a_folder_without_a_repository_cannot_be_pushed(ci: Clone, tmp_path: Path) -> None:
    (ci.root / ".git").rename(tmp_path / "git")
    with pytest.raises(NoHistory):
        ci.push(tmp_path / "shared")


@pytest.mark.parametrize("keep", [1.0, 0.5, 0.0])
def test_a_damaged_snapshot_is_made_up_for_by_rows(ci: Clone, tmp_path: Path, keep: float) -> None:
    commit = ci.push(tmp_path / "shared").commit
    packs = list((tmp_path / "shared").glob("pack_*/data/*"))
    assert packs
    for path in packs:
        data = bytearray(path.read_bytes())
        data[len(data) // 4] ^= 0xFF
        path.write_bytes(data[: int(len(data) * keep)])
    folder = tmp_path / "filled"
    folder.mkdir()
    filled = SharedIndex(str(tmp_path / "shared")).fill("shop", commit, folder)
    assert filled.source == "rows"
    assert "damaged" in filled.note
    store = SqliteChunkStore(folder, "code")
    assert store.verify() == []
    assert len(store.files()) == 3
    store.close()


def test_unreadable_tables_are_reported(ci: Clone, tmp_path: Path) -> None:
    ci.push(tmp_path / "shared")
    for path in (tmp_path / "shared").glob("commits.lance/data/*"):
        path.write_bytes(b"")
    shared = SharedIndex(str(tmp_path / "shared"))
    with pytest.raises(SharedIndexUnreachable):
        shared.nearest("shop", ["f" * 40])


def test_links_submodules_and_touched_files_are_no_changes(ci: Clone, tmp_path: Path) -> None:
    (ci.root / "link").symlink_to("run.sh")
    ci.commit()
    (ci.root / "link").unlink()
    (ci.root / "link").symlink_to("src")
    (ci.root / "run.sh").touch()
    assert ci.push(tmp_path / "shared").files == len(FILES)
    (ci.root / "src" / "users.py").unlink()
    with pytest.raises(Uncommitted):
        ci.push(tmp_path / "shared")


@pytest.mark.parametrize(
    ("remote", "name"),
    [
        ("git@github.com:acme/shop.git", "acme/shop"),
        ("https://github.com/acme/shop", "acme/shop"),
        ("ssh://git@host.example:2222/group/sub/shop.git/", "group/sub/shop"),
        ("", "folder"),
        ("https://anna:secret@host.example/acme/shop.git", "acme/shop"),
        ("https://anna:sec@ret@host.example:8443/acme/shop.git", "acme/shop"),
        ("https://host.example/acme/shop.git?private_token=secret", "acme/shop"),
        ("HTTPS://anna:secret@host.example/acme/shop", "acme/shop"),
        ("helper::https://anna:secret@host.example/acme/shop", "acme/shop"),
    ],
)
def test_a_repository_is_named_after_its_remote(remote: str, name: str) -> None:
    assert name_repository(remote, Path("some/folder")) == name
