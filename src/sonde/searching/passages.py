"""From the best files to the passages that answer: list them, weigh all cheaply, then the best."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from operator import itemgetter

from sonde.ranking.candidate import Candidate
from sonde.ranking.evidence import OPENING_CHARS, READ_TEXTS
from sonde.ranking.passages import (
    FILES,
    Group,
    Passage,
    TermCoverage,
    list_passages,
    measure_names,
    measure_texts,
    weigh_features,
)
from sonde.ranking.question import Question
from sonde.ranking.weights import PASSAGE_READ, choose_passage_weights, choose_share
from sonde.searching.search import (
    Search,
    choose_report_terms,
    compare_chunks,
    compare_names,
    compare_rows,
)
from sonde.types import Outline

_WEIGHED, _WEIGHED_CLOSELY = 40, 64
"""Passages whose own text is looked at: a name is among few as often as among many, and a topic is
found by its file; what a function does shows in its text alone."""
_HOPEFUL = 24  # chunks whose definitions are weighed whatever their names: the best by all evidence
_LEAST_SHARE = 0.3  # of a passage in the choice of the others, where it counts less in the order
_OWN_CHARS = 1_500  # of a passage's text that is compared: what it does is said early
_OPENING_CHUNKS = 4  # that tell in most cases that a type is too large to be shown whole


def group_passages(search: Search, question: Question, files: Sequence[Candidate]) -> list[Group]:
    """The best files, each with the passages that do not overlap, best first.

    Overloads that stand together are one passage: what is said of one is meant of all.
    """
    groups: dict[str, list[Passage]] = {}
    for one in gather_passages(search, question, files):
        group = groups.setdefault(one.file.state.path, [])
        if beside := next((other for other in group if one.is_beside(other)), None):
            beside.join(one)
            _read_texts(search, [beside])
        elif one.text and not any(one.meets(other) for other in group):
            group.append(one)
    return [Group(group[0].file, group) for group in groups.values() if group]


def deepen_passages(search: Search, groups: Sequence[Group], share: float) -> None:
    """Let the deeper model compare the best passages, unless it compared every definition."""
    passages = [(group, at, one) for group in groups for at, one in enumerate(group.passages)]
    if search.deep is None or any("own_deep" in one.features for _, _, one in passages):
        return
    passages.sort(key=lambda row: -row[0].score(share, row[1]))
    best = [one for _, _, one in passages[:READ_TEXTS]]
    near = search.deep.read_now([_write_short(one) for one in best])
    if not near:
        return  # other weights without the model's word would change the answer
    for one, value in zip(best, near, strict=False):
        # above the least of them: none falls behind those that were not compared
        one.features["own_deep"] = value - min(near)
    for group in groups:
        for one in group.passages:
            one.weigh(PASSAGE_READ)
        group.passages.sort(key=_sort_key)


def _write_short(one: Passage) -> str:
    """A passage as the deeper model reads it; see `sonde.indexing.definitions`."""
    is_function = one.symbol is not None and one.symbol.kind == "function"
    return _write_own(one, one.code if is_function else one.text, OPENING_CHARS)


def gather_passages(
    search: Search, question: Question, files: Sequence[Candidate], most: int = 0
) -> list[Passage]:
    """The passages of the best files with their features, best first, hopeless ones left out."""
    most = most or (_WEIGHED_CLOSELY if question.is_description or question.report else _WEIGHED)
    files = files[:FILES]
    paths = [file.state.path for file in files]
    compare_names(search, question, [file for file in files if file.named is None])
    lines, outlines = search.store.chunk_lines(paths), search.store.symbols_of(paths)
    scores = _score_chunks(search, files, [key for rows in lines.values() for key, *_ in rows])
    near = _compare_definitions(search, question, lines.values())
    weights = choose_passage_weights(question, is_deep=bool(near))
    best = {key: value for (key, _), value in sorted(near.items(), key=itemgetter(1))}
    hopeful = _choose_hopeful({**scores, "own_deep": best}, weights, lines.values())
    share = max(choose_share(question), _LEAST_SHARE)
    kept: list[Passage] = []
    others: list[tuple[float, Passage]] = []
    rated: dict[tuple[int, ...], tuple[dict[str, float], float]] = {}
    for file in files:
        path = file.state.path
        outline = outlines.get(path, Outline())
        passages = list_passages(file, outline, lines.get(path, ()), hopeful, question)
        measure_names(question, passages)
        is_alone = len(outline) == len(lines.get(path, ())) == 1
        for one in passages:
            if near and one.chunks:
                # where the file is this function, the chunk's vector has its comments too
                own = None if is_alone else near.get((one.chunks[0], one.start_line))
                one.features["own_deep"] = (
                    max(near.get((key, 0), -1.0) for key in one.chunks) if own is None else own
                )
            if one.chunks not in rated:
                row = _rate_chunks(scores, one.chunks)
                rated[one.chunks] = row, weigh_features(row, weights)
            # what a passage shares with others is weighed once: there may be thousands
            one.score = rated[one.chunks][1] + weigh_features(one.features, weights)
        passages.sort(key=_sort_key)
        kept += passages[:1]
        file_score = file.score
        others += [(-file_score - share * one.score, one) for one in passages[1:]]
    others.sort(key=itemgetter(0))
    kept += [one for _, one in others[: max(0, most - len(kept))]]
    for one in kept:
        one.features |= rated[one.chunks][0]
    _read_texts(search, kept)
    asked = _cover(search, question.terms)
    terms = choose_report_terms(search, question.report) if question.report else ()
    reported = _cover(search, terms) if terms else None
    measure_texts(kept, asked, reported)
    _attach_own_vectors(search, kept, weights)
    for one in kept:
        one.weigh(weights)
    return sorted(kept, key=_sort_key)


def _compare_definitions(
    search: Search, question: Question, files: Iterable[Sequence[tuple[int, int, int, str]]]
) -> Mapping[tuple[int, int], float]:
    """How near each definition is by the deeper model, once it has seen all: by chunk and first
    line, and each chunk as a whole by line 0. Names and reports are found without it."""
    deep = search.deep
    if deep is None or not deep.is_complete or question.is_symbol or question.report:
        return {}
    first_line = {key: first for rows in files for key, first, *_ in rows}
    vectors = search.store.definition_vectors(deep.model, list(first_line))
    if not vectors:  # made before definitions had any: whole chunks say nothing more
        return {}
    chunks = compare_chunks(search, deep.model, list(first_line), deep.vector)
    near = {(key, 0): value for key, value in chunks.items()}
    for (key, at), value in compare_rows(vectors, deep.vector).items():
        near[key, first_line[key] + at] = value
    # below the best: an index without such vectors must not fall behind this one
    most = max(near.values())
    return {place: value - most for place, value in near.items()}


def _rate_chunks(
    scores: Mapping[str, Mapping[int, float]], keys: Sequence[int]
) -> dict[str, float]:
    """The best of these chunks by each kind of evidence; also for the text that is not yet read."""
    row = {
        name: max([known.get(key, 0.0) for key in keys], default=0.0)
        for name, known in scores.items()
    }
    row["own_dense_rel"] = row["code_dense"] = row["chunk_dense"]
    return row


def _sort_key(one: Passage) -> tuple[float, str, int]:
    return -one.score, one.file.state.path, one.start_line


def _cover(search: Search, terms: Sequence[str]) -> TermCoverage:
    return TermCoverage(terms, search.store.term_counts(terms), search.store.coverage("")[1])


def _score_chunks(
    search: Search, files: Sequence[Candidate], keys: Sequence[int]
) -> Mapping[str, Mapping[int, float]]:
    """Per feature, what is known of each chunk of the files."""
    lexical = {key: score for file in files for key, score in file.scores["lexical"].items()}
    best = max(lexical.values(), default=0.0) or 1.0
    scores: dict[str, Mapping[int, float]] = {
        "chunk_lexical": {key: score / best for key, score in lexical.items()},
        "chunk_dense": {},
    }
    if probe := search.probe:
        scores["chunk_dense"] = compare_chunks(search, probe.model, keys, probe.vector)
        if probe.report is not None:
            scores["told_dense"] = compare_chunks(search, probe.model, keys, probe.report)
    return scores


def _choose_hopeful(
    scores: Mapping[str, Mapping[int, float]],
    weights: Mapping[str, float],
    files: Iterable[Sequence[tuple[int, int, int, str]]],
) -> set[int]:
    """The best chunks of all files by what is known of them, and at least one of each file."""
    counted = {name: weights.get(name, 0.0) for name in scores}
    counted["chunk_dense"] += weights.get("code_dense", 0.0) + weights.get("own_dense_rel", 0.0)
    # the passages of a name are weighed by their texts alone: each kind counts the same
    is_even, totals = not any(counted.values()), defaultdict[int, float](float)
    for name, known in scores.items():
        for key, value in known.items():
            totals[key] += value if is_even else counted[name] * value
    hopeful = set(nlargest(_HOPEFUL, totals, key=totals.__getitem__))
    for rows in files:
        keys = [key for key, *_ in rows]
        if keys and hopeful.isdisjoint(keys):
            hopeful.add(max(keys, key=totals.__getitem__))
    return hopeful


def _read_texts(search: Search, passages: Sequence[Passage]) -> None:
    """Give each passage its text; at first, only the first chunks of those that have members."""
    chunk_of = {key: chunk for one in passages for key, chunk in one.file.chunks.items()}
    for most in (_OPENING_CHUNKS, None):
        held = [(one, one.chunks[: most if one.own_lines else None]) for one in passages]
        keys = {key for _, chosen in held for key in chosen} - chunk_of.keys()
        chunk_of.update((chunk.id, chunk) for chunk in search.store.chunks(sorted(keys)))
        read = (one.read([chunk_of[key] for key in keys if key in chunk_of]) for one, keys in held)
        passages = [one for (one, _), enough in zip(held, read, strict=True) if not enough]


def _attach_own_vectors(
    search: Search, passages: Sequence[Passage], weights: Mapping[str, float]
) -> None:
    """The similarities that these weights ask for: of a passage's code and name, or of its text."""
    probe = search.probe
    if probe is None or probe.embed is None:
        return
    if "code_dense" in weights:
        texts = [_write_own(one, one.code) for one in passages]
        texts += [one.name.rpartition(".")[2] for one in passages]
        values = (probe.embed(texts) @ probe.vector).tolist()
        for one, code, name in zip(passages, values, values[len(passages) :], strict=False):
            one.features["code_dense"], one.features["name_dense"] = code, name
    if "own_dense_rel" in weights:
        own = probe.embed([_write_own(one, one.text) for one in passages]) @ probe.vector
        most = float(own.max(initial=0.0)) or 1.0
        for one, value in zip(passages, own.tolist(), strict=True):
            one.features["own_dense_rel"] = value / most


def _write_own(one: Passage, text: str, most: int = _OWN_CHARS) -> str:
    """The text that is compared: of what has members, its opening and their names."""
    if one.own_lines:
        opening = "\n".join(text.split("\n")[: one.own_lines])
        text = f"{opening}\n{' '.join(one.members)}"
    return f"{one.file.state.path}\n{one.name}\n{text[:most]}"
