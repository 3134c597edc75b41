"""What is on the pipes, byte for byte, and when the process ends."""

from __future__ import annotations

import io
import json
import os
import threading
from collections import deque

import pytest
from tests.mcp.conftest import TOY, RawClient, make_environment, run_client
from tests.waiting import wait_until

from sonde.mcp.stdio.wire import MAX_UNREAD, Wire


@pytest.mark.row("001-5")
def test_nothing_but_protocol_is_ever_on_stdout(raw):
    raw.greet()
    raw.call("chatter")
    out, err, _ = raw.finish()
    assert out == b""
    assert all(message["jsonrpc"] == "2.0" for message in raw.received)
    for noise in ("before serving", "from python", "from C", "from a child", "after serving"):
        assert f"noise {noise}" in err


def test_the_handshake_is_answered_once(raw):
    first = raw.greet()
    assert first["result"]["serverInfo"]["name"] == "sonde"
    assert raw.call("say", query="hello")["result"]["structuredContent"]["said"] == "hello"
    out, _, _ = raw.finish()
    assert out == b""


def test_tools_are_listed_before_any_can_be_called_and_nothing_is_lost(slow_raw, permit):
    slow_raw.greet()
    assert slow_raw.ask("tools/list")["result"]["tools"]
    slow_raw.send("tools/call", {"name": "say", "arguments": {"query": "patience"}}, id="later")
    assert not permit.exists()
    permit.touch()
    answer = slow_raw.receive()
    assert answer["id"] == "later"
    assert answer["result"]["structuredContent"]["said"] == "patience"
    assert slow_raw.ask("tools/list")["result"]["tools"]


@pytest.mark.parametrize("toolsets", ["", "all"])
def test_the_real_server_says_early_what_it_says_later(tmp_path, toolsets):
    env = make_environment() | {"SONDE_HOME": str(tmp_path / "home"), "SONDE_TOOLSETS": toolsets}
    raw = RawClient("-m", "sonde.cli.main", "mcp", env=env, cwd=tmp_path)
    methods = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
    for client in run_client(raw):
        client.greet()
        early = [client.ask(method) for method in methods]
        # a call is answered by the SDK's server: from here on, so is everything
        assert client.call("list_projects")["result"]["structuredContent"]["totalProjects"] == 0
        later = [client.ask(method) for method in methods]
        for one, other in zip(early, later, strict=True):
            assert one | {"id": 0} == other | {"id": 0}
        assert client.finish()[0] == b""


def test_listing_needs_no_app(raw, diary):
    raw.greet()
    names = [tool["name"] for tool in raw.ask("tools/list")["result"]["tools"]]
    assert names == ["say", "fail", "count_up", "wait", "hang", "remove"]
    raw.finish()
    assert diary.events == []


DEEP = b'{"a":' * 300
LINES = {
    "text": (b"not json at all", [(None, -32700)]),
    "another encoding": ("\u2603".encode("utf-16"), [(None, -32700)]),
    "an unpaired surrogate": (
        (
            b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"say","arguments":'
            b'{"query":"\\ud83d"}}}'
        ),
        [(7, -32700)],
    ),
    "cut off": (b'{"jsonrpc":"2.0","id":"x-1","method":"tools/ca', [(None, -32700)]),
    "too deep": (
        b'{"params":' + DEEP + b"1" + b"}" * 300 + b',"method":"ping","id":8,"jsonrpc":"2.0"}',
        [(8, -32700)],
    ),
    "deep and without end": (b'{"id":9,"method":"m","params":' + DEEP, [(None, -32700)]),
    "an id inside the parameters": (b'{"method":"m","params":{"id":3}, oh', [(None, -32700)]),
    "a batch": (
        (
            b'[{"jsonrpc":"2.0","id":1,"method":"ping"}, {"jsonrpc":"2.0","method":"n"},'
            b'{"jsonrpc":"2.0","id":"two","method":"ping","params":{"id":5}}]'
        ),
        [(1, -32600), ("two", -32600)],
    ),
    "a method with an odd name": (b'{"id":3,"method":"error"}', [(3, -32600)]),
    "an id with half a character": (b'{"id":"\\ud800","method":"m"}', [("?", -32700)]),
    "an id that is broken": (b'{"id":"\\x","method":"m"}', [(None, -32700)]),
    "a huge id": (b'{"id":' + b"9" * 5_000 + b',"method":"m"}', [(None, -32700)]),
    "a large id": (b'{"id":' + b"9" * 30 + b',"method":"m"}', [(int("9" * 30), -32600)]),
    "a number that JSON does not have": (
        b'{"jsonrpc":"2.0","id":10,"method":"ping","params":{"a":NaN}}',
        [(10, -32700)],
    ),
    "half a response": (b'{"jsonrpc":"2.0","id":2,"result":{"a', [(None, -32700)]),
    "an empty batch": (b"[]", [(None, -32600)]),
    "an object of another kind": (b'{"hello":"world"}', [(None, -32600)]),
    "no version": (b'{"id":4,"method":"ping"}', [(4, -32600)]),
    "a method that is no name": (b'{"jsonrpc":"2.0","id":5,"method":6}', [(5, -32600)]),
    "parameters by position": (
        b'{"jsonrpc":"2.0","id":6,"method":"ping","params":[1]}',
        [(6, -32600)],
    ),
    "a response with a method that is no name": (
        b'{"jsonrpc":"2.0","id":2,"method":7,"params":["*"],"result":{}}',
        [(None, -32600)],
    ),
    "a response that is none": (b'{"jsonrpc":"2.0","id":2,"error":"oh"}', [(None, -32600)]),
}


