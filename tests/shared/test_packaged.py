"""The files of packaging/team at work: PostgreSQL, an object store, two servers and nginx."""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.contracts.postgres import needs_postgres, run_postgres
from tests.loopback import running
from tests.shared.conftest import Clone
from tests.shared.object_store import BUCKET, ObjectStore
from tests.users.site import User
from tests.users.test_uploads import Sender
from tests.waiting import wait_until
from tests.web.conftest import Server

PACKAGED = Path(__file__).parents[2] / "packaging" / "team"
NGINX = shutil.which("nginx")


class Front:
    """The address of the balancer, asked like a server."""

    def __init__(self, port: int) -> None:
        self.netloc, self.headers = f"127.0.0.1:{port}", dict[str, str]()

    ask = Server.ask


def find_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def read_command(port: int, folder: Path) -> list[str]:
    """What the unit of a server starts, with the folders that systemd would give it."""
    unit = (PACKAGED / "sonde@.service").read_text()
    found = re.search(r"^ExecStart=/opt/sonde/bin/sonde (.*)$", unit, re.MULTILINE)
    assert found
    places = {"%i": str(port), "${SONDE_INDEX}": f"s3://{BUCKET}/index", "%d": str(folder.parent)}
    text = found[1]
    for sign in ("%C", "%L"):  # systemd makes both
        places[sign] = str(folder / sign[1])
        (folder / sign[1] / f"sonde-{port}").mkdir(parents=True)
    for sign, value in places.items():
        text = text.replace(sign, value)
    return [sys.executable, "-m", "sonde.cli.main", *shlex.split(text)]


def write_balancer(folder: Path, port: int, servers: list[int]) -> Path:
    """The packaged configuration of nginx, with addresses and folders of the test."""
    text = (PACKAGED / "nginx.conf").read_text()
    for name, number in zip(("one", "two"), servers, strict=True):
        text = text.replace(f"server {name}:8420", f"server 127.0.0.1:{number}")
    text = text.replace("listen 8080", f"listen 127.0.0.1:{port}").replace("/tmp/", f"{folder}/")
    path = folder / "nginx.conf"
    path.write_text(text)
    return path


@needs_postgres
@pytest.mark.skipif(NGINX is None, reason="needs nginx")
def test_the_packaged_files_start_a_team_that_survives_a_server(
    tmp_path: Path, ci: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"many/m{number:02}.py": f"def many_{number}():\n    pass\n" for number in range(30)}
    ci.commit(dict(files))
    (tmp_path / "access.toml").write_text('all = ["*"]\n')
    (tmp_path / "tokens").write_text("anna " + "a" * 24)
    port, *ports = find_ports(3)
    with ExitStack() as stack:
        store = stack.enter_context(running(ObjectStore()))
        database = stack.enter_context(run_postgres())
        for name, value in store.environ.items():
            monkeypatch.setenv(name, value)
        ci.push(f"s3://{BUCKET}/index")
        processes = []
        for number in ports:
            home = tmp_path / str(number)
            home.mkdir()
            command = [*read_command(number, home), "--token-file", str(tmp_path / "tokens")]
            processes.append(subprocess.Popen(command, cwd=home, env={
                "PATH": "/usr/bin:/bin", "HOME": str(home), "SONDE_EMBEDDING": "static",
                "SONDE_PUBLIC_URL": f"http://127.0.0.1:{port}", "SONDE_SIGNING_KEY": "k" * 40,
                "SONDE_KNOWLEDGE_STORE": database, "SONDE_RATE_LIMIT": "0", **store.environ,
            }))  # fmt: skip
            stack.callback(processes[-1].wait)
            stack.callback(processes[-1].kill)
        config = write_balancer(tmp_path, port, ports)
        command = [str(NGINX), "-c", str(config), "-p", str(tmp_path), "-e", "stderr"]
        balancer = subprocess.Popen([*command, "-g", "daemon off;"])
        stack.callback(balancer.wait)
        stack.callback(balancer.terminate)
        front = Front(port)

        def is_ready(address: Front) -> bool:
            try:
                return address.ask("/readyz")[0] == 200  # type: ignore[arg-type]
            except OSError:
                return False

        for number in (*ports, port):
            wait_until(lambda n=number: is_ready(Front(n)), "ready")  # type: ignore[misc]
        anna = Sender(front, "a" * 24)  # type: ignore[arg-type]
        lines = "/api/search/lines?pattern=def+many&project=shop&page_size=20"
        status, page = anna.ask(lines)
        assert (status, len(page["results"]["matches"])) == (200, 20)
        anna.bring(("lamp.md", b"# Lamp\n\nThe lamp is green.\n"), source="notes")
        direct = [User(Front(number), "a" * 24) for number in ports]  # type: ignore[arg-type]
        for user in direct:
            assert "lamp" in str(user.call("notes_search", query="green lamp")), "one database"
        processes[0].kill()
        processes[0].wait()
        for _ in range(4):
            assert anna.ask(lines)[0] == 200
        rest = anna.call("regex_search", cursor=page["pagination"]["next_cursor"])
        assert len(rest["results"]["matches"]) == 10
        assert "lamp" in str(anna.call("notes_search", query="green lamp"))
