"""`sonde serve` on loopback has a key of its own: whoever lacks it is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.cli.conftest import Shell
from tests.waiting import wait_until
from tests.web.conftest import Server

from sonde.stores.users import Users
from sonde.web.accounts import CODE_TTL_S, BrowserSessions, Keyring, make_login_code

SONDE = (sys.executable, "-m", "sonde.cli.main")
BROWSER = {"Accept": "text/html"}
NOBODY = {"Authorization": ""}
"""Keeps the test's server from sending its key along."""


class Own:
    """A server as a person starts it, and the command line beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        self.server = Server(
            [*SONDE, "--json", "serve", "--port", "0"], cwd=folder, env=self.environ
        )

    def run(self, *words: str, **environ: str) -> str:
        done = subprocess.run(
            [*SONDE, *words], cwd=self.folder, env=self.environ | environ, capture_output=True,
            text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def make_link(self) -> str:
        """A link that signs in, without the server's address."""
        link = urlsplit(self.run("users", "link"))
        return f"{link.path}?{link.query}"

    def sign_in(self) -> dict[str, str]:
        """The cookie that a browser gets for a link."""
        status, headers, _ = self.server.ask(self.make_link(), headers=BROWSER | NOBODY)
        assert status == 200
        return {"Cookie": headers["set-cookie"].split(";")[0]}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    own = Own(tmp_path_factory.mktemp("own"))
    yield own
    own.server.process.kill()
    own.server.process.communicate()


@pytest.mark.parametrize(
    "path", ["/api/projects", "/", "/mcp", "/metrics", "/api/openapi.json", "/view"]
)
def test_nobody_comes_in_without_it(own, path):
    for headers in (NOBODY, {"Authorization": "Bearer " + "x" * 40}, {"Cookie": "sonde=x"}):
        assert own.server.ask(path, headers=headers)[0] == 401
    assert own.server.ask("/", headers=NOBODY | BROWSER)[0] == 303, "a person is led to the login"


def test_programs_send_the_key_that_the_command_prints(own):
    key = {"Authorization": f"Bearer {own.run('users', 'key')}"}
    assert own.server.ask("/api/projects", headers=key)[0] == 200
    own.run("users", "revoke", "local")
    assert own.server.ask("/api/projects", headers=key)[0] == 401, "it can be replaced"
    key = {"Authorization": f"Bearer {own.run('users', 'key')}"}
    assert own.server.ask("/api/projects", headers=key)[0] == 200


def test_a_link_signs_one_browser_in_once(own):
    link = own.make_link()
    status, headers, page = own.server.ask(link, headers=BROWSER | NOBODY)
    assert status == 200
    assert b"refresh" in page
    (cookie,) = SimpleCookie(headers["set-cookie"]).values()
    assert cookie.key == f"sonde_{own.server.netloc.rpartition(':')[2]}"
    assert (cookie["httponly"], cookie["samesite"]) == (True, "strict")
    assert own.run("users", "key") not in headers["set-cookie"]
    kept = {"Cookie": f"{cookie.key}={cookie.value}"}
    assert own.server.ask("/projects", headers=kept)[0] == 200
    status, headers, page = own.server.ask(link, headers=BROWSER | NOBODY)
    assert status == 401
    assert "set-cookie" not in headers
    assert b"has been used or has expired" in page
    for wrong in ("x", link[13:-3] + "abc", ""):
        assert own.server.ask(f"/login?code={wrong}", headers=BROWSER | NOBODY)[0] in (200, 401)


def test_a_session_ends_with_its_key_and_belongs_to_its_port(own):
    kept = own.sign_in()
    assert own.server.ask("/projects", headers=kept)[0] == 200
    name, _, value = kept["Cookie"].partition("=")
    for other in ("sonde", "sonde_1", f"{name}1", "sonde_token"):
        assert own.server.ask("/projects", headers={"Cookie": f"{other}={value}"})[0] == 401
    own.run("users", "revoke", "local")
    assert own.server.ask("/projects", headers=kept)[0] == 401


