"""Checks of one JSON value: its kind, its bounds, its choices.

The only validator. Tool arguments, retrieval options and settings declare what they accept and
call these; each raises `InvalidRequest` with a sentence that names the value.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from sonde.errors import InvalidRequest

Kind = Literal["string", "integer", "number", "boolean", "array", "object", "null"]
"""The types of JSON."""

_KINDS: Mapping[Kind, tuple[Any, str]] = {
    "string": ((str,), "a string"),
    "integer": ((int, float), "an integer"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "array": ((list, tuple), "an array"),
    "object": ((dict,), "an object"),
    "null": ((type(None),), "null"),
}
"""The Python types that a kind accepts, and how a message names the kind."""
_TYPE_NAMES: Mapping[type, str] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
    type(None): "null",
}
_ALIKE = 0.6  # of two spellings: two letters of five may differ
SHOWN_CHARS = 60
"""How much of a wrong value a message quotes."""


def convert_kind(name: str, kind: Kind, value: Any) -> Any:
    """The value as a Python object of its kind; `5.0` is an integer, `true` is not."""
    types, wanted = _KINDS[kind]
    if isinstance(value, types) and (kind == "boolean" or not isinstance(value, bool)):
        if kind == "array":
            return list(value)
        if kind not in ("integer", "number"):
            return value
        if abs(value) <= sys.float_info.max and (kind == "number" or value == int(value)):
            return float(value) if kind == "number" else int(value)
    found = _TYPE_NAMES.get(type(value), type(value).__name__)
    shown = f"{quote_value(value)}, {found}" if isinstance(value, str | int | float) else found
    raise invalid_value(f"`{name}` must be {wanted}; it is {shown}")


def convert_items(name: str, kind: Kind, values: Sequence[object]) -> list[Any]:
    """Every item of an array as its kind."""
    return [convert_kind(f"{name}[{at}]", kind, value) for at, value in enumerate(values)]


def check_choice(name: str, value: object, choices: Collection[object]) -> None:
    """Raise unless the value is one of the choices."""
    if value not in choices:
        listed = ", ".join(map(str, choices))
        raise invalid_value(f"`{name}` must be one of {listed}; it is {quote_value(value)}")


def check_bounds(
    name: str, size: float, low: float | None, high: float | None, unit: str = ""
) -> None:
    """Raise unless the number, or the length that `unit` names, is within its bounds."""
    if (low is None or size >= low) and (high is None or size <= high):
        return
    bounds = f"{low} to {high}"
    if low is None or high is None:
        bounds = f"at most {high}" if low is None else f"at least {low}"
    raise invalid_value(f"`{name}` must be {bounds}{unit}; it is {quote_value(size)}")


def to_snake(name: str) -> str:
    """A camelCase name in snake_case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def to_camel(name: str) -> str:
    """A snake_case name in camelCase."""
    return re.sub("_(.)", lambda found: found[1].upper(), name)


def nearest_name(spelling: str, names: Iterable[str]) -> str | None:
    """The most similar name: one with the same start or end, or a similar spelling."""
    from difflib import SequenceMatcher

    meant = to_snake(spelling)
    ranked = []
    for name in names:
        likeness = SequenceMatcher(None, meant, name).ratio()
        short, long = sorted((meant, name), key=len)
        part = bool(short) and (long.startswith(short) or long.endswith(f"_{short}"))
        if part or likeness >= _ALIKE:
            ranked.append((part, likeness, name))
    return max(ranked)[2] if ranked else None


def quote_value(value: object) -> str:
    """A value as a message shows it, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 3] + "..."


def invalid_value(problem: str) -> InvalidRequest:
    """The error for a value that is not accepted."""
    return InvalidRequest(problem, user_message=f"{problem}.")
