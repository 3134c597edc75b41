"""The background process: the same answers, one for all, and safe against every way of dying."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest
from tests.cli.conftest import FILES, PATIENCE_S, SONDE, Shell
from tests.processes import is_running
from tests.trees import write_files

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no Unix sockets")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    base = tmp_path_factory.mktemp("b")
    shell = Shell(write_files(base / "shop", FILES), base / "home", {"SONDE_EMBEDDING": "static"})
    assert shell.run("index").returncode == 0
    shell.extra["SONDE_DAEMON"] = "on"
    yield shell
    stop(shell)


@pytest.fixture
def shell(made: Shell) -> Iterator[Shell]:
    """An indexed project, without a process of others."""
    stop(made)
    yield made
    stop(made)


def stop(shell: Shell) -> None:
    for process in processes(shell):
        with suppress(OSError):
            os.kill(process, signal.SIGCONT)
            os.kill(process, signal.SIGKILL)
        wait_for(lambda process=process: not is_running(process))


def processes(shell: Shell) -> list[int]:
    """The background processes of a home, seen from outside."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            ours = os.fsencode(shell.home) in b" ".join(words) and is_running(int(folder.name))
            if b"sonde.cli.background.process" in words and ours:
                found.append(int(folder.name))
    return found


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


class Agent:
    """`sonde mcp` and the client at its other end."""

    def __init__(self, shell: Shell, **environ: str) -> None:
        self.process = subprocess.Popen(
            [*SONDE, "mcp"],
            cwd=shell.folder,
            env={**shell.environ, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.number = 0

    def __enter__(self) -> Self:
        client = {"name": "test", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        assert "result" in self.ask("initialize", params)
        self.send({"method": "notifications/initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        with suppress(OSError):
            self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0
        assert self.process.stdout
        self.process.stdout.close()

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, params: Any = None) -> int:
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params or {}})
        return self.number

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        number = self.begin(method, params)
        while (answer := self.receive()).get("id") != number:
            assert "method" in answer, answer
        return answer

    def search(self, query: str = "invoice") -> dict[str, Any]:
        return self.ask("tools/call", {"name": "search_code", "arguments": {"query": query}})


def test_the_front_is_made_of_the_standard_library() -> None:
    code = "import sonde.cli.main, sys; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    ours = [name for name in loaded.split() if name.startswith("sonde.")]
    assert ours == [
        "sonde.cli", "sonde.cli.background", "sonde.cli.background.front",
        "sonde.cli.background.place", "sonde.cli.main", "sonde.version",
    ]  # fmt: skip
    heavy = {"numpy", "apsw", "mcp", "pydantic", "anyio", "asyncio", "pathlib", "dataclasses"}
    assert not heavy & {*loaded.split()}


QUESTIONS = [
    ("search", "send the invoice", "-n", "2"),
    ("search", "invoice", "--json", "-n", "1"),
    ("grep", "-n", "def .*price", "src"),
    ("grep", "-l", "customer"),
    ("grep", "("),
    ("files", "**/*.md"),
    ("search", "x", "--path", "nowhere"),
    ("related", "src/cart.py:4", "-n", "1"),
    ("projects", "--json"),
]


@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_answers_are_the_same_with_it_and_without(made: Shell, words: tuple[str, ...]) -> None:
    def mask(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
        import re

        times = re.compile(r"in \d+ ms|\"searchTimeMs\": \d+")
        return done.returncode, times.sub("", done.stdout), times.sub("", done.stderr)

    here = made.folder / "src"
    for folder in (made.folder, here):
        with_it = made.run(*words, cwd=folder)
        assert mask(with_it) == mask(made.run(*words, cwd=folder, SONDE_DAEMON="off"))
    assert len(processes(made)) == 1


def test_input_is_read_and_output_may_be_closed(shell: Shell) -> None:
    command = [*SONDE, "grep", "b"]
    options: dict[str, Any] = {"cwd": shell.folder, "env": shell.environ, "timeout": PATIENCE_S}
    done = subprocess.run(command, input=b"abc\nxyz\nbbb\n", capture_output=True, **options)
    assert (done.returncode, done.stdout) == (0, b"abc\nbbb\n")
    closed = f"{' '.join(SONDE)} grep -n . {shell.folder} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", closed], capture_output=True, **options)
    assert done.stdout.splitlines()[-1] == b"0", done
    assert processes(shell)


def test_two_callers_at_once_get_their_own_output(shell: Shell) -> None:
    shell.run("grep", "x")
    found: dict[str, str] = {}

    def ask(word: str) -> None:
        found[word] = shell.run("grep", "-o", "-I", word).stdout

    words = ["invoice", "quantity", "Parcels", "kitchen"]
    threads = [threading.Thread(target=ask, args=(word,)) for word in words]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert all(set(found[word].split()) == {word} for word in words), found


def test_a_terminal_is_seen_through_the_process(shell: Shell) -> None:
    code, screen = shell.type("search", "invoice", "-n", "1")
    assert code == 0
    assert "\x1b[35m" in screen  # colours, as on any terminal
    assert processes(shell)


class Waiting(subprocess.Popen[str]):
    """A command in the background process that waits for its input."""

    def __init__(self, shell: Shell) -> None:
        pipe = subprocess.PIPE
        options: dict[str, Any] = {"cwd": shell.folder, "env": shell.environ, "text": True}
        command = [*SONDE, "grep", "--multiline", "x"]
        super().__init__(command, stdin=pipe, stdout=pipe, stderr=pipe, **options)
        wait_for(lambda: count_callers(shell))


def test_ctrl_c_ends_the_command_with_130(shell: Shell) -> None:
    shell.run("grep", "x")
    with Waiting(shell) as waiting:
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(PATIENCE_S) == 130
    wait_for(lambda: not count_callers(shell))
    assert shell.run("grep", "-l", "customer").returncode == 0


def count_callers(shell: Shell) -> int:
    """Open files of the process that lead to pipes: those of a caller's streams."""
    names = []
    for process in processes(shell):
        for file in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                names.append(str(file.readlink()))
    return sum(name.startswith("pipe:") for name in names)


def test_sixteen_fronts_at_once_start_one_process(shell: Shell) -> None:
    began = [
        subprocess.Popen(
            [*SONDE, "grep", "-c", "invoice"],
            cwd=shell.folder, env=shell.environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True,
        )
        for _ in range(16)
    ]  # fmt: skip
    answers = {process.communicate(timeout=PATIENCE_S)[0] for process in began}
    assert len(answers) == 1
    assert all(process.returncode == 0 for process in began)
    assert len(processes(shell)) == 1


def test_agents_share_it_and_each_has_a_session(shell: Shell) -> None:
    with Agent(shell) as one, Agent(shell) as other:
        assert len(processes(shell)) == 1
        first, second = one.search(), other.search("price")
        assert "send.py" in str(first)
        assert "cart.py" in str(second)
        status = json.loads(shell.run("daemon", "--json").stdout)
        assert [each["agents"] for each in status["processes"]] == [2]
    wait_for(
        lambda: json.loads(shell.run("daemon", "--json").stdout)["processes"][0]["agents"] == 0
    )


def test_a_killed_process_is_replaced_and_the_session_goes_on(shell: Shell) -> None:
    with Agent(shell) as agent:
        assert "result" in agent.search()
        (first,) = processes(shell)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: "result" in agent.search())  # a call may still have reached the dead one
        assert processes(shell) != [first]


