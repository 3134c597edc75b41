"""How much of an answer fits: tokens are characters / 4, rounded up."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

CHARS_PER_TOKEN = 4
_FIXED_CHARS = 400
"""Room for the answer's own fields and a cursor."""
_ROW_CHARS = 160
"""Room for a row's path, lines and score."""
_SHORTEST = 200
_LONGEST = 2_500

T = TypeVar("T")


def count_tokens(value: Any) -> int:
    """Tokens of a value as the minified JSON that a client gets."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return math.ceil(len(text) / CHARS_PER_TOKEN)


def snippet_limit(rows: int, max_tokens: int) -> int:
    """Characters of text each of `rows` rows may have so that all fit."""
    room = max_tokens * CHARS_PER_TOKEN - _FIXED_CHARS
    return max(_SHORTEST, min(_LONGEST, room // max(rows, 1) - _ROW_CHARS))


def fill_page(
    items: Sequence[T], render: Callable[[T], dict[str, Any]], max_tokens: int
) -> list[dict[str, Any]]:
    """Render items in order until the budget is spent; always at least one."""
    rows: list[dict[str, Any]] = []
    used = _FIXED_CHARS // CHARS_PER_TOKEN
    for item in items:
        row = render(item)
        used += count_tokens(row) + 1
        if rows and used > max_tokens:
            break
        rows.append(row)
    return rows
