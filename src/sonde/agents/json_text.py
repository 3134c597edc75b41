"""Reads JSON as people keep it, with comments and trailing commas, and knows where things are."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
DEEPEST = 100


class Malformed(Exception):
    """The text is not what it should be, or not clear enough to edit."""


@dataclass(slots=True)
class Node:
    """A value and where it stands: `text[start:end]`."""

    start: int
    end: int
    value: Any
    members: list[Member] | None = None
    """Of an object, in order; None for everything else."""
    tail: int = 0
    """Of an object: where the last thing before its closing brace ends, be it a comment."""

    def find(self, key: str) -> Member | None:
        """The member of that name; of two, nobody knows which one counts."""
        found = [member for member in self.members or () if member.key == key]
        if len(found) > 1:
            raise Malformed(f"{json.dumps(key)} stands there {len(found)} times")
        return found[0] if found else None


@dataclass(slots=True)
class Member:
    """One `"key": value` of an object."""

    key: str
    start: int
    node: Node
    before: int
    """Where the thing before it ends: a brace, a comma or a comment."""
    after_line_comment: bool
    comma: int | None = None
    """Where the comma after it stands."""


@lru_cache(maxsize=4)
def read_json(text: str) -> Node:
    """The value that a text holds, with the place of everything in it; not to be changed.

    One edit reads the same text several times, and some agents keep megabytes in their files.
    """
    reader = _Reader(text)
    reader.skip()
    node = reader.read_value(0)
    if reader.skip():
        raise reader.complain("nothing more was expected")
    return node


class _Reader:
    """Goes through a text once, from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.last_end = 0
        """Where the last token or comment ended."""
        self.in_line_comment = False
        """Whether that was a comment which only a line break ends."""
        self.skipped_to = -1

    def complain(self, message: str) -> Malformed:
        line = self.text.count("\n", 0, self.position) + 1
        column = self.position - self.text.rfind("\n", 0, self.position)
        return Malformed(f"line {line}, column {column}: {message}")

    def skip(self) -> str:
        """Pass over space and comments; the character that comes next, empty at the end."""
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

    def read_value(self, depth: int) -> Node:
        start = self.position
        first = self.text[start : start + 1]
        if first in ("{", "[") and depth == DEEPEST:
            raise self.complain("nested too deeply")
        if first == "{":
            return self.read_object(depth + 1)
        if first == "[":
            return self.read_array(depth + 1)
        if first == '"':
            value: Any = self.read_string()
        elif found := _SCALAR.match(self.text, start):
            self.position = found.end()
            value = json.loads(found[0])
        else:
            raise self.complain("a value was expected")
        return Node(start, self.position, value)

    def read_string(self) -> str:
        found = _STRING.match(self.text, self.position)
        try:
            value = json.loads(found[0] if found else "")
        except ValueError as error:
            raise self.complain("a string in double quotes was expected") from error
        self.position += len(found[0]) if found else 0
        return str(value)

    def read_array(self, depth: int) -> Node:
        start, values = self.position, []
        self.position += 1
        while self.skip() != "]":
            values.append(self.read_value(depth).value)
            if self.skip() != "]":
                self.take(",")
        self.position += 1
        return Node(start, self.position, values)

    def read_object(self, depth: int) -> Node:
        start = self.position
        members: list[Member] = []
        self.position += 1
        while self.skip() != "}":
            before, comment, at = self.last_end, self.in_line_comment, self.position
            key = self.read_string()
            self.take(":")
            self.skip()
            members.append(Member(key, at, self.read_value(depth), before, comment))
            if self.skip() != "}":
                members[-1].comma = self.position
                self.take(",")
        tail = self.last_end
        self.position += 1
        values = {member.key: member.node.value for member in members}
        return Node(start, self.position, values, members, tail)
