"""Every verb of the tables, as one user of an app calls it with whatever was found."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.users.site import MARK

from sonde.app import App
from sonde.errors import SondeError
from sonde.runtime.work import Work
from sonde.tools import ROUTES, TOOLS
from sonde.tools.schema import Argument, bind
from sonde.tools.tool import find_tool
from sonde.types import Caller, Content

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


def gather_handles(answer: Any, found: Found, name: str = "") -> None:
    """Every handle, address, cursor and path of an answer, by its key."""
    if isinstance(answer, Mapping):
        for key, value in answer.items():
            gather_handles(value, found, key)
    elif isinstance(answer, list | tuple):
        for value in answer:
            gather_handles(value, found, name)
    elif isinstance(answer, str) and HANDLE.search(name):
        known = found.setdefault(name, [])
        if answer and answer not in known and len(known) < PER_NAME:
            known.append(answer)


def is_reading(verb: Verb) -> bool:
    """Whether a verb leaves everything as it is."""
    return verb[0] not in _CHANGING and not verb[0].startswith(("DELETE", "PATCH", "PUT"))


_CHANGING = {tool.name for tool in TOOLS if tool.destructive} | {"resource_set_ops"}


def draw_calls(verb: Verb, found: Found) -> Iterator[dict[str, Any]]:
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
