"""Projects that are empty, missing, nested, or not projects at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


def test_an_empty_project_is_indexed_and_searched(sonde: Any, tmp_path: Path) -> None:
    sonde.project = tmp_path / "empty"
    (sonde.project / ".git").mkdir(parents=True)
    assert sonde.ask("index", "--yes")["filesIndexed"] == 0
    assert sonde.ask("status")["status"] == "ready"
    done = sonde.run("search", "anything", "--json")
    assert done.returncode == 1
    assert '"totalResults": 0' in done.stdout
    (sonde.project / "new.py").write_text("def newcomer(): pass\n")
    assert sonde.ask("search", "newcomer")["results"][0]["path"] == "new.py"


def test_a_folder_without_markers_is_no_project_until_it_is_named(
    sonde: Any, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "a.py").write_text("x = 1\n")
    assert sonde.fail("search", "x", cwd=bare)["code"] == "PROJECT_NOT_DETECTED"
    assert sonde.fail("index", cwd=bare)["code"] == "PROJECT_NOT_DETECTED"
    assert sonde.ask("index", "--project", str(bare), "--yes", cwd=bare)["filesIndexed"] == 1
    assert sonde.ask("search", "x", cwd=bare)["totalResults"] == 1


@pytest.mark.parametrize("project", ["/nowhere/at/all", "gone", "~nobody-of-that-name/x"])
def test_a_project_that_does_not_exist_is_named(sonde: Any, project: str) -> None:
    for command in (("search", "x"), ("index",)):
        error = sonde.fail(*command, "--project", project)
        assert project in error["userMessage"]


def test_a_file_named_as_the_project_stands_for_the_project_around_it(sonde: Any) -> None:
    file = str(sonde.project / "README.md")
    assert sonde.ask("index", "--project", file, "--yes")["projectPath"] == str(sonde.project)


def test_a_file_outside_any_project_is_no_project(sonde: Any, tmp_path: Path) -> None:
    (tmp_path / "lonely.py").write_text("x = 1\n")
    error = sonde.fail("index", "--project", str(tmp_path / "lonely.py"), cwd=tmp_path)
    assert "lonely.py" in error["userMessage"] + error["developerMessage"]


def test_a_repository_inside_another_is_its_own_project_and_part_of_the_outer(sonde: Any) -> None:
    inner = sonde.project / "inner"
    (inner / ".git").mkdir(parents=True)
    (inner / "unique_inner.py").write_text("def only_inside(): pass\n")
    sonde.ask("index", "--yes")
    assert sonde.ask("search", "only_inside")["results"][0]["path"] == "inner/unique_inner.py"
    assert sonde.fail("status", cwd=inner)["code"] == "INDEX_NOT_FOUND"
    assert sonde.ask("index", "--yes", cwd=inner)["projectPath"] == str(inner)
    assert sonde.ask("search", "only_inside", cwd=inner)["results"][0]["path"] == "unique_inner.py"
    assert sonde.ask("projects")["totalProjects"] == 2


def test_a_project_that_vanished_keeps_its_index_and_is_not_listed(sonde: Any) -> None:
    sonde.ask("index", "--yes")
    sonde.project.rename(sonde.project.with_name("away"))
    somewhere = sonde.home.parent
    error = sonde.fail("search", "x", "--project", str(sonde.project), cwd=somewhere)
    assert "project" in error["userMessage"]
    assert sonde.run("projects", cwd=somewhere).returncode == 1
    assert (sonde.folder / "index.db").exists()
    sonde.project.with_name("away").rename(sonde.project)
    assert sonde.ask("search", "function_7")["results"][0]["path"].endswith("mod7.py")


def test_a_working_directory_that_was_removed_is_said_to_be(sonde: Any, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'cd {gone} && rmdir {gone} && exec "$@"'
    sonde.prefix = ("sh", "-c", script, "sh")
    assert "does not exist" in sonde.fail("search", "x")["userMessage"]


def test_no_home_at_all_needs_a_place_for_indexes(sonde: Any) -> None:
    bare = {key: text for key, text in sonde.variables.items() if key == "PATH"}
    error = sonde.fail("index", "--yes", env=bare)
    assert error["code"] == "STORAGE_UNUSABLE"
    assert "SONDE_HOME" in error["nextAction"]
    placed = bare | {"SONDE_HOME": str(sonde.home)}
    assert sonde.ask("index", "--yes", env=placed)["filesIndexed"] == 31
    assert sonde.ask("search", "function_3", env=placed)["totalResults"]


def test_a_home_that_is_a_file_is_said_to_be_unusable(sonde: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "file")}
    assert sonde.fail("index", "--yes", env=variables)["code"] == "STORAGE_UNUSABLE"
    assert sonde.ask("search", "function_3", env=variables)["results"]
    assert sonde.ask("grep", "function_3", env=variables)["totalMatches"] == 1
    variables["SONDE_HOME"] = str(tmp_path / "file")
    assert sonde.fail("index", "--yes", env=variables)["code"] == "STORAGE_UNUSABLE"
