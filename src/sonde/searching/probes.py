"""The query under each model, embedded at most once and only if a store needs it."""

import time
from functools import partial

from sonde.embedding.base import Embedder, Vectors
from sonde.errors import EmbeddingFailed, MissingExtra, ModelDownloadFailed
from sonde.ranking.words import Question
from sonde.searching.found import Deep, Probe
from sonde.stores.base import ChunkStore
from sonde.types import Kind


class Probes:
    """What the models make of one question; `notes` says what they could not."""

    def __init__(self, question: Question, static: Embedder | None, deep: Embedder | None) -> None:
        self._question = question
        self._static, self._deep = static, deep
        self._vectors: dict[str, Vectors | None] = {}
        self.notes: list[str] = []

    def probe(self, store: ChunkStore) -> Probe | None:
        """The query for the model that has seen the store first; the static one where there is."""
        for embedder in (self._static, self._deep):
            if embedder and store.coverage(embedder.name)[0]:
                vectors = self._embed(embedder)
                if vectors is None:
                    return None
                vector, *told = vectors
                return Probe(embedder.name, vector, *told)
        return None

    def deep(self, store: ChunkStore, kind: Kind, probe: Probe) -> Deep | None:
        """The query for the deeper model, where it can say more than the probe does.

        Nobody waits for the model to be loaded unless it knows every chunk. Reports on code go
        without: they are found by places and names, and what it would add is not measured.
        """
        embedder = self._deep
        if embedder is None or probe.model == embedder.name:
            return None
        if kind == "code" and self._question.report:
            return None
        have, total = store.coverage(embedder.name)
        complete = 0 < total == have
        # a model that says nothing of it may be anywhere, and loading it take any time
        ready = bool(getattr(embedder, "is_loaded", False))
        if not complete and not ready:
            return None
        began = time.perf_counter()
        vectors = self._embed(embedder)
        pace = time.perf_counter() - began
        if vectors is None:
            return None
        embed = partial(embedder.embed, mode="passage") if ready and not complete else None
        return Deep(embedder.name, vectors[0], complete, embed, pace)

    def _embed(self, embedder: Embedder) -> Vectors | None:
        if embedder.name not in self._vectors:
            try:
                self._vectors[embedder.name] = embedder.embed(self._question.asked, "query")
            except (EmbeddingFailed, ModelDownloadFailed, MissingExtra) as error:
                without = embedder is self._deep and self._static
                how = "without the deeper model" if without else "by words alone"
                self.notes.append(f"answered {how}: {error.user_message}")
                self._vectors[embedder.name] = None
        return self._vectors[embedder.name]
