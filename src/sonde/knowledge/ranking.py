"""Ranking of knowledge: words and vectors fused within a source, sources merged by rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import quote

from sonde.embedding.base import Embedder, Vectors
from sonde.errors import EmbeddingFailed
from sonde.ranking.question import STOP_WORDS
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import (
    ANYTHING,
    TITLE,
    Conditions,
    Entry,
    KnowledgeStore,
    Piece,
    RankedPiece,
    Source,
)
from sonde.text.words import query_terms, read_words
from sonde.types import Kind, Progress, Scored

MAX_QUERY_CHARS = 20_000  # bounds the work on a pasted text
MAX_QUERY_TERMS = 256  # more than any question has; a pasted text is searched by its first terms
_SMALL_WORDS = STOP_WORDS | frozenset(
    "about after all also am any because been being but could did during each he her here hers him "
    "his ll many much nor not off our ours out over own re s same she should so some such than "
    "they too under until up us ve very were whom while won t d m don".split()
)


@dataclass(frozen=True, slots=True)
class KnowledgeQuery:
    """A query and its terms, small words left out unless there is nothing else."""

    text: str
    terms: tuple[str, ...]


def read_knowledge_query(text: str) -> KnowledgeQuery:
    """The terms of a query; any string is one."""
    text = text.strip()[:MAX_QUERY_CHARS]
    content: list[str] = []
    every: list[str] = []
    for word in read_words(text):
        said = text[word.start : word.end]
        terms = query_terms(said)
        every.extend(terms)
        if said.casefold() not in _SMALL_WORDS:
            content.extend(terms)
    terms = list(dict.fromkeys(content or every))[:MAX_QUERY_TERMS]
    return KnowledgeQuery(text, tuple(terms))


LEXICAL_DEPTH = 600
"""Pieces of one source retrieved by words; what ranks below them cannot be reached."""
DENSE_DEPTH = 100  # pieces of one source retrieved by their vectors
RRF_K = 60
"""The constant of reciprocal rank fusion, by which sources are merged; 60 is the usual one."""
DENSE_WEIGHT = 0.4
"""Weight of a perfect vector match next to the best lexical one; tuned on two collections."""
MIN_SIMILARITY = 0.5  # least similarity at which a text without any of the query's words is a hit
SECOND_PIECE_WEIGHT = 0.25  # share of the second best piece's score that is added to its entry's
NEIGHBOUR_WEIGHT = 0.4
"""Share of an adjacent message's score that is added; tuned on a collection of dialogues."""
EMBEDDING_BATCH = 1_024  # pieces embedded and stored at once, with a report of progress after each
MAX_EMBEDDED_BY_SEARCH = 2_048
"""Pieces without vectors that one search embeds itself; more would be felt as a delay."""


@dataclass(frozen=True, slots=True)
class KnowledgeHit:
    """An entry, or a message of a conversation, with its score."""

    entry: Entry
    piece: Piece
    score: float
    score_type: str

    @property
    def source(self) -> Source:
        """The source of its entry."""
        return self.entry.source

    @property
    def text(self) -> str:
        """The text that matches."""
        return self.piece.text

    @property
    def last_modified(self) -> int:
        """Epoch milliseconds."""
        return self.entry.last_modified

    @property
    def uri(self) -> str:
        """The permanent pointer to it."""
        return make_uri(self.source, self.entry.id, find_message_id(self.entry, self.piece))


@dataclass(frozen=True, slots=True)
class FileHit:
    """Lines of a project's file, ranked together with personal knowledge."""

    source: Kind
    project: str
    path: str
    start_line: int
    end_line: int
    text: str
    last_modified: int
    """Epoch milliseconds; 0 when the file changed during the search."""
    score: float
    score_type: str

    @property
    def uri(self) -> str:
        """The pointer to these lines."""
        place = f"{quote(self.project, safe='/')}//{quote(self.path, safe='/')}"
        return f"{self.source}://{place}#L{self.start_line}-L{self.end_line}"


AnyHit = KnowledgeHit | FileHit
"""One result of a search over everything: personal knowledge, code and docs."""
HitT = TypeVar("HitT", bound=AnyHit)


def make_uri(source: str, id: str, message: str = "") -> str:  # noqa: A002
    """The canonical pointer to an entry (`media://123`)."""
    return f"{source}://{id}" + (f"#{message}" if message else "")


def find_message_id(entry: Entry, piece: Piece) -> str:
    """The id of a message of a conversation; empty for any other piece."""
    return piece.uuid if entry.source == "chats" and piece.field != TITLE else ""


