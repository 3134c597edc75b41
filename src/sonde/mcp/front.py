"""Answers the opening questions of a client while the protocol SDK is still being imported.

Some clients show a server's tools to their model only if they came within about a second, and
importing the SDK can take that long on a busy machine. What is asked first (the handshake, the
list of tools) has a fixed answer, so it is given at once, in exactly the words the SDK would use;
a test compares the two. Whatever is not plainly one of these waits for the SDK.
"""

from __future__ import annotations

from typing import Any

from sonde.mcp.manifest import INSTRUCTIONS, LIST_TTL_MS, Shown
from sonde.version import __version__

HANDSHAKE_VERSIONS = ("2025-06-18", "2025-11-25")
MODERN_VERSION = "2026-07-28"
_META = "io.modelcontextprotocol/"
_NOT_OFFERED = ("prompts/list",)
_CAPABILITIES: dict[str, Any] = {
    "completions": {},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}


class Front:
    """Knows how far a client's handshake got, and what to say to it."""

    def __init__(self, listing: Shown) -> None:
        self._listing = listing
        self._greeted = False
        self._info = {"name": "sonde", "title": "sonde", "version": __version__}

    def answer(self, message: Any) -> dict[str, Any] | None:
        """The response to a request that can be answered at once, else None."""
        match message:
            case {"jsonrpc": "2.0", "id": int() | str() as number, "method": str() as method}:
                params = message.get("params") or {}
            case _:
                return None
        if not isinstance(params, dict):
            return None
        meta = params.get("_meta") or {}
        modern = isinstance(meta, dict) and f"{_META}protocolVersion" in meta
        if method == "initialize":
            result = self._greet(params)
        elif modern and not _is_plain(meta):
            return None
        elif method in _NOT_OFFERED and (modern or self._greeted):
            error = {"code": -32601, "message": "Method not found", "data": method}
            return {"jsonrpc": "2.0", "id": number, "error": error}
        elif modern:
            result = self._answer_modern(method, params)
        else:
            result = self._answer_legacy(method, params)
        return None if result is None else {"jsonrpc": "2.0", "id": number, "result": result}

    def _greet(self, params: dict[str, Any]) -> dict[str, Any] | None:
        match params:
            case {
                "protocolVersion": str() as version,
                "capabilities": {},
                "clientInfo": {"name": str(), "version": str()},
            } if version in HANDSHAKE_VERSIONS:
                self._greeted = True
                return {
                    "capabilities": _CAPABILITIES,
                    "instructions": INSTRUCTIONS,
                    "protocolVersion": version,
                    "serverInfo": self._info,
                }
        return None

    def _answer_legacy(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if not self._greeted:
            return None
        return {} if method == "ping" else self._list(method, params)

    def _list(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if "cursor" in params:
            return None
        match method:
            case "tools/list":
                return {"tools": self._listing.entries}
            case "resources/list":
                return {"resources": self._listing.resources}
            case "resources/templates/list":
                return {"resourceTemplates": self._listing.templates}
        return None

    def _answer_modern(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        result = self._list(method, params)
        if method == "server/discover":
            result = {
                "supportedVersions": [MODERN_VERSION],
                "capabilities": _CAPABILITIES,
                "instructions": INSTRUCTIONS,
            }
        if result is None:
            return None
        return result | {
            "resultType": "complete",
            "ttlMs": LIST_TTL_MS,
            "cacheScope": "public",
            "_meta": {f"{_META}serverInfo": self._info},
        }


def _is_plain(meta: dict[str, Any]) -> bool:
    known = meta[f"{_META}protocolVersion"] == MODERN_VERSION
    return known and isinstance(meta.get(f"{_META}clientCapabilities"), dict)
