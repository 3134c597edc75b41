"""Several folders as one project, by `roots` in its config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sonde
from sonde.errors import InvalidRequest
from sonde.stores.records import project_folder


def make(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path = path.with_name(f"{path.name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def index_with(tmp_path: Path, project: Path, roots: list[str]) -> Any:
    home = tmp_path / "home"
    folder = project_folder(home, project)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"roots": roots}))
    return sonde.open(project, home=home)


@pytest.mark.row("001-167")
def test_only_the_named_subfolders_belong_to_the_project(tmp_path: Path) -> None:
    project = make(tmp_path / "p", a__x="x = 1\n", b__y="y = 1\n", c__z="z = 1\n")
    with index_with(tmp_path, project, ["a", "b"]) as opened:
        opened.index()
        assert opened.find_files("**/*") == ["a/x.py", "b/y.py"]


@pytest.mark.row("001-167")
def test_sibling_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    project = make(tmp_path / "p", main="main = 1\n")
    make(tmp_path / "one" / "lib", f="def first_lib(): pass\n")
    make(tmp_path / "two" / "lib", f="def second_lib(): pass\n")
    with index_with(tmp_path, project, [".", "../one/lib", "../two/lib"]) as opened:
        opened.index()
        assert opened.find_files("**/*") == ["lib-2/f.py", "lib/f.py", "main.py"]
        (hit, *_) = opened.search("second_lib")
        assert (hit.path, hit.text) == ("lib-2/f.py", "def second_lib(): pass")
        assert [line.path for line in opened.grep("first_lib")] == ["lib/f.py"]


def test_a_folder_from_elsewhere_does_not_hide_the_projects_own(tmp_path: Path) -> None:
    project = make(tmp_path / "p", lib__own="own = 1\n")
    make(tmp_path / "lib", other="other = 1\n")
    with index_with(tmp_path, project, [".", "../lib"]) as opened:
        opened.index()
        assert opened.find_files("**/*") == ["lib-2/other.py", "lib/own.py"]


def test_a_root_inside_another_is_listed_once(tmp_path: Path) -> None:
    project = make(tmp_path / "p", main="main = 1\n", sub__s="s = 1\n", sub__deep__d="d = 1\n")
    with index_with(tmp_path, project, [".", "sub", "sub/deep", "sub"]) as opened:
        assert opened.index().files_indexed == 3
        assert opened.find_files("**/*") == ["main.py", "sub/deep/d.py", "sub/s.py"]
        (project / "sub" / "s.py").write_text("changed = 1\n")
        assert opened.search("changed")[0].path == "sub/s.py"


def test_each_root_has_its_own_ignore_files(tmp_path: Path) -> None:
    project = make(tmp_path / "p", a="a = 1\n", skip="s = 1\n")
    (project / ".gitignore").write_text("skip.py\n")
    make(tmp_path / "q", b="b = 1\n", skip="s = 1\n")
    with index_with(tmp_path, project, [".", "../q"]) as opened:
        opened.index()
        assert opened.find_files("**/*.py") == ["a.py", "q/b.py", "q/skip.py"]


@pytest.mark.parametrize("root", ["gone", "~nobody-of-that-name/x", "a.py"])
def test_a_root_that_is_no_folder_is_said_and_nothing_is_forgotten(
    tmp_path: Path, root: str
) -> None:
    project = make(tmp_path / "p", a="a = 1\n")
    with index_with(tmp_path, project, ["."]) as opened:
        opened.index()
    with (
        index_with(tmp_path, project, [".", root]) as opened,
        pytest.raises(InvalidRequest) as told,
    ):
        opened.index()
    assert "config.json" in told.value.user_message
    with index_with(tmp_path, project, ["."]) as opened:
        assert opened.find_files("**/*") == ["a.py"]


def test_storage_inside_the_project_is_not_part_of_it(tmp_path: Path) -> None:
    project = make(tmp_path / "p", a="a = 1\n")
    with sonde.open(project, home=project / "odd [name]" / "store") as opened:
        opened.index()
        (project / "b.py").write_text("b = 1\n")
        opened.index()
        assert opened.find_files("**/*") == ["a.py", "b.py"]
