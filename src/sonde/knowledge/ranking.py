"""Ranking of knowledge: candidates by words and vectors, scored alike in all sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeVar
from urllib.parse import quote

from sonde import errors
from sonde.embedding.base import Embedder, Vectors
from sonde.embedding.nearness import can_read, find_nearness, measure_spread
from sonde.knowledge.vectors import KnowledgeModels, embed_missing, embed_pieces
from sonde.knowledge.who_and_when import WhoAndWhen
from sonde.ranking.evidence import NEAR_ENOUGH, Evidence, choose_read, count_covered, weigh_evidence
from sonde.ranking.question import read_prose_terms
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
from sonde.stores.knowledge.rows import list_terms
from sonde.types import Kind, Scored

MAX_QUERY_CHARS = 20_000  # bounds the work on a pasted text


@dataclass(frozen=True, slots=True)
class KnowledgeQuery:
    """A query and its terms, without stop words unless there are no others."""

    text: str
    terms: tuple[str, ...]


def read_knowledge_query(text: str) -> KnowledgeQuery:
    """Parse a query; any string is valid."""
    text = text.strip()[:MAX_QUERY_CHARS]
    return KnowledgeQuery(text, read_prose_terms(text))


LEXICAL_DEPTH = 600
"""Pieces of one source retrieved by words."""
DENSE_DEPTH = 100  # pieces of one source retrieved by vectors
SECOND_PIECE_WEIGHT = 0.25  # share of the second best piece's score added to its entry's
NEIGHBOUR_WEIGHT = 0.4
"""Share of an adjacent message's score added to a message's; tuned on dialogues."""
NEAR_NEIGHBOUR_WEIGHT = 0.3  # the same for nearness; 0.15 to 0.6 give equal results
MEANT = 0.5  # least score of a message of the named speaker and time
MEANT_DEPTH = 50  # such messages listed if the question names nothing else
COVERING = 3  # best pieces by words, from which `covered` is measured
MAX_EMBEDDED_BY_SEARCH = 2_048
"""Pieces without static vectors that a search embeds itself; more would delay the answer."""
UNREADABLE = (errors.EmbeddingFailed, errors.ModelDownloadFailed, errors.MissingExtra)
UNWRITABLE = (errors.DiskFull, errors.IndexBusy, errors.PermissionDenied, errors.StorageUnusable)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """An entry of another file with the same text as a result."""

    uri: str
    title: str
    file: str
    """Its path in the import."""


@dataclass(frozen=True, slots=True)
class KnowledgeHit:
    """An entry, or a message of a conversation, with its score."""

    entry: Entry
    piece: Piece
    score: float
    score_type: str
    duplicates: tuple[Duplicate, ...] = ()
    """Other entries with the same text, best first."""

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
    """Lines of a file of a project, as a result beside personal knowledge."""

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
    """One query on one user's store; each model embeds it at most once."""

    store: KnowledgeStore
    question: KnowledgeQuery
    models: KnowledgeModels
    sources: int = 1
    """Number of sources that share the texts which the deep model embeds during the search."""
    notes: list[str] = field(default_factory=list)
    """Remarks on the answer, such as a model that could not be used."""
    _vectors: dict[str, Vectors | None] = field(default_factory=dict)

    def rank(self, source: Source, where: Conditions = ANYTHING) -> list[KnowledgeHit]:
        """The hits in one source, best first, each scored by its likelihood of being an answer."""
        found = self.gather(source, where)
        scores = weigh_evidence([evidence for _, evidence in found])
        hits = [
            KnowledgeHit(piece.entry, piece.piece, score, each.score_type)
            for (piece, each), score in zip(found, scores, strict=True)
            if score
        ]
        return sorted(hits, key=_order)

    def rank_asked(
        self, source: Source, where: Conditions, asked: WhoAndWhen
    ) -> list[KnowledgeHit]:
        """The hits in one source; messages of the asked speaker and time come first."""
        found = self.rank(source, where)
        if source != "chats" or not asked.is_narrow:
            return found
        narrow = replace(
            where, sender=where.sender or asked.sender, since=asked.since, until=asked.until
        )
        inner = replace(self, question=read_knowledge_query(asked.rest), _vectors={})
        first = inner.rank(source, narrow) if asked.rest else []
        if not first:
            pieces = self.store.list_recent(source, narrow, MEANT_DEPTH)
            first = [KnowledgeHit(each.entry, each.piece, MEANT, "fts") for each in pieces]
        led = {hit.uri for hit in first}
        lifted = [replace(hit, score=max(hit.score, MEANT)) for hit in first]
        rest = [replace(hit, score=hit.score * MEANT) for hit in found if hit.uri not in led]
        return [*lifted, *rest]

    def gather(
        self, source: Source, where: Conditions = ANYTHING
    ) -> list[tuple[RankedPiece, Evidence]]:
        """The candidates of one source and the evidence on each."""
        terms, models = self.question.terms, self.models.list_all()
        # others do not know the script of the question and would add noise
        usable = [one for one in models if terms and can_read(one, self.question.text)]
        lexical = self.store.rank(source, terms, LEXICAL_DEPTH, where)
        near = {model.name: self._find_near(source, model, where) for model in usable}
        places: dict[int, RankedPiece] = {}
        found = self._weigh(source, lexical, near, places)
        deep = self.models.deep
        if deep in usable and self._read_best(source, deep, found):
            near[deep.name] = self._find_near(source, deep, where)
            found = self._weigh(source, lexical, near, places)
        return found

    def _weigh(
        self,
        source: Source,
        lexical: Sequence[Scored],
        near: Mapping[str, Sequence[Scored]],
        places: dict[int, RankedPiece],
    ) -> list[tuple[RankedPiece, Evidence]]:
        """All candidates and the evidence on each; adds what it looks up to `places`."""
        store, rankings = self.store, (lexical, *near.values())
        ids = list(dict.fromkeys(one.id for ranking in rankings for one in ranking))
        places |= store.locate(source, [id_ for id_ in ids if id_ not in places])
        scored = ((one.id, one.score) for one in lexical)
        words = _group(scored, places, NEIGHBOUR_WEIGHT, second=SECOND_PIECE_WEIGHT)
        weights = store.weigh_terms(source, self.question.terms) if words else {}
        covered = _measure_coverage(weights, [found for _, found in words.values()])
        by_kind: dict[str, Grouped] = {}
        for kind, model in (("static", self.models.static), ("deep", self.models.deep)):
            vector = self._vectors.get(model.name) if model else None
            if model and vector is not None and near[model.name]:
                similar = store.compare(source, model.name, vector, ids)
                near_by = ((id_, find_nearness(model.name, each)) for id_, each in similar.items())
                by_kind[kind] = _group(near_by, places, NEAR_NEIGHBOUR_WEIGHT, NEAR_ENOUGH)
        best = max((score for score, _ in words.values()), default=1.0)
        near_ones = by_kind.values()
        # an entry is shown by its best piece: in words of the text by words, else by the last model
        by_trust = (*near_ones, words) if covered > 0.5 else (words, *near_ones)
        found = {key: piece for groups in by_trust for key, (_, piece) in groups.items()}

        def weigh(key: object) -> Evidence:
            near = {kind: groups[key][0] for kind, groups in by_kind.items() if key in groups}
            share = words[key][0] / best if key in words else 0.0
            return Evidence(share, covered, is_message=source == "chats", **near)

        return [(piece, weigh(key)) for key, piece in found.items()]

    def _read_best(
        self, source: Source, deep: Embedder, found: Sequence[tuple[RankedPiece, Evidence]]
    ) -> bool:
        """Embed the best candidates without deep vectors. Returns whether there were any.

        Only by the bundled model and if it is loaded or this process stays.
        """
        have, total = self.store.coverage(source, deep.name)
        is_ready = self.models.in_background or deep.is_loaded
        if have == total or not is_ready or not self.models.static or not self.models.background:
            return False
        scores = weigh_evidence([evidence for _, evidence in found])
        ranked = sorted(zip(scores, found, strict=True), key=lambda each: -each[0])
        bare = [piece for score, (piece, each) in ranked if score and each.deep is None]
        unread = bare[: len(choose_read([each.piece.text for each in bare], self.sources))]
        with suppress(*UNREADABLE, *UNWRITABLE):  # the answer stands without it
            if unread:
                embed_pieces(self.store, source, deep, unread)
                return True
        return False

    def _find_near(self, source: Source, model: Embedder, where: Conditions) -> list[Scored]:
        store = self.store
        if damaged := store.drop_damaged(source, model.name):
            self.notes.append(f"{damaged} vectors of {source} were damaged and are made again")
        if model is self.models.static:
            embed_missing(store, source, model, MAX_EMBEDDED_BY_SEARCH)
        if not store.coverage(source, model.name)[0] or (vector := self._embed(model)) is None:
            return []
        return store.nearest(source, model.name, vector, DENSE_DEPTH, where)

    def _embed(self, model: Embedder) -> Vectors | None:
        if model.name not in self._vectors:
            try:
                measure_spread(model)
                self._vectors[model.name] = model.embed([self.question.text], "query")[0]
            except UNREADABLE as error:
                without = "the deeper model" if self.models.static else "vectors"
                self.notes.append(f"answered without {without}: {error.user_message}")
                self._vectors[model.name] = None
        return self._vectors[model.name]


