"""A regular expression, read: the tree of what it matches, or what is wrong with it and where.

The language is that of ripgrep's default engine, so that a pattern means the same in both. What a
linear-time engine cannot do (look-around, back-references) and what this one leaves out is refused
by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sonde.searching.lines import classes
from sonde.searching.lines.classes import CharClass, refuse_pattern

MOST_REPEATS = 1_000
_DEEPEST = 200
_LOOK_AROUND = {"?=": "look-ahead", "?!": "look-ahead", "?<=": "look-behind", "?<!": "look-behind"}
_LOOKS = {"A": "start", "z": "end", "b": "word", "B": "not_word", "<": "opens", ">": "closes"}
_BRACED_LOOKS = {
    "{start}": "opens",
    "{end}": "closes",
    "{start-half}": "half_start",
    "{end-half}": "half_end",
}
_LEFT_OUT = {
    "?P=": "a back-reference",
    "?P>": "recursion",
    "?>": "an atomic group",
    "?(": "a conditional",
    "?|": "a branch reset",
    "?#": "a comment",
}
_BLANKS = (
    " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


@dataclass(frozen=True, slots=True)
class Literal:
    """One character; `fold` when letter case does not matter."""

    char: str
    fold: bool


@dataclass(frozen=True, slots=True)
class Assertion:
    """A place between characters: start, end, word, not_word, opens, closes, half_start, half_end;
    `ascii` when only ASCII letters make words."""

    kind: str
    ascii: bool = False


@dataclass(frozen=True, slots=True)
class Repeat:
    """So many times; `most` is None without a limit."""

    inner: Node
    least: int
    most: int | None
    greedy: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other; none is the empty string."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The first that fits."""

    parts: tuple[Node, ...]


Node = Literal | CharClass | Assertion | Repeat | Sequence | Choice


@dataclass(frozen=True, slots=True)
class _Flags:
    i: bool = False
    s: bool = False
    U: bool = False
    u: bool = True
    x: bool = False
    m: bool = True


def parse_pattern(pattern: str, *, ignore_case: bool = False) -> Node:
    """The tree of a pattern; `InvalidPattern` names what is wrong and its position."""
    return _Parser(pattern, _Flags(i=ignore_case)).parse()


def spell_literal(text: str, *, ignore_case: bool = False) -> Node:
    """The tree that matches just this text."""
    if "\n" in text:
        refuse_pattern(text, text.index("\n"), "a line break: a match lies within one line")
    return Sequence(tuple(Literal(char, ignore_case) for char in text))


