"""Token budgets: measuring answers, and cutting a page to size."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

CHARS_PER_TOKEN = 4
"""Characters per token in English text and code, for common tokenizers."""
ENVELOPE_TOKENS = 100
"""Tokens reserved for the answer's own fields and a cursor."""
_ROW_CHARS = 160
"""Tokens reserved for a row's path, lines and score."""
SHORTEST_SNIPPET = 20
"""The least text of a single row, in characters, however small the budget."""
_LEAST_SHARE, _LARGEST_SHARE = 200, 2_500
"""Characters per row before the page is cut: fewer rows are better than shorter ones, and no
snippet should be as long as a file."""

T = TypeVar("T")
R = TypeVar("R")
A = TypeVar("A")


def count_tokens(value: Any) -> int:
    """Tokens of a value as the minified JSON that a client gets."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return math.ceil(len(text) / CHARS_PER_TOKEN)


def snippet_limit(texts: Sequence[str], max_tokens: int) -> int:
    """Characters per row so that all rows fit; long rows share what short ones leave."""
    room = (max_tokens - ENVELOPE_TOKENS) * CHARS_PER_TOKEN - _ROW_CHARS * len(texts)
    limit = _LARGEST_SHARE
    sizes = sorted(len(text) + text.count("\n") + text.count('"') for text in texts)
    for at, size in enumerate(sizes):
        if size * (len(sizes) - at) > room:
            limit = room // (len(sizes) - at)
            break
        room -= size
    return max(_LEAST_SHARE, min(_LARGEST_SHARE, limit))


def fit_page(
    items: Sequence[T],
    write: Callable[[T, int], R],
    whole: Callable[[list[R]], A],
    budget: int | None,
    *,
    length: int = 0,
    shortest: int | None = None,
    shrink: tuple[int, int] = (2, 3),
    envelope: int | None = ENVELOPE_TOKENS,
    measure: Callable[[Any], int] = count_tokens,
) -> A:
    """The answer with as many of the first items as its budget allows; at least one, if any.

    `write(item, length)` makes one row with at most `length` characters of text, and
    `whole(rows)` the answer around the rows, which is what must fit. When a single row is too
    large, its text is cut to two thirds (`shrink`) again and again, down to `shortest`; without
    `shortest` it stays as it is. Rows are added while they fit beside `envelope` tokens; with
    None the whole answer is measured after each row, which is exact and slower. A budget of None
    takes every item. `measure` counts in other units than tokens.
    """
    if budget is None:
        return whole([write(item, length) for item in items])
    rows: list[R] = []
    used = envelope or 0
    for item in items:
        rows.append(write(item, length))
        if envelope is not None:
            used += measure(rows[-1]) + 1
        if len(rows) > 1 and (measure(whole(rows)) if envelope is None else used) > budget:
            rows.pop()
            break
    answer = whole(rows)
    # rows were measured one by one: only the whole counts every comma and field
    while rows and measure(answer) > budget:
        if len(rows) > 1:
            rows.pop()
        elif shortest is not None and length > shortest:
            length = max(length * shrink[0] // shrink[1], shortest)
            rows = [write(items[0], length)]
        else:
            break
        answer = whole(rows)
    return answer
