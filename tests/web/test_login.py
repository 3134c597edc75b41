"""A person in a browser gives the token once."""

from __future__ import annotations

import os
from urllib.parse import urlencode

import pytest
from tests.web.conftest import TOKENS

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
BROWSER = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture(scope="module")
def guarded(start, tmp_path_factory):
    """The real server, with a token."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "tokens").write_text(f"anna {TOKENS['anna']}\n")
    env = {
        "SONDE_HOME": str(folder / "home"),
        "PATH": os.environ["PATH"],
        "SONDE_TOKEN_FILE": str(folder / "tokens"),
    }
    serve = ("-m", "sonde.cli.main", "--json", "serve", "--port", "0")
    return start(*serve, cwd=folder, env=env)


def test_a_link_leads_through_the_login_to_where_it_points(guarded):
    status, headers, _ = guarded.ask("/api/projects?x=%22%26", headers=BROWSER)
    assert (status, headers["location"]) == (303, "/login?next=/api/projects%3Fx%3D%2522%2526")
    status, _, page = guarded.ask(headers["location"], headers=BROWSER)
    assert status == 200
    assert b'name="next" value="/api/projects?x=%22%26"' in page

    sent = urlencode({"token": TOKENS["anna"], "next": "/api/projects"}).encode()
    status, headers, _ = guarded.ask("/login", "POST", sent, FORM)
    assert (status, headers["location"]) == (303, "/api/projects")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKENS["anna"] not in cookie
    kept = {"Cookie": cookie.split(";")[0]}
    assert kept["Cookie"].startswith(f"sonde_{guarded.netloc.rpartition(':')[2]}=")
    assert guarded.ask("/api/projects", headers=BROWSER | kept)[0] == 200


def test_programs_are_told_and_not_led_around(guarded):
    status, error = guarded.read("/api/projects", headers={"Accept": "application/json"})
    assert (status, error["code"]) == (401, "TOKEN_REQUIRED")
    status, error = guarded.read("/api/projects", "POST", b"{}")
    assert (status, error["code"]) == (401, "TOKEN_REQUIRED")
    status, _, page = guarded.ask("/projects", "POST", b"project=x", BROWSER | FORM)
    assert status == 401
    assert b'href="/login"' in page, "a form cannot be led around: its fields would be lost"


def test_a_wrong_token_opens_nothing(guarded):
    sent = urlencode({"token": "x" * 24, "next": "/"}).encode()
    status, headers, page = guarded.ask("/login", "POST", sent, FORM)
    assert status == 401
    assert "set-cookie" not in headers
    assert b"not valid here" in page


@pytest.mark.parametrize(
    "way", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:x", "a", ""]
)
def test_the_login_leads_nowhere_else(guarded, way):
    sent = urlencode({"token": TOKENS["anna"], "next": way}).encode()
    assert guarded.ask("/login", "POST", sent, FORM)[1]["location"] == "/"


def test_what_is_shown_again_is_escaped(guarded):
    _, _, page = guarded.ask("/login?next=/%22%3E%3Cscript%3E")
    assert b"<script>" not in page


@pytest.mark.parametrize("way", ["//[", "http://[", "/\t/evil.example"])
def test_an_address_that_is_none_leads_to_the_first_page(guarded, way):
    status, _, page = guarded.ask(f"/login?{urlencode({'next': way})}", headers=BROWSER)
    assert status == 200
    assert b'name="next" value="/"' in page


def test_tokens_cannot_be_tried_at_will(start, tmp_path):
    (tmp_path / "tokens").write_text(f"anna {TOKENS['anna']}\n")
    env = {"SONDE_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"],
           "SONDE_TOKEN_FILE": str(tmp_path / "tokens")}  # fmt: skip
    serve = ("-m", "sonde.cli.main", "--json", "serve", "--port", "0")
    server = start(*serve, cwd=tmp_path, env=env)
    right = urlencode({"token": TOKENS["anna"], "next": "/"}).encode()
    kept = {"Cookie": server.ask("/login", "POST", right, FORM)[1]["set-cookie"].split(";")[0]}
    assert {server.ask("/login", "POST", right, FORM)[0] for _ in range(15)} == {303}
    answers = [
        server.ask("/login", "POST", urlencode({"token": f"{'x' * 20}{at}"}).encode(), FORM)
        for at in range(30)
    ]
    assert [status for status, _, _ in answers[:10]] == [401] * 10
    status, headers, _ = answers[-1]
    assert status == 429
    assert int(headers["retry-after"]) > 0
    assert server.ask("/api/projects", headers=kept)[0] == 200, "who is in stays in"


def test_a_browser_that_signs_out_is_out_and_others_stay(guarded):
    def sign_in() -> dict[str, str]:
        sent = urlencode({"token": TOKENS["anna"], "next": "/"}).encode()
        _, headers, _ = guarded.ask("/login", "POST", sent, FORM)
        return {"Cookie": headers["set-cookie"].partition(";")[0]}

    here, there = sign_in(), sign_in()
    _, _, page = guarded.ask("/", headers=here)
    assert b'href="/logout"' in page
    status, _, page = guarded.ask("/logout", headers=here)
    assert status == 200
    assert b'action="/logout"' in page
    assert guarded.ask("/api/projects", headers=here)[0] == 200, "to ask does not sign out"
    status, headers, _ = guarded.ask("/logout", "POST", b"", FORM | here)
    assert (status, headers["location"]) == (303, "/login")
    assert "Max-Age=0" in headers["set-cookie"]
    assert guarded.ask("/api/projects", headers=here)[0] == 401
    assert guarded.ask("/api/projects", headers=there)[0] == 200
    foreign = FORM | there | {"Origin": "http://elsewhere.example"}
    assert guarded.ask("/logout", "POST", b"", foreign)[0] == 403
    assert guarded.ask("/api/projects", headers=there)[0] == 200
