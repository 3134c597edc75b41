"""Knowledge that an operator shares: those it was given to see it by every verb, no other does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.postgres import needs_postgres, run_postgres
from tests.users.site import COLLECTION, MARK
from tests.users.verbs import VERBS, Found, Person, draw_calls, gather_handles, is_reading

from sonde.app import App
from sonde.errors import EntryMissing, SondeError
from sonde.knowledge.editing import add_entry, delete_entry, edit_entry
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.stores.knowledge.base import SOURCES
from sonde.types import Caller
from sonde.web.pages.knowledge import show_knowledge
from sonde.wiring import build_app

PAGES = 4  # entries of each source, so that a search has a second page


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Anna, bert and a collection, each with entries of every source."""
    if request.param == "postgres":
        with run_postgres() as address:
            yield from open_app(tmp_path_factory.mktemp("shared"), address)
    else:
        yield from open_app(tmp_path_factory.mktemp("shared"), "sqlite")


def open_app(folder: Path, store: str) -> Iterator[App]:
    explicit = {"embedding": "static", "knowledge_store": store}
    app = build_app(load_settings({}, home=folder / "home", **explicit), start=folder)
    for user, word in (("anna", "own"), ("bert", "own"), (COLLECTION, MARK)):
        for source in SOURCES:
            for number in range(PAGES):
                add_entry(
                    app.knowledge, source, f"{word} {source} {number}", f"a {word} valve, turned",
                    work=Work(caller=Caller(user)),
                )  # fmt: skip
    yield app
    app.close()


@pytest.fixture
def shared(app: App) -> Iterator[App]:
    """The collection is anna's to read."""
    app.grounds.users.give("knowledge", "anna", COLLECTION)
    yield app
    app.grounds.users.withdraw("anna", COLLECTION)


def find(person: Person, **given: Any) -> list[str]:
    """The ids that a search of all knowledge finds, with their sources."""
    everything = {"query": "valve", "limit": 100, "max_tokens": 20_000, "dedupe": False}
    answer = person.use("knowledge_search", **everything, **given)
    return [f"{row['source']}://{row['id']}" for row in answer["results"]]


def test_shared_knowledge_is_found_beside_the_users_own(shared: App) -> None:
    anna = Person(shared, "anna")
    found = find(anna)
    assert len(found) == len(set(found)) == 2 * PAGES * len(SOURCES)
    ours = [each for each in found if each.endswith(f"@{COLLECTION}")]
    assert {each.partition(":")[0] for each in ours} == set(SOURCES)
    for pointer in found:
        source, _, key = pointer.partition("://")
        text = json.dumps(anna.use("knowledge_get", source=source, id=key))
        assert (MARK in text) == (pointer in ours), pointer
        assert (MARK in json.dumps(anna.use("fetch", id=pointer))) == (pointer in ours), pointer


def test_no_verb_shows_shared_knowledge_to_others(shared: App) -> None:
    anna, bert, shown, calls = Person(shared, "anna"), Person(shared, "bert"), 0, 0
    handles: Found = {}
    for tool in ("knowledge_search", "search", *(f"{source}_search" for source in SOURCES)):
        gather_handles(anna.use(tool, query=f"{MARK} valve"), handles)
    assert any(each.endswith(f"@{COLLECTION}") for values in handles.values() for each in values)
    for verb in VERBS:
        for given in draw_calls(verb, handles):
            text, _ = bert.call(verb, given)
            calls += 1
            assert MARK not in text, (verb[0], given, text)
            shown += is_reading(verb) and MARK in anna.call(verb, given)[0]
    print(f"{calls:,} calls of {len(VERBS)} verbs; anna saw it by {shown:,} of them")
    assert shown > 15
    assert calls > 2_000


def test_given_to_all_it_is_everybodys(app: App) -> None:
    app.grounds.users.give("knowledge", "all", COLLECTION)
    try:
        for user in ("anna", "bert"):
            assert any(key.endswith(f"@{COLLECTION}") for key in find(Person(app, user))), user
        assert len(find(Person(app, COLLECTION))) == PAGES * len(SOURCES), "its own, once"
    finally:
        app.grounds.users.withdraw("all", COLLECTION)


