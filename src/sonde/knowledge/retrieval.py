"""Excerpts of texts: the options of a call, and snippets, chunks and whole texts cut by them.

An excerpt never exceeds its budget: tokens are characters / `chars_per_token`, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate, pairwise
from typing import Any, Literal, TypedDict, cast, get_args

from sonde.ranking.snippets import DEFAULT_LENGTH, find_run
from sonde.stores.knowledge.base import Entry, Piece
from sonde.text.cuts import ceil_boundary, cut_ranges, floor_boundary
from sonde.values import Kind, check_choice, convert_kind, invalid_value, nearest_name, to_snake

SHORTEST, LONGEST = 50, 1_000  # characters of a snippet
_ELLIPSIS = "…"
WORD_SEARCH_CHARS = 20  # how far a snippet's ends may move to reach the edge of a word


def clamp_length(length: int | None) -> int:
    """A snippet's length within its bounds."""
    return DEFAULT_LENGTH if length is None else max(SHORTEST, min(LONGEST, length))


def cut_excerpt(text: str, place: tuple[int, int], length: int) -> str:
    """At most `length` characters around a place of the text."""
    flat = " ".join(text.split())
    if len(flat) <= length:
        return flat
    room = length - 2 * len(_ELLIPSIS)
    before, shown = (" ".join(each.split()) for each in (text[: place[0]], text[slice(*place)]))
    first = len(before) + 1 if before else 0
    last = min(first + min(len(shown), room), len(flat))
    start = max(0, min((first + last - room) // 2, len(flat) - room))
    if start > 0:  # at the beginning of a word, if one is near
        space = flat.find(" ", start, min(start + WORD_SEARCH_CHARS, first))
        start = space + 1 if space >= 0 else ceil_boundary(flat, start)
    end = start + room
    if end < len(flat):
        space = flat.rfind(" ", max(last, end - WORD_SEARCH_CHARS), end + 1)
        end = space if space > 0 else floor_boundary(flat, end)
    head = _ELLIPSIS if start > 0 else ""
    tail = _ELLIPSIS if end < len(flat) else ""
    return f"{head}{flat[start:end].strip()}{tail}"


PIECE_CHARS = 1_500
"""Size of a stored piece: enough to answer a question, small enough to show in full."""


def cut_pieces(text: str, field: str = "", place: int = 0) -> Iterator[Piece]:
    """A text as pieces without gap or overlap; none for an empty text."""
    if text:
        for at, (start, end) in enumerate(cut_ranges(text, PIECE_CHARS)):
            yield Piece(text[start:end], place + at, start, field)


def cut_fields(fields: Mapping[str, str]) -> tuple[Piece, ...]:
    """The texts of several fields as pieces, numbered through."""
    pieces: list[Piece] = []
    for name, text in fields.items():
        pieces.extend(cut_pieces(text, name, len(pieces)))
    return tuple(pieces)


Mode = Literal["snippet", "chunk", "chunk_with_siblings", "full", "auto"]
MODES: tuple[Mode, ...] = get_args(Mode)
Order = Literal["relevance", "recent"]


class KnowledgePreferences(TypedDict, total=False):
    """Defaults that a session or a request sets for its calls."""

    snippet_length: int
    max_tokens: int
    sibling_window: int
    order_by: Order
    chars_per_token: int


@dataclass(frozen=True, slots=True)
class Location:
    """A place in an entry, as `loc` in a search result gives it."""

    media_id: str = ""
    conversation_id: str = ""
    chunk_index: int | None = None
    chunk_uuid: str = ""
    approx_offset: int | None = None
    field: str = ""
    message_id: str = ""
    message_index: int | None = None


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Which part of an entry to return."""

    snippet_length: int = 300
    max_tokens: int = 5_000
    chars_per_token: int = 4
    chunk_size_tokens: int = 300
    chunk_overlap_tokens: int = 0
    sibling_window: int = 2
    offset: int = 0
    """The first character in mode `full`."""
    mode: Mode = "snippet"
    prefer_prechunked: bool = True
    loc: Location = Location()
    query: str = ""
    """The words to look for if `loc` is empty."""

    @property
    def budget(self) -> int:
        """The budget in characters."""
        return self.max_tokens * self.chars_per_token


BOUNDS: Mapping[str, tuple[int, int]] = {
    "snippet_length": (SHORTEST, LONGEST), "max_tokens": (1, 20_000), "chars_per_token": (1, 16),
    "chunk_size_tokens": (10, 4_000), "chunk_overlap_tokens": (0, 2_000), "sibling_window": (0, 50),
    "offset": (0, 1 << 40),
}  # fmt: skip
"""Numbers outside are clamped, as the specification requires."""
OPTIONS = tuple(option.name for option in fields(Retrieval))
_KINDS: Mapping[str, Kind] = {"prefer_prechunked": "boolean", "query": "string", "loc": "object"}


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a text, and its chunks."""

    text: str
    chunks: tuple[tuple[int, int, int], ...] = ()
    """Number, start and end of each."""
    next_offset: int | None = None


def read_retrieval(
    given: Mapping[str, object] | None, preferences: KnowledgePreferences, mode: Mode = "snippet"
) -> Retrieval:
    """The options of a call over those of the session, clamped or checked."""
    asked = (given or {}).items()
    named = {to_snake(str(name)): value for name, value in asked if value is not None}
    options: dict[str, Any] = {
        name: _read_option(name, value)
        for name, value in [*preferences.items(), *named.items()]
        if name in BOUNDS or name in named
    }
    if options.setdefault("mode", mode) == "auto":
        options["mode"] = "chunk_with_siblings" if "max_tokens" in options else "snippet"
    return Retrieval(**options)


def check_preferences(given: Mapping[str, object]) -> KnowledgePreferences:
    """Preferences of a session or a request, clamped. Raises `InvalidRequest` for unknown ones."""
    names = tuple(KnowledgePreferences.__annotations__)
    kept = KnowledgePreferences()
    for name, value in given.items():
        if name not in names:
            raise invalid_value(f"`{name}` is no preference; there are {', '.join(names)}")
        if name == "order_by":
            check_choice(name, value, get_args(Order))
        else:
            value = _read_option(name, value)
        kept |= cast("KnowledgePreferences", {name: value})
    return kept


def _read_option(name: str, value: Any) -> object:
    """The checked value of an option. Raises `InvalidRequest`."""
    if name in BOUNDS:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise invalid_value(f"`{name}` must be a number")
        least, most = BOUNDS[name]
        return int(max(least, min(most, value)))
    if name == "mode":
        check_choice(name, value, MODES)
    elif name in _KINDS:
        value = convert_kind(name, _KINDS[name], value)
        return _read_location(value) if name == "loc" else value
    elif name not in OPTIONS:
        near = nearest_name(name, OPTIONS)
        advice = f"did you mean `{near}`?" if near else f"it has {', '.join(OPTIONS)}"
        raise invalid_value(f"`retrieval` has no `{name}`; {advice}")
    return value


def _read_location(given: Mapping[str, Any]) -> Location:
    """A location; parts of another type are ignored, as it is a hint."""
    known = Location()
    for part in fields(Location):
        value: Any = given.get(part.name)
        if part.name == "approx_offset" and isinstance(value, float) and math.isfinite(value):
            value = int(value)
        if part.default == "" and type(value) is int:
            value = str(value)
        is_valid = isinstance(value, str) if part.default == "" else type(value) is int
        if is_valid and not (part.name in ("approx_offset", "message_index") and value < 0):
            known = replace(known, **{part.name: value})
    return known


def show_text(
    text: str, options: Retrieval, anchor: int, pieces: Sequence[Piece] = (),
    place: int | None = None,
) -> Excerpt:  # fmt: skip
    """The part of a text around an offset, or around the piece at `place`, in the given mode."""
    budget = options.budget
    if options.mode == "full":
        start = min(options.offset, len(text))
        end = floor_boundary(text, start + budget)
        if end <= start < len(text):
            end = start + 1
        return Excerpt(text[start:end], (), end if end < len(text) else None)
    ranges = _list_ranges(text, options, pieces)
    if place is None or place >= len(ranges):
        place = next((at for at, (_, end) in enumerate(ranges) if end > anchor), len(ranges) - 1)
    first, last = (place, place) if options.mode == "chunk" else _grow(ranges, place, options)
    start, end = ranges[first][0], ranges[last][1]
    if end - start > budget:  # one chunk exceeds the budget: keep what surrounds the match
        start = floor_boundary(text, max(start, min(anchor - budget // 2, end - budget)))
        end = max(floor_boundary(text, start + budget), start + 1)
    chunks = tuple((at, *ranges[at]) for at in range(first, last + 1))
    return Excerpt(text[start:end], chunks)


def show_snippet(text: str, terms: Sequence[str], options: Retrieval, anchor: int) -> str:
    """A snippet around the best match, or around an offset."""
    if anchor and not terms:
        start = floor_boundary(text, max(0, anchor - options.snippet_length // 2))
        text = text[start : start + 2 * options.snippet_length]
    length = options.snippet_length
    return cut_excerpt(text, find_run(text, terms, length=length), length)


def choose_messages(messages: Sequence[Piece], at: int, options: Retrieval) -> list[Piece]:
    """The message at a place with its neighbours, within window and budget."""
    ranges = list(pairwise(accumulate((len(each.text) for each in messages), initial=0)))
    first, last = (at, at) if options.mode == "chunk" else _grow(ranges, at, options)
    return list(messages[first : last + 1])


def list_fields(entry: Entry) -> dict[str, str]:
    """An entry's texts by field, in order."""
    fields: dict[str, str] = {}
    for piece in entry.pieces:
        fields[piece.field] = fields.get(piece.field, "") + piece.text
    return fields


def _list_ranges(text: str, options: Retrieval, pieces: Sequence[Piece]) -> list[tuple[int, int]]:
    if pieces and options.prefer_prechunked:
        return [(piece.start, piece.start + len(piece.text)) for piece in pieces]
    size = options.chunk_size_tokens * options.chars_per_token
    overlap = options.chunk_overlap_tokens * options.chars_per_token
    return cut_ranges(text, size, min(overlap, size // 2))


def _grow(ranges: Sequence[tuple[int, int]], at: int, options: Retrieval) -> tuple[int, int]:
    """First and last range around `at`, grown right and left by turns within window and budget."""
    first = last = at
    right = left = True
    while right or left:
        right = right and last + 1 < len(ranges) and last - at < options.sibling_window
        if right:
            right = ranges[last + 1][1] - ranges[first][0] <= options.budget
            last += right
        left = left and first > 0 and at - first < options.sibling_window
        if left:
            left = ranges[last][1] - ranges[first - 1][0] <= options.budget
            first -= left
    return first, last
