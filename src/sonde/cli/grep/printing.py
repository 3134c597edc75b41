"""Output formats of matching lines: lines, counts, file names, JSON Lines."""

from __future__ import annotations

import base64
import json
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import BinaryIO, NamedTuple

from sonde.cli.terminal import Screen, cut_line, escape_controls, prepare_line
from sonde.searching.lines.grep import ByteLine, Expression, invert_lines, keep_spans, walk_lines
from sonde.types import Json

Replacer = Callable[[bytes, tuple[int, int]], bytes]


@dataclass(frozen=True, slots=True)
class Form:
    """The output format: what is printed of each file, and how."""

    mode: str = "lines"
    """lines, json, count, matches (counted), with (names of files that match), without."""
    paths: bool = True
    numbers: bool = True
    column: bool = False
    each: bool = False
    """Whether every match has a line of its own (--vimgrep)."""
    only: bool = False
    """Whether only what matches is printed (-o)."""
    heading: bool = False
    before: int = 0
    after: int = 0
    invert: bool = False
    most: int | None = None
    """Limit of matching lines per file."""
    replace: Replacer | None = None
    stats: bool = False
    """Whether everything is counted, including what is not printed."""
    full: bool = False
    """Whether long lines are printed whole on a terminal."""

    @property
    def context(self) -> bool:
        """Whether lines around the matches are printed."""
        return bool(self.before or self.after)


@dataclass(slots=True)
class GrepTotals:
    """The statistics of `--stats`."""

    matches: int = 0
    lines: int = 0
    files: int = 0
    searched: int = 0
    searched_bytes: int = 0
    printed_bytes: int = 0
    began: float = field(default_factory=time.perf_counter)

    def render(self) -> Iterator[str]:
        """The lines of `--stats`."""
        yield from (
            "",
            f"{self.matches} matches",
            f"{self.lines} matched lines",
            f"{self.files} files contained matches",
            f"{self.searched} files searched",
            f"{self.printed_bytes} bytes printed",
            f"{self.searched_bytes} bytes searched",
        )
        took = time.perf_counter() - self.began
        yield from (f"{took:.6f} seconds spent searching", f"{took:.6f} seconds total")


class Part(NamedTuple):
    """A stretch of a file in whole lines, and the matches in it. Their numbers count from the
    beginning of the file, their places from that of the stretch."""

    data: bytes
    lines: Sequence[ByteLine]
    number: int = 1
    """Of its first line."""
    offset: int = 0
    """Bytes of the file before it."""


def pick_lines(
    expression: Expression, data: bytes, form: Form, check: Callable[[], None], *, at: int = 0
) -> list[ByteLine]:
    """The lines to print as matches: up to the limit, or with -v those that do not match."""
    need_spans = form.mode in ("lines", "json", "matches") or expression.breaks or form.stats
    found = expression.find_lines(data, check, spans=need_spans and not form.invert, at=at)
    if form.invert:
        found = invert_lines(data, found)
    if form.mode in ("with", "without") and not form.stats:
        return list(islice(found, 1))
    if form.most is not None and expression.breaks and not form.invert:
        return keep_spans(data, found, form.most)
    return list(islice(found, form.most))


