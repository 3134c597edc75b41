"""Sets of characters in a regular expression, read as ripgrep reads them, written for RE2.

RE2 knows the categories, the scripts and how letters fold. What it has no notation for (a set
within a set, `&&`, `--`, `~~`) is worked out here over ranges that RE2 itself is asked for. No set
holds the line break, since a match lies within one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from sonde.errors import InvalidPattern
from sonde.searching.lines.ranges import (
    LAST,
    Ranges,
    compile_class,
    complement,
    count_characters,
    intersect,
    knows_script,
    spell,
    unite,
    write_class,
)

_BREAK = (10, 10)
_WORD = (
    r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}"
    r"\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}"
)
_SPACE = (
    r"\t\v\f\r\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
)
_PERL = {"w": _WORD, "d": r"\p{Nd}", "s": _SPACE}
_PERL_ASCII = {"w": "0-9A-Za-z_", "d": "0-9", "s": r"\t\v\f\r\x{20}"}
_NAMED = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x09\x0b-\x7f", "blank": r"\t\x20",
    "cntrl": r"\x00-\x09\x0b-\x1f\x7f", "digit": "0-9", "graph": "!-~", "lower": "a-z",
    "print": r"\x20-~", "punct": r"!-/:-@\x5b-`{-~", "space": r"\t\v\f\r\x20", "upper": "A-Z",
    "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_ESCAPED = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_HEX = {"x": 2, "u": 4, "U": 8}
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


@dataclass(frozen=True, slots=True)
class CharClass:
    """One character of a set, written as RE2 reads it; `fold` when letter case does not matter."""

    text: str
    fold: bool


ANY = CharClass(r"[^\n]", fold=False)
WORD = CharClass(f"[{_WORD}]", fold=False)


@dataclass(slots=True)
class CharSet:
    """What stands between brackets, in RE2's notation."""

    inner: str
    negated: bool = False


class PatternReader(Protocol):
    """Where a pattern is being read."""

    text: str
    at: int
    flags: Any

    def peek(self, count: int = 1) -> str:
        """What comes next."""

    def take(self, text: str) -> bool:
        """Go past this text if it comes next."""

    def skip_blanks(self) -> None:
        """Go past what means nothing."""


def refuse_pattern(pattern: str, at: int, problem: str) -> NoReturn:
    """Raise `InvalidPattern` with the position."""
    raise InvalidPattern(
        f"{problem} (at position {at})",
        pattern=pattern,
        next_action="Correct it at position {at}: {problem}.",
        at=at,
        problem=problem,
    )


def finish_class(reader: PatternReader, found: CharSet) -> CharClass:
    """The set without the line break, ready to be matched."""
    fold = reader.flags.i
    if not reader.flags.u:
        found, fold = _keep_ascii(reader, found), False
    if found.negated:
        return CharClass(f"[^{found.inner}\\n]", fold)
    text = f"[{found.inner}]" if found.inner else write_class([])
    if compile_class(text, fold=False).fullmatch("\n") is None:
        return CharClass(text, fold)
    ranges = count_characters(found.inner, fold=fold)
    if ranges == [_BREAK]:
        refuse_pattern(reader.text, reader.at, "a line break: a match lies within one line")
    return CharClass(write_class(intersect(ranges, complement([_BREAK]))), fold=False)


def _keep_ascii(reader: PatternReader, found: CharSet) -> CharSet:
    """The set under (?-u), where only ASCII letters have cases and no set reaches beyond."""
    ranges = count_characters(found.inner, fold=False)
    if found.negated or (ranges and ranges[-1][1] > 127):
        refuse_pattern(reader.text, reader.at, "a set beyond ASCII under (?-u) is not supported")
    if reader.flags.i:
        folded = intersect(count_characters(found.inner, fold=True), [(0, 127)])
        ranges = unite(ranges, folded)
    return CharSet(spell(ranges))


def read_class(reader: PatternReader) -> CharSet:
    """The set that begins with the bracket here."""
    start = reader.at
    reader.at += 1
    reader.skip_blanks()
    negated = reader.take("^")
    reader.skip_blanks()
    parts: list[str] = []
    while reader.take("-"):
        parts.append(_quote("-"))
        reader.skip_blanks()
    if not parts and reader.take("]"):
        parts.append(_quote("]"))
    done: Ranges | None = None
    operator = ""
    while True:
        reader.skip_blanks()
        if not reader.peek():
            refuse_pattern(reader.text, start, "a '[' that is not closed")
        following = reader.peek(2)
        if following in ("&&", "--", "~~"):
            done = _apply(reader, operator, done, parts)
            operator, parts = following, []
            reader.at += 2
        elif reader.take("]"):
            break
        elif reader.peek() == "[":
            parts.append(_read_named(reader) or _flatten(reader, read_class(reader)))
        else:
            parts.append(_read_range(reader))
    if operator:
        return CharSet(spell(_apply(reader, operator, done, parts)), negated)
    return CharSet("".join(parts), negated)


