"""A shared index that a writer means harm with, and commits that hold more than they should."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from tests.shared.conftest import Clone, run_git

from sonde.errors import InvalidRequest, Uncommitted
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.shared.index import SharedIndex
from sonde.shared.snapshot import Snapshot, save_snapshot
from sonde.tools.index import create_index
from sonde.wiring import build_app


def list_all(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_what_git_was_told_to_overlook_is_not_pushed(ci: Clone, tmp_path: Path, flag: str) -> None:
    run_git(ci.root, "update-index", flag, "src/users.py")
    (ci.root / "src/users.py").write_text("def of_my_own():\n    return 'not for others'\n")
    with pytest.raises(Uncommitted, match="users"):
        ci.push(tmp_path / "shared")


def test_a_push_under_a_name_that_leads_elsewhere_is_refused(ci: Clone, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest):
        ci.push(tmp_path / "shared", repository="../shop")
    run_git(ci.root, "remote", "add", "origin", "git@host.example:../../shop.git")
    with pytest.raises(InvalidRequest):
        ci.push(tmp_path / "shared")


@pytest.mark.parametrize(
    ("repository", "commit"),
    [("../../escaped", ""), ("/escaped", ""), ("a/../../../escaped", ""), ("shop\0", ""),
     ("shop", "../../../escape"), ("shop", "")],
)  # fmt: skip
def test_no_name_in_a_shared_index_leads_out_of_the_cache(
    ci: Clone, tmp_path: Path, repository: str, commit: str
) -> None:
    found = ci.push(tmp_path / "shared")
    shared = SharedIndex(str(tmp_path / "shared"))
    (row,) = shared.tables.read_rows("commits", ["recipe", "models", "manifest", "snapshot"])
    named = commit or found.commit
    shared.tables.put("refs", ("repository", "branch"), (repository, "main", named, 1, True))
    facts = (row["recipe"], row["models"], 4, 4, row["manifest"], row["snapshot"])
    shared.tables.put("commits", ("repository", "commit"), (repository, named, 1, *facts))
    cache, outside = tmp_path / "in" / "cache", tmp_path / "in"
    settings = load_settings(
        {}, home=tmp_path / "home", embedding="static", serve_from=str(tmp_path / "shared"),
        cache_folder=str(cache),
    )  # fmt: skip
    app = build_app(settings, start=tmp_path, stays=True)
    try:
        mirrors = app.workspace.mirrors
        assert mirrors
        ready, _ = mirrors.list_defaults(lambda _root: True, wait_s=30.0)
        assert len(ready) == (not commit)  # the one that is well named, if it was not replaced
        assert all(root.resolve().is_relative_to(cache) for root in ready)
        assert {path.name for path in outside.iterdir()} == {"cache"}
        assert not list(tmp_path.glob("*escape*"))
    finally:
        app.close()


def test_files_with_hostile_names_are_not_written(ci: Clone, tmp_path: Path) -> None:
    found = ci.push(tmp_path / "shared")
    shared = SharedIndex(str(tmp_path / "shared"))
    (row,) = shared.tables.read_rows("commits", ["recipe", "models", "manifest", "snapshot"])
    rows = json.loads(zlib.decompress(row["manifest"]))
    rows += [[name, *rows[0][1:]] for name in ("../up.py", "/up.py", "a/../../up.py", "./up.py")]
    manifest = zlib.compress(json.dumps(rows).encode())
    facts = (row["recipe"], row["models"], 4, 4, manifest, row["snapshot"])
    shared.tables.put("commits", ("repository", "commit"), ("shop", found.commit, 1, *facts))
    settings = load_settings(
        {}, home=tmp_path / "home", embedding="static", serve_from=str(tmp_path / "shared"),
        cache_folder=str(tmp_path / "cache"),
    )  # fmt: skip
    app = build_app(settings, start=tmp_path, stays=True)
    try:
        assert app.workspace.mirrors
        (root,), _ = app.workspace.mirrors.list_defaults(lambda _root: True, wait_s=30.0)
        assert (root / "src/orders.py").is_file()
        assert not list(tmp_path.rglob("up.py"))
    finally:
        app.close()


HOSTILE = [
    b"", b"x", zlib.compress(b"[]"), zlib.compress(b"null"), zlib.compress(b"[" * 100_000),
    zlib.compress(b'{"files": {"index.db": [1e999, []]}, "packs": {}}'),
    zlib.compress(b'{"files": {"index.db": ["9" , 3]}, "packs": 4}'),
    zlib.compress(b'{"files": {"index.vectors/a\\u0000b": [1, []]}, "packs": {}}'),
    zlib.compress(b'{"files": {"../index.db": [1, []]}, "packs": {}}'),
    zlib.compress(b'{"files": {"index.vectors/../x": [1, []]}, "packs": {}}'),
    zlib.compress(b'{"files": {"index.db": [-1, []]}, "packs": {}}'),
    zlib.compress(b'{"files": {"index.db": [1, ["00"]]}, "packs": {"../../refs": ["00"]}}'),
    zlib.compress(b'{"files": {"index.vectors/' + b"n" * 300 + b'": [1, []]}, "packs": {}}'),
    lambda: zlib.compress(b" " * (1 << 30)),  # seconds of work, for the one test that needs it
]  # fmt: skip


@pytest.mark.parametrize("snapshot", HOSTILE)
def test_a_hostile_snapshot_costs_a_note(
    ci: Clone, tmp_path: Path, snapshot: bytes | Callable[[], bytes]
) -> None:
    found = ci.push(tmp_path / "shared")
    shared = SharedIndex(str(tmp_path / "shared"))
    (row,) = shared.tables.read_rows("commits", ["recipe", "models", "manifest"])
    sent = snapshot() if callable(snapshot) else snapshot
    facts = (row["recipe"], row["models"], 4, 4, row["manifest"], sent)
    shared.tables.put("commits", ("repository", "commit"), ("shop", found.commit, 1, *facts))
    before = list_all(tmp_path)
    app, project = Clone(ci.root, ci._open_app, "other").open(shared_index=str(tmp_path / "shared"))
    assert create_index(app, work=Work())["status"] == "success"
    assert {path for store in project.stores().values() for path in store.files()} >= {"run.sh"}
    strange = {path for path in list_all(tmp_path) - before if not path.startswith("other")}
    assert not strange


def damage_nothing(_database: Path) -> None:
    """As it was pushed."""


def replace_by_noise(database: Path) -> None:
    database.write_bytes(b"no database" * 10_000)


def drop_tables(database: Path) -> None:
    with closing(apsw.Connection(str(database))) as connection:
        named = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        for (name,) in connection.execute(named).fetchall():
            if name not in ("state", "models"):
                connection.execute(f'DROP TABLE IF EXISTS "{name}"')


def add_triggers(database: Path) -> None:
    with closing(apsw.Connection(str(database))) as connection:
        for event in ("INSERT", "DELETE", "UPDATE"):
            body = "SELECT RAISE(ABORT, 'mine'); END"
            connection.execute(f"CREATE TRIGGER t_{event} BEFORE {event} ON files BEGIN {body}")


def disguise_triggers(database: Path) -> None:
    """Triggers that are called like tables of SQLite's own."""
    add_triggers(database)
    with closing(apsw.Connection(str(database))) as connection:
        connection.pragma("writable_schema", "ON")
        named = "UPDATE sqlite_schema SET name = 'sqlite_stat_' || name, "
        sql = "sql = replace(sql, 'TRIGGER t_', 'TRIGGER sqlite_stat_t_') WHERE type = 'trigger'"
        connection.execute(named + sql)


