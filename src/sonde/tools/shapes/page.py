"""PAGE's answer, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from sonde.errors import InvalidRequest
from sonde.types import Hit

_MOST_BYTES = 1_000_000
_ECHOED = 200
"""Characters of a parameter that are repeated in the answer."""
_ECHOED_ITEMS = 5


class PageAnswer(TypedDict):
    """What every search with pages answers."""

    search: dict[str, Any]
    results: dict[str, Any]
    pagination: dict[str, Any]
    metadata: dict[str, Any]


def show_match(
    hit: Hit,
    mode: str,
    *,
    content: bool,
    columns: Sequence[tuple[int, int]] = (),
    around: tuple[list[str], list[str]] | None = None,
    name_project: bool = False,
) -> dict[str, Any]:
    """One match; `columns` are the characters of the line that match."""
    match: dict[str, Any] = {
        "span": {
            "byte_start": hit.span.start_byte,
            "byte_end": hit.span.end_byte,
            "line_start": hit.span.start_line,
            "line_end": hit.span.end_line,
        }
    }
    if content:
        match["content"] = hit.text
    if mode == "regex":
        match["line_number"] = hit.span.start_line
        match["columns"] = [list(pair) for pair in columns]
    else:
        match["score"] = show_score(hit.score)
    if around:
        match["before"], match["after"] = around
    if hit.stale:
        match["stale"] = True
    file = {"path": hit.path, "language": hit.language}
    if name_project:
        file["project"] = hit.project
    return {"file": file, "match": match, "type": f"{mode}_match"}


def show_score(score: float) -> float:
    """Six digits: the rest only costs room. Thresholds are compared with what is shown."""
    return float(f"{score:.6g}")


def show_parameter(value: Any) -> Any:
    """A parameter as it is repeated in the answer; what is very long is cut."""
    if isinstance(value, str):
        return value if len(value) <= _ECHOED else value[: _ECHOED - 1] + "…"
    if isinstance(value, Sequence):
        shown = [show_parameter(item) for item in value[:_ECHOED_ITEMS]]
        return [*shown, "…"] if len(value) > _ECHOED_ITEMS else shown
    return value


def refuse_oversize(answer: Mapping[str, Any]) -> None:
    """`InvalidRequest` with a way on when a page is over 1 MB."""
    size = len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode())
    if size > _MOST_BYTES:
        raise InvalidRequest(
            f"the page has {size} bytes, at most {_MOST_BYTES}",
            user_message="This page would be larger than 1 MB.",
            next_action=(
                "Ask again with a smaller page_size, snippet_length or context_lines, or with "
                "include_snippet=false; a cursor may be used again with these."
            ),
        )
