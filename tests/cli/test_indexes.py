import json
import signal
import subprocess
from pathlib import Path

import pytest
from tests.waiting import wait_until

from sonde.runtime.work import WriterLock

from .conftest import PATIENCE_S, SONDE, Shell


def test_index_says_what_it_did_and_a_second_run_is_idle(shell: Shell) -> None:
    done = shell.run("index")
    assert done.returncode == 0
    assert done.stdout.startswith("✓ 5 files, ")
    assert str(shell.folder) in done.stdout
    assert "1 on the deny list" in done.stderr
    again = shell.run("index", "--json")
    assert json.loads(again.stdout)["filesIndexed"] == 5
    assert shell.run("index", "--quiet").stderr == ""


def test_deep_vectors_are_made_while_another_process_waits_to_make_them(shell: Shell) -> None:
    """A server waits until the machine is idle; whoever asks for the vectors does not."""
    shell.run("index")
    (folder,) = (shell.home / ".mcp" / "search" / "indexes").iterdir()
    with WriterLock(folder, "refine.lock").held(wait_s=0):
        assert shell.run("index", "--deep").returncode == 0
    vectors = json.loads(shell.run("status", "--json").stdout)["details"]["vectors"]
    assert len(vectors) == 3  # of code, of documents, of both
    assert all(have == total for have, total in (of.split("/") for of in vectors.values()))


@pytest.mark.row("001-109")
def test_a_strategy_is_chosen_and_what_waits_is_flushed(shell: Shell) -> None:
    shell.run("index")
    assert shell.run("strategy").stdout.strip() == "realtime"
    chosen = json.loads(shell.run("strategy", "git", "--no-hook", "--json").stdout)
    assert (chosen["strategy"], chosen["hook"]) == ("git", False)
    (shell.folder / "src" / "late.py").write_text("def too_late():\n    pass\n")
    assert shell.run("search", "too_late", "--mode", "lexical").returncode == 1
    flushed = json.loads(shell.run("flush", "--json").stdout)
    assert (flushed["filesIndexed"], flushed["filesRemoved"]) == (1, 0)
    assert shell.run("files", "**/late.py").returncode == 0
    found = json.loads(shell.run("check", "--thorough", "--json").stdout)
    assert (found["files"], found["changed"], found["thorough"]) == (6, 0, True)


