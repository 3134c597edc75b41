"""Answers the opening questions of a client while the protocol SDK is still being imported.

Some clients show a server's tools to their model only if they came within about a second, and
importing the SDK can take that long on a busy machine. What is asked first (the handshake, the
list of tools) has a fixed answer, so it is given at once, in exactly the words the SDK would use;
a test compares the two. Whatever is not plainly one of these waits for the SDK.
"""

from __future__ import annotations

from typing import Any

from sonde.mcp.listing import INSTRUCTIONS, LIST_TTL_MS, Listing
from sonde.version import __version__

HANDSHAKE_VERSIONS = ("2025-06-18", "2025-11-25")
MODERN_VERSION = "2026-07-28"
_META = "io.modelcontextprotocol/"
_NOT_OFFERED = ("prompts/list", "resources/list", "resources/templates/list")


class Front:
    """Knows how far a client's handshake got, and what to say to it."""

    def __init__(self, listing: Listing) -> None:
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
        if method == "initialize":
            result = self._greet(params)
        elif isinstance(meta, dict) and f"{_META}protocolVersion" in meta:
            result = self._answer_modern(method, params, meta)
        elif self._greeted and method in _NOT_OFFERED:
            error = {"code": -32601, "message": "Method not found", "data": method}
            return {"jsonrpc": "2.0", "id": number, "error": error}
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
                    "capabilities": {"tools": {"listChanged": False}},
                    "instructions": INSTRUCTIONS,
                    "protocolVersion": version,
                    "serverInfo": self._info,
                }
        return None

    def _answer_legacy(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if not self._greeted:
            return None
        if method == "tools/list" and "cursor" not in params:
            return {"tools": self._listing.entries}
        return {} if method == "ping" else None

    def _answer_modern(
        self, method: str, params: dict[str, Any], meta: dict[str, Any]
    ) -> dict[str, Any] | None:
        known = meta[f"{_META}protocolVersion"] == MODERN_VERSION
        if not known or not isinstance(meta.get(f"{_META}clientCapabilities"), dict):
            return None
        result: dict[str, Any]
        if method == "tools/list" and "cursor" not in params:
            result = {"tools": self._listing.entries}
        elif method == "server/discover":
            result = {
                "supportedVersions": [MODERN_VERSION],
                "capabilities": {"tools": {"listChanged": False}},
                "instructions": INSTRUCTIONS,
            }
        else:
            return None
        return result | {
            "resultType": "complete",
            "ttlMs": LIST_TTL_MS,
            "cacheScope": "public",
            "_meta": {f"{_META}serverInfo": self._info},
        }
