"""Nobody sees what is not theirs: one user calls every verb of the tables with whatever belongs to
another. A new verb is covered on the day it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from tests.users.site import MARK, Site
from tests.waiting import wait_until

from sonde.app import App
from sonde.errors import SondeError
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.tools import ROUTES, TOOLS
from sonde.tools.route import Content
from sonde.tools.schema import Argument, bind
from sonde.tools.tool import find_tool
from sonde.types import Caller
from sonde.wiring import build_app

Found = dict[str, list[str]]
"""By key, handles that anna was given."""
Verb = tuple[str, Callable[..., Any], tuple[Argument, ...]]
VERBS: tuple[Verb, ...] = (
    *((tool.name, tool.call, tool.arguments) for tool in TOOLS),
    *((f"{route.method} {route.address}", route.call, route.arguments) for route in ROUTES),
)
ORDINARY: Mapping[str, Any] = {
    "query": "number of anna", "pattern": "number", "name": "mine", "action": "index", "op": "list",
    "report": "largest", "source": "notes", "filter": "kind:file", "enabled": True,
}  # fmt: skip
"""What is passed for an argument that is required besides the one that is tried."""
WORD = re.compile(rf"[\w.-]*{MARK}[\w.-]*")
"""Words with the mark in them; those that a call itself says are no news in its answer."""
HANDLE = re.compile(r"(id|url|uri|link|cursor|path|root|cwd)$", re.IGNORECASE)
"""Ends of the keys under which answers hold handles, addresses, cursors and paths."""
PER_NAME = 3  # values that are kept of each key of anna's answers; more are of the same kind


class Person:
    """One user in the process: what verbs answer, as text without what the call itself said."""

    def __init__(self, app: App, user: str) -> None:
        self.app = app
        self.caller = Caller(user, session=f"connection of {user}", base_url="http://here")

    def call(self, verb: Verb, given: Mapping[str, Any]) -> tuple[str, Any]:
        _, call, arguments = verb
        answer: Any = None
        try:
            work = Work(ask=lambda _question: True, caller=self.caller)
            bound = bind(verb[0], arguments, given)
            answer = call(self.app.seen_by(self.caller), **bound, work=work)
            if isinstance(answer, Content):
                answer = {"body": str(answer.body)}
            text = json.dumps(answer, default=str)
        except SondeError as error:
            text = json.dumps(error.as_dict())
        words = {word for each in _flatten(given) for word in WORD.findall(str(each))}
        words |= {word.split(".")[0] for word in words}
        return WORD.sub(lambda word: "" if word[0] in words else word[0], text), answer

    def use(self, tool: str, **given: Any) -> Any:
        found = find_tool(TOOLS, tool)
        text, answer = self.call((tool, found.call, found.arguments), given)
        assert answer is not None, text
        return answer


def _flatten(given: Any) -> Iterator[Any]:
    if isinstance(given, Mapping):
        for value in given.values():
            yield from _flatten(value)
    elif isinstance(given, list | tuple):
        for value in given:
            yield from _flatten(value)
    else:
        yield given


def _gather(answer: Any, found: Found, name: str = "") -> None:
    """Every handle, address, cursor and path of an answer, by its key."""
    if isinstance(answer, Mapping):
        for key, value in answer.items():
            _gather(value, found, key)
    elif isinstance(answer, list | tuple):
        for value in answer:
            _gather(value, found, name)
    elif isinstance(answer, str) and HANDLE.search(name):
        known = found.setdefault(name, [])
        if answer and answer not in known and len(known) < PER_NAME:
            known.append(answer)


@pytest.fixture(scope="module")
def app(site: Site) -> Iterator[App]:
    app = build_app(load_settings(site.environ), start=site.start, stays=True)
    yield app
    app.close()


@pytest.fixture(scope="module")
def things(app: App, site: Site) -> tuple[list[tuple[Verb, Mapping[str, Any]]], Found]:
    """What anna does and sees: her calls that show the mark, and every handle she was given."""
    anna, vault = Person(app, "anna"), str(site.vault)
    found: Found = {}
    anna.use("create_index", project=vault)
    start = next(verb for verb in VERBS if verb[0] == "POST projects")
    found["jobId"] = [anna.call(start, {"project": vault})[1]["jobId"]]
    scan = anna.use("index", root=vault)
    wait_until(lambda: anna.use("job_progress", job_id=scan["jobId"])["status"] == "done", "scan")
    listed = anna.use("cd", path=vault)
    node = listed["entries"][0]["nodeId"]
    kept = anna.use("resource_set_ops", op="create", name=f"{MARK} set", node_ids=[node])
    run = anna.use("query_run", filter="kind:file", name=f"{MARK} query")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list_projects", {}), ("get_index_status", {"project": vault}),
        ("cd", {"path": vault}), ("inspect", {"node_id": node}),
        ("inspect", {"path": f"{vault}/ledger_{MARK}.md"}),
        ("resource_set_ops", {"op": "get", "selection_id": kept["selectionId"]}),
        ("query_list", {}), ("query_get", {"query_id": run["queryId"]}),
        ("query_run", {"query_id": run["queryId"]}), ("job_progress", {"job_id": scan["jobId"]}),
        ("search_by_path", {"pattern": "*", "project": vault}),
        ("reindex_file", {"path": f"ledger_{MARK}.md", "project": vault}),
        ("search", {"query": "anna may"}), ("knowledge_search", {"query": "anna may"}),
        ("notes_search", {"query": "anna may"}),
    ]  # fmt: skip
    for tool in ("search_code", "search_docs", "semantic_search", "lexical_search",
                 "hybrid_search", "cortex_search"):  # fmt: skip
        calls += [(tool, {"query": "number of anna", "project": vault}),
                  (tool, {"query": "number of anna", "project": "all"})]  # fmt: skip
    calls += [("regex_search", {"pattern": "number", "project": vault}),
              ("regex_search", {"pattern": "number", "path": vault})]  # fmt: skip
    shown: list[tuple[Verb, Mapping[str, Any]]] = []

    def note(verb: Verb, given: Mapping[str, Any]) -> None:
        text, answer = anna.call(verb, given)
        _gather(answer, found)
        if MARK in text:
            shown.append((verb, given))

    for name, given in calls:
        tool = find_tool(TOOLS, name)
        note((name, tool.call, tool.arguments), given)
    for verb in VERBS:  # and whatever her handles open, so that deeper ones are found as well
        for given in _draw(verb, found):
            if verb[0] not in DESTRUCTIVE and not verb[0].startswith(("DELETE", "PATCH", "PUT")):
                note(verb, given)
    found["path"] += [vault, f"{vault}/ledger_{MARK}.md", f"ledger_{MARK}.md"]
    return shown, found


DESTRUCTIVE = {tool.name for tool in TOOLS if tool.destructive} | {"resource_set_ops"}


def _draw(verb: Verb, found: Found) -> Iterator[dict[str, Any]]:
    """Calls of a verb with each handle in the place of each argument that can hold it."""
    _, _, arguments = verb
    known = {name.lower(): values[0] for name, values in found.items() if values}

    def fill(argument: Argument, value: str) -> Any:
        """What fits a required argument: something ordinary, a handle of its name, or any."""
        fitting = known.get(argument.name.replace("_", "").lower(), value)
        text = ORDINARY.get(argument.name, fitting)
        return [text] if argument.kind == "array" else text

    free = [each for each in arguments if each.kind in ("string", "array") and not each.choices]
    free = [each for each in free if each.items in (None, "string")]
    free = [each for each in free if each.name not in ORDINARY]
    yield {each.name: fill(each, "x") for each in arguments if each.required}
    for argument in free:
        for value in dict.fromkeys(each for values in found.values() for each in values):
            given = {each.name: fill(each, value) for each in arguments if each.required}
            yield given | {argument.name: [value] if argument.kind == "array" else value}


def test_no_verb_shows_one_user_what_belongs_to_another(app: App, things: Any) -> None:
    shown, found = things
    assert len({verb[0] for verb, _ in shown}) >= 40, "anna herself sees it by most verbs"
    bert, calls = Person(app, "bert"), 0
    for verb, given in shown:
        text, _ = bert.call(verb, given)
        assert MARK not in text, (verb[0], given, text)
    for verb in VERBS:
        for given in _draw(verb, found):
            text, _ = bert.call(verb, given)
            calls += 1
            assert MARK not in text, (verb[0], given, text)
    assert calls > 2_000
    anna = Person(app, "anna")
    for verb, given in shown:
        if "cursor" not in given:  # pages are kept for the newest hundred searches only
            assert MARK in anna.call(verb, given)[0], (verb[0], given, "it was changed by bert")


def test_a_cursor_is_worthless_to_another_user(app: App, site: Site) -> None:
    """Fresh ones, since only the newest rankings are kept."""
    anna, bert, opened = Person(app, "anna"), Person(app, "bert"), set()
    vault = str(site.vault)
    anna.use("create_index", project=vault)
    for tool in ("search_code", "semantic_search", "hybrid_search", "lexical_search",
                 "regex_search", "cortex_search"):  # fmt: skip
        word = "pattern" if tool == "regex_search" else "query"
        answer = anna.use(tool, **{word: "number", "project": vault, "max_tokens": 400})
        found: Found = {}
        _gather(answer, found)
        (cursor,) = found.get("nextCursor") or found["next_cursor"]
        for verb in VERBS:
            if any(each.name == "cursor" for each in verb[2]):
                assert MARK not in bert.call(verb, {"cursor": cursor})[0], verb[0]
                if MARK in anna.call(verb, {"cursor": cursor})[0]:
                    opened.add(verb[0])
    assert len(opened) > 6, "anna's own cursors lead on"
