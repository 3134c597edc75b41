"""The background process: the same answers, and one process for all."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.behind import PATIENCE_S, SONDE, Agent, Waiting, count_callers, processes, wait_for
from tests.cli.conftest import Shell

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_the_front_is_made_of_the_standard_library() -> None:
    code = (
        "import sys, sonde.cli.main, sonde.cli.background.address, sonde.cli.background.front\n"
        "print(*sorted(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    ours = [name for name in loaded.split() if name.startswith("sonde.")]
    assert ours == [
        "sonde.cli", "sonde.cli.background", "sonde.cli.background.address",
        "sonde.cli.background.front", "sonde.cli.main", "sonde.version",
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
    ("search", "--help"),
    ("--help", "grep"),
    ("knowledge", "search", "-h"),
    ("mcp", "--help"),
    ("knowledge", "search", "invoice"),
    ("--color", "never", "knowledge", "search", "parcels", "--json"),
]


@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_answers_are_the_same_with_it_and_without(serving: Shell, words: tuple[str, ...]) -> None:
    def mask(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
        times = re.compile(r"in \d+ ms|\"searchTimeMs\": \d+")
        return done.returncode, times.sub("", done.stdout), times.sub("", done.stderr)

    serving.run("grep", "x")  # help starts no process
    here = serving.folder / "src"
    for folder in (serving.folder, here):
        with_it = serving.run(*words, cwd=folder)
        assert mask(with_it) == mask(serving.run(*words, cwd=folder, SONDE_DAEMON="off"))
    assert len(processes(serving)) == 1


def test_input_is_read_and_output_may_be_closed(served: Shell) -> None:
    command = [*SONDE, "grep", "b"]
    options: dict[str, Any] = {"cwd": served.folder, "env": served.environ, "timeout": PATIENCE_S}
    done = subprocess.run(command, input=b"abc\nxyz\nbbb\n", capture_output=True, **options)
    assert (done.returncode, done.stdout) == (0, b"abc\nbbb\n")
    closed = f"{' '.join(SONDE)} grep -n . {served.folder} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", closed], capture_output=True, **options)
    assert done.stdout.splitlines()[-1] == b"0", done
    without = f"{' '.join(SONDE)} grep -c Parcels {served.folder}/docs <&-"
    done = subprocess.run(["bash", "-c", without], capture_output=True, **options)
    assert done.returncode == 0, done
    assert processes(served)


def test_two_callers_at_once_get_their_own_output(served: Shell) -> None:
    served.run("grep", "x")
    found: dict[str, str] = {}

    def ask(word: str) -> None:
        found[word] = served.run("grep", "-o", "-I", word).stdout

    words = ["invoice", "quantity", "Parcels", "kitchen"]
    threads = [threading.Thread(target=ask, args=(word,)) for word in words]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert all(set(found[word].split()) == {word} for word in words), found


def test_a_terminal_is_seen_through_the_process(served: Shell) -> None:
    code, screen = served.type("search", "invoice", "-n", "1")
    assert code == 0
    assert "\x1b[35m" in screen  # colours, as on any terminal
    assert processes(served)


def test_ctrl_c_ends_the_command_with_130(served: Shell) -> None:
    served.run("grep", "x")
    with Waiting(served) as waiting:
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(PATIENCE_S) == 130
    wait_for(lambda: not count_callers(served))
    assert served.run("grep", "-l", "customer").returncode == 0


def test_sixteen_fronts_at_once_start_one_process(served: Shell) -> None:
    began = [
        subprocess.Popen(
            [*SONDE, "grep", "-c", "invoice"],
            cwd=served.folder, env=served.environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True,
        )
        for _ in range(16)
    ]  # fmt: skip
    answers = {process.communicate(timeout=PATIENCE_S)[0] for process in began}
    assert len(answers) == 1
    assert all(process.returncode == 0 for process in began)
    assert len(processes(served)) == 1


@pytest.mark.row("003-C51")
def test_the_local_provider_is_the_background_process(served: Shell) -> None:
    """It starts with the first search, and holds the model for everybody."""
    assert served.run("index", "--deep", SONDE_EMBEDDING="local").returncode == 0
    assert not processes(served)
    done = served.run("search", "send the invoice", "--json", SONDE_EMBEDDING="local")
    assert "send.py" in done.stdout
    (process,) = processes(served)
    assert "onnxruntime" in Path(f"/proc/{process}/maps").read_text()


def test_agents_share_it_and_each_has_a_session(served: Shell) -> None:
    with Agent(served) as one, Agent(served) as other:
        assert len(processes(served)) == 1
        first, second = one.search(), other.search("price")
        assert "send.py" in str(first)
        assert "cart.py" in str(second)
        status = json.loads(served.run("daemon", "--json").stdout)
        assert [each["agents"] for each in status["processes"]] == [2]
    wait_for(
        lambda: json.loads(served.run("daemon", "--json").stdout)["processes"][0]["agents"] == 0
    )


def test_when_the_last_agent_has_left_nothing_is_written_any_more(served: Shell) -> None:
    """Hosts and tests delete folders as soon as the server they waited for has ended."""

    def list_held() -> list[str]:
        """The locks of what watches, indexes and embeds."""
        names = []
        for file in Path(f"/proc/{process}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                names.append(str(file.readlink()))
        return [name for name in names if "/indexes/" in name and name.endswith(".lock")]

    with Agent(served) as one:
        (process,) = processes(served)
        with Agent(served) as other:
            other.search()
        assert "send.py" in str(one.search())
        assert list_held()
    assert list_held() == []
    assert processes(served) == [process]
    assert "send.py" in served.run("search", "invoice").stdout
    with Agent(served) as again:
        again.search()
        wait_for(list_held)