@dataclass(slots=True)
class KnowledgeSearch:
    """One query on one user's store; its vector is computed at most once."""

    store: KnowledgeStore
    question: KnowledgeQuery
    embedder: Embedder | None
    vector: Vectors | None = None

    def rank(self, source: Source, where: Conditions = ANYTHING) -> list[KnowledgeHit]:
        """The hits in one source, best first, scored 0 to 1."""
        store = self.store
        lexical = store.rank(source, self.question.terms, LEXICAL_DEPTH, where)
        dense = self._find_near(source, where)
        places = store.locate(source, [one.id for one in (*lexical, *dense)])
        by_words, by_meaning = _group(lexical, places), _group(dense, places)
        found = by_meaning | by_words
        kind = "fts+vector" if dense else "fts"
        hits = [
            KnowledgeHit(found[key][1].entry, found[key][1].piece, score, kind)
            for key, score in _fuse(by_words, by_meaning).items()
        ]
        return normalise(sorted(hits, key=_order), store.scale)

    def _find_near(self, source: Source, where: Conditions) -> list[Scored]:
        embedder = self.embedder
        if embedder is None or not self.question.terms:
            return []
        embed_missing(self.store, source, embedder, MAX_EMBEDDED_BY_SEARCH)
        try:
            if self.vector is None:
                self.vector = embedder.embed([self.question.text], "query")[0]
        except EmbeddingFailed:
            return []
        return self.store.nearest(source, embedder.name, self.vector, DENSE_DEPTH, where)


def merge_sources(rankings: Iterable[Sequence[HitT]]) -> list[HitT]:
    """One ranking of several by reciprocal rank, ties by time, scored 0 to 1 again."""
    merged = [
        replace(hit, score=1.0 / (RRF_K + rank))
        for ranking in rankings
        for rank, hit in enumerate(ranking, 1)
    ]
    return normalise(sorted(merged, key=_order))


def sort_recent(hits: Iterable[HitT]) -> list[HitT]:
    """The hits by time, newest first."""
    return sorted(hits, key=lambda hit: (-hit.last_modified, *_order(hit)))


def normalise(hits: Sequence[HitT], scale: str = "range") -> list[HitT]:
    """The hits with scores from 0 (the worst) to 1, or as shares of the best; equals are all 1."""
    if not hits:
        return []
    best = max(hit.score for hit in hits)
    worst = min(hit.score for hit in hits) if scale == "range" else 0.0
    if best == worst:
        return [replace(hit, score=1.0) for hit in hits]
    span = best - worst + 1e-9
    return [replace(hit, score=(hit.score - worst) / span) for hit in hits]


def embed_missing(
    store: KnowledgeStore,
    source: Source,
    embedder: Embedder | None,
    limit: int = 1 << 40,
    work: Work | None = None,
) -> int:
    """Embed pieces that have no vector yet, all or at most `limit`. Returns their number."""
    done, total = 0, store.count(source)[1] if embedder and work else 0
    while embedder and done < limit:
        bare = store.list_bare(source, embedder.name, min(EMBEDDING_BATCH, limit - done))
        if not bare:
            break
        texts = [f"{found.entry.title}\n{found.piece.text}" for found in bare]
        rows = embedder.embed(texts, "passage")
        store.put_vectors(source, embedder.name, [found.piece.number for found in bare], rows)
        done += len(bare)
        if work:
            work.report(Progress("embedding", done, total))
    return done


Grouped = dict[object, tuple[float, RankedPiece]]


def _group(scored: Sequence[Scored], places: Mapping[int, RankedPiece]) -> Grouped:
    """Pieces grouped by entry (a message is a group of its own), best first."""
    groups: Grouped = {}
    more: dict[object, float] = {}
    for one in scored:
        found = places.get(one.id)
        if found is None:
            continue
        key = one.id if found.entry.source == "chats" else (found.entry.number,)
        if key not in groups:
            groups[key] = (one.score, found)
        elif key not in more:
            more[key] = SECOND_PIECE_WEIGHT * one.score
    full = {key: (score + more.get(key, 0.0), found) for key, (score, found) in groups.items()}
    return dict(sorted(_add_neighbours(full).items(), key=lambda item: -item[1][0]))


def _add_neighbours(groups: Grouped) -> Grouped:
    """Add to each message a share of its better neighbour: a question in one message is often
    answered in the next."""
    scores = {
        (found.entry.number, found.piece.place): score
        for score, found in groups.values()
        if found.entry.source == "chats"
    }

    def best_neighbour(found: RankedPiece) -> float:
        number, place = found.entry.number, found.piece.place
        return max(scores.get((number, place - 1), 0.0), scores.get((number, place + 1), 0.0))

    if not scores:
        return groups
    return {
        key: (score + NEIGHBOUR_WEIGHT * best_neighbour(found), found)
        for key, (score, found) in groups.items()
    }


def _fuse(by_words: Grouped, by_meaning: Grouped) -> dict[object, float]:
    best = max((score for score, _ in by_words.values()), default=1.0)
    fused = {key: score / best for key, (score, _) in by_words.items()}
    for key, (score, _) in by_meaning.items():
        if key in fused or score >= MIN_SIMILARITY:
            fused[key] = fused.get(key, 0.0) + DENSE_WEIGHT * max(score, 0.0)
    return fused


def _order(hit: AnyHit) -> tuple[float, int, str, str, int]:
    tie = (hit.entry.id, hit.piece.place) if isinstance(hit, KnowledgeHit) else (hit.uri, 0)
    return -hit.score, -hit.last_modified, hit.source, *tie
