"""Search by regular expression: exact, line by line, in linear time, with ripgrep's results.

RE2 does the matching, so no pattern can hang. The pattern is read by `pattern`, which refuses what
cannot be matched in linear time, and written for RE2 by `engines`; the lines that RE2 would not
judge exactly go to its `Stepper`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice
from typing import Any, NamedTuple, NotRequired, TypedDict

from sonde.errors import InvalidPattern
from sonde.runtime.work import Work
from sonde.searching.lines import engines, syntax
from sonde.searching.lines.pattern import parse_pattern, spell_literal
from sonde.types import FileText, Needs

_HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")
_MOST_MEMORY_BYTES = 64 << 20  # of one expression; RE2 refuses more, rather than grow without end
_KEPT_EXPRESSIONS = 8  # compiled expressions kept for the next page; each may take that much memory


class ByteLine(NamedTuple):
    """One matching line: its number from 1, its bytes without the line break, and what matches.

    Spans count bytes from the beginning of the line. Where matches hold line breaks, it stands for
    all the lines that they touch."""

    number: int
    start: int
    end: int
    spans: tuple[tuple[int, int], ...]


class LineRow(TypedDict):
    """A matching line as the verb `grep` answers it."""

    path: str
    line: int
    text: str
    spans: list[list[int]]
    before: NotRequired[list[str]]
    after: NotRequired[list[str]]


@dataclass(frozen=True, slots=True)
class Line:
    """One matching line with the columns (in characters) that match, and its surroundings."""

    path: str
    line: int
    text: str
    spans: tuple[tuple[int, int], ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    start_byte: int = 0
    """Where the line begins in the file's text as UTF-8."""

    def as_dict(self, *, before: bool = False, after: bool = False) -> LineRow:
        """The documented JSON, with the lines around it where wanted."""
        row: LineRow = {
            "path": self.path,
            "line": self.line,
            "text": self.text,
            "spans": [list(span) for span in self.spans],
        }
        if before:
            row["before"] = list(self.before)
        if after:
            row["after"] = list(self.after)
        return row


def _go_on() -> None:
    pass


