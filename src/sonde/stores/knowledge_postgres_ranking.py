"""Ranking pieces of knowledge in PostgreSQL: ts_rank a term, weighed by how rare the term is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from sonde.stores import lexicon
from sonde.stores.knowledge_base import Conditions, Source
from sonde.stores.knowledge_rows import fold_tags
from sonde.types import Scored

_MOST_TERMS = 24
_MOST_POSITIONS = 250
_LAST_POSITION = 16_383
_WEIGHTS = "'{0.5, 0.5, 1.0, 1.0}'"
"""Of text, nothing, tags and titles, in the order D, C, B, A."""


def write_vector(title: Sequence[str], tags: Sequence[str], body: Sequence[str]) -> str:
    """The terms of a piece as PostgreSQL's text-search vector."""
    places: dict[str, list[str]] = {}
    at = 0
    for terms, weight in ((title, "A"), (tags, "B"), (body, "")):
        for term in terms:
            at = min(at + 1, _LAST_POSITION)
            known = places.setdefault(term, [])
            if len(known) < _MOST_POSITIONS:
                known.append(f"{at}{weight}")
    return " ".join(f"{quote_term(term)}:{','.join(known)}" for term, known in places.items())


def quote_term(term: str) -> str:
    """A term as it stands in a vector or a query; `x*` stays a beginning."""
    start = term.removesuffix("*")
    quoted = "'" + start.replace("\\", "\\\\").replace("'", "''") + "'"
    return f"{quoted}:*" if term.endswith("*") else quoted


def condition_sql(where: Conditions) -> tuple[str, list[Any]]:
    """What a row p of the pieces and a row e of the entries must fulfil besides the owner."""
    parts: list[str] = []
    values: list[Any] = []

    def need(sql: str, *given: Any) -> None:
        parts.append(f" AND {sql}")
        values.extend(given)

    if where.media_types:
        need("e.media_type = ANY(%s)", [kind.casefold() for kind in where.media_types])
    if where.since is not None:
        need("e.created_at >= %s", where.since)
    if where.until is not None:
        need("e.created_at <= %s", where.until)
    if where.tags:
        need("e.folded_tags @> %s", fold_tags(where.tags))
    if where.fields:
        need("p.field = ANY(%s)", list(where.fields))
    if where.sender:
        need("lower(p.sender) = lower(%s)", where.sender)
    if where.character:
        need("e.character = %s", where.character)
    return "".join(parts), values


def rank_pieces(
    cursor: Any,
    owner: str,
    source: Source,
    terms: Iterable[str],
    limit: int,
    where: Conditions,
) -> list[Scored]:
    """The best pieces for these terms among those allowed."""
    weighed = _weigh_terms(cursor, owner, source, list(dict.fromkeys(terms)))
    if not weighed or limit < 1:
        return []
    score = " + ".join(
        f"%s * ts_rank({_WEIGHTS}::real[], w.words, %s::tsquery, 1)" for _ in weighed
    )
    condition, values = condition_sql(where)
    query = (
        f"SELECT p.number, ({score})::float8 AS score FROM {source}_words AS w"
        f" JOIN {source}_pieces AS p ON p.number = w.number JOIN {source} AS e ON e.number = p.item"
        " WHERE w.owner = %s AND p.owner = %s AND e.owner = %s"
        f" AND w.words @@ %s::tsquery{condition}"
        " ORDER BY score DESC, p.number LIMIT %s"
    )
    given = [part for term, idf in weighed.items() for part in (idf, quote_term(term))]
    every = " | ".join(quote_term(term) for term in weighed)
    rows = cursor.execute(query, [*given, owner, owner, owner, every, *values, limit])
    return [Scored(number, value) for number, value in rows]


def _weigh_terms(cursor: Any, owner: str, source: Source, terms: list[str]) -> dict[str, float]:
    """The rarest known terms with their inverse frequencies; unknown ones stand for longer ones."""
    total = _count(cursor, f"SELECT count(*) FROM {source}_pieces WHERE owner = %s", owner)
    counts: dict[str, int] = {}
    query = f"SELECT count(*) FROM {source}_words WHERE owner = %s AND words @@ %s::tsquery"
    for term in terms[: 4 * _MOST_TERMS]:
        held = _count(cursor, query, owner, quote_term(term))
        if not held and not term.endswith("*") and len(term) > 1:
            term += "*"
            held = _count(cursor, query, owner, quote_term(term))
            if not held:
                counts |= _list_holders(cursor, owner, source, term[:-1])
        if held:
            counts[term] = held
    rarest = sorted(counts, key=lambda term: (counts[term], term))[:_MOST_TERMS]
    return {term: max(math.log1p(total / counts[term]), lexicon.LEAST_IDF) for term in rarest}


def _list_holders(cursor: Any, owner: str, source: Source, part: str) -> dict[str, int]:
    """Words that hold this one inside, found by trigrams of the text."""
    if len(part) < 4 or not part.isalnum():
        return {}
    query = (
        "SELECT lexeme, count(*) FROM ("
        f" SELECT words FROM {source}_words WHERE owner = %s AND folded LIKE %s LIMIT 200"
        ") AS held, unnest(held.words) WHERE position(%s IN lexeme) > 0"
        " GROUP BY lexeme ORDER BY 2 DESC LIMIT 24"
    )
    return dict(cursor.execute(query, [owner, f"%{part}%", part]))


def _count(cursor: Any, query: str, *values: Any) -> int:
    row = cursor.execute(query, list(values)).fetchone()
    return int(row[0]) if row else 0
