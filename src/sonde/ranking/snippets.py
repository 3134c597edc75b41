"""The few lines of a chunk that answer; always whole lines, always as they are in the file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate

from sonde.ranking.question import Question
from sonde.text.words import index_terms
from sonde.types import Span

_ELLIPSIS_LINE = 400  # one line longer than this (minified code) is cut inside
_LEAD = 2  # lines shown above the first that matches, while there are others to show below


def cut_snippet(
    question: Question, text: str, span: Span, limit: int, *, symbol: str = ""
) -> tuple[str, Span]:
    """At most `limit` characters of whole lines around the best match, and where they are.

    The line that opens the definition of `symbol` counts as a match of its own.
    """
    # what follows the last newline is the next line, which is not part of the chunk
    lines = text.rstrip("\n").split("\n")
    if len(text) <= limit:
        shown, last = "\n".join(lines), span.start_line + len(lines) - 1
        end_byte = span.end_byte - (len(text) - len(shown))
        trimmed = Span(span.start_line, last, span.start_byte, end_byte)
        return shown, trimmed if shown != text else span
    weights = _weigh_lines(question, lines)
    name = symbol.rsplit(".", 1)[-1]
    opening = next((at for at, line in enumerate(lines) if name and name in line), None)
    if opening is not None:
        weights[opening] += 0.5 * max(weights) + 0.5
    first, last = _best_window([len(line) + 1 for line in lines], weights, limit)
    shown = "\n".join(lines[first : last + 1])[: max(limit, 1)]
    start_byte = span.start_byte + len("\n".join(lines[:first]).encode()) + (1 if first else 0)
    return shown, Span(
        span.start_line + first,
        span.start_line + last,
        start_byte,
        start_byte + len(shown.encode("utf-8", "surrogatepass")),
    )


def _weigh_lines(question: Question, lines: Sequence[str]) -> list[float]:
    wanted = set(question.terms)
    seen: set[str] = set()
    weights = [0.0] * len(lines)
    for place in _find_hopeful(wanted, lines):
        found = wanted.intersection(index_terms(lines[place][:_ELLIPSIS_LINE]))
        # a term counts fully the first time, little after that: variety beats repetition
        weights[place] = sum(1.0 if term not in seen else 0.3 for term in found)
        seen |= found
    return weights


def _find_hopeful(wanted: Collection[str], lines: Sequence[str]) -> Sequence[int]:
    """Which lines can hold a term at all; in ASCII that is cheap to tell, as every term is a piece
    of its line without underscores."""
    text = "\n".join(lines)
    if not text.isascii():
        return range(len(lines))
    folded = text.lower().replace("_", "")
    starts = [0, *accumulate(len(line) + 1 for line in folded.split("\n"))]
    hopeful: set[int] = set()
    for term in wanted:
        at = folded.find(term)
        while at >= 0:
            place = bisect_right(starts, at) - 1
            hopeful.add(place)
            at = folded.find(term, starts[place + 1])
    return sorted(hopeful)


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
    used = sum(sizes[first : last + 1])
    while last + 1 < len(sizes) and used + sizes[last + 1] <= limit:
        last += 1
        used += sizes[last]
    while first > 0 and used + sizes[first - 1] <= limit:
        first -= 1
        used += sizes[first]
    return first, last
