"""A team's servers: sign-in by a provider, who sees which repository, the audit log, the state."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from tests.shared.conftest import Clone, run_git
from tests.trees import write_files
from tests.users.site import MARK, User
from tests.users.verbs import VERBS, Found, Person, draw_calls, gather_handles, is_reading
from tests.waiting import wait_until
from tests.web.conftest import Server

from sonde.app import App
from sonde.settings import load_settings
from sonde.wiring import build_app

SONDE = (sys.executable, "-m", "sonde.cli.main")
KEY = "k" * 40


@pytest.fixture
def index(ci: Clone, tmp_path: Path) -> Path:
    """Two repositories: one that everybody sees, and one with the mark in everything."""
    place = tmp_path / "index"
    ci.push(place)
    vault = Clone(tmp_path / "ci" / f"{MARK}-vault", ci._open_app, "ci-home")
    files = {f"{MARK}_{n:02}.py": f"def {MARK}_{n}():\n    return 'number {n} of {MARK}'\n"
             for n in range(60)}  # fmt: skip
    write_files(vault.root, files | {f"ledger_{MARK}.md": f"# {MARK}\n\nThe {MARK} in words.\n"})
    run_git(vault.root, "init", "-q", "-b", "main")
    vault.commit()
    vault.push(place)
    return place


class Team:
    """Servers of one shared index, each with a home and a cache of its own."""

    def __init__(self, folder: Path, index: Path) -> None:
        self.folder, self.index = folder, index
        self.access = folder / "access.toml"
        self.users = folder / "tokens"
        self.users.write_text("anna " + "a" * 24 + "\nbert " + "b" * 24 + "\nlocal " + "c" * 24)
        self.access.write_text(f'all = ["shop"]\n[users]\nanna = ["{MARK}-*"]\n')
        self.servers: list[Server] = []

    def serve(self, name: str, *options: str, **environ: str) -> Server:
        home = self.folder / name
        home.mkdir(exist_ok=True)
        server = Server(
            [*SONDE, "--json", "serve", "--port", "0", "--no-browser", "--from", str(self.index),
             "--cache", str(home / "cache"), "--access", str(self.access),
             "--token-file", str(self.users), *options],
            cwd=home,
            env={"PATH": "/usr/bin:/bin", "HOME": str(home), "SONDE_EMBEDDING": "static",
                 "SONDE_RATE_LIMIT": "0", "SONDE_SIGNING_KEY": KEY, "WORD": "secret", **environ},
        )  # fmt: skip
        self.servers.append(server)
        wait_until(lambda: server.ask("/readyz")[0] == 200, "ready")
        return server


@pytest.fixture
def team(tmp_path: Path, index: Path) -> Iterator[Team]:
    found = Team(tmp_path, index)
    yield found
    for server in found.servers:
        server.process.kill()
        server.process.communicate()


def list_files(answer: Any) -> set[str]:
    return {row["path"] for row in answer["results"]}


# --- who sees which repository


@pytest.fixture
def app(tmp_path: Path, index: Path) -> Iterator[App]:
    rules = tmp_path / "rules.toml"
    rules.write_text(f'all = ["shop"]\n[groups]\nkeepers = ["{MARK}-*"]\n[users]\nanna = ["*"]\n')
    settings = load_settings({}, home=tmp_path / "home", embedding="static", rate_limit=0,
                             serve_from=str(index), cache_folder=str(tmp_path / "cache"),
                             access_file=str(rules))  # fmt: skip
    app = build_app(settings, start=tmp_path, stays=True)
    yield app
    app.close()


def test_no_verb_shows_a_repository_to_those_who_may_not_see_it(app: App) -> None:
    anna, bert, found, shown = Person(app, "anna"), Person(app, "bert"), Found(), []
    vault = f"{MARK}-vault"
    calls: list[tuple[str, dict[str, Any]]] = []
    for tool in ("search_code", "search_docs", "semantic_search", "hybrid_search"):
        calls += [(tool, {"query": "number in words", "project": each})
                  for each in (vault, f"{vault}@main", "all")]  # fmt: skip
    calls += [("search_code", {"query": f"number repo:{vault}"}),
              ("search_code", {"query": "number branch:main"}),
              ("regex_search", {"pattern": "number", "project": vault, "max_tokens": 400}),
              ("regex_search", {"pattern": "number"}), ("get_index_status", {"project": vault}),
              ("search_by_path", {"pattern": "*", "project": vault}),
              ("cortex_search", {"query": "number", "project": vault}),
              ("list_projects", {})]  # fmt: skip
    by_name = {verb[0]: verb for verb in VERBS}
    for name, given in calls:
        text, answer = anna.call(by_name[name], given)
        gather_handles(answer, found)
        assert MARK in text or name == "get_index_status", (name, given, text)
        shown.append((by_name[name], given))
    found["path"] = [*found.get("path", []), vault, f"{vault}@main"][-5:]
    for verb, given in shown:
        text, _ = bert.call(verb, given)
        text = text.replace(f"repo:{vault}", "")  # the question itself, repeated
        assert MARK not in text, (verb[0], given, text)
    calls_made = 0
    for verb in VERBS:
        for given in draw_calls(verb, found) if is_reading(verb) else ():
            text, _ = bert.call(verb, given)
            calls_made += 1
            assert MARK not in text, (verb[0], given, text)
    print(f"{calls_made:,} calls of {len(VERBS)} verbs")
    assert calls_made > 500
    status = bert.call(by_name["search_code"], {"query": "order total"})[1]
    assert list_files(status) & {"src/orders.py"}, "what is given to all is seen"
    state = app.workspace.mirrors
    assert state
    reach = app.seen_by(bert.caller).workspace.reach
    assert [one.repository for one, _ in state.describe(reach.admits).mirrors] == ["shop"]


def test_a_missing_repository_and_a_hidden_one_read_alike(app: App) -> None:
    bert = Person(app, "bert")
    by_name = {verb[0]: verb for verb in VERBS}
    answers = [
        bert.call(by_name["regex_search"], {"pattern": "x", "project": name})[0].replace(name, "")
        for name in (f"{MARK}-vault", "nothing-here")
    ]
    assert answers[0].replace(MARK, "") == answers[1]


def test_groups_and_a_changed_file_decide(app: App, tmp_path: Path) -> None:
    from dataclasses import replace

    member = Person(app, "carl")
    by_name = {verb[0]: verb for verb in VERBS}
    look = by_name["regex_search"], {"pattern": "number", "project": f"{MARK}-vault"}
    assert MARK not in member.call(*look)[0]
    member.caller = replace(member.caller, groups=("keepers",))
    assert "number 1 of" in member.call(*look)[0]
    (tmp_path / "rules.toml").write_text('[groups]\nkeepers = ["shop"]\n')
    assert "number 1 of" not in member.call(*look)[0]
    (tmp_path / "rules.toml").write_text("this is no TOML")
    assert "number 1 of" not in member.call(*look)[0], "the old rules hold"


# --- several servers


def test_two_servers_answer_alike_and_one_of_them_may_die(team: Team) -> None:
    first, second = (team.serve(name) for name in ("one", "two"))
    anna = [User(server, "a" * 24) for server in (first, second)]
    query = "/api/search/code?query=order+total&project=shop"
    assert anna[0].ask(query)[1]["results"] == anna[1].ask(query)[1]["results"]
    lines = f"/api/search/lines?pattern=number&project={MARK}-vault&page_size=50"
    expected = [row["match"] for row in anna[1].ask(lines)[1]["results"]["matches"]]
    assert len(expected) == 50
    wrong: list[object] = []
    answered, retried = [0], [0]
    stop = threading.Event()

    def work(turn: int) -> None:
        while not stop.is_set():
            for at in (turn % 2, (turn + 1) % 2):
                try:
                    status, answer = User(anna[at].server, "a" * 24).ask(lines)
                except (OSError, HTTPException):
                    retried[0] += 1
                    continue
                if status == 200:
                    rows = [row["match"] for row in answer["results"]["matches"]]
                    if rows != expected:
                        wrong.append(rows)
                    answered[0] += 1
                    break
                retried[0] += 1
            else:
                wrong.append("neither server answered")
            turn += 1

    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: answered[0] > 20)
    first.process.kill()
    before = answered[0]
    wait_until(lambda: answered[0] > before + 20)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert retried[0], "the dead one was asked"
    third = User(team.serve("three"), "a" * 24)
    assert [row["match"] for row in third.ask(lines)[1]["results"]["matches"]] == expected


def test_a_cursor_on_another_server_leads_on_or_says_what_to_do(team: Team) -> None:
    first, second = (User(team.serve(name), "a" * 24) for name in ("one", "two"))
    page = first.call("regex_search", pattern="number", project=f"{MARK}-vault", page_size=20)
    cursor = page["pagination"]["next_cursor"]
    here = first.call("regex_search", cursor=cursor)
    there = second.call("regex_search", cursor=cursor)
    assert here["results"]["matches"]
    assert there.get("code") == "BAD_CURSOR", there
    assert "Repeat the search" in there["nextAction"]
    other = User(team.serve("three", SONDE_SIGNING_KEY="x" * 40), "a" * 24)
    assert "installation" in other.call("regex_search", cursor=cursor)["developerMessage"]


# --- the provider


@pytest.fixture
def provider() -> Iterator[str]:
    pytest.importorskip("flask", reason="oidc-provider-mock is not installed")
    people = [
        {"sub": "1", "email": "Anna@example.org", "groups": ["keepers"]},
        {"sub": "2", "email": "bert@example.org"},
        {"sub": "3", "email": "local"},
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


# --- operating


def test_the_audit_log_says_who_searched_what(team: Team) -> None:
    path = team.folder / "audit.jsonl"
    server = team.serve("one", "--audit-log", str(path))
    anna, bert = User(server, "a" * 24), User(server, "b" * 24)
    anna.ask("/api/search/code?query=order+total&project=shop")
    bert.call("regex_search", pattern="needle", project=f"{MARK}-vault")
    assert path.stat().st_mode & 0o777 == 0o600
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    said = [(row["user"], row["call"], row["outcome"]) for row in rows]
    assert said == [("anna", "search_code", "ok"), ("bert", "regex_search", "PROJECT_NOT_DETECTED")]
    assert rows[0]["arguments"]["query"] == "order total"
    path.rename(team.folder / "audit.jsonl.1")
    anna.ask("/?q=find+user&project=shop", Accept="text/html")
    assert [json.loads(line)["user"] for line in path.read_text().splitlines()] == ["anna"]
    assert not (team.folder / "one" / "audit.jsonl").exists()


def test_the_state_is_shown_to_probes_metrics_and_people(team: Team) -> None:
    server = team.serve("one")
    assert server.ask("/healthz")[0] == 200
    anna, bert = User(server, "a" * 24), User(server, "b" * 24)
    anna.ask("/api/search/lines?pattern=number")

    def read(name: str) -> float:
        text = anna.ask("/metrics")[1]
        return float(re.search(rf"^sonde_{name}{{}} (\S+)$", text, re.MULTILINE)[1])  # type: ignore[index]

    wait_until(lambda: read("branches_filled") == 2)
    assert read("branches") == 2
    assert 0 < read("cache_bytes") < read("cache_limit_bytes") == 20 << 30
    assert read("refs_age_seconds") < 60
    assert MARK not in anna.ask("/metrics")[1], "no metric names a repository"
    page = anna.ask("/projects", Accept="text/html")[1]
    assert f"{MARK}-vault" in page
    assert re.search(r"of 20(\.0)? GB in the cache", page)
    hidden = bert.ask("/projects", Accept="text/html")[1]
    assert "shop" in hidden
    assert MARK not in hidden


def test_a_server_without_its_index_is_alive_and_not_ready(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("anna " + "a" * 24)
    server = Server(
        [*SONDE, "--json", "serve", "--port", "0", "--no-browser", "--from",
         str(tmp_path / "nothing"), "--cache", str(tmp_path / "cache"),
         "--token-file", str(tmp_path / "tokens")],
        cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )  # fmt: skip
    try:
        assert server.ask("/healthz")[0] == 200
        status, answer = User(server, "a" * 24).ask("/api/projects")
        assert (status, answer["code"]) == (500, "SHARED_INDEX_NOT_FOUND")
        assert server.ask("/readyz")[0] == 503
    finally:
        server.process.kill()
        server.process.communicate()
