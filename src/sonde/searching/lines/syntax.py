"""The parts of a regular expression: the nodes of its tree, and sets of characters.

RE2 knows the categories, the scripts and how letters fold. What it has no notation for (a set
within a set, `&&`, `--`, `~~`) is worked out here over ranges that RE2 itself is asked for.
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from sonde.errors import InvalidPattern


@dataclass(frozen=True, slots=True)
class Literal:
    """One character; `fold` when letter case does not matter."""

    char: str
    fold: bool


@dataclass(frozen=True, slots=True)
class CharClass:
    """One character of a set, written as RE2 reads it; `fold` when letter case does not matter."""

    text: str
    fold: bool


@dataclass(frozen=True, slots=True)
class Assertion:
    """A place between characters: start, end, word, not_word, opens, closes, half_start, half_end;
    `ascii` when only ASCII letters make words."""

    kind: str
    ascii: bool = False


@dataclass(frozen=True, slots=True)
class Repeat:
    """From `least` to `most` times; without a limit, `most` is None."""

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


@dataclass(frozen=True, slots=True)
class Capture:
    """What a replacement can refer to by number or by name; matches as its inner node does."""

    inner: Node
    name: str = ""


Node = Literal | CharClass | Assertion | Repeat | Sequence | Choice | Capture

_WORD = (
    r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}"
    r"\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}"
)
_SPACE = (
    r"\t\v\f\r\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
)
PERL = {"w": _WORD, "d": r"\p{Nd}", "s": _SPACE}
PERL_ASCII = {"w": "0-9A-Za-z_", "d": "0-9", "s": r"\t\v\f\r\x{20}"}
NAMED = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x09\x0b-\x7f", "blank": r"\t\x20",
    "cntrl": r"\x00-\x09\x0b-\x1f\x7f", "digit": "0-9", "graph": "!-~", "lower": "a-z",
    "print": r"\x20-~", "punct": r"!-/:-@\x5b-`{-~", "space": r"\t\v\f\r\x20", "upper": "A-Z",
    "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_CATEGORIES = {
    "letter": "L", "casedletter": "LC", "uppercaseletter": "Lu", "lowercaseletter": "Ll",
    "titlecaseletter": "Lt", "modifierletter": "Lm", "otherletter": "Lo", "mark": "M",
    "nonspacingmark": "Mn", "spacingmark": "Mc", "enclosingmark": "Me", "number": "N",
    "decimalnumber": "Nd", "digit": "Nd", "letternumber": "Nl", "othernumber": "No",
    "punctuation": "P", "punct": "P", "connectorpunctuation": "Pc", "dashpunctuation": "Pd",
    "openpunctuation": "Ps", "closepunctuation": "Pe", "initialpunctuation": "Pi",
    "finalpunctuation": "Pf", "otherpunctuation": "Po", "symbol": "S", "mathsymbol": "Sm",
    "currencysymbol": "Sc", "modifiersymbol": "Sk", "othersymbol": "So", "separator": "Z",
    "spaceseparator": "Zs", "lineseparator": "Zl", "paragraphseparator": "Zp", "control": "Cc",
    "cntrl": "Cc", "format": "Cf", "privateuse": "Co",
}  # fmt: skip
_CATEGORIES |= {short.lower(): short for short in _CATEGORIES.values()}
_PROPERTIES = {"any": r"\x00-\x{10ffff}", "ascii": r"\x00-\x7f", "whitespace": _SPACE}
NOTHING = r"[^\x00-\x{10ffff}]"
_ESCAPED = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
BLANKS = (
    " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
ANY = CharClass(r"[^\n]", fold=False)
ANY_OR_BREAK = CharClass(r"[\x00-\x{10ffff}]", fold=False)
WORD = CharClass(f"[{_WORD}]", fold=False)
ASCII_WORD = CharClass("[0-9A-Za-z_]", fold=False)

Ranges = tuple[tuple[int, int], ...]
"""First and last code points, ascending and apart."""
LAST = 0x10FFFF  # the last code point of Unicode
_BREAK: Ranges = ((10, 10),)  # the line break
_BLOCKS = (
    (0, 0x7F, 1), (0x80, 0x7FF, 2), (0x800, 0xD7FF, 3), (0xE000, 0xFFFF, 3), (0x10000, LAST, 4),
)  # fmt: skip
"""First and last characters of the same width in UTF-8; between them, halves of characters."""


@lru_cache(maxsize=256)
def compile_class(text: str, *, fold: bool) -> Any:
    """A set in RE2's notation as an expression of its own."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not fold
    return re2.compile(text, options)


