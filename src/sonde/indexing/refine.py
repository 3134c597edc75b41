"""The second stage: deeper vectors for chunks that have none, a few at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from sonde.embedding.base import Embedder
from sonde.runtime.locks import WriterLock
from sonde.runtime.memory import retry_in_halves
from sonde.runtime.work import Work
from sonde.stores.chunks.base import ChunkStore
from sonde.types import Chunk, Kind, Progress

_STEP = 64
_GLANCE = 1_024
"""Chunks asked for at a time: finding those without a vector looks at all of them."""


def refine_vectors(
    stores: Mapping[Kind, ChunkStore],
    embedder: Embedder,
    lock: WriterLock,
    work: Work,
    *,
    wanted: Callable[[], Sequence[str]] = tuple,
) -> int:
    """Embed until nothing is missing, `wanted` files first, then the newest; returns how many."""
    began = time.monotonic()
    done = 0
    total = sum(count - have for have, count in coverage_of(stores, embedder))
    for store in stores.values():
        while chunks := _next_chunks(store, embedder.name, wanted()):
            for start in range(0, len(chunks), _STEP):
                step = chunks[start : start + _STEP]
                retry_in_halves(step, partial(_embed, store, embedder, lock, work))
                done += len(step)
                rate = done / max(time.monotonic() - began, 1e-6)
                left = max(total - done, 0)
                work.report(Progress("refining", done, done + left, rate=rate, eta_s=left / rate))
    return done


def _embed(
    store: ChunkStore, embedder: Embedder, lock: WriterLock, work: Work, chunks: Sequence[Chunk]
) -> None:
    texts = {chunk.digest: chunk.embedded_text for chunk in chunks}
    vectors = embedder.embed(list(texts.values()), "passage")
    with lock.held(work):
        store.put_vectors(embedder.name, list(texts), vectors)
        store.tidy()


def _next_chunks(store: ChunkStore, model: str, wanted: Sequence[str]) -> list[Chunk]:
    """A few chunks without a vector: of the wanted files if any of those lack one."""
    for path in wanted:
        chunks = store.chunks_of(path)
        known = store.vectors(model, [chunk.id for chunk in chunks])
        lacking = [chunk for chunk in chunks if chunk.id not in known]
        if lacking:
            return lacking
    return store.missing(model, _GLANCE)


def coverage_of(stores: Mapping[Kind, ChunkStore], embedder: Embedder) -> list[tuple[int, int]]:
    """(chunks with a vector, chunks) of each store."""
    return [store.coverage(embedder.name) for store in stores.values()]