def test_revoking_the_last_user_leads_back_to_the_start(own):
    key = {"Authorization": f"Bearer {own.run('users', 'add', 'anna')}"}
    assert own.server.ask("/api/projects", headers=key)[0] == 200
    own.run("users", "revoke", "anna")
    assert own.server.ask("/api/projects", headers=key)[0] == 401
    assert own.server.ask("/api/projects", headers=NOBODY)[0] == 401, "it does not open up"
    assert own.server.ask("/projects", headers=own.sign_in())[0] == 200


def test_a_person_in_the_browser_may_use_what_an_agent_may_not(own, tmp_path_factory):
    """What the operator may do on the command line."""
    place = tmp_path_factory.mktemp("elsewhere")
    (place / "pyproject.toml").write_text("[project]\n")
    sent = f"project={place}".encode()
    form = BROWSER | {"Content-Type": "application/x-www-form-urlencoded"}
    key = {"Authorization": f"Bearer {own.run('users', 'key')}"}
    assert own.server.ask("/projects", "POST", sent, form | key)[0] == 403, "with the key alone"
    assert own.server.ask("/projects", "POST", sent, form | own.sign_in())[0] == 303
    key = {"Authorization": f"Bearer {own.run('users', 'key')}"}
    seen = own.server.read("/api/projects", headers=key)
    assert str(place) in json.dumps(seen), "and their agents see it from then on"


def test_codes_and_sessions_expire(tmp_path):
    now = [time.time()]

    def clock() -> float:
        return now[0]

    key, browsers = b"k" * 32, BrowserSessions(clock)
    tokens = Keyring((), Users(tmp_path / "users.json"), signing_key=key)
    code = make_login_code(key, clock)
    now[0] += CODE_TTL_S
    assert not browsers.redeem(code, tokens)
    session = browsers.redeem(make_login_code(key, clock), tokens)
    assert tokens.find_user(browsers.find_token(session)) == "local"
    assert not browsers.redeem(make_login_code(b"o" * 32, clock), tokens)
    now[0] += 31 * 24 * 3600
    assert not browsers.find_token(session)


def test_a_used_code_stays_used_when_the_server_restarts_or_the_clock_goes_back(tmp_path):
    now = [1_000_000.5]
    key = b"k" * 32
    tokens = Keyring((), Users(tmp_path / "users.json"), signing_key=key)
    browsers = BrowserSessions(lambda: now[0])
    code, other = (make_login_code(key, lambda: now[0]) for _ in range(2))
    assert browsers.redeem(code, tokens)
    now[0] += CODE_TTL_S
    assert not browsers.redeem(other, tokens)
    now[0] -= CODE_TTL_S
    assert not browsers.redeem(code, tokens), "the clock went back"
    now[0] += 1
    assert not BrowserSessions(lambda: now[0]).redeem(code, tokens), "a server that began since"


def test_the_link_is_printed_and_opened_at_a_terminal(tmp_path: Path) -> None:
    """By way of a file, since others see the commands that run."""
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.new; mv {opened}.new {opened}\n')
    browser.chmod(0o755)
    shell = Shell(tmp_path, tmp_path / "home", {"BROWSER": str(browser)})
    import pty

    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*SONDE, "serve", "--port", "0"], env=shell.environ, cwd=tmp_path,
        stdin=slave, stdout=slave, stderr=slave,
    )  # fmt: skip
    try:
        wait_until(opened.exists, "the browser", 30.0)
        screen = os.read(master, 65536).decode()
        page = Path(urlsplit(opened.read_text().strip()).path)
        link = page.read_text().partition("url=")[2].partition('"')[0]
        assert link in screen.replace("\r\n", "")
        assert "code=" not in opened.read_text()
        assert page.stat().st_mode & 0o077 == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(slave)
