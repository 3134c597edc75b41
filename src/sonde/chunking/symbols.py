"""The outline of a file: its definitions outside functions, by one walk over containers."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sonde.chunking.nodes import Role, roles_of
from sonde.types import Symbol

if TYPE_CHECKING:
    from tree_sitter import Node

_MEMBER_VALUES = frozenset({"java", "csharp", "kotlin", "php", "ruby", "rust", "scala", "swift"})
NAME_FIELDS = ("name", "declarator", "property", "key", "left", "pattern", "bound_identifier")
_WHOLE_NAMES = re.compile(
    "^(?:qualified_identifier|scope_resolution|member_expression|dot_index_expression"
    "|method_index_expression|qualified_name|nested_identifier|destructor_name|operator_name"
    "|template_function|user_type|module|generic_type|scoped_type_identifier)$"
)
_WRAPPED = frozenset({"reference_declarator", "parenthesized_declarator", "setter"})
"""Nodes around a name that the grammar gives no field."""
_REFERENCE = re.compile(r"^&?\s*(?:'\w+\s+)?(?:mut\s+|dyn\s+)?")
_FUNCTION_VALUE = re.compile("^(?!builtin).*(?:function|lambda|arrow|closure)")
_TYPE_VALUE = re.compile(r"^(?:class|struct_declaration|enum_declaration|union_declaration)$")
_IMPORTING = re.compile(rb"=\s*(?:await\s+)?(?:require|@import|import)\b")
_MAX_NAME = 200  # characters; longer than the longest name of a test
_BAD_NAME = re.compile(r"[\s{}()\[\],;=\"']")
_GENERIC = re.compile(r"<[^<>]*>|\[[^\]]*\]")
_NAME_NOISE = re.compile(r"\b(?:module\.exports|exports|prototype|window|this|global)\.")
_ELIXIR = re.compile(
    rb"(def(?:module|protocol|impl|guardp?|delegate|macrop?|p|struct|exception)?)\b[\s(]+"
    rb"([\w.?!]+)"
)
_ELIXIR_ROLES: dict[bytes, Role] = {
    b"defmodule": "type",
    b"defprotocol": "type",
    b"defimpl": "scope",
}
EQUATIONS = frozenset({"haskell", "elixir"})
"""Languages that define a function by several equations, one after the other."""
_RECEIVER = re.compile(rb"\b(\w+)\s*(?:\[[^\]]*\])?\s*\)$")


_LEADING = re.compile("comment|attribute|annotation|decorator|haddock|^signature$|^unary_operator$")
_WRAPPER = re.compile(
    "^(?:decorated_definition|export_statement|template_declaration|lexical_declaration"
    "|variable_declaration|type_declaration|const_declaration|var_declaration|field_declaration"
    "|ambient_declaration|expression_statement|struct_declaration|enum_declaration"
    "|union_declaration|declaration_command|body_statement|declarations|block)$"
)
"""Nodes around one definition, which begins where they begin."""
_PUNCTUATION = frozenset("export default type const let var ( { ; ,".split())
"""Tokens that may stand between the first word of a wrapper and the definition in it."""


@dataclass(slots=True)
class Definition:
    """A named part of a tree: its bytes, name, role and node.

    It is led by the decorators, attributes and comments that begin at `lead`.
    """

    start: int
    end: int
    name: str
    role: Role
    node: Node
    lead: int
    named: int  # where its name stands
    space: str = ""  # the namespace it lies in
    inner: bool = False  # not part of the outline


_LEADS = re.compile(
    rb"[ \t]*(?://|/\*|\*|#(?![ \t]*(?:if|el|end|include|define))|--|;|%|@|\[|\"\"\""
    rb"|template\b|where\b|public\b$|private\b$)"
)
"""Lines above a definition that belong to it: comments, attributes, template parameters."""
_MAX_LEAD_LINES = 60  # bounds the walk in a file that is all comments


def is_leading(node: Node) -> bool:
    """Whether a node belongs to the definition that follows it without a blank line."""
    return _LEADING.search(node.type) is not None


def index_lines(data: bytes) -> Callable[[int], int]:
    """A function from a byte offset to its line."""
    ends = [match.start() for match in re.finditer(rb"\n", data)]
    return lambda offset: bisect_left(ends, offset) + 1


def list_symbols(
    definitions: Sequence[Definition], data: bytes, grammar: str
) -> tuple[Symbol, ...]:
    """The definitions of a file; the equations of one function count as one."""
    found: list[Symbol] = []
    # `Node.start_point` of tree-sitter 0.26 crashes the process
    line_at = index_lines(data)
    for one in definitions:
        role = one.role
        if role == "type" or role == "function" or role == "value" or role == "declaration":
            name = f"{one.space}.{one.name}" if one.space else one.name
            last = line_at(max(one.start, one.end - 1))
            if grammar in EQUATIONS and found and found[-1].name == name:
                found[-1] = found[-1]._replace(end_line=max(last, found[-1].end_line))
                continue
            found.append(Symbol(name, role, line_at(one.named), line_at(one.lead), last))
    return tuple(found)


def clean_name(text: str) -> str:
    """A name for display, without type arguments; empty if it is not a name."""
    if text.isidentifier():
        return text if len(text) <= _MAX_NAME else ""
    name = _NAME_NOISE.sub("", _GENERIC.sub("", text)).replace("::", ".").replace("\\", ".")
    name = name.replace(":", ".").strip().strip(".*&")
    return "" if len(name) > _MAX_NAME or _BAD_NAME.search(name) else name


def node_text(node: Node, data: bytes) -> str:
    """The text of a node."""
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace")


def locate_name(node: Node, data: bytes, *, inside: bool = False) -> tuple[str, int]:
    """The name of a definition and where it stands; `inside` if `node` may be the name itself."""
    if node.type == "init_declaration":
        return "init", node.start_byte
    if node.type == "impl_item":
        target = node.child_by_field_name("type")
        text = _REFERENCE.sub("", node_text(target, data)) if target else ""
        return clean_name(text), target.start_byte if target else 0
    found = node
    for _ in range(10):
        inner = next(filter(None, map(found.child_by_field_name, NAME_FIELDS)), None)
        if inner is None and found.type in _WRAPPED:
            inner = found.named_children[-1] if found.named_child_count else None
        if inner is None:
            break
        found = inner
        if found.child_count == 0 or _WHOLE_NAMES.match(found.type):
            break
    if found is node and not (inside and (node.child_count == 0 or _WHOLE_NAMES.match(node.type))):
        for child in node.named_children:
            if child.type.endswith(("identifier", "name", "constant", "variable", "word")):
                found = child
                break
            if child.type in ("variable_list", "variable_declaration"):
                return locate_name(child, data)
        else:
            return ("Companion" if node.type == "companion_object" else ""), node.start_byte
    text = node_text(found, data)
    return clean_name(text[found.type == "variable_name" and text[:1] == "$" :]), found.start_byte


def _role_of_value(node: Node, data: bytes) -> Role | None:
    """The role of an assigned value: a function or class counts as one, an import as none."""
    if _IMPORTING.search(data, node.start_byte, min(node.end_byte, node.start_byte + 200)):
        return None
    value = node.child_by_field_name("value") or node.child_by_field_name("right")
    if value is None and node.named_child_count:
        value = node.named_children[-1]
        if value.type == "expression_list" and value.named_child_count:
            value = value.named_children[0]
    if value is not None:
        if _FUNCTION_VALUE.search(value.type) and "call" not in value.type:
            return "function"
        if _TYPE_VALUE.match(value.type):
            return "type"
    return "value"


def find_definitions(root: Node, data: bytes, grammar: str) -> list[Definition]:
    """Every definition outside function bodies, in order, qualified by the types around it."""
    roles = roles_of(grammar)
    definitions: list[Definition] = []
    members = grammar in _MEMBER_VALUES
    stack: list[tuple[Node, str, int]] = [(root, "", -1)]
    while stack:
        container, prefix, outer = stack.pop()
        for node, lead in _follow_leads(container, data, outer):
            role = roles.get(node.type)
            if role is None:
                continue
            if role == "through":
                stack.append((node, prefix, lead if _WRAPPER.match(node.type) else -1))
                continue
            if role == "value":
                role = _role_of_value(node, data)
                if role is None or (role == "value" and prefix and not members):
                    continue
            if role == "call":
                role, name, at = read_call(data, node.start_byte, node.end_byte)
            else:
                name, at = locate_name(node, data)
            one = _define(node, role, prefix, name, data, lead, at)
            if one:
                definitions.append(one)
            if role in ("type", "scope") and node.type != "type_definition":
                stack.append((node, one.name if one else prefix, -1))
    definitions.sort(key=lambda one: (one.start, -one.end))
    return definitions


def _follow_leads(container: Node, data: bytes, outer: int) -> Iterator[tuple[Node, int]]:
    """The parts of a container, each with the start of what leads it; `outer` is the start of what
    leads the container, -1 if that does not count."""
    lead, led = outer, -1
    for node in container.children:
        if node.type in _PUNCTUATION:
            continue
        if led >= 0 and data.count(b"\n", led, node.start_byte) > 1:
            lead = -1
        if is_leading(node):
            lead, led = lead if lead >= 0 else node.start_byte, node.end_byte
        else:
            yield node, lead if lead >= 0 else node.start_byte
            lead = led = -1


def read_call(data: bytes, start: int, end: int) -> tuple[Role, str, int]:
    """Role, name and its place of what a call of Elixir defines; no name if it defines nothing."""
    match = _ELIXIR.match(data, start, end)
    if match is None:
        return "call", "", 0
    role = _ELIXIR_ROLES.get(match[1], "function")
    return role, match[2].decode("utf-8", "replace"), match.start(2)


def _declares_only(node: Node) -> bool:
    """Whether a node names something that is defined elsewhere (`struct S;`, a prototype)."""
    if node.type.endswith("_specifier"):
        return node.child_by_field_name("body") is None
    if node.type == "declaration":
        declarator = node.child_by_field_name("declarator")
        return declarator is None or declarator.type != "init_declarator"
    return False


def _define(
    node: Node, role: Role, prefix: str, name: str, data: bytes, lead: int, at: int
) -> Definition | None:
    kind = node.type
    if not name or _declares_only(node):
        return None
    if kind == "method_declaration":
        receiver = node.child_by_field_name("receiver")
        if found := receiver and _RECEIVER.search(data, receiver.start_byte, receiver.end_byte):
            prefix = found[1].decode("utf-8", "replace")
    elif kind == "class_declaration":
        keyword = node.child_by_field_name("declaration_kind")
        if keyword is not None and keyword.type == "extension":
            role = "scope"
    elif kind == "type_item" and prefix:
        role = "value"
    qualified = f"{prefix}.{name}" if prefix else name
    return Definition(node.start_byte, node.end_byte, qualified, role, node, lead, at)


def find_lead(data: bytes, start: int, leading: re.Pattern[bytes] | None = None) -> int:
    """The start of the comments and attributes right above a line; of the line itself if none."""
    at = data.rfind(b"\n", 0, start) + 1
    for _ in range(_MAX_LEAD_LINES):
        above = data.rfind(b"\n", 0, at - 1) + 1 if at else 0
        line = data[above : at - 1] if at else b""
        if not at or not (leading or _LEADS).match(line):
            break
        at = above
    return at
