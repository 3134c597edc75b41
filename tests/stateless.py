"""Tool calls as one HTTP request each, as the newest protocol has them."""

from __future__ import annotations

import json
from typing import Any

VERSION = "2026-07-28"


def frame_call(name: str, arguments: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a call."""
    facts = {
        "protocolVersion": VERSION,
        "clientInfo": {"name": "t", "version": "1"},
        "clientCapabilities": {},
    }
    meta = {f"io.modelcontextprotocol/{key}": value for key, value in facts.items()}
    params = {"name": name, "arguments": arguments, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": VERSION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
    }
    return json.dumps(body).encode(), headers


def read_reply(data: bytes) -> Any:
    """The message that answers, alone or as the last of a stream."""
    text = data.decode()
    events = [line[5:] for line in text.splitlines() if line.startswith("data:")]
    return json.loads(events[-1] if events else text)