class Printer:
    """Prints the matches of one file after another."""

    def __init__(self, form: Form, screen: Screen, out: BinaryIO) -> None:
        self._form = form
        self._screen = screen
        self._out = out
        self._first = True
        self.totals = GrepTotals()

    def print_file(self, path: str, parts: Iterable[Part], further: Further) -> bool:
        """Print the file in this format. Returns whether it counts as found. A part may repeat the
        last lines of the one before it, as context."""
        form, totals, own = self._form, self.totals, GrepTotals(searched=1)
        counted = self._count(parts, own)
        if form.mode == "json":
            self._write_json(path, counted, further, own)
        elif form.mode == "lines":
            self._write_lines(path, counted, further)
        elif form.mode in ("count", "matches") or form.stats:
            deque(counted, maxlen=0)
        else:
            any(part.lines for part in counted)
        totals.lines += own.lines
        totals.matches += own.matches
        totals.files += own.files
        found = bool(own.files) != (form.mode == "without")
        if found and form.mode in ("with", "without"):
            self._write(self._show_path(path) + b"\n")
        elif found and form.mode in ("count", "matches"):
            spans = form.mode == "matches" or (further is not None and further.breaks)
            self._write_count(path, own.matches if spans and not form.invert else own.lines)
        return found

    def _count(self, parts: Iterable[Part], own: GrepTotals) -> Iterator[Part]:
        for part in parts:
            data, lines = part.data, part.lines
            own.lines += sum(1 + data.count(b"\n", line.start, line.end) for line in lines)
            own.matches += 0 if self._form.invert else sum(len(line.spans) or 1 for line in lines)
            own.files |= bool(lines)
            own.searched_bytes = part.offset + len(data)
            yield part

    def print_count(self, path: str, count: int) -> bool:
        """Print how many lines of a file match; returns whether any does."""
        self.totals.lines += count
        if count:
            self._write_count(path, count)
        return bool(count)

    def _write_count(self, path: str, count: int) -> None:
        shown = self._show_path(path) + b":" if self._form.paths else b""
        self._write(b"%s%d\n" % (shown, count))

    def print_path(self, path: str) -> None:
        """Print the name of a file, for `--files`."""
        self._write(self._show_path(path) + b"\n")

    def _write(self, data: bytes) -> None:
        self._out.write(data)
        if self._form.mode in ("lines", "json"):
            self.totals.printed_bytes += len(data)

    def _show_path(self, path: str) -> bytes:
        shown = escape_controls(path) if self._screen.tty else path
        painted = self._screen.link(path, self._screen.paint("path", shown))
        return painted.encode("utf-8", "surrogateescape")

    def _open_file(self, path: str) -> bytes:
        """Set off a file from the one before; returns what its lines begin with."""
        form = self._form
        if not self._first and (form.heading or form.context):
            self._write(b"\n" if form.heading else b"--\n")
        self._first = False
        shown = self._show_path(path) if form.paths else b""
        if form.heading and form.paths:
            self._write(shown + b"\n")
            return b""
        return shown

    def _write_lines(self, path: str, parts: Iterable[Part], further: Further) -> None:
        form = self._form
        shown: bytes | None = None
        if self._is_plain(further):
            for data, lines, *_ in parts:
                if lines:
                    shown = self._open_file(path) if shown is None else shown
                    head = shown + b":" if shown else b""
                    heads = (
                        b"%b%d:" % (head, each.number) if form.numbers else head for each in lines
                    )
                    texts = (data[start:end] for _, start, end, _ in lines)
                    self._write(b"".join(map(b"%b%b\n".__mod__, zip(heads, texts, strict=True))))
            return
        following = 0  # the number of the line after the one that was printed last
        for is_match, part, line in _surround(parts, form, further):
            if shown is None:
                shown = self._open_file(path)
            elif form.context and line.number > following:
                self._write(self._screen.paint("dim", "--").encode() + b"\n")
            following = line.number + part.data.count(b"\n", line.start, line.end) + 1
            for at, column, text, spans in self._cut(part.data, line, is_match=is_match):
                mark = b":" if is_match else b"-"
                head = shown + mark if shown else b""
                if form.numbers:
                    head += self._screen.paint("line", str(at)).encode() + mark
                if form.column and column:
                    head += b"%d" % column + mark
                self._write(head + self._draw(text, spans, head) + b"\n")

    def _is_plain(self, further: Further) -> bool:
        """Whether each match is printed as it is, and on a line of its own."""
        form, screen = self._form, self._screen
        asked = form.context or form.column or form.each or form.only or form.replace
        return not (asked or screen.tty or screen.color or further is None or further.breaks)

    def _cut(
        self, data: bytes, line: ByteLine, *, is_match: bool
    ) -> Iterator[tuple[int, int, bytes, Sequence[tuple[int, int]]]]:
        """The printed parts of a match: line number, column (0: none), text and marked spans."""
        form, text, spans = self._form, data[line.start : line.end], list(line.spans)
        if not is_match or not spans:
            yield line.number, 0, text, ()
            return
        if form.replace:
            text, spans = _replace_all(data, line, form.replace)
            text = text.removesuffix(b"\n")
        starts = [0, *(at + 1 for at, byte in enumerate(text) if byte == 10)]
        for start, end in spans if form.each or form.only else [spans[0]]:
            row = bisect_right(starts, start) - 1
            column = start - starts[row] + 1
            if form.only:
                parts = text[start:end].removesuffix(b"\n").split(b"\n")
                for more, part in enumerate(parts[: 1 if form.each else None]):
                    yield line.number + row + more, column, part, [(0, len(part))]
                continue
            for each in [row] if form.each else range(len(starts)):
                stop = starts[each + 1] - 1 if each + 1 < len(starts) else len(text)
                inside = [(a - starts[each], b - starts[each]) for a, b in spans]
                yield line.number + each, column, text[starts[each] : stop], inside

    def _draw(self, text: bytes, spans: Sequence[tuple[int, int]], head: bytes) -> bytes:
        """The text of a line; on a terminal with matches marked and controls escaped."""
        screen = self._screen
        if not (screen.tty or screen.color):
            return text
        decoded = text.decode("utf-8", "replace")
        if not text.isascii():
            spans = [
                (len(text[: max(a, 0)].decode("utf-8", "replace")),
                 len(text[: max(b, 0)].decode("utf-8", "replace")))
                for a, b in spans
            ]  # fmt: skip
        shown, moved = prepare_line(decoded, [(max(a, 0), max(b, 0)) for a, b in spans])
        if screen.width is not None and not self._form.full:
            taken = len(_plain(head))
            shown = cut_line(shown, max(screen.width - taken, 1))
        return screen.mark(shown, moved).encode("utf-8", "surrogateescape")

    def _write_json(
        self, path: str, parts: Iterable[Part], further: Further, own: GrepTotals
    ) -> None:
        """The messages of a file, if any of its lines matches."""
        printed = self.totals.printed_bytes
        named, begun = {"path": _as_text(path.encode("utf-8", "surrogateescape"))}, False
        for is_match, (data, _, _, offset), line in _surround(parts, self._form, further):
            if not begun:
                self._write(_message("begin", named))
                begun = True
            stop = line.end + (data[line.end : line.end + 1] == b"\n")
            message: Json = {
                **named,
                "lines": _as_text(data[line.start : stop]),
                "line_number": line.number if self._form.numbers else None,
                "absolute_offset": offset + line.start,
                "submatches": [self._describe(data, line, span) for span in line.spans],
            }
            self._write(_message("match" if is_match else "context", message))
        if begun:
            own.printed_bytes = self.totals.printed_bytes - printed
            end: Json = {**named, "binary_offset": None, "stats": describe_totals(own)}
            self._out.write(_message("end", end))

    def _describe(self, data: bytes, line: ByteLine, span: tuple[int, int]) -> Json:
        start, end = span
        row: Json = {"match": _as_text(data[line.start + start : line.start + end])}
        if self._form.replace:
            place = (line.start + start, line.start + end)
            row["replacement"] = _as_text(self._form.replace(data, place))
        return row | {"start": start, "end": end}

    def print_summary(self) -> None:
        """The last message of JSON Lines."""
        took = describe_totals(self.totals)
        row = {"data": {"elapsed_total": took["elapsed"], "stats": took}, "type": "summary"}
        text = json.dumps(row, separators=(",", ":"), sort_keys=True)
        self._out.write(f"{text}\n".encode())