@pytest.mark.row("000-P63", "004-123")
def test_every_line_that_is_no_message_is_answered_with_its_id(raw):
    raw.greet()
    for what, (line, wanted) in LINES.items():
        raw.write(line)
        answers = [raw.receive() for _ in wanted]
        assert [(one["id"], one["error"]["code"]) for one in answers] == wanted, what
    assert "result" in raw.call("say", query="still here")
    assert raw.finish()[0] == b""


@pytest.mark.parametrize("unfinished", [b'\\"', b'"a', b'["a",', b"\\"])
def test_a_large_message_that_is_cut_off_is_refused_at_once(diary, unfinished):
    """As of a client that dies while it sends a file: in seconds of CPU, not in hours."""
    resource = pytest.importorskip("resource")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (10, 10))

    line = b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"q":"' + unfinished * 500_000
    for client in run_client(RawClient(str(TOY), str(diary.path), preexec_fn=limit)):
        client.greet()
        client.write(line)
        answer = client.receive()
        assert (answer["id"], answer["error"]["code"]) == (None, -32700)


def test_a_mark_of_the_byte_order_is_passed_over(raw):
    raw.write(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}\r')
    assert raw.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_client_that_has_left_gets_the_rest_as_slowly_as_it_reads():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as answers, os.fdopen(writing, "wb") as sink:
        wire = Wire(io.BytesIO(), sink)
        for number in range(8):
            wire.send({"number": number, "text": "x" * 200_000})
        closing = threading.Thread(target=wire.close, args=(1.5,))
        closing.start()
        read, waited = [], []
        for _ in range(8):
            closing.join(0.3)
            waited.append(closing.is_alive())
            read.append(json.loads(answers.readline())["number"])
        closing.join()
    assert all(waited)
    assert read == [*range(8)]


def test_while_a_client_does_not_read_no_more_calls_are_begun(raw, diary):
    raw.greet()
    for number in range(100, 3100):
        raw.send("tools/call", {"name": "remove", "arguments": {}}, id=number)
    seen = deque([0], 10)

    def has_settled() -> bool:
        seen.append(diary.events.count("asking"))
        return seen[0] == seen[-1] >= MAX_UNREAD

    wait_until(has_settled)
    assert seen[-1] < 1000
    assert sorted(raw.receive()["id"] for _ in range(3000)) == [*range(100, 3100)]


def test_messages_larger_than_any_pipe_pass(raw):
    raw.greet()
    query = "\N{BOX DRAWINGS LIGHT HORIZONTAL}\N{RIGHT-POINTING MAGNIFYING GLASS}" * 50_000
    assert raw.call("say", query=query)["result"]["structuredContent"]["said"] == query


def test_a_request_is_answered_while_another_runs(raw, diary):
    raw.greet()
    raw.send("tools/call", {"name": "wait", "arguments": {}}, id=90)
    diary.wait_for("waiting")
    assert raw.call("say", query="meanwhile")["result"]["structuredContent"]["times"] == 1


@pytest.mark.parametrize("named", [90, "90"])
def test_cancelling_stops_the_work_and_is_not_answered(raw, diary, named):
    raw.greet()
    raw.send("tools/call", {"name": "wait", "arguments": {}}, id=90)
    diary.wait_for("waiting")
    for number in (None, 1, 91, "91", {}, named):
        raw.send("notifications/cancelled", {"requestId": number})
    diary.wait_for("stopped")
    assert raw.call("say", query="next")["result"]
    assert all(message["id"] != 90 for message in raw.received)


def test_a_name_that_is_not_unicode_reaches_the_client_as_unicode(raw):
    raw.greet()
    result = raw.call("odd")["result"]
    assert result["structuredContent"] == json.loads(result["content"][0]["text"])
    assert result["structuredContent"]["name"].startswith("caf\u00e9 \ufffd")
    assert result["structuredContent"]["nothing"] is None


def test_a_line_nested_without_end_harms_nobody_either(slow_raw, permit):
    slow_raw.write(b'{"a":' * 200_000)
    assert slow_raw.receive()["error"]["code"] == -32700
    slow_raw.greet()
    assert slow_raw.ask("tools/list")["result"]["tools"]
    permit.touch()
    assert "result" in slow_raw.call("say", query="still here")
