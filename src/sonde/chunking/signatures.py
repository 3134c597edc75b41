"""What a definition says of itself: its comments, its signature, and of which kind it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sonde.chunking.packing import LARGEST, WHOLE
from sonde.chunking.symbols import Definition

if TYPE_CHECKING:
    from tree_sitter import Node

_COMMENT_LINE = re.compile(
    rb"[ \t]*(?://|/\*|\*|#(?![ \t]*(?:if|el|end|include|define))|--|;|%|@|\[|\"\"\")"
)
_TEMPLATE = re.compile(rb"[ \t]*(?:template\b|where\b|public\b$|private\b$)")
_MOST_LINES = 60
_BODY = re.compile(
    r"^(?:block|body|.*_body|compound_statement|statement_block|field_declaration_list"
    r"|declaration_list|enumerator_list|enum_variant_list|class_declarations|do_block"
    r"|ordered_field_declaration_list|body_statement|struct_type_body)$"
)
_KIND = re.compile(
    "struct|interface|enum|trait|record|protocol|union|object|namespace|module|mod(?=_)|class"
    "|concept|typealias|alias|newtype|delegate|annotation|instance|extension|family|data|given"
)
_WORDS = {"mod": "module", "typealias": "type alias", "alias": "type alias", "data": "data type"}


def find_lead(data: bytes, start: int) -> int:
    """Where the comments and attributes right above a line begin; the line itself if none."""
    at = data.rfind(b"\n", 0, start) + 1
    for _ in range(_MOST_LINES):
        above = data.rfind(b"\n", 0, at - 1) + 1 if at else 0
        line = data[above : at - 1] if at else b""
        if not at or not (_COMMENT_LINE.match(line) or _TEMPLATE.match(line)):
            break
        at = above
    return at


def find_body(node: Node) -> Node | None:
    """The part of a definition that does the work, where the grammar tells it apart."""
    for found in (node, node.child_by_field_name("value"), node.child_by_field_name("right")):
        body = found.child_by_field_name("body") if found else None
        if body is not None:
            return body
    for child in node.named_children:
        if _BODY.match(child.type):
            return child
    return None


def _end_docstring(body: Node, end: int) -> int:
    """Where a string that opens a body ends: Python's documentation."""
    first = body.named_children[0] if body.named_child_count else None
    if first is not None and first.type == "expression_statement" and first.named_child_count:
        first = first.named_children[0]
    return first.end_byte if first is not None and first.type == "string" else end


def cut_signature(one: Definition, data: bytes, *, holds_functions: bool) -> tuple[int, int]:
    """Where a definition's comments begin and its signature ends; small types are whole."""
    start = find_lead(data, one.start)
    body = find_body(one.node)
    whole = one.role == "type" and not holds_functions and one.end - start <= WHOLE
    if whole:
        end = one.end
    elif body is not None and body.start_byte > one.start:
        end = _end_docstring(body, body.start_byte)
    else:
        line = data.find(b"\n", one.start, one.end)
        end = one.end if one.end - start <= _SHORT or line < 0 else line
    end = min(end, start + LARGEST)
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return start, end


_SHORT = 400
"""A definition without a body of its own is shown whole up to this size."""


def name_kind(node: Node) -> str:
    """What a type is, in a word (`struct`, `class`, `interface`)."""
    inner = node.child_by_field_name("type") or node.child_by_field_name("value")
    keyword = node.child_by_field_name("declaration_kind")
    for found in (inner, keyword, node):
        match = _KIND.search(found.type) if found is not None else None
        if match:
            return _WORDS.get(match[0], match[0])
    return "type"
