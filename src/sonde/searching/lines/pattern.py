"""The parser of regular expressions: the tree of a pattern, or what is wrong with it and where.

The language is that of ripgrep's default engine, so that a pattern means the same in both. What a
linear-time engine cannot do (look-around, back-references) and what this one leaves out is refused
by name.
"""

from __future__ import annotations

from dataclasses import replace

from sonde.errors import InvalidPattern
from sonde.searching.lines import syntax

MOST_REPEATS = 1_000  # RE2's own limit for a counted repetition
_DEEPEST = 200  # groups or sets; each takes several frames of Python's stack, which has 1,000
_LOOKS = {
    "b{start}": "opens", "b{end}": "closes", "b{start-half}": "half_start",
    "b{end-half}": "half_end", "b": "word", "B": "not_word", "<": "opens", ">": "closes",
    "A": "start", "z": "end",
}  # fmt: skip
_WITH_BREAK = ("space", "cntrl", "ascii")
"""Named sets that hold the line break, where a match may hold one."""
_UNSUPPORTED = {
    "?=": "look-ahead", "?!": "look-ahead", "?<=": "look-behind", "?<!": "look-behind",
    "?P=": "a back-reference", "?P>": "recursion", "?>": "an atomic group", "?(": "a conditional",
    "?|": "a branch reset", "?#": "a comment",
}  # fmt: skip


def parse_pattern(
    pattern: str, *, ignore_case: bool = False, multiline: bool = False, dot_all: bool = False
) -> syntax.Node:
    """The tree of a pattern; `InvalidPattern` names what is wrong and its position."""
    flags = syntax.Flags(i=ignore_case, s=dot_all)
    return _Parser(pattern, flags, multiline=multiline).parse()


def is_pattern(text: str) -> bool:
    """Whether a text can be parsed as a pattern."""
    try:
        parse_pattern(text)
    except InvalidPattern:
        return False
    return True


def spell_literal(
    text: str, *, ignore_case: bool = False, multiline: bool = False, dot_all: bool = False
) -> syntax.Node:
    """The tree that matches just this text."""
    del dot_all
    parser = _Parser(text, syntax.Flags(i=ignore_case), multiline=multiline)
    return syntax.Sequence(tuple(parser.make_literal(char, at) for at, char in enumerate(text)))


