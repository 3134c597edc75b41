"""Questions -> ranked entries: words and vectors of each source fused, sources merged by rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sonde.embedding.base import Embedder, Vectors
from sonde.errors import EmbeddingFailed
from sonde.ranking.question import STOP_WORDS
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
from sonde.types import Scored

_MOST_CHARS = 20_000
_MOST_TERMS = 256
_SMALL = STOP_WORDS | frozenset(
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
    """Take a query apart; any string will do."""
    text = text.strip()[:_MOST_CHARS]
    content: list[str] = []
    every: list[str] = []
    for word in read_words(text):
        said = text[word.start : word.end]
        terms = query_terms(said)
        every.extend(terms)
        if said.casefold() not in _SMALL:
            content.extend(terms)
    terms = list(dict.fromkeys(content or every))[:_MOST_TERMS]
    return KnowledgeQuery(text, tuple(terms))


DEPTH = 600
"""Pieces of one source that are looked at; what ranks below them cannot be reached."""
_DENSE_DEPTH = 100
_K = 60
"""Of reciprocal rank fusion, by which sources are merged."""
_DENSE_SHARE = 0.4
"""What perfect likeness is worth beside the best match by words; found on two collections."""
_NEAR = 0.5
"""The least likeness at which a text that holds none of the words is an answer."""
_MORE = 0.25
"""What the second best piece of an entry adds to the best."""
_BESIDE = 0.4
"""What the message before or after adds to one; found on a collection of dialogues."""
_EMBEDDED_AT_ONCE = 1_024
_EMBEDDED_BY_SEARCH = 2_048


@dataclass(frozen=True, slots=True)
class KnowledgeHit:
    """One answer: an entry, or a message of a conversation, and how good it is."""

    entry: Entry
    piece: Piece
    score: float
    score_type: str

    @property
    def source(self) -> Source:
        """Where it comes from."""
        return self.entry.source

    @property
    def text(self) -> str:
        """The text that answers."""
        return self.piece.text

    @property
    def uri(self) -> str:
        """Points at it for good."""
        return make_uri(self.source, self.entry.id, self.message_id)

    @property
    def message_id(self) -> str:
        """Of a message of a conversation, else empty."""
        return self.piece.uuid if self.source == "chats" and self.piece.field != TITLE else ""


def make_uri(source: str, id: str, message: str = "") -> str:  # noqa: A002
    """The canonical pointer to an entry (`media://123`)."""
    return f"{source}://{id}" + (f"#{message}" if message else "")


class KnowledgeSearch:
    """One question put to one user's store, its vector computed at most once."""

    def __init__(
        self, store: KnowledgeStore, question: KnowledgeQuery, embedder: Embedder | None
    ) -> None:
        self.store = store
        self.question = question
        self._embedder = embedder
        self._vector: Vectors | None = None

    def rank(self, source: Source, where: Conditions = ANYTHING) -> list[KnowledgeHit]:
        """Everything that answers in one source, best first, scored 0 to 1."""
        store = self.store
        lexical = store.rank(source, self.question.terms, DEPTH, where)
        dense = self._find_near(source, where)
        places = store.locate(source, [one.id for one in (*lexical, *dense)])
        by_words = _group(lexical, places)
        by_meaning = _group(dense, places)
        scores = _fuse(by_words, by_meaning)
        kind = "fts+vector" if dense else "fts"
        hits = [
            KnowledgeHit(found.entry, found.piece, score, kind)
            for key, score in scores.items()
            for _, found in [by_words.get(key) or by_meaning[key]]
        ]
        hits.sort(key=_order)
        return normalise(hits, store.scale)

    def _find_near(self, source: Source, where: Conditions) -> list[Scored]:
        if self._embedder is None or not self.question.terms:
            return []
        embed_missing(self.store, source, self._embedder, _EMBEDDED_BY_SEARCH)
        try:
            if self._vector is None:
                self._vector = self._embedder.embed([self.question.text], "query")[0]
        except EmbeddingFailed:
            return []
        model = self._embedder.name
        return self.store.nearest(source, model, self._vector, _DENSE_DEPTH, where)


def merge_sources(rankings: Iterable[Sequence[KnowledgeHit]]) -> list[KnowledgeHit]:
    """One ranking of several: by rank in their own, equals by time, scored 0 to 1 once more."""
    merged = [
        replace(hit, score=1.0 / (_K + rank))
        for ranking in rankings
        for rank, hit in enumerate(ranking, 1)
    ]
    merged.sort(key=_order)
    return normalise(merged)


def sort_recent(hits: Iterable[KnowledgeHit]) -> list[KnowledgeHit]:
    """The newest first, whatever their scores."""
    return sorted(hits, key=lambda hit: (-hit.entry.last_modified, *_order(hit)))


def normalise(hits: Sequence[KnowledgeHit], scale: str = "range") -> list[KnowledgeHit]:
    """Scores up to 1 (the best), from 0 (the worst) or as shares of the best; equals are all 1."""
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
    embedder: Embedder,
    limit: int,
    step: Callable[[int], None] = lambda _done: None,
) -> int:
    """Give vectors to pieces that have none, at most so many of them; how many."""
    done = 0
    while done < limit:
        bare = store.list_bare(source, embedder.name, min(_EMBEDDED_AT_ONCE, limit - done))
        if not bare:
            break
        texts = [f"{found.entry.title}\n{found.piece.text}" for found in bare]
        rows = embedder.embed(texts, "passage")
        store.put_vectors(source, embedder.name, [found.piece.number for found in bare], rows)
        done += len(bare)
        step(done)
    return done


Grouped = dict[object, tuple[float, RankedPiece]]


def _group(scored: Sequence[Scored], places: Mapping[int, RankedPiece]) -> Grouped:
    """Pieces -> entries (messages stay by themselves), best first."""
    groups: dict[object, tuple[float, RankedPiece]] = {}
    more: dict[object, float] = {}
    for one in scored:
        found = places.get(one.id)
        if found is None:
            continue
        key = one.id if found.entry.source == "chats" else (found.entry.number,)
        if key not in groups:
            groups[key] = (one.score, found)
        elif key not in more:
            more[key] = _MORE * one.score
    full = {key: (score + more.get(key, 0.0), found) for key, (score, found) in groups.items()}
    full = _add_neighbours(full)
    return dict(sorted(full.items(), key=lambda item: -item[1][0]))


def _add_neighbours(groups: Grouped) -> Grouped:
    """Messages, helped by the better one beside them: what is asked in one is said in the next."""
    at = {
        (found.entry.number, found.piece.place): score
        for score, found in groups.values()
        if found.entry.source == "chats"
    }

    def help_from(found: RankedPiece) -> float:
        number, place = found.entry.number, found.piece.place
        return max(at.get((number, place - 1), 0.0), at.get((number, place + 1), 0.0))

    return {
        key: (score + (_BESIDE * help_from(found) if at else 0.0), found)
        for key, (score, found) in groups.items()
    }


def _fuse(by_words: Grouped, by_meaning: Grouped) -> dict[object, float]:
    best = max((score for score, _ in by_words.values()), default=1.0)
    fused = {key: score / best for key, (score, _) in by_words.items()}
    for key, (score, _) in by_meaning.items():
        if key in fused or score >= _NEAR:
            fused[key] = fused.get(key, 0.0) + _DENSE_SHARE * max(score, 0.0)
    return fused


def _order(hit: KnowledgeHit) -> tuple[float, int, str, str, int]:
    entry = hit.entry
    return (-hit.score, -entry.last_modified, entry.source, entry.id, hit.piece.place)
