"""The toys over HTTP, in a process of their own, and raw requests to them."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sonde.stores.users import Users

TOY = Path(__file__).parent.parent / "mcp" / "toy_server.py"
TOKENS = {"anna": "a" * 24, "bert": "b" * 24, "local": "c" * 24}
BOUND_S = 30.0
BOUND_MS = 30_000
CHROMIUM = shutil.which("chromium") or ""
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


class Server:
    """A running server."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
        )
        assert self.process.stdout
        line = self.process.stdout.readline().decode().strip()
        assert line, self.process.communicate()[1].decode()
        facts = json.loads(line) if line.startswith("{") else {"url": line}
        self.facts: dict[str, str] = facts
        self.url, key = facts["url"], facts.get("key")
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}
        """Sent with requests that bring neither a token nor a cookie of their own."""
        self.browser_options = {"base_url": self.url, "extra_http_headers": self.headers}
        self.netloc = urlsplit(self.url).netloc

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """One request; status, headers and body of the answer."""
        connection = http.client.HTTPConnection(self.netloc, timeout=BOUND_S)
        try:
            own = {} if headers and {"Authorization", "Cookie"} & headers.keys() else self.headers
            connection.request(method, path, body, own | (headers or {}))
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def read(self, path: str, *args: Any, **options: Any) -> tuple[int, Any]:
        """The same for an answer in JSON."""
        status, _, body = self.ask(path, *args, **options)
        return status, json.loads(body)

    def end(self) -> tuple[int, str]:
        """Wait for the end; the exit code and what was on stderr."""
        _, err = self.process.communicate(timeout=BOUND_S)
        return self.process.returncode, err.decode()


@pytest.fixture(scope="session")
def start() -> Iterator[Callable[..., Server]]:
    """Start servers; what is left of them ends with the tests."""
    servers: list[Server] = []

    def start_server(*command: str, **options: Any) -> Server:
        servers.append(Server([sys.executable, *command], **options))
        return servers[-1]

    yield start_server
    for server in servers:
        server.process.kill()
        server.process.communicate()


@pytest.fixture(scope="session")
def diary_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("toys") / "diary"


@pytest.fixture(scope="session")
def toys_server(start: Callable[..., Server], diary_path: Path) -> Server:
    """Without tokens, on loopback."""
    return start(str(TOY), str(diary_path), "--http")


@pytest.fixture(scope="session")
def locked(start: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """With a token for each of three users."""
    folder = tmp_path_factory.mktemp("locked")
    file = folder / "tokens"
    file.write_text(
        f"# who may come in\nanna {TOKENS['anna']}\nbert {TOKENS['bert']} # a friend\n\n"
        f"{TOKENS['local']}\n"
    )
    return start(str(TOY), str(folder / "diary"), "--http", str(file))


def allow_everyone(home: Path, folder: Path) -> None:
    """Let every user of a server with this storage index, scan and read a folder."""
    Users(home / "users.json").give("fileRoots", "all", folder)


def bearer(user: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[user]}"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Any, served: Server) -> Iterator[Callable[..., Any]]:
    """Opens a page; whatever it logs as an error, or asks another server for, fails the test."""
    contexts, problems = [], []

    def note_request(request: Any) -> None:
        if not request.url.startswith(served.url):
            problems.append(f"loads {request.url}")

    def note_console(said: Any) -> None:
        # the browser itself reports pages whose status is an error, which some here are to have
        if said.type == "error" and not said.text.startswith("Failed to load resource"):
            problems.append(said.text)

    def open_page(path: str, **options: Any) -> Any:
        contexts.append(browser.new_context(**served.browser_options | options))
        page = contexts[-1].new_page()
        page.set_default_timeout(BOUND_MS)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
        page.on("console", note_console)
        page.on("request", note_request)
        page.goto(path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []
