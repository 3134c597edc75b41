from pathlib import Path

import pytest

import sonde
from sonde.api import Sonde
from sonde.projects.maintenance import convert_store
from sonde.runtime.work import Work


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / ".git").mkdir()
    for name, verb in [("retry", "retries a request with backoff"), ("cache", "keeps answers")]:
        (root / f"{name}.py").write_text(f'def {name}():\n    """It {verb}."""\n    return 1\n')
    (root / "GUIDE.md").write_text("# Guide\n\nHow requests are retried.\n")
    return root


def answers(opened: Sonde) -> list[tuple[str, float]]:
    queries = ["retry with backoff", "keep answers", "cache"]
    return [(hit.path, round(hit.score, 2)) for query in queries for hit in opened.search(query)]


@pytest.mark.row("001-174")
def test_an_index_moves_to_the_other_store_and_back_with_its_vectors(
    project: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with sonde.open(project, home=home) as opened:
        opened.index()
        expected = answers(opened)
        before = opened.status().details["vectors"]
        for store in ("lance", "sqlite"):
            convert_store(opened.app.workspace, store, str(project), work=Work())
            status = opened.status()
            assert status.details["store"] == store
            assert status.details["vectors"] == before
            assert answers(opened) == expected
    (folder,) = (home / "indexes").iterdir()
    assert not [path for path in folder.iterdir() if "lance" in path.name]
