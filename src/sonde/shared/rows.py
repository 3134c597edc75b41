"""Rows of a shared index: written as files are indexed, and read back into a store."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, field
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from sonde.runtime.system import now_ms
from sonde.runtime.work import Work
from sonde.shared.manifest import FileFacts, PushedCommit, name_rows
from sonde.shared.tables import SharedTables, split_among
from sonde.stores.chunks.base import ChunkStore, Vectors
from sonde.types import Chunk, FileState, FileWords, Kind, ParsedFile, Progress, Span, Symbol

_FLUSHED_CHARS = 24_000_000  # of text held before rows are written: some 100 MB with its words
_FLUSHED_VECTORS = 8_192
_FILES_AT_ONCE = 500  # read back and stored in one transaction
_SPANS = ("start_line", "end_line", "start_byte", "end_byte")
_OF_FILE = ("symbols", "tags", "names", "imports", "grams")
_OF_CHUNK = ("symbol", "header", "text", "path_words", "name_words", "words")
_PLAIN = re.compile(r"[a-z0-9-]{1,40}")


def name_vectors(model: str) -> str:
    """The table of a model's vectors."""
    plain = _PLAIN.fullmatch(model)
    return f"vectors_{model if plain else hashlib.sha256(model.encode()).hexdigest()[:16]}"


@dataclass(slots=True)
class Written:
    """What a push has added, and what was there already."""

    texts: int = 0
    files: int = 0
    known_files: int = 0
    chunks: int = 0
    known_chunks: int = 0
    vectors: int = 0
    known_vectors: int = 0


@dataclass(slots=True)
class RowWriter:
    """Writes files and vectors that the tables lack, in large batches."""

    tables: SharedTables
    recipe: str
    read_text: Callable[[FileState], bytes]
    written: Written = field(default_factory=Written)
    _files: dict[str, ParsedFile] = field(default_factory=dict)
    _chars: int = 0
    _vectors: dict[str, dict[str, Vectors]] = field(default_factory=dict)

    def add_files(self, files: Iterable[ParsedFile]) -> None:
        """Queue parsed files; they are written in batches."""
        for file in files:
            self._files[name_rows(self.recipe, file.state.path, facts_of(file.state))] = file
            self._chars += file.state.size
        if self._chars >= _FLUSHED_CHARS:
            self._flush_files()

    def add_vectors(self, model: str, digests: Sequence[bytes], vectors: Vectors) -> None:
        """Queue vectors of chunks."""
        held = self._vectors.setdefault(model, {})
        held.update(zip((digest.hex() for digest in digests), vectors, strict=True))
        if len(held) >= _FLUSHED_VECTORS:
            self._flush_vectors(model)

    def flush(self) -> None:
        """Write what is left."""
        self._flush_files()
        for model in list(self._vectors):
            self._flush_vectors(model)

    def _flush_files(self) -> None:
        """Write contents, then chunks, then files: the row of a file implies the others."""
        files, self._files, self._chars = self._files, {}, 0
        if not files:
            return
        states = {file.state.hash: file.state for file in files.values()}
        fresh, _, now = self._find_new("texts", "digest", states)
        if fresh:
            rows = [(digest, now, self.read_text(states[digest])) for digest in fresh]
            self.tables.add("texts", rows)
        new, known, now = self._find_new("files", "key", files)
        if chunks := [row for key in new for row in _list_chunk_rows(key, files[key], now)]:
            self.tables.add("chunks", chunks)
        if new:
            self.tables.add("files", [_describe_file(key, files[key], now) for key in new])
        done = self.written
        done.texts += len(fresh)
        done.files += len(new)
        done.known_files += len(known)
        done.chunks += len(chunks)
        done.known_chunks += sum(len(files[key].chunks) for key in known)

    def _flush_vectors(self, model: str) -> None:
        held, table = self._vectors.pop(model), name_vectors(model)
        fresh, known, now = self._find_new(table, "digest", held)
        if fresh:
            self.tables.add(table, [(digest, now, held[digest]) for digest in fresh])
        self.written.vectors += len(fresh)
        self.written.known_vectors += len(known)

    def _find_new(
        self, name: str, key: str, wanted: Mapping[str, object]
    ) -> tuple[list[str], set[str], int]:
        """The keys without a row, those with one, which are marked as needed, and the time."""
        rows, now = self.tables.read_among(name, [key], key, wanted), now_ms()
        known = {row[key] for row in rows}
        self.tables.touch(name, key, known, now)
        return sorted(wanted.keys() - known), known, now


