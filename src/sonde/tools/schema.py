"""The arguments of a verb: their declaration, their JSON Schema, and the binding of a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from sonde import values
from sonde.errors import EmptyQuery, UnknownArgument
from sonde.types import Json

LISTED_LENGTH = 100
"""Schemas list length limits between 1 and this. Others are checked too, but they only protect the
server, and listing them would cost context."""


@dataclass(frozen=True)
class Param:
    """Declares more about an argument than its type: `Annotated[int, Param(...)]`."""

    description: str
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    """For strings in characters, for arrays in items."""
    max_length: int | None = None
    choices: tuple[str, ...] | None = None
    """For sets that a `Literal` cannot name."""
    example: Any = None
    """Shown in the reference; no part of the schema."""
    terse: bool = False
    """List only the type in the schema: the name says enough, and bad values are rejected."""
    listed: bool = True
    """Whether the schema names it; it is accepted either way."""
    default: Any = None
    """The default shown in the schema, where the verb's own default of None means "not given"."""
    clamp: bool = False
    """A number out of bounds becomes the nearest bound."""
    numbers: bool = False
    """A string that may also be given as an integer."""
    lists: bool = False
    """A string that may also be given as a list of its parts."""


@dataclass(frozen=True)
class Argument:
    """One argument as its verb declares it."""

    name: str
    kind: values.Kind
    param: Param
    required: bool
    nullable: bool
    default: Any
    choices: tuple[Any, ...] = ()
    items: values.Kind | None = None

    @cached_property
    def schema(self) -> Json:
        """JSON Schema of the argument as clients see it."""
        lengths = ("minLength", "maxLength", "minItems", "maxItems")
        hidden = {key for key in lengths if not 1 < self.full_schema.get(key, 0) < LISTED_LENGTH}
        if self.param.terse:
            hidden |= {"description", *lengths}
        # a flag that is not given is off
        if self.default is False or (self.param.terse and self.param.default is None):
            hidden.add("default")
        return {key: fact for key, fact in self.full_schema.items() if key not in hidden}

    @cached_property
    def full_schema(self) -> Json:
        """JSON Schema of the argument with everything that is checked."""
        lengths = ("minItems", "maxItems") if self.kind == "array" else ("minLength", "maxLength")
        facts = {
            "enum": list(self.choices) or None,
            "items": {"type": self.items} if self.items else None,
            "minimum": self.param.minimum,
            "maximum": self.param.maximum,
            lengths[0]: self.param.min_length,
            lengths[1]: self.param.max_length,
            "default": self.param.default if self.default in ("", (), None) else self.default,
            "description": self.param.description,
        }
        return {"type": self.kind} | {key: fact for key, fact in facts.items() if fact is not None}

    def convert(self, value: Any) -> Any:
        """The value as the verb takes it; raises `InvalidRequest` if it is not acceptable."""
        param = self.param
        if value is None and not self.required:
            return None if self.nullable else self.default
        if param.lists and isinstance(value, list | tuple):
            value = ", ".join(values.convert_items(self.name, "string", value))
        if self.name == "query" and isinstance(value, str) and not value.strip():
            if self.required:
                raise EmptyQuery
            return self.default
        if param.numbers and type(value) is int:
            value = str(value)
        value = values.convert_kind(self.name, self.kind, value)
        if param.clamp:
            value = min(max(value, param.minimum), param.maximum)
        if self.items:
            value = values.convert_items(self.name, self.items, value)
        if self.choices:
            values.check_choice(self.name, value, self.choices)
        if self.kind in ("integer", "number"):
            values.check_bounds(self.name, value, param.minimum, param.maximum)
        elif self.kind in ("string", "array"):
            unit = " characters long" if self.kind == "string" else " items long"
            values.check_bounds(self.name, len(value), param.min_length, param.max_length, unit)
        return value


def bind(owner: str, arguments: Iterable[Argument], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values by declared name, checked; snake_case and camelCase are both accepted."""
    known = {argument.name: argument for argument in arguments}
    bound: dict[str, Any] = {}
    for spelling, value in given.items():
        name = spelling if spelling in known else values.to_snake(spelling)
        if name not in known:
            raise _unknown_argument(owner, spelling, list(known))
        if name in bound:
            raise values.invalid_value(f"`{name}` is given twice, in two spellings")
        bound[name] = known[name].convert(value)
    for argument in known.values():
        if argument.required and argument.name not in bound:
            raise values.invalid_value(
                f"{owner} needs `{argument.name}`: {argument.param.description}"
            )
    return bound


def _unknown_argument(owner: str, spelling: str, names: list[str]) -> UnknownArgument:
    near = values.nearest_name(spelling, names)
    if near:
        advice = f"Did you mean `{near}`?"
    elif names:
        advice = f"It takes {', '.join(f'`{name}`' for name in names)}."
    else:
        advice = "It takes no arguments."
    return UnknownArgument(
        f"{owner} has no argument {values.quote_value(spelling)}. {advice}",
        user_message=f"{owner} has no argument {values.quote_value(spelling)}.",
        next_action=advice,
    )


ProjectParam = Annotated[
    str | None, Param("Folder of the project; default: here", max_length=4096, terse=True)
]
ConfirmParam = Annotated[
    str | None, Param("Token of the answer that asked", max_length=100, terse=True)
]
IndexParam = Annotated[str, Param("indexId", min_length=1, max_length=64)]
NodeParam = Annotated[str, Param("nodeId", min_length=1, max_length=64)]
LimitParam = Annotated[int, Param("Rows of a page", minimum=1, maximum=1000)]
CursorParam = Annotated[str | None, Param("As in nextPageUrl", max_length=4096)]
TagsParam = Annotated[
    tuple[str, ...] | None,
    Param("Only what has all of these tags (see cortex_search)", max_length=100, terse=True),
]
TypesParam = Annotated[
    tuple[str, ...] | None,
    Param("Only these views of files (see cortex_search)", max_length=100, terse=True),
]
TokensParam = Annotated[
    int | None, Param("Size of the answer", minimum=200, maximum=20_000, terse=True)
]