@lru_cache(maxsize=64)
def list_ranges(inner: str, *, fold: bool) -> Ranges:
    """The characters of what stands between brackets."""
    found = []
    runs = compile_class(f"[{inner}]+", fold=fold).finditer(_every_character()) if inner else ()
    for run in runs:
        start, end = run.span()
        low, high = _character_at(start), _character_at(end - 1)
        for first, last, _ in _BLOCKS:
            if low <= last and first <= high:
                found.append((max(low, first), min(high, last)))
    return tuple(found)


@lru_cache(maxsize=1)
def _every_character() -> bytes:
    codes = array("I")
    for first, last, _ in _BLOCKS:
        codes.extend(range(first, last + 1))
    return codes.tobytes().decode(f"utf-32-{'le' if sys.byteorder == 'little' else 'be'}").encode()


def _character_at(offset: int) -> int:
    """The character that a byte of `_every_character` belongs to."""
    for first, last, width in _BLOCKS:
        size = (last - first + 1) * width
        if offset < size:
            return first + offset // width
        offset -= size
    raise IndexError(offset)


def complement(ranges: Ranges) -> Ranges:
    """Every other character."""
    starts = (0, *(high + 1 for _, high in ranges))
    ends = (*(low - 1 for low, _ in ranges), LAST)
    return tuple((low, high) for low, high in zip(starts, ends, strict=True) if low <= high)


def intersect(left: Ranges, right: Ranges) -> Ranges:
    """What is in both."""
    found = []
    at = other = 0
    while at < len(left) and other < len(right):
        low = max(left[at][0], right[other][0])
        high = min(left[at][1], right[other][1])
        if low <= high:
            found.append((low, high))
        if left[at][1] < right[other][1]:
            at += 1
        else:
            other += 1
    return tuple(found)


def unite(left: Ranges, right: Ranges) -> Ranges:
    """What is in either."""
    return complement(intersect(complement(left), complement(right)))


def combine(operator: str, left: Ranges, right: Ranges) -> Ranges:
    """What `&&`, `--` or `~~` makes of two sets."""
    if operator == "&&":
        return intersect(left, right)
    without = intersect(left, complement(right))
    return without if operator == "--" else unite(without, intersect(right, complement(left)))


def spell(ranges: Ranges) -> str:
    """What stands between RE2's brackets."""
    return "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges)


def exclude_break(inner: str, *, fold: bool) -> CharClass | None:
    """The set without the line break, since a match lies within one line; None if that is all."""
    # an empty set has no notation, but what is not in the whole set is none
    text = f"[{inner}]" if inner else NOTHING
    if compile_class(text, fold=False).fullmatch("\n") is None:
        return CharClass(text, fold)
    ranges = list_ranges(inner, fold=fold)
    kept = spell(intersect(ranges, complement(_BREAK)))
    return None if ranges == _BREAK else CharClass(f"[{kept}]", fold=False)


def find_property(kind: str, name: str) -> str | None:
    """The characters of a Unicode property in RE2's notation; None if RE2 does not know it."""
    loose = "".join(char for char in name.lower() if char not in " _-")
    kind = "".join(char for char in kind.lower() if char not in " _-")
    if not kind and loose in _PROPERTIES:
        return _PROPERTIES[loose]
    if kind in ("", "gc", "generalcategory") and loose in _CATEGORIES:
        short = _CATEGORIES[loose]
        return r"\p{Lu}\p{Ll}\p{Lt}" if short == "LC" else rf"\p{{{short}}}"
    if kind in ("", "sc", "script"):
        for spelled in (name, "_".join(part.capitalize() for part in name.split("_"))):
            # what is left of RE2's names are the scripts
            if len(spelled) > 2 and spelled.replace("_", "").isalpha() and _knows_script(spelled):
                return rf"\p{{{spelled}}}"
    return None