Further = Expression | None
"""What decides whether a line after the last match that is printed would match as well."""


def _surround(
    parts: Iterable[Part], form: Form, further: Further
) -> Iterator[tuple[bool, Part, ByteLine]]:
    """The lines with their context, each once, and whether it matches."""
    done = owed = 0  # bytes that were printed, with the line break; lines to print after them
    for part in parts:
        if not form.context:
            yield from ((True, part, line) for line in part.lines)
            continue
        data, at = part.data, max(done - part.offset, 0)
        number = part.number + data.count(b"\n", 0, at)
        for line in (*part.lines, None):
            stop, end = line.start if line else len(data), at
            while owed and end < stop:
                end = data.find(b"\n", end) + 1 or len(data)
                owed -= 1
            # the limit of matches was reached: a line that follows may match, and is shown as it is
            last = line is None and form.most is not None
            for each in walk_lines(data, at, end, number):
                match = _match_line(further, data, each, form) if last else None
                yield match is not None, part, match or each
            at = max(at, end)
            if line is None:
                break
            begin = line.start
            for _ in range(form.before):
                begin = data.rfind(b"\n", 0, max(begin - 1, 0)) + 1
            begin = max(begin, at)
            number = line.number - data.count(b"\n", begin, line.start)
            yield from ((False, part, each) for each in walk_lines(data, begin, stop, number))
            yield True, part, line
            at, owed = line.end + 1, form.after
            number = line.number + data.count(b"\n", line.start, line.end) + 1
        done = part.offset + at


def _match_line(further: Further, data: bytes, line: ByteLine, form: Form) -> ByteLine | None:
    if further is None or further.breaks:
        return None
    found = list(further.find_lines(data[line.start : line.end + 1]))
    if bool(found) == form.invert:
        return None
    return line._replace(spans=found[0].spans if found else ())


def _replace_all(
    data: bytes, line: ByteLine, replace: Replacer
) -> tuple[bytes, list[tuple[int, int]]]:
    parts, spans, at, size = [], [], line.start, 0
    for start, end in ((line.start + a, line.start + b) for a, b in line.spans):
        parts += [data[at:start], replace(data, (start, end))]
        size += len(parts[-2])
        spans.append((size, size + len(parts[-1])))
        size += len(parts[-1])
        at = end
    return b"".join([*parts, data[at : max(line.end, at)]]), spans


def _as_text(data: bytes) -> Json:
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(data).decode()}


def _message(kind: str, data: Json) -> bytes:
    row = {"type": kind, "data": data}
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def describe_totals(totals: GrepTotals) -> Json:
    """The statistics of JSON Lines."""
    took = time.perf_counter() - totals.began
    elapsed = {"secs": int(took), "nanos": int(took % 1 * 1e9), "human": f"{took:.6f}s"}
    return {
        "elapsed": elapsed,
        "searches": totals.searched,
        "searches_with_match": totals.files,
        "bytes_searched": totals.searched_bytes,
        "bytes_printed": totals.printed_bytes,
        "matched_lines": totals.lines,
        "matches": totals.matches,
    }


def _plain(text: bytes) -> str:
    import re

    codes = "\x1b\\[[0-9;]*m|\x1b\\]8;;[^\x1b]*\x1b\\\\"
    return re.sub(codes, "", text.decode("utf-8", "replace"))