def test_a_path_names_the_project_to_index(shell: Shell, tmp_path: Path) -> None:
    done = shell.run("index", "shop", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = shell.run("search", "invoice", "--project", "shop", cwd=tmp_path)
    assert found.returncode == 0, found.stderr


@pytest.mark.row("001-29")
def test_a_terminal_sees_progress_that_goes_away(shell: Shell) -> None:
    code, screen = shell.type("index")
    assert code == 0
    assert "\r\x1b[K" in screen
    last = screen.rstrip().splitlines()
    assert any("✓" in line for line in last)


def test_a_project_over_the_limit_is_asked_about(shell: Shell) -> None:
    shell.extra["SONDE_MAX_FILES"] = "2"
    refused = shell.run("index")
    assert refused.returncode == 2
    assert "very large" in refused.stderr
    assert "--yes" in refused.stderr
    code, screen = shell.type("index", answers=(("[y/N]", "n"),))
    assert code == 2
    assert "Nothing was changed" in screen
    assert "→" not in screen
    assert shell.run("index", "--yes").returncode == 0


def test_status_shows_the_index_and_its_absence_is_an_error(shell: Shell) -> None:
    missing = shell.run("status")
    assert missing.returncode == 2
    assert "hasn't been indexed yet" in missing.stderr
    assert "sonde index" in missing.stderr
    told = json.loads(shell.run("status", "--json").stdout)
    assert told["code"] == "INDEX_NOT_FOUND"
    assert told["nextAction"]
    shell.run("index")
    assert "Contents" in shell.run("status").stdout
    assert json.loads(shell.run("status", "--json").stdout)["status"] == "ready"


def test_projects_are_listed_once_there_are_any(shell: Shell, tmp_path: Path) -> None:
    assert shell.run("projects", cwd=tmp_path).returncode == 1
    shell.run("index")
    listed = shell.run("projects", cwd=tmp_path)
    assert listed.returncode == 0
    head, row = listed.stdout.splitlines()
    assert head.startswith("PROJECT")
    assert row.startswith(str(shell.folder))


def test_delete_asks_and_only_yes_is_yes(shell: Shell) -> None:
    shell.run("index")
    asked = shell.run("delete")
    assert asked.returncode == 2
    assert "--yes" in asked.stderr
    code, screen = shell.type("delete", answers=(("[y/N]", "maybe"),))
    assert code == 2
    assert "Delete the index for this project? This cannot be undone. [y/N]" in screen
    assert shell.run("status").returncode == 0
    code, screen = shell.type("delete", answers=(("[y/N]", "y"),))
    assert code == 0
    assert "Index deleted successfully" in screen
    assert shell.run("status").returncode == 2
    assert (shell.folder / "src/cart.py").exists()


def test_the_environment_can_answer_for_a_script(shell: Shell) -> None:
    shell.run("index")
    assert shell.run("reindex").returncode == 2
    assert shell.run("reindex", SONDE_ASSUME_YES="1").returncode == 0
    assert shell.run("delete", "--yes", "--json").returncode == 0


@pytest.fixture
def bare(shell: Shell, tmp_path: Path) -> Path:
    """A folder without any marker, and none above."""
    folder = tmp_path / "bare"
    folder.mkdir()
    (folder / "notes.py").write_text("def remember(): pass\n")
    return folder


def test_no_project_is_an_error_where_nobody_can_be_asked(shell: Shell, bare: Path) -> None:
    done = shell.run("index", cwd=bare)
    assert done.returncode == 2
    assert "Could not detect project root" in done.stderr
    assert json.loads(shell.run("index", "--json", cwd=bare).stdout)["code"] == (
        "PROJECT_NOT_DETECTED"
    )


def test_a_person_is_asked_for_the_root_once(shell: Shell, bare: Path) -> None:
    code, screen = shell.type("index", cwd=bare, answers=(("Choice: ", "1"),))
    assert code == 0, screen
    assert f"[1] Use current directory: {bare}" in screen
    assert "[2] Enter a custom path" in screen
    found = shell.run("search", "remember", cwd=bare)
    assert found.returncode == 0, found.stderr


def test_a_custom_root_can_be_typed(shell: Shell, bare: Path) -> None:
    answers = (("Choice: ", "2"), ("Path: ", str(shell.folder)))
    code, screen = shell.type("index", cwd=bare, answers=answers)
    assert code == 0
    assert str(shell.folder) in screen
    code, screen = shell.type("status", cwd=bare, answers=(("Choice: ", ""),))
    assert code == 2


def test_a_project_that_does_not_exist_is_named(shell: Shell) -> None:
    done = shell.run("status", "--project", "nowhere/{at} all")
    assert done.returncode == 2
    assert "nowhere/{at} all" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupted_index_stops_cleanly_and_goes_on_later(shell: Shell) -> None:
    for number in range(1500):
        (shell.folder / f"src/f{number}.py").write_text(f"def f{number}(): return {number}\n" * 20)
    process = shell.start("index")
    folder = shell.home / ".mcp/search/indexes"
    wait_until(lambda: list(folder.glob("*/metadata.json")), "an index begun")
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "cancelled" in told
    assert "Traceback" not in told
    assert shell.run("index").returncode == 0
    assert json.loads(shell.run("status", "--json").stdout)["totalFiles"] == 1505


def test_a_folder_that_is_gone_is_said_to_be(shell: Shell, tmp_path: Path) -> None:
    program = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    done = subprocess.run(
        ["bash", "-c", program, "-", *SONDE, "status"],
        cwd=tmp_path,
        env=shell.environ,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "current directory does not exist any more" in done.stderr


def test_names_from_hell_leave_a_pipe_as_they_are_and_reach_no_terminal(shell: Shell) -> None:
    (shell.folder / "src" / "a\x1b[31m\nb.py").write_text("needle = 1\n")
    assert shell.run("grep", "-n", "needle").stdout == "src/a\x1b[31m\nb.py:1:needle = 1\n"
    _, screen = shell.type("grep", "needle", "--color", "never")
    assert "src/a\\x1b[31m\\x0ab.py\r\n1:needle = 1\r\n" in screen


def test_agents_are_served_over_stdin_and_stdout(shell: Shell) -> None:
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    process = shell.start("mcp")
    assert process.stdin
    assert process.stdout
    process.stdin.write("".join(json.dumps(message) + "\n" for message in messages))
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    rest, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert rest == ""
    assert answers[0]["result"]["serverInfo"]["name"] == "sonde"
    assert "search_code" in {tool["name"] for tool in answers[1]["result"]["tools"]}


def test_a_folder_without_text_is_said_to_be_one_and_where_its_files_are_read(
    shell: Shell, tmp_path: Path
) -> None:
    folder = tmp_path / "my pictures"
    folder.mkdir()
    (folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    done = shell.run("index", "--yes", cwd=folder)
    assert "✓" not in done.stdout
    assert "No file was indexed. Left out: 1 binary." in done.stderr
    assert f"`sonde knowledge import '{folder}'` reads them" in done.stderr


def test_without_jobs_it_says_so(shell: Shell) -> None:
    done = shell.run("jobs")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no job has run yet" in done.stderr