def _knows_script(name: str) -> bool:
    import re2

    try:
        return compile_class(rf"\p{{{name}}}", fold=False) is not None
    except re2.error:
        return False


def quote(char: str) -> str:
    """One character in RE2's notation."""
    return char if char.isascii() and char.isalnum() else f"\\x{{{ord(char):x}}}"


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of a pattern, by their letters."""

    i: bool = False
    s: bool = False
    U: bool = False
    u: bool = True
    x: bool = False
    m: bool = True


@dataclass(frozen=True, slots=True)
class CharSet:
    """What stands between brackets, in RE2's notation."""

    inner: str
    negated: bool = False


class PatternReader:
    """A position in a pattern, and the escapes that mean the same inside brackets and outside."""

    def __init__(self, text: str, flags: Flags, *, multiline: bool = False) -> None:
        self.text = text
        self.at = 0
        self.flags = flags
        self.multiline = multiline
        """Whether a match may hold line breaks."""

    def refuse(self, at: int, problem: str) -> NoReturn:
        """Raise `InvalidPattern` with the position."""
        raise InvalidPattern(
            f"{problem} (at position {at})",
            pattern=self.text,
            next_action="Correct it at position {at}: {problem}.",
            at=at,
            problem=problem,
        )

    def peek(self, count: int = 1) -> str:
        """What comes next."""
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
            if self.peek() in BLANKS:
                self.at += 1
            elif self.peek() == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end + 1
            else:
                return

    def read_until(self, mark: str) -> str:
        """The text before a mark, going past both; empty without one."""
        end = self.text.find(mark, self.at)
        found = self.text[self.at : end] if end >= 0 else ""
        self.at = end + 1
        return found

    def read_escape(self) -> str | CharSet:
        """The character or the set that a backslash here stands for."""
        start = self.at
        char = self.text[start + 1 : start + 2]
        self.at += 2
        if not char:
            self.refuse(start, "a '\\' at the end")
        if char in _HEX_DIGITS:
            return self._read_code(start, _HEX_DIGITS[char])
        if char in "pP":
            return self._read_property(start)
        if char.lower() in PERL:
            table = PERL if self.flags.u else PERL_ASCII
            breaks = r"\n" if self.multiline and char in "sS" else ""
            return CharSet(table[char.lower()] + breaks, char.isupper())
        if char in _ESCAPED:
            return _ESCAPED[char]
        if char.isdecimal() and char.isascii():
            self.refuse(start, f"'\\{char}': back-references are not supported")
        if not char.isascii() or char.isalnum() or char in "<>":
            self.refuse(start, f"'\\{char}' is no escape here")
        return char

    def _read_code(self, start: int, digits: int) -> str:
        if self.take("{"):
            code = self.read_until("}")
        else:
            code = self.peek(digits)
            self.at += digits
            code = code if len(code) == digits else ""
        try:
            value = int(code, 16) if code.isalnum() else -1
        except ValueError:
            value = -1
        if not 0 <= value <= LAST or 0xD800 <= value <= 0xDFFF:
            self.at = start
            self.refuse(start, "a code that is no character")
        if value > 127 and not self.flags.u:
            self.refuse(start, "a byte under (?-u) is not supported")
        return chr(value)

    def _read_property(self, start: int) -> CharSet:
        if not self.flags.u:
            self.refuse(start, "a Unicode property under (?-u)")
        negated = self.text[start + 1] == "P"
        name = self.peek()
        self.at += 1
        if name == "{":
            name = self.read_until("}")
        kind, equals, value = name.partition("=") if "=" in name else name.partition(":")
        if equals and kind.endswith("!"):
            negated, kind = not negated, kind[:-1]
        inner = find_property(kind if equals else "", value if equals else name)
        if inner is None:
            self.refuse(start, f"the Unicode property {name!r} is unknown or not supported")
        return CharSet(inner, negated)
