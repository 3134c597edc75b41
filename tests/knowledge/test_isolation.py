"""Two users on one server: nothing that one is told depends on what the other has or does."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sonde.app import App
from sonde.errors import SondeError
from sonde.settings import load_settings
from sonde.tools import TOOLS
from sonde.tools.keeping import add_entry, count_knowledge, delete_entry, edit_entry
from sonde.tools.tool import bind_arguments, find_tool
from sonde.wiring import build_app

from .shelf import work

WORDS = st.sampled_from(["walrus", "otter", "ice", "sea salt", "getWalrus", "黒猫", "🎉"])
SOURCE = st.sampled_from(["notes", "media", "chats", "characters", "prompts"])
ID = st.sampled_from(["1", "2", "3", "n1", "n2", "walrus"])
OPERATION = st.one_of(
    st.tuples(st.just("add"), SOURCE, WORDS, WORDS),
    st.tuples(st.just("edit"), SOURCE, ID, WORDS),
    st.tuples(st.just("delete"), SOURCE, ID),
    st.tuples(st.just("search"), WORDS, st.integers(0, 4), st.sampled_from(["", "s1", "s2"])),
    st.tuples(st.just("find"), SOURCE, WORDS),
    st.tuples(st.just("get"), SOURCE, ID, st.sampled_from(["snippet", "full", "chunk"])),
    st.tuples(st.just("everywhere"), WORDS, st.sampled_from(["", "s1"])),
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
    ("ann", ("get", "media", "1", "full")),
]
"""Both have a first medium and a session of the same name."""


def do(app: App, user: str, operation: tuple[Any, ...]) -> str:
    """Do one thing as a user and write down all that the user is told."""

    def call(name: str, session: str = "", **arguments: Any) -> Any:
        tool = find_tool(TOOLS, name)
        bound = bind_arguments(tool, arguments)
        return tool.call(app, **bound, work=work(user, session))

    me = work(user)
    try:
        match operation:
            case ("add", source, title, text):
                told: Any = add_entry(app, source, title, text, work=me).version
            case ("edit", source, key, text):
                told = edit_entry(app, source, key, text=text, work=me).version
            case ("delete", source, key):
                told = delete_entry(app, source, key, work=me).title
            case ("search", query, offset, session):
                told = call("knowledge_search", session, query=query, offset=offset, limit=2)
            case ("find", source, query):
                told = call(f"{source}_search", query=query)
            case ("get", source, key, mode):
                told = call("knowledge_get", source=source, id=key, retrieval={"mode": mode})
            case ("everywhere", query, session):
                told = call("search", session, query=query)
            case _:
                counts = count_knowledge(app, work=me)
                told = {name: count for name, count in counts.items() if name != "bytes"}
    except SondeError as error:
        told = error.as_dict()
    return RANDOM.sub("*", str(told))


def play(folder: Path, steps: list[tuple[str, tuple[Any, ...]]]) -> list[str]:
    """What Ann is told, with whoever else is among the steps."""
    chosen = load_settings({}, home=folder / "home", assume_yes=True, embedding="static")
    (folder / "start").mkdir(parents=True)
    app = build_app(chosen, start=folder / "start")
    try:
        told = [(user, do(app, user, operation)) for user, operation in steps]
    finally:
        app.close()
    return [answer for user, answer in told if user == "ann"]


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, min_size=4, max_size=14))
@example(SAME_NAMES)
def test_what_one_is_told_is_the_same_without_the_other(steps):
    folder = Path(tempfile.mkdtemp())
    try:
        both = play(folder / "both", steps)
        alone = play(folder / "alone", [step for step in steps if step[0] == "ann"])
    finally:
        shutil.rmtree(folder)
    assert both == alone
