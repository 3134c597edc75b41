from pathlib import Path

import sonde


def test_chunks_that_another_version_embedded_get_vectors_of_this_model(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "walrus.py").write_text("def locate_walrus():\n    return 'arctic'\n")
    with sonde.open(project, home=tmp_path / "home") as opened:
        opened.index()
        app = opened.app
        store = app.workspace.projects.get(project).stores()["code"]
        assert app.workspace.static
        name = app.workspace.static.name
        app.workspace.static.name = "sonde-static-of-tomorrow"  # type: ignore[misc]
        assert store.coverage(app.workspace.static.name) == (0, 1)
        opened.index()
        assert store.coverage(app.workspace.static.name) == (1, 1)
        assert store.coverage(name) == (1, 1)
