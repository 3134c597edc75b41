"""Errors -> protocol, in one place: what a client gets when a tool raises."""

from __future__ import annotations

import json
import logging
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from sonde.errors import CatalogError, InvalidRequest, SondeError, TooManyRequests

_log = logging.getLogger("sonde.mcp")


def translate_error(error: Exception) -> dict[str, Any]:
    """The error result for a catalogued situation; anything else is raised as a protocol error."""
    if isinstance(error, CatalogError | TooManyRequests):
        return shape_answer(error.as_dict()) | {"isError": True}
    if isinstance(error, SondeError):
        code = INVALID_PARAMS if isinstance(error, InvalidRequest) else INTERNAL_ERROR
        if code == INTERNAL_ERROR:
            _log.error("%s", error.developer_message, exc_info=error)
        shown = f"{error.user_message} {error.next_action}"
        raise MCPError(code, shown, error.as_dict()) from error
    # Details of a defect stay in the log: they may quote what was being read.
    _log.error("a tool failed unexpectedly", exc_info=error)
    unexpected = SondeError(f"unexpected {type(error).__name__}; see the log")
    shown = f"{unexpected.user_message} {unexpected.next_action}"
    raise MCPError(INTERNAL_ERROR, shown, unexpected.as_dict()) from error


def shape_answer(answer: dict[str, Any]) -> dict[str, Any]:
    """A tool result: the object, and the same object once more as minified JSON text."""
    text = dump_answer(answer)
    if "\ufffd" in text:
        answer = json.loads(text)
    return {
        "resultType": "complete",
        "content": [{"type": "text", "text": text}],
        "structuredContent": answer,
    }


def dump_answer(answer: Any) -> str:
    """Minified JSON that is Unicode throughout; a file name need not be."""
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text
