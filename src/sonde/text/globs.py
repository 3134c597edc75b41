"""Shell-style patterns over project-relative POSIX paths, with git's meaning.

    *  ?           any run, any one character; never a slash
    **/  /**  /**/ any number of folders (`**` between slashes or ends; elsewhere it is `*`)
    [a-z] [!a-z]   one character of a class, never a slash; [[:alpha:]] and its siblings
    {a,b{1,2}}     either; nested; without a comma the braces are ordinary characters
    \\x             the character x itself

A pattern with an inner or leading slash starts at the project's root (`src/*.py`, `/README.md`);
one without is looked for at any depth (`*.md` is `**/*.md`), as in .gitignore. A pattern without
wildcards names a file or a folder with all that is below it; a trailing slash names folders. As
in git, a path that is spelled exactly like the pattern matches too (`app/[id]/page.tsx`).

Matching is linear in the length of the path: patterns run on RE2. A pattern may have at most
`MAX_LENGTH` characters and stand for at most `MAX_BRANCHES` alternatives.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from sonde.errors import InvalidPattern

MAX_LENGTH = 1000  # characters, far beyond what anybody types
MAX_BRANCHES = 100  # braces multiply, and each alternative is compiled
_MAX_IGNORE_LENGTH = 4096
"""Characters of a line in an ignore file, which git bounds by the length of paths."""
_ENDING = re.compile(r"\*\*/\*\.\w+")
_PLAIN = re.compile(r"[\w.-]+(/[\w.-]+)+")
"""A path from the root without special characters."""

_POSIX: dict[str, tuple[tuple[int, int], ...]] = {
    "alnum": ((48, 57), (65, 90), (97, 122)), "alpha": ((65, 90), (97, 122)),
    "blank": ((9, 9), (32, 32)), "cntrl": ((0, 31), (127, 127)), "digit": ((48, 57),),
    "graph": ((33, 126),), "lower": ((97, 122),), "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)), "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),), "xdigit": ((48, 57), (65, 70), (97, 102)),
}  # fmt: skip
_SLASH = ord("/")
# Invisible characters (Default_Ignorable_Code_Point), control characters, marks of writing
# direction, and the blank Braille pattern.
_INVISIBLE = re.compile(
    "[\x01-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def compose(name: str) -> str:
    """A name in composed form (NFC)."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def clean_path(text: str) -> str:
    """A path in NFC, without invisible characters."""
    if text.isascii() and text.isprintable():
        return text
    return unicodedata.normalize("NFC", _INVISIBLE.sub("", text))


_Kind = Literal["char", "slash", "star", "regex", "open", "comma", "close"]
_WILDCARDS: dict[str, _Kind] = {"/": "slash", "*": "star", "?": "regex"}
_BRACES: dict[str, _Kind] = {"{": "open", ",": "comma", "}": "close"}


class _Token(NamedTuple):
    kind: _Kind
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Glob:
    """A compiled pattern."""

    pattern: str
    _exact: str
    _below: str
    _regex: Any
    """None if the two above suffice."""

    def matches(self, path: str) -> bool:
        """Whether the pattern matches a project-relative path."""
        return (
            path == self._exact
            or path.startswith(self._below)
            or (self._regex is not None and self._regex.fullmatch(path) is not None)
        )


@lru_cache(maxsize=512)
def compile_glob(pattern: str, *, fold_case: bool = False) -> Glob:
    """Compile a pattern, or raise `InvalidPattern` naming the position."""
    tokens = _read_tokens(pattern, braces=True)
    branches = [_render_branch(branch) for branch in _expand_braces(pattern, tokens)]
    spelled = pattern.removeprefix("./").strip("/")
    if not spelled:
        raise _error(pattern, 0, "names nothing")
    is_plain = _PLAIN.fullmatch(pattern) and not fold_case
    regex = None if is_plain else compile_regex("|".join(branches), pattern, fold_case=fold_case)
    return Glob(pattern, "" if pattern.endswith("/") else spelled, f"{spelled}/", regex)


def match_any(patterns: Sequence[str]) -> Callable[[str], bool]:
    """A test whether any of the patterns matches a path, fast for plain endings."""
    endings = tuple(pattern[4:] for pattern in patterns if _ENDING.fullmatch(pattern))
    globs = [compile_glob(pattern) for pattern in patterns if not _ENDING.fullmatch(pattern)]
    return lambda path: path.endswith(endings) or any(glob.matches(path) for glob in globs)


def translate_wildcards(pattern: str) -> str:
    """The RE2 expression of a pattern without braces, as in git's ignore files."""
    return _render_tokens(_read_tokens(pattern, braces=False, limit=_MAX_IGNORE_LENGTH))


