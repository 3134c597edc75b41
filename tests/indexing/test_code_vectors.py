"""Deep vectors of code and of documents are each made in their own way, whenever they are made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.trees import write_files

from sonde.app import App
from sonde.embedding.onnx import OnnxEmbedder
from sonde.indexing.pipeline import refine_vectors
from sonde.runtime.work import Work
from sonde.tools.index import create_index
from sonde.types import Kind

FILES = {
    "reading.py": "def read_file(path):\n    with open(path) as file:\n        return file\n",
    "guide.md": "# Guide\n\nHow files are opened, read to their end and closed again.\n",
    "pyproject.toml": "",
}


@pytest.mark.parametrize("embedding", ["deep", "static"])
def test_code_is_embedded_as_code_and_documents_as_passages(
    open_app: Callable[..., App], tmp_path: Path, embedding: str
) -> None:
    root = write_files(tmp_path / "project", FILES)
    app, deep = open_app(start=root, embedding=embedding), OnnxEmbedder(threads=1)
    create_index(app, str(root), work=Work())
    project = app.workspace.projects.get(root)
    if embedding == "static":  # then the deep model comes later
        refine_vectors(project.stores(), {"code": deep, "docs": deep}, project.lock, Work())
    kinds: dict[Kind, str] = {"code": "reading.py", "docs": "guide.md"}
    for kind, path in kinds.items():
        store = project.stores()[kind]
        (chunk,) = store.chunks_of(path)
        (vector,) = store.vectors(deep.name, [chunk.id]).values()
        as_code = deep.embed([chunk.embedded_text], "code")[0] @ vector
        as_passage = deep.embed([chunk.embedded_text], "passage")[0] @ vector
        nearer, other = (as_code, as_passage) if kind == "code" else (as_passage, as_code)
        assert nearer > 0.998 > other
        assert np.isclose(np.linalg.norm(vector), 1, atol=1e-2)
