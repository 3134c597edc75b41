"""Vectors from a server that speaks `POST {"texts": [...], "mode": "query"}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sonde.embedding.base import Mode
from sonde.embedding.identity import Identity
from sonde.embedding.remote import ASKING, Patience, embed_in_batches, post_json
from sonde.errors import EmbeddingFailed

if TYPE_CHECKING:
    from sonde.embedding.base import Vectors


class EndpointEmbedder:
    """An `Embedder` behind an HTTP address.

    Which model answers there is up to that server; one that says so, as `model` in its answers, is
    held to the model that was named.
    """

    def __init__(
        self,
        address: str,
        dimensions: int,
        name: str = "",
        model: str = "",
        place: Path | None = None,
        asking: Mapping[Mode, Patience] = ASKING,
    ) -> None:
        self._address, self._dimensions = address, dimensions
        self._identity = Identity(name, model, place) if name else None
        self._model, self._asking = model, asking

    @property
    def name(self) -> str:
        """Identifies the vectors; empty where nobody says what they are."""
        return self._identity.name if self._identity else ""

    @property
    def dimensions(self) -> int:
        """Numbers per vector, as they were announced."""
        return self._dimensions

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        """One unit row per text."""
        told: set[str] = set()

        def ask(batch: list[str]) -> Sequence[Sequence[float]]:
            body = {"texts": batch, "mode": mode}
            answer = post_json(self._address, body, {}, self._asking[mode])
            told.add(str(answer.get("model") or ""))
            rows: Sequence[Sequence[float]] = answer["embeddings"]
            return rows

        vectors = embed_in_batches(texts, self._dimensions, ask)
        if self._model and told - {self._model, ""}:
            raise EmbeddingFailed(
                f"the service embeds with {', '.join(sorted(told))}, not with {self._model}",
                user_message="The embedding service uses another model than the one named.",
                next_action="Correct `embeddingModel`, then embed the index anew.",
            )
        if self._identity and told:
            self._identity.learn(told, self._dimensions)
        return vectors

    def close(self) -> None:
        """Nothing is held."""
