"""Sign-in by an OpenID Connect provider that runs on loopback."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from tests.shared.team import SONDE, Team
from tests.users.site import MARK
from tests.waiting import wait_until
from tests.web.conftest import Server


@pytest.fixture
def provider() -> Iterator[str]:
    people = [
        {"sub": "1", "email": "Anna@example.org", "groups": ["keepers"]},
        {"sub": "2", "email": "bert@example.org"},
        {"sub": "3", "email": "local"},
        {"sub": "bert@example.org"},
        {"sub": "5", "email": "bert@example.org", "email_verified": "false"},
    ]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = [word for each in people for word in ("--user-claims", json.dumps(each))]
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "-n", "true"]
    process = subprocess.Popen([*command, "-p", str(port), *given], stderr=subprocess.DEVNULL)

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/jwks", timeout=5):
                return True
        except OSError:
            return False

    try:
        wait_until(answers, "provider")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


class Browser:
    """Cookies, and addresses that are followed by hand."""

    def __init__(self, server: Server) -> None:
        self.server, self.cookies = server, dict[str, str]()

    def get(self, path: str) -> tuple[int, dict[str, str], str]:
        cookie = "; ".join(f"{name}={text}" for name, text in self.cookies.items())
        head = {"Cookie": cookie or "none=1", "Accept": "text/html"}
        status, headers, body = self.server.ask(path, headers=head)
        found = re.match(r"([^=]+)=([^;]*)", headers.get("set-cookie", ""))
        if found:
            self.cookies[found[1]] = found[2].strip('"')
        return status, headers, body.decode()

    def sign_in(self, sub: str) -> tuple[int, str]:
        """Through the provider's page and back."""
        status, headers, _ = self.get("/login/provider?next=/projects")
        assert status == 303, headers
        asked = parse_qs(urlsplit(headers["location"]).query)
        assert asked["code_challenge_method"] == ["S256"]
        back = consent(headers["location"], sub)
        status, _, page = self.get(f"{urlsplit(back).path}?{urlsplit(back).query}")
        return status, page


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_options: Any) -> None:
        return None


def consent(address: str, sub: str) -> str:
    """Sign in at the provider; the address that it sends the browser back to."""
    opener = urllib.request.build_opener(_Stay)
    request = urllib.request.Request(address, urlencode({"sub": sub}).encode())
    try:
        opener.open(request, timeout=20)
    except urllib.request.HTTPError as error:
        return str(error.headers["location"])
    raise AssertionError("the provider did not send the browser back")


def test_people_sign_in_by_the_provider(team: Team, provider: str) -> None:
    team.access.write_text(
        f'all = ["shop"]\n[groups]\nkeepers = ["{MARK}-*"]\n'
        f'[provider]\nissuer = "{provider}"\nclient = "sonde"\nsecret_variable = "WORD"\n'
        'groups_claim = "groups"\n'
    )
    first, second = (team.serve(name) for name in ("one", "two"))
    anna, bert = Browser(first), Browser(first)
    assert "Sign in with 127.0.0.1" in anna.get("/login")[2]
    status, page = anna.sign_in("1")
    assert (status, "/projects" in page) == (200, True), page[page.find("problem") :]
    lines = f"/api/search/lines?pattern=number&project={MARK}-vault"
    seen = anna.get(lines)
    assert seen[0] == 200, seen
    assert f"{MARK}_01.py" in seen[2]
    assert bert.sign_in("2")[0] == 200
    assert bert.get(lines)[0] == 404
    assert bert.get("/api/search/lines?pattern=class&project=shop")[0] == 200
    other = Browser(second)
    name, session = next(pair for pair in anna.cookies.items() if pair[1].startswith("oidc."))
    port = urlsplit(second.url).port
    other.cookies = {f"sonde_{port}": session}
    assert other.get(lines)[0] == 200, "a session is valid on every server"
    subprocess.run([*SONDE, "users", "revoke", "anna@example.org"], check=True, cwd=team.folder,
                   env={"PATH": "/usr/bin:/bin", "HOME": str(team.folder / "one")},
                   capture_output=True)  # fmt: skip
    assert anna.get(lines)[0] == 303, "the operator ends it"
    assert name


def test_what_the_provider_did_not_say_is_refused(team: Team, provider: str) -> None:
    team.access.write_text(
        f'[provider]\nissuer = "{provider}"\nclient = "sonde"\nsecret_variable = "WORD"\n'
    )
    server = team.serve("one")
    assert Browser(server).sign_in("3")[0] == 401, "nobody becomes the operator by a claim"
    assert Browser(server).sign_in("bert@example.org")[0] == 401, "nor another by a name of theirs"
    assert Browser(server).sign_in("5")[0] == 401, "nor by an address that is not theirs"
    browser = Browser(server)
    _, headers, _ = browser.get("/login/provider")
    back = consent(headers["location"], "1")
    stranger = Browser(server)
    assert stranger.get(f"/login/back?{urlsplit(back).query}")[0] == 401, "without the cookie"
    assert browser.get(f"/login/back?{urlsplit(back).query}&state=x")[0] == 401, "another state"
    _, headers, _ = browser.get("/login/provider")
    assert browser.get(f"/login/back?{urlsplit(back).query}")[0] == 401, "an old answer"
    assert browser.get("/login/back?error=access_denied")[0] == 401
    forged = "oidc." + next(iter(browser.cookies.values())).partition(".")[0] + ".AAAA"
    browser.cookies = {f"sonde_{urlsplit(server.url).port}": forged}
    assert browser.get("/api/projects")[0] == 303, "to the page that asks for a token"
