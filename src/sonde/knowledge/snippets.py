"""A few words around the best match: plain text, one line, no visible character cut in two."""

from __future__ import annotations

from collections.abc import Collection

from sonde.graphemes import ceil_boundary, floor_boundary
from sonde.prose import read_words

DEFAULT_LENGTH, SHORTEST, LONGEST = 300, 50, 1_000
_ELLIPSIS = "…"
_HINT = 0.25
"""What a word of an earlier question is worth beside one of this."""


def clamp_length(length: int | None) -> int:
    """A snippet's length within its bounds."""
    return DEFAULT_LENGTH if length is None else max(SHORTEST, min(LONGEST, length))


def cut_snippet(text: str, terms: Collection[str], length: int, hints: Collection[str] = ()) -> str:
    """At most `length` characters around the place where most of the terms are."""
    flat = " ".join(text.split())
    if len(flat) <= length:
        return flat
    first, last = _find_place(flat, terms, hints, length)
    room = length - 2 * len(_ELLIPSIS)
    start = max(0, min((first + last - room) // 2, len(flat) - room))
    start = _begin_word(flat, start, first)
    end = _end_word(flat, min(len(flat), start + room), last)
    head = _ELLIPSIS if start > 0 else ""
    tail = _ELLIPSIS if end < len(flat) else ""
    return f"{head}{flat[start:end].strip()}{tail}"


def find_offset(text: str, terms: Collection[str]) -> int:
    """Where in the text the best match begins; 0 when there is none."""
    return _find_place(text, terms, (), DEFAULT_LENGTH)[0]


def _find_place(
    text: str, terms: Collection[str], hints: Collection[str], length: int
) -> tuple[int, int]:
    """Start and end of the run of matches, no longer than `length`, that says most."""
    starts = tuple(term[:-1] for term in terms if term.endswith("*"))
    wanted = dict.fromkeys(terms, 1.0) | {t: _HINT for t in hints if t not in terms}
    matches: list[tuple[int, int, str]] = []
    for word in read_words(text):
        term = next((t for t in word.terms if t in wanted), None)
        if term is None and starts:
            term = next((t for t in word.terms if t.startswith(starts)), None)
        if term is not None:
            matches.append((word.start, word.end, term))
    best = (0.0, 0, 0)
    for at, (start, _, _) in enumerate(matches):
        seen: dict[str, float] = {}
        for begin, end, term in matches[at : at + 64]:
            if end - start > length:
                break
            seen[term] = seen.get(term, 0.0) or wanted.get(term, 1.0)
            if sum(seen.values()) > best[0] + 1e-9:
                best = (sum(seen.values()), start, min(end, begin + length))
    return best[1], best[2]


def _begin_word(text: str, start: int, before: int) -> int:
    if start <= 0:
        return 0
    space = text.find(" ", start, min(start + 20, before))
    return space + 1 if space >= 0 else ceil_boundary(text, start)


def _end_word(text: str, end: int, behind: int) -> int:
    if end >= len(text):
        return len(text)
    space = text.rfind(" ", max(behind, end - 20), end + 1)
    return space if space > 0 else floor_boundary(text, end)
