"""Private keys, tokens and passwords in text that is about to be indexed, imported or shown.

One pass of a set of expressions over the text tells which kinds may be in it; most texts end there.
A match counts if its value is random: examples (AKIAIOSFODNN7EXAMPLE, ghp_xxxx…), words,
counters and variables do not. Source code and documents are read without the lines of their
secrets; any other file with one stays out. docs/secrets.md lists what is found, and how well.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple

from sonde.policy.deny_list import TEST_PATH
from sonde.policy.secret_shapes import (
    CONTINUED,
    KEYS,
    NAMED,
    PASSWORDS,
    RESTS,
    RESTS_END,
    TOKENS,
    WEAK_NAMED,
)
from sonde.text.languages import language_of

SECRETS_VERSION = 2  # grows when the same text gives another verdict, so that it is read again
_Family = Literal["key", "token", "named", "password"]


class _Shape(NamedTuple):
    kind: str
    family: _Family
    regex: str


class _Span(NamedTuple):
    start: int
    end: int
    kind: str
    is_whole: bool
    """Whether the secret is known to end there."""
    value: bytes


_SHAPES = (
    *(_Shape(kind, "key", regex) for kind, regex in KEYS.items()),
    *(_Shape(kind, "token", rf"\b(?:{regex})") for kind, regex in TOKENS.items()),
    *(_Shape(kind, "named", regex) for kind, regex in NAMED.items()),
    *(_Shape(kind, "password", regex) for kind, regex in PASSWORDS.items()),
)
_WEAK = _Shape("secret", "named", WEAK_NAMED)
_LEAST_BITS: dict[_Family, float] = {"key": 10.0, "token": 3.0, "named": 9.0, "password": 4.0}
"""How random a value must be: the more its surroundings say, the less. Chosen on 27,564 files of 72
public repositories and on the generated kinds, see benchmarks/secret_files.py."""
_MARKS = frozenset(("PuTTY private key", "Ansible vault"))  # a secret by how the file begins
_WHOLE = frozenset(("text", "jupyter"))
"""Documents that stay out as a whole: notes are where people keep passwords, and notebooks, which
are JSON, have the outputs of programs."""
_MOST_SPANS = 200  # a file with more is a list of them, and compared with every line takes long
_ENDLESS = frozenset(("private key in base64", "Ansible vault"))  # where they end is not known
_SET_MEMORY_BYTES = 1 << 24  # for the automaton; with half of it, it is built more than once

_EXAMPLE = re.compile(r"(?i)example|sample|placeholder|redacted|changeme|dummy|\.\.\.")
_ROWS = "01234567890 abcdefghijklmnopqrstuvwxyz qwertyuiop"
_RUNS = {
    row[at : at + 4] for row in (*_ROWS.split(), *_ROWS[::-1].split()) for at in range(len(row) - 3)
}
_EXAMPLE_PART = re.compile(
    "(?i)(?:secret|token|test|fake|your|here|foo|bar|insert|change|abc|key|my|api"
    rf"|(.)\1{{3,}}|{'|'.join(sorted(_RUNS))})"
)
"""Words and runs that random text may contain; they count by their share of the value."""
_MOST_EXAMPLE = 0.4  # of a value
_HASH = re.compile(r"(?i)(?:pbkdf2|bcrypt|argon2|scrypt|sha-?[0-9]|md5|\$2[aby])")
"""Prefixes of password hashes."""
_MOST_NAME = 300  # bytes of a name that are read
_PUBLIC_NAME = re.compile(
    rb"(?i)(?:public|csrf|xsrf|hash|digest)[\w.-]*$|(?:token|key|credential)[_-]?(?:ids?|arn)$"
    rb"|(?:next|next[_-]?page|continuation|lock|idempotency|authenticity)[_-]?token$|certificate$"
)
_PUBLIC_PLACE = re.compile(rb"(?i)docsearch|indexName|appId: ?'")
"""The search key of Algolia is made to be published."""
_KNOWN_VALUES = frozenset(
    (
        "d41d8cd98f00b204e9800998ecf8427e",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==",
    )
)
"""Digests of nothing, and the accounts of Azure's emulators, the same on every machine."""
_HEX = re.compile(r"(?:0x)?(?:[0-9a-f-]+|[0-9A-F-]+)")
_LEAST_HEX = 20  # shorter ones are colours, counters, fingerprints
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_COMMON_PAIRS = frozenset(
    row[0] + second
    for row in (
        "aabcdfgiklmnprstuvy baeilorsu cacehiklortu dadeilorsu eabcdefglmnpqrstvwxy faefiloru "
        "gaeirs haeiot iabcdefglmnoprstvz je kaei ladeilostuy mabeimopu nacdefgiknostuv "
        "oabcdfgiklmnoprstuvw paeiloprtu qu racdegiklmnorstuvy sacehiklopstuy tacehioprstuy "
        "uabceilmnprst vaei waeir xpt yp ze"
    ).split()
    for second in row[1:]
)
"""The 230 pairs of letters that make up 88 % of those in identifiers, and 34 % in random text."""


