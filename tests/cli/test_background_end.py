"""How an agent's server ends that is relayed to the background process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from tests.cli.behind import PATIENCE_S, SONDE, Agent, AskedAgent, count_agents, processes, wait_for
from tests.cli.conftest import Shell
from tests.processes import suspend

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
SEARCH = {"name": "search_code", "arguments": {"query": "invoice"}}


def close(agent: Agent, *names: str) -> None:
    for name in names:
        getattr(agent.process, name).close()


def make_lines(*messages: dict[str, object]) -> str:
    client = {"name": "test", "version": "1"}
    greeting = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    first = {"id": 0, "method": "initialize", "params": greeting}
    return "\n".join(json.dumps({"jsonrpc": "2.0", **each}) for each in (first, *messages))


@pytest.mark.parametrize("daemon", ["on", "off"])
def test_a_script_gets_an_answer_to_all_that_it_has_asked(served: Shell, daemon: str) -> None:
    """As `printf ... | sonde mcp`, whose first search waits for the process and for a model."""
    calls = [{"id": n, "method": "tools/call", "params": SEARCH} for n in range(1, 25)]
    done = subprocess.run(
        [*SONDE, "mcp"], input=make_lines(*calls), env={**served.environ, "SONDE_DAEMON": daemon},
        cwd=served.folder, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(each["id"] for each in answers) == [*range(25)]
    assert all("send.py" in str(each["result"]) for each in answers if each["id"])
    assert done.returncode == 0
    assert len(processes(served)) == (daemon == "on")


@pytest.mark.parametrize("names", [["stdout"], ["stdin", "stdout"]], ids=" ".join)
def test_a_client_that_reads_no_more_ends_its_server(served: Shell, names: list[str]) -> None:
    with AskedAgent(served) as agent:
        close(agent, *names)
        assert agent.process.wait(PATIENCE_S) == 0
    wait_for(lambda: not count_agents(served))


def test_a_client_that_reads_nothing_does_not_keep_it(served: Shell) -> None:
    with Agent(served) as agent:
        for _ in range(300):
            agent.begin("tools/list")
        close(agent, "stdin")
        began = time.monotonic()
        agent.process.wait(PATIENCE_S)
        assert time.monotonic() - began < 30
    wait_for(lambda: not count_agents(served))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_is_running_before_the_server_ends(served: Shell, number: int) -> None:
    """Whoever stops a server may delete its folders next."""
    with AskedAgent(served) as agent:
        (process,) = processes(served)
        suspend(process)
        agent.process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            agent.process.wait(1)
        os.kill(process, signal.SIGCONT)
        assert agent.process.wait(PATIENCE_S) == 0
        assert not count_agents(served)
        assert agent.process.stdout
        assert all("id" not in json.loads(line) for line in agent.process.stdout)


def test_a_process_that_dies_after_the_end_of_input_is_reported(served: Shell) -> None:
    with Agent(served) as agent:
        (process,) = processes(served)
        suspend(process)
        call, listing = agent.begin("tools/call", SEARCH), agent.begin("tools/list")
        wait_for(lambda: not agent.count_unread())
        close(agent, "stdin")
        os.kill(process, signal.SIGKILL)
        answers = {answer["id"]: answer for answer in (agent.receive(), agent.receive())}
        assert "Repeat the call" in answers[call]["error"]["message"]
        assert answers[listing]["result"]["tools"]


def test_a_batch_is_relayed_and_each_of_its_requests_survives_the_process(served: Shell) -> None:
    class Older(Agent):
        version = "2025-03-26"

    with Older(served) as agent:
        batch = (
            {"id": 7, "method": "tools/call", "params": SEARCH},
            {"id": 8, "method": "tools/list"},
            {"method": "notifications/initialized"},
        )
        agent.send(*batch)
        assert agent.process.stdout
        answers = json.loads(agent.process.stdout.readline())
        assert sorted(each["id"] for each in answers) == [7, 8]
        (process,) = processes(served)
        suspend(process)
        agent.send(*batch)
        wait_for(lambda: not agent.count_unread())
        agent.begin("ping")
        wait_for(lambda: not agent.count_unread())  # the batch was passed on before
        os.kill(process, signal.SIGKILL)
        found = {answer["id"]: answer for answer in (agent.receive() for _ in range(3))}
        assert "Repeat the call" in found[7]["error"]["message"]
        assert found[8]["result"]["tools"]
        assert "result" in agent.search()


def test_a_late_answer_to_a_dead_process_is_not_taken_for_another(served: Shell) -> None:
    with AskedAgent(served) as agent:
        (process,) = processes(served)
        os.kill(process, signal.SIGKILL)
        assert "Repeat the call" in agent.receive()["error"]["message"]
        again = agent.begin("tools/call", {"name": "reindex_project"})
        question = agent.receive()
        yes = {"action": "accept", "content": {"confirm": True}}
        agent.send({"id": agent.question["id"], "result": yes})
        assert agent.ask("ping")["result"] == {}
        agent.send({"id": question["id"], "result": {"action": "decline"}})
        answer = agent.receive()
        assert answer["id"] == again
        assert answer["result"]["isError"]
