"""Routes: addresses and the verbs that answer there.

A route is served twice: over HTTP its address lies under `/api/`, and what can be read (`GET`) is
also an MCP resource, `sonde://` and the address. The verb's arguments come from the address, the
query string and the JSON body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from urllib.parse import parse_qs, unquote

from sonde.errors import InvalidRequest, NoSuchAddress
from sonde.tools.schema import Argument, bind
from sonde.tools.tool import read_answer, read_arguments
from sonde.types import Json

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
SCHEME = "sonde://"
_KNOWLEDGE = re.compile(r"^(notes|media|chats|characters|prompts)://", re.IGNORECASE)
"""Results of knowledge searches link to entries as `media://123`."""
_FIELD = re.compile(r"\{(\w+)(:path)?\}")
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True)
class Route:
    """One address; `{name}` is one segment of the path, `{name:path}` the rest of it."""

    address: str
    call: Callable[..., Any]
    """`verb(app, <arguments>, *, work)`, which answers with an object or `Content`."""
    summary: str
    method: Method = "GET"
    status: int = 200
    mime: str = "application/json"
    complete: Callable[[Any, str, str, Mapping[str, str]], Sequence[str]] | None = None
    """`(app, argument, prefix, other arguments)` -> values with that prefix."""

    @property
    def name(self) -> str:
        """The operation's name in the API: that of the verb."""
        return self.call.__name__

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments of the verb."""
        return read_arguments(self.call)

    @cached_property
    def answer(self) -> Json:
        """JSON Schema of the answer."""
        return read_answer(self.call)

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Names of the arguments in the address."""
        return tuple(name for name, _ in _FIELD.findall(self.address))

    @cached_property
    def template(self) -> str:
        """The address as an RFC 6570 template, with the arguments of the query string."""
        path = _FIELD.sub(lambda m: f"{{+{m[1]}}}" if m[2] else f"{{{m[1]}}}", self.address)
        inner = {_fold(name) for name in self.fields}
        rest = [a.name for a in self.arguments if _fold(a.name) not in inner and a.param.listed]
        return SCHEME + path + (f"{{?{','.join(rest)}}}" if rest else "")

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the addresses of this route; fields are still percent-encoded."""
        parts = _FIELD.split(self.address)
        text = "".join(
            re.escape(literal) + (f"(?P<{name}>{'.+' if rest else '[^/]+'})" if name else "")
            for literal, name, rest in zip(
                parts[::3], [*parts[1::3], ""], [*parts[2::3], ""], strict=True
            )
        )
        return re.compile(text, re.DOTALL)

    def bind(
        self, texts: Mapping[str, Sequence[str]], body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The verb's keyword arguments from an address and a body."""
        known = {_fold(argument.name): argument for argument in self.arguments}
        given: dict[str, Any] = dict(body or {})
        for name, values in texts.items():
            argument = known.get(_fold(name))
            given[name] = _read_text(argument, values) if argument else values[-1]
        return bind(f"{self.method} /api/{self.address}", self.arguments, given)


def find_route(routes: Iterable[Route], uri: str) -> tuple[Route, dict[str, list[str]]]:
    """The route of an MCP resource address, and the texts of its arguments."""
    uri = _KNOWLEDGE.sub(lambda m: f"{SCHEME}knowledge/{m[1].lower()}/", uri, count=1)
    if uri.lower().startswith(SCHEME):
        path, _, query = uri[len(SCHEME) :].partition("#")[0].partition("?")
        for route in routes:
            found = route.pattern.fullmatch(path) if route.method == "GET" else None
            if found:
                texts = parse_qs(query, keep_blank_values=True)
                return route, texts | {
                    name: [unquote(text)] for name, text in found.groupdict().items()
                }
    raise NoSuchAddress(f"no resource {uri!r}", address=uri)


def _fold(name: str) -> str:
    return name.replace("_", "").lower()


def _read_text(argument: Argument, values: Sequence[str]) -> Any:
    """Text converted to the declared kind; `bind` rejects text that does not convert."""
    if argument.kind == "array":
        return [_read_one(argument.items, value) for value in values]
    if len(values) > 1:
        raise InvalidRequest(
            f"{argument.name} is given {len(values)} times",
            user_message=f"`{argument.name}` is given more than once.",
        )
    return _read_one(argument.kind, values[0])


def _read_one(kind: str | None, text: str) -> Any:
    try:
        if kind == "integer":
            return int(text)
        if kind == "number":
            return float(text)
    except ValueError:
        return text
    return _FLAGS.get(text.lower(), text) if kind == "boolean" else text
