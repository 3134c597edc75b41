"""How a server on a pipe ends: with its client's answers, or at once where nobody wants them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pytest
from tests.mcp.conftest import BOUND_S, Diary, RawClient
from tests.waiting import wait_until

from sonde.mcp.listing import Listing
from sonde.mcp.stdio.session import PipeSession
from sonde.mcp.stdio.wire import Wire


def begin(raw: RawClient, diary: Diary, name: str, event: str) -> None:
    """Start a call, and wait until its verb runs."""
    raw.greet()
    raw.send("tools/call", {"name": name, "arguments": {}}, id=9)
    diary.wait_for(event)


def close_stdin(raw: RawClient) -> None:
    assert raw.process.stdin
    raw.process.stdin.close()


def close_stdout(raw: RawClient) -> None:
    assert raw.process.stdout
    raw.process.stdout.close()


def read_rest(raw: RawClient) -> list[dict[str, Any]]:
    assert raw.process.stdout
    return [json.loads(line) for line in raw.process.stdout]


def test_all_that_was_asked_before_the_end_of_input_is_answered(raw):
    """As of `printf ... | sonde mcp`: also what is queued behind other calls, and each id once."""
    raw.greet()
    numbers = [7, "7", *range(100, 200), 7, "", -1]
    for number in numbers:
        raw.send("tools/call", {"name": "say", "arguments": {"query": "x"}}, id=number)
    answers = [json.loads(line) for line in raw.finish()[0].splitlines()]
    assert sorted((one["id"] for one in answers), key=repr) == sorted(numbers, key=repr)
    assert all(one["result"]["structuredContent"]["said"] == "x" for one in answers)


def test_a_call_that_runs_at_the_end_of_input_finishes(raw, diary):
    begin(raw, diary, "linger", "lingering")
    raw.send("tools/call", {"name": "say", "arguments": {"query": "x"}}, id="queued")
    close_stdin(raw)
    assert raw.receive()["id"] == "queued"
    with diary.path.open("a") as file:
        file.write("enough\n")
    assert [(one["id"], "result" in one) for one in read_rest(raw)] == [(9, True)]
    assert raw.process.wait(BOUND_S) == 0
    assert diary.events == ["opened", "lingering", "enough", "closed"]


@pytest.mark.parametrize("leave", [close_stdout, lambda raw: (close_stdin(raw), close_stdout(raw))])
def test_a_client_that_reads_no_more_ends_what_is_running(raw, diary, leave):
    begin(raw, diary, "linger", "lingering")
    leave(raw)
    assert raw.process.wait(BOUND_S) == 0
    assert diary.events == ["opened", "lingering", "closed"]


@pytest.mark.row("003-C41")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("prepare", [lambda _raw: None, close_stdin], ids=["open", "ended"])
def test_a_signal_ends_what_is_running(raw, diary, number, prepare):
    begin(raw, diary, "linger", "lingering")
    prepare(raw)
    raw.process.send_signal(number)
    (answer,) = read_rest(raw)
    assert (answer["id"], answer["error"]["message"]) == (9, "Connection closed")
    assert raw.process.wait(BOUND_S) == 0
    assert diary.events == ["opened", "lingering", "closed"]


def greet_as_one_that_can_be_asked(raw: RawClient) -> None:
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}}
    raw.ask("initialize", {**params, "clientInfo": client})


def test_after_the_end_of_input_nothing_is_asked(slow_raw, permit):
    greet_as_one_that_can_be_asked(slow_raw)
    slow_raw.send("tools/call", {"name": "remove", "arguments": {}}, id=9)
    close_stdin(slow_raw)
    permit.touch()
    (answer,) = read_rest(slow_raw)
    assert answer["result"]["structuredContent"]["code"] == "CONFIRMATION_REQUIRED"


def test_a_question_that_nobody_can_answer_any_more_is_refused(raw, diary):
    greet_as_one_that_can_be_asked(raw)
    raw.send("tools/call", {"name": "remove", "arguments": {}}, id=9)
    assert raw.receive()["method"] == "elicitation/create"
    raw.send("tools/call", {"name": "remove", "arguments": {}}, id=10)
    assert raw.receive()["method"] == "elicitation/create"
    close_stdin(raw)
    told = [one for one in read_rest(raw) if "result" in one]
    assert sorted(one["id"] for one in told) == [9, 10]
    codes = {one["result"]["structuredContent"]["code"] for one in told}
    assert codes == {"CONFIRMATION_REQUIRED"}


@contextmanager
def open_session(listing: Listing) -> Iterator[tuple[PipeSession, BinaryIO, BinaryIO]]:
    """A session, and the client's ends of its pipes."""
    (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
    with (
        os.fdopen(in_read, "rb") as requests,
        os.fdopen(out_write, "wb") as replies,
        os.fdopen(in_write, "wb") as source,
        os.fdopen(out_read, "rb") as answers,
    ):
        yield PipeSession(Wire(requests, replies), lambda: listing), source, answers


def test_even_a_call_that_does_not_end_is_answered(toys, diary):
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    with open_session(toys.TOY_LISTING) as (session, source, answers):
        for number, method, given in (
            (1, "initialize", params),
            (2, "tools/call", {"name": "linger"}),
        ):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": given}
            source.write(json.dumps(message).encode() + b"\n")
        source.close()
        assert session.serve(lambda: toys.Toy(diary.path), finish_s=0.2)
        assert "result" in json.loads(answers.readline())
        assert json.loads(answers.readline())["error"]["message"] == "Connection closed"


def is_over(name: str) -> bool:
    """Whether there is no thread of this name any more."""
    return all(thread.name != name for thread in threading.enumerate())


def test_background_work_does_not_begin_once_the_client_has_left(toys, diary):
    """It takes a while to open the app, and the client of the moment has gone meanwhile."""
    begun: list[Any] = []
    with open_session(toys.TOY_LISTING) as (session, source, _):

        def open_app() -> Any:
            source.close()
            wait_until(lambda: is_over("sonde-stdin"))
            return toys.Toy(diary.path)

        session.serve(open_app, begun.append)
        wait_until(lambda: is_over("sonde-begin"))
    assert diary.events == ["opened", "closed"]
    assert begun == []


def test_a_verb_that_hangs_does_not_keep_a_server_that_was_left(raw, diary):
    begin(raw, diary, "hang", "hanging")
    close_stdin(raw)
    close_stdout(raw)
    assert raw.process.wait(BOUND_S) == 0
    assert diary.events == ["opened", "hanging"]


def test_a_second_signal_does_not_wait_for_a_verb_that_hangs(raw, diary):
    begin(raw, diary, "hang", "hanging")
    raw.process.terminate()
    assert raw.receive()["error"]["message"] == "Connection closed"
    raw.process.terminate()
    assert raw.process.wait(BOUND_S) == 0


def test_closing_stdin_ends_the_server_and_closes_the_app(raw, diary):
    raw.greet()
    raw.call("say", query="hello")
    _, _, seconds = raw.finish()
    assert raw.process.returncode == 0
    assert diary.events == ["opened", "closed"]
    assert seconds < 5


PARENT = """
import json, subprocess, sys, time
child = subprocess.Popen([sys.executable, *sys.argv[2:]], stdin=subprocess.PIPE)
def send(**message):
    child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n")
    child.stdin.flush()
send(id=1, method="initialize", params={"protocolVersion": "2025-11-25", "capabilities": {},
     "clientInfo": {"name": "t", "version": "1"}})
send(method="notifications/initialized")
send(id=2, method="tools/call", params={"name": "linger"})
if sys.argv[1] == "ended":
    child.stdin.close()
time.sleep(600)
"""


@pytest.mark.parametrize("stdin", ["open", "ended"])
def test_the_server_ends_when_its_parent_is_killed(raw, diary, stdin):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, stdin, *raw.process.args[1:]], stdout=subprocess.PIPE
    )
    diary.wait_for("lingering")
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    diary.wait_for("closed")
