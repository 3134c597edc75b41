"""A session on a pipe says what the SDK says, and does not need it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage

from sonde.mcp.async_calls import AsyncCalls
from sonde.mcp.calls import LazyApp
from sonde.mcp.listing import DEFAULT_TOOLSETS, Listing
from sonde.mcp.manifest import load_manifest
from sonde.mcp.server import build_server
from sonde.mcp.stdio.protocol import HANDSHAKE_VERSIONS, MODERN_VERSION
from sonde.mcp.stdio.session import PipeSession
from sonde.mcp.stdio.wire import Wire, parse_line
from sonde.tools import ROUTES, TOOLS

META = "io.modelcontextprotocol/"


def make_request(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def make_greeting(version: str) -> dict[str, Any]:
    client = {"name": "test", "version": "1"}
    return make_request(
        1, "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    )


def make_modern(number: int, method: str, **params: Any) -> dict[str, Any]:
    meta = {
        f"{META}protocolVersion": MODERN_VERSION,
        f"{META}clientInfo": {"name": "test", "version": "1"},
        f"{META}clientCapabilities": {},
    }
    return make_request(number, method, {"_meta": meta, **params})


def ask_sdk(listing: Listing, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the SDK's server answers to these messages."""

    async def exchange() -> list[dict[str, Any]]:
        app = LazyApp(lambda: pytest.fail("no app needed"))
        server = build_server(listing, app, AsyncCalls())
        send, receive = anyio.create_memory_object_stream[Any](10)
        out_send, out_receive = anyio.create_memory_object_stream[Any](10)
        answers = []
        async with anyio.create_task_group() as group:
            options = server.create_initialization_options()
            group.start_soon(server.run, receive, out_send, options)
            for message in messages:
                parsed = types.jsonrpc_message_adapter.validate_python(message, by_name=False)
                await send.send(SessionMessage(parsed))
                reply = (await out_receive.receive()).message
                answers.append(reply.model_dump(by_alias=True, exclude_unset=True, mode="json"))
            send.close()
        out_receive.close()
        return answers

    return anyio.run(exchange)


def ask_session(listing: Listing, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a session on a pipe answers to these messages."""
    (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
    with (
        os.fdopen(in_read, "rb") as requests,
        os.fdopen(out_write, "wb") as replies,
        os.fdopen(out_read, "rb") as sink,
    ):
        session = PipeSession(Wire(requests, replies), lambda: listing)
        no_app = (lambda: pytest.fail("no app needed"),)
        serving = threading.Thread(target=session.serve, args=no_app, daemon=True)
        serving.start()
        answers = []
        with os.fdopen(in_write, "wb") as source:
            for message in messages:
                source.write(json.dumps(message).encode() + b"\n")
                source.flush()
                answers.append(json.loads(sink.readline()))
        serving.join()
    return answers


@pytest.mark.parametrize("version", [*HANDSHAKE_VERSIONS, "2099-01-01"])
def test_the_handshake_and_the_lists_are_those_of_the_sdk(toys, version):
    messages = [
        make_greeting(version),
        make_request(2, "tools/list", {}),
        make_request(3, "tools/list", {"_meta": {"progressToken": 1}}),
        make_request(4, "prompts/list", {}),
        make_request(5, "resources/list", {}),
        make_request(6, "resources/templates/list", {}),
        make_request(7, "ping", {}),
        make_modern(8, "tools/list"),
    ]
    listing = toys.TOY_LISTING
    assert ask_session(listing, messages) == ask_sdk(listing, messages)


def test_discovery_and_the_lists_are_those_of_the_sdk_in_the_newer_generation(toys):
    messages = [
        make_modern(1, "server/discover"),
        make_modern(2, "tools/list"),
        make_modern(3, "resources/list"),
        make_modern(4, "resources/templates/list"),
        make_modern(5, "prompts/list"),
        make_greeting("2025-11-25"),
        make_request(7, "tools/list", {}),
        make_request(8, "tools/list", {"_meta": {f"{META}protocolVersion": MODERN_VERSION}}),
    ]
    listing = toys.TOY_LISTING
    assert ask_session(listing, messages) == ask_sdk(listing, messages)


@pytest.mark.parametrize(
    "declared",
    [
        {"tools": True, "prompts": False, "elicitation": {}, "roots": {"listChanged": False}},
        {"sampling": {}, "extensions": {"a/b": {}}, "x": [1], "y": None},
    ],
    ids=["cursor", "others"],
)
def test_capabilities_that_mcp_does_not_know_are_passed_over(toys, declared):
    greeting = make_greeting("2025-06-18")
    greeting["params"]["capabilities"] = declared
    modern = make_modern(1, "tools/list")
    modern["params"]["_meta"][f"{META}clientCapabilities"] = declared
    for message in (greeting, modern):
        answers = ask_session(toys.TOY_LISTING, [message])
        assert "result" in answers[0]
        assert answers == ask_sdk(toys.TOY_LISTING, [message])


@pytest.mark.parametrize(
    "message",
    [
        make_request(1, "tools/list", {}),
        make_request(1, "tools/call", {"name": "say"}),
        make_request(1, "initialize", {"protocolVersion": "2025-11-25"}),
    ],
)
def test_a_bad_beginning_is_refused_as_by_the_sdk(toys, message):
    (here,), (there,) = (ask(toys.TOY_LISTING, [message]) for ask in (ask_session, ask_sdk))
    if message["method"] != "initialize":  # people try it by hand, and are told more
        assert here["error"].pop("message") == "Send `initialize` first"
        assert there["error"].pop("message")
    assert here == there


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
methods = st.sampled_from(
    ["initialize", "tools/list", "resources/list", "ping", "server/discover", "x"]
)


@given(json_values, methods, json_values, json_values)
def test_any_message_is_a_message_or_refused_with_its_id(anything, method, number, params):
    parse_line(json.dumps(anything).encode())
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    read, refusals, together = parse_line(json.dumps(message).encode())
    usable = isinstance(number, int | str) and not isinstance(number, bool)
    assert not together
    if read:
        assert read == [message]
        assert usable
    else:
        assert [refusal["id"] for refusal in refusals] == [number if usable else None]


def test_what_was_written_down_is_what_the_tools_say():
    listing = Listing(TOOLS, routes=ROUTES)
    manifest = load_manifest(DEFAULT_TOOLSETS, "portable", enhanced=False)
    assert manifest == listing.lists


@pytest.mark.parametrize(
    ("toolsets", "spelling", "enhanced"),
    [(("all",), "portable", False), (DEFAULT_TOOLSETS, "both", False),
     (DEFAULT_TOOLSETS, "portable", True)],
)  # fmt: skip
def test_other_settings_are_not_answered_from_what_was_written_down(toolsets, spelling, enhanced):
    assert load_manifest(toolsets, spelling, enhanced=enhanced) is None


def test_the_first_answer_needs_nothing_heavy():
    heavy = ("sonde.tools", "sonde.app", "numpy", "apsw", "mcp", "anyio", "pydantic")
    program = (
        "import sys, sonde.cli.main, sonde.cli.commands.serve, sonde.mcp.stdio\n"
        "from sonde.mcp.manifest import load_manifest\n"
        "assert load_manifest(('code', 'index', 'research'), 'portable', enhanced=False)\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_no_call_on_a_pipe_needs_the_sdk():
    program = (
        "import sys, sonde.mcp.stdio, sonde.mcp.requests, sonde.tools, sonde.app\n"
        "[*sonde.tools.TOOLS, *sonde.tools.ROUTES]\n"
        "print([name for name in ('mcp', 'pydantic', 'starlette') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
