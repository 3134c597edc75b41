"""Ways to talk to the toy server: raw lines over pipes, and the SDK's client in both eras."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from tests.mcp.transports import open_http, open_socket
from tests.waiting import wait_until

TOY = Path(__file__).with_name("toy_server.py")
BOUND_S = 30.0


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The loop that the server itself runs in."""
    return "asyncio"


def read(result: Any) -> dict[str, Any]:
    """What a tool answered, which is the same as text and as structure."""
    (block,) = result.content
    assert json.loads(block.text) == result.structured_content
    return dict(result.structured_content)


def make_environment() -> dict[str, str]:
    """Ours, but with stdout buffered as it is for users: that is where stray output hides."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}


class Diary:
    """What the toy has written down."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def events(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    def wait_for(self, event: str) -> None:
        wait_until(lambda: event in self.events, event, BOUND_S)


class RawClient:
    """Lines in, lines out, and everything that was on the wire."""

    def __init__(self, *command: str, **options: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **{"env": make_environment(), **options},
        )
        self.received: list[dict[str, Any]] = []
        self._number = 0

    def write(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def send(self, method: str, params: dict[str, Any] | None = None, **extra: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method} | extra
        self.write(json.dumps(message | ({"params": params} if params else {})).encode())

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout
        self.received.append(json.loads(self.process.stdout.readline()))
        return self.received[-1]

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and take the next line as its answer."""
        self._number += 1
        self.send(method, params, id=self._number)
        answer = self.receive()
        assert answer["id"] == self._number
        return answer

    def greet(self, version: str = "2025-11-25") -> dict[str, Any]:
        client = {"name": "test", "version": "1"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        answer = self.ask("initialize", params)
        self.send("notifications/initialized")
        return answer

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def finish(self) -> tuple[bytes, str, float]:
        """Close stdin; what was still on the wire, stderr, and the seconds it took to end."""
        started = time.monotonic()
        out, err = self.process.communicate(timeout=BOUND_S)
        return out, err.decode(), time.monotonic() - started


class HttpServer:
    """A command that serves over HTTP and says where on its first line."""

    def __init__(self, command: list[str], diary: Diary | None = None, **options: Any) -> None:
        self.diary = diary
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, **options)
        assert self.process.stdout
        line = self.process.stdout.readline().decode().strip()
        facts = json.loads(line) if line.startswith("{") else {"url": line}
        self.url, self.key = facts["url"], facts.get("key", "")

    def reach(self, transport: str, token: str = "") -> Any:
        """What the SDK's client connects to."""
        token = token or self.key
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if transport == "ws":
            return open_socket(self.url.replace("http:", "ws:") + "/mcp/ws", headers)
        return open_http(f"{self.url}/mcp", headers)


@pytest.fixture(scope="session")
def toys_over_http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """One server for all tests that come over HTTP or WebSocket."""
    diary = Diary(tmp_path_factory.mktemp("toys") / "diary")
    server = HttpServer([sys.executable, str(TOY), str(diary.path), "--http"], diary)
    yield server
    server.process.terminate()
    server.process.communicate()


@pytest.fixture(params=[f"{t}-{e}" for t in ("stdio", "http", "ws") for e in ("legacy", "auto")])
def surface(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A transport and an era."""
    transport, era = request.param.split("-")
    return transport, era


@pytest.fixture
def diary(request: pytest.FixtureRequest, tmp_path: Path) -> Diary:
    if "surface" in request.fixturenames:
        transport, _ = request.getfixturevalue("surface")
        if transport != "stdio":
            kept: Diary = request.getfixturevalue("toys_over_http").diary
            kept.path.write_text("")
            return kept
    return Diary(tmp_path / "diary")


@pytest.fixture
def permit(tmp_path: Path) -> Path:
    """The file for which `slow_raw` waits."""
    return tmp_path / "permit"


@pytest.fixture
def slow_raw(diary: Diary, permit: Path) -> Iterator[RawClient]:
    """A client of a server that cannot run a verb until `permit` exists."""
    yield from run_client(RawClient(str(TOY), str(diary.path), str(permit)))


@pytest.fixture
def raw(diary: Diary) -> Iterator[RawClient]:
    yield from run_client(RawClient(str(TOY), str(diary.path)))


def run_client(client: RawClient) -> Iterator[RawClient]:
    """Lend the client out and clean up behind it."""
    with client.process as process:  # closes what a test has not closed
        yield client
        process.kill()


@pytest.fixture
def connect(
    request: pytest.FixtureRequest, surface: tuple[str, str], diary: Diary
) -> Callable[..., Client]:
    """Open the SDK's client over each transport, in the older and in the newer era."""
    transport, era = surface

    def open_client(**options: Any) -> Client:
        if transport == "stdio":
            target: Any = StdioServerParameters(
                command=sys.executable, args=[str(TOY), str(diary.path)], env=make_environment()
            )
        else:
            target = request.getfixturevalue("toys_over_http").reach(transport)
        return Client(target, mode=era, **options)

    return open_client


def start_product(
    surface: tuple[str, str], project: Path, home: Path, **settings: str
) -> Iterator[Any]:
    """The real server in a project: a way to open clients of it, or (`server`) itself."""
    transport, era = surface
    command = [sys.executable, "-m", "sonde.cli.main"]
    env = {"SONDE_HOME": str(home), "PATH": os.environ["PATH"], **settings}
    if transport == "stdio":
        stdio = StdioServerParameters(
            command=command[0], args=[*command[1:], "mcp"], cwd=project, env=env
        )
        yield lambda **options: Client(stdio, mode=era, **options)
        return
    server = HttpServer([*command, "--json", "serve", "--port", "0"], cwd=project, env=env)
    if transport == "server":
        yield server
    else:
        yield lambda **options: Client(server.reach(transport), mode=era, **options)
    server.process.terminate()
    server.process.communicate()


@pytest.fixture(scope="session")
def toys() -> ModuleType:
    """The toy server's module."""
    spec = importlib.util.spec_from_file_location("sonde_toy_server", TOY)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    # Annotations are resolved through the module's name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
