"""Tools: typed functions from which everything else is derived.

A verb is a plain function `verb(app, <arguments>, *, work) -> TypedDict`. Its arguments are
`Annotated[type, Param(...)]`; `app` and `work` are supplied by the calling surface and are not
part of the schema. Schemas, validation, the command line and the reference page follow.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NotRequired, Required, Union

from sonde.errors import UnknownArgument
from sonde.tools.schema import Argument, Param, bind
from sonde.types import Json
from sonde.values import Kind

Toolset = Literal["code", "index", "files", "knowledge", "research"]
TOOLSETS: tuple[Toolset, ...] = typing.get_args(Toolset)

_SEPARATORS: Mapping[Toolset, str] = {"files": "-", "knowledge": "."}
"""The separator in a toolset's documented tool names (`job-progress`)."""

SUPPLIED = ("app", "work")
"""Parameters of a verb that the surface fills in, not the client."""

_KINDS: dict[Any, Kind] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    tuple: "array",
    dict: "object",
    type(None): "null",
}


@dataclass(frozen=True)
class Tool:
    """One verb as every surface shows it."""

    name: str
    """Portable: letters, digits and underscores."""
    call: Callable[..., Any]
    toolset: Toolset
    title: str
    description: str
    """Two sentences: what the tool does, and when another is better."""
    hint: str = ""
    """Appended to the description if enhanced descriptions are on."""
    read_only: bool = True
    destructive: bool = False
    idempotent: bool = True
    aliases: tuple[str, ...] = ()
    """Spellings of the specifications (`job-progress`), the preferred one first."""
    listed: bool = True
    """Whether clients see it; a variant of another tool is not listed."""
    shown: tuple[str, ...] = ()
    """Arguments in the schema, if another tool lists them all; the rest are accepted too."""
    described_by: str = ""
    """The tool that describes the shared arguments; this one describes only its first."""
    always_load: bool = False
    """Clients that load tools on demand should load this one at once."""

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments, in the order of the signature."""
        return read_arguments(self.call)

    @cached_property
    def input_schema(self) -> Json:
        """JSON Schema of the arguments."""
        schema: Json = {
            "type": "object",
            "properties": {
                argument.name: self._describe(argument)
                for argument in self.arguments
                if argument.param.listed and (not self.shown or argument.name in self.shown)
            },
            "additionalProperties": False,
        }
        required = [argument.name for argument in self.arguments if argument.required]
        return schema | {"required": required} if required else schema

    def _describe(self, argument: Argument) -> Json:
        if not self.described_by or argument == self.arguments[0]:
            return argument.schema
        return {key: fact for key, fact in argument.schema.items() if key != "description"}

    @property
    def annotations(self) -> dict[str, bool]:
        """MCP's hints on what a call may do."""
        if self.read_only:  # the other hints are about changes
            return {"readOnlyHint": True, "destructiveHint": False}
        return {
            "readOnlyHint": False,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            # The default, true, makes some clients refuse tools that write.
            "openWorldHint": False,
        }


def read_arguments(call: Callable[..., Any]) -> tuple[Argument, ...]:
    """The arguments that a verb declares, in the order of its signature."""
    hints = _read_hints(call)
    return tuple(
        _read_argument(parameter, hints[name])
        for name, parameter in inspect.signature(call).parameters.items()
        if name not in SUPPLIED
    )


def read_answer(call: Callable[..., Any]) -> Json:
    """JSON Schema of what a verb answers."""
    answer = _read_hints(call)["return"]
    if not typing.is_typeddict(answer):
        return {"type": "object"}
    properties: Json = {}
    required = []
    for key, hint in typing.get_type_hints(answer, include_extras=True).items():
        bare, _, optional = _strip(hint)
        kind = _kind_of(bare)
        properties[key] = {"type": [kind, "null"] if optional else kind} if kind else {}
        # A TypedDict with postponed annotations cannot see its own NotRequired: look at the hint.
        origin = typing.get_origin(hint)
        if origin is Required or (origin is not NotRequired and key in answer.__required_keys__):
            required.append(key)
    schema: Json = {"type": "object", "properties": properties}
    return schema | {"required": required} if required else schema


