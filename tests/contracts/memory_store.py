"""The chunk store that keeps everything in dictionaries: the reference for all others."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from sonde.stores.chunks import lexicon
from sonde.stores.chunks.base import DIGEST_BYTES, EVERYTHING, LIMITS, ChunkLimits, Drift, Vectors
from sonde.stores.chunks.lexicon import K1, B, choose_terms, weigh_term
from sonde.stores.chunks.tables import spell_symbols
from sonde.text.words import fold_name
from sonde.types import (
    AllOf,
    Chunk,
    FileState,
    Filter,
    Needs,
    Outline,
    ParsedFile,
    Scored,
    StoreCounts,
)

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Entry:
    """A stored chunk and how often each of its columns holds a term."""

    chunk: Chunk
    digest: bytes
    columns: tuple[Counter[str], ...]

    @property
    def length(self) -> int:
        return sum(column.total() for column in self.columns)

    def holds(self, term: str) -> bool:
        return any(term in column for column in self.columns)


def _locked(
    method: Callable[Concatenate[MemoryChunkStore, P], R],
) -> Callable[Concatenate[MemoryChunkStore, P], R]:
    @wraps(method)
    def run(self: MemoryChunkStore, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            return method(self, *args, **kwargs)

    return run


class MemoryChunkStore:
    """A `ChunkStore` without a disk."""

    def __init__(self, limits: ChunkLimits = LIMITS) -> None:
        self._postings = limits.postings
        self._lock = threading.RLock()
        self._generation = 0
        self._next_id = 1
        self._files: dict[str, ParsedFile] = {}
        self._grams: dict[str, frozenset[str]] = {}
        self._entries: dict[int, _Entry] = {}
        self._vectors: dict[str, dict[bytes, Vectors]] = {}

    @_locked
    def generation(self) -> int:
        """How many changes were made."""
        return self._generation

    @_locked
    def counts(self) -> StoreCounts:
        """Files and chunks; nothing is on disk."""
        return StoreCounts(files=len(self._files), chunks=len(self._entries), bytes=0)

    @_locked
    def files(
        self, paths: Collection[str] | None = None, *, under: str = ""
    ) -> Mapping[str, FileState]:
        wanted = self._files if paths is None else paths
        if under:
            wanted = [path for path in wanted if f"{path}/".startswith(f"{under}/")]
        return {path: self._files[path].state for path in wanted if path in self._files}

    @_locked
    def replace(self, files: Sequence[ParsedFile], *, more: bool = False) -> None:
        """Put these files in place of their predecessors."""
        for file in files:
            self._forget(file.state.path)
            stored = []
            for chunk in sorted(file.chunks, key=lambda chunk: chunk.span.start_byte):
                chunk = replace(chunk, id=self._next_id)
                columns = tuple(Counter(terms.split()) for terms in lexicon.describe_chunk(chunk))
                self._entries[chunk.id] = _Entry(chunk, chunk.digest, columns)
                self._next_id += 1
                stored.append(chunk)
            self._files[file.state.path] = replace(file, chunks=tuple(stored))
            self._grams[file.state.path] = frozenset(lexicon.list_file_grams(file).split())
        self._generation += 1

    @_locked
    def touch(self, states: Sequence[FileState]) -> None:
        """Record new states of known files."""
        for state in states:
            if state.path in self._files:
                self._files[state.path] = replace(self._files[state.path], state=state)
        self._generation += 1

    @_locked
    def remove(self, paths: Collection[str]) -> None:
        """Forget these files."""
        for path in paths:
            self._forget(path)
        self._generation += 1

    @_locked
    def clear(self) -> None:
        """Forget everything."""
        for kept in (self._files, self._grams, self._entries, self._vectors):
            kept.clear()
        self._generation += 1

    @_locked
    def chunks(self, ids: Sequence[int]) -> list[Chunk]:
        """The chunks with these ids that exist."""
        return [self._entries[key].chunk for key in ids if key in self._entries]

    @_locked
    def chunks_of(self, path: str) -> list[Chunk]:
        """A file's chunks in file order."""
        return list(self._files[path].chunks) if path in self._files else []

    @_locked
    def symbols_of(self, paths: Collection[str]) -> Mapping[str, Outline]:
        """What each of these files defines."""
        known = {path: self._files[path] for path in paths if path in self._files}
        return {p: Outline(spell_symbols(f.symbols), f.state.hash) for p, f in known.items()}

    @_locked
    def tags(self) -> Mapping[str, tuple[str, ...]]:
        """The tags of each file whose content names some."""
        return {path: file.tags for path, file in self._files.items() if file.tags}

    @_locked
    def paths_named(self, names: Collection[str]) -> set[str]:
        """Files known by one of these names."""
        wanted = set(map(fold_name, names))
        return {path for path, file in self._files.items() if wanted & lexicon.list_names(file)}

    @_locked
    def paths_beginning(self, prefix: str, limit: int) -> list[str]:
        """Files known by a name with this beginning."""
        wanted = fold_name(prefix)
        names = {path: lexicon.list_names(file) for path, file in self._files.items()}
        fits = [path for path in sorted(names) if any(n.startswith(wanted) for n in names[path])]
        return fits[:limit] if wanted else []

    @_locked
    def known_names(self, shortest: int, longest: int) -> list[str]:
        """The folded names and imports of these lengths."""
        files = self._files.values()
        names = {name for file in files for name in lexicon.list_names(file)}
        names |= {fold_name(name) for file in files for name in file.imports}
        return [name for name in names if shortest <= len(name) <= longest]

    @_locked
    def importers(self, stems: Collection[str]) -> Mapping[str, int]:
        """How many files import each of these."""
        wanted = set(map(fold_name, stems))
        counted = Counter(
            name
            for file in self._files.values()
            for name in {fold_name(name) for name in file.imports} - {""}
        )
        return {name: counted[name] for name in wanted if counted[name]}

    @_locked
    def lexical(self, terms: Sequence[str], limit: int, where: Filter = EVERYTHING) -> list[Scored]:
        """BM25, computed as FTS5 does."""
        counts = self.term_counts(lexicon.list_query_terms(terms))
        kept = choose_terms(counts, self._postings)
        ranked = self._rank(kept, counts, limit, where)
        if where.paths is not None and len(ranked) < limit:
            every = choose_terms(counts, float("inf"))
            ranked = self._rank(every, counts, limit, where)
        return ranked

    @_locked
    def term_counts(self, terms: Collection[str]) -> Mapping[str, int]:
        """How many chunks hold each term."""
        return {term: sum(entry.holds(term) for entry in self._entries.values()) for term in terms}

    @_locked
    def trigram_candidates(self, needs: Needs, where: Filter = EVERYTHING) -> set[str]:
        """Files that can hold what is needed."""
        return {
            path
            for path, words in self._grams.items()
            if _allows(where, path) and _may_hold(words, needs)
        }

    @_locked
    def whole_texts(self, paths: Collection[str]) -> Mapping[str, bytes]:
        """The files whose chunks follow each other to the last byte."""
        found = {}
        for path in set(paths) & self._files.keys():
            text = b""
            for chunk in self.chunks_of(path):
                if chunk.span.start_byte != len(text):
                    break
                text += chunk.text.encode("utf-8", "surrogatepass")
            else:
                if text and len(text) == self._files[path].state.size:
                    found[path] = text
        return found

    @_locked
    def dense(
        self, model: str, vector: Vectors, limit: int, where: Filter = EVERYTHING
    ) -> list[Scored]:
        """Exact cosine similarity."""
        known = self._vectors.get(model, {})
        scored = {}
        for key, entry in self._entries.items():
            stored = known.get(entry.digest)
            if stored is not None and stored.any() and _allows(where, entry.chunk.path):
                scored[key] = float(stored @ vector)
        return self._order(scored, limit) if np.any(vector) else []

    @_locked
    def vectors(self, model: str, ids: Sequence[int]) -> Mapping[int, Vectors]:
        """The vectors of these chunks."""
        known = self._vectors.get(model, {})
        present = {key: self._entries[key].digest for key in ids if key in self._entries}
        return {key: known[digest] for key, digest in present.items() if digest in known}

    @_locked
    def definition_vectors(
        self, model: str, ids: Sequence[int]
    ) -> Mapping[tuple[int, int], Vectors]:
        """The vectors of the definitions in these chunks."""
        return {
            (key, int.from_bytes(digest[DIGEST_BYTES:], "big")): vector
            for digest, vector in self._vectors.get(model, {}).items()
            for key in ids
            if len(digest) > DIGEST_BYTES
            and key in self._entries
            and digest.startswith(self._entries[key].digest)
            and vector.any()
        }

    @_locked
    def put_vectors(self, model: str, digests: Sequence[bytes], vectors: Vectors) -> None:
        """Keep one vector per digest."""
        rows = np.array(vectors, np.float32)
        self._vectors.setdefault(model, {}).update(zip(digests, rows, strict=True))

    @_locked
    def known_digests(self, model: str, digests: Collection[bytes]) -> set[bytes]:
        """Those that have a vector."""
        return set(digests) & self._vectors.get(model, {}).keys()

    @_locked
    def missing(self, model: str, limit: int) -> list[Chunk]:
        """Chunks without a vector, newest files first."""
        known = self._vectors.get(model, {})
        lacking = [e.chunk for e in self._entries.values() if e.digest not in known]
        lacking.sort(key=lambda c: (-self._files[c.path].state.mtime_ns, c.path, c.id))
        return lacking[:limit]

    @_locked
    def coverage(self, model: str) -> tuple[int, int]:
        """Chunks with a vector, and all chunks."""
        known = self._vectors.get(model, {})
        return sum(e.digest in known for e in self._entries.values()), len(self._entries)

    @_locked
    def models(self) -> list[str]:
        """The models of which any vector is kept."""
        return sorted(name for name, known in self._vectors.items() if known)

    @_locked
    def compact(self) -> None:
        """Drop vectors that no chunk needs."""
        needed = {entry.digest for entry in self._entries.values()}
        for known in self._vectors.values():
            for digest in [each for each in known if each[:DIGEST_BYTES] not in needed]:
                del known[digest]

    def tidy(self) -> None:
        """Nothing is ever wasted in here for long."""

    def rest(self) -> None:
        """Everything is at hand, always."""

    def verify(self) -> list[str]:
        """Nothing can break."""
        return []

    def find_drift(self, check: Callable[[], None], *, thorough: bool) -> Drift:
        """Nothing ever drifts apart in here."""
        del thorough
        check()
        return Drift()

    def count_damaged(self) -> int:
        return 0

    def drop_broken(self) -> None:
        """There is nothing broken to drop."""

    def close(self) -> None:
        """Nothing to release."""

    def _forget(self, path: str) -> None:
        file = self._files.pop(path, None)
        for chunk in file.chunks if file else ():
            del self._entries[chunk.id]
        self._grams.pop(path, None)

    def _rank(
        self, terms: Sequence[str], counts: Mapping[str, int], limit: int, where: Filter
    ) -> list[Scored]:
        total = len(self._entries)
        mean = sum(entry.length for entry in self._entries.values()) / max(total, 1)
        weights = {term: weigh_term(counts[term], total) for term in terms}
        scored: dict[int, float] = {}
        for key, entry in self._entries.items():
            if not _allows(where, entry.chunk.path):
                continue
            for term in filter(entry.holds, terms):
                hits = [column[term] for column in entry.columns]
                share = _score_term(weights[term], hits, entry.length, mean)
                scored[key] = scored.get(key, 0.0) + share
        return self._order(scored, limit)

    def _order(self, scored: Mapping[int, float], limit: int) -> list[Scored]:
        path_of = {key: self._entries[key].chunk.path for key in scored}
        ranked = sorted(scored, key=lambda key: (-scored[key], path_of[key], key))
        return [Scored(key, scored[key]) for key in ranked[:limit]]


def _allows(where: Filter, path: str) -> bool:
    return where.paths is None or path in where.paths


def _score_term(idf: float, hits: Sequence[int], length: int, mean_length: float) -> float:
    """One term's share of a chunk's BM25 score; `hits` counts it per column."""
    frequency = sum(weight * count for weight, count in zip(lexicon.WEIGHTS, hits, strict=True))
    damping = K1 * (1.0 - B + B * length / mean_length)
    return idf * ((frequency * (K1 + 1.0)) / (frequency + damping))


def _may_hold(file_words: frozenset[str], needs: Needs) -> bool:
    """Whether a file with these gram words can hold what is needed."""
    return lexicon.UNSURE in file_words or _fits(file_words, needs)


def _fits(file_words: frozenset[str], needs: Needs) -> bool:
    if isinstance(needs, str):
        return file_words.issuperset(lexicon.spell_grams([needs]).split())
    fitting = (_fits(file_words, part) for part in needs.parts)
    return all(fitting) if isinstance(needs, AllOf) else any(fitting)