@pytest.mark.parametrize(
    "damage",
    [damage_nothing, replace_by_noise, drop_tables, add_triggers, disguise_triggers],
    ids=lambda f: f.__name__,
)
def test_a_hostile_database_costs_a_note(
    ci: Clone, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    found = ci.push(tmp_path / "shared")
    shared, folder = SharedIndex(str(tmp_path / "shared")), tmp_path / "folder"
    folder.mkdir()
    shared.fill("shop", found.commit, folder)
    damage(folder / "index.db")
    snapshot, _ = save_snapshot(shared.tables, folder, Snapshot(), "pack_1_x", Work())
    (row,) = shared.tables.read_rows("commits", ["recipe", "models", "manifest"])
    facts = (row["recipe"], row["models"], 4, 4, row["manifest"], snapshot.pack())
    shared.tables.put("commits", ("repository", "commit"), ("shop", found.commit, 1, *facts))
    (ci.root / "src/more.py").write_text("def more():\n    return 1\n")
    (ci.root / "run.sh").unlink()
    app, project = Clone(ci.root, ci._open_app, "other").open(shared_index=str(tmp_path / "shared"))
    assert create_index(app, work=Work())["status"] == "success"
    held = {path for store in project.stores().values() for path in store.files()}
    assert held == {"src/orders.py", "src/users.py", "src/more.py", "docs/guide.md"}
    assert [store.verify() for store in project.stores().values()] == [[], []]
