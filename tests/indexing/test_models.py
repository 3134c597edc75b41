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
        static = app.workspace.static["code"]
        name = static.name
        static.name = "sonde-static-of-tomorrow"  # type: ignore[misc]
        assert store.coverage(static.name) == (0, 1)
        opened.index()
        assert store.coverage(static.name) == (1, 1)
        assert store.coverage(name) == (1, 1)
