"""Choosing, of many projects, the few that a question is ranked in.

A full ranking takes ten times as long as finding a project's nearest chunks, and its scores are
relative to its own project: in each, some file is the best by words. So projects are compared
by what means the same in all of them: how near the nearest chunk is, how much of the question one
chunk holds, where words that are rare in all projects together count more, and whether anything
bears a name from the question.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sonde.projects.project import Project
from sonde.ranking.passages import TermCoverage
from sonde.ranking.question import Question
from sonde.searching.request import Request
from sonde.searching.search import QueryVectors
from sonde.types import Hit

_FEWEST = 3  # most that are ranked for a short list; a fourth held the answer 1 time in 207
_HITS_OF_EACH = 5  # of a longer list, for each further project
_READ_CHUNKS = 3  # best by words, whose text is read
_REPORT_TERMS = 48  # as many as rank
_COVERED, _NAMED, _SYMBOL = 0.3, 0.1, 0.5
"""What holding all of a question, bearing a name of it, and being the name that is the query count
beside a cosine."""
_MARGIN = 0.12  # below the best project, beyond which ranking a project gained nothing
_SLOPE = 4.0  # of a hit's log-odds, for each unit that its project is below the best
# The constants are fitted on 104 labelled questions, each asked over all 31 repositories.


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What one kind of a project's chunks says about it."""

    nearest: float
    named: Collection[str]
    """Files that bear or define a name of the question."""
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProjectChoice:
    """How a chosen project is ranked."""

    loss: float = 0.0
    """What its hits lose in log-odds."""
    files: frozenset[str] | None = None
    """The only files to rank; None for all."""


WHOLE = ProjectChoice()


class ProjectSelection:
    """The evidence about the projects of one search."""

    def __init__(self, request: Request, question: Question, vectors: QueryVectors) -> None:
        report = question.report
        self._terms = report.terms[:_REPORT_TERMS] if report else question.terms
        self._names = question.names if question.is_symbol else question.names | question.joined
        self._named = _SYMBOL if question.is_symbol else _NAMED
        self._vectors = vectors
        self._most = max(_FEWEST, request.top_k // _HITS_OF_EACH)
        self._most_named = request.top_k if question.is_symbol else 0
        self._counts: Counter[str] = Counter()
        self._total = 0
        self._found: dict[str, list[_Evidence]] = {}

    def look(self, project: Project, request: Request) -> None:
        """Find the nearest chunks of a project, if any pass the filters of its request."""
        for kind in request.kinds:
            store = project.stores()[kind]
            where = request.narrow(store, kind)
            probe, nearest = self._vectors.probe(store), 0.0
            self._counts.update(store.term_counts(self._terms))
            self._total += store.coverage("")[1]
            lexical = store.lexical(self._terms, _READ_CHUNKS, where)
            if probe:
                vector = probe.vector if probe.report is None else probe.report
                dense = store.dense(probe.model, vector, 1, where)
                nearest = dense[0].score if dense else 0.0
            named = store.paths_named(self._names) if self._names else set()
            if named and where.paths is not None:
                named &= set(where.paths)
            if lexical or nearest or named:
                texts = tuple(chunk.text for chunk in store.chunks([one.id for one in lexical]))
                found = self._found.setdefault(project.key, [])
                found.append(_Evidence(nearest, named, texts))

    def choose(self) -> Mapping[str, ProjectChoice]:
        """The projects worth ranking; empty if nothing was found.

        If the query is a name, the files that define it in further projects are ranked, too.
        """
        coverage = TermCoverage(self._terms, self._counts, self._total)

        def rate(one: _Evidence) -> float:
            held = max((coverage.rate(coverage.find(text)) for text in one.texts), default=0.0)
            return one.nearest + _COVERED * held + self._named * bool(one.named)

        rates = {key: max(map(rate, found)) for key, found in self._found.items()}
        best = max(rates.values(), default=0.0)
        order = sorted(rates, key=lambda key: (-rates[key], key))
        losses = {key: _SLOPE * (best - rates[key]) for key in order}
        near = [key for key in order[: self._most] if rates[key] >= best - _MARGIN]
        chosen = {key: ProjectChoice(losses[key]) for key in near}
        for key in order[: self._most_named]:
            files = frozenset(path for one in self._found[key] for path in one.named)
            if files:
                chosen.setdefault(key, ProjectChoice(min(losses[key], _SLOPE * _MARGIN), files))
        return chosen

    def holds_every_term(self) -> bool:
        """Whether each word of the question is in some project."""
        return all(self._counts[term] for term in self._terms)


def begin_selection(
    projects: Sequence[Project], request: Request, question: Question, vectors: QueryVectors
) -> ProjectSelection | None:
    """A selection if these are too many to rank. Words or vectors alone rank at once."""
    is_due = request.is_open and len(projects) > _FEWEST
    return ProjectSelection(request, question, vectors) if is_due else None


def describe_choice(chosen: Sequence[Project], count: int) -> str:
    """Which of so many projects were ranked; empty if all."""
    if len(chosen) == count:
        return ""
    names = [project.settings.name or project.root.name for project in chosen[:_FEWEST]]
    listed = ", ".join(names) + ", …" * (len(chosen) > _FEWEST)
    return f"Ranked {len(chosen)} of {count} projects: {listed}. Name a project to search it alone."


def lower_hit(hit: Hit, loss: float) -> Hit:
    """The hit with so much less in log-odds; what the query names or spells keeps its score."""
    odds = hit.score * math.exp(-loss)
    return replace(hit, score=odds / (odds + 1.0 - hit.score)) if loss and hit.score < 1.0 else hit


def take_best(hits: list[Hit], request: Request) -> list[Hit]:
    """As many of these as were asked for, or of each kind."""
    if not request.of_each_kind:
        return hits[: request.top_k]
    kinds = {kind: [hit for hit in hits if hit.kind == kind] for kind in request.kinds}
    kept = {id(hit) for found in kinds.values() for hit in found[: request.top_k]}
    return [hit for hit in hits if id(hit) in kept]
