"""Definitions that the outline of a file leaves out, by queries over its syntax tree (`queries/`).

The outline (`symbols.py`) decides how a file is cut: types, functions and the values around them.
These are all other names that someone may ask for: what is defined inside functions, members of
types, prototypes. They are qualified by whatever encloses them; local variables are no definitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sonde.chunking.grammars import load_language
from sonde.chunking.nodes import Role, node_types_of
from sonde.chunking.symbols import (
    NAME_FIELDS,
    Definition,
    clean_name,
    find_lead,
    locate_name,
    node_text,
    read_call,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Query

_DEFINING: tuple[Role, ...] = ("type", "function", "scope")
_TYPED = "function"  # of Haskell: also the type of one
_ROLES: dict[str, Role] = {**{role: role for role in _DEFINING}, "space": "space"}
_ELIXIR_TYPES = re.compile(rb"@(?:type|typep|opaque|callback|macrocallback)\s+\(?([\w?!]+)")
_ELIXIR_VALUE = re.compile(rb"@(\w+)\s")
_ELIXIR_DOCS = frozenset({b"doc", b"moduledoc", b"spec", b"impl", b"behaviour", b"typedoc", b"tag"})
_SELF = re.compile(rb"self\.(\w+)\s*[:=]")
_SYMBOL = re.compile(rb"[:\"'](\w+[?!]?)")
_ALIAS = re.compile(rb"alias\s+(?:-\w+\s+)*([\w.:-]+)=")
_MANY = frozenset({"field_declaration", "field", "enum_entry", "declaration"})
"""Nodes that may hold several names."""
_LISTS = frozenset({"pattern_list", "tuple_pattern"})
_CONSTRUCTORS = ("__init__", "constructor", "__construct")
_PROPERTIES = frozenset({"assignment", "required_parameter", "property_promotion_parameter"})
"""Nodes in a constructor that define a member of its class."""
_LOCAL: Literal[0] = 0


def _read_query(grammar: str) -> str:
    """The query of a grammar, after the one that its first line inherits."""
    path = Path(__file__).with_name("queries") / f"{grammar}.scm"
    text = path.read_text("utf-8") if path.exists() else ""
    inherited = re.match(r"; inherits: (\w+)", text)
    return (_read_query(inherited[1]) if inherited else "") + text


@cache
def _query_for(grammar: str) -> Query:
    from tree_sitter import Query

    language = load_language(grammar)
    known = set(map(language.node_kind_for_id, range(language.node_kind_count))) - {_TYPED}
    parts = [_read_query(grammar)]
    for role in _DEFINING:
        parts += [f"({kind}) @{role}" for kind in node_types_of(grammar, role) if kind in known]
    return Query(language, "\n".join(parts))


def find_details(
    root: Node, data: bytes, grammar: str, outline: Sequence[Definition]
) -> list[Definition]:
    """All definitions in order: those of the outline, and the others, qualified."""
    from tree_sitter import QueryCursor

    known = {one.node.id for one in outline}
    found = list(outline)
    for capture, nodes in QueryCursor(_query_for(grammar)).captures(root).items():
        if capture[0] == "_":
            continue
        for node in nodes:
            if node.id not in known:
                known.add(node.id)
                found += _read_detail(node, capture, data, grammar)
    found.sort(key=lambda one: (one.start, -one.end))
    return list(_qualify(found))


def _read_detail(node: Node, capture: str, data: bytes, grammar: str) -> Iterator[Definition]:
    start, end = node.start_byte, node.end_byte
    role = _ROLES.get(capture, "value")
    names: list[tuple[str, int]] = []
    if capture in ("call", "attribute", "alias"):
        role, names = _read_special(node, data, grammar)
    elif node.type in _MANY or capture == "value":
        names = list(_list_names(node, data))
        if grammar in ("c", "cpp") and _declares(node, data):
            role = "declaration"
        elif node.type == "method_signature":
            role = "function"
    elif not (node.type.endswith("_specifier") and node.child_by_field_name("body") is None):
        names = [locate_name(node, data)]
    lead = -1
    for name, at in names:
        if name:
            if lead < 0:
                lead = start if role == "space" else find_lead(data, start)
            yield Definition(start, end, name, role, node, lead, at, inner=True)


def _read_special(node: Node, data: bytes, grammar: str) -> tuple[Role, list[tuple[str, int]]]:
    start, end = node.start_byte, node.end_byte
    if grammar == "elixir" and node.type == "call":
        kind, name, at = read_call(data, start, end)
        return kind, [(name, at)]
    role: Role = "value"
    if grammar == "elixir":
        found = _ELIXIR_TYPES.match(data, start, end)
        if found:
            role = "function" if b"callback" in found[0] else "type"
        else:
            found = _ELIXIR_VALUE.match(data, start, end)
            found = None if found and found[1] in _ELIXIR_DOCS else found
    elif grammar == "ruby":
        matches = _SYMBOL.finditer(data, start, end)
        names = [(match[1].decode(), match.start(1)) for match in matches]
        return ("value", names) if data.startswith(b"attr_", start) else ("function", names[:1])
    else:
        pattern = _SELF if grammar == "python" else _ALIAS
        found = pattern.match(data, start, min(end, start + 200))
        role = "value" if grammar == "python" else "function"
    return role, [(found[1].decode("utf-8", "replace"), found.start(1))] if found else []


def _list_names(node: Node, data: bytes) -> Iterator[tuple[str, int]]:
    """Every name of a node that may hold several (`a, b int`)."""
    if node.child_count == 0:
        yield clean_name(node_text(node, data)), node.start_byte
        return
    for field in NAME_FIELDS:
        parts = node.children_by_field_name(field)
        for part in parts:
            for each in part.named_children if part.type in _LISTS else [part]:
                yield locate_name(each, data, inside=True)
        if parts:
            return
    yield locate_name(node, data)


def _declares(node: Node, data: bytes) -> bool:
    """Whether a declaration of C names what is defined elsewhere: a prototype, an `extern`."""
    inner = node.child_by_field_name("declarator")
    while inner is not None:
        if inner.type in ("function_declarator", "operator_cast"):
            return True
        inner = inner.child_by_field_name("declarator")
    return data.startswith(b"extern", node.start_byte)


def _find_owner(one: Definition, stack: Sequence[Definition]) -> Definition | Literal[0] | None:
    """The definition that qualifies the name of another; `_LOCAL` if that is a local variable."""
    kind = one.node.type
    if not stack or kind.startswith("preproc"):
        return None
    around, outer = stack[-1], stack[-2] if len(stack) > 1 else None
    if one.role in ("value", "declaration") and around.role == "function":
        made = around.name.endswith(_CONSTRUCTORS) and kind in _PROPERTIES
        return outer if made else _LOCAL
    return outer if around.node.type == "type_definition" and one.role == "type" else around


def _qualify(found: Sequence[Definition]) -> Iterator[Definition]:
    """Give each its full name, by what encloses it; drop the local ones."""
    stack: list[Definition] = []
    space = ""
    spaces: list[tuple[int, str]] = []
    for one in found:
        while stack and (stack[-1].end <= one.start or stack[-1].node.id == one.node.id):
            stack.pop()
        while spaces and spaces[-1][0] <= one.start:
            space = spaces.pop()[1]
        if one.role == "space":
            whole = one.node.child_by_field_name("body") is None
            spaces.append((1 << 40 if whole else one.end, space))
            space = f"{space}.{one.name}" if space and not whole else one.name
            continue
        if one.inner:
            around = _find_owner(one, stack)
            if around is _LOCAL:
                continue
            one.space = around.space if around else space
            one.name = f"{around.name}.{one.name}" if around else one.name
        else:
            one.space = space
        stack.append(one)
        yield one