class _Parser:
    """Reads one pattern from left to right."""

    def __init__(self, pattern: str, flags: _Flags) -> None:
        self.text = pattern
        self.at = 0
        self.flags = flags
        self._names: set[str] = set()
        self._depth = 0

    def parse(self) -> Node:
        node = self._read_choice()
        if self.at < len(self.text):
            refuse_pattern(self.text, self.at, "a ')' that closes no group")
        return node

    def peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def take(self, text: str) -> bool:
        """Go past this text if it comes next."""
        if self.text.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def skip_blanks(self) -> None:
        """Under `x`, blanks and comments mean nothing."""
        while self.flags.x and self.peek():
            if self.peek() in _BLANKS:
                self.at += 1
            elif self.peek() == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end + 1
            else:
                return

    def _read_choice(self) -> Node:
        kept = self.flags
        choices: list[Node] = []
        parts: list[Node] = []
        while True:
            self.skip_blanks()
            char = self.peek()
            if char in ("", ")"):
                break
            if char == "|":
                self.at += 1
                choices.append(_join(parts))
                parts = []
            elif char in "*+?{":
                self._read_repeat(parts)
            else:
                node = self._read_one()
                if node is not None:
                    parts.append(node)
                elif self._repeat_follows():
                    refuse_pattern(self.text, self.at, "a repetition of nothing")
        choices.append(_join(parts))
        self.flags = kept
        return Choice(tuple(choices)) if len(choices) > 1 else choices[0]

    def _repeat_follows(self) -> bool:
        self.skip_blanks()
        return self.peek() in tuple("*+?{")

    def _read_repeat(self, parts: list[Node]) -> None:
        start = self.at
        if not parts:
            refuse_pattern(self.text, start, "a repetition of nothing")
        mark = self.peek()
        self.at += 1
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(mark) or self._read_counts()
        self.skip_blanks()
        lazy = self.take("?")
        if max(least, most or 0) > MOST_REPEATS:
            refuse_pattern(
                self.text, start, f"more than {MOST_REPEATS} repetitions are not supported"
            )
        parts[-1] = Repeat(parts[-1], least, most, greedy=lazy == self.flags.U)

    def _read_counts(self) -> tuple[int, int | None]:
        start = self.at - 1
        least = self._read_number()
        most: int | None = least
        if self.take(","):
            self._pass_spaces()
            most = None if self.peek() == "}" else self._read_number()
        if not self.take("}"):
            refuse_pattern(self.text, start, "a '{' that is not closed")
        if most is not None and most < least:
            refuse_pattern(self.text, start, "a repetition from more to less")
        return least, most

    def _pass_spaces(self) -> None:
        while self.peek() and self.peek() in _BLANKS:
            self.at += 1

    def _read_number(self) -> int:
        self._pass_spaces()
        start = self.at
        while self.peek() and self.peek() in "0123456789":
            self.at += 1
        digits = self.text[start : self.at]
        if not digits:
            refuse_pattern(self.text, start, "'{' without a number; a plain one is '\\{'")
        self._pass_spaces()
        return int(digits[:9])

    def _read_one(self) -> Node | None:
        """The next piece; None for flags, which match nothing."""
        char = self.peek()
        if char == "(":
            return self._read_group()
        if char == "[":
            return classes.finish_class(self, classes.read_class(self))
        if char == "\\":
            return self._read_escape()
        self.at += 1
        if char == ".":
            self._refuse_bytes("'.'", self.at - 1)
            return classes.ANY
        if char in "^$":
            return Assertion("start" if char == "^" else "end")
        return self._literal(char, self.at - 1)

    def _literal(self, char: str, at: int) -> Node:
        if char == "\n":
            refuse_pattern(self.text, at, "a line break: a match lies within one line")
        if self.flags.i and not self.flags.u:
            if char.isascii() and char.isalpha():
                return CharClass(f"[{char.lower()}{char.upper()}]", fold=False)
            return Literal(char, fold=False)
        return Literal(char, self.flags.i)

    def _refuse_bytes(self, what: str, at: int) -> None:
        if not self.flags.u:
            refuse_pattern(
                self.text, at, f"{what} under (?-u), which matches bytes, is not supported"
            )

    def _read_escape(self) -> Node:
        start = self.at
        char = self.text[start + 1 : start + 2]
        if char in _LOOKS and char:
            self.at += 2
            kind = _LOOKS[char]
            if char == "b":
                for brace, braced in _BRACED_LOOKS.items():
                    if self.take(brace):
                        kind = braced
                        break
            if char == "B":
                self._refuse_bytes("'\\B'", start)
            return Assertion(kind, ascii=not self.flags.u)
        found = classes.read_escape(self)
        if isinstance(found, str):
            return self._literal(found, start)
        return classes.finish_class(self, found)

    def _read_group(self) -> Node | None:
        start = self.at
        self.at += 1
        self._refuse_unsupported(start)
        if self.take("?P<") or self.take("?<"):
            self._read_name()
        elif self.take("?"):
            flags = self._read_flags()
            if self.take(")"):
                self.flags = flags
                return None
            self.at += 1  # the colon
            return self._read_inner(start, flags)
        return self._read_inner(start, self.flags)

    def _read_inner(self, start: int, flags: _Flags) -> Node:
        kept, self.flags = self.flags, flags
        self._depth += 1
        if self._depth > _DEEPEST:
            refuse_pattern(self.text, start, f"groups more than {_DEEPEST} deep")
        node = self._read_choice()
        if not self.take(")"):
            refuse_pattern(self.text, start, "a '(' that is not closed")
        self._depth -= 1
        self.flags = kept
        return node

    def _refuse_unsupported(self, start: int) -> None:
        for mark, name in sorted(_LOOK_AROUND.items(), key=lambda pair: -len(pair[0])):
            if self.text.startswith(mark, self.at):
                refuse_pattern(
                    self.text, start, f"'({mark}': {name} is not supported, {_NOT_LINEAR}"
                )
        for mark, name in _LEFT_OUT.items():
            if self.text.startswith(mark, self.at):
                refuse_pattern(self.text, start, f"'({mark}': {name} is not supported")

    def _read_name(self) -> None:
        start = self.at
        end = self.text.find(">", start)
        name = self.text[start:end] if end >= 0 else ""
        plain = name.replace(".", "").replace("[", "").replace("]", "")
        if not name or not (name[0] == "_" or name[0].isalpha()) or not f"_{plain}".isidentifier():
            refuse_pattern(self.text, start, "a group name that is no name")
        if name in self._names:
            refuse_pattern(self.text, start, f"two groups named {name!r}")
        self._names.add(name)
        self.at = end + 1

    def _read_flags(self) -> _Flags:
        flags, on, seen = self.flags, True, ""
        while True:
            char = self.peek()
            if not char:
                refuse_pattern(self.text, self.at, "a '(' that is not closed")
            if char in ":)":
                break
            if char == "-" and on:
                on = False
            elif char == "R":
                refuse_pattern(self.text, self.at, "the flag 'R' (CRLF) is not supported")
            elif char in "imsUux" and char not in seen:
                flags = replace(flags, **{char: on})
                seen += char
            else:
                refuse_pattern(self.text, self.at, f"{char!r} is no flag here")
            self.at += 1
        if not seen and (char == ")" or not on):
            refuse_pattern(
                self.text, self.at, "a repetition of nothing" if on else "'-' without a flag"
            )
        return flags


_NOT_LINEAR = "since it cannot be matched in linear time"


def _join(parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts))