def _apply(reader: PatternReader, operator: str, left: Ranges | None, parts: list[str]) -> Ranges:
    """What the operator makes of the set so far and the one just read."""
    right = count_characters("".join(parts), fold=reader.flags.i and reader.flags.u)
    if left is None:
        return right
    if operator == "&&":
        return intersect(left, right)
    without = intersect(left, complement(right))
    if operator == "--":
        return without
    return unite(without, intersect(right, complement(left)))


def _read_named(reader: PatternReader) -> str:
    """`[:alpha:]`; nothing when what is here is another set."""
    if not reader.take("[:"):
        return ""
    start = reader.at - 2
    end = reader.text.find(":]", reader.at)
    name = reader.text[reader.at : end] if end >= 0 else ""
    inner = _NAMED.get(name.removeprefix("^"))
    if inner is None:
        reader.at = start
        return ""
    reader.at = end + 2
    return _flatten(reader, CharSet(inner, name.startswith("^")))


def _flatten(reader: PatternReader, found: CharSet) -> str:
    """A set as a part of another one."""
    if not found.negated:
        return found.inner
    if not reader.flags.u:
        refuse_pattern(reader.text, reader.at, "a set beyond ASCII under (?-u) is not supported")
    return spell(complement(count_characters(found.inner, fold=reader.flags.i)))


def _read_range(reader: PatternReader) -> str:
    start = reader.at
    first = _read_member(reader)
    reader.skip_blanks()
    if reader.peek() != "-" or reader.peek(2) in ("-]", "--"):
        return _quote(first) if isinstance(first, str) else _flatten(reader, first)
    reader.at += 1
    reader.skip_blanks()
    if not reader.peek():
        refuse_pattern(reader.text, start, "a '[' that is not closed")
    last = _read_member(reader)
    if not (isinstance(first, str) and isinstance(last, str)):
        refuse_pattern(reader.text, start, "a range from or to a set")
    if first > last:
        refuse_pattern(reader.text, start, "a range from the larger to the smaller")
    return f"{_quote(first)}-{_quote(last)}"


def _read_member(reader: PatternReader) -> str | CharSet:
    if reader.peek() == "\\":
        return read_escape(reader)
    reader.at += 1
    return reader.text[reader.at - 1]


def read_escape(reader: PatternReader) -> str | CharSet:
    """The character or the set that a backslash here stands for."""
    start = reader.at
    char = reader.text[start + 1 : start + 2]
    reader.at += 2
    if not char:
        refuse_pattern(reader.text, start, "a '\\' at the end")
    if char in _HEX:
        return _read_code(reader, start, _HEX[char])
    if char in "pP":
        return _read_property(reader, start)
    if char.lower() in _PERL:
        table = _PERL if reader.flags.u else _PERL_ASCII
        return CharSet(table[char.lower()], char.isupper())
    if char in _ESCAPED:
        return _ESCAPED[char]
    if char.isdecimal() and char.isascii():
        refuse_pattern(reader.text, start, f"'\\{char}': back-references are not supported")
    if not char.isascii() or char.isalnum() or char in "<>":
        refuse_pattern(reader.text, start, f"'\\{char}' is no escape here")
    return char


def _read_code(reader: PatternReader, start: int, digits: int) -> str:
    if reader.take("{"):
        end = reader.text.find("}", reader.at)
        code = reader.text[reader.at : end] if end >= 0 else ""
        reader.at = end + 1
    else:
        code = reader.peek(digits)
        reader.at += digits
        code = code if len(code) == digits else ""
    try:
        value = int(code, 16) if code.isalnum() else -1
    except ValueError:
        value = -1
    if not 0 <= value <= LAST or 0xD800 <= value <= 0xDFFF:
        reader.at = start
        refuse_pattern(reader.text, start, "a code that is no character")
    if value > 127 and not reader.flags.u:
        refuse_pattern(reader.text, start, "a byte under (?-u) is not supported")
    return chr(value)


def _read_property(reader: PatternReader, start: int) -> CharSet:
    if not reader.flags.u:
        refuse_pattern(reader.text, start, "a Unicode property under (?-u)")
    negated = reader.text[start + 1] == "P"
    name = reader.peek()
    reader.at += 1
    if name == "{":
        end = reader.text.find("}", reader.at)
        name = reader.text[reader.at : end] if end >= 0 else ""
        reader.at = end + 1
    kind, equals, value = name.partition("=") if "=" in name else name.partition(":")
    if equals and kind.endswith("!"):
        negated, kind = not negated, kind[:-1]
    inner = _find_property(kind if equals else "", value if equals else name)
    if inner is None:
        refuse_pattern(
            reader.text, start, f"the Unicode property {name!r} is unknown or not supported"
        )
    return CharSet(inner, negated)


def _find_property(kind: str, name: str) -> str | None:
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
            if len(spelled) > 2 and spelled.replace("_", "").isalpha() and knows_script(spelled):
                return rf"\p{{{spelled}}}"
    return None


def _quote(char: str) -> str:
    return char if char.isascii() and char.isalnum() else f"\\x{{{ord(char):x}}}"
