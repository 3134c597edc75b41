"""Vectors from any service that speaks OpenAI's `POST /v1/embeddings`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sonde.embedding.base import Mode
from sonde.embedding.identity import Identity
from sonde.embedding.remote import ASKING, Patience, embed_in_batches, post_json
from sonde.errors import EmbeddingFailed

if TYPE_CHECKING:
    from sonde.embedding.base import Vectors

ADDRESS = "https://api.openai.com/v1"
MODEL = "text-embedding-3-small"
_LONGEST_TEXT = 16_000
"""Characters of a text that are sent: within 8,191 tokens for all but the oddest."""


class OpenAIEmbedder:
    """An `Embedder` behind an OpenAI-compatible address.

    The key is asked for with each request and kept nowhere.
    """

    def __init__(
        self,
        address: str = ADDRESS,
        model: str = MODEL,
        dimensions: int = 0,
        read_key: Callable[[], str] = str,
        place: Path | None = None,
        asking: Mapping[Mode, Patience] = ASKING,
    ) -> None:
        base = address.rstrip("/")
        self._address = base if base.endswith("/embeddings") else f"{base}/embeddings"
        self._model, self._asked_dimensions = model, dimensions
        self._read_key, self._asking = read_key, asking
        self._dimensions = dimensions
        base = f"openai:{urlsplit(self._address).netloc}/{model}"
        # the same name at another host, or cut to another size, may be another model
        self._identity = Identity(f"{base}@{dimensions}" if dimensions else base, model, place)
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Identifies the vectors."""
        return self._identity.name

    @property
    def dimensions(self) -> int:
        """Numbers per vector; a service that was not told is asked."""
        with self._lock:
            if not self._dimensions:
                self._dimensions = self.embed(["size"], "query").shape[1]
            return self._dimensions

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        """One unit row per text, in order."""
        told: set[str] = set()

        def ask(batch: list[str]) -> Sequence[Sequence[float]]:
            body: dict[str, Any] = {
                "model": self._model,
                "input": [text[:_LONGEST_TEXT] for text in batch],
                "encoding_format": "float",
            }
            if self._asked_dimensions:
                body["dimensions"] = self._asked_dimensions
            key = self._read_key()
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            answer = post_json(self._address, body, headers, self._asking[mode])
            told.add(str(answer.get("model") or ""))
            rows = {int(row["index"]): row["embedding"] for row in answer["data"]}
            if sorted(rows) != list(range(len(batch))):
                raise EmbeddingFailed(f"{len(batch)} texts were sent, {len(rows)} vectors came")
            return [rows[at] for at in range(len(batch))]

        known = self._asked_dimensions
        if not known and not any(text.strip() for text in texts):
            known = self.dimensions
        vectors = embed_in_batches(texts, known, ask)
        if told:
            self._dimensions = vectors.shape[1]
            self._identity.learn(told, self._dimensions)
        return vectors

    def close(self) -> None:
        """Nothing is held."""
