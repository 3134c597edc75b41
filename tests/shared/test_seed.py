"""A laptop's index from a shared one: what is taken, what is indexed here, what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.shared.conftest import Clone, run_git

from sonde.app import App
from sonde.projects.update import update_project
from sonde.runtime.work import Work
from sonde.shared.seed import fetch_vectors
from sonde.stores.chunks.base import ChunkStore
from sonde.types import IndexReport


@pytest.fixture
def laptop(ci: Clone, tmp_path: Path, open_app: Callable[..., App]) -> Clone:
    root = tmp_path / "laptop" / "shop"
    run_git(tmp_path, "clone", "-q", str(ci.root), str(root))
    run_git(root, "remote", "remove", "origin")
    return Clone(root, open_app, "laptop-home")


def index(clone: Clone, url: object) -> tuple[App, dict[str, ChunkStore], IndexReport]:
    app, project = clone.open(shared_index=str(url))
    report = update_project(app.workspace, project, Work())
    return app, dict(project.stores()), report


def describe(store: ChunkStore) -> dict[str, object]:
    """Everything that a store says of its files, without ids and times."""
    return {
        path: (
            (state.hash, state.size, state.language, state.kind),
            [(c.text, c.header, c.symbol, c.span, c.digest) for c in store.chunks_of(path)],
            list(store.symbols_of([path])[path]),
        )
        for path, state in store.files().items()
    }


def test_an_index_from_a_shared_one_equals_a_fresh_one(
    ci: Clone, laptop: Clone, tmp_path: Path, open_app: Callable[..., App]
) -> None:
    commit = ci.push(tmp_path / "shared").commit
    (laptop.root / "src" / "users.py").write_text("def edited_here():\n    return 1\n")
    (laptop.root / "mine.py").write_text("def only_here():\n    return 2\n")
    (laptop.root / "run.sh").unlink()
    _, seeded, report = index(laptop, tmp_path / "shared")
    assert commit[:12] in report.note
    assert report.files_indexed == 2
    fresh_clone = Clone(laptop.root, open_app, "other-home")
    _, fresh, _ = index(fresh_clone, "")
    for kind, store in fresh.items():
        assert describe(seeded[kind]) == describe(store)
        assert seeded[kind].verify() == []
        for words in (["order"], ["edited", "here"], ["prices"], ["refunds"]):
            found = [(hit.score, seeded[kind].chunks([hit.id])[0].path)
                     for hit in seeded[kind].lexical(words, 9)]  # fmt: skip
            assert found == [
                (pytest.approx(hit.score, abs=1e-6), store.chunks([hit.id])[0].path)
                for hit in store.lexical(words, 9)
            ]
        (model,) = store.models() or [""]
        query = np.ones(512 if kind == "docs" else 256, np.float32) / 16
        near = [(round(hit.score, 4), seeded[kind].chunks([hit.id])[0].path)
                for hit in seeded[kind].dense(model, query, 9)]  # fmt: skip
        assert near == [
            (round(hit.score, 4), store.chunks([hit.id])[0].path)
            for hit in store.dense(model, query, 9)
        ]


def test_files_that_may_not_be_seen_here_are_dropped(
    ci: Clone, laptop: Clone, tmp_path: Path
) -> None:
    ci.push(tmp_path / "shared")
    app, project = laptop.open(shared_index=str(tmp_path / "shared"), exclude=("src/users.py",))
    update_project(app.workspace, project, Work())
    assert "src/users.py" not in project.stores()["code"].files()
    assert not project.stores()["code"].paths_named(["find_user"])


def test_without_the_shared_index_everything_works(laptop: Clone, tmp_path: Path) -> None:
    _, stores, report = index(laptop, tmp_path / "nothing" / "there")
    assert "indexed here" in report.note
    assert len(stores["code"].files()) == 3


def test_a_lance_store_is_indexed_here_and_a_note_says_so(
    ci: Clone, laptop: Clone, tmp_path: Path
) -> None:
    ci.push(tmp_path / "shared")
    app, project = laptop.open(shared_index=str(tmp_path / "shared"), store="lance")
    report = update_project(app.workspace, project, Work())
    assert "only the store 'sqlite' can start from it" in report.note
    assert len(project.stores()["code"].files()) == 3


def test_another_repository_there_is_named(ci: Clone, laptop: Clone, tmp_path: Path) -> None:
    ci.push(tmp_path / "shared", repository="acme/other")
    _, stores, report = index(laptop, tmp_path / "shared")
    assert "acme/other" in report.note
    assert len(stores["code"].files()) == 3


def test_a_folder_that_is_no_repository_is_indexed_as_ever(
    ci: Clone, laptop: Clone, tmp_path: Path
) -> None:
    ci.push(tmp_path / "shared")
    (laptop.root / ".git").rename(tmp_path / "git")
    (laptop.root / "pyproject.toml").touch()
    _, stores, report = index(laptop, tmp_path / "shared")
    assert "git repository" in report.note
    assert len(stores["code"].files()) == 4


def test_an_index_that_exists_gets_missing_vectors(
    ci: Clone, laptop: Clone, tmp_path: Path
) -> None:
    # the small model in the place of the deep one: it is quick, and its vectors come the same way
    ci.push(tmp_path / "shared")
    without, bare = laptop.open(embedding="none")
    update_project(without.workspace, bare, Work())
    app, project = laptop.open(shared_index=str(tmp_path / "shared"))
    model = app.workspace.static["code"]
    assert project.stores()["code"].coverage(model.name)[0] == 0
    note = fetch_vectors(replace(app.workspace, deep=model), project, Work(), least=1)
    assert "took" in note
    have, total = project.stores()["code"].coverage(model.name)
    assert have == total > 0
