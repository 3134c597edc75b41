"""The few lines of a chunk that answer; always whole lines, always as they are in the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sonde.ranking.question import Question
from sonde.text.words import find_holding, index_terms
from sonde.types import Span

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
        first, last = _best_window(sizes, weights, limit)
        return _show(lines, span, [(first, last)], limit)
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


def _locate(lines: Sequence[str], span: Span, first: int, last: int, shown: str | None) -> Span:
    """Where these lines are in the file; `shown` is their text where it may be cut inside."""
    start = span.start_byte + (len(encode_lines("\n".join(lines[:first]))) + 1 if first else 0)
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
