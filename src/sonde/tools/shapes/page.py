"""PAGE's answer, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from sonde.errors import InvalidRequest
from sonde.types import Hit

_MOST_BYTES = 1_000_000
_LONGEST_QUERY = 200
_LONGEST_PARAMETERS = 400
_SHORT = 40


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


def show_search_query(query: str) -> str:
    """The query as the answer repeats it: its beginning, when it is very long."""
    return query if len(query) <= _LONGEST_QUERY else query[: _LONGEST_QUERY - 1] + "…"


def show_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as the answer repeats them: shortened when together they are very long."""
    shown = {name: list(v) if isinstance(v, tuple) else v for name, v in parameters.items()}
    if len(json.dumps(shown)) <= _LONGEST_PARAMETERS:
        return shown
    return {name: _shorten(value) for name, value in shown.items()}


def _shorten(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _SHORT else value[: _SHORT - 1] + "…"
    if isinstance(value, list):
        return [_shorten(item) for item in value[:2]] + ["…"] * (len(value) > 2)
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
