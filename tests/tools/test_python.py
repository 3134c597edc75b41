"""`import sonde`: one call each, without keeping anything open."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.trees import write_files

import sonde
from sonde.errors import NotScanned


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SONDE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SONDE_EMBEDDING", "static")
    files = {
        "pyproject.toml": "",
        "src/cart.py": "def add_item(item):\n    return [item]\n",
        "docs/shipping.md": "# Shipping\n\nParcels leave at noon.\n",
    }
    return write_files(tmp_path / "project", files)


def test_a_project_is_indexed_searched_and_listed(project: Path) -> None:
    assert sonde.projects() == []
    assert sonde.index(project).as_dict()["filesIndexed"] == 3
    status = sonde.status(project)
    assert (status.status, status.project_path) == ("ready", str(project))
    assert [one.project_path for one in sonde.projects()] == [str(project)]
    assert [hit.path for hit in sonde.search("add_item", project, limit=1)] == ["src/cart.py"]
    assert [(line.path, line.line) for line in sonde.grep("leave", project)] == [
        ("docs/shipping.md", 3)
    ]
    assert sonde.find_files("**/*.py", project) == ["src/cart.py"]


def test_a_folder_is_selected_from_once_it_is_scanned(project: Path) -> None:
    with pytest.raises(NotScanned):
        sonde.select("ext:py", project)
    assert sonde.scan(project).files == 3
    assert [Path(entry.path).name for entry in sonde.select("ext:py", project)] == ["cart.py"]
