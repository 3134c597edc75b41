"""One save is compared with the index once, however it is indexed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.trees import write_files

from sonde.app import App
from sonde.indexing.sources import Tree
from sonde.projects.project import Project
from sonde.projects.update import compare_project, update_changed, update_project
from sonde.runtime.work import Work
from sonde.types import ListedFile, Skipped


@dataclass(frozen=True)
class CountingTree(Tree):
    """A tree that notes what is compared: single files, and folders walked."""

    checked: list[str] = field(default_factory=list)
    walked: list[str] = field(default_factory=list)

    def check(self, path: str) -> ListedFile | Skipped:
        self.checked.append(path)
        return Tree.check(self, path)

    def walk(self, under: str = "") -> Iterator[ListedFile | Skipped]:
        self.walked.append(under)
        return Tree.walk(self, under)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {"pyproject.toml": "", "a.py": "x = 1\n", "pkg/b.py": "y = 1\n"}
    return write_files(tmp_path / "project", files)


@pytest.fixture
def app(open_app: Callable[..., App], root: Path) -> App:
    return open_app(start=root)


@pytest.fixture
def project(app: App, root: Path) -> Project:
    """An indexed project whose comparisons are counted from here on."""
    project = app.workspace.projects.get(root)
    update_project(app.workspace, project, Work())
    tree = project.tree
    counting = CountingTree(tree.sources, tree.is_docs, tree.index_docs, tree.chunking)
    project.adopt(replace(project.settings, tree=counting))
    return project


def test_a_saved_file_is_compared_once(app: App, project: Project, root: Path) -> None:
    tree = project.tree
    assert isinstance(tree, CountingTree)
    (root / "a.py").write_text("def saved():\n    pass\n")
    update_changed(app.workspace, project, {"a.py"}, Work())
    assert project.stores()["code"].chunks_of("a.py")[0].symbol == "saved"
    assert (tree.checked, tree.walked) == (["a.py"], [])


def test_a_new_folder_is_listed_once(app: App, project: Project, root: Path) -> None:
    tree = project.tree
    assert isinstance(tree, CountingTree)
    write_files(root, {"pkg/new.py": "z = 1\n"})
    update_changed(app.workspace, project, {"pkg/"}, Work())
    assert project.stores()["code"].files(["pkg/new.py"])
    assert (tree.checked, tree.walked) == (["pkg/b.py", "pkg/new.py"], ["pkg"])


def test_a_diff_of_an_index_that_was_written_since_is_made_again(
    app: App, project: Project, root: Path
) -> None:
    (root / "a.py").write_text("x = 22\n")
    stale = compare_project(project, Work(), {"a.py"})
    (root / "pkg/b.py").write_text("y = 22\n")
    update_changed(app.workspace, project, {"pkg/b.py"}, Work())
    (root / "a.py").unlink()
    update_project(app.workspace, project, Work(), diff=stale)
    assert not project.stores()["code"].files(["a.py"])
