"""The second stage: deeper vectors for chunks that have none, a few at a time."""

from __future__ import annotations

import time
from collections.abc import Mapping

from sonde.embedding.base import Embedder
from sonde.indexing.lock import WriterLock
from sonde.stores.base import ChunkStore
from sonde.types import Kind, Progress
from sonde.work import Work

_STEP = 64


def refine_vectors(
    stores: Mapping[Kind, ChunkStore],
    embedder: Embedder,
    lock: WriterLock,
    work: Work,
    *,
    within_s: float | None = None,
) -> int:
    """Embed until nothing is missing (or time is up); returns how many chunks were embedded."""
    began = time.monotonic()
    done = 0
    total = sum(count - have for have, count in coverage_of(stores, embedder))
    for store in stores.values():
        while chunks := store.missing(embedder.name, _STEP):
            texts = {chunk.digest: chunk.embedded_text for chunk in chunks}
            vectors = embedder.embed(list(texts.values()), "passage")
            with lock.held(work):
                store.put_vectors(embedder.name, list(texts), vectors)
            done += len(chunks)
            seconds = max(time.monotonic() - began, 1e-6)
            rate = done / seconds
            work.report(
                Progress("refining", done, max(total, done), rate=rate, eta_s=(total - done) / rate)
            )
            if within_s is not None and seconds >= within_s:
                return done
    return done


def coverage_of(stores: Mapping[Kind, ChunkStore], embedder: Embedder) -> list[tuple[int, int]]:
    """(chunks with a vector, chunks) of each store."""
    return [store.coverage(embedder.name) for store in stores.values()]
