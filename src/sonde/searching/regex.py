"""Search by regular expression: exact, line by line, in linear time.

RE2 does the matching, so no pattern can hang. Look-around and back-references, which RE2 does
not have, are refused by name. Where an index is at hand, trigrams narrow the files to read;
files that changed since are always read, so the answer is that of a full scan.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sonde.errors import InvalidPattern
from sonde.policy.read import FileContent
from sonde.types import Skipped
from sonde.work import Work

_UNSUPPORTED = re.compile(r"(?<!\\)(?:\\\\)*(\(\?<?[=!]|\\[1-9]|\(\?P=|\(\?>|\(\?\()")
_HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")
_LONGEST_MESSAGE = 300
_TOKEN = re.compile(
    r"(?P<plain>[A-Za-z0-9_ ])|(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<other>\\.|.)", re.DOTALL
)
_REPEATS = frozenset("?*{")


@dataclass(frozen=True, slots=True)
class LineMatch:
    """One matching line with the columns (in characters) that match, and its surroundings."""

    path: str
    line: int
    text: str
    spans: tuple[tuple[int, int], ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    start_byte: int = 0
    """Where the line begins in the file's text as UTF-8."""


def compile_pattern(
    pattern: str, *, ignore_case: bool = False, whole_word: bool = False, fixed_string: bool = False
) -> Any:
    """The compiled expression; `InvalidPattern` says what is wrong and where."""
    import re2

    half = _HALF_A_CHARACTER.search(pattern)
    if half:
        raise InvalidPattern(f"half a character at position {half.start()}", pattern=ascii(pattern))
    refused = None if fixed_string else _UNSUPPORTED.search(pattern)
    if refused:
        raise InvalidPattern(
            f"{refused.group(1)!r} at position {refused.start(1)}: look-around and back-references "
            "are not supported, since they cannot be matched in linear time",
            pattern=pattern,
        )
    source = re2.escape(pattern) if fixed_string else pattern
    if whole_word:
        source = rf"\b(?:{source})\b"
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.max_mem = 64 << 20
    try:
        return re2.compile(f"(?m){source}", options)
    except re2.error as error:
        raise InvalidPattern(_explain(pattern, error), pattern=pattern) from error


def required_literals(pattern: str, *, fixed_string: bool = False) -> list[str]:
    """Plain strings that every match holds; empty when none can be told for sure.

    Only what is plain to see is used: a pattern with alternatives or groups tells nothing.
    """
    if fixed_string:
        return [pattern]
    if "|" in pattern or "(" in pattern:
        return []
    runs = [""]
    for token in _TOKEN.finditer(pattern):
        if token.lastgroup == "plain":
            runs[-1] += token.group()
            continue
        if token.group() in _REPEATS:
            runs[-1] = runs[-1][:-1]
            if token.group() == "{":
                return []
        runs.append("")
    return [run for run in runs if len(run) >= 3]


def _explain(pattern: str, error: Exception) -> str:
    """RE2's message, with the position of the part it names or that Python's parser finds."""
    message = error.args[0] if error.args else error
    text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
    text, _, part = text[:_LONGEST_MESSAGE].partition(": ")
    if part and part in pattern:
        return f"{text}: {part} (at position {pattern.index(part)})"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except re.error as own:
        return f"{text} (at position {own.pos})"
    except (RecursionError, OverflowError):
        pass
    return text


def grep_files(
    expression: Any,
    paths: Iterable[str],
    read: Callable[[str], FileContent | Skipped],
    work: Work,
    *,
    before: int = 0,
    after: int = 0,
    max_count: int | None = None,
) -> Iterator[LineMatch]:
    """Matching lines of these files, file by file in the order given."""
    for path in paths:
        work.check()
        content = read(path)
        if isinstance(content, Skipped) or not expression.search(content.text):
            continue
        yield from _grep_text(expression, path, content.text, before, after, max_count)


def _grep_text(
    expression: Any, path: str, text: str, before: int, after: int, max_count: int | None
) -> Iterator[LineMatch]:
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    count = 0
    start_byte = known = 0
    for index, line in enumerate(lines):
        spans = tuple(match.span() for match in expression.finditer(line))
        if not spans:
            continue
        start_byte += sum(_count_bytes(passed) + 1 for passed in lines[known:index])
        known = index
        yield LineMatch(
            path,
            index + 1,
            line,
            spans,
            tuple(lines[max(0, index - before) : index]),
            tuple(lines[index + 1 : index + 1 + after]),
            start_byte,
        )
        count += 1
        if max_count is not None and count >= max_count:
            return


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