def test_a_call_that_was_running_is_answered_with_an_error(shell: Shell) -> None:
    with Agent(shell) as agent:
        (process,) = processes(shell)
        os.kill(process, signal.SIGSTOP)
        call = agent.begin("tools/call", {"name": "search_code", "arguments": {"query": "x"}})
        listing = agent.begin("tools/list")
        os.kill(process, signal.SIGKILL)
        answers = {answer["id"]: answer for answer in (agent.receive(), agent.receive())}
        assert "Repeat the call" in answers[call]["error"]["message"]
        assert answers[listing]["result"]["tools"]


def test_kills_at_any_moment_lose_no_answer(shell: Shell) -> None:
    """Each request is answered once: by its result, or by an error that says to repeat it."""
    chance = random.Random(21)
    with Agent(shell) as agent:
        for _ in range(4):
            numbers = [
                agent.begin("tools/call", {"name": "search_code", "arguments": {"query": "price"}})
                for _ in range(3)
            ]
            time.sleep(chance.random() * 0.05)
            for process in processes(shell):
                os.kill(process, signal.SIGKILL)
            answered = sorted(agent.receive()["id"] for _ in numbers)
            assert answered == numbers
        assert "cart.py" in str(agent.search("price"))


def test_a_command_whose_process_is_killed_says_so(shell: Shell) -> None:
    shell.run("grep", "x")
    (process,) = processes(shell)
    with Waiting(shell) as waiting:
        os.kill(process, signal.SIGKILL)
        assert waiting.stderr
        assert "Repeat it" in waiting.stderr.read()
        assert waiting.wait(PATIENCE_S) == 2


