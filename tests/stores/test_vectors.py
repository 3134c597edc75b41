"""Vector files that others remove while they are read."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from sonde.errors import IndexCorrupt
from sonde.stores.chunks.base import Vectors
from sonde.stores.vectors import VectorFile

ROWS, SIZE = 40, 256


def test_a_file_that_is_removed_while_it_is_opened_is_said_to_be_gone(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((ROWS, SIZE)).astype(np.float32)
    for turn in range(300):
        written = VectorFile(tmp_path / f"{turn}.i8", SIZE)
        written.append(vectors)
        remover = threading.Thread(target=written.delete)
        remover.start()
        with pytest.raises(IndexCorrupt):
            search_on(written.path, vectors[0])
        remover.join()


def search_on(path: Path, query: Vectors) -> None:
    while True:
        VectorFile(path, SIZE).find(query, np.arange(ROWS), 10)
