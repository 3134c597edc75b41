"""The rules of MCP for messages on a pipe, old and new: versions, envelopes, parameters.

Refusals are worded as the SDK words them; a test compares the two.
"""

from __future__ import annotations

from sonde.mcp.calls import INVALID_PARAMS, ProtocolError
from sonde.types import Json
from sonde.version import __version__

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
BATCH_VERSION, MODERN_VERSION = "2025-03-26", "2026-07-28"
METHOD_NOT_FOUND, UNSUPPORTED_VERSION, CONNECTION_CLOSED = -32601, -32022, -32000
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO = {"name": "sonde", "title": "sonde", "version": __version__}
SERVER_CAPABILITIES: Json = {
    "completions": {},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}
_LATER = ("resultType", "ttlMs", "cacheScope")
"""Keys of results that protocols with a handshake do not have."""


def complete_result(result: Json, *, is_modern: bool) -> Json:
    """The result as the client's generation of the protocol has it."""
    if is_modern:
        return {**result, "_meta": {"io.modelcontextprotocol/serverInfo": SERVER_INFO}}
    return {key: value for key, value in result.items() if key not in _LATER}


def check_envelope(method: str, params: Json) -> None:
    """Refuse a request that does not say what 2026-07-28 requires of each."""
    if method == "initialize":
        asked = params.get("protocolVersion")
        raise ProtocolError(
            UNSUPPORTED_VERSION,
            "connection is serving the 2026-07-28 protocol; the initialize handshake is not "
            "accepted",
            {"supported": [MODERN_VERSION]} | ({"requested": asked} if asked else {}),
        )
    meta, keys = params.get("_meta"), (VERSION_KEY, CAPABILITIES_KEY)
    if meta is None:
        text = "params._meta must be an object carrying the required {!r} and {!r} envelope keys"
        raise ProtocolError(INVALID_PARAMS, text.format(*keys))
    if missing := ", ".join(key for key in keys if key not in meta):
        text = f"params._meta is missing the required envelope key(s): {missing}"
        raise ProtocolError(INVALID_PARAMS, text)
    version = meta[VERSION_KEY]
    if not isinstance(version, str) or not isinstance(meta[CAPABILITIES_KEY], dict):
        raise malformed()
    if version != MODERN_VERSION:
        data = {"supported": [MODERN_VERSION], "requested": version}
        raise ProtocolError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def describe_error(error: ProtocolError) -> Json:
    """The error of a response."""
    facts: Json = {"code": error.code, "message": error.message}
    return facts if error.data is None else {**facts, "data": error.data}


def malformed() -> ProtocolError:
    """The error for parameters that are not those of their method."""
    return ProtocolError(INVALID_PARAMS, "Invalid request parameters", "")


def read_capabilities(declared: Json) -> Json:
    """The capabilities of a client: objects. Cursor declares `"tools": true` too, which is none."""
    return {name: one for name, one in declared.items() if isinstance(one, dict)}


def is_well_formed(method: str, params: Json) -> bool:
    """Whether a request has the parameters of its method."""
    if not isinstance(params.get("inputResponses"), dict | None):
        return False
    match method, params:
        case "initialize", {
            "protocolVersion": str(),
            "capabilities": dict(),
            "clientInfo": {"name": str(), "version": str()},
        }:
            return True
        case "tools/call", {"name": str()}:
            return isinstance(params.get("arguments"), dict | None)
        case "resources/read", {"uri": str()}:
            return True
        case "completion/complete", {
            "ref": {"type": "ref/resource", "uri": str()} | {"type": "ref/prompt", "name": str()},
            "argument": {"name": str(), "value": str()},
        }:
            context = params.get("context")
            return context is None or (
                isinstance(context, dict) and isinstance(context.get("arguments"), dict | None)
            )
        case "initialize" | "tools/call" | "resources/read" | "completion/complete", _:
            return False
    return isinstance(params.get("cursor"), str | None)
