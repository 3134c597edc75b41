"""Ranking pieces of knowledge by words in SQLite: BM25 of FTS5, conditions inside."""

from __future__ import annotations

import json
from collections.abc import Iterable

import apsw

from sonde.stores import lexicon
from sonde.stores.knowledge_base import ANYTHING, Conditions, Source
from sonde.stores.knowledge_rows import WEIGHTS, fold_tags
from sonde.stores.sqlite import Value
from sonde.types import Scored

POSTINGS = 60_000
"""How many matches a query may touch before its commonest words are left out."""
_ENOUGH = 50
"""So many found by the rare words of a query spare the work for its common ones."""
_MOST_FORMS = 24
"""How many words one beginning may stand for."""
_LAST = "\U0010ffff"


def rank_pieces(
    connection: apsw.Connection,
    source: Source,
    terms: Iterable[str],
    limit: int,
    where: Conditions,
) -> list[Scored]:
    """The best pieces for these terms among those allowed."""
    counts = _count_terms(connection, source, terms)
    kept = lexicon.choose_terms(counts, POSTINGS)
    found = _rank(connection, source, kept, limit, where)
    # conditions may leave little of what the rare words find; without them a few are enough
    enough = limit if where != ANYTHING else min(limit, _ENOUGH)
    if len(found) < enough and len(kept) < len(counts):
        found = _rank(connection, source, list(counts), limit, where)
    return found


def condition_sql(source: Source, where: Conditions) -> tuple[str, list[Value]]:
    """What a row p of the pieces and a row e of the entries must fulfil; empty for nothing."""
    parts: list[str] = []
    values: list[Value] = []

    def need(sql: str, *given: Value) -> None:
        parts.append(sql)
        values.extend(given)

    if where.media_types:
        kinds = [kind.casefold() for kind in where.media_types]
        need("e.media_type IN (SELECT value FROM json_each(?))", json.dumps(kinds))
    if where.since is not None:
        need("e.created_at >= ?", where.since)
    if where.until is not None:
        need("e.created_at <= ?", where.until)
    for tag in fold_tags(where.tags):
        need(f"e.number IN (SELECT item FROM {source}_tags WHERE tag = ?)", tag)
    if where.fields:
        need("p.field IN (SELECT value FROM json_each(?))", json.dumps(list(where.fields)))
    if where.sender:
        need("p.sender = ? COLLATE NOCASE", where.sender)
    if where.character:
        need("e.character = ?", where.character)
    return " AND ".join(parts), values


def _rank(
    connection: apsw.Connection, source: Source, terms: list[str], limit: int, where: Conditions
) -> list[Scored]:
    if not terms or limit < 1:
        return []
    match = " OR ".join(f'"{term}"' for term in terms)
    score = f"-bm25({source}_words, {WEIGHTS[0]}, {WEIGHTS[1]}, {WEIGHTS[2]})"
    condition, values = condition_sql(source, where)
    join = ""
    if condition:
        # the order of the joins is given: FTS5 leads, rows are looked up by their keys
        join = (
            f" CROSS JOIN {source}_pieces AS p ON p.number = w.rowid"
            f" CROSS JOIN {source} AS e ON e.number = p.item"
        )
        condition = f" AND {condition}"
    query = (
        f"SELECT w.rowid, {score} AS score FROM {source}_words AS w{join}"
        f" WHERE {source}_words MATCH ?{condition} ORDER BY score DESC, w.rowid LIMIT ?"
    )
    rows = connection.execute(query, (match, *values, limit))
    return [Scored(number, value) for number, value in rows]


def _count_terms(
    connection: apsw.Connection, source: Source, terms: Iterable[str]
) -> dict[str, int]:
    """Every term to look for and how many pieces hold it; unknown words stand for longer ones."""
    counts: dict[str, int] = {}
    for term in list(dict.fromkeys(terms))[: lexicon.MOST_COUNTED]:
        if term.endswith("*"):
            counts |= _list_forms(connection, source, term[:-1])
            continue
        query = f"SELECT doc FROM {source}_terms WHERE term = ?"
        row = connection.execute(query, (term,)).fetchone()
        if row:
            counts[term] = row[0]
        elif len(term) > 1:
            counts |= _list_forms(connection, source, term) or _list_holders(
                connection, source, term
            )
    return counts


def _list_forms(connection: apsw.Connection, source: Source, start: str) -> dict[str, int]:
    query = (
        f"SELECT term, doc FROM {source}_terms WHERE term >= ? AND term < ?"
        " ORDER BY doc DESC LIMIT ?"
    )
    return dict(connection.execute(query, (start, start + _LAST, _MOST_FORMS)))


def _list_holders(connection: apsw.Connection, source: Source, part: str) -> dict[str, int]:
    """Words that hold this one inside (`synthese` in `photosyntheses`)."""
    if len(part) < 4 or not part.isalnum():
        return {}
    query = f"SELECT term, doc FROM {source}_terms WHERE instr(term, ?) ORDER BY doc DESC LIMIT ?"
    return dict(connection.execute(query, (part, _MOST_FORMS)))
