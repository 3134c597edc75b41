"""Consistency of a chunk index: files, chunks, words, names and trigrams; and copies of its stores.

Every block is a short read of its own, so that a writer's log can shrink meanwhile. That works
because the id of a chunk is never reused: what was read of it stays true.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from sonde.errors import IndexCorrupt, SondeError
from sonde.runtime.private import make_folder
from sonde.stores.chunks import lexicon, tables
from sonde.stores.database import read_number, read_stored_text, translate_errors
from sonde.types import Chunk, FileState, Outline, ParsedFile

Read = Callable[[], AbstractContextManager[apsw.Connection]]
Check = Callable[[], None]
Complete = Callable[[list[Chunk]], list[Chunk]]
_FILES_AT_ONCE, _TERMS_AT_ONCE = 256, 2_000  # in one short read, and in one step between two checks
_STEMS = ("index", "docs")
_COPY_ATTEMPTS = 3  # a store that still changes then is being indexed

_OUTSIDE = (
    "NOT EXISTS (SELECT 1 FROM files AS f WHERE f.id = c.file_id AND c.id >= f.first_chunk"
    " AND c.id < f.first_chunk + f.chunk_count)"
)
_STRAYS = {
    "chunks": f"SELECT c.id FROM chunks AS c WHERE {_OUTSIDE}",  # noqa: S608 - our own names
    "lex": "SELECT id FROM lex_docsize WHERE id NOT IN (SELECT id FROM chunks)",
    "names": "SELECT id FROM names_docsize WHERE id NOT IN (SELECT id FROM files)",
    "grams": "SELECT id FROM grams_docsize WHERE id NOT IN (SELECT id FROM files)",
}
_INCOMPLETE = (
    "SELECT path FROM files AS f WHERE chunk_count != (SELECT count(*) FROM chunks AS c"
    " WHERE c.id >= first_chunk AND c.id < first_chunk + chunk_count AND c.file_id = f.id)"
    " OR id NOT IN (SELECT id FROM names_docsize) OR id NOT IN (SELECT id FROM grams_docsize)"
    " UNION SELECT path FROM chunks AS c JOIN files AS f ON f.id = c.file_id"
    " WHERE c.id NOT IN (SELECT id FROM lex_docsize)"
)
_COUNTERS = {
    "chunks": "SELECT count(*) FROM chunks",
    "next_chunk": "SELECT max(value, (SELECT ifnull(max(id), 0) + 1 FROM chunks),"
    " (SELECT ifnull(max(id), 0) + 1 FROM lex_docsize)) FROM state WHERE key = 'next_chunk'",
}


def find_strays(connection: apsw.Connection) -> dict[str, list[int]]:
    """Rows that belong to no file, by table."""
    found = {table: list(connection.execute(query)) for table, query in _STRAYS.items()}
    return {table: [int(key) for (key,) in rows] for table, rows in found.items() if rows}


def find_incomplete(connection: apsw.Connection) -> set[str]:
    """Files without some of their chunks, words, names or trigrams."""
    return {read_stored_text(path) for (path,) in connection.execute(_INCOMPLETE)}


def find_miscounts(connection: apsw.Connection) -> dict[str, int]:
    """Wrong counters and their right values."""
    right = {key: read_number(connection, query) for key, query in _COUNTERS.items()}
    query = "SELECT value FROM state WHERE key = ?"
    return {key: n for key, n in right.items() if read_number(connection, query, (key,)) != n}


def remove_strays(connection: apsw.Connection) -> None:
    """Delete rows that belong to no file and correct the counters."""
    # words of a chunk that is itself deleted here become strays only then
    while strays := find_strays(connection):
        for table, keys in strays.items():
            column = "id" if table == "chunks" else "rowid"
            connection.executemany(
                f"DELETE FROM {table} WHERE {column} = ?",  # noqa: S608 - our own names
                [(key,) for key in keys],
            )
        generation = tables.read_state(connection, "generation")
        connection.executemany(
            "INSERT INTO removed VALUES (?, ?, 1)",
            [(generation, key) for key in strays.get("chunks", ())],
        )
    for key, value in find_miscounts(connection).items():
        connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, value))


def list_contradictions(connection: apsw.Connection) -> list[str]:
    """All inconsistencies as sentences."""
    strays = find_strays(connection).items()
    broken = [f"{table} that belong to no file: {len(keys)}" for table, keys in strays]
    if incomplete := find_incomplete(connection):
        broken.append(f"files that lack chunks, words, names or trigrams: {len(incomplete)}")
    return broken + [f"{key} counted wrongly" for key in find_miscounts(connection)]


def find_altered(read: Read, complete: Complete, check: Check, *, words: bool) -> set[str]:
    """Files whose rows differ from what was written; with `words`, including their words."""
    with read() as connection:
        known = _sum_all_words(connection, check) if words else {}
    sums = _Checksums()
    altered: set[str] = set()
    last = 0
    while True:
        check()
        with read() as connection:
            block = list(_read_block(connection, last))
            for stored in block:
                chunks = complete(stored.chunks)
                if not stored.is_intact(chunks) or any(
                    not table.agrees(key, made)
                    for table, rows in stored.describe(known, chunks, sums)
                    for key, made in rows
                ):
                    altered.add(stored.state.path)
        if not block:
            return altered
        last = block[-1].id


class _Stored:
    """One file as stored in its rows."""

    def __init__(self, row: Sequence[Any]) -> None:
        self.id, path, hash_, size, mtime_ns, language, kind, self.first, symbols, self.seal = row
        self.symbols = read_stored_text(symbols)
        self.chunks: list[Chunk] = []
        self.digests: list[bytes] = []
        self.state = FileState(read_stored_text(path), hash_, size, mtime_ns, language, kind)

    def is_intact(self, chunks: Sequence[Chunk]) -> bool:
        """Whether texts match their digests and everything else the file's seal."""
        whole = [chunk.digest for chunk in chunks] == self.digests
        return whole and bool(self.seal == tables.seal_file(self.symbols, chunks))

    def describe(
        self, known: Mapping[str, _WordSums], chunks: Sequence[Chunk], sums: _Checksums
    ) -> Iterator[tuple[_WordSums, list[tuple[int, int]]]]:
        """For each table of words: the rows of this file, and their sums."""
        if not known:
            return
        # a file that was replaced since the words were read has other chunks under its id
        if known["files"].sum_of(self.id) == self.first:
            symbols = tuple(Outline(self.symbols))
            named = ParsedFile(self.state, tuple(chunks), symbols)
            held = lexicon.list_file_grams(named).split()
            yield known["grams"], [(self.id, sums.add(held))]
            yield known["names"], [(self.id, sums.add(lexicon.list_names(named)))]
        words = ((chunk.id, " ".join(lexicon.describe_chunk(chunk))) for chunk in chunks)
        yield known["lex"], [(key, sums.add(terms.split())) for key, terms in words]


