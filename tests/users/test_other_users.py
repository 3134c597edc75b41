"""Another user of the same machine, while everything runs: storage, sockets, locks, temporary
files, uploads, logs, processes and ports are closed to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.behind import Agent, kill_processes, processes
from tests.cli.conftest import SONDE, Shell
from tests.knowledge.samples import make_pdf
from tests.users.site import User
from tests.users.test_uploads import Sender
from tests.waiting import wait_until
from tests.web.conftest import Server

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="becomes another user"
)
NOBODY = 65534
MARK = "quillmarrow"
KEY = "canaryservice73519"
REFUSED = {401, 303}  # a browser is led to the login


class Intruder:
    """The other user, at work until asked what came of it."""

    def __init__(self, user: int = NOBODY, **asked: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("intruder.py")), str(user)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={},
        )  # fmt: skip
        assert self.process.stdin
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout
        assert self.process.stdout.readline() == "ready\n"

    def end(self) -> Any:
        said = self.process.communicate("\n", timeout=60)[0]
        assert self.process.returncode == 0
        return json.loads(said)


@pytest.fixture
def shell() -> Iterator[Shell]:
    """A user whose storage lies in a folder that others may enter, and whose umask hides nothing;
    the project is closed."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:  # others may enter it
        folder = Path(place)
        folder.chmod(0o755)
        for name in ("home", "shop", "tmp"):
            (folder / name).mkdir()
        (folder / "home" / "of others").touch()
        (folder / "tmp").chmod(0o1777)
        project = folder / "shop"
        project.chmod(0o700)
        (project / "pyproject.toml").write_text("[project]\n")
        for number in range(40):
            text = f"def {MARK}_{number}():\n    return '{MARK} {number}'\n" * 20
            (project / f"{MARK}_{number}.py").write_text(text)
        papers = project / "papers"
        papers.mkdir()
        (papers / "note.md").write_text(f"# Note\n\nof a {MARK}\n")
        (papers / "page.html").write_text(f"<h1>Page</h1><p>of a {MARK}</p>")
        (papers / "paper.pdf").write_bytes(make_pdf(f"{MARK} on a page"))
        shell = Shell(project, folder / "home", {
            "SONDE_HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"),
            "SONDE_DAEMON": "on", "OPENAI_API_KEY": KEY,
        })  # fmt: skip
        before = os.umask(0)
        try:
            yield shell
        finally:
            os.umask(before)
            kill_processes(shell)


def list_listening(process: int) -> set[str]:
    """The addresses at which a process takes connections over the network."""
    files = Path(f"/proc/{process}/fd").iterdir()
    own = {str(file.readlink()) for file in files if file.is_symlink()}
    tables = [Path(f"/proc/{process}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return {row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own}


def list_paths(folder: Path) -> dict[str, int]:
    """Everything below a folder, with its type."""
    return {str(path): path.lstat().st_mode for path in (folder, *folder.rglob("*"))}


def test_nothing_of_a_user_at_work_is_open_to_another(shell: Shell) -> None:
    marks, shared = [MARK, KEY], shell.environ["TMPDIR"]
    bait = Path(shared) / "bait"
    bait.write_text(MARK)
    watching = Intruder(watch=shared, marks=marks)
    assert MARK in shell.run("search", "return").stdout, "without an index"
    assert shell.run("index", "--yes").returncode == 0
    assert "added" in shell.run("knowledge", "import", "papers").stdout
    audit = shell.home / "audit.log"
    command = [*SONDE, "--json", "serve", "--port", "0", "--audit-log", str(audit)]
    server = Server(command, cwd=shell.folder, env=shell.environ)
    port = int(server.netloc.rpartition(":")[2])
    try:
        with Agent(shell) as agent:
            assert MARK in str(agent.search(MARK))
            sender = Sender(server, server.facts["key"])
            files = [(f"{n}.md", f"# {MARK}\n\n".encode() + b"afloat " * 2_000) for n in range(300)]
            assert sender.send(*files)[0] == 202
            wait_until(lambda: [*(shell.home / "uploads").rglob("*.md")], "staged")
            paths = list_paths(shell.home)
            for path in (shell.home, shell.home / "of others"):
                paths.pop(str(path))
            names = {Path(path).name for path in paths}
            assert {"index.db", "media.db", "jobs.db", "key", "writer.lock", "uploads"} <= names
            assert {".sock", ".log"} <= {Path(path).suffix for path in paths}
            hidden = [*marks, server.facts["key"], server.facts["link"].partition("code=")[2]]
            attack = Intruder(paths=paths, ports=[port], marks=hidden).end()
            own = Intruder(0, paths=paths, marks=hidden).end()["done"]
            (background,) = processes(shell)
            assert list_listening(background) == set()
            assert list_listening(server.process.pid) == {f"0100007F:{port:04X}"}
            assert User(server, server.facts["key"]).ask("/api/projects")[0] == 200
    finally:
        server.process.kill()
        server.process.communicate()
    assert attack["done"] == []
    assert set(attack["ports"][str(port)].values()) <= REFUSED, attack["ports"]
    assert watching.end()["done"] == [f"read {bait}"]
    assert len(own) > len(paths), "the same tries work for its user"
    assert any(line.startswith("environ of") for line in own)
    assert any(line.startswith("connect") for line in own)
