"""Edits JSON with comments where it stands: every byte outside the entry stays as it is."""

from __future__ import annotations

import json
import re
from typing import Any

from sonde.agents.json_text import Malformed, Member, Node, read_json

_STEP = re.compile(r"\n([ \t]+)\S")


def load(text: str) -> Any:
    """The values in a text, not to be changed; an empty text is an empty object."""
    return read_json(text).value if text.strip() else {}


def put(text: str, path: tuple[str, ...], value: Any) -> str:
    """The text with the value at the path; objects are merged, what is there already stays."""
    if not text.strip():
        text = "{}\n"
    node = read_json(text)
    for depth, key in enumerate(path):
        _expect_object(node, path[:depth])
        member = node.find(key)
        if member is None:
            for inner in reversed(path[depth + 1 :]):
                value = {inner: value}
            return _insert(text, node, key, value)
        node = member.node
    if isinstance(value, dict) and isinstance(node.value, dict):
        for key, inner in value.items():
            text = put(text, (*path, key), inner)
        return text
    if json.dumps(node.value) == json.dumps(value):
        return text
    indent = _indent_at(text, node.start) if "\n" in text[node.start : node.end] else None
    return text[: node.start] + _render(value, text, indent) + text[node.end :]


def drop(text: str, path: tuple[str, ...]) -> str:
    """The text without the member at the path; the same text where there is none."""
    if not text.strip():
        return text
    node = read_json(text)
    for depth, key in enumerate(path):
        _expect_object(node, path[:depth])
        member = node.find(key)
        if member is None:
            return text
        if depth == len(path) - 1:
            return _cut(text, node, member)
        node = member.node
    return text


def _expect_object(node: Node, path: tuple[str, ...]) -> None:
    if node.members is None:
        raise Malformed(f"{'.'.join(path) or 'the file'} is not an object")


def _insert(text: str, node: Node, key: str, value: Any) -> str:
    members = node.members or []
    last = members[-1] if members else None
    inside = text[node.start : node.end]
    lines = "\n" in inside or (not members and ("\n" in text.strip() or text.strip() == inside))
    end = _line_end(text)
    if lines:
        indent = _indent_at(text, node.start) + _step(text)
        if last and text[last.before : last.start].count("\n"):
            indent = _indent_at(text, last.start)
        piece = f"{end}{indent}{json.dumps(key)}: {_render(value, text, indent)}"
    else:
        piece = f"{' ' if last else ''}{json.dumps(key)}: {_render(value, text, None)}"
    if last and last.comma is not None:
        piece += ","
    if lines and "\n" not in text[node.tail : node.end]:
        piece += end + _indent_at(text, node.start)
    head = text[: node.tail]
    if last and last.comma is None:
        head = f"{text[: last.node.end]},{text[last.node.end : node.tail]}"
    return head + piece + text[node.tail :]


def _cut(text: str, node: Node, member: Member) -> str:
    members = node.members or []
    index = members.index(member)
    end = member.node.end
    cuts = []
    if member.comma is not None:
        if text[end : member.comma].strip():
            cuts.append((member.comma, member.comma + 1))
        else:
            end = member.comma + 1
    elif index and (comma := members[index - 1].comma) is not None:
        cuts.append((comma, comma + 1))
    rest = text[end:].lstrip(" \t")
    ends_line = rest.startswith(("\n", "\r"))
    if ends_line or (rest.startswith("}") and not member.after_line_comment):
        cuts.append((member.before, end))
    else:
        cuts.append((member.start, len(text) - len(rest)))
    for start, stop in sorted(cuts, reverse=True):
        text = text[:start] + text[stop:]
    opening = node.start + 1
    if found := re.match(r"\s*(?=\})", text[opening:]):
        text = text[:opening] + text[opening + found.end() :]
    return text


def _render(value: Any, text: str, indent: str | None) -> str:
    """JSON on one line, or with each member of an object on a line that begins with `indent`."""
    if indent is None or not value or not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    end, inner = _line_end(text), indent + _step(text)
    lines = [
        f"{inner}{json.dumps(key)}: {_render(each, text, inner)}" for key, each in value.items()
    ]
    return f"{{{end}{f',{end}'.join(lines)}{end}{indent}}}"


def _step(text: str) -> str:
    """What the file indents by: its first indentation."""
    found = _STEP.search(text)
    return found[1] if found else "  "


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent_at(text: str, position: int) -> str:
    """The white space at the start of the line."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]