def _read_block(connection: apsw.Connection, after: int) -> Iterator[_Stored]:
    query = (
        "SELECT id, path, hash, size, mtime_ns, language, kind, first_chunk, symbols, seal"
        " FROM files WHERE id > ? ORDER BY id LIMIT ?"
    )
    for row in connection.execute(query, (after, _FILES_AT_ONCE)).fetchall():
        stored = _Stored(row)
        where = f"{tables.OF_FILES} WHERE f.id = ? ORDER BY c.id"
        stored.chunks = list(tables.select_chunks(connection, where, (stored.id,)))
        digests = (
            "SELECT digest FROM files AS f JOIN chunks AS c ON c.id >= f.first_chunk"
            " AND c.id < f.first_chunk + f.chunk_count WHERE f.id = ? ORDER BY c.id"
        )
        stored.digests = [bytes(each) for (each,) in connection.execute(digests, (stored.id,))]
        yield stored


class _WordSums:
    """For each row of a table of words, the sum of the checksums of its words."""

    def __init__(self, ids: NDArray[np.int64]) -> None:
        self._ids = ids
        self._sums = np.zeros(len(ids), np.float64)

    def add(self, rows: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Count words of these rows."""
        if len(self._ids):
            places = np.searchsorted(self._ids, rows)
            places[places == len(self._ids)] = 0
            np.add.at(self._sums, places, np.where(self._ids[places] == rows, values, 0.0))

    def agrees(self, key: int, expected: int) -> bool:
        """Whether a row has the expected sum; rows that came later are not checked."""
        return self.sum_of(key) in (None, expected)

    def sum_of(self, key: int) -> int | None:
        """The sum of one row; None for an unknown row."""
        place = int(np.searchsorted(self._ids, key))
        known = place < len(self._ids) and self._ids[place] == key
        return int(self._sums[place]) if known else None


def _sum_all_words(connection: apsw.Connection, check: Check) -> dict[str, _WordSums]:
    firsts = connection.execute("SELECT id, first_chunk FROM files ORDER BY id").fetchall()
    pairs = np.array(firsts, np.int64).reshape(-1, 2)
    known = {"files": _WordSums(np.ascontiguousarray(pairs[:, 0]))}
    known["files"].add(pairs[:, 0], pairs[:, 1].astype(np.float64))
    for table, owners in (("lex", "chunks"), ("names", "files"), ("grams", "files")):
        query = f"SELECT id FROM {owners} ORDER BY id"  # noqa: S608 - our own names
        ids = np.array([key for (key,) in connection.execute(query)], np.int64)
        known[table] = _WordSums(ids)
        for words, rows in _walk_words(connection, table, "known" if table == "names" else None):
            check()
            known[table].add(rows, words)
    return known


def _walk_words(
    connection: apsw.Connection, table: str, column: str | None
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Blocks of (checksum of a word, row that holds it), once for every position."""
    view = f"{table}_words"
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{view} USING fts5vocab(main, {table}, instance)"
    )
    where = "WHERE col = ?" if column else ""
    # the rows of a word come together, so that nothing has to be sorted
    query = f"SELECT term, json_group_array(doc) FROM temp.{view} {where} GROUP BY term"  # noqa: S608
    found = (
        (_sum_word(read_stored_text(term)), np.array(json.loads(docs), np.int64))
        for term, docs in connection.execute(query, (column,) if column else ())
    )
    while block := list(itertools.islice(found, _TERMS_AT_ONCE)):
        words, rows = zip(*block, strict=True)
        yield np.repeat(np.array(words, np.float64), list(map(len, rows))), np.concatenate(rows)


