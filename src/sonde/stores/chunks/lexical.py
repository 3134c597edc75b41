"""Ranking chunks by words in SQLite: BM25 of FTS5, bounded work, filters inside."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import apsw
import numpy as np

from sonde.stores.chunks import lexicon
from sonde.stores.chunks.base import ChunkLimits
from sonde.stores.chunks.tables import read_state, select_files
from sonde.stores.database import read_stored_text
from sonde.stores.vectors import Ranges, contains
from sonde.types import Filter, Scored

_FILTERED_IN_SQL = 5_000  # allowed chunks that a query names; of more, it filters what it ranked
_SPARE_RESULTS = 64  # fetched beyond the limit, because the last ones may tie
_FETCHED_AT_ONCE = 1_000  # rows: few enough to stop early, many for one step of numpy
_RANKED = (
    "SELECT rowid, -bm25(lex, {2}, {0}, {1}) AS score FROM lex WHERE lex MATCH ? {3}"
    " ORDER BY score DESC {4}"
)
_ALL = _RANKED.format(*lexicon.WEIGHTS, "", "")
_FIRST = _RANKED.format(*lexicon.WEIGHTS, "", "LIMIT ?")
_AMONG = _RANKED.format(
    *lexicon.WEIGHTS,
    # the plus keeps FTS5 from restarting the query for every single id
    "AND rowid BETWEEN ? AND ? AND +rowid IN (SELECT value FROM json_each(?))",
    "",
)
_COUNTED = "SELECT term, doc FROM json_each(?) CROSS JOIN lex_terms ON term = value"
_CACHED_COUNTS = 20_000  # words: a few MB
_RECOUNT_GROWTH = 20  # counts are dropped when the index has changed by one part in this many

State = tuple[int, int]  # differs whenever the words of any chunk do
MERGE_WORDS = (
    "INSERT INTO lex (lex) VALUES ('optimize'); INSERT INTO names (names) VALUES ('optimize');"
    " INSERT INTO grams (grams) VALUES ('optimize')"
)  # makes one segment of all: every lookup goes through each
_SEGMENT_PAGES = "SELECT count(*) FROM lex_idx GROUP BY segid"


class LexicalIndex:
    """Ranks by words; caches how common words are and which chunks a filter allows."""

    def __init__(self, limits: ChunkLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._counts: dict[str, tuple[int, State]] = {}
        self._counted_at = 0
        self._ranges: tuple[int, frozenset[str], Ranges] | None = None

    def rank(
        self, connection: apsw.Connection, terms: Sequence[str], limit: int, where: Filter
    ) -> list[Scored]:
        """The best chunks for these terms among those allowed."""
        counts = self.count(connection, lexicon.list_query_terms(terms), roughly=True)
        allowed = self.allow(connection, where)
        kept = lexicon.choose_terms(counts, self._limits.postings)
        ranked = _rank(connection, kept, limit, allowed)
        if allowed is not None and len(ranked) < limit:
            every = lexicon.choose_terms(counts, float("inf"))
            if every != kept:
                ranked = _rank(connection, every, limit, allowed)
        return ranked

    def is_scattered(self, connection: apsw.Connection) -> bool:
        """Whether an index that is not small has no segment with three quarters of it."""
        pages: list[int] = [count for (count,) in connection.execute(_SEGMENT_PAGES)]
        return sum(pages) > self._limits.spare_pages and 4 * max(pages) < 3 * sum(pages)

    def rest(self) -> None:
        """Empty the caches."""
        with self._lock:
            self._counts, self._ranges = {}, None

    def allow(self, connection: apsw.Connection, where: Filter) -> Ranges | None:
        """The chunks that a filter lets through; None means all."""
        if where.paths is None:
            return None
        generation = read_state(connection, "generation")
        if (known := self._ranges) and known[0] == generation and known[1] == where.paths:
            return known[2]
        files = select_files(connection, where.paths)
        rows = ((file.first, file.first + file.size) for file in files if file.size)
        ranges = np.array(sorted(rows), np.int64).reshape(-1, 2)
        self._ranges = (generation, where.paths, ranges)
        return ranges

    def count(
        self, connection: apsw.Connection, terms: Iterable[str], *, roughly: bool = False
    ) -> dict[str, int]:
        """How many chunks hold each term: now, which reads all of its postings, or `roughly`, as of
        not many changes ago."""
        state = read_state(connection, "next_chunk"), read_state(connection, "chunks")
        with self._lock:
            grown = abs(state[0] - self._counted_at) * _RECOUNT_GROWTH > self._counted_at
            if grown or len(self._counts) > _CACHED_COUNTS:
                self._counts, self._counted_at = {}, state[0]
            known = self._counts
        counts = dict.fromkeys(terms, 0)
        kept = {t: known[t][0] for t in counts if t in known and (roughly or known[t][1] == state)}
        unknown = [term for term in counts if term not in kept]
        # a word that no chunk holds is not kept: it may come with the next edit
        for term, count in connection.execute(_COUNTED, (json.dumps(unknown),)) if unknown else ():
            kept[term], known[term] = count, (count, state)
        return counts | kept


def order_ties(
    connection: apsw.Connection, scored: Sequence[tuple[int, float]], limit: int
) -> list[Scored]:
    """The best of these by score, then path, then place in the file."""
    counts = Counter(score for _, score in scored)
    if len(counts) < len(scored):
        query = (
            "SELECT c.id, f.path FROM json_each(?) JOIN chunks AS c ON c.id = value"
            " JOIN files AS f ON f.id = c.file_id"
        )
        tied = json.dumps([key for key, score in scored if counts[score] > 1])
        rows = connection.execute(query, (tied,))
        path_of = {key: read_stored_text(path) for key, path in rows}
        scored = sorted(scored, key=lambda pair: (-pair[1], path_of.get(pair[0], ""), pair[0]))
    return [Scored(key, score) for key, score in scored[:limit]]


def _rank(
    connection: apsw.Connection, terms: Sequence[str], limit: int, allowed: Ranges | None
) -> list[Scored]:
    if not terms or limit < 1 or (allowed is not None and not allowed.size):
        return []
    best: list[tuple[int, float]] = []
    for pair in _walk_ranking(connection, lexicon.spell_match(terms), allowed, limit):
        if len(best) >= limit and pair[1] != best[limit - 1][1]:
            break  # whatever ties with the last of them is among them
        best.append(pair)
    return order_ties(connection, best, limit)


def _walk_ranking(
    connection: apsw.Connection, query: str, allowed: Ranges | None, limit: int
) -> Iterator[tuple[int, float]]:
    """Chunk ids and scores, best first."""
    if allowed is None:
        # the first rows are cheaper than all of them
        top = list(connection.execute(_FIRST, (query, limit + _SPARE_RESULTS)))
        if len(top) < limit + _SPARE_RESULTS or top[-1][1] != top[limit - 1][1]:
            yield from top
            return
    elif int((allowed[:, 1] - allowed[:, 0]).sum()) <= _FILTERED_IN_SQL:
        ids = [key for first, end in allowed.tolist() for key in range(first, end)]
        yield from connection.execute(_AMONG, (query, ids[0], ids[-1], json.dumps(ids)))
        return
    rows = iter(connection.execute(_ALL, (query,)))
    while block := list(itertools.islice(rows, _FETCHED_AT_ONCE)):
        if allowed is None:
            yield from block
            continue
        inside = contains(allowed, np.array([key for key, _ in block], np.int64))
        yield from itertools.compress(block, inside.tolist())
