"""The passages of the best files as columns: all are weighed at once, and only the best become
objects with a text."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from sonde.ranking.candidate import Candidate
from sonde.ranking.features import list_name_words
from sonde.ranking.passages import Passage
from sonde.ranking.question import Question, overlap_of
from sonde.text.words import fold_name
from sonde.types import Symbol

Lines = tuple[int, int, int, str]
"""A chunk: its key, its first and its last line, and what it opens."""
Numbers = NDArray[np.int64]
Column = NDArray[np.float64]
_START_LINE = attrgetter("start_line")
_LINK = re.compile(r"\W+")
_MOST_MEMBERS = 60  # of a type whose names say what it is about
_OF_EACH_FILE = 2  # passages that are kept in any case
_FILE_LINES = 1 << 40  # beyond any line: puts the lines of all files in one order
_NAME_FEATURES = (
    "told_name", "name_precision", "name_f1", "is_named", "is_spelled", "is_qualified",
    "scope_named",
)  # fmt: skip


class Outlines:
    """The definitions of some files by first line, and the chunks that hold them."""

    def __init__(
        self,
        files: Sequence[Candidate],
        symbols: Mapping[str, Iterable[Symbol]],
        chunks: Mapping[str, Sequence[Lines]],
    ) -> None:
        paths = [file.state.path for file in files]
        defined = [sorted(symbols.get(path, ()), key=_START_LINE) for path in paths]
        held = [chunks.get(path, ()) for path in paths]
        self._files = files
        self._symbols = list(chain.from_iterable(defined))
        self._chunks = list(chain.from_iterable(held))
        self.keys_of_files = [[key for key, *_ in each] for each in held]
        self.keys = list(chain.from_iterable(self.keys_of_files))
        owner, self._holder = (
            np.repeat(np.arange(len(files)), list(map(len, each))) for each in (defined, held)
        )
        table = np.array([chunk[:3] for chunk in self._chunks], np.int64).reshape(-1, 3)
        firsts, lasts = (self._holder * _FILE_LINES + table[:, at] for at in (1, 2))
        lines = np.array([symbol[2:] for symbol in self._symbols], np.int64).reshape(-1, 3)
        starts, ends = (owner * _FILE_LINES + lines[:, at] for at in (1, 2))
        self._owner, self._lines = owner, lines
        low = np.searchsorted(lasts, starts, "left")
        self._low, self._high = low, np.maximum(low, np.searchsorted(firsts, ends, "right"))
        self._has_members = np.zeros(len(starts), np.bool_)
        self._has_members[:-1] = starts[1:] <= ends[:-1]
        self._places = self._number(starts, ends)

    def _number(self, starts: Numbers, ends: Numbers) -> Numbers:
        """Places of definitions: consecutive for overloads that stand together."""
        steps = np.full(len(starts), 2)
        beside = (starts[1:] > ends[:-1]) & (self._low[1:] <= self._high[:-1])
        beside &= self._owner[1:] == self._owner[:-1]
        for at in np.flatnonzero(beside).tolist():
            before, symbol = self._symbols[at], self._symbols[at + 1]
            if symbol.name == before.name and symbol.kind == before.kind == "function":
                steps[at + 1] = 1
        return np.cumsum(steps)

    def first_lines(self) -> dict[int, int]:
        """The first line of each chunk."""
        return {key: first for key, first, *_ in self._chunks}

    def choose(
        self,
        question: Question,
        scores: Mapping[str, Mapping[int, float]],
        near: Mapping[tuple[int, int], float],
        weights: Mapping[str, float],
        hopeful: Collection[int],
        share: float,
        most: int,
    ) -> list[Passage]:
        """The best passages by all that needs no text: definitions whose name may match or that
        lie in a hopeful chunk, and hopeful chunks outside all definitions.

        A file's own score counts as much as `share` says; two of each file are kept in any case.
        """
        hot = np.array([key in hopeful for key in self.keys], np.bool_)
        before = np.concatenate(([0], np.cumsum(hot)))
        is_hot = before[self._high] > before[self._low]
        may_match = question.matches.may_match
        may = np.array([may_match(symbol.name) for symbol in self._symbols], np.bool_)
        named = np.flatnonzero(is_hot | may)
        depth = np.zeros(len(hot) + 1, np.int64)  # definitions that begin minus those that end
        np.add.at(depth, self._low, 1)
        np.add.at(depth, self._high, -1)
        outside = np.flatnonzero(hot & (np.cumsum(depth)[:-1] == 0))
        symbols = [self._symbols[at] for at in named.tolist()]
        spans = np.array([self._chunks[at][1:3] for at in outside.tolist()], np.int64).reshape(
            -1, 2
        )
        start, end = (np.concatenate((self._lines[named, at], spans[:, at - 1])) for at in (1, 2))
        owner = np.concatenate((self._owner[named], self._holder[outside]))
        low = np.concatenate((self._low[named], outside))
        high = np.concatenate((self._high[named], outside + 1))
        columns = self._measure(question, symbols, named, may, owner, end - start)
        if near:
            columns["own_deep"] = self._compare(near, low, high, start)
        held = {name: self._find_best(known, low, high) for name, known in scores.items()}
        held["own_dense_rel"] = held["code_dense"] = held["chunk_dense"]
        score = _weigh(held, weights, len(owner)) + _weigh(columns, weights, len(owner))
        of_file = np.array([file.score for file in self._files])
        order = _order(owner, score, start, of_file, share, most)
        columns |= held
        rows = np.stack(list(columns.values()), axis=1)[order].tolist()
        places = zip(order.tolist(), low[order].tolist(), high[order].tolist(), rows, strict=True)
        found = []
        for at, first, stop, row in places:
            keys = tuple(self.keys[first:stop])
            if at < len(symbols):
                one = self._take(int(named[at]), keys)
            else:
                file = self._files[owner[at]]
                one = Passage(file, None, int(start[at]), int(end[at]), keys)
            one.features = dict(zip(columns, row, strict=True))
            found.append(one)
        return found

    def _take(self, at: int, keys: tuple[int, ...]) -> Passage:
        symbol, place, owner = self._symbols[at], int(self._places[at]), self._owner[at]
        one = Passage(
            self._files[owner], symbol, symbol.start_line, symbol.end_line, keys,
            first_place=place, last_place=place,
        )  # fmt: skip
        if symbol.kind == "type" and self._has_members[at]:
            stop = int(np.searchsorted(self._owner, owner, "right"))
            following = self._symbols[at + 1 : min(stop, at + 1 + _MOST_MEMBERS)]
            inside = [each for each in following if each.start_line <= symbol.end_line]
            one.members = [each.name.rpartition(".")[2] for each in inside]
            one.own_lines = max(inside[0].start_line, symbol.line + 1) - symbol.start_line
        return one

    def _find_best(self, known: Mapping[int, float], low: Numbers, high: Numbers) -> Column:
        """The best of each range of chunks; also for the text that is not yet read."""
        values = np.array([known.get(key, 0.0) for key in self.keys] + [0.0])
        best = np.maximum.reduceat(values, np.stack((low, high), axis=1).ravel())[::2]
        return np.where(high > low, best, 0.0)

    def _compare(
        self, near: Mapping[tuple[int, int], float], low: Numbers, high: Numbers, start: Numbers
    ) -> Column:
        """How near each is by the deeper model: the definition, else its best chunk."""
        best = self._find_best({key: near.get((key, 0), -1.0) for key in self.keys}, low, high)
        places = zip(low.tolist(), start.tolist(), best.tolist(), strict=True)
        keys = [*self.keys, 0]
        return np.array([near.get((keys[first], line), whole) for first, line, whole in places])

    def _measure(
        self,
        question: Question,
        symbols: Sequence[Symbol],
        named: Numbers,
        may: NDArray[np.bool_],
        owner: Numbers,
        lines: Numbers,
    ) -> dict[str, Column]:
        """The features that need no text: of names, kinds and sizes."""
        count, rest = len(symbols), np.zeros(len(owner) - len(symbols))
        kinds = np.array([symbol.kind for symbol in symbols], "U11")
        in_test = np.array([bool(file.features.get("is_test")) for file in self._files])
        columns: dict[str, Column] = {
            "lines": np.array([math.log1p(each) for each in lines.tolist()]),
            "in_test": in_test[owner].astype(np.float64),
            "is_rest": np.concatenate((np.zeros(count), rest + 1)),
        }
        for kind in set(kinds.tolist()):
            columns[f"is_{kind}"] = np.concatenate((kinds == kind, rest))
        holds = (kinds == "type") & self._has_members[named]
        columns["has_members"] = np.concatenate((holds, rest))
        nesting = np.array([symbol.name.count(".") for symbol in symbols], np.float64)
        columns["nesting"] = np.concatenate((nesting, rest))
        columns |= {name: np.zeros(len(owner)) for name in _NAME_FEATURES}
        report = question.report
        if report:
            reported = {fold_name(_LINK.split(n)[-1]) for n in (*report.spelled, *report.called)}
            told = [list_name_words(symbol.name)[0] in reported for symbol in symbols]
            columns["told_name"][:count] = told
        bits_of, names = question.matches.__getitem__, question.names
        for at in np.flatnonzero(may[named]).tolist():
            name = symbols[at].name
            folded, words = list_name_words(name)
            if any(map(bits_of, words)):
                precision, _, f1 = overlap_of(question.matches, words)
                columns["name_precision"][at], columns["name_f1"][at] = precision, f1
            if folded in names:
                path = self._files[owner[at]].state.path
                for feature, value in _compare_spelling(question, name, path):
                    columns[feature][at] = value
        return columns


def _compare_spelling(question: Question, name: str, path: str) -> Iterator[tuple[str, float]]:
    """The features of a name that the question spells, in whatever letter case."""
    scope, _, last = name.rpartition(".")
    yield "is_named", 1.0
    yield "is_spelled", float(last in question.spelled)
    if scope:
        pair = scope.rpartition(".")[2] + last
        yield "is_qualified", float(fold_name(pair) in question.names)
    if question.scopes:
        held = set(map(fold_name, (*scope.split("."), *path.replace(".", "/").split("/"))))
        named = sum(part in held for part in question.scopes)
        yield "scope_named", named / len(question.scopes)


def _weigh(columns: Mapping[str, Column], weights: Mapping[str, float], count: int) -> Column:
    """What these features add to the scores."""
    total = np.zeros(count)
    for name, column in columns.items():
        if name in weights:
            total += weights[name] * column
    return total


def _order(
    owner: Numbers, score: Column, start: Numbers, of_file: Column, share: float, most: int
) -> Numbers:
    """The best of each file, then the best of the others."""
    ranked = np.lexsort((start, -score, owner))
    of_each = owner[ranked]
    is_first = np.arange(len(ranked)) - np.searchsorted(of_each, of_each) < _OF_EACH_FILE
    kept, others = ranked[is_first], ranked[~is_first]
    by_score = np.argsort(-of_file[owner[others]] - share * score[others], kind="stable")
    return np.concatenate((kept, others[by_score][: max(0, most - len(kept))]))