def test_a_stuck_process_is_not_waited_for(shell: Shell) -> None:
    shell.run("grep", "x")
    (process,) = processes(shell)
    os.kill(process, signal.SIGSTOP)
    done = shell.run("grep", "-c", "-I", "Parcels")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "does not answer" in shell.run("daemon").stdout
    assert shell.run("daemon", "stop").returncode == 0
    wait_for(lambda: not processes(shell))


def test_other_settings_get_a_process_of_their_own_and_it_ends_when_idle(shell: Shell) -> None:
    shell.run("grep", "x")
    (first,) = processes(shell)
    shell.run("grep", "x", SONDE_DAEMON_IDLE="1")
    assert len(processes(shell)) == 2
    wait_for(lambda: processes(shell) == [first])
    assert shell.run("grep", "x", SONDE_ASSUME_YES="1", NO_COLOR="1").returncode == 1
    assert processes(shell) == [first]


def test_settings_in_the_users_file_hold_from_the_next_call_on(shell: Shell) -> None:
    shell.run("grep", "x")
    (first,) = processes(shell)
    config = shell.home / ".mcp" / "search" / "config.json"
    config.write_text('{"maxFileSize": "1KB"}')
    try:
        shell.run("grep", "x")
        assert len(processes(shell)) == 2
        config.write_text('{"daemon": "off"}')
        stop(shell)
        off = {key: value for key, value in shell.environ.items() if key != "SONDE_DAEMON"}
        script = "import sys; from sonde.cli.main import main; sys.exit(main())"
        words = [sys.executable, "-c", script, "grep", "x"]
        subprocess.run(words, cwd=shell.folder, env=off, capture_output=True, timeout=PATIENCE_S)
        assert not processes(shell)
    finally:
        config.unlink()
    assert first not in processes(shell)


def test_a_socket_that_was_left_behind_is_replaced(shell: Shell) -> None:
    shell.run("grep", "x")
    (process,) = processes(shell)
    os.kill(process, signal.SIGKILL)
    wait_for(lambda: not processes(shell))
    sockets = [*(shell.home / ".mcp/search/daemon").glob("*.sock")]
    assert sockets
    assert shell.run("grep", "-c", "-I", "Parcels").stdout == "1\n"
    assert len(processes(shell)) == 1
    assert [*(shell.home / ".mcp/search/daemon").glob("*.sock")] == sockets


def test_it_ends_when_its_folder_is_removed(shell: Shell) -> None:
    import shutil

    shell.run("grep", "x")
    shutil.rmtree(shell.home / ".mcp/search/daemon")
    wait_for(lambda: not processes(shell))


def test_without_room_for_a_socket_commands_and_agents_work(shell: Shell) -> None:
    folder = shell.home / ".mcp/search/daemon"
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    folder.write_text("a file where the folder should be")
    try:
        assert shell.run("grep", "-c", "-I", "Parcels").stdout == "1\n"
        with Agent(shell) as agent:
            assert "send.py" in str(agent.search())
        assert not processes(shell)
    finally:
        folder.unlink()


def test_a_folder_that_others_may_enter_is_not_used(shell: Shell) -> None:
    folder = shell.home / ".mcp/search/daemon"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    try:
        assert shell.run("grep", "-c", "-I", "Parcels").stdout == "1\n"
        assert not processes(shell)
    finally:
        folder.chmod(0o700)


def test_its_socket_is_its_users_alone(shell: Shell) -> None:
    shell.run("grep", "x")
    folder = shell.home / ".mcp/search/daemon"
    (path,) = folder.glob("*.sock")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_caller_with_other_settings_is_sent_away(shell: Shell) -> None:
    shell.run("grep", "x")
    (path,) = (shell.home / ".mcp/search/daemon").glob("*.sock")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(str(path))
        hello = {"kind": "mcp", "argv": ["mcp"], "here": "/", "facts": [], "environ": {}}
        connection.sendall(json.dumps(hello).encode() + b"\n")
        assert json.loads(connection.makefile().readline()) == {"alone": True}


def test_what_a_caller_sends_cannot_break_it(shell: Shell) -> None:
    shell.run("grep", "x")
    (path,) = (shell.home / ".mcp/search/daemon").glob("*.sock")
    before = processes(shell)
    for data in (b"\n", b"nonsense\n", b"[]\n", b'{"kind": 3}\n', b"", b"\xff\xfe\n"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(PATIENCE_S)
            assert connection.makefile("rb").read() in (b"", b'{"alone": true}\n')
    assert shell.run("grep", "-c", "-I", "Parcels").stdout == "1\n"
    assert processes(shell) == before
