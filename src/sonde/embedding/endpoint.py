"""Vectors from a server that speaks `POST {"texts": [...], "mode": "query"}`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import Request, urlopen

from sonde.embedding.base import Mode
from sonde.errors import EmbeddingFailed

if TYPE_CHECKING:
    from sonde.embedding.base import Vectors

_TIMEOUT_S = 10.0


class EndpointEmbedder:
    """An `Embedder` behind an HTTP address; which model answers there is up to that server."""

    name = ""

    def __init__(self, address: str, dimensions: int) -> None:
        self._address, self._dimensions = address, dimensions

    @property
    def dimensions(self) -> int:
        """Numbers per vector, as they were announced."""
        return self._dimensions

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        """One unit row per text."""
        import numpy as np

        body = json.dumps({"texts": list(texts), "mode": mode}).encode()
        headers = {"Content-Type": "application/json"}
        # the setting's rule lets nothing but http and https through
        request = Request(self._address, body, headers)  # noqa: S310
        try:
            with urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
                rows = np.array(json.load(answer)["embeddings"], np.float32)
        except (URLError, OSError, ValueError, KeyError, TypeError) as error:
            raise EmbeddingFailed(
                f"{self._address}: {error}",
                user_message="The embedding service did not answer.",
                next_action="Start it, or correct CORTEX_EMBEDDING_ENDPOINT.",
            ) from error
        if rows.shape != (len(texts), self._dimensions):
            raise EmbeddingFailed(
                f"{self._address} gave {rows.shape}, not {(len(texts), self._dimensions)}"
            )
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.where(norms == 0, 1, norms)
        return rows

    def close(self) -> None:
        """Nothing is held."""
