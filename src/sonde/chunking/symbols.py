"""Definitions in a syntax tree: one table of node types, one walk over containers."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal

from sonde.types import Symbol

if TYPE_CHECKING:
    from tree_sitter import Node

Role = Literal["type", "function", "value", "scope", "through", "call"]
"""`scope` qualifies names without defining one (`impl Foo`); `through` is only descended into."""

_JS: dict[Role, str] = {
    "type": "class_declaration class abstract_class_declaration interface_declaration "
    "type_alias_declaration enum_declaration internal_module module",
    "function": "function_declaration generator_function_declaration method_definition "
    "function_signature abstract_method_signature",
    "value": "variable_declarator assignment_expression field_definition public_field_definition",
}
_CPP: dict[Role, str] = {
    "type": "struct_specifier union_specifier enum_specifier class_specifier type_definition "
    "alias_declaration concept_definition",
    "function": "function_definition preproc_function_def",
    "value": "declaration preproc_def",
}
_TABLE: dict[str, dict[Role, str]] = {
    "bash": {"function": "function_definition", "value": "variable_assignment"},
    "c": _CPP,
    "cpp": _CPP,
    "csharp": {
        "type": "class_declaration struct_declaration interface_declaration enum_declaration "
        "record_declaration record_struct_declaration delegate_declaration",
        "function": "method_declaration constructor_declaration destructor_declaration "
        "operator_declaration conversion_operator_declaration local_function_statement",
        "value": "variable_declarator property_declaration indexer_declaration",
    },
    "elixir": {"call": "call"},
    "go": {
        "type": "type_spec type_alias",
        "function": "function_declaration method_declaration",
        "value": "const_spec var_spec",
    },
    "haskell": {
        "type": "data_type newtype type_synonym type_synomym class type_family data_family",
        "function": "function foreign_import",
        "value": "bind pattern_synonym",
        "scope": "instance",
    },
    "java": {
        "type": "class_declaration interface_declaration enum_declaration record_declaration "
        "annotation_type_declaration",
        "function": "method_declaration constructor_declaration compact_constructor_declaration",
        "value": "variable_declarator",
    },
    "javascript": _JS,
    "kotlin": {
        "type": "class_declaration object_declaration type_alias",
        "function": "function_declaration secondary_constructor",
        "value": "property_declaration",
    },
    "lua": {"function": "function_declaration", "value": "assignment_statement"},
    "php": {
        "type": "class_declaration interface_declaration trait_declaration enum_declaration",
        "function": "function_definition method_declaration",
        "value": "const_element",
    },
    "python": {
        "type": "class_definition type_alias_statement",
        "function": "function_definition",
        "value": "assignment",
    },
    "ruby": {"type": "class module", "function": "method singleton_method", "value": "assignment"},
    "rust": {
        "type": "struct_item enum_item union_item trait_item type_item mod_item associated_type",
        "function": "function_item function_signature_item macro_definition",
        "value": "const_item static_item",
        "scope": "impl_item",
    },
    "scala": {
        "type": "class_definition object_definition trait_definition enum_definition "
        "type_definition package_object given_definition",
        "function": "function_definition function_declaration",
        "value": "val_definition var_definition",
    },
    "swift": {
        "type": "class_declaration protocol_declaration typealias_declaration "
        "associatedtype_declaration",
        "function": "function_declaration protocol_function_declaration init_declaration "
        "subscript_declaration macro_declaration",
        "value": "property_declaration",
    },
    "zig": {"function": "function_declaration", "value": "variable_declaration"},
}
_TABLE["tsx"] = _TABLE["typescript"] = _JS
_THROUGH = (
    "ERROR ambient_declaration block body_statement class_body class_declarations companion_object "
    "compound_statement const_declaration const_spec_list declaration_list declarations "
    "declaration_command decorated_definition do_block elif_clause else else_clause enum_body "
    "enum_body_declarations enum_class_body enum_declaration_list except_clause export_statement "
    "expression_statement extension_definition field_declaration field_declaration_list "
    "finally_clause foreign_mod_item function_body if_statement instance_declarations "
    "interface_body lexical_declaration linkage_specification namespace_declaration "
    "namespace_definition package_clause preproc_elif preproc_else preproc_if preproc_ifdef "
    "protocol_body singleton_class statement_block struct_declaration enum_declaration "
    "union_declaration template_body template_declaration try_statement type_declaration "
    "var_declaration var_spec_list variable_declaration with_statement with_template_body "
    "annotation_type_body stable_symbol_body imports"
)
_MEMBER_VALUES = frozenset({"java", "csharp", "kotlin", "php", "ruby", "rust", "scala", "swift"})
_NAME_FIELDS = ("name", "declarator", "property", "left", "pattern", "bound_identifier")
_WHOLE_NAMES = re.compile(
    "^(?:qualified_identifier|scope_resolution|member_expression|dot_index_expression"
    "|method_index_expression|qualified_name|nested_identifier|destructor_name|operator_name"
    "|template_function|user_type|module|generic_type|scoped_type_identifier)$"
)
_FUNCTION_VALUE = re.compile("^(?!builtin).*(?:function|lambda|arrow|closure)")
_TYPE_VALUE = re.compile(r"^(?:class|struct_declaration|enum_declaration|union_declaration)$")
_IMPORTING = re.compile(rb"=\s*(?:await\s+)?(?:require|@import|import)\b")
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
_EQUATIONS = frozenset({"haskell", "elixir"})
"""Languages that define a function by several equations, one after the other."""
_LINE_END = re.compile(rb"\n")
_RECEIVER = re.compile(rb"(\w+)\s*(?:\[[^\]]*\])?\s*\)$")


_LEADING = re.compile("comment|attribute|annotation|decorator|haddock|^signature$|^unary_operator$")
_WRAPPER = re.compile(
    "^(?:decorated_definition|export_statement|template_declaration|lexical_declaration"
    "|variable_declaration|type_declaration|const_declaration|var_declaration|field_declaration"
    "|ambient_declaration|expression_statement|struct_declaration|enum_declaration"
    "|union_declaration|declaration_command)$"
)
"""Nodes around one definition, which begins where they begin."""
_PUNCTUATION = frozenset("export default type const let var ( { ; ,".split())
"""Tokens that may stand between the lead of a wrapper and what it holds."""


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


def is_leading(node: Node) -> bool:
    """Whether a node belongs to the definition that follows it without a blank line."""
    return _LEADING.search(node.type) is not None


def list_symbols(
    definitions: Sequence[Definition], data: bytes, grammar: str
) -> tuple[Symbol, ...]:
    """What a file defines; equations of one function are one definition."""
    found: list[Symbol] = []
    # Lines are counted here: `Node.start_point` of tree-sitter 0.26 crashes the process.
    ends = [match.start() for match in _LINE_END.finditer(data)] if definitions else []
    for one in definitions:
        role = one.role
        if role == "type" or role == "function" or role == "value":
            last = bisect_left(ends, max(one.start, one.end - 1)) + 1
            if grammar in _EQUATIONS and found and found[-1].name == one.name:
                found[-1] = replace(found[-1], end_line=max(last, found[-1].end_line))
                continue
            named = data.find(one.name.rpartition(".")[2].encode(), one.start, one.end)
            line = bisect_left(ends, max(named, one.start)) + 1
            found.append(Symbol(one.name, role, line, bisect_left(ends, one.lead) + 1, last))
    return tuple(found)


@cache
def roles_of(grammar: str) -> dict[str, Role]:
    """Node type -> role in that grammar."""
    roles: dict[str, Role] = dict.fromkeys(_THROUGH.split(), "through")
    for role, node_types in _TABLE[grammar].items():
        roles |= dict.fromkeys(node_types.split(), role)
    return roles


def _clean_name(text: str) -> str:
    name = _NAME_NOISE.sub("", _GENERIC.sub("", text)).replace("::", ".").replace("\\", ".")
    name = name.replace(":", ".").strip().strip(".*&?$")
    return "" if len(name) > 120 or _BAD_NAME.search(name) else name


def _read(node: Node, data: bytes) -> str:
    return data[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _name_of(node: Node, data: bytes) -> str:
    if node.type == "init_declaration":
        return "init"
    if node.type == "impl_item":
        target = node.child_by_field_name("type")
        return _clean_name(_read(target, data)) if target else ""
    found = node
    for _ in range(10):
        inner = next(filter(None, map(found.child_by_field_name, _NAME_FIELDS)), None)
        if inner is None:
            break
        found = inner
        if found.child_count == 0 or _WHOLE_NAMES.match(found.type):
            break
    if found is node:
        for child in node.named_children:
            if child.type.endswith(("identifier", "name", "constant", "variable", "word")):
                found = child
                break
            if child.type in ("variable_list", "variable_declaration"):
                return _name_of(child, data)
        else:
            return ""
    return _clean_name(_read(found, data))


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
            name = ""
            if role == "call":
                role, name = _read_call(data, node.start_byte, node.end_byte)
                if not name:
                    continue
            one = _define(node, role, prefix, name or _name_of(node, data), data, lead)
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


def _read_call(data: bytes, start: int, end: int) -> tuple[Role, str]:
    """Role and name of what a call of Elixir defines; an empty name if it defines nothing."""
    match = _ELIXIR.match(data, start, end)
    if match is None:
        return "call", ""
    return _ELIXIR_ROLES.get(match[1], "function"), match[2].decode("utf-8", "replace")


def _declares_only(node: Node) -> bool:
    """Whether a node names something that is defined elsewhere (`struct S;`, a prototype)."""
    if node.type.endswith("_specifier"):
        return node.child_by_field_name("body") is None
    if node.type == "declaration":
        declarator = node.child_by_field_name("declarator")
        return declarator is None or declarator.type != "init_declarator"
    return False


def _define(
    node: Node, role: Role, prefix: str, name: str, data: bytes, lead: int
) -> Definition | None:
    kind = node.type
    if not name or _declares_only(node):
        return None
    if kind == "method_declaration":
        receiver = node.child_by_field_name("receiver")
        found = receiver and _RECEIVER.search(data, receiver.start_byte, receiver.end_byte)
        if found:
            prefix = found[1].decode("utf-8", "replace")
    elif kind == "class_declaration":
        keyword = node.child_by_field_name("declaration_kind")
        if keyword is not None and keyword.type == "extension":
            role = "scope"
    elif kind == "type_item" and prefix:
        role = "value"
    qualified = f"{prefix}.{name}" if prefix else name
    return Definition(node.start_byte, node.end_byte, qualified, role, node, lead)