def compile_regex(regex: str, pattern: str, *, fold_case: bool = False) -> Any:
    """Compile a translated expression with RE2."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    options.case_sensitive = not fold_case
    try:
        return re2.compile(regex, options)
    except (re2.error, UnicodeEncodeError) as broken:
        raise _error(pattern, 0, "is too complex") from broken


def _error(pattern: str, at: int, problem: str) -> InvalidPattern:
    # As a fact of the message, not a part of it: the pattern may contain braces.
    return InvalidPattern(
        f"{problem} at position {at}",
        next_action="Correct it: {problem} at position {at}.",
        pattern=pattern,
        at=at,
        problem=problem,
    )


def _read_tokens(pattern: str, *, braces: bool, limit: int = MAX_LENGTH) -> list[_Token]:
    if not pattern or len(pattern) > limit:
        raise _error(pattern, limit if pattern else 0, f"1 to {limit} characters; wrong")
    tokens: list[_Token] = []
    at = 0
    while at < len(pattern):
        char, start = pattern[at], at
        if char == "\0" or "\ud800" <= char <= "\udfff":
            raise _error(pattern, at, "a character that no path can have")
        if char == "[":
            text, at = _read_class(pattern, at)
            tokens.append(_Token("regex", text, start))
            continue
        if char == "\\":
            at += 1
            if at == len(pattern):
                raise _error(pattern, start, "a backslash with nothing after it")
            char = pattern[at]
            escaped = _Token("regex", _quote(char), start)
            tokens.append(_Token("slash", char, start) if char == "/" else escaped)
        else:
            kind = (_BRACES if braces and char in _BRACES else _WILDCARDS).get(char, "char")
            tokens.append(_Token(kind, "[^/]" if char == "?" else char, start))
        at += 1
    return tokens


def _read_class(pattern: str, start: int) -> tuple[str, int]:
    """The class that opens at `start` in the syntax of RE2, and the position after it."""
    at = start + 1
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    spans: list[tuple[int, int]] = []
    previous: str | None = None
    first = True
    while first or pattern[at : at + 1] != "]":
        first = False
        char = pattern[at : at + 1]
        if char == "[" and pattern[at + 1 : at + 2] == ":":
            close = pattern.find("]", at + 2)
            if close > at + 2 and pattern[close - 1] == ":":
                name = pattern[at + 2 : close - 1]
                if name not in _POSIX:
                    raise _error(pattern, at, f"no character class is called {name!r}, used")
                spans.extend(_POSIX[name])
                previous, at = None, close + 1
                continue
        if char == "-" and previous and pattern[at + 1 : at + 2] not in ("", "]"):
            at += 2 if pattern[at + 1] == "\\" else 1
            end = pattern[at : at + 1]
            if end:
                spans.append((ord(previous), ord(end)))
            previous, char = None, end
        else:
            if char == "\\":
                at += 1
                char = pattern[at : at + 1]
            if char:
                spans.append((ord(char), ord(char)))
            previous = char
        if not char:
            raise _error(pattern, start, "a class [ that is never closed, opened")
        at += 1
    return _render_class(spans, negated=negated), at + 1


def _render_class(spans: list[tuple[int, int]], *, negated: bool) -> str:
    if negated:
        spans = [*spans, (_SLASH, _SLASH)]
    else:
        spans = [
            part
            for low, high in spans
            for part in ((low, min(high, _SLASH - 1)), (max(low, _SLASH + 1), high))
        ]
    body = "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in spans if low <= high)
    return f"[{'^' if negated else ''}{body}]" if body else r"[^\x{0}-\x{10ffff}]"


def _expand_braces(pattern: str, tokens: list[_Token]) -> list[list[_Token]]:
    """All alternatives; unpaired braces and commas become ordinary characters."""
    partner: dict[int, int] = {}
    commas: dict[int, list[int]] = {}
    waiting: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind == "open":
            waiting.append(index)
            commas[index] = []
        elif token.kind == "comma" and waiting:
            commas[waiting[-1]].append(index)
        elif token.kind == "close" and waiting:
            partner[waiting.pop()] = index
    if waiting:
        raise _error(pattern, tokens[waiting[-1]].at, "a brace { that is never closed, opened")

    def expand(start: int, end: int) -> list[list[_Token]]:
        heads: list[list[_Token]] = [[]]
        index = start
        while index < end:
            if not commas.get(index):
                token = tokens[index]
                if token.kind in ("open", "comma", "close"):
                    token = token._replace(kind="char")
                for head in heads:
                    head.append(token)
                index += 1
                continue
            cuts = [index, *commas[index], partner[index]]
            tails = [branch for left, right in pairwise(cuts) for branch in expand(left + 1, right)]
            if len(heads) * len(tails) > MAX_BRANCHES:
                raise _error(pattern, tokens[index].at, f"over {MAX_BRANCHES} alternatives")
            heads = [head + tail for head in heads for tail in tails]
            index = partner[index] + 1
        return heads

    return expand(0, len(tokens))


def _render_branch(tokens: list[_Token]) -> str:
    """One alternative as an expression over whole paths."""
    while len(tokens) > 1 and tokens[0].text == "." and tokens[1].kind == "slash":
        tokens = tokens[2:]
    below = bool(tokens) and tokens[-1].kind == "slash"
    while tokens and tokens[-1].kind == "slash":
        tokens = tokens[:-1]
    anywhere = all(token.kind != "slash" for token in tokens)
    while tokens and tokens[0].kind == "slash":
        tokens = tokens[1:]
    literal = all(token.kind in ("char", "slash") for token in tokens)
    body = ("(?:.*/)?" if anywhere else "") + _render_tokens(tokens)
    return body + ("/.*" if below else "(?:/.*)?" if literal else "")


def _quote(char: str) -> str:
    return f"\\x{{{ord(char):x}}}"


def _render_tokens(tokens: Sequence[_Token]) -> str:
    parts: list[str] = []
    index = 0
    while index < len(tokens):
        kind, text, _ = tokens[index]
        if kind != "star":
            parts.append(text if kind == "regex" else _quote(text))
            index += 1
            continue
        run = index
        while run < len(tokens) and tokens[run].kind == "star":
            run += 1
        starts = index == 0 or tokens[index - 1].kind == "slash"
        ends = run == len(tokens)
        if run - index > 1 and starts and (ends or tokens[run].kind == "slash"):
            parts.append(".*" if ends else "(?:.*/)?")
            run += not ends
        else:
            parts.append("[^/]*")
        index = run
    return "".join(parts)