def merge_sources(rankings: Iterable[Sequence[HitT]]) -> list[HitT]:
    """Merge rankings by score, ties by time; the order within each stays."""
    merged: list[HitT] = []
    for ranking in rankings:
        least = 1.0
        for hit in ranking:
            least = min(least, hit.score)
            merged.append(hit if hit.score == least else replace(hit, score=least))
    return sorted(merged, key=_order)


def sort_recent(hits: Iterable[HitT]) -> list[HitT]:
    """The hits, newest first."""
    return sorted(hits, key=lambda hit: (-hit.last_modified, *_order(hit)))


def normalise(hits: Sequence[HitT], scale: str = "range") -> list[HitT]:
    """The hits with scores scaled to 0 to 1, over their range or as shares of the best."""
    if not hits:
        return []
    best = max(hit.score for hit in hits)
    worst = min(hit.score for hit in hits) if scale == "range" else 0.0
    if best == worst:
        return [replace(hit, score=1.0) for hit in hits]
    span = best - worst + 1e-9
    return [replace(hit, score=(hit.score - worst) / span) for hit in hits]


Grouped = dict[object, tuple[float, RankedPiece]]


def _group(
    scores: Iterable[tuple[int, float]], places: Mapping[int, RankedPiece], neighbour: float,
    least: float = 0.0, second: float = 0.0,
) -> Grouped:  # fmt: skip
    """Pieces grouped by entry, best first; each message is a group.

    Adds shares of an entry's `second` best piece and of a message's better `neighbour`.
    """
    groups: Grouped = {}
    more: dict[object, float] = {}
    for id_, score in sorted(scores, key=lambda item: -item[1]):
        if found := places.get(id_):
            key = id_ if found.entry.source == "chats" else (found.entry.number,)
            if key not in groups:
                groups[key] = (score, found)
            elif key not in more:
                more[key] = second * score
    full = {key: (score + more.get(key, 0.0), found) for key, (score, found) in groups.items()}
    full = _add_neighbours(full, neighbour, least)
    return dict(sorted(full.items(), key=lambda item: -item[1][0]))


