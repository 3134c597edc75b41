"""How often a user may call a tool: the law of the buckets, and the answers over each surface."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.web.test_knowledge_sessions import call

from sonde.errors import InvalidRequest, TooManyRequests
from sonde.mcp.listing import ToolLimits
from sonde.stores.knowledge.base import Entry, Piece
from sonde.stores.knowledge.sqlite import SqliteKnowledge

LIMITS = "knowledge.search=2/h, read_knowledge_entry=1/m"
TOKENS = {"ann": "a" * 24, "bob": "b" * 24}


def try_take(limits: ToolLimits, name: str, user: str) -> int:
    try:
        limits.take(name, user)
    except TooManyRequests as error:
        return int(error.facts["seconds"])
    return 0


@settings(max_examples=60)
@given(
    count=st.integers(1, 20),
    unit=st.sampled_from("smh"),
    gaps=st.lists(st.floats(0, 200), min_size=1, max_size=60),
)
@example(count=1, unit="m", gaps=[4.7058145724788645, 0.0])
def test_no_more_than_a_burst_and_the_rate_gets_in_and_waiting_as_told_helps(count, unit, gaps):
    now = [0.0]
    limits = ToolLimits([f"search={count}/{unit}"], ["search"], lambda: now[0])
    seconds = {"s": 1, "m": 60, "h": 3600}[unit]
    let_in = 0
    for gap in gaps:
        now[0] += gap
        wait = try_take(limits, "search", "ann")
        let_in += not wait
        assert let_in <= count + now[0] * count / seconds + 1e-6
        if wait:
            now[0] += wait
            assert try_take(limits, "search", "ann") == 0
            let_in += 1
    assert try_take(limits, "search", "bob") == 0
    assert try_take(limits, "other", "ann") == 0


@pytest.mark.row("004-119")
def test_a_tools_own_limit_comes_before_the_one_for_every_tool():
    limits = ToolLimits(["*=1/h", "notes.get=3/h"], ["notes_get", "search", "fetch"], lambda: 0.0)
    assert [try_take(limits, "notes_get", "ann") == 0 for _ in range(4)] == [True] * 3 + [False]
    for name in ("search", "fetch"):  # each by itself
        assert [try_take(limits, name, "ann") == 0 for _ in range(2)] == [True, False]
    with pytest.raises(InvalidRequest, match="serach"):
        ToolLimits(["serach=1/s"], ["search"])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("limited")
    for user in ("ann", "bob", "local"):
        store = SqliteKnowledge(home / "knowledge" / user)
        store.put("notes", [Entry("notes", "n", (Piece("walrus"),), id="n1")])
        store.close()
    (home / "tokens").write_text("".join(f"{user} {token}\n" for user, token in TOKENS.items()))
    return home


def environ(home: Path) -> dict[str, str]:
    return {"SONDE_HOME": str(home), "PATH": os.environ["PATH"], "SONDE_EMBEDDING": "none",
            "SONDE_TOOL_LIMITS": LIMITS}  # fmt: skip


@pytest.mark.row("004-119")
def test_over_http_a_call_too_many_says_when_to_come_back(start, home):
    server = start("-m", "sonde.cli.main", "--json", "serve", "--port", "0",
                   "--token-file", str(home / "tokens"), cwd=home, env=environ(home))  # fmt: skip
    bearer = {user: {"Authorization": f"Bearer {token}"} for user, token in TOKENS.items()}

    class As:
        def __init__(self, user: str) -> None:
            self._user = user

        def ask(self, path: str, method: str, body: bytes, headers: dict[str, str]) -> Any:
            return server.ask(path, method, body, headers | bearer[self._user])

    answers = [call(As("ann"), query="walrus", dedupe=False)["result"] for _ in range(3)]
    assert [answer.get("isError", False) for answer in answers] == [False, False, True]
    error = answers[2]["structuredContent"]
    assert error["code"] == "TOO_MANY_REQUESTS"
    assert 0 < error["retryAfterSeconds"] <= 1800
    assert str(error["retryAfterSeconds"]) in error["nextAction"]
    assert json.loads(answers[2]["content"][0]["text"]) == error
    assert "isError" not in call(As("bob"), query="walrus")["result"]

    address = "/api/knowledge/notes/n1"
    assert server.ask(address, headers=bearer["ann"])[0] == 200
    status, headers, body = server.ask(address, headers=bearer["ann"])
    assert (status, json.loads(body)["code"]) == (429, "TOO_MANY_REQUESTS")
    assert 0 < int(headers["retry-after"]) <= 60
    assert server.ask(address, headers=bearer["bob"])[0] == 200


def test_over_stdio_the_same_holds(home):
    ask = {"name": "knowledge_search", "arguments": {"query": "walrus", "dedupe": False}}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {},
             "clientInfo": {"name": "t", "version": "1"}}  # fmt: skip
    lines = [{"id": 0, "method": "initialize", "params": hello},
             {"method": "notifications/initialized"}]  # fmt: skip
    lines += [{"id": at, "method": "tools/call", "params": ask} for at in (1, 2, 3)]
    read = {"uri": "sonde://knowledge/notes/n1"}
    lines += [{"id": at, "method": "resources/read", "params": read} for at in (4, 5)]
    child = subprocess.Popen(
        [sys.executable, "-m", "sonde.cli.main", "mcp"], cwd=home, env=environ(home), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert child.stdin
    assert child.stdout
    answers: dict[int, Any] = {}
    for line in lines:
        child.stdin.write(json.dumps({"jsonrpc": "2.0"} | line) + "\n")
        child.stdin.flush()
        while "id" in line and line["id"] not in answers:
            answer = json.loads(child.stdout.readline())
            answers[answer.get("id", -1)] = answer
    child.communicate(timeout=30)
    assert [answers[at]["result"].get("isError", False) for at in (1, 2, 3)] == [False, False, True]
    assert answers[3]["result"]["structuredContent"]["retryAfterSeconds"] > 0
    assert answers[4]["result"]["contents"]
    assert answers[5]["error"]["data"]["code"] == "TOO_MANY_REQUESTS"


def test_a_limit_for_a_tool_that_is_not_there_is_told_at_the_start(home):
    wrong = environ(home) | {"SONDE_TOOL_LIMITS": "knowlege_search=1/s"}
    command = [sys.executable, "-m", "sonde.cli.main", "serve", "--port", "0"]
    done = subprocess.run(command, env=wrong, cwd=home, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "knowlege_search" in done.stderr