class _Parser(syntax.PatternReader):
    """Reads one pattern from left to right."""

    def __init__(self, pattern: str, flags: syntax.Flags, *, multiline: bool) -> None:
        super().__init__(pattern, flags, multiline=multiline)
        self._names: set[str] = set()
        self._depth = 0

    def parse(self) -> syntax.Node:
        """The tree of the whole pattern."""
        node = self._read_choice()
        if self.at < len(self.text):
            self.refuse(self.at, "a ')' that closes no group")
        return node

    def _read_choice(self) -> syntax.Node:
        kept = self.flags
        choices: list[syntax.Node] = []
        parts: list[syntax.Node] = []
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
                    continue
                self.skip_blanks()
                if self.peek() in tuple("*+?{"):
                    self.refuse(self.at, "a repetition of nothing")
        choices.append(_join(parts))
        self.flags = kept
        return syntax.Choice(tuple(choices)) if len(choices) > 1 else choices[0]

    def _read_repeat(self, parts: list[syntax.Node]) -> None:
        start = self.at
        if not parts:
            self.refuse(start, "a repetition of nothing")
        mark = self.peek()
        self.at += 1
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(mark) or self._read_counts()
        self.skip_blanks()
        lazy = self.take("?")
        if max(least, most or 0) > MOST_REPEATS:
            self.refuse(start, f"more than {MOST_REPEATS} repetitions are not supported")
        parts[-1] = syntax.Repeat(parts[-1], least, most, greedy=lazy == self.flags.U)

    def _read_counts(self) -> tuple[int, int | None]:
        start = self.at - 1
        least = self._read_number()
        most: int | None = least
        if self.take(","):
            self._pass_spaces()
            most = None if self.peek() == "}" else self._read_number()
        if not self.take("}"):
            self.refuse(start, "a '{' that is not closed")
        if most is not None and most < least:
            self.refuse(start, "a repetition from more to less")
        return least, most

    def _pass_spaces(self) -> None:
        while self.peek() and self.peek() in syntax.BLANKS:
            self.at += 1

    def _read_number(self) -> int:
        self._pass_spaces()
        start = self.at
        while self.peek() and self.peek() in "0123456789":
            self.at += 1
        digits = self.text[start : self.at]
        if not digits:
            self.refuse(start, "'{' without a number; a plain one is '\\{'")
        self._pass_spaces()
        return int(digits[:9])

    def _read_one(self) -> syntax.Node | None:
        """The next piece; None for flags, which match nothing."""
        char = self.peek()
        if char == "(":
            return self._read_group()
        if char == "[":
            return self._finish_class(self._read_class())
        if char == "\\":
            return self._read_escaped()
        self.at += 1
        if char == ".":
            self._refuse_bytes("'.'", self.at - 1)
            return syntax.ANY_OR_BREAK if self.multiline and self.flags.s else syntax.ANY
        if char in "^$":
            return syntax.Assertion("start" if char == "^" else "end")
        return self.make_literal(char, self.at - 1)

    def make_literal(self, char: str, at: int) -> syntax.Node:
        if char == "\n" and not self.multiline:
            self.refuse(at, "a line break: a match lies within one line")
        if self.flags.i and not self.flags.u:
            if char.isascii() and char.isalpha():
                return syntax.CharClass(f"[{char.lower()}{char.upper()}]", fold=False)
            return syntax.Literal(char, fold=False)
        return syntax.Literal(char, self.flags.i)

    def _refuse_bytes(self, what: str, at: int) -> None:
        if not self.flags.u:
            self.refuse(at, f"{what} under (?-u), which matches bytes, is not supported")

    def _read_escaped(self) -> syntax.Node:
        start = self.at
        for mark, kind in _LOOKS.items():
            if self.take(f"\\{mark}"):
                if mark == "B":
                    self._refuse_bytes("'\\B'", start)
                return syntax.Assertion(kind, ascii=not self.flags.u)
        found = self.read_escape()
        if isinstance(found, str):
            return self.make_literal(found, start)
        return self._finish_class(found)

    def _read_group(self) -> syntax.Node | None:
        start, kept = self.at, self.flags
        self.at += 1
        for mark, name in _UNSUPPORTED.items():
            if self.text.startswith(mark, self.at):
                why = ", since it cannot be matched in linear time" if "look-" in name else ""
                self.refuse(start, f"'({mark}': {name} is not supported{why}")
        name, captures = "", True
        if self.take("?P<") or self.take("?<"):
            name = self._read_name()
        elif self.take("?"):
            captures = False
            self.flags = self._read_flags()
            if self.take(")"):
                return None
            self.at += 1  # the colon
        self._go_down(start, "groups")
        node = self._read_choice()
        if not self.take(")"):
            self.refuse(start, "a '(' that is not closed")
        self._depth -= 1
        self.flags = kept
        return syntax.Capture(node, name) if captures else node

    def _go_down(self, start: int, what: str) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            self.refuse(start, f"{what} more than {_DEEPEST} deep")

    def _read_name(self) -> str:
        start = self.at
        name = self.read_until(">")
        plain = name.replace(".", "").replace("[", "").replace("]", "")
        if not name or not (name[0] == "_" or name[0].isalpha()) or not f"_{plain}".isidentifier():
            self.refuse(start, "a group name that is no name")
        if name in self._names:
            self.refuse(start, f"two groups named {name!r}")
        self._names.add(name)
        return name

    def _read_flags(self) -> syntax.Flags:
        flags, on, seen = self.flags, True, ""
        while True:
            char = self.peek()
            if not char:
                self.refuse(self.at, "a '(' that is not closed")
            if char in ":)":
                break
            if char == "-" and on:
                on = False
            elif char == "R":
                self.refuse(self.at, "the flag 'R' (CRLF) is not supported")
            elif char in "imsUux" and char not in seen:
                flags = replace(flags, **{char: on})
                seen += char
            else:
                self.refuse(self.at, f"{char!r} is no flag here")
            self.at += 1
        if not seen and (char == ")" or not on):
            self.refuse(self.at, "a repetition of nothing" if on else "'-' without a flag")
        return flags

    def _finish_class(self, found: syntax.CharSet) -> syntax.CharClass:
        """The set without the line break, ready to be matched."""
        fold = self.flags.i
        if not self.flags.u:
            found, fold = self._keep_ascii(found), False
        if self.multiline:
            text = f"[{'^' * found.negated}{found.inner}]" if found.inner else syntax.NOTHING
            return syntax.CharClass(text, fold)
        if found.negated:
            return syntax.CharClass(f"[^{found.inner}\\n]", fold)
        finished = syntax.exclude_break(found.inner, fold=fold)
        if finished is None:
            self.refuse(self.at, "a line break: a match lies within one line")
        return finished

    def _keep_ascii(self, found: syntax.CharSet) -> syntax.CharSet:
        """The set under (?-u), where only ASCII letters have cases and no set reaches beyond."""
        ranges = syntax.list_ranges(found.inner, fold=False)
        if found.negated or (ranges and ranges[-1][1] > 127):
            self.refuse(self.at, "a set beyond ASCII under (?-u) is not supported")
        if self.flags.i:
            folded = syntax.list_ranges(found.inner, fold=True)
            ranges = syntax.unite(ranges, syntax.intersect(folded, ((0, 127),)))
        return syntax.CharSet(syntax.spell(ranges))

    def _read_class(self) -> syntax.CharSet:
        """The set that begins with the bracket here."""
        start = self.at
        self._go_down(start, "sets")
        self.at += 1
        self.skip_blanks()
        negated = self.take("^")
        self.skip_blanks()
        parts: list[str] = []
        while self.take("-"):
            parts.append(syntax.quote("-"))
            self.skip_blanks()
        if not parts and self.take("]"):
            parts.append(syntax.quote("]"))
        done: syntax.Ranges | None = None
        operator = ""
        while True:
            self.skip_blanks()
            if not self.peek():
                self.refuse(start, "a '[' that is not closed")
            following = self.peek(2)
            if following in ("&&", "--", "~~"):
                done = self._apply(operator, done, parts)
                operator, parts = following, []
                self.at += 2
            elif self.take("]"):
                break
            elif self.peek() == "[":
                parts.append(self._read_named() or self._flatten(self._read_class()))
            else:
                parts.append(self._read_range())
        self._depth -= 1
        if operator:
            return syntax.CharSet(syntax.spell(self._apply(operator, done, parts)), negated)
        return syntax.CharSet("".join(parts), negated)

    def _apply(self, operator: str, left: syntax.Ranges | None, parts: list[str]) -> syntax.Ranges:
        """What the operator makes of the set so far and the one just read."""
        right = syntax.list_ranges("".join(parts), fold=self.flags.i and self.flags.u)
        return right if left is None else syntax.combine(operator, left, right)

    def _read_named(self) -> str:
        """`[:alpha:]`; nothing when what is here is another set."""
        if not self.take("[:"):
            return ""
        start = self.at - 2
        end = self.text.find(":]", self.at)
        name = self.text[self.at : end] if end >= 0 else ""
        inner = syntax.NAMED.get(name.removeprefix("^"))
        if inner is None:
            self.at = start
            return ""
        self.at = end + 2
        breaks = r"\n" if self.multiline and name.lstrip("^") in _WITH_BREAK else ""
        return self._flatten(syntax.CharSet(inner + breaks, name.startswith("^")))

    def _flatten(self, found: syntax.CharSet) -> str:
        """A set as a part of another one."""
        if not found.negated:
            return found.inner
        if not self.flags.u:
            self.refuse(self.at, "a set beyond ASCII under (?-u) is not supported")
        return syntax.spell(syntax.complement(syntax.list_ranges(found.inner, fold=self.flags.i)))

    def _read_range(self) -> str:
        start = self.at
        first = self._read_member()
        self.skip_blanks()
        if self.peek() != "-" or self.peek(2) in ("-]", "--"):
            return syntax.quote(first) if isinstance(first, str) else self._flatten(first)
        self.at += 1
        self.skip_blanks()
        if not self.peek():
            self.refuse(start, "a '[' that is not closed")
        last = self._read_member()
        if not (isinstance(first, str) and isinstance(last, str)):
            self.refuse(start, "a range from or to a set")
        if first > last:
            self.refuse(start, "a range from the larger to the smaller")
        return f"{syntax.quote(first)}-{syntax.quote(last)}"

    def _read_member(self) -> str | syntax.CharSet:
        if self.peek() == "\\":
            return self.read_escape()
        self.at += 1
        return self.text[self.at - 1]


def _join(parts: list[syntax.Node]) -> syntax.Node:
    return parts[0] if len(parts) == 1 else syntax.Sequence(tuple(parts))
