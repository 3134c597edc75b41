"""Batches: 2025-03-26 says that a server must accept them, and no other revision has them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sonde.mcp.stdio.protocol import HANDSHAKE_VERSIONS


def make(number: object, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def send(raw: Any, *rows: Any) -> None:
    raw.write(json.dumps(rows).encode())


NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/initialized"}
SAY = {"name": "say", "arguments": {"query": "x"}}


def test_a_batch_is_answered_by_one(raw):
    raw.greet("2025-03-26")
    listed = raw.ask("tools/list")["result"]
    send(raw, make(8, "tools/call", **SAY), make(9, "tools/list"), NOTIFICATION)
    answers = {one["id"]: one["result"] for one in raw.receive()}
    assert answers.keys() == {8, 9}
    assert answers[8]["structuredContent"]["said"] == "x"
    assert answers[9] == listed


def test_what_is_invalid_in_a_batch_does_not_harm_the_rest(raw):
    raw.greet("2025-03-26")
    send(
        raw, 7, make(8, "ping"), {"jsonrpc": "2.0", "id": 9}, make(10, "tools/call"), make({}, "x")
    )
    answers = [(one["id"], one.get("error", {}).get("code")) for one in raw.receive()]
    assert sorted(answers, key=repr) == [
        (10, -32602), (8, None), (9, -32600), (None, -32600), (None, -32600),
    ]  # fmt: skip


def test_a_batch_that_is_none_gets_one_error_and_notifications_get_nothing(raw):
    raw.greet("2025-03-26")
    for line, code in ((b"[]", -32600), (b'[{"jsonrpc":"2.0"', -32700)):
        raw.write(line)
        answer = raw.receive()
        assert (answer["id"], answer["error"]["code"]) == (None, code)
    send(raw, NOTIFICATION, NOTIFICATION)
    assert raw.ask("ping")["result"] == {}


def test_the_rest_of_a_batch_is_answered_when_one_call_is_cancelled(raw, diary):
    raw.greet("2025-03-26")
    send(raw, make(8, "tools/call", name="linger"), make(9, "tools/call", **SAY))
    send(raw, make(10, "tools/call", name="linger"))
    diary.wait_for("lingering")
    for number in (8, 10):
        send(
            raw,
            {**NOTIFICATION, "method": "notifications/cancelled"}
            | {"params": {"requestId": number}},
        )
    assert [one["id"] for one in raw.receive()] == [9]
    assert raw.finish()[0] == b""


def test_a_batch_may_be_the_last_that_is_sent(raw):
    raw.greet("2025-03-26")
    send(raw, *(make(number, "tools/call", **SAY) for number in range(100, 140)))
    (line,) = raw.finish()[0].splitlines()
    assert sorted(one["id"] for one in json.loads(line)) == [*range(100, 140)]
    assert all("result" in one for one in json.loads(line))


@pytest.mark.parametrize("version", sorted({*HANDSHAKE_VERSIONS} - {"2025-03-26"}))
def test_other_revisions_have_no_batches(raw, version):
    raw.greet(version)
    send(raw, make(8, "ping"), make(9, "ping"))
    assert [(one["id"], one["error"]["code"]) for one in (raw.receive(), raw.receive())] == [
        (8, -32600), (9, -32600),
    ]  # fmt: skip
