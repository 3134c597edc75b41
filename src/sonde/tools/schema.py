"""The arguments of a tool: what may be passed, and the check that it is what was passed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from sonde.errors import EmptyQuery, InvalidRequest, UnknownArgument

Kind = Literal["string", "integer", "number", "boolean", "array", "object", "null"]
"""The types of JSON."""

_NAMES: dict[type, str] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
    type(None): "null",
}
_WANTED: dict[Kind, str] = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_TYPES: dict[Kind, Any] = {
    "string": (str,),
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}
_GUARD = 100
"""A length from here on guards the server and is checked; no caller needs to be told."""


@dataclass(frozen=True)
class Param:
    """What a signature says of an argument beyond its type: `Annotated[int, Param(...)]`."""

    description: str
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    """Of a string in characters, of an array in items."""
    max_length: int | None = None
    choices: tuple[str, ...] | None = None
    """For sets that a `Literal` cannot name."""
    example: Any = None
    """Shown in the reference; no part of the schema."""
    terse: bool = False
    """The schema gives only the type: the name says enough, a wrong value is told on the call."""
    listed: bool = True
    """Whether the schema names it at all; it is taken in any case."""
    clamp: bool = False
    """A number out of bounds is taken as the nearest within."""
    numbers: bool = False
    """A string that may be given as a whole number, too."""
    lists: bool = False
    """A string that may be given as a list of its parts, too."""


@dataclass(frozen=True)
class Argument:
    """One argument as its verb declares it."""

    name: str
    kind: Kind
    param: Param
    required: bool
    nullable: bool
    default: Any
    choices: tuple[Any, ...] = ()
    items: Kind | None = None

    @cached_property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of this argument as it is listed."""
        hidden = {"maxLength"} if self.full_schema.get("maxLength", 0) >= _GUARD else set()
        if self.param.terse:
            hidden |= {"description", "default", "minLength", "maxLength", "minItems", "maxItems"}
        return {key: fact for key, fact in self.full_schema.items() if key not in hidden}

    @cached_property
    def full_schema(self) -> dict[str, Any]:
        """JSON Schema of this argument with everything that is checked."""
        lengths = ("minItems", "maxItems") if self.kind == "array" else ("minLength", "maxLength")
        facts = {
            "enum": list(self.choices) or None,
            "items": {"type": self.items} if self.items else None,
            "minimum": self.param.minimum,
            "maximum": self.param.maximum,
            lengths[0]: self.param.min_length,
            lengths[1]: self.param.max_length,
            "default": self.default if self.default not in ("", ()) else None,
            "description": self.param.description,
        }
        return {"type": self.kind} | {key: fact for key, fact in facts.items() if fact is not None}

    def convert(self, value: Any) -> Any:
        """The value as the verb wants it, or an error that says what is wrong with it."""
        if value is None and self.nullable:
            return None
        if self.param.lists and isinstance(value, list | tuple):
            parts = enumerate(value)
            value = ", ".join(_convert_kind(f"{self.name}[{at}]", "string", v) for at, v in parts)
        if self.name == "query" and isinstance(value, str) and not value.strip():
            if self.required:
                raise EmptyQuery
            return self.default
        if self.param.numbers and type(value) is int:
            value = str(value)
        value = _convert_kind(self.name, self.kind, value)
        if self.param.clamp:
            value = min(max(value, self.param.minimum), self.param.maximum)
        if self.items:
            value = [
                _convert_kind(f"{self.name}[{at}]", self.items, item)
                for at, item in enumerate(value)
            ]
        if self.choices and value not in self.choices:
            listed = ", ".join(map(str, self.choices))
            raise _refuse(f"`{self.name}` must be one of {listed}; it is {_show(value)}")
        self._check_bounds(value)
        return value

    def _check_bounds(self, value: Any) -> None:
        if self.kind in ("integer", "number"):
            low, high, size, unit = self.param.minimum, self.param.maximum, value, ""
        elif self.kind in ("string", "array"):
            low, high, size = self.param.min_length, self.param.max_length, len(value)
            unit = " characters long" if self.kind == "string" else " items long"
        else:
            return
        too_low = low is not None and size < low
        if too_low or (high is not None and size > high):
            bounds = f"{low} to {high}"
            if low is None or high is None:
                bounds = f"at most {high}" if low is None else f"at least {low}"
            raise _refuse(f"`{self.name}` must be {bounds}{unit}; it is {_show(size)}")


def bind(owner: str, arguments: Iterable[Argument], given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, by the declared names, checked; snake_case and camelCase both serve."""
    known = {argument.name: argument for argument in arguments}
    bound: dict[str, Any] = {}
    for spelling, value in given.items():
        name = spelling if spelling in known else _to_snake(spelling)
        if name not in known:
            raise _refuse_unknown(owner, spelling, list(known))
        if name in bound:
            raise _refuse(f"`{name}` is given twice, in two spellings")
        bound[name] = known[name].convert(value)
    for argument in known.values():
        if argument.required and argument.name not in bound:
            raise _refuse(f"{owner} needs `{argument.name}`: {argument.param.description}")
    return bound


def _convert_kind(name: str, kind: Kind, value: Any) -> Any:
    if isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool)):
        if kind == "array":
            return list(value)
        if kind not in ("integer", "number"):
            return value
        if abs(value) <= sys.float_info.max and (kind == "number" or value == int(value)):
            return float(value) if kind == "number" else int(value)
    found = _NAMES.get(type(value), type(value).__name__)
    shown = f"{_show(value)}, {found}" if isinstance(value, str | int | float) else found
    raise _refuse(f"`{name}` must be {_WANTED[kind]}; it is {shown}")


def _to_snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _refuse(problem: str) -> InvalidRequest:
    # Handed over as a fact: a message may quote braces, which the template would read.
    return InvalidRequest(problem, user_message="{problem}.", problem=problem)


def _refuse_unknown(owner: str, spelling: str, names: list[str]) -> UnknownArgument:
    from difflib import get_close_matches

    near = get_close_matches(_to_snake(spelling), names, n=1, cutoff=0.6)
    if near:
        advice = f"Did you mean `{near[0]}`?"
    elif names:
        advice = f"It takes {', '.join(f'`{name}`' for name in names)}."
    else:
        advice = "It takes no arguments."
    return UnknownArgument(
        f"{owner} has no argument {_show(spelling)}. {advice}",
        user_message="{owner} has no argument {spelling}.",
        next_action="{advice}",
        owner=owner,
        spelling=_show(spelling),
        advice=advice,
    )