def secret_in(text: str, path: str = "") -> str | None:
    """The kind and place of a secret in a text ("AWS access key on line 3"), never its value."""
    return secret_in_bytes(text.encode("utf-8", "surrogatepass"), path)


def secret_in_bytes(data: bytes, path: str = "") -> str | None:
    """The same for the bytes of a file."""
    for shape in _find_shapes(data):
        for match, _ in _find_values(shape, data, path):
            line = data.count(b"\n", 0, match.start()) + 1
            return f"{shape.kind} on line {line}"
    return None


def withhold_secrets(text: str, path: str) -> tuple[str | None, str]:
    """The text of a file without the lines that hold secrets, None if it has to stay out as a
    whole; and the kind and place of the first secret, if there is one."""
    found = secret_in(text, path)
    if found is None:
        return text, ""
    language = language_of(path)
    if language.kind == "data" or language.name in _WHOLE:
        return None, found
    kept = _drop_lines(text.encode("utf-8", "surrogatepass"), path)
    if kept is None or secret_in_bytes(kept, path):
        return None, found
    return kept.decode("utf-8", "surrogatepass"), found


def redact_secrets(text: str) -> tuple[str, int]:
    """The text with every secret replaced by its kind, and the number of secrets."""
    data = text.encode("utf-8", "surrogatepass")
    parts: list[bytes] = []
    done = count = 0
    for start, end, kind, *_ in _find_spans(data, ""):
        if start >= done:
            parts += [data[done:start], f"[{kind} left out]".encode()]
            count += 1
        done = max(done, end)
    return b"".join([*parts, data[done:]]).decode("utf-8", "surrogatepass"), count