def bind_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments for `tool.call`, checked; omitted ones keep their defaults."""
    return bind(tool.name, tool.arguments, arguments)


def declare_tool(
    toolset: Toolset, call: Callable[..., Any], title: str, description: str, **options: Any
) -> Tool:
    """The tool of a verb, under the verb's own name and the spelling of its specification."""
    name, separator = call.__name__, _SEPARATORS.get(toolset, "_")
    aliases = () if separator == "_" or "_" not in name else (name.replace("_", separator),)
    return Tool(name, call, toolset, title, description, aliases=aliases, **options)


def declare_signature(
    verb: Callable[..., Any], name: str, answer: Any, parameters: Mapping[str, tuple[Any, Any]]
) -> Callable[..., Any]:
    """Give a verb that takes `**options` its name and its parameters: name -> (type, default)."""
    verb.__name__ = name
    verb.__annotations__ = {key: hint for key, (hint, _) in parameters.items()}
    verb.__annotations__["return"] = answer
    vars(verb)["__signature__"] = inspect.Signature(
        [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default)
            for key, (_, default) in parameters.items()
        ]
    )
    return verb


def find_tool(tools: Iterable[Tool], name: str) -> Tool:
    """The tool of this name, in any documented spelling and letter case."""
    if exact := next((tool for tool in tools if tool.name == name), None):
        return exact  # nearly always
    known = {fold_tool_name(spelling): t for t in tools for spelling in (t.name, *t.aliases)}
    if found := known.get(fold_tool_name(name)):
        return found
    from difflib import get_close_matches

    near = get_close_matches(fold_tool_name(name), known, n=3, cutoff=0.5)
    names = list(dict.fromkeys(known[key].name for key in near))
    raise UnknownArgument(
        f"unknown tool {name!r}",
        user_message=f"There is no tool named '{name}'.",
        next_action=f"Did you mean {' or '.join(names)}?"
        if names
        else "List the tools for their names.",
    )


def fold_tool_name(name: str) -> str:
    """A tool's name as it is compared: every documented spelling folds to the same."""
    return re.sub(r"[-.\s_]+", "_", name.strip()).lower()


def _read_hints(call: Callable[..., Any]) -> Json:
    # Without the supplied parameters: a module need not import their types at run time.
    wanted = {name: hint for name, hint in call.__annotations__.items() if name not in SUPPLIED}
    namespace = getattr(inspect.unwrap(call), "__globals__", {})
    holder = types.SimpleNamespace(__annotations__=wanted)
    return typing.get_type_hints(holder, globalns=namespace, include_extras=True)


def _strip(hint: Any) -> tuple[Any, Param | None, bool]:
    """The bare type of a hint, its `Param`, and whether None is allowed."""
    param: Param | None = None
    optional = False
    while True:
        origin = typing.get_origin(hint)
        if origin is Annotated:
            param = next((m for m in hint.__metadata__ if isinstance(m, Param)), param)
            hint = hint.__origin__
        elif origin in (Required, NotRequired):
            (hint,) = typing.get_args(hint)
        elif origin in (Union, types.UnionType):
            rest = [arg for arg in typing.get_args(hint) if arg is not type(None)]
            if len(rest) == len(typing.get_args(hint)) or len(rest) != 1:
                return hint, param, optional or len(rest) < len(typing.get_args(hint))
            hint, optional = rest[0], True
        else:
            return hint, param, optional


def _kind_of(hint: Any) -> Kind | None:
    """The JSON type of a Python type, or None where it can be several."""
    origin = typing.get_origin(hint)
    if origin is Literal:
        kinds = {_KINDS.get(type(choice)) for choice in typing.get_args(hint)}
        return kinds.pop() if len(kinds) == 1 else None
    if typing.is_typeddict(hint) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return "object"
    return _KINDS.get(origin or hint)


def _read_argument(parameter: inspect.Parameter, hint: Any) -> Argument:
    bare, param, optional = _strip(hint)
    kind = _kind_of(bare)
    if param is None or kind is None:
        raise TypeError(f"{parameter.name}: an argument needs a JSON type and a Param, not {hint}")
    choices = typing.get_args(bare) if typing.get_origin(bare) is Literal else param.choices
    inner = typing.get_args(bare)
    missing = parameter.default is inspect.Parameter.empty
    return Argument(
        name=parameter.name,
        kind=kind,
        param=param,
        required=missing,
        nullable=optional,
        default=None if missing else parameter.default,
        choices=tuple(choices or ()),
        items=_kind_of(inner[0]) if kind == "array" and inner else None,
    )
