"""Passages: the definitions and other stretches of the best files, and the evidence about each."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest

from sonde.ranking.candidate import Candidate, sort_parts
from sonde.ranking.question import Question
from sonde.ranking.snippets import encode_lines
from sonde.text.words import find_holding, find_symbols, find_words, fold_name, index_terms
from sonde.types import Chunk, Outline, Span, Symbol

PASSAGE_FEATURES: Mapping[str, str] = {
    "chunk_lexical": "the best of its chunks by words, against the best of all",
    "chunk_dense": "the best of its chunks by meaning",
    "own_deep": "its beginning by the deeper model, against the others compared",
    "code_lexical": "share of the question's words, rare ones counting more, that its code holds",
    "says_all": "its text holds nearly all of the question's words",
    "own_dense_rel": "similarity of its own text by the static model, against the best of all",
    "code_dense": "similarity of its code, without comments",
    "name_dense": "similarity of its name",
    "opening_lexical": "share of the question's words that its opening lines hold",
    "name_f1": "words of its name against those of the question",
    "name_precision": "share of its name's words that the question says",
    "is_named": "the question spells its name, in whatever letter case",
    "is_spelled": "the question spells its name exactly",
    "is_qualified": "the question names it together with the definition around it",
    "scope_named": "share of the question's qualifiers that its scopes, file or folders bear",
    "is_type": "a class, struct, interface or module",
    "is_value": "a constant, field or variable",
    "is_function": "a function or method",
    "is_declaration": "declared here and defined elsewhere",
    "is_off_topic": "has comments: share of the question's words that they do not add",
    "in_test": "in a test",
    "is_rest": "no definition: what stands between them",
    "has_members": "other definitions lie inside it",
    "nesting": "definitions around it",
    "lines": "logarithm of its lines",
    "told_lexical": "share of a report's words that its text holds",
    "told_dense": "its best chunk by the meaning of a report's sentences",
    "told_name": "a report spells its name",
}
FILES = 10
"""Best files whose passages are weighed: fifteen hold no more answers (docs/optimisations.md)."""
_OWN_CHARS = 1_500  # of a text whose words are compared: what a passage does is said early
_NEARLY_ALL = 0.95  # of the weight of the question's words: one common word may be missing
_BEST_NAMED = 8  # definitions of a file that are weighed for their names alone
_MOST_MEMBERS = 60  # of a type whose names say what it is about
_COMMENT = re.compile(
    r'("""(?:[^"]|"(?!""))*"""'
    r"|/\*(?:[^*]|\*(?!/))*\*/"
    r"|^[ \t]*(?://|#(?!\w)|--|;|%|\*).*$)",
    re.MULTILINE,
)
_LINK = re.compile(r"\W+")
_WHOLE_CHARS = 2_500  # a type is shown with its members up to this size
_LONGEST_CHARS = 20_000  # of a passage that are read: bounds the work
_OPENING_LINES = 3  # from the line that bears the name: a signature is rarely longer


@dataclass(slots=True)
class Passage:
    """A definition, or a chunk outside all definitions: its lines, and the evidence about it."""

    file: Candidate
    symbol: Symbol | None
    start_line: int
    end_line: int
    chunks: tuple[int, ...]
    """Keys of the chunks that hold it, in order."""
    members: Sequence[str] = ()
    """Names of the definitions inside it, if it is a type."""
    own_lines: int = 0
    """Lines before its first member; 0 where there is none."""
    first_place: int = 0
    last_place: int = 0
    """In the file; those of overloads that stand together are consecutive, of all others not."""
    named: tuple[float, float] | None = None
    """Precision and F1 of its name against the question, if they share a word."""
    text: str = ""
    """All of it; of a large one that has members, what stands before the first."""
    code: str = ""
    """The beginning of the text without its comments."""
    start_byte: int = 0
    parts: dict[str, float] = field(default_factory=dict)
    """What each feature adds to the score: its value times its weight."""
    score: float = 0.0
    """The sum of the parts, about -10 to 20."""
    features: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its qualified name; empty for what is no definition."""
        return self.symbol.name if self.symbol else ""

    @property
    def line(self) -> int:
        """The line that names it, or its first."""
        return self.symbol.line if self.symbol else self.start_line

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Set the parts of the score."""
        features = self.features
        self.parts = {n: w * features[n] for n, w in weights.items() if features.get(n)}
        self.score = sum(self.parts.values())

    def read(self, chunks: Sequence[Chunk]) -> bool:
        """Take the text from the chunks that hold it, or from the first of them. Returns whether
        those were enough: of a large type only the opening is kept."""
        if not chunks:
            return False
        lines = "".join(chunk.text for chunk in chunks).split("\n")
        before = self.start_line - chunks[0].span.start_line
        own = lines[before : before + self.end_line - self.start_line + 1]
        text = "\n".join(own).rstrip("\n")
        is_opening = len(text) > _WHOLE_CHARS and 0 < self.own_lines < len(own)
        if is_opening:
            text = "\n".join(own[: self.own_lines]).rstrip("\n")
        self.text = text[:_LONGEST_CHARS]
        skipped = "".join(f"{line}\n" for line in lines[:before])
        self.start_byte = chunks[0].span.start_byte + len(encode_lines(skipped))
        return is_opening or len(chunks) == len(self.chunks)

    def meets(self, other: Passage) -> bool:
        """Whether both show a line of the same file."""
        mine, others = self._shown_end(), other._shown_end()
        return self.start_line <= others and other.start_line <= mine

    def is_beside(self, other: Passage) -> bool:
        """Whether both are overloads that stand together, and are short enough to show at once."""
        first, second = self._order(other)
        if second.first_place - first.last_place != 1 or not (first.chunks and second.chunks):
            return False
        touch = second.chunks[0] <= first.chunks[-1] + 1
        return touch and len(self.text) + len(other.text) <= _WHOLE_CHARS

    def join(self, other: Passage) -> None:
        """Take in an overload beside it; the text has to be read again."""
        first, second = self._order(other)
        self.chunks = tuple(dict.fromkeys([*first.chunks, *second.chunks]))
        self.start_line, self.end_line = first.start_line, second.end_line
        self.first_place, self.last_place = first.first_place, second.last_place

    def _order(self, other: Passage) -> tuple[Passage, Passage]:
        return (self, other) if self.start_line <= other.start_line else (other, self)

    def _shown_end(self) -> int:
        return self.start_line + self.text.count("\n")

    def as_chunk(self) -> Chunk:
        """The passage as a piece of its file."""
        size = len(encode_lines(self.text))
        span = Span(self.start_line, self._shown_end(), self.start_byte, self.start_byte + size)
        key = self.chunks[0] if self.chunks else 0
        return Chunk(self.file.state.path, self.text, span, "", self.name, key)


@dataclass(frozen=True, slots=True)
class Group:
    """A file and its passages, best first."""

    file: Candidate
    passages: list[Passage]

    def score(self, share: float, at: int = 0) -> float:
        """The file's score and its best passage's, as far as that counts; another passage has
        less by all that it lacks."""
        best = self.passages[0].score
        return self.file.score + share * best - (best - self.passages[at].score)

    def why(self, one: Passage, share: float) -> tuple[tuple[str, float], ...]:
        """What made one of them rank, strongest first: the file's parts and its own."""
        own = [(name, part * (share or 1.0)) for name, part in one.parts.items()]
        return sort_parts([*self.file.parts.items(), *own])


def list_passages(
    file: Candidate,
    outline: Outline,
    chunks: Sequence[tuple[int, int, int, str]],
    hopeful: Collection[int],
    question: Question,
) -> list[Passage]:
    """The definitions of a file that the question names best or that lie in a hopeful chunk, and
    hopeful chunks outside all definitions; `chunks` are as `ChunkStore.chunk_lines` gives them."""
    keys, firsts, lasts, _ = zip(*chunks, strict=True) if chunks else ((), (), (), ())
    order = outline.starts.argsort(kind="stable").tolist()
    starts, ends = outline.starts[order], outline.ends[order]
    named = file.named or {}
    best = set(nlargest(_BEST_NAMED, named, key=lambda at: named[at][1]))
    if file.bears_name:
        folded = [fold_name(name.rpartition(".")[2]) for name in outline.names]
        best |= {at for at, name in enumerate(folded) if name in question.names}
    chosen = {at for at, place in enumerate(order) if place in best}
    found: list[Passage] = []
    for key, first, last, _ in chunks:
        if key in hopeful:
            inside = ((starts <= last) & (ends >= first)).nonzero()[0].tolist()
            chosen.update(inside)
            if not inside:
                found.append(Passage(file, None, first, last, (key,)))
    for at in sorted(chosen):
        symbol, begin = outline[order[at]], at
        while begin and _is_overload(outline, order[begin], order[begin - 1]):
            begin -= 1
        first, last, place = symbol.start_line, symbol.end_line, at + begin
        held = keys[bisect_left(lasts, first) : bisect_right(firsts, last)]
        one = Passage(file, symbol, first, last, held, first_place=place, last_place=place)
        one.named = named.get(order[at])
        inside = order[at + 1 : starts.searchsorted(last, "right")][:_MOST_MEMBERS]
        if symbol.kind == "type" and inside:
            one.members = [outline.names[place].rpartition(".")[2] for place in inside]
            one.own_lines = max(starts.item(at + 1), one.line + 1) - first
        found.append(one)
    return found


def _is_overload(outline: Outline, at: int, before: int) -> bool:
    """Whether a function follows another of its name."""
    if outline.names[at] != outline.names[before]:
        return False
    one, other = outline[at], outline[before]
    return one.kind == other.kind == "function" and one.start_line > other.end_line


def measure_names(question: Question, passages: Sequence[Passage]) -> None:
    """The features that need no text: of names, kinds and sizes."""
    report = question.report
    said = (*report.spelled, *report.called) if report else ()
    reported = {fold_name(_LINK.split(name)[-1]) for name in said}
    for one in passages:
        row = one.features
        row["lines"] = math.log1p(one.end_line - one.start_line)
        if one.file.features.get("is_test"):
            row["in_test"] = 1.0
        symbol = one.symbol
        if symbol is None:
            row["is_rest"] = 1.0
            continue
        row[f"is_{symbol.kind}"] = 1.0
        if one.members:
            row["has_members"] = 1.0
        row["nesting"] = float(symbol.name.count("."))
        if reported:
            last = symbol.name.rpartition(".")[2]
            row["told_name"] = float(fold_name(last) in reported)
        if one.named:
            row["name_precision"], row["name_f1"] = one.named
        _compare_name(question, symbol.name, one.file.state.path, row)


def _compare_name(question: Question, name: str, path: str, row: dict[str, float]) -> None:
    scope, _, last = name.rpartition(".")
    if question.names and fold_name(last) in question.names:
        row["is_named"] = 1.0
        row["is_spelled"] = float(last in question.spelled)
        if scope:
            pair = scope.rpartition(".")[2] + last
            row["is_qualified"] = float(fold_name(pair) in question.names)
        if scopes := question.scopes:
            around = (*scope.split("."), *path.replace(".", "/").split("/"))
            held = set(map(fold_name, around))
            row["scope_named"] = sum(part in held for part in scopes) / len(scopes)


def weigh_features(features: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """What these features add to a score."""
    return sum([weights[name] * value for name, value in features.items() if name in weights])


class TermCoverage:
    """How much of some terms a text holds, rare terms counting more."""

    def __init__(self, terms: Sequence[str], counts: Mapping[str, int], total: int) -> None:
        self._weights = {
            term: math.log(1 + (total + 0.5) / (counts.get(term, 0) + 0.5)) for term in terms
        }
        self._sum = sum(self._weights.values()) or 1.0
        self._seen: set[str] = set()  # words: each is looked at once
        self._held: dict[str, Collection[str]] = {}  # which of the terms they are found by, if any

    def find(self, text: str) -> Collection[str]:
        """The terms that a text holds."""
        words = set(find_words(text))
        new = list(words - self._seen)
        for at in find_holding(new, self._weights):
            if terms := self._weights.keys() & index_terms(new[at]):
                self._held[new[at]] = terms
        self._seen |= words
        held = map(self._held.__getitem__, self._held.keys() & words)
        return (self._weights.keys() & find_symbols(text)).union(*held)

    def rate(self, held: Collection[str]) -> float:
        """The share of the terms' weight that these of them have."""
        return sum([weight for term, weight in self._weights.items() if term in held]) / self._sum


def split_comments(text: str) -> tuple[str, str]:
    """The code of a text, and its comments."""
    pieces = _COMMENT.split(text)  # by turns
    return " ".join(pieces[::2]), " ".join(pieces[1::2])


def measure_texts(
    passages: Sequence[Passage], asked: TermCoverage, reported: TermCoverage | None
) -> None:
    """The features of words, for passages that have their text."""
    for one in passages:
        row = one.features
        first = one.line - one.start_line
        lines = one.text.split("\n", first + _OPENING_LINES)
        opening = "\n".join(lines[first : first + _OPENING_LINES])
        own = one.text[:_OWN_CHARS]  # of which its documentation may be all
        own = own if opening in own else f"{own}\n{opening}"
        one.code, comments = split_comments(own)
        held = asked.find(one.code)
        row["code_lexical"] = asked.rate(held)
        if comments:
            held = {*held, *asked.find(comments)}
            row["is_off_topic"] = 1.0 - (asked.rate(held) - row["code_lexical"])
        row["says_all"] = float(asked.rate(held) > _NEARLY_ALL)
        row["opening_lexical"] = asked.rate(asked.find(opening))
        if reported:
            row["told_lexical"] = reported.rate(reported.find(own))
