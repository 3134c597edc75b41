"""What is shown of a text: the sentence that answers, the lines of a file that do."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from sonde.ranking.evidence import WORDS
from sonde.ranking.question import Question
from sonde.text.words import find_holding, index_terms, read_words
from sonde.types import Span

DEFAULT_LENGTH = 300  # characters of a snippet of prose
_HINT_WEIGHT = 0.25  # of a word of an earlier query; a word of this query has 1
_MOST_MATCHES = 64  # of one run; bounds the work on a text that is full of matches
_WRAP = r"(?<=[^\n]{40})\n[ \t]{0,8}(?=[a-z])"
"""A line break within a sentence: a long line goes on in lower case."""
_END = rf"[.!?…](?=\s)|[。！？]|$(?!{_WRAP})"
_SENTENCE = rf"(?m)\S(?:(?:.|{_WRAP}){{0,N}}?(?:{_END})|.{{0,N}}(?=\s)|.{{0,N}})"
"""Of at most N more characters; a longer one in parts."""
_MARKS = 3  # an ellipsis at each end, and the first character

_ELLIPSIS_LINE = 400  # one line longer than this (minified code) is cut inside
_LEAD = 2  # lines shown above the first that matches, while there are others to show below
_SIGNATURE_LINES = 12  # that a signature may run over: longer ones are shown in part
_GAP = "⋮"
_GAP_CHARS = 2  # a gap's own line


@dataclass(frozen=True, slots=True)
class Snippet:
    """The lines shown of a passage, and where they are."""

    text: str
    span: Span
    """From the first line shown to the last."""
    parts: tuple[tuple[int, int], ...] = ()
    """First and last line of each part, where lines between are left out; a line `⋮` stands for
    them."""


def find_answer(
    text: str, terms: Collection[str], hints: Collection[str], length: int,
    measure: Callable[[list[str]], Sequence[float]] | None,
) -> tuple[int, int]:  # fmt: skip
    """Start and end of the sentence that answers by its terms and by how near it is, weighed as
    texts are; without a `measure` of nearness, of the words. `hints` are terms that count less."""
    if measure is None:
        return find_run(text, terms, hints, length)
    pattern = _SENTENCE.replace("N", str(length - _MARKS))
    places = [sentence.span() for sentence in re.finditer(pattern, text)]
    sentences = [text[start:end] for start, end in places]
    best, answer = -math.inf, (0, 0)
    for place, sentence, near in zip(places, sentences, measure(sentences), strict=True):
        said = {term: weight for *_, term, weight in _list_matches(sentence, terms, hints)}
        score = near + WORDS * sum(said.values()) / (len(terms) or 1)
        if score > best:
            best, answer = score, place
    return answer


def find_run(
    text: str, terms: Collection[str], hints: Collection[str] = (), length: int = DEFAULT_LENGTH
) -> tuple[int, int]:
    """Start and end of the best run of matches of at most `length`, as short as its terms allow."""
    matches = list(_list_matches(text, terms, hints))
    most, run = 0.0, matches[:0]
    for at, (start, *_) in enumerate(matches):
        seen: dict[str, float] = {}
        for behind, (_, end, term, weight) in enumerate(matches[at : at + _MOST_MATCHES], at + 1):
            if end - start > length:
                break
            seen[term] = weight
            if sum(seen.values()) > most + 1e-9:
                most, run = sum(seen.values()), matches[at:behind]
    while len(run) > 1 and run[0][2] in {term for _, _, term, _ in run[1:]}:
        run = run[1:]
    return (run[0][0], min(run[-1][1], run[-1][0] + length)) if run else (0, 0)


def _list_matches(
    text: str, terms: Collection[str], hints: Collection[str]
) -> Iterator[tuple[int, int, str, float]]:
    """Start, end, term and weight of each word that matches."""
    starts = tuple(term[:-1] for term in terms if term.endswith("*"))
    wanted = dict.fromkeys(terms, 1.0) | {t: _HINT_WEIGHT for t in hints if t not in terms}
    for word in read_words(text):
        term = next((t for t in word.terms if t in wanted), None)
        if term is None and starts:
            term = next((t for t in word.terms if t.startswith(starts)), None)
        if term is not None:
            yield word.start, word.end, term, wanted.get(term, 1.0)


def cut_around(text: str, span: Span, limit: int, answer: tuple[int, int]) -> Snippet:
    """At most `limit` characters of whole lines around the place in the text that answers; of a
    line that is longer, the part around it."""
    lines = text.rstrip("\n").split("\n")
    sizes = [len(line) + 1 for line in lines]
    starts = list(accumulate(sizes, initial=0))
    weights = [float(start < answer[1] and answer[0] < end) for start, end in pairwise(starts)]
    first, last = _best_window(sizes, weights, limit)
    line = lines[first]
    if len(line) <= limit:
        return _show(lines, span, [(first, last)], limit)
    said = max(0, answer[0] - starts[first])
    begin = min(said, len(line) - limit)
    if begin < said:  # at the beginning of a word, if there is one
        begin = line.find(" ", begin, said) + 1 or begin
    shown = line[begin : begin + max(limit, 1)]
    return Snippet(shown, _locate(lines, span, first, last, shown, begin))


def cut_snippet(
    question: Question, text: str, span: Span, limit: int, *, opening: int | None = None
) -> Snippet:
    """At most `limit` characters of whole lines: all of them, or those that answer.

    `opening` is the line of the file that names what the text defines: its signature is shown in
    any case, then the lines that match best.
    """
    # what follows the last newline is the next line, which is not part of the chunk
    lines = text.rstrip("\n").split("\n")
    if len(text) <= limit:
        return Snippet("\n".join(lines), _locate(lines, span, 0, len(lines) - 1, None))
    sizes = [len(line) + 1 for line in lines]
    weights = _weigh_lines(question, lines)
    at = None if opening is None else opening - span.start_line
    if at is None or not 0 <= at < len(lines):
        return _show(lines, span, [_best_window(sizes, weights, limit)], limit)
    end = _find_signature_end(lines, at)
    at = 0 if at <= _LEAD else at
    while end > at and sum(sizes[at : end + 1]) > limit // 2:
        end -= 1
    weights[at : end + 1] = [0.0] * (end + 1 - at)
    room = limit - sum(sizes[at : end + 1]) - _GAP_CHARS
    # who asks for a name wants to see it from its beginning
    if room > 0 and any(weights) and not question.is_symbol:
        first, last = _best_window(sizes, weights, room)
        if first > end + 1 + _LEAD:
            return _show(lines, span, [(at, end), (first, last)], limit)
        if last < at - 1 - _LEAD:
            return _show(lines, span, [(first, last), (at, end)], limit)
        at = min(first, at)
    return _show(lines, span, [_grow(sizes, at, end, limit)], limit)


def _show(
    lines: Sequence[str], span: Span, parts: Sequence[tuple[int, int]], limit: int
) -> Snippet:
    gap = f"\n{_GAP}\n"
    shown = gap.join("\n".join(lines[first : last + 1]) for first, last in parts)[: max(limit, 1)]
    first, last = parts[0][0], parts[-1][1]
    apart = tuple((span.start_line + one, span.start_line + other) for one, other in parts)
    where = _locate(lines, span, first, last, shown if len(parts) == 1 else None)
    return Snippet(shown, where, apart if len(parts) > 1 else ())


def _locate(
    lines: Sequence[str], span: Span, first: int, last: int, shown: str | None, begin: int = 0
) -> Span:
    """Where these lines are in the file; `shown` is their text where it may be cut inside, from
    `begin` in the first."""
    before = "".join(f"{line}\n" for line in lines[:first]) + lines[first][:begin]
    start = span.start_byte + len(encode_lines(before))
    text = "\n".join(lines[first : last + 1]) if shown is None else shown
    line = span.start_line + first
    return Span(line, line + text.count("\n"), start, start + len(encode_lines(text)))


def _find_signature_end(lines: Sequence[str], at: int) -> int:
    """The line that ends a signature: where its brackets are closed."""
    depth = 0
    for end in range(at, min(at + _SIGNATURE_LINES, len(lines))):
        line = lines[end]
        depth += sum(map(line.count, "([")) - sum(map(line.count, ")]"))
        if depth <= 0:
            return end
    return min(at + _SIGNATURE_LINES, len(lines)) - 1


def _weigh_lines(question: Question, lines: Sequence[str]) -> list[float]:
    wanted = set(question.terms)
    seen: set[str] = set()
    weights = [0.0] * len(lines)
    for place in find_holding(lines, wanted):
        found = wanted.intersection(index_terms(lines[place][:_ELLIPSIS_LINE]))
        # a term counts fully the first time, little after that: variety beats repetition
        weights[place] = sum(1.0 if term not in seen else 0.3 for term in found)
        seen |= found
    return weights


def _best_window(sizes: Sequence[int], weights: Sequence[float], limit: int) -> tuple[int, int]:
    """The run of lines within `limit` characters that weighs most; the earliest of equals."""
    best = (-1.0, 0, 0)
    start, size, weight = 0, 0, 0.0
    for end, line_size in enumerate(sizes):
        size += line_size
        weight += weights[end]
        while size > limit + 1 and start < end:
            size -= sizes[start]
            weight -= weights[start]
            start += 1
        if weight > best[0] + 1e-9:
            best = (weight, start, end)
    _, first, last = best
    heavy = next((at for at in range(first, last + 1) if weights[at] > 0), first)
    first = max(first, heavy - _LEAD)  # what follows a match says more than what stands before it
    return _grow(sizes, first, last, limit)


def _grow(sizes: Sequence[int], first: int, last: int, limit: int) -> tuple[int, int]:
    """These lines and as many after them, then before them, as `limit` allows."""
    used = sum(sizes[first : last + 1])
    while last + 1 < len(sizes) and used + sizes[last + 1] <= limit:
        last += 1
        used += sizes[last]
    while first > 0 and used + sizes[first - 1] <= limit:
        first -= 1
        used += sizes[first]
    return first, last


def encode_lines(text: str) -> bytes:
    """The bytes of a text as its file holds them."""
    return text.encode("utf-8", "surrogatepass")
