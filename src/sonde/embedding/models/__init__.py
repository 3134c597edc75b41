"""The bundled weights and how to reach them, installed from a wheel or not."""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable

import numpy as np
from numpy.typing import NDArray


def find_weights(name: str) -> Traversable:
    """One file of this folder."""
    return files(__name__) / name


@cache
def read_vocabulary(name: str) -> tuple[str, ...]:
    """The word pieces, in the order of their ids."""
    return tuple(find_weights(name).read_text("utf-8").split("\n")[:-1])


def map_array(name: str) -> NDArray[np.generic]:
    """An array of this folder, memory-mapped where it lies in a real file."""
    with as_file(find_weights(name)) as path:
        array: NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
        return array