def test_a_collection_may_be_named_as_the_end_of_another(app: App) -> None:
    names = ("example.com", "team@example.com")
    for name in names:
        work = Work(caller=Caller(name))
        add_entry(app.knowledge, "notes", f"of {name}", "a valve", work=work)
        app.grounds.users.give("knowledge", "dora", name)
    dora = Person(app, "dora")
    found = [key.partition("://")[2] for key in find(dora)]
    assert sorted(key.partition("@")[2] for key in found) == sorted(names)
    for key in found:
        text = json.dumps(dora.use("knowledge_get", source="notes", id=key))
        assert f"of {key.partition('@')[2]}" in text


def test_the_page_lists_a_collection_for_one_who_has_nothing_else(app: App) -> None:
    caller = Caller("carl")
    assert MARK not in str(show_knowledge(app, work=Work(caller=caller)))
    app.grounds.users.give("knowledge", "carl", COLLECTION)
    try:
        page = str(show_knowledge(app, work=Work(caller=caller)))
        assert all(f"{MARK} {source} 0" in page for source in SOURCES)
        assert f"<strong>{PAGES * len(SOURCES)}</strong> entries" in page
    finally:
        app.grounds.users.withdraw("carl", COLLECTION)


def test_a_search_makes_the_missing_vectors_of_a_collection(shared: App) -> None:
    static = shared.knowledge.models.static
    assert static
    stores = {
        word: shared.knowledge.of(user) for user, word in (("anna", "own"), (COLLECTION, MARK))
    }
    for store in stores.values():
        store.forget_models("notes", [])
        assert store.coverage("notes", static.name) == (0, PAGES)
    assert find(Person(shared, "anna"))
    for word, store in stores.items():
        assert store.coverage("notes", static.name) == (PAGES, PAGES)
        vector = static.embed([f"{word} notes 0\na {word} valve, turned"], "passage")[0]
        assert store.nearest("notes", static.name, vector, 1)[0].score == pytest.approx(1, abs=0.02)


def test_what_was_withdrawn_is_gone_from_later_pages(shared: App) -> None:
    anna = Person(shared, "anna")
    key = next(each for each in find(anna) if f"@{COLLECTION}" in each)
    first = anna.use("knowledge_search", query=f"{MARK} valve", limit=2, dedupe=False)
    assert first["has_more"]
    shared.grounds.users.withdraw("anna", COLLECTION)
    later = anna.use("knowledge_search", query=f"{MARK} valve", limit=90, offset=2, dedupe=False)
    assert later["results"]
    assert MARK not in json.dumps(later["results"])
    source, _, name = key.partition("://")
    with pytest.raises(EntryMissing):
        find_and_read(shared, source, name)


def find_and_read(app: App, source: Any, key: str) -> None:
    from sonde.tools.knowledge import knowledge_get

    caller = Caller("anna")
    knowledge_get(app.seen_by(caller), key, source, work=Work(caller=caller))


def test_shared_knowledge_cannot_be_changed(shared: App) -> None:
    anna, work = Person(shared, "anna"), Work(caller=Caller("anna"))
    for pointer in [each for each in find(anna) if f"@{COLLECTION}" in each][:PAGES]:
        source: Any
        source, _, key = pointer.partition("://")
        for change in (lambda: edit_entry(shared.knowledge, source, key, title="x", work=work),  # noqa: B023
                       lambda: delete_entry(shared.knowledge, source, key, work=work)):  # noqa: B023  # fmt: skip
            with pytest.raises(SondeError, match="shared"):
                change()
    assert len(find(anna)) == 2 * PAGES * len(SOURCES)


def test_a_character_that_is_named_is_the_users_own(shared: App) -> None:
    found = find(Person(shared, "anna"), sources=["chats"], filters={"chats": {"character_id": 1}})
    assert not [each for each in found if f"@{COLLECTION}" in each]
