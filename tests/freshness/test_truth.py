"""An answer says "complete" only if every admitted file is indexed as it is on disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.processes import suspend
from tests.waiting import wait_until

from sonde.projects.follow import begin_following
from sonde.projects.freshness import KnownFiles
from sonde.runtime.work import Work
from sonde.tools.code import grep, search_code
from sonde.tools.index import create_index, get_index_status, reindex_file

from .agents import Agent, make_environment, run_sonde

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")
FILES = 1500


def spell(number: int) -> str:
    """A word of letters alone: digits are words of their own."""
    return "walrus" + "".join(chr(97 + int(digit)) for digit in str(number))


def overwrite(path: Path, text: str) -> None:
    """Write other text of the same length over a file, and set its time back."""
    facts = path.stat()
    with path.open("r+") as file:
        assert len(file.read()) == len(text)
        file.seek(0)
        file.write(text)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def find_all(app: Any, word: str) -> list[str]:
    """Where a word is, by the first answer that calls itself complete: while another writes, an
    answer says that it is not."""

    def ask() -> tuple[list[str], ...]:
        answer = search_code(app, word, 20, mode="lexical", work=Work())
        paths = [row["path"] for row in answer["results"]]
        return (paths,) if answer["metadata"]["freshness"].startswith("complete") else ()

    return list(wait_until(ask, "a complete answer")[0])


def exchange(path: Path, text: str) -> None:
    """Put another file of the same length and time in its place."""
    facts = path.stat()
    other = path.with_suffix(".new")
    other.write_text(text)
    os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    other.replace(path)


@pytest.mark.row("001-3", "001-97", "001-172")
@pytest.mark.parametrize("change", [overwrite, exchange])
@pytest.mark.parametrize("stays", [True, False])
def test_other_text_of_the_same_length_and_time_is_noticed(
    serve: Callable[..., Any], change: Callable[[Path, str], None], stays: bool
) -> None:
    served = serve(watching="off" if not stays else "auto", begin=stays)
    if not stays:
        run = served.open(stays=False)
        run_sonde(served.root, served.place / "home", "index", "--yes")
    app = served.app if stays else run
    path = served.write("pkg/m3.py", "def walrus(): pass\n")
    assert find_all(app, "walrus") == ["pkg/m3.py"]
    change(path, "def turnip(): pass\n")
    assert find_all(app, "turnip") == ["pkg/m3.py"]
    assert find_all(app, "walrus") == []
    assert grep(app, "walrus|turnip", work=Work())["totalMatches"] == 1
    assert grep(app, "turnip", work=Work())["totalMatches"] == 1
    if not stays:
        run.close()


def test_a_new_mode_is_no_new_content(serve: Callable[..., Any]) -> None:
    served = serve(begin=False, watching="off")
    run_sonde(served.root, served.place / "home", "index", "--yes")
    store = served.app.workspace.projects.get(served.root).stores()["code"]
    before = [chunk.id for chunk in store.chunks_of("pkg/m3.py")]
    (served.root / "pkg" / "m3.py").chmod(0o600)
    assert "pkg/m3.py" in served.finds("function_3")
    wait_until(lambda: freshness(served.app) == "complete")
    assert [chunk.id for chunk in store.chunks_of("pkg/m3.py")] == before


def freshness(app: Any, word: str = "anything") -> str:
    return str(search_code(app, word, mode="lexical", work=Work())["metadata"]["freshness"])


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A project that takes a while to index."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").write_text("")
    for number in range(FILES):
        text = f"def {spell(number)}():\n    return {number}\n"
        (root / f"m{number:04}.py").write_text(20 * text)
    return root


@contextmanager
def indexing(root: Path, home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that indexes a project, stopped when it has written a part."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sonde.cli.main", "index", "--yes"],
        cwd=root,
        env=make_environment(home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: 0 < count_files(home) < FILES, "a part is indexed")
        suspend(process.pid)
        yield process
    finally:
        process.kill()
        process.wait()


def count_files(home: Path) -> int:
    for path in home.glob("indexes/*/index.db"):
        try:
            with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) as connection:
                return int(next(connection.execute("SELECT count(*) FROM files"))[0])
        except apsw.Error:
            continue
    return 0


@pytest.mark.row("001-170", "000-P66")
def test_every_server_sees_the_progress_of_the_process_that_indexes(
    large: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with indexing(large, home) as process, Agent(large, home) as agent:
        done = count_files(home)
        assert done < FILES, "it was stopped too late"
        answer = agent.call("search_code", query=spell(1499), mode="lexical")
        assert answer["metadata"]["freshness"] == f"indexing, {done} of {FILES + 1} files done"
        status = agent.call("get_index_status")
        assert status["status"] == "indexing"
        assert status["details"]["progress"]["done"] == done
        process.send_signal(signal.SIGCONT)
        wait_until(
            lambda: agent.call("search_code", query="x")["metadata"]["freshness"] == "complete"
        )
        assert agent.find(spell(1499)) == ["m1499.py"]


@pytest.mark.row("001-170", "001-158")
def test_an_index_that_was_killed_is_not_complete_until_it_is(large: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with indexing(large, home) as process:
        process.kill()
        process.wait()
    with Agent(large, home) as agent:
        for number in (1, 700, 1499):
            answer = agent.call("search_code", query=spell(number), mode="lexical")
            if f"m{number:04}.py" not in [row["path"] for row in answer["results"]]:
                assert answer["metadata"]["freshness"].startswith("indexing, ")
        wait_until(
            lambda: agent.call("search_code", query="x")["metadata"]["freshness"] == "complete"
        )
        for number in (1, 700, 1499):
            assert agent.find(spell(number)) == [f"m{number:04}.py"]


FULL_DISK = """
mount -t tmpfs -o size=6m tmpfs "$SONDE_HOME" && cp -a "$0"/. "$SONDE_HOME" &&
{ head -c 64m /dev/zero > "$SONDE_HOME"/filler 2>/dev/null; exec "$@"; }
"""


@pytest.mark.row("001-170", "001-119")
def test_an_update_that_failed_for_want_of_space_is_not_complete(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    unshare = shutil.which("unshare")
    prefix = [unshare or "", "--user", "--map-root-user", "--mount"]
    probe = [*prefix, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    if not unshare or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("namespaces are not to be had")
    served = serve(begin=False)
    whole, home = tmp_path / "whole", tmp_path / "full"
    home.mkdir()
    run_sonde(served.root, whole, "index", "--yes")
    with Agent(served.root, home, [*prefix, "sh", "-c", FULL_DISK, str(whole)]) as agent:
        answer = agent.call("search_code", query="function_3", mode="lexical")
        assert answer["metadata"]["freshness"] == "complete"
        for number in range(40):
            served.write(f"pkg/n{number}.py", f"def newcomer_{number}():\n    return 1\n" * 400)
        for _ in range(3):
            answer = agent.call("search_code", query="newcomer_39", mode="lexical")
            if not answer["results"]:
                assert not answer["metadata"]["freshness"].startswith("complete")
        told = wait_until(
            lambda: (
                found
                if "space"
                in (found := agent.call("search_code", query="x")["metadata"]["freshness"])
                else None
            ),
            "the reason is given",
        )
        assert told.startswith("incomplete; ")


@pytest.mark.row("001-95")
def test_a_file_written_just_before_is_found_by_every_server(serve: Callable[..., Any]) -> None:
    served = serve()
    others = [served.open() for _ in range(3)]
    try:
        for turn in range(8):
            word = spell(turn)
            served.write(f"pkg/m{turn}.py", f"def {word}():\n    return {turn}\n")
            for app in (*others, served.app):
                answer = search_code(app, word, mode="lexical", work=Work())
                found = [row["path"] for row in answer["results"]]
                assert found == [f"pkg/m{turn}.py"] or (
                    not answer["metadata"]["freshness"].startswith("complete")
                )
    finally:
        for app in others:
            app.close()


def test_files_that_cannot_be_read_are_said_to_be_missing(serve: Callable[..., Any]) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    served = serve()
    served.write("pkg/locked.py", "def locked(): pass\n").chmod(0)
    assert freshness(served.app).startswith("incomplete; 1 of 22 files")


@pytest.mark.row("001-170")
def test_an_empty_folder_is_not_called_complete(tmp_path: Path, open_app: Any) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / ".git").mkdir()
    app = open_app(start=root)
    create_index(app, work=Work())
    assert freshness(app) == "empty; no file here may be indexed"
    assert get_index_status(app, work=Work())["details"]["freshness"] == freshness(app)


def test_one_file_that_is_indexed_again_leaves_the_rest_complete(serve: Callable[..., Any]) -> None:
    served = serve()
    served.write("pkg/m1.py", "def again(): pass\n")
    reindex_file(served.app, "pkg/m1.py", work=Work())
    wait_until(lambda: freshness(served.app) == "complete", "complete")


@pytest.mark.row("001-160")
def test_a_server_gets_ready_for_the_first_search_before_it_is_asked(
    serve: Callable[..., Any],
) -> None:
    served = serve(begin=False)
    run_sonde(served.root, served.place / "home", "index", "--yes")
    project = served.app.workspace.projects.get(served.root)
    begin_following(served.app.workspace)
    wait_until(lambda: project.part(KnownFiles).candidates.seen, "the files are known")
    assert project.list_open()
    assert project.last_search == float("-inf"), "nobody has searched"
    assert project.seconds_idle() < 60, "what was loaded is kept for a while"
    wait_until(lambda: project.following and project.following.is_current(), "it is followed")


@pytest.mark.row("001-3")
def test_an_answer_by_the_word_of_the_watcher_says_so_and_shows_no_stale_line(
    serve: Callable[..., Any],
) -> None:
    """Between two looks at all files, found files are compared all the same; and that nothing is
    found is never taken from the watcher."""
    served = serve(clock=lambda: 1_000.0)  # no time passes: one look counts until the end

    def ask() -> tuple[str, dict[str, Any]]:
        answer = search_code(served.app, "function_3", mode="lexical", work=Work())
        return answer["metadata"]["freshness"], {row["path"]: row for row in answer["results"]}

    assert find_all(served.app, "nothing") == []
    covered, rows = ask()
    assert covered == "complete, as watched"
    assert "return 3" in rows["pkg/m3.py"]["text"]
    overwrite(served.root / "pkg" / "m3.py", "def function_3():\n    return 4\n")
    covered, rows = ask()
    found = rows["pkg/m3.py"]
    assert "return 4" in found["text"] or found.get("stale"), (covered, found)
    served.write("pkg/new.py", "def walrus(): pass\n")
    assert find_all(served.app, "walrus") == ["pkg/new.py"]
