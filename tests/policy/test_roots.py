"""Where a project starts, and what lies inside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.errors import FileMissing, OutsideRoots, ProjectNotDetected, SymlinkNotAllowed
from sonde.policy.roots import MARKERS, detect_root, resolve_inside, split_inside
from sonde.text.globs import clean_path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "proj"
    (root / "src").mkdir(parents=True)
    (root / "src/a.py").write_text("a")
    (tmp_path / "proj-evil").mkdir()
    (tmp_path / "proj-evil/secret.txt").write_text("s")
    return root


@pytest.mark.parametrize("marker", MARKERS[1:])
@pytest.mark.row("001-54", "001-55", "001-56", "001-57")
def test_the_nearest_folder_with_a_manifest_is_the_root(tmp_path: Path, marker: str) -> None:
    inner = tmp_path / "outer/inner"
    (inner / "src").mkdir(parents=True)
    (tmp_path / "outer/package.json").touch()
    (inner / marker).touch()
    assert detect_root(inner / "src") == inner.resolve()


@pytest.mark.row("001-53", "001-58")
def test_a_repository_wins_over_a_manifest_below_it(tmp_path: Path) -> None:
    (tmp_path / "packages/web").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "packages/web/package.json").touch()
    assert detect_root(tmp_path / "packages/web") == tmp_path.resolve()


@pytest.mark.row("001-59")
def test_a_worktree_whose_git_is_a_file_is_a_root(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    (tmp_path / "src").mkdir()
    assert detect_root(tmp_path / "src") == tmp_path.resolve()


def test_the_search_may_start_at_a_file(tmp_path: Path) -> None:
    (tmp_path / "go.mod").touch()
    assert detect_root(tmp_path / "go.mod") == tmp_path.resolve()


def test_without_a_marker_the_error_knows_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ProjectNotDetected) as caught:
        detect_root(tmp_path)
    assert caught.value.facts == {"cwd": str(tmp_path.resolve())}


def test_a_stray_marker_in_the_home_folder_does_not_make_a_project_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "notes").mkdir()
    with pytest.raises(ProjectNotDetected):
        detect_root(tmp_path / "notes")
    assert detect_root(tmp_path) == tmp_path.resolve()


def test_a_start_that_does_not_exist_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(FileMissing):
        detect_root(tmp_path / "nowhere")


def test_paths_inside_resolve_and_need_not_exist(project: Path) -> None:
    assert resolve_inside(project, "src/a.py") == (project / "src/a.py").resolve()
    assert resolve_inside(project, str(project / "src/a.py")).name == "a.py"
    assert resolve_inside(project, "src/new.py") == project.resolve() / "src/new.py"


@pytest.mark.parametrize(
    "path",
    [
        "../proj-evil/secret.txt",
        "src/../../proj-evil/secret.txt",
        "src/../src/a.py",
        "..",
        "/etc/passwd",
        "a\0b",
        "{sibling}/secret.txt",
        "{project}/../proj-evil/secret.txt",
    ],
)
@pytest.mark.row("001-79")
def test_paths_outside_are_refused(project: Path, path: str) -> None:
    named = path.replace("{sibling}", f"{project}-evil").replace("{project}", str(project))
    with pytest.raises(OutsideRoots):
        resolve_inside(project, named)


@pytest.mark.parametrize("target", ["../proj-evil", "src"])
@pytest.mark.row("001-78", "001-79")
def test_no_path_goes_through_a_link(project: Path, target: str) -> None:
    (project / "link").symlink_to(target)
    for path in ("link", "link/a.py", "link/secret.txt"):
        with pytest.raises(SymlinkNotAllowed):
            resolve_inside(project, path)


def test_a_root_behind_a_link_is_fine(project: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(project)
    inside = resolve_inside(tmp_path / "alias", str(tmp_path / "alias/src/a.py"))
    assert inside == project.resolve() / "src/a.py"


def test_a_path_typed_with_invisible_characters_finds_the_file(project: Path) -> None:
    (project / "café.md").touch()
    assert resolve_inside(project, "cafe\u0301\u200b.md").name == "café.md"
    (project / "zero\u200bwidth.md").touch()
    assert resolve_inside(project, "zero\u200bwidth.md").name == "zero\u200bwidth.md"


@given(st.text())
def test_a_cleaned_path_stays_as_it_is(text: str) -> None:
    assert clean_path(clean_path(text)) == clean_path(text)


@given(st.lists(st.sampled_from(["..", ".", "a", "b", "/", "\u200b.", "~"])).map("/".join))
def test_what_is_split_is_below_the_root(path: str) -> None:
    root = Path("/some/root")
    try:
        names = split_inside(root, path)
    except OutsideRoots:
        return
    inside = os.path.normpath(root.joinpath(*names))
    assert inside == str(root) or inside.startswith(f"{root}/")
