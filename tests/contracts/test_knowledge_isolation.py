"""Two users on one server: nothing that one is told depends on what the other has or does."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sonde.app import App
from sonde.errors import SondeError
from sonde.knowledge.editing import add_entry, count_knowledge, delete_entry, edit_entry
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.tools import TOOLS
from sonde.tools.knowledge import list_media_types
from sonde.tools.tool import bind_arguments, find_tool
from sonde.types import Caller
from sonde.wiring import build_app

from .postgres import needs_postgres

EXAMPLES = int(os.environ.get("SONDE_ISOLATION_EXAMPLES", "12"))
WORDS = st.sampled_from(["walrus", "otter", "ice", "sea salt", "getWalrus", "黒猫", "🎉"])
SOURCE = st.sampled_from(["notes", "media", "chats", "characters", "prompts"])
ID = st.sampled_from(["1", "2", "3", "n1", "n2", "walrus"])
SESSION = st.sampled_from(["", "s1", "s2"])
OFFSET = st.integers(0, 4)
OPERATION = st.one_of(
    st.tuples(st.just("add"), SOURCE, WORDS, WORDS),
    st.tuples(st.just("edit"), SOURCE, ID, WORDS),
    st.tuples(st.just("delete"), SOURCE, ID),
    st.tuples(st.just("search"), WORDS, OFFSET, SESSION),
    st.tuples(st.just("prefer"), WORDS, st.integers(50, 99), SESSION),
    st.tuples(st.just("narrow"), WORDS, OFFSET),
    st.tuples(st.just("find"), SOURCE, WORDS, OFFSET),
    st.tuples(st.just("get"), SOURCE, ID, st.sampled_from(["snippet", "full", "chunk"]), SESSION),
    st.tuples(st.just("fetch"), SOURCE, ID),
    st.tuples(st.just("transcript"), ID),
    st.tuples(st.just("everywhere"), WORDS, OFFSET, SESSION),
    st.tuples(st.just("types")),
    st.tuples(st.just("forget"), SESSION),
    st.tuples(st.just("count")),
)
STEP = st.tuples(st.sampled_from(["ann", "bob"]), OPERATION)
RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-.*?Z")

SAME_NAMES = [
    ("bob", ("add", "media", "walrus", "ice")),
    ("ann", ("add", "media", "walrus", "ice")),
    ("ann", ("add", "media", "walrus", "sea salt")),
    ("bob", ("search", "walrus", 0, "s1")),
    ("ann", ("search", "walrus", 0, "s1")),
    ("bob", ("delete", "media", "1")),
    ("ann", ("search", "walrus", 1, "s1")),
    ("ann", ("get", "media", "1", "full", "s1")),
]
"""Both have a first medium and a session of the same name."""


def describe_call(operation: tuple[Any, ...]) -> tuple[str, str, dict[str, Any]] | None:
    """The tool that an operation calls, in which session, with what."""
    match operation:
        case ("search", query, offset, session):
            return "knowledge_search", session, {"query": query, "offset": offset, "limit": 2}
        case ("prefer", query, length, session):
            defaults = {"snippet_length": length, "order_by": "recent"}
            return "knowledge_search", session, {"query": query, "defaults": defaults, "limit": 2}
        case ("narrow", query, offset):
            filters = {"notes": {"keywords": ["sea"]}, "media": {"media_types": ["txt"]}}
            asked = {"query": query, "filters": filters, "offset": offset, "limit": 1}
            return "knowledge_search", "", asked
        case ("find", source, query, offset):
            return f"{source}_search", "", {"query": query, "offset": offset, "limit": 2}
        case ("get", source, key, mode, session):
            asked = {"source": source, "id": key, "retrieval": {"mode": mode}}
            return "knowledge_get", session, asked
        case ("fetch", source, key):
            return "fetch", "", {"id": f"{source}://{key}"}
        case ("transcript", key):
            return "media_transcript", "", {"media_id": key}
        case ("everywhere", query, offset, session):
            return "search", session, {"query": query, "offset": offset, "limit": 2}
    return None


def act(app: App, user: str, operation: tuple[Any, ...]) -> Any:
    """What a user is told of an operation."""
    if called := describe_call(operation):
        name, session, arguments = called
        tool = find_tool(TOOLS, name)
        work = Work(caller=Caller(user=user, session=session))
        return tool.call(app, **bind_arguments(tool, arguments), work=work)
    me = Work(caller=Caller(user=user))
    match operation:
        case ("add", source, title, text):
            return add_entry(app.knowledge, source, title, text, work=me).version
        case ("edit", source, key, text):
            return edit_entry(app.knowledge, source, key, text=text, work=me).version
        case ("delete", source, key):
            return delete_entry(app.knowledge, source, key, work=me).title
        case ("types",):
            return list_media_types(app, work=me)
        case ("forget", session):
            return app.knowledge.forget_session(user, session) if session else None
    counts = count_knowledge(app.knowledge, work=me)
    return {name: count for name, count in counts.items() if name != "bytes"}


def do(app: App, user: str, operation: tuple[Any, ...]) -> str:
    """Do one thing as a user and write down all that the user is told."""
    try:
        told = act(app, user, operation)
    except SondeError as error:
        told = error.as_dict()
    return RANDOM.sub("*", str(told))


def play(folder: Path, store: str, steps: list[tuple[str, tuple[Any, ...]]]) -> list[str]:
    """What Ann is told, with whoever else is among the steps."""
    explicit = {"assume_yes": True, "embedding": "static", "knowledge_store": store}
    (folder / "start").mkdir(parents=True)
    app = build_app(load_settings({}, home=folder / "home", **explicit), start=folder / "start")
    suffix = uuid.uuid4().hex  # in a shared database each play has users of its own
    try:
        told = [(user, do(app, f"{user}{suffix}", operation)) for user, operation in steps]
    finally:
        app.close()
    return [answer.replace(suffix, "") for user, answer in told if user == "ann"]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def store(request: pytest.FixtureRequest) -> str:
    """Where knowledge is kept."""
    return str(request.getfixturevalue("postgres_url") if request.param == "postgres" else "sqlite")


@pytest.mark.row("004-3")
@settings(max_examples=EXAMPLES)
@given(steps=st.lists(STEP, min_size=4, max_size=16))
@example(steps=SAME_NAMES)
def test_what_one_is_told_is_the_same_without_the_other(store, steps):
    folder = Path(tempfile.mkdtemp())
    try:
        both = play(folder / "both", store, steps)
        alone = play(folder / "alone", store, [step for step in steps if step[0] == "ann"])
    finally:
        shutil.rmtree(folder)
    assert both == alone
