"""The bundled weights and how to reach them, installed from a wheel or not."""

from __future__ import annotations

from importlib.resources import as_file, files
from importlib.resources.abc import Traversable

import numpy as np
from numpy.typing import NDArray

BUNDLED: Traversable = files(__name__)


def read_vocabulary(folder: Traversable, name: str) -> tuple[str, ...]:
    """The pieces, in the order of their ids."""
    return tuple((folder / name).read_text("utf-8").split("\n")[:-1])


def map_array(folder: Traversable, name: str) -> NDArray[np.generic]:
    """An array of a folder, memory-mapped where it lies in a real file."""
    with as_file(folder / name) as path:
        array: NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
        return array
