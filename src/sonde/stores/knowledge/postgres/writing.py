"""Writing entries to PostgreSQL, with their words and the counts of their terms.

A writer first locks the row of the counters, so that writers of one owner's source take turns.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sonde.stores.knowledge.base import NUMBERED, Entry, Piece, Source
from sonde.stores.knowledge.postgres.words import write_vector
from sonde.stores.knowledge.rows import (
    HEAD,
    HEADS,
    PIECE,
    PIECES,
    Tally,
    find_number,
    fold_tags,
    list_head,
    list_piece,
    list_stored,
    pack_text,
    read_entry_head,
    unpack_text,
)

Owner = tuple[int, str]  # the number that prefixes an owner's words, and the name


def pack_row(values: Iterable[Any]) -> list[Any]:
    """A row with its texts packed, since PostgreSQL stores neither NUL nor invalid Unicode."""
    return [pack_text(value) if isinstance(value, str) else value for value in values]


def unpack_row(row: Sequence[Any]) -> list[Any]:
    """A row with its texts unpacked."""
    return [unpack_text(value) if isinstance(value, str) else value for value in row]


def find_owner(cursor: Any, name: str) -> int:
    """The number of an owner, created on first use."""
    cursor.execute("INSERT INTO owners (name) VALUES (%s) ON CONFLICT DO NOTHING", [name])
    row = cursor.execute("SELECT number FROM owners WHERE name = %s", [name]).fetchone()
    return int(row[0])


def advance(cursor: Any, owner: str, source: Source) -> int:
    """Lock a source for a change. Returns its new generation."""
    query = (
        "INSERT INTO counters (owner, source, generation) VALUES (%s, %s, 1)"
        " ON CONFLICT (owner, source) DO UPDATE SET generation = counters.generation + 1"
        " RETURNING generation"
    )
    return int(cursor.execute(query, [owner, source]).fetchone()[0])


def put_entries(cursor: Any, owner: Owner, source: Source, entries: Sequence[Entry]) -> list[str]:
    """Store entries, each replacing the one with its id. Returns the ids."""
    tally = Tally()
    generation = advance(cursor, owner[1], source)
    named = _give_ids(cursor, owner[1], source, entries)
    if given := [entry.id for entry in entries if entry.id]:
        _drop(cursor, owner[1], source, generation, given, tally)
    # of several with one id, the last one stays
    kept = list({entry.id: entry for entry in named}.values())
    numbers = _insert_heads(cursor, owner[1], source, kept)
    _insert_pieces(cursor, owner, source, zip(numbers, kept, strict=True), tally)
    _write_tally(cursor, owner, source, tally)
    return [entry.id for entry in named]


def remove_entries(cursor: Any, owner: Owner, source: Source, ids: Sequence[str]) -> int:
    """Remove entries. Returns how many existed."""
    tally = Tally()
    generation = advance(cursor, owner[1], source)
    gone = _drop(cursor, owner[1], source, generation, ids, tally)
    _write_tally(cursor, owner, source, tally)
    return gone


def _give_ids(cursor: Any, owner: str, source: Source, entries: Sequence[Entry]) -> list[Entry]:
    if source not in NUMBERED:
        return [entry if entry.id else replace(entry, id=str(uuids.uuid4())) for entry in entries]
    given = max((find_number(entry.id) or 0 for entry in entries), default=0)
    wanted = sum(not entry.id for entry in entries)
    query = (
        "UPDATE counters SET next_id = greatest(next_id, %s) + %s WHERE owner = %s AND source = %s"
        " RETURNING next_id"
    )
    row = cursor.execute(query, [given + 1, wanted, owner, source]).fetchone()
    free = iter(range(row[0] - wanted, row[0]))
    return [entry if entry.id else replace(entry, id=str(next(free))) for entry in entries]


def _drop(
    cursor: Any, owner: str, source: Source, generation: int, ids: Iterable[str], tally: Tally
) -> int:
    query = f"SELECT {HEADS} FROM {source} AS e WHERE owner = %s AND id = ANY(%s)"
    rows = cursor.execute(query, [owner, [pack_text(each) for each in ids]]).fetchall()
    heads = {row[-1]: read_entry_head(source, unpack_row(row)) for row in rows}
    if not heads:
        return 0
    query = f"SELECT p.item, {PIECES} FROM {source}_pieces AS p WHERE owner = %s AND item = ANY(%s)"
    for item, *row in cursor.execute(query, [owner, list(heads)]).fetchall():
        tally.count(heads[item], Piece(*unpack_row(row)), -1)
    query = f"DELETE FROM {source} WHERE owner = %s AND number = ANY(%s)"
    cursor.execute(query, [owner, list(heads)])
    query = "UPDATE counters SET removed = %s WHERE owner = %s AND source = %s"
    cursor.execute(query, [generation, owner, source])
    return len(heads)


def _insert_heads(cursor: Any, owner: str, source: Source, entries: Sequence[Entry]) -> list[int]:
    query = (
        f"INSERT INTO {source} (owner, folded_tags, {HEAD}, folded)"
        f" VALUES ({', '.join(['%s'] * 16)}) RETURNING number"
    )
    rows = [[owner, fold_tags(entry.tags), *pack_row(list_head(entry))] for entry in entries]
    cursor.executemany(query, rows, returning=True)
    numbers: list[int] = []
    while len(numbers) < len(rows):
        numbers.append(int(cursor.fetchone()[0]))
        cursor.nextset()
    return numbers


def _insert_pieces(
    cursor: Any, owner: Owner, source: Source, items: Iterable[tuple[int, Entry]], tally: Tally
) -> None:
    pieces = [(item, entry, piece) for item, entry in items for piece in list_stored(entry)]
    if not pieces:
        return
    query = "SELECT nextval(pg_get_serial_sequence(%s, 'number')) FROM generate_series(1, %s)"
    given = cursor.execute(query, [f"{source}_pieces", len(pieces)])
    numbers = [int(number) for (number,) in given]
    kinds = "bigint bigint text bigint bigint text text text bigint bigint bigint".split()
    arrays = ", ".join(f"%s::{kind}[]" for kind in kinds)
    query = (
        f"INSERT INTO {source}_pieces (owner, number, item, {PIECE})"
        f" OVERRIDING SYSTEM VALUE SELECT %s, given.* FROM unnest({arrays}) AS given"
    )
    rows = [
        (number, item, *pack_row(list_piece(piece)))
        for number, (item, _, piece) in zip(numbers, pieces, strict=True)
    ]
    cursor.execute(query, [owner[1], *map(list, zip(*rows, strict=True))])
    with cursor.copy(f"COPY {source}_words (number, length, words) FROM STDIN") as copy:
        for number, (_, entry, piece) in zip(numbers, pieces, strict=True):
            terms = tally.count(entry, piece)
            copy.write_row((number, sum(map(len, terms)), write_vector(owner[0], terms)))


def _write_tally(cursor: Any, owner: Owner, source: Source, tally: Tally) -> None:
    change = {term: count for term, count in tally.terms.items() if count}
    query = (
        f"INSERT INTO {source}_terms SELECT %s, given.* FROM unnest(%s::text[], %s::bigint[])"
        " AS given ON CONFLICT (owner, term)"
        f" DO UPDATE SET holders = {source}_terms.holders + excluded.holders"
    )
    if change:
        cursor.execute(query, [owner[0], list(change), list(change.values())])
    if fewer := [term for term, count in change.items() if count < 0]:
        query = f"DELETE FROM {source}_terms WHERE owner = %s AND term = ANY(%s) AND holders <= 0"
        cursor.execute(query, [owner[0], fewer])
    query = (
        "UPDATE counters SET pieces = pieces + %s, length = length + %s"
        " WHERE owner = %s AND source = %s"
    )
    cursor.execute(query, [tally.pieces, tally.length, owner[1], source])
