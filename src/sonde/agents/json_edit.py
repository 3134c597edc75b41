"""Editing JSON with comments in place: every byte outside the entry stays as it is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache

_SPACE = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_DECODER = json.JSONDecoder(parse_constant=int)  # which refuses NaN and Infinity
MAX_DEPTH = 100
"""Nesting of arrays and objects, well below the recursion limit of Python."""


class Malformed(Exception):
    """The text cannot be parsed, or not be edited without ambiguity."""


@dataclass(slots=True)
class JsonNode:
    """A value and its place: `text[start:end]`."""

    start: int
    end: int
    value: object
    members: list[JsonMember] | None = None
    """Of an object, in order; None for everything else."""
    tail: int = 0
    """Of an object: the end of the last token or comment before its closing brace."""

    def find(self, key: str) -> JsonMember | None:
        """The member with this key; raises `Malformed` if there are two."""
        found = [member for member in self.members or () if member.key == key]
        if len(found) > 1:
            raise Malformed(f"{json.dumps(key)} occurs {len(found)} times")
        return found[0] if found else None


@dataclass(slots=True)
class JsonMember:
    """One `"key": value` of an object."""

    key: str
    start: int
    node: JsonNode
    before: int
    """The end of the token or comment before it."""
    after_line_comment: bool
    comma: int | None = None
    """The position of the comma after it."""


@lru_cache(maxsize=4)
def parse_jsonc(text: str) -> JsonNode:
    """The value of a text with the place of everything in it; must not be modified. Cached: one
    edit parses the same text several times, and some agents' files have megabytes."""
    reader = _Reader(text)
    reader.skip()
    node = reader.read_value(0)
    if reader.skip():
        raise reader.complain("unexpected text after the value")
    return node


class _Reader:
    """Parses a text in one pass."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.last_end = 0
        """The end of the last token or comment."""
        self.in_line_comment = False
        """Whether that was a comment that ends with its line."""
        self.skipped_to = -1

    def complain(self, message: str) -> Malformed:
        line = self.text.count("\n", 0, self.position) + 1
        column = self.position - self.text.rfind("\n", 0, self.position)
        return Malformed(f"line {line}, column {column}: {message}")

    def skip(self) -> str:
        """Skip space and comments; returns the next character, empty at the end."""
        if self.position != self.skipped_to:
            self.last_end, self.in_line_comment = self.position, False
        while True:
            found = _SPACE.match(self.text, self.position)
            self.position = found.end() if found else self.position
            comment = _COMMENT.match(self.text, self.position)
            if comment is None:
                self.skipped_to = self.position
                return self.text[self.position : self.position + 1]
            self.position = self.last_end = comment.end()
            self.in_line_comment = comment[0].startswith("//")

    def take(self, wanted: str) -> None:
        if self.skip() != wanted:
            raise self.complain(f"{wanted!r} was expected")
        self.position += 1

    def read_value(self, depth: int) -> JsonNode:
        start = self.position
        first = self.text[start : start + 1]
        if first in ("{", "[") and depth == MAX_DEPTH:
            raise self.complain("nested too deeply")
        if first == "{":
            return self.read_object(depth + 1)
        if first == "[":
            return self.read_array(depth + 1)
        try:
            value, self.position = _DECODER.raw_decode(self.text, start)
        except ValueError as error:
            raise self.complain("a value was expected") from error
        return JsonNode(start, self.position, value)

    def read_array(self, depth: int) -> JsonNode:
        start, values = self.position, []
        self.position += 1
        while self.skip() != "]":
            values.append(self.read_value(depth).value)
            if self.skip() != "]":
                self.take(",")
        self.position += 1
        return JsonNode(start, self.position, values)

    def read_object(self, depth: int) -> JsonNode:
        start = self.position
        members: list[JsonMember] = []
        self.position += 1
        while self.skip() != "}":
            before, comment, at = self.last_end, self.in_line_comment, self.position
            if self.text[at : at + 1] != '"':
                raise self.complain("a string in double quotes was expected")
            key = str(self.read_value(depth).value)
            self.take(":")
            self.skip()
            members.append(JsonMember(key, at, self.read_value(depth), before, comment))
            if self.skip() != "}":
                members[-1].comma = self.position
                self.take(",")
        tail = self.last_end
        self.position += 1
        values = {member.key: member.node.value for member in members}
        return JsonNode(start, self.position, values, members, tail)


_STEP = re.compile(r"\n([ \t]+)\S")


def load_jsonc(text: str) -> object:
    """The value of a text, which must not be modified; an empty text is an empty object."""
    return parse_jsonc(text).value if text.strip() else {}


def put_jsonc(text: str, path: tuple[str, ...], value: object) -> str:
    """The text with the value at the path; an object is merged into the one that is there."""
    if not text.strip():
        text = "{}\n"
    parents, member = _find_place(text, path)
    if member is None:
        for inner in reversed(path[len(parents) :]):
            value = {inner: value}
        return _insert(text, parents[-1], path[len(parents) - 1], value)
    node = member.node
    if isinstance(value, dict) and isinstance(node.value, dict):
        for key, inner in value.items():
            text = put_jsonc(text, (*path, key), inner)
        return text
    if json.dumps(node.value) == json.dumps(value):
        return text
    indent = _indent_at(text, node.start) if "\n" in text[node.start : node.end] else None
    return text[: node.start] + _render(value, text, indent) + text[node.end :]


def drop_jsonc(text: str, path: tuple[str, ...]) -> str:
    """The text without the member at the path; unchanged if there is none."""
    if not text.strip():
        return text
    parents, member = _find_place(text, path)
    return _cut(text, parents[-1], member) if member else text


def _find_place(text: str, path: tuple[str, ...]) -> tuple[list[JsonNode], JsonMember | None]:
    """The objects along a path, and the member at its end; None if a member is missing."""
    parents, member, node = [], None, parse_jsonc(text)
    for depth, key in enumerate(path):
        if node.members is None:
            raise Malformed(f"{'.'.join(path[:depth]) or 'the file'} is not an object")
        parents.append(node)
        member = node.find(key)
        if member is None:
            break
        node = member.node
    return parents, member


def _insert(text: str, node: JsonNode, key: str, value: object) -> str:
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


def _cut(text: str, node: JsonNode, member: JsonMember) -> str:
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
    if rest.startswith(("\n", "\r")) or (rest.startswith("}") and not member.after_line_comment):
        cuts.append((member.before, end))
    else:
        cuts.append((member.start, len(text) - len(rest)))
    for start, stop in sorted(cuts, reverse=True):
        text = text[:start] + text[stop:]
    opening = node.start + 1
    if found := re.match(r"\s*(?=\})", text[opening:]):
        text = text[:opening] + text[opening + found.end() :]
    return text


def _render(value: object, text: str, indent: str | None) -> str:
    """JSON on one line, or with each member of an object on a line that begins with `indent`."""
    if indent is None or not value or not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    end, inner = _line_end(text), indent + _step(text)
    lines = [
        f"{inner}{json.dumps(key)}: {_render(each, text, inner)}" for key, each in value.items()
    ]
    return f"{{{end}{f',{end}'.join(lines)}{end}{indent}}}"


def _step(text: str) -> str:
    """The indentation of the file: that of its first indented line."""
    found = _STEP.search(text)
    return found[1] if found else "  "


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent_at(text: str, position: int) -> str:
    """The white space at the start of the line."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]