def _add_neighbours(groups: Grouped, share: float, least: float) -> Grouped:
    """Add to each message a share of its better neighbour's score: a question in one message is
    often answered in the next."""
    said = (pair for pair in groups.values() if pair[1].entry.source == "chats")
    scores = {(found.entry.number, found.piece.place): score for score, found in said}

    def best_neighbour(found: RankedPiece) -> float:
        number, place = found.entry.number, found.piece.place
        return max(scores.get((number, place - 1), 0.0), scores.get((number, place + 1), 0.0))

    if not scores:
        return groups
    return {
        key: (score + (share * best_neighbour(found) if score >= least else 0.0), found)
        for key, (score, found) in groups.items()
    }


def _measure_coverage(weights: Mapping[str, float], best: Sequence[RankedPiece]) -> float:
    """The weighted share of the query's terms in the best pieces by words."""
    total = sum(weights.values())
    shares = []
    for found in best[:COVERING]:
        terms = frozenset(chain.from_iterable(list_terms(found.entry, found.piece)))
        shares.append(sum(weight for term, weight in weights.items() if term in terms))
    return count_covered(max(shares, default=0.0) / total if total else 0.0, len(weights))


def _order(hit: AnyHit) -> tuple[float, int, str, str, int]:
    tie = (hit.entry.id, hit.piece.place) if isinstance(hit, KnowledgeHit) else (hit.uri, 0)
    return -hit.score, -hit.last_modified, hit.source, *tie