class Expression:
    """A compiled pattern."""

    def __init__(self, node: syntax.Node, pattern: str) -> None:
        looks = list(engines.list_assertions(node))
        self._node, self._pattern = node, pattern
        self.breaks = engines.may_break(node)
        """Whether a match can hold a line break."""
        self.needs: Needs | None = None if self.breaks else engines.list_needs(node)
        """What every file with a match holds; None when nothing is sure."""
        self._loose = _compile(engines.write_re2(node, edges=False), pattern)
        literal = engines.read_literal(node)
        # RE2 passes over a text faster, but takes longer for each match
        self._strict = re.compile(re.escape(literal)) if literal else self._loose
        self._ascii = all(look.kind in ("word", "not_word") for look in looks)
        if looks and self._ascii:
            self._strict = _compile(engines.write_re2(node), pattern)
        self._stepper = engines.Stepper(node) if looks else None

    def find_lines(
        self, data: bytes, check: Callable[[], None] = _go_on, *, spans: bool = True, at: int = 0
    ) -> Iterator[ByteLine]:
        """The lines of a text in UTF-8 that match, from the first on; without `spans`, only the
        first match of each is reported. Before `at`, no match begins."""
        if self.breaks:
            return self._join_lines(data, check)
        if self._stepper is None or (self._ascii and data.isascii()):
            return self._group(data, self._strict, at, spans=spans)
        return self._judge_lines(data, check, at)

    def count_lines(self, data: bytes, check: Callable[[], None] = _go_on, *, at: int = 0) -> int:
        """How many lines of a text match, without listing them."""
        if self.breaks or not (self._stepper is None or (self._ascii and data.isascii())):
            return sum(1 for _ in self.find_lines(data, check, spans=False, at=at))
        return sum(1 for _ in _list_first_matches(self._strict, data, at, _measure(data)))

    def find_among(self, texts: Sequence[bytes]) -> Iterator[tuple[int, int]]:
        """The positions of those texts that can match, and where in them no match begins before;
        every one that does is among them."""
        if self.breaks:
            yield from ((at, 0) for at, text in enumerate(texts) if self._loose.search(text))
            return
        # no match holds a line break, so all of them can be searched as one
        data, at = b"\n".join(texts), 0
        ends = list(accumulate(len(text) + 1 for text in texts))
        # the loose expression: RE2 is 20 times as fast where it begins with a letter, not an edge
        while at < len(data) and (match := self._loose.search(data, at)):
            position = bisect_right(ends, match.start())
            yield position, match.start() - (ends[position - 1] if position else 0)
            at = ends[position]

    def find_spans(self, line: str) -> list[tuple[int, int]]:
        """The characters of one line that match."""
        data = line.encode("utf-8", "surrogatepass")
        spans = self._list_spans(data, _go_on)
        if line.isascii():
            return spans
        return [(_decode_length(data[:start]), _decode_length(data[:end])) for start, end in spans]

    def make_replacer(self, template: str) -> Callable[[bytes, tuple[int, int]], bytes]:
        """A function from a text and a match in it to the template with its groups filled in:
        `$1`, `$name`, `${1}`, `$$`; a group that does not exist is empty."""
        capturing = _compile(
            engines.write_re2(self._node, edges=False), self._pattern, captures=True
        )
        pieces = re.split(r"\$(\$|\w+|\{\w+\})", template, flags=re.ASCII)

        def replace(data: bytes, span: tuple[int, int]) -> bytes:
            found = capturing.fullmatch(data, *span)
            parts = [pieces[0].encode()]
            for name, text in zip(pieces[1::2], pieces[2::2], strict=True):
                parts += [_read_group(found, data[slice(*span)], name), text.encode()]
            return b"".join(parts)

        return replace

    def _join_lines(self, data: bytes, check: Callable[[], None]) -> Iterator[ByteLine]:
        """Matches of the whole text; those in the same or neighbouring lines as one."""
        blocks: list[tuple[int, int, list[tuple[int, int]]]] = []
        for a, b in self._list_spans(data, check):
            if a == len(data) and data[-1:] in (b"", b"\n"):  # no line begins here
                continue
            start = data.rfind(b"\n", 0, a) + 1
            end = data.find(b"\n", b - (b > a and data[b - 1 : b] == b"\n"))
            end = len(data) if end < 0 else end
            if blocks and start <= blocks[-1][1] + 1:
                first, last, inside = blocks.pop()
                blocks.append((first, max(last, end), [*inside, (a, b)]))
            else:
                blocks.append((start, end, [(a, b)]))
        counted, number = 0, 1
        for start, end, inside in blocks:
            number += data.count(b"\n", counted, start)
            counted = start
            yield ByteLine(number, start, end, tuple((a - start, b - start) for a, b in inside))

    def _group(self, data: bytes, expression: Any, at: int, *, spans: bool) -> Iterator[ByteLine]:
        """Matches of the whole text, line by line: no match holds a line break."""
        number, counted, start, end, size = 1, 0, 0, -1, _measure(data)
        inside: list[tuple[int, int]] = []
        for a, b in (_list_matches if spans else _list_first_matches)(expression, data, at, size):
            if a > end:
                if inside:
                    yield ByteLine(number, start, end, tuple(inside))
                start = data.rfind(b"\n", 0, a) + 1
                end = data.find(b"\n", a)
                end = size if end < 0 else end
                number += data.count(b"\n", counted, start)
                counted, inside = start, []
            inside.append((a - start, b - start))
        if inside:
            yield ByteLine(number, start, end, tuple(inside))

    def _judge_lines(self, data: bytes, check: Callable[[], None], at: int) -> Iterator[ByteLine]:
        """Candidate lines by the loose expression, each verified by the exact one."""
        for line in self._group(data, self._loose, at, spans=False):
            if spans := self._list_spans(data[line.start : line.end], check):
                yield line._replace(spans=tuple(spans))

    def _list_spans(self, data: bytes, check: Callable[[], None]) -> list[tuple[int, int]]:
        """Every match in a text."""
        if self._stepper and not (self._ascii and data.isascii()):
            text = data.decode("utf-8", "surrogatepass")
            return _count_bytes(text, list(self._stepper.find(text, check)))
        return list(_list_matches(self._strict, data, 0, len(data)))


def invert_lines(data: bytes, found: Iterator[ByteLine]) -> Iterator[ByteLine]:
    """The lines that do not match."""
    number, at = 1, 0
    for line in (*found, ByteLine(0, len(data), len(data), ())):
        yield from walk_lines(data, at, line.start, number)
        number += data.count(b"\n", at, line.end) + 1
        at = line.end + 1


def walk_lines(data: bytes, start: int, end: int, number: int) -> Iterator[ByteLine]:
    """The lines between two places; the first has this number."""
    while start < end:
        stop = data.find(b"\n", start)
        stop = len(data) if stop < 0 else stop
        yield ByteLine(number, start, stop, ())
        start, number = stop + 1, number + 1


def keep_spans(data: bytes, found: Iterator[ByteLine], most: int) -> list[ByteLine]:
    """The first matches, with the lines that they touch."""
    kept = []
    for block in found:
        spans = block.spans[:most]
        most -= len(spans)
        last = block.start + spans[-1][1]
        end = data.find(b"\n", last - (data[last - 1 : last] == b"\n"))
        kept.append(ByteLine(block.number, block.start, len(data) if end < 0 else end, spans))
        if not most:
            break
    return kept


