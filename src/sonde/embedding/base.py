"""What an embedding provider promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

Mode = Literal["query", "passage"]
DEEP_NAME, DEEP_DIMENSIONS = "sonde-deep-4", 384
"""Those of the bundled deep model, wherever it runs; a new model counts up."""
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]
else:
    Vectors = object  # numpy is loaded by whoever computes, not by whoever lists tools


class Embedder(Protocol):
    """Texts -> unit vectors. Safe to call from several threads."""

    @property
    def name(self) -> str:
        """Identifies the vectors; vectors of two names are never compared."""

    @property
    def dimensions(self) -> int:
        """Numbers per vector."""

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        """One unit row per text, in order; a text without any known token gives a zero row."""

    def close(self) -> None:
        """Free the model's memory; the next call loads it again."""


def make_units(made: Mapping[int, Vectors], count: int, dimensions: int) -> Vectors:
    """So many unit rows, out of those that were made; the others are zero."""
    import numpy as np

    vectors = np.zeros((count, dimensions), np.float32)
    for at, row in made.items():
        vectors[at] = row
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.where(norms == 0, 1, norms)
    return vectors
