"""Every expected situation has its code, its words and a way on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.trees import write_files

from sonde import errors
from sonde.app import App
from sonde.projects.find import issue_consent
from sonde.runtime.work import Work
from sonde.tools.code import grep, search_by_path, search_code, search_docs
from sonde.tools.index import (
    create_index,
    delete_index,
    get_index_status,
    list_projects,
    reindex_file,
    reindex_project,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {"pyproject.toml": "", "a.py": "def alpha():\n    return 1\n", "b.md": "# Beta\n"}
    return write_files(tmp_path / "project", files)


@pytest.fixture
def app(open_app: Callable[..., App]) -> App:
    return open_app()


@pytest.fixture
def indexed(app: App) -> App:
    create_index(app, work=Work())
    return app


@pytest.fixture
def asked(open_app: Callable[..., App]) -> App:
    """An app where nobody has said yes to anything."""
    return open_app(assume_yes=False)


def fails(
    kind: type[errors.SondeError], call: Callable[..., Any], *args: Any, **options: Any
) -> Any:
    with pytest.raises(kind) as told:
        call(*args, **options, work=Work())
    shown = told.value.as_dict()
    assert set(shown) == {"code", "userMessage", "developerMessage", "nextAction"}
    assert shown["developerMessage"].startswith(f"{shown['code']}: ")
    assert all(shown.values())
    return told.value


@pytest.mark.row("001-114")
def test_without_an_index_every_verb_that_needs_one_says_so(app: App) -> None:
    for call in (get_index_status, reindex_project, delete_index):
        assert fails(errors.IndexNotFound, call, app).code == "INDEX_NOT_FOUND"
    told = fails(errors.IndexNotFound, reindex_file, app, "alpha")
    assert "hasn't been indexed yet" in told.user_message
    assert fails(errors.IndexNotFound, search_code, app, "alpha", project="all")
    assert list_projects(app, work=Work()) == {"projects": [], "totalProjects": 0}
    assert grep(app, "alpha", work=Work())["totalMatches"] == 1


@pytest.mark.row("001-122", "001-124")
def test_errors_of_the_catalogue_have_its_words(
    indexed: App, root: Path, open_app: Callable[..., App], tmp_path: Path
) -> None:
    (tmp_path / "bare").mkdir()
    bare = open_app(start=tmp_path / "bare")
    failed = fails(errors.ProjectNotDetected, search_code, bare, "alpha")
    words = "PROJECT_NOT_DETECTED: No markers found in path hierarchy"
    assert failed.developer_message.startswith(words)
    (root / "link.py").symlink_to(root / "alpha.py")
    failed = fails(errors.SymlinkNotAllowed, reindex_file, indexed, "link.py")
    assert failed.developer_message == (
        f"SYMLINK_NOT_ALLOWED: Symlink detected at path: {root / 'link.py'}"
    )


def test_looking_creates_nothing(app: App, root: Path) -> None:
    assert search_code(app, "alpha", work=Work())["results"]
    grep(app, "alpha", work=Work())
    assert not (app.workspace.home / "indexes").exists()
    assert sorted(path.name for path in root.iterdir()) == ["a.py", "b.md", "pyproject.toml"]


@pytest.mark.row("001-45", "001-123")
def test_docs_that_are_switched_off_are_said_to_be(open_app: Callable[..., App]) -> None:
    app = open_app(index_docs=False)
    create_index(app, work=Work())
    assert fails(errors.DocsIndexNotFound, search_docs, app, "beta").code == "DOCS_INDEX_NOT_FOUND"
    fails(errors.DocsIndexNotFound, reindex_file, app, "b.md")
    assert search_code(app, "alpha", work=Work())["results"]


@pytest.mark.row("001-40", "001-42", "001-120")
def test_files_that_cannot_be_indexed_are_told_apart(
    indexed: App, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside.py").write_text("secret = 1\n")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    (root / "linked").symlink_to(tmp_path)
    (root / ".env").write_text("KEY=1\n")
    (root / "blob.txt").write_bytes(b"a\0b")
    (root / "folder").mkdir()
    (root / "gone.py").write_text("")
    assert reindex_file(indexed, "gone.py", work=Work())["chunksCreated"] == 0
    (root / "gone.py").unlink()
    assert fails(errors.FileMissing, reindex_file, indexed, "gone.py").code == "FILE_NOT_FOUND"
    assert search_by_path(indexed, "gone.py", work=Work())["totalMatches"] == 0
    fails(errors.SymlinkNotAllowed, reindex_file, indexed, "link.py")
    fails(errors.SymlinkNotAllowed, reindex_file, indexed, "linked/outside.py")
    fails(errors.OutsideRoots, reindex_file, indexed, "../outside.py")
    fails(errors.OutsideRoots, reindex_file, indexed, str(tmp_path / "outside.py"))
    for path in (".env", "blob.txt", "folder", "."):
        told = fails(errors.FileNotAdmitted, reindex_file, indexed, path)
        assert told.code == "FILE_NOT_INDEXABLE"
    assert reindex_file(indexed, str(root / "a.py"), work=Work())["chunksCreated"] == 1


@pytest.mark.row("001-121")
def test_a_broken_glob_is_told_by_its_position(indexed: App) -> None:
    told = fails(errors.InvalidPattern, search_by_path, indexed, "src/[ab")
    assert told.code == "INVALID_PATTERN"
    assert "4" in told.developer_message


@pytest.mark.row("001-60")
def test_a_folder_without_markers_is_used_once_agreed_to(
    open_app: Callable[..., App], tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "a.py").write_text("x = 1\n")
    app = open_app(start=bare, assume_yes=False)
    fails(errors.ProjectNotDetected, search_code, app, "x")
    fails(errors.ProjectNotDetected, create_index, app)
    questions: list[str] = []
    agreeing = Work(ask=lambda question: not questions.append(question))  # type: ignore[func-returns-value]
    assert create_index(app, work=agreeing)["projectPath"] == str(bare)
    assert str(bare) in questions[0]
    deeper = bare / "deeper"
    deeper.mkdir()
    assert search_code(open_app(start=deeper), "x", work=Work())["totalResults"] == 1


def test_a_project_that_does_not_exist_is_said_to_be_missing(app: App, root: Path) -> None:
    for name in ("/nowhere/at/all", "~nobody-of-that-name", "a\0b"):
        told = fails(errors.InvalidRequest, search_code, app, "x", project=name)
        assert "no folder" in told.user_message


@pytest.mark.row("001-77", "001-117")
def test_a_large_project_is_indexed_only_when_confirmed(
    open_app: Callable[..., App], root: Path
) -> None:
    for number in range(12):
        (root / f"f{number}.py").write_text("x = 1\n")
    app = open_app(assume_yes=False, max_files=10)
    told = fails(errors.FileLimitWarning, create_index, app)
    assert "very large (15 files)" in told.user_message
    with pytest.raises(errors.Cancelled):
        create_index(app, work=Work(ask=lambda _question: False))
    assert not app.workspace.projects.get(root).is_indexed()
    token = told.next_action.split("'")[1]
    assert create_index(app, confirm=token, work=Work())["filesIndexed"] == 15


@pytest.mark.row("001-27")
def test_changes_wait_for_a_yes_and_a_token_is_one(asked: App, root: Path) -> None:
    for call in (create_index, reindex_project, delete_index):
        told = fails(errors.ConfirmationRequired, call, asked)
        assert told.facts["token"] in told.next_action
        assert call(asked, confirm=told.facts["token"], work=Work())["status"] == "success"
    assert not asked.workspace.projects.get(root).is_indexed()
    assert not asked.workspace.projects.get(root).folder.exists()


@pytest.mark.row("001-173")
def test_a_token_is_good_for_one_action_on_one_project_for_two_minutes(
    asked: App, root: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for folder in (None, str(other)):
        create_index(asked, folder, work=Work(ask=lambda _question: True))
    token = fails(errors.ConfirmationRequired, delete_index, asked).facts["token"]
    fails(errors.ConfirmationRequired, reindex_project, asked, confirm=token)
    fails(errors.ConfirmationRequired, delete_index, asked, project=str(other), confirm=token)
    stamp, seal = token.split(".")
    later = f"{stamp[:-1]}{'A' if stamp[-1] != 'A' else 'B'}.{seal}"
    for forged in (later, f"{stamp}.{seal[::-1]}", "x", ".", f"{stamp}.", "yes", "é.é", "f" * 99):
        fails(errors.ConfirmationRequired, delete_index, asked, confirm=forged)
    expired = issue_consent(asked.workspace, "delete_index", str(root), now=time.time() - 121)
    fails(errors.ConfirmationRequired, delete_index, asked, confirm=expired)
    assert delete_index(asked, confirm=token, work=Work())["status"] == "success"


def test_a_declined_change_changes_nothing(asked: App, root: Path) -> None:
    create_index(asked, work=Work(ask=lambda _question: True))
    for call in (reindex_project, delete_index):
        with pytest.raises(errors.Cancelled) as told:
            call(asked, work=Work(ask=lambda _question: False))
        assert "Nothing was changed" in told.value.user_message
    assert search_code(asked, "alpha", work=Work())["results"]


@pytest.mark.row("001-43")
def test_deleting_an_index_removes_its_folder_and_nothing_else(
    indexed: App, root: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "c.py").write_text("c = 1\n")
    create_index(indexed, str(other), work=Work())
    kept = indexed.workspace.projects.get(other).folder
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    delete_index(indexed, work=Work())
    assert list((indexed.workspace.home / "indexes").iterdir()) == [kept]
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    fails(errors.IndexNotFound, get_index_status, indexed)
    assert search_code(indexed, "c", project=str(other), work=Work())["results"]


@pytest.mark.row("001-151")
def test_an_index_of_a_newer_version_is_left_alone_and_named(
    indexed: App, root: Path, open_app: Callable[..., App]
) -> None:
    place = indexed.workspace.projects.get(root).folder / "metadata.json"
    metadata = json.loads(place.read_text())
    place.write_text(json.dumps(metadata | {"formatVersion": 99}))
    before = place.read_bytes()
    app = open_app()
    for call, *args in (
        (search_code, "alpha"), (search_docs, "beta"), (search_by_path, "*"), (get_index_status,),
        (reindex_file, "a.py"), (reindex_project,), (create_index,),
    ):  # fmt: skip
        told = fails(errors.IndexTooNew, call, app, *args)
        assert "newer version" in told.user_message
    (row,) = list_projects(app, work=Work())["projects"]
    assert row["status"] == "index_too_new"
    assert place.read_bytes() == before
    assert delete_index(app, work=Work())["status"] == "success"


def test_a_database_of_a_newer_version_is_left_alone_and_named(
    indexed: App, root: Path, open_app: Callable[..., App]
) -> None:
    import apsw

    indexed.close()
    connection = apsw.Connection(str(indexed.workspace.projects.get(root).folder / "index.db"))
    connection.pragma("user_version", 99)
    connection.close()
    for call, *args in ((search_code, "alpha"), (get_index_status,), (create_index,)):
        assert fails(errors.IndexTooNew, call, open_app(), *args).code == "INDEX_TOO_NEW"
