"""Nobody sees what is not theirs: one user calls every verb of the tables with whatever belongs to
another. A new verb is covered on the day it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.users.site import COLLECTION, MARK, Site
from tests.users.verbs import VERBS, Found, Person, Verb, draw_calls, gather_handles, is_reading
from tests.waiting import wait_until

from sonde.app import App
from sonde.settings import load_settings
from sonde.tools import TOOLS
from sonde.tools.tool import find_tool
from sonde.wiring import build_app


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
        gather_handles(answer, found)
        if MARK in text:
            shown.append((verb, given))

    for name, given in calls:
        tool = find_tool(TOOLS, name)
        note((name, tool.call, tool.arguments), given)
    for verb in VERBS:  # and whatever her handles open, so that deeper ones are found as well
        for given in draw_calls(verb, found):
            if is_reading(verb):
                note(verb, given)
    assert any(f"@{COLLECTION}" in each for values in found.values() for each in values)
    found["path"] += [vault, f"{vault}/ledger_{MARK}.md", f"ledger_{MARK}.md"]
    return shown, found


def test_no_verb_shows_one_user_what_belongs_to_another(app: App, things: Any) -> None:
    shown, found = things
    assert len({verb[0] for verb, _ in shown}) >= 40, "anna herself sees it by most verbs"
    bert, calls = Person(app, "bert"), 0
    for verb, given in shown:
        text, _ = bert.call(verb, given)
        assert MARK not in text, (verb[0], given, text)
    for verb in VERBS:
        for given in draw_calls(verb, found):
            text, _ = bert.call(verb, given)
            calls += 1
            assert MARK not in text, (verb[0], given, text)
    print(f"{calls:,} calls of {len(VERBS)} verbs")
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
        gather_handles(answer, found)
        (cursor,) = found.get("nextCursor") or found["next_cursor"]
        for verb in VERBS:
            if any(each.name == "cursor" for each in verb[2]):
                assert MARK not in bert.call(verb, {"cursor": cursor})[0], verb[0]
                if MARK in anna.call(verb, {"cursor": cursor})[0]:
                    opened.add(verb[0])
    assert len(opened) > 6, "anna's own cursors lead on"
