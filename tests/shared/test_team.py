"""A team's servers: sign-in by a provider, who sees which repository, the audit log, the state."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.client import HTTPException
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from tests.loopback import Exchange, LoopbackServer, running
from tests.shared.conftest import Clone, run_git
from tests.shared.team import SONDE, Team
from tests.users.site import MARK, User
from tests.users.verbs import VERBS, Found, Person, draw_calls, gather_handles, is_reading
from tests.waiting import wait_until
from tests.web.conftest import Server

from sonde.app import App
from sonde.settings import load_settings
from sonde.shared.mirrors import Mirrors
from sonde.wiring import build_app


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


BRANCH = "release/2"


@pytest.fixture
def branched(app: App, ci: Clone, index: Path) -> App:
    """The app, with a second branch of the shop that has a file of its own."""
    run_git(ci.root, "checkout", "-qb", BRANCH)
    ci.commit({"src/refunds.py": "def refund(order):\n    return order\n"})
    ci.push(index)
    run_git(ci.root, "checkout", "-q", "main")
    ci.commit({"src/prices.py": "PRICES = {}\n"})
    ci.push(index)  # without a remote that says it, the default is what was pushed last
    cast("Mirrors", app.workspace.mirrors).poll()
    return app


def test_answers_name_projects_by_repository_and_branch_and_show_no_path(
    branched: App, tmp_path: Path
) -> None:
    anna, found = Person(branched, "anna"), Found()
    by_name = {verb[0]: verb for verb in VERBS}
    searches = {
        tool: "pattern" if tool in ("regex_search", "search_by_path") else "query"
        for tool in ("search_code", "search_docs", "semantic_search", "hybrid_search", "search",
                     "lexical_search", "regex_search", "cortex_search", "search_by_path")
    }  # fmt: skip
    calls: list[tuple[str, dict[str, Any]]] = [("list_projects", {})]
    for tool, word in searches.items():
        query = "*" if tool == "search_by_path" else "order"
        given = [{}] if tool == "search" else [
            {"project": name} for name in ("shop", "shop@main", f"shop@{BRANCH}", f"@{BRANCH}")
        ]  # fmt: skip
        calls += [(tool, {word: query, **each}) for each in given]
    calls += [
        ("search_code", {"query": "order repository:shop branch:main"}),
        ("GET jobs", {}),
        ("search_docs", {"query": "refunds"}),
        ("get_index_status", {"project": "shop"}),
    ]
    for name, given in calls:
        text, answer = anna.call(by_name[name], given)
        assert answer is not None, (name, given, text)
        gather_handles(answer, found)
    found["project"] = ["shop@main", f"shop@{BRANCH}"]
    drawn = [(verb, given) for verb in VERBS if is_reading(verb)
             for given in draw_calls(verb, found)]  # fmt: skip
    for verb, given in [*((by_name[name], given) for name, given in calls), *drawn]:
        text, _ = anna.call(verb, given)
        assert str(tmp_path) not in text, (verb[0], given, text)
    options = {"project": "all", "page_size": 100, "max_tokens": 20_000}  # every match of both
    everywhere = anna.use("regex_search", pattern="def ", **options)["results"]["matches"]
    assert {row["file"]["project"] for row in everywhere} == {"shop@main", f"{MARK}-vault@main"}
    assert {row["projectPath"] for row in anna.use("list_projects")["projects"]} == {
        "shop@main", f"{MARK}-vault@main",
    }  # fmt: skip


def test_a_branch_is_chosen_in_every_search(branched: App) -> None:
    anna = Person(branched, "anna")
    for name, expected in (("shop", False), (f"shop@{BRANCH}", True), (f"@{BRANCH}", True)):
        for tool in ("search_code", "hybrid_search", "regex_search", "search_by_path"):
            word = "pattern" if tool in ("regex_search", "search_by_path") else "query"
            asked = "**/refund*" if tool == "search_by_path" else "refund"
            answer = anna.use(tool, **{word: asked, "project": name})
            assert ("refunds.py" in json.dumps(answer)) is expected, (tool, name, answer)
    for query, expected in ((f"refund branch:{BRANCH}", True), ("refund branch:main", False)):
        for tool in ("search_code", "lexical_search", "search"):
            answer = anna.use(tool, query=query)
            assert ("refunds.py" in json.dumps(answer)) is expected, (tool, query, answer)


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


class Balancer(Exchange):
    """Sends each request to the next server."""

    def answer(self) -> None:
        servers, turn = self.server.servers, next(self.server.turns)  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kept = {name: text for name, text in self.headers.items() if name.lower() != "host"}
        server = servers[turn % len(servers)]
        status, headers, data = server.ask(self.path, self.command, body or None, kept)
        self.reply(status, data, **{"Content-Type": headers["content-type"]})


class Balanced(LoopbackServer):
    """An address behind which several servers are asked in turn."""

    def __init__(self, *servers: Server) -> None:
        super().__init__(Balancer)
        self.servers, self.turns = servers, count()
        self.netloc, self.headers = self.address.removeprefix("http://"), dict[str, str]()

    ask: Any = Server.ask


def test_pages_go_on_whichever_server_is_asked(team: Team) -> None:
    first, second = team.serve("one"), team.serve("two")
    vault = f"{MARK}-vault"
    with running(Balanced(first, second)) as both:
        anna = User(both, "a" * 24)  # type: ignore[arg-type]
        for tool, given in {
            "regex_search": {"pattern": "number", "project": vault, "page_size": 20},
            "hybrid_search": {"query": "number of words", "project": vault, "page_size": 20},
            "search_code": {"query": "number repo:" + vault, "top_k": 30, "max_tokens": 600},
            "cortex_search": {"query": "number", "project": vault, "limit": 30, "max_tokens": 600},
        }.items():
            whole = User(first, "a" * 24)
            pages = [whole.call(tool, **given)]
            while cursor := next_cursor(pages[-1]):
                pages.append(whole.call(tool, cursor=cursor))
            expected = [row for page in pages for row in list_rows(page)]
            shown = [anna.call(tool, **given)]
            while cursor := next_cursor(shown[-1]):
                shown.append(anna.call(tool, cursor=cursor))
            assert len(shown) > 1, (tool, shown[0])
            assert [row for page in shown for row in list_rows(page)] == expected, tool
            if tool == "regex_search":
                numbers = [page["pagination"]["current_page"] for page in shown]
                assert numbers == list(range(1, len(shown) + 1))
        cursor = next_cursor(anna.call("regex_search", pattern="number", project=vault))
        assert cursor
        assert anna.ask(f"/api/results/{cursor}")[0] == 200
        assert anna.ask(f"/api/results/{cursor}")[0] == 200


def test_a_cursor_is_refused_once_the_commit_has_moved(team: Team, ci: Clone, index: Path) -> None:
    files = {f"many/m{number:02}.py": f"def many_{number}():\n    pass\n" for number in range(30)}
    ci.commit(dict(files))
    ci.push(index)
    first = User(team.serve("one", SONDE_REFS_INTERVAL="3600"), "a" * 24)
    page = first.call("regex_search", pattern="def many", project="shop", page_size=10)
    ci.commit({"many/m00.py": "def many_more():\n    pass\n"})
    ci.push(index)
    second = User(team.serve("two"), "a" * 24)
    refused = second.call("regex_search", cursor=next_cursor(page))
    assert refused["code"] == "BAD_CURSOR"
    assert "changed" in refused["developerMessage"]
    assert "Repeat the search" in refused["nextAction"]
    other = User(team.serve("three", SONDE_SIGNING_KEY="x" * 40), "a" * 24)
    refused = other.call("regex_search", cursor=next_cursor(page))
    assert "installation" in refused["developerMessage"]


def next_cursor(answer: Any) -> str | None:
    found = answer.get("nextCursor") or answer.get("pagination", {}).get("next_cursor")
    return cast("str | None", found)


def list_rows(answer: Any) -> list[Any]:
    rows = answer["results"]
    return list(rows["matches"] if isinstance(rows, dict) else rows)


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

    operator = User(server, "c" * 24)

    def read(name: str) -> float:
        text = operator.ask("/metrics")[1]
        return float(re.search(rf"^sonde_{name}{{}} (\S+)$", text, re.MULTILINE)[1])  # type: ignore[index]

    wait_until(lambda: read("branches_filled") == 2)
    assert read("branches") == 2
    assert 0 < read("cache_bytes") < read("cache_limit_bytes") == 20 << 30
    assert read("refs_age_seconds") < 60
    assert MARK not in operator.ask("/metrics")[1], "no metric names a repository"
    assert "sonde_branches" not in anna.ask("/metrics")[1], "nor counts what others do not see"
    page = anna.ask("/projects", Accept="text/html")[1]
    assert f"{MARK}-vault" in page
    assert re.search(r"of 20(\.0)? GB in the cache", page)
    hidden = bert.ask("/projects", Accept="text/html")[1]
    assert "shop" in hidden
    assert MARK not in hidden
    server.process.terminate()
    code, said = server.end()
    assert (code, "Traceback" in said) == (0, False), said


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
