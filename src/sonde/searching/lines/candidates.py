"""Files that can match: those whose trigrams fit, and those that no index knows as they are now.

The answer is kept from one search to the next, as long as neither the files nor the index have
changed; whether they have is checked on every search.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sonde.errors import CatalogError
from sonde.policy.admit import Source
from sonde.policy.census import Census
from sonde.stores.chunks.base import ChunkStore
from sonde.stores.records import load_refused, stamp_refused
from sonde.types import FileText, ListedFile, Needs, Skipped

_SETTLED_NS = 2_000_000_000
"""A file written so lately may change again without its time showing it, so it is read."""
_BATCH_BYTES = 1 << 20  # of texts from the index, searched at once; two of them are in memory
_TRIES = 3  # reads of an index that keeps changing; after that every file is read


@dataclass(frozen=True, slots=True)
class CandidateFiles:
    """The files of a project at one moment."""

    entries: Mapping[str, ListedFile]
    version: int


@dataclass(frozen=True, slots=True)
class _Index:
    """What an index says of the files that were seen."""

    key: object
    known: frozenset[str]
    """Those that it knows as they are."""
    unknown: frozenset[str]
    """Those that must be read: neither known, nor read once and refused."""
    recent: tuple[str, ...]
    """Known ones that may have changed in the moment they were read."""
    gone: frozenset[str]
    """Indexed ones that are not admitted now."""
    refused: int
    """How many were read once and refused."""


class LineCandidates:
    """The files of one project, and what its index knows of them."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._sources: tuple[Source, ...] = ()
        self._census = Census(())
        self._index: _Index | None = None
        self.seen = 0  # files, by the last look: another one is cheap

    def look(self, sources: Sequence[Source]) -> CandidateFiles:
        """Every admitted file as it is now."""
        with self._guard:
            if self._sources != tuple(sources):
                self._sources, self._index = tuple(sources), None
                self._census = Census(sources)
            entries = self._census.look()
            self.seen = len(entries)
            return CandidateFiles(entries, self._census.version)

    def confirm(self, sources: Sequence[Source], paths: Collection[str]) -> dict[str, ListedFile]:
        """Those of these files that are as the last look found them, as far as that is cheap."""
        with self._guard:
            return self._census.confirm(paths) if self._sources == tuple(sources) else {}

    def list_skipped(self) -> list[Skipped]:
        """What the last look left out."""
        return self._census.list_skipped()

    def choose(
        self,
        sight: CandidateFiles,
        needs: Needs | None,
        folder: Path,
        stores: Collection[ChunkStore],
    ) -> tuple[Collection[str], Collection[str]]:
        """The files to read, and those whose content the index (in `folder`) has admitted."""
        for _ in range(_TRIES):
            index = self._recall(sight, folder, stores)
            since = time.time_ns() - _SETTLED_NS
            unsure = {path for path in index.recent if _is_recent(sight.entries[path], since)}
            trusted = index.known - unsure if unsure else index.known
            if needs is None:
                return index.known | index.unknown, trusted
            fitting = {path for store in stores for path in store.trigram_candidates(needs)}
            # an index that changed during the search may have lost files that were known
            if index.key == _read_key(sight, folder, stores):
                return (fitting & index.known) | unsure | index.unknown, trusted
        return sight.entries.keys(), ()

    def compare(
        self, sight: CandidateFiles, folder: Path, stores: Collection[ChunkStore]
    ) -> tuple[frozenset[str], frozenset[str], int]:
        """Files not indexed as they are, indexed ones that are gone, and how many were refused."""
        index = self._recall(sight, folder, stores)
        return index.unknown, index.gone, index.refused

    def _recall(
        self, sight: CandidateFiles, folder: Path, stores: Collection[ChunkStore]
    ) -> _Index:
        key = _read_key(sight, folder, stores)
        index = self._index
        if index and index.key == key:
            return index
        entries = sight.entries
        since = time.time_ns() - _SETTLED_NS
        states = [state for store in stores for state in store.files().values()]
        known = {
            state.path
            for state in states
            if (entry := entries.get(state.path)) and entry.stamp == state.stamp
        }
        refused = {
            path
            for path, (stamp, *_) in load_refused(folder).items()
            if (entry := entries.get(path)) and entry.stamp == stamp and path not in known
        }
        self._index = index = _Index(
            key,
            frozenset(known),
            frozenset(entries.keys() - known - refused),
            tuple(path for path in known if _is_recent(entries[path], since)),
            frozenset(state.path for state in states if state.path not in entries),
            len(refused),
        )
        return index


X = TypeVar("X")
Searched = tuple[ListedFile, bool, X]
"""A file, whether its content was admitted before and the index has it, and what goes with it."""
Sifted = tuple[Searched[X], FileText | None, int]
"""A file that can match, its text if the index has it whole, and where in it to begin."""


def sift_files(
    files: Iterable[Searched[X]],
    stores: Collection[ChunkStore],
    find: Callable[[Sequence[bytes]], Iterable[tuple[int, int]]],
) -> Iterator[Sifted[X]]:
    """Those of the files that can match, in their order, with the texts that the index has of them:
    it takes a seventh of the time to read a file there. `find` lists the positions of the texts
    that can match, and where in them; it works on one batch while the next is read."""

    def keep(batch: list[Searched[X]], texts: Mapping[str, bytes]) -> Iterator[Sifted[X]]:
        held = [texts.get(entry.path) if known else None for entry, known, _ in batch]
        places = dict(find([text or b"" for text in held]))
        for at, (file, text) in enumerate(zip(batch, held, strict=True)):
            if text is None:
                yield file, None, 0
            elif at in places:
                path, size, mtime_ns, stamp, _ = file[0]
                yield file, FileText(path, text, size, mtime_ns, stamp), places[at]

    with ThreadPoolExecutor(1) as worker:
        before: Future[list[Sifted[X]]] | None = None
        for batch in _split(files):
            texts: dict[str, bytes] = {}
            with suppress(CatalogError):  # a broken index saves no time, and costs no answer
                for store in stores:
                    texts |= store.whole_texts([entry.path for entry, known, _ in batch if known])
            after = worker.submit(list, keep(batch, texts))
            yield from before.result() if before else ()
            before = after
        yield from before.result() if before else ()


def _split(files: Iterable[Searched[X]]) -> Iterator[list[Searched[X]]]:
    batch, room = list[Searched[X]](), _BATCH_BYTES
    for each in files:
        batch.append(each)
        room -= each[0].size
        if room < 0:
            yield batch
            batch, room = [], _BATCH_BYTES
    yield batch


def _is_recent(entry: ListedFile, since_ns: int) -> bool:
    return entry.ctime_ns > since_ns or entry.mtime_ns > since_ns


def _read_key(sight: CandidateFiles, folder: Path, stores: Collection[ChunkStore]) -> object:
    generations = tuple((id(store), store.generation()) for store in stores)
    return sight.version, generations, stamp_refused(folder)