def _sum_word(word: str) -> int:
    return zlib.crc32(word.encode("utf-8", "surrogatepass"))


class _Checksums(dict[str, int]):
    """The checksum of each word; a cache."""

    def __missing__(self, word: str) -> int:
        self[word] = value = _sum_word(word)
        return value

    def add(self, words: Iterable[str]) -> int:
        """The sum over these words."""
        return sum(map(self.__getitem__, words))


def copy_stores(source: Path, target: Path, name: str) -> None:
    """Copy both stores of a backend into a folder that has none, unless they keep changing.

    Modification times are reset, because the files of the copy are others, which must be read
    before they are trusted.
    """
    suffixes = (".db", ".vectors") if name == "sqlite" else (".lance.db", ".lancedb")
    if any((target / f"{stem}{suffixes[0]}").exists() for stem in _STEMS):
        return
    temporary = target / "seed.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with translate_errors(target):
            make_folder(temporary)
            whole = all(_copy_store(source, temporary, stem, *suffixes) for stem in _STEMS)
            # databases last: files without one are ignored
            for suffix in reversed(suffixes) if whole else ():
                for made in (temporary / f"{stem}{suffix}" for stem in _STEMS):
                    if made.exists():
                        shutil.rmtree(target / made.name, ignore_errors=True)
                        made.replace(target / made.name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _copy_store(source: Path, target: Path, stem: str, database: str, vectors: str) -> bool:
    """Copy one store; retried if it was changed meanwhile."""
    path, copied = source / f"{stem}{database}", target / f"{stem}{database}"
    if not path.is_file():
        return False
    for _ in range(_COPY_ATTEMPTS):
        try:
            with translate_errors(path):
                state = _copy_database(path, copied)
                folder, copied_folder = (each / f"{stem}{vectors}" for each in (source, target))
                shutil.rmtree(copied_folder, ignore_errors=True)
                if folder.is_dir():
                    shutil.copytree(folder, copied_folder, copy_function=shutil.copyfile)
                with contextlib.closing(_open_readonly(path)) as connection:
                    if _read_state(connection) == state:
                        return True
        except SondeError:
            continue  # something was moved or removed in between
    return False


def _read_state(connection: apsw.Connection) -> tuple[int, int]:
    """Two numbers, one of which changes with any write."""
    vectors = read_number(connection, "SELECT count(*) FROM vectors")
    return tables.read_state(connection, "generation"), vectors


def _copy_database(source: Path, target: Path) -> tuple[int, int]:
    target.unlink(missing_ok=True)
    with (
        contextlib.closing(_open_readonly(source)) as original,
        contextlib.closing(apsw.Connection(str(target))) as copy,
    ):
        with copy.backup("main", original, "main") as backup:
            backup.step()
        form = tables.CHUNK_FORMAT
        found = (copy.pragma("application_id"), copy.pragma("user_version"))
        if found != (form.application_id, form.version):
            raise IndexCorrupt(f"{source} has another format")
        copy.execute("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL")
        copy.execute("UPDATE files SET stamp = 0")
        return _read_state(copy)


def require_schema(path: Path) -> None:
    """Raise `IndexCorrupt` unless a database, which somebody else wrote, has our tables and no
    more: a trigger would run with every change."""
    own = "type = 'table' AND name IN ('sqlite_stat1', 'sqlite_stat4')"  # what ANALYZE leaves
    query = f"SELECT type, name, sql FROM sqlite_schema WHERE NOT ({own})"  # noqa: S608
    with (
        translate_errors(path),
        contextlib.closing(_open_readonly(path)) as found,
        contextlib.closing(apsw.Connection(":memory:")) as fresh,
    ):
        for step in tables.CHUNK_FORMAT.steps[: found.pragma("user_version")]:
            fresh.execute(step) if isinstance(step, str) else step(fresh)
        if {*found.execute(query)} != {*fresh.execute(query)}:
            raise IndexCorrupt(f"{path} has other tables")


def _open_readonly(path: Path) -> apsw.Connection:
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
