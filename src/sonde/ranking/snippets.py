"""The few lines of a chunk that answer; always whole lines, always as they are in the file."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sonde.ranking.words import Question
from sonde.tokens import index_terms
from sonde.types import Span

_ELLIPSIS_LINE = 400
"""One line longer than this (minified code) is cut inside."""


def cut_snippet(
    question: Question, text: str, span: Span, limit: int, *, symbol: str = ""
) -> tuple[str, Span]:
    """At most `limit` characters of whole lines around the best match, and where they are.

    The line that opens the definition of `symbol` counts as a match of its own.
    """
    if len(text) <= limit:
        return text.rstrip("\n"), _trim_end(text, span)
    lines = text.split("\n")
    weights = _weigh_lines(question, lines)
    name = symbol.rsplit(".", 1)[-1]
    opening = next((at for at, line in enumerate(lines) if name and name in line), None)
    if opening is not None:
        weights[opening] += 0.5 * max(weights) + 0.5
    first, last = _best_window([len(line) + 1 for line in lines], weights, limit)
    shown = "\n".join(lines[first : last + 1])
    start = len("\n".join(lines[:first]).encode()) + (1 if first else 0)
    if len(shown) > limit:
        shown = shown[: max(limit, 1)]
    start_byte = span.start_byte + start
    return shown, Span(
        span.start_line + first,
        span.start_line + last,
        start_byte,
        start_byte + len(shown.encode("utf-8", "surrogatepass")),
    )


def _trim_end(text: str, span: Span) -> Span:
    blank = len(text) - len(text.rstrip("\n"))
    if not blank:
        return span
    lines = text.rstrip("\n").count("\n")
    return Span(span.start_line, span.start_line + lines, span.start_byte, span.end_byte - blank)


def _weigh_lines(question: Question, lines: Sequence[str]) -> list[float]:
    wanted = set(question.terms)
    seen: set[str] = set()
    weights: list[float] = []
    for line in lines:
        if line.isascii() and not _may_hold(wanted, line):
            weights.append(0)
            continue
        found = wanted.intersection(index_terms(line[:_ELLIPSIS_LINE]))
        # a term counts fully the first time, little after that: variety beats repetition
        weights.append(sum(1.0 if term not in seen else 0.3 for term in found))
        seen |= found
    return weights


def _may_hold(wanted: Collection[str], line: str) -> bool:
    """Whether a line in ASCII can hold one of these terms; most lines cannot, which is cheap to
    tell: a term is a piece of the line without its underscores."""
    folded = line.lower().replace("_", "")
    return any(term in folded for term in wanted)


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
    used = sum(sizes[first : last + 1])
    while last + 1 < len(sizes) and used + sizes[last + 1] <= limit:
        last += 1
        used += sizes[last]
    while first > 0 and used + sizes[first - 1] <= limit:
        first -= 1
        used += sizes[first]
    return first, last
