"""Logs carry neither secrets nor content, whatever level they have and whatever goes wrong; the
audit log, error messages and command lines carry no secrets."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from tests.web.test_knowledge_sessions import call
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

NOTE, TITLE, QUERY = "canarynote73519", "canarytitle73519", "canaryquery73519"
WRONG, CONFIG, BODY = "canarywrong73519" + "x" * 20, "canaryconfig73519", "canarybody73519"
SECRET = b"canarysecret73519" * 3


def sign(subject: str, key: bytes = SECRET) -> str:
    now = int(time.time())
    claims = {"sub": subject, "iss": "https://login", "aud": "sonde", "iat": now, "exp": now + 600}
    return jwt.encode(claims, key, "HS256", headers={"kid": "one"})


def read_command_lines(process: int) -> str:
    """How a process and those it started were started; empty where there is no /proc."""
    folder = Path(f"/proc/{process}")
    if not folder.exists():
        return ""
    below = {
        int(child) for file in folder.glob("task/*/children") for child in file.read_text().split()
    }
    return (folder / "cmdline").read_text() + "".join(map(read_command_lines, sorted(below)))


@pytest.mark.row("004-120")
@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_nothing_that_was_sent_or_kept_is_in_the_logs(start, tmp_path, level):
    home = tmp_path / "home"
    packed = base64.urlsafe_b64encode(SECRET).rstrip(b"=").decode()
    keys = {"keys": [{"kty": "oct", "kid": "one", "k": packed, "alg": "HS256"}]}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    environ = {
        "SONDE_HOME": str(home), "PATH": os.environ["PATH"], "SONDE_EMBEDDING": "none",
        "SONDE_LOG_LEVEL": level, "SONDE_JWT_KEYS": str(tmp_path / "keys.json"),
        "SONDE_JWT_ISSUER": "https://login",
    }  # fmt: skip
    command = [sys.executable, "-m", "sonde.cli.main"]
    logged = ""

    def run(*words: str) -> str:
        nonlocal logged
        done = subprocess.run(
            [*command, *words], env=environ, capture_output=True, text=True, cwd=tmp_path
        )
        logged += done.stderr
        return done.stdout

    key = run("users", "add", "ann").strip().splitlines()[0]
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / f"{TITLE}.md").write_text(f"a note about {NOTE}\n")
    (vault / "broken.json").write_text(f'[{{"mapping": "{NOTE}')
    assert "added" in run("knowledge", "import", str(vault))
    (home / "knowledge" / "local").rename(home / "knowledge" / "ann")

    server = start("-m", "sonde.cli.main", "--json", "serve", "--port", "0", "--audit-log",
                   str(tmp_path / "audit"), cwd=tmp_path, env=environ)  # fmt: skip
    token, answered = sign("ann"), ""

    class As:
        def __init__(self, bearer: str) -> None:
            self._bearer = {"Authorization": f"Bearer {bearer}"}

        def ask(self, path: str, method: str, body: bytes, headers: dict[str, str]) -> Any:
            nonlocal answered
            found = server.ask(path, method, body, headers | self._bearer)
            answered += found[2].decode()
            return found

    for bearer in (key, token):
        found = call(As(bearer), query=f"{NOTE} {QUERY}")["result"]["structuredContent"]
        assert TITLE in json.dumps(found)
    for bearer in (WRONG, sign("ann", SECRET + b"!"), "a.b.c"):
        assert call(As(bearer), query=QUERY)["code"] == "TOKEN_REQUIRED"
    assert "error" in call(As(key), query=QUERY, limit="many")
    config = base64.b64encode(json.dumps({CONFIG: 1}).encode()).decode()
    call(As(key), f"?config={config}", query=QUERY)
    auth = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    server.ask(f"/api/knowledge/notes/{QUERY}", headers=auth)
    server.ask("/mcp", "POST", f'{{"jsonrpc": "{BODY}"'.encode(), auth)
    server.ask("/api/queries", "POST", f'{{"{BODY}": 1}}'.encode(), auth)
    for bearer in (key, token, WRONG):
        sent = {"Authorization": f"Bearer {bearer}"}
        with suppress(InvalidStatus), connect(
            f"ws://{server.netloc}/mcp/ws?config={config}", additional_headers=sent,
            subprotocols=[Subprotocol("mcp")],
        ) as wire:  # fmt: skip
            wire.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": BODY}))
            assert "error" in json.loads(wire.recv())
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    cookies = []
    for typed, status in ((key, 303), (token, 303), (WRONG, 401)):
        found = server.ask("/login", "POST", f"token={typed}".encode(), form)
        assert found[0] == status
        answered += found[2].decode()
        cookies.append(found[1].get("set-cookie", "").partition(";")[0])
    code = parse_qs(urlsplit(server.facts["link"]).query)["code"][0]
    assert server.ask(f"/login?code={code}", headers={"Accept": "text/html"})[0] == 200
    for cookie in cookies:
        server.ask("/", headers={"Cookie": cookie, "Accept": "text/html"})
    answered += read_command_lines(server.process.pid)
    server.process.terminate()
    logged += server.end()[1]
    logged += "".join(
        path.read_text(errors="replace") for path in home.rglob("*.log") if path.is_file()
    )
    hello = {"protocolVersion": "2025-11-25", "capabilities": {},
             "clientInfo": {"name": "t", "version": "1"}}  # fmt: skip
    asked = {"name": "knowledge_search", "arguments": {"query": QUERY, "limit": BODY}}
    lines = [{"id": 0, "method": "initialize", "params": hello},
             {"method": "notifications/initialized"},
             {"id": 1, "method": "tools/call", "params": asked},
             {"id": 2, "method": BODY}]  # fmt: skip
    sent = "".join(json.dumps({"jsonrpc": "2.0"} | line) + "\n" for line in lines) + BODY + "\n"
    done = subprocess.run([*command, "mcp"], env=environ, capture_output=True, text=True,
                          cwd=tmp_path, input=sent, timeout=60)  # fmt: skip
    logged += done.stderr
    secrets = {
        "wrong token": WRONG, "login code": code, "session": cookies[0].partition("=")[2],
        "key": key, "signed token": token, "signature": token[-20:], "secret": SECRET.decode(),
    }  # fmt: skip
    contents = {"note": NOTE, "title": TITLE, "query": QUERY, "body": BODY, "config": config[:20]}
    leaks = [name for name, text in (secrets | contents).items() if text in logged]
    assert not leaks, logged[-4000:]
    audited = (tmp_path / "audit").read_text()
    assert QUERY in audited
    assert not [name for name, text in secrets.items() if text in audited + answered]