@lru_cache(maxsize=_KEPT_EXPRESSIONS)
def compile_pattern(
    *patterns: str,
    ignore_case: bool = False,
    whole_word: bool = False,
    whole_line: bool = False,
    fixed_string: bool = False,
    multiline: bool = False,
    dot_all: bool = False,
) -> Expression:
    """The compiled expression, which matches if any of the patterns does; `InvalidPattern` says
    what is wrong and where."""
    nodes: list[syntax.Node] = []
    for pattern in patterns:
        if half := _HALF_A_CHARACTER.search(pattern):
            problem = f"half a character at position {half.start()}"
            raise InvalidPattern(problem, pattern=ascii(pattern))
        read = spell_literal if fixed_string else parse_pattern
        nodes.append(read(pattern, ignore_case=ignore_case, multiline=multiline, dot_all=dot_all))
    node = nodes[0] if len(nodes) == 1 else syntax.Choice(tuple(nodes))
    if whole_line:
        node = syntax.Sequence((syntax.Assertion("start"), node, syntax.Assertion("end")))
    elif whole_word:
        node = engines.enclose_word(node)
    return Expression(node, "|".join(patterns))


def grep_text(
    expression: Expression,
    text: FileText,
    work: Work,
    *,
    at: int = 0,
    before: int = 0,
    after: int = 0,
    max_count: int | None = None,
    spans: bool = True,
) -> Iterator[Line]:
    """Matching lines of one file; before `at`, no match begins."""
    data = text.data
    for line in islice(expression.find_lines(data, work.check, spans=spans, at=at), max_count):
        raw = data[line.start : line.end]
        columns = line.spans
        if not raw.isascii():
            columns = tuple((_decode_length(raw[:a]), _decode_length(raw[:b])) for a, b in columns)
        yield Line(
            text.path,
            line.number,
            raw.decode("utf-8", "surrogatepass"),
            columns,
            _lines_before(data, line.start, before),
            _lines_after(data, line.end, after),
            line.start,
        )


def _decode_length(data: bytes) -> int:
    return len(data.decode("utf-8", "surrogatepass"))


def _lines_before(data: bytes, start: int, count: int) -> tuple[str, ...]:
    begin = start
    for _ in range(count):
        begin = data.rfind(b"\n", 0, max(begin - 1, 0)) + 1
    lines = data[begin:start].decode("utf-8", "surrogatepass").split("\n")
    return tuple(lines[:-1])


def _lines_after(data: bytes, end: int, count: int) -> tuple[str, ...]:
    if not count:
        return ()
    stop = end
    for _ in range(count):
        following = data.find(b"\n", stop + 1)
        stop = len(data) if following < 0 else following
    lines = data[end + 1 : stop].decode("utf-8", "surrogatepass").split("\n")
    return tuple(lines if lines[-1] or stop < len(data) else lines[:-1])


def _read_group(found: Any, whole: bytes, name: str) -> bytes:
    """What a reference in a replacement stands for."""
    name = name.strip("{}")
    if name == "$":
        return b"$"
    if name == "0" or found is None:
        return whole if name == "0" else b""
    try:
        group: bytes | None = found.group(int(name) if name.isdecimal() else name)
    except (IndexError, KeyError):
        group = None
    return group or b""


def _compile(source: str, pattern: str, *, captures: bool = False) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = not captures
    options.max_mem = _MOST_MEMORY_BYTES
    try:
        # not by `re2.compile`, which would keep 128 of them with all their memory
        return type(re2.compile(""))(f"(?m){source}".encode(), options)
    except re2.error as error:
        message = error.args[0] if error.args else error
        reason = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
        reason = reason.partition(":")[0]
        raise InvalidPattern(
            f"the pattern is too large: {reason}",
            pattern=pattern,
            next_action="Make it smaller: fewer or shorter repetitions.",
        ) from error


def _measure(data: bytes) -> int:
    """The length of a text without the last line break; -1 if it has no line."""
    return len(data) - data.endswith(b"\n") if data else -1


def _list_matches(expression: Any, data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Matches between two places; none lies empty at the end of another."""
    last = -1
    for found in expression.finditer(data, start, end) if start <= end else ():
        at, stop = span = found.span()
        # RE2 also finds nothing at all, within a character or where a match has just ended
        if at == stop and (at == last or (at < len(data) and data[at] & 0xC0 == 0x80)):
            continue
        last = stop
        yield span


def _list_first_matches(
    expression: Any, data: bytes, start: int, end: int
) -> Iterator[tuple[int, int]]:
    """The first match of each line between two places."""
    while start <= end and (found := expression.search(data, start, end)):
        yield found.span()
        start = data.find(b"\n", found.start()) + 1 or end + 1


def _count_bytes(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in characters as spans in bytes."""
    places = {0: 0}
    at = size = 0
    for place in sorted({place for span in spans for place in span}):
        size += len(text[at:place].encode("utf-8", "surrogatepass"))
        at = place
        places[place] = size
    return [(places[start], places[end]) for start, end in spans]