def facts_of(state: FileState, *, executable: bool = False) -> FileFacts:
    """An indexed file as a manifest describes it."""
    return FileFacts(state.hash, state.size, state.kind, state.language, executable)


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _describe_file(key: str, file: ParsedFile, now: int) -> tuple[Any, ...]:
    state, words = file.state, _words_of(file)
    defined = _clean(json.dumps(file.symbols)), _clean(json.dumps(file.tags))
    facts = (key, state.path, state.hash, state.size, state.language, state.kind)
    return *facts, *defined, words.names, words.imports, words.grams, now


def _words_of(file: ParsedFile) -> FileWords:
    from sonde.stores.chunks.lexicon import list_file_terms

    return file.words or list_file_terms(file)


def _list_chunk_rows(key: str, file: ParsedFile, now: int) -> Iterator[tuple[Any, ...]]:
    chunks = sorted(file.chunks, key=lambda chunk: chunk.span.start_byte)
    for place, (chunk, terms) in enumerate(zip(chunks, _words_of(file).chunks, strict=True)):
        texts = map(_clean, (chunk.symbol, chunk.header, chunk.text))
        yield key, place, *astuple(chunk.span), chunk.digest.hex(), *texts, *terms, now


def fill_from_rows(tables: SharedTables, commit: PushedCommit, folder: Path, work: Work) -> None:
    """Write the index of a commit into a folder from the rows."""
    from sonde.stores.chunks.sqlite import SqliteChunkStore  # the store that snapshots are of

    for kind in ("code", "docs"):
        with closing(SqliteChunkStore(folder, kind)) as store:
            store.clear()
            _fill_store(tables, commit, kind, store, work)


def _fill_store(
    tables: SharedTables, commit: PushedCommit, kind: Kind, store: ChunkStore, work: Work
) -> None:
    wanted = iter((p, fact) for p, fact in commit.files.items() if fact.kind == kind)
    total, done = len(commit.files), 0
    while part := dict(islice(wanted, _FILES_AT_ONCE)):
        files = _read_files(tables, commit.recipe, part)
        for model in commit.models:
            missing = {chunk.digest for file in files for chunk in file.chunks}
            missing -= store.known_digests(model, missing)
            for digests, vectors in read_vectors(tables, model, missing):
                store.put_vectors(model, digests, vectors)
        store.replace(files)
        done += len(part)
        work.report(Progress("fetching", done, total))


def _read_files(
    tables: SharedTables, recipe: str, facts: Mapping[str, FileFacts]
) -> list[ParsedFile]:
    path_of = {name_rows(recipe, path, fact): path for path, fact in facts.items()}
    columns = ["file", "place", *_SPANS, *_OF_CHUNK]
    chunks: dict[str, dict[int, tuple[Chunk, tuple[str, str, str]]]] = {}
    for row in tables.read_among("chunks", columns, "file", path_of):
        span = Span(*(row[name] for name in _SPANS))
        chunk = Chunk(path_of[row["file"]], row["text"], span, row["header"], row["symbol"])
        terms = (row["path_words"], row["name_words"], row["words"])
        chunks.setdefault(row["file"], {})[row["place"]] = chunk, terms
    files: dict[str, ParsedFile] = {}
    for row in tables.read_among("files", ["key", *_OF_FILE], "key", path_of):
        path = path_of[row["key"]]
        held = [pair for _, pair in sorted(chunks.get(row["key"], {}).items(), key=itemgetter(0))]
        words = tuple(terms for _, terms in held)
        fact = facts[path]
        files[path] = ParsedFile(
            FileState(path, fact.digest, fact.size, 0, fact.language, fact.kind),
            tuple(chunk for chunk, _ in held),
            tuple(map(Symbol._make, json.loads(row["symbols"]))),
            tags=tuple(json.loads(row["tags"])),
            words=FileWords(words, row["names"], row["imports"], row["grams"]),
        )
    return list(files.values())


def read_vectors(
    tables: SharedTables, model: str, digests: Iterable[bytes]
) -> Iterator[tuple[list[bytes], Vectors]]:
    """Vectors of a model by digest, where they exist."""
    import numpy as np

    wanted = {digest.hex() for digest in digests}
    for condition in split_among("digest", wanted):
        for batch in tables.read(name_vectors(model), ["digest", "vector"], condition):
            rows = batch["vector"].flatten().to_numpy().reshape(batch.num_rows, -1)
            if found := [bytes.fromhex(digest) for digest in batch["digest"].to_pylist()]:
                yield found, rows.astype(np.float32)
