"""Chunk files: chunks that another program or machine has made, searched in memory.

A file is `{"chunks": [...]}` or a bare list; each chunk may carry its embedding. All files of the
folder are one collection. It is read again half a second after the last event; the old one answers
until the new one has been read, and stays if that fails.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import Any

import numpy as np

from sonde.chunking.tags import fold_tag
from sonde.embedding.base import Embedder, Vectors
from sonde.errors import EmbeddingFailed, FileMissing, SondeError
from sonde.policy.changes import FolderWatch, WatchFailed
from sonde.policy.read import read_document
from sonde.policy.walk import walk_documents
from sonde.runtime.processes import trim_heap
from sonde.searching import contexts
from sonde.types import ListedFile, Skipped

QUIET_MS = 500  # without events, after which the files are read again; writers take several writes
_LONGEST_WAIT_MS = 60_000  # of one call that waits for events
_MOST_BYTES = 4 << 30  # of one chunk file; all of it is parsed in memory
_BATCH_CHUNKS = 256  # chunks embedded at a time: bounds the memory of one call of the model

log = logging.getLogger(__name__)


class UnreadableError(ValueError):
    """A chunk file that is broken, or half written."""


@dataclass(frozen=True, slots=True)
class Collection:
    """Chunks and their unit vectors at one moment; never changed."""

    chunks: tuple[contexts.ContextChunk, ...]
    vectors: Vectors
    types: Mapping[str, Vectors]
    tags: Mapping[str, Vectors]

    def _choose(self, options: contexts.SearchOptions) -> Vectors:
        """The places of the chunks that the filters let through."""
        chosen: Vectors = np.arange(len(self.chunks), dtype=np.int32)
        nothing = chosen[:0]
        if options.chunk_types:
            parts = [self.types.get(name, nothing) for name in set(options.chunk_types)]
            chosen = np.sort(np.concatenate(parts))
        for tag in options.tags:
            held = self.tags.get(fold_tag(tag), nothing)
            chosen = np.intersect1d(chosen, held, assume_unique=True)
        return chosen

    def query(
        self, query: str, vector: Vectors, options: contexts.SearchOptions
    ) -> list[contexts.SearchResult]:
        """The best chunks for a query under its vector."""
        chosen = self._choose(options)
        pool = min(contexts.count_pool(options), len(chosen))
        if not pool or not vector.any():
            return []  # nothing passes, or no word of the query is known, so nothing is near
        every = len(chosen) == len(self.chunks)
        # not by BLAS, whose threads wait for each other on a busy machine, four times as long
        scores = np.einsum("ij,j->i", self.vectors if every else self.vectors[chosen], vector)
        best = np.argpartition(-scores, pool - 1)[:pool]
        near = [(self.chunks[int(chosen[at])], float(scores[at])) for at in best]
        near.sort(key=lambda pair: (-pair[1], pair[0].id))
        return contexts.combine_scores(query, near, options)


class ChunkFiles:
    """A `ContextSearcher` over a folder of chunk files that follows their changes."""

    def __init__(self, folder: Path, embedder: Embedder | None) -> None:
        self._folder, self._embedder = folder, embedder
        self._last_warning = ""
        self.identity = identify(folder)
        """Which folder was read; another one of that name must be read again."""
        self._collection = self._read(strict=False)
        self._watch: FolderWatch | None = None
        self.reloads = 0
        """How often the files were read again."""

    def query(self, query: str, options: contexts.SearchOptions) -> list[contexts.SearchResult]:
        """The best chunks of the files as they were last read."""
        collection = self._collection  # one state for the whole query, even if it is replaced
        vector = contexts.embed_query(self._embedder, query)
        if len(collection.chunks) and len(vector) != collection.vectors.shape[1]:
            raise _refuse_dimensions(collection.vectors.shape[1], len(vector))
        return collection.query(query, vector, options)

    def __len__(self) -> int:
        return len(self._collection.chunks)

    def follow(self) -> None:
        """Read the files again whenever they have changed, until closed."""
        if self._watch is None:
            try:
                self._watch = self._open_watch(polling=False)
            except (OSError, WatchFailed) as error:  # the system has no watch left: poll instead
                log.info("%s is polled: %s", self._folder, error)
                self._watch = self._open_watch(polling=True)

    def close(self) -> None:
        """Stop following."""
        if self._watch:
            self._watch.close()

    def reload(self) -> bool:
        """Read the files now; false, and the old state, when they cannot be read."""
        try:
            fresh = self._read(strict=True)
        except (UnreadableError, SondeError) as error:
            if str(error) != self._last_warning:
                self._last_warning = str(error)
                log.warning("chunk files are as they were: %s", error)
            return False
        self._last_warning = ""
        self._collection = fresh
        self.reloads += 1
        log.info("%d chunks were read from %s", len(fresh.chunks), self._folder)
        return True

    def _open_watch(self, *, polling: bool) -> FolderWatch:
        return FolderWatch(
            [str(self._folder)],
            self._take_changes,
            recursive=False,
            step_ms=QUIET_MS,
            gather_ms=_LONGEST_WAIT_MS,
            polling=polling,
        )

    def _take_changes(self, places: set[str] | Exception) -> None:
        if isinstance(places, set) and any(place.endswith(".json") for place in places):
            self.reload()

    def _read(self, *, strict: bool) -> Collection:
        """All files as one collection; a broken file is left out, or if `strict` the end of it."""
        if not self._folder.is_dir():
            raise FileMissing(f"no folder {self._folder}", path=str(self._folder))
        rows: list[dict[str, Any]] = []
        models: set[str] = set()
        names = [
            e.path for e in walk_documents(self._folder, _MOST_BYTES) if isinstance(e, ListedFile)
        ]
        for name in sorted(n for n in names if n.endswith(".json") and "/" not in n):
            try:
                model, found = _read_file(self._folder, name)
            except UnreadableError as error:
                if strict:
                    raise
                log.warning("%s", error)
                continue
            rows += found
            models.add(model)
            del found  # so that clearing `rows` frees the last file's too
        if strict and not names:
            raise UnreadableError(f"no chunk files in {self._folder}")
        collection = self._collect(rows, models - {""})
        rows.clear()
        trim_heap()
        return collection

    def _collect(self, rows: Sequence[Mapping[str, Any]], models: set[str]) -> Collection:
        own = self._embedder.name if self._embedder else ""
        # a service has no model name of its own: its configuration vouches for the model
        if len(models) > 1 or (own and models - {own}):
            raise EmbeddingFailed(
                f"the chunk files were embedded by {', '.join(sorted(models))}, queries by {own}",
                user_message="The chunk files were made with another embedding model.",
                next_action="Set CORTEX_EMBEDDING_ENDPOINT to that model, or export them again.",
            )
        chunks = tuple(map(_parse_chunk, rows))
        types = _list_places((chunk.chunk_type,) for chunk in chunks)
        tags = _list_places(map(fold_tag, chunk.tags) for chunk in chunks)
        return Collection(chunks, self._gather_vectors(rows, chunks), types, tags)

    def _gather_vectors(
        self, rows: Sequence[Mapping[str, Any]], chunks: Sequence[contexts.ContextChunk]
    ) -> Vectors:
        given = [row.get("embedding") for row in rows]
        sizes = {len(vector) for vector in given if vector is not None and len(vector)}
        wanted = self._embedder.dimensions if self._embedder else max(sizes, default=0)
        if sizes - {wanted}:
            raise _refuse_dimensions(max(sizes - {wanted}), wanted)
        vectors = np.zeros((len(rows), wanted), np.float32)
        missing = []
        for at, vector in enumerate(given):
            if vector is None or not len(vector):
                missing.append(at)
            else:
                vectors[at] = vector
        for start in range(0, len(missing) if self._embedder else 0, _BATCH_CHUNKS):
            part = missing[start : start + _BATCH_CHUNKS]
            texts = [f"{chunks[at].title}\n{chunks[at].text}" for at in part]
            vectors[part] = self._embedder.embed(texts, "passage")  # type: ignore[union-attr]
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.where(norms == 0, 1, norms)
        return vectors


def identify(folder: Path) -> tuple[int, int] | None:
    """Which folder there is under this name now; None if there is none."""
    try:
        facts = folder.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _read_file(folder: Path, name: str) -> tuple[str, list[dict[str, Any]]]:
    data = read_document(folder, name, _MOST_BYTES)
    if isinstance(data, Skipped):
        raise UnreadableError(f"{folder / name}: {data.reason} {data.detail}".strip())
    try:
        value = json.loads(data, object_hook=_pack_vector, parse_constant=_refuse_constant)
        facts = value.get("_metadata") or {} if isinstance(value, dict) else {}
        rows = value["chunks"] if isinstance(value, dict) else value
        if not all(isinstance(row["id"], str) and isinstance(row["text"], str) for row in rows):
            raise UnreadableError(f"{folder / name}: a chunk needs an id and a text")
        return str(facts.get("model") or ""), list(rows)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"{folder / name}: {error}") from error


def _pack_vector(row: dict[str, Any]) -> dict[str, Any]:
    """Numbers as they are computed with: a list of them takes eight times the memory."""
    vector = row.get("embedding")
    if isinstance(vector, list) and "id" in row and "text" in row:
        with np.errstate(over="ignore"):
            packed = row["embedding"] = np.array(vector, np.float32)
        if packed.ndim != 1 or not np.isfinite(packed).all():
            raise UnreadableError(f"the embedding of {row['id']} is no row of numbers")
    return row


def _refuse_constant(name: str) -> None:
    raise UnreadableError(f"{name} is no number")


def _parse_chunk(row: Mapping[str, Any]) -> contexts.ContextChunk:
    metadata, tags = row.get("metadata"), row.get("tags")
    tags = tags if isinstance(tags, list) else ()
    return contexts.ContextChunk(
        id=row["id"],
        title=str(row.get("title") or ""),
        text=row["text"],
        chunk_type=intern(str(row.get("chunk_type") or "")),
        tags=tuple(intern(tag) for tag in tags if isinstance(tag, str)),
        metadata=metadata if isinstance(metadata, dict) else {},
        created_at=str(row.get("created_at") or ""),
        updated_at=str(row.get("updated_at") or ""),
    )


def _list_places(names: Iterable[Iterable[str]]) -> dict[str, Vectors]:
    places: dict[str, list[int]] = {}
    for at, held in enumerate(names):
        for name in set(held):
            places.setdefault(name, []).append(at)
    return {name: np.array(found, np.int32) for name, found in places.items()}


def _refuse_dimensions(found: int, wanted: int) -> EmbeddingFailed:
    return EmbeddingFailed(
        f"the chunk files have vectors of {found} numbers, queries have {wanted}",
        user_message="The embeddings of the chunk files do not fit the embedding model.",
        next_action="Make the chunk files with the same model that embeds the queries.",
    )
