"""What tools answer over stdio: one long session, one file for each call."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.golden.golden import check_all, check_names, show_json
from tests.golden.room import Room, Wire
from tests.waiting import wait_until

SEARCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "search_code": ("search_code", {"query": "how are passwords stored", "top_k": 2}),
    "search_code-name": ("searchCode", {"query": "OutOfStock", "topK": 1, "explain": True}),
    "search_code-path": ("search_code", {"query": "checkout", "path": "tests", "mode": "lexical"}),
    "search_code-all": ("search_code", {"query": "barcode", "project": "all", "top_k": 1}),
    "search_code-nothing": ("search_code", {"query": "xyzzyqwerty", "mode": "lexical"}),
    "search_docs": ("search_docs", {"query": "how do I roll back a release", "top_k": 2}),
    "search_by_path": ("search_by_path", {"pattern": "**/test_*.py"}),
    "semantic_search": ("semantic_search", {"query": "rate limit", "page_size": 2}),
    "hybrid_search": (
        "hybrid_search", {"query": "retry failed requests", "language": "typescript", "top_k": 2},
    ),
    "lexical_search": (
        "lexical_search", {"query": "cart price", "include": ["server/**"], "snippet_length": 80},
    ),
    "regex_search": (
        "regex_search", {"pattern": r"def \w+_password", "context_lines": 1, "page_size": 2},
    ),
    "regex_search-case": ("regex_search", {"pattern": "CART", "ignore_case": True, "top_k": 3}),
    "cortex_search": ("cortex_search", {"query": "checkout", "limit": 2}),
    "cortex_search-symbols": (
        "cortex_search", {"query": "connections", "chunk_types": ["symbols"], "tags": ["python"]},
    ),
    "get_index_status": ("get_index_status", {}),
    "list_projects": ("list_projects", {}),
    "reindex_file": ("reindex_file", {"path": "server/app.py"}),
    "knowledge_search": ("knowledge_search", {"query": "walrus", "dedupe": False}),
    "notes_search": ("notes.search", {"query": "東京", "limit": 1}),
    "media_search": ("media_search", {"query": "walrus"}),
    "search": ("search", {"query": "walrus checkout"}),
}  # fmt: skip
MISTAKES: dict[str, tuple[str, dict[str, Any]]] = {
    "mistake-tool": ("serch_code", {"query": "x"}),
    "mistake-argument": ("regex_search", {"pattern": "x", "page_siz": 3}),
    "mistake-type": ("search_code", {"query": "x", "top_k": "many"}),
    "mistake-range": ("search_code", {"query": "x", "top_k": 0}),
    "mistake-missing": ("search_by_path", {}),
    "mistake-empty": ("search_code", {"query": "  "}),
    "mistake-pattern": ("regex_search", {"pattern": "(unclosed"}),
    "mistake-cursor": ("semantic_search", {"cursor": "nonsense"}),
    "mistake-project": ("search_code", {"query": "x", "project": "nowhere"}),
    "mistake-file": ("reindex_file", {"path": "nothing.py"}),
    "mistake-entry": ("knowledge_get", {"source": "notes", "id": "nothing"}),
    "mistake-fetch": ("fetch", {"id": "nothing"}),
    "mistake-handle": ("inspect", {"node_id": "nothing"}),
    "mistake-filter": ("query_run", {"filter": "size>>2"}),
    "mistake-job": ("job_progress", {"job_id": "nothing"}),
    "unconfirmed-create_index": ("create_index", {}),
    "unconfirmed-delete_index": ("delete_index", {}),
}
READ = (
    "sonde://projects", "sonde://files/server/config.py?lines=1-5", "sonde://chunks/README.md",
    "sonde://search/paths?pattern=*.md", "sonde://nothing",
)  # fmt: skip


class Session:
    """Calls tools and keeps what they answered, by name."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.answers: dict[str, Any] = {}

    def call(self, name: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool; its answer as structure, or nothing after an error of the protocol."""
        answer = self._wire.ask("tools/call", {"name": tool, "arguments": arguments})
        result = answer.get("result", {})
        if "structuredContent" in result:
            (block,) = result["content"]
            told = json.dumps(
                result["structuredContent"], ensure_ascii=False, separators=(",", ":")
            )
            assert block == {"type": "text", "text": told}, "as text it is the same"
            result["content"] = "the same as text"
        self.answers[name] = {"call": {"name": tool, "arguments": arguments}, **answer}
        return dict(result.get("structuredContent", {}))

    def read(self, uri: str) -> None:
        """Read a resource."""
        answer = self._wire.ask("resources/read", {"uri": uri})
        for one in answer.get("result", {}).get("contents", ()):
            if one["mimeType"] == "application/json":
                one["text"] = json.loads(one["text"])
        name = "".join(letter if letter.isalnum() else "-" for letter in uri.partition("//")[2])
        self.answers[f"read-{name}"] = {"read": uri, **answer}


def walk_disk(call: Callable[..., dict[str, Any]], root: Path) -> None:
    """Scan a folder and look around in it."""
    job = call("index", "index", root=str(root))["jobId"]
    wait_until(
        lambda: call("job_progress", "job_progress", job_id=job)["status"] != "running", "a scan"
    )
    listed = call("cd", "cd", path=str(root), limit=4)
    nodes = [entry["nodeId"] for entry in listed["entries"]]
    call("cd-below", "cd", path="server/orders")
    call("cd-back", "cd", path="-", limit=1)
    call("inspect", "inspect", node_id=nodes[1])
    call("inspect-folder", "inspect", path="server")
    one = call("set-create", "resource_set_ops", op="create", name="one", node_ids=nodes[:2])
    found = call("query_run", "query_run", filter="ext:py size>600", name="large")
    ids = {"selection_id": one["selectionId"], "other": found["selectionId"]}
    call("set-union", "resource_set_ops", op="union", name="both", **ids)
    call("set-remove", "resource_set_ops", op="remove", node_ids=nodes[:1],
         selection_id=one["selectionId"])  # fmt: skip
    call("set-delete", "resource_set_ops", op="delete", selection_id=one["selectionId"])
    call("query_list", "query-list")
    call("query_get", "query_get", query_id=found["queryId"])
    call("session_preferences", "session_preferences", units="iec", sort="size")
    call("cd-preferred", "cd", path=str(root), limit=3)


@pytest.mark.parametrize("daemon", ["off", "on"])
def test_a_session_is_as_recorded(tmp_path: Path, daemon: str) -> None:
    room = Room.make(tmp_path, SONDE_TOOLSETS="all", SONDE_WATCHING="off", SONDE_DAEMON=daemon)
    root = room.copy_shop()
    room.import_notes()
    with Wire(room, root) as wire:
        wire.greet()
        session = Session(wire)
        call = session.call
        call("unindexed", "search_code", query="password")
        call("unindexed-status", "get_index_status")
        asked = call("create_index", "create_index")
        call("create_index-confirmed", "create_index", confirm=asked["nextAction"].split("'")[1])
        found = {name: call(name, tool, **given) for name, (tool, given) in SEARCHES.items()}
        cursor = found["semantic_search"]["pagination"]["next_cursor"]
        call("semantic_search-next", "semantic_search", cursor=cursor)
        note = found["knowledge_search"]["results"][0]["id"]
        call("knowledge_get", "knowledge_get", source="notes", id=note, retrieval={"mode": "full"})
        call("fetch", "fetch", id=found["search"]["results"][0]["id"])
        walk_disk(call, root)
        for name, (tool, given) in MISTAKES.items():
            call(name, tool, **given)
        for uri in READ:
            session.read(uri)
        session.answers["mistake-method"] = wire.ask("nothing/at-all")
    assert room.run("daemon", "stop").returncode == (daemon == "off")
    texts = {f"mcp/{name}.json": room.mask(show_json(it)) for name, it in session.answers.items()}
    check_all(texts)
    check_names("mcp", [Path(name).name for name in texts])