def _drop_lines(data: bytes, path: str) -> bytes | None:
    """A text whose lines with secrets are blank but for a note; None if a secret may go on beyond
    them. Next to one, whatever looks like a secret is taken for one."""
    lines = data.split(b"\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    spans = _find_spans(data, path, strict=True)
    if len(spans) > _MOST_SPANS or not all(span.is_whole for span in spans):
        return None
    notes: dict[int, bytes] = {}
    for start, end, kind, *_ in spans:
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
        while first and _continues(lines[first - 1]):
            first -= 1
        while last + 1 < len(lines) and _continues(lines[last + 1]):
            last += 1
        notes.setdefault(first, f"[{kind} left out]".encode())
        for at in range(first + 1, last + 1):
            notes.setdefault(at, b"")
    values = {span.value for span in spans}
    for at, line in enumerate(lines):  # the same value where nothing tells what it is
        if at in notes or any(value in line for value in values):
            lines[at] = notes.get(at, b"")
    return b"\n".join(lines)


def _continues(line: bytes) -> bool:
    """Whether a line is nothing but a random value, as the next part of one that was split."""
    part = _compile(CONTINUED).fullmatch(line)
    return bool(part) and _measure_randomness(part.group(1).decode("latin-1")) >= 3.0


def _find_spans(data: bytes, path: str, *, strict: bool = False) -> list[_Span]:
    """The places of the secrets in a text, in order."""
    found = []
    for shape in (*_find_shapes(data), *([_WEAK] if strict else [])):
        for match, group in _find_values(shape, data, path, strict=strict):
            start = match.start() if shape.family in ("key", "token") else match.start(group)
            end, is_whole = match.end(group), shape.kind not in _ENDLESS
            if shape.kind in RESTS:
                rest = _compile(RESTS[shape.kind]).match(data, end)
                end = rest.end() if rest else end
                is_whole = bool(rest) and data[:end].endswith(RESTS_END[shape.kind])
            found.append(_Span(start, end, shape.kind, is_whole, match.group(group)))
    return sorted(found, key=lambda span: span.start)


def _find_shapes(data: bytes) -> list[_Shape]:
    """The shapes that occur in a text, in one pass over it."""
    return [_SHAPES[number] for number in sorted(_compile_set().Match(data) or ())]


def _find_values(
    shape: _Shape, data: bytes, path: str, *, strict: bool = False
) -> Iterator[tuple[Any, int]]:
    """The matches of a shape that are secrets, and the group of each that is the value."""
    is_guess = shape.family in ("named", "password")
    if is_guess and path and TEST_PATH.search(path):
        return
    for match in _compile(shape.regex).finditer(data):
        group = next(number for number, part in enumerate(match.groups(), 1) if part)
        value = match.group(group).decode("latin-1")
        if strict and (not is_guess or any(map(str.isdigit, value))) and not _EXAMPLE.search(value):
            yield match, group
            continue
        if shape.kind not in _MARKS and not _is_random(value, _LEAST_BITS[shape.family]):
            continue
        if is_guess and len(_ESCAPE.findall(value)) * 9 > len(value):
            continue
        if shape.family == "named" and not _is_secret_there(shape, match, value, data):
            continue
        yield match, group


def _is_secret_there(shape: _Shape, match: Any, value: str, data: bytes) -> bool:
    """Whether a random value is a secret, by its name, its alphabet and what is around it."""
    start, end = match.start(), match.end()
    if shape.kind == "JSON web key":
        return b"kty" in data[max(start - 1000, 0) : end + 1000]  # a key has up to 900 characters
    at = match.start(1)
    name = data[max(start - 40, at - _MOST_NAME, 0) : at].rstrip(b" \t\r\n\"'`:=>,([")
    if _PUBLIC_NAME.search(name) or _HASH.match(value):
        return False
    if _PUBLIC_PLACE.search(data[max(start - 250, 0) : end + 100]):
        return False
    if _HEX.fullmatch(value):
        return len(value) >= _LEAST_HEX
    # lower-case letters and digits beyond hexadecimal are what people type to fill in an example
    return value != value.lower() or any(mark in value for mark in "!$%^*+/")


def _is_random(value: str, least_bits: float) -> bool:
    """Whether a value was drawn at random, not written by a person."""
    if _EXAMPLE.search(value) or value in _KNOWN_VALUES:
        return False
    core = _EXAMPLE_PART.sub("", value)
    if len(core) < len(value) * (1 - _MOST_EXAMPLE):
        return False
    return _measure_randomness(core) >= least_bits


def _measure_randomness(value: str) -> float:
    """Bits of evidence for a random value: of each pair of neighbours, the logarithm of how often
    its kind occurs in random text over how often it does in identifiers."""
    bits = 0.0
    for one, two in pairwise(value):
        if one.isalpha() and two.isalpha():
            if one.islower() and two.isupper():
                bits += 0.8
            else:
                bits += -1.4 if (one + two).lower() in _COMMON_PAIRS else 2.5
        elif one.isalnum() and two.isalnum() and one.isdigit() != two.isdigit():
            bits += 3.0
    return bits


@cache
def _compile(regex: str) -> Any:
    import re2

    return re2.compile(regex.encode(), _make_options())


@cache
def _compile_set() -> Any:
    import re2

    shapes = re2.Set.SearchSet(_make_options())
    for shape in _SHAPES:
        shapes.Add(shape.regex)
    shapes.Compile()
    return shapes


def _make_options() -> Any:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes; every expression is ASCII
    options.max_mem = _SET_MEMORY_BYTES
    return options
