"""Chunk files: chunks that another program or machine has made, searched in memory.

A file is `{"chunks": [...]}` or a bare list; each chunk may carry its embedding. All files of the
folder are one collection. It is read half a second after the last change, and once more if a file
changed meanwhile, so that it never mixes two generations; the old one answers until the new one
has been read, and stays if that fails. A chunk that cannot be used is left out.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import Any

import numpy as np

from sonde.chunking.tags import fold_tag
from sonde.embedding.base import Embedder, Vectors, make_units
from sonde.errors import EmbeddingFailed, FileMissing, SondeError
from sonde.policy.changes import FolderWatch, WatchFailed
from sonde.policy.read import read_document
from sonde.policy.walk import walk_documents
from sonde.runtime.processes import trim_heap
from sonde.searching import contexts
from sonde.text.formats import show_time
from sonde.types import ListedFile, Skipped

QUIET_S = 0.5  # without a change, after which the files are read; writers take several writes
_EVENTS_MS = 50  # in which events come together: few enough to add little to the wait
_LATE_S = 2.0  # after a change, by when its events have come, if they come at all
_START_S = 10.0  # at the start, wait this long for a writer that never pauses
_MOST_BYTES = 4 << 30  # of one chunk file; all of it is parsed in memory
_BATCH_CHUNKS = 256  # chunks embedded at a time: bounds the memory of one call of the model

log = logging.getLogger(__name__)

_Stamp = tuple[tuple[str, int, int, int, int], ...]
"""Name, inode, size and the two times of each file; first those of the folder."""


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
        self._closing = threading.Event()
        self._watch: FolderWatch | None = None
        self._stamp: _Stamp = ()
        deadline = time.monotonic() + _START_S
        while not self._stamp or (self._look() != self._stamp and time.monotonic() < deadline):
            self._stamp = self._tried = self._wait_until_quiet(deadline)
            self._collection = self._read(strict=False)
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

    def list_stale(self, chunks: Iterable[contexts.ContextChunk]) -> set[str]:
        """The ids of those chunks whose text the files no longer hold."""
        held = {chunk.id: chunk.text for chunk in self._collection.chunks}
        return {chunk.id for chunk in chunks if held.get(chunk.id) != chunk.text}

    def follow(self) -> None:
        """Read the files again whenever they have changed, until closed. Called again, it makes
        up for events that were lost, as those of a folder that was replaced are."""
        if not self._folder.is_dir() or (self._watch and not self._is_late()):
            return
        if self._watch:
            self._watch.close()
        try:
            self._watch = self._open_watch(polling=False)
        except (OSError, WatchFailed) as error:  # the system has no watch left: poll instead
            log.info("%s is polled: %s", self._folder, error)
            self._watch = self._open_watch(polling=True)
        self.catch_up()

    def catch_up(self) -> None:
        """Read the files if they have changed since, unless a program goes on writing them."""
        changed = self._look() not in ((), self._stamp, self._tried)
        if changed and _measure_age(self._wait_until_quiet(time.monotonic() + QUIET_S)) >= QUIET_S:
            self.reload()

    def close(self) -> None:
        """Stop following."""
        self._closing.set()
        if self._watch:
            self._watch.close()

    def reload(self) -> bool:
        """Read the files now; false, and the old state, when they cannot be read."""
        stamp = self._tried = self._look()
        try:
            fresh = self._read(strict=True)
        except Exception as error:  # noqa: BLE001 - whatever is in the files, the old ones serve
            if str(error) != self._last_warning:
                self._last_warning = str(error)
                log.warning("chunk files are as they were: %s", error)
            return False
        if self._look() != stamp:
            return False  # half of it may be of the next generation
        self._last_warning = ""
        self._collection, self._stamp = fresh, stamp
        self.reloads += 1
        log.info("%d chunks were read from %s", len(fresh.chunks), self._folder)
        return True

    def _open_watch(self, *, polling: bool) -> FolderWatch:
        return FolderWatch(
            [str(self._folder)],
            self._take_changes,
            recursive=False,
            step_ms=_EVENTS_MS,
            gather_ms=_EVENTS_MS,
            polling=polling,
        )

    def _take_changes(self, places: set[str] | Exception) -> None:
        if isinstance(places, Exception):
            log.warning("%s is no longer watched: %s", self._folder, places)
            self._watch = None  # the next query opens another
        elif any(place.endswith(".json") for place in places):
            self._reload_when_quiet()

    def _reload_when_quiet(self) -> None:
        """Read the files once nothing changes, again and again until none changed meanwhile."""
        while not self._closing.is_set():
            stamp = self._wait_until_quiet()
            if stamp == self._stamp or self.reload() or self._look() == stamp:
                return

    def _wait_until_quiet(self, deadline: float = math.inf) -> _Stamp:
        """Wait until nothing has changed for `QUIET_S`. Returns what is there then."""
        while True:
            stamp = self._look()
            rest = QUIET_S - _measure_age(stamp)
            # a time to come is that of another clock: it says nothing
            if not 0 < rest <= QUIET_S or time.monotonic() > deadline or self._closing.wait(rest):
                return stamp

    def _is_late(self) -> bool:
        """Whether a change should have been read by now."""
        stamp = self._look()
        if stamp in ((), self._stamp, self._tried):
            return False
        return stamp[0][:2] != self._stamp[0][:2] or _measure_age(stamp) > _LATE_S

    def _look(self) -> _Stamp:
        """What tells one state of the files from another; the times of changes are last."""
        try:
            found = [(name, (self._folder / name).stat()) for name in ("", *self._list_names())]
        except (OSError, SondeError):
            return ()
        return tuple((n, f.st_ino, f.st_size, f.st_mtime_ns, f.st_ctime_ns) for n, f in found)

    def _list_names(self) -> list[str]:
        entries = walk_documents(self._folder, _MOST_BYTES)
        names = (entry.path for entry in entries if isinstance(entry, ListedFile))
        return sorted(name for name in names if name.endswith(".json") and "/" not in name)

    def _read(self, *, strict: bool) -> Collection:
        """All files as one collection; a broken file is left out, or if `strict` the end of it."""
        if not self._folder.is_dir():
            raise FileMissing(f"no folder {self._folder}", path=str(self._folder))
        rows: list[dict[str, Any]] = []
        models: set[str] = set()
        names = self._list_names()
        for name in names:
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
        sizes = Counter(len(row["embedding"]) for row in rows if row["embedding"] is not None)
        common = max(sizes, key=sizes.__getitem__, default=0)
        wanted = self._embedder.dimensions if self._embedder else common
        if sizes and wanted not in sizes:
            raise _refuse_dimensions(common, wanted)
        if other := sizes.total() - sizes[wanted]:
            log.warning("%d chunks are left out: not %d numbers in their embedding", other, wanted)
            rows = [r for r in rows if r["embedding"] is None or len(r["embedding"]) == wanted]
        chunks = tuple(map(_parse_chunk, rows))
        types = _list_places((chunk.chunk_type,) for chunk in chunks)
        tags = _list_places(map(fold_tag, chunk.tags) for chunk in chunks)
        return Collection(chunks, self._gather_vectors(rows, chunks, wanted), types, tags)

    def _gather_vectors(
        self,
        rows: Sequence[Mapping[str, Any]],
        chunks: Sequence[contexts.ContextChunk],
        wanted: int,
    ) -> Vectors:
        made = {at: row["embedding"] for at, row in enumerate(rows) if row["embedding"] is not None}
        missing = [at for at in range(len(rows)) if at not in made]
        for start in range(0, len(missing) if self._embedder else 0, _BATCH_CHUNKS):
            part = missing[start : start + _BATCH_CHUNKS]
            texts = [f"{chunks[at].title}\n{chunks[at].text}" for at in part]
            embedded = self._embedder.embed(texts, "passage")  # type: ignore[union-attr]
            made |= zip(part, embedded, strict=True)
        return make_units(made, len(rows), wanted)


def _measure_age(stamp: _Stamp) -> float:
    """Seconds since the last change."""
    return time.time() - max((max(facts[3:]) for facts in stamp), default=0) / 1e9


def _read_file(folder: Path, name: str) -> tuple[str, list[dict[str, Any]]]:
    """The model that a file names, and its chunks without those that cannot be used."""
    data = read_document(folder, name, _MOST_BYTES)
    if isinstance(data, Skipped):
        raise UnreadableError(f"{folder / name}: {data.reason} {data.detail}".strip())
    try:
        # Python writes NaN where JSON has no such number; here it is no value
        value = json.loads(data, object_hook=_pack_vector, parse_constant=lambda _: None)
        facts = value.get("_metadata") or {} if isinstance(value, dict) else {}
        model = str(facts.get("model") or "")
        rows = list(value["chunks"] if isinstance(value, dict) else value)
        written = show_time((folder / name).stat().st_mtime_ns // 1_000_000_000 * 1000)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise UnreadableError(f"{folder / name}: {error}") from error
    flaws = [f"chunk {at} {flaw}" for at, row in enumerate(rows) if (flaw := _find_flaw(row))]
    if flaws and len(flaws) == len(rows):
        raise UnreadableError(f"{folder / name}: {flaws[0]}")
    if flaws:
        log.warning("%s: %d chunks are left out: %s", folder / name, len(flaws), flaws[0])
    sound = [row for row in rows if not _find_flaw(row)] if flaws else rows
    for row in sound:
        for name in ("created_at", "updated_at"):
            row[name] = row.get(name) or written
        vector = row.get("embedding")
        row["embedding"] = None if vector is None or not len(vector) else vector
    return model, sound


def _pack_vector(row: dict[str, Any]) -> dict[str, Any]:
    """Numbers as they are computed with: a list of them takes eight times the memory."""
    vector = row.get("embedding")
    if isinstance(vector, list) and "id" in row and "text" in row:
        with suppress(ValueError, TypeError, OverflowError), np.errstate(over="ignore"):
            packed = np.array(vector, np.float32)
            if packed.ndim == 1 and np.isfinite(packed).all():
                row["embedding"] = packed
    return row


def _find_flaw(row: object) -> str:
    """Why a chunk cannot be used; empty if it can."""
    if not isinstance(row, dict):
        return "is no object"
    if not isinstance(row.get("id"), str) or not isinstance(row.get("text"), str):
        return "needs an id and a text"
    if not isinstance(row.get("embedding"), np.ndarray | None):
        return "has an embedding that is no row of numbers"
    return ""


def _parse_chunk(row: Mapping[str, Any]) -> contexts.ContextChunk:
    metadata, tags = row.get("metadata"), row.get("tags")
    tags = tags if isinstance(tags, list) else ()
    return contexts.ContextChunk(
        id=row["id"],
        title=_repair(str(row.get("title") or "")),
        text=_repair(row["text"]),
        chunk_type=intern(str(row.get("chunk_type") or "")),
        tags=tuple(intern(tag) for tag in tags if isinstance(tag, str)),
        metadata=metadata if isinstance(metadata, dict) else {},
        created_at=str(row["created_at"]),
        updated_at=str(row["updated_at"]),
    )


def _repair(text: str) -> str:
    """Half a character (an unpaired surrogate) cannot be embedded: a mark stands for it."""
    return text.encode("utf-8", "replace").decode()


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
