"""The node types of each grammar that define something: one table, read by the outline."""

from __future__ import annotations

from functools import cache
from typing import Literal

Role = Literal["type", "function", "value", "declaration", "scope", "space", "through", "call"]
"""`scope` and `space` qualify names without defining one (`impl Foo`, `namespace a`); `through` is
only descended into; a `declaration` names what is defined elsewhere."""

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


@cache
def roles_of(grammar: str) -> dict[str, Role]:
    """Node type -> role in that grammar."""
    roles: dict[str, Role] = dict.fromkeys(_THROUGH.split(), "through")
    for role, node_types in _TABLE[grammar].items():
        roles |= dict.fromkeys(node_types.split(), role)
    return roles


def node_types_of(grammar: str, role: Role) -> list[str]:
    """The node types that have a role in a grammar."""
    return _TABLE[grammar].get(role, "").split()
