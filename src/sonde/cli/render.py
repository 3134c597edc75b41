"""Answers of the verbs as lines for people."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from sonde.cli.terminal import Screen, cut_line, display_width, escape_controls, prepare_line
from sonde.text.highlight import Finder, TextSpan, join_parts

if TYPE_CHECKING:
    from sonde.tools.shapes.rfc import GrepAnswer, ProjectsAnswer, SearchAnswer

SNIPPET_LINES = 10
"""A screen shows three results of this height."""
LEAD_LINES = 2
"""Shown above the first line with a match."""
_HEAD_ENDS = (")", "]", "{")
"""How a line begins that ends the head of a definition, not the definition itself."""


def choose_window(
    lines: Sequence[str], find: Finder, size: int, opening: int | None = None
) -> tuple[int, int]:
    """The first run of at most `size` lines with the most distinct words of the query, moved so
    that the first match is near its top; the line at `opening` counts as one more word."""
    last = len(lines) - size
    if last <= 0:
        return 0, len(lines)
    found = [{line[a:b].lower() for a, b in find(line)} for line in lines]
    if opening is not None:
        found[opening].add("")
    runs = [set().union(*found[start : start + size]) for start in range(last + 1)]
    start = max(range(last + 1), key=lambda index: (len(runs[index]), -index))
    first = next((index for index in range(start, start + size) if found[index]), start)
    if opening is not None and start <= opening < start + size:
        whole = max(0, min(opening - LEAD_LINES, last))
        first = opening if len(runs[whole]) == len(runs[start]) else first
    start = max(start, min(first - LEAD_LINES, last))
    while start < last and not lines[start].strip():
        start += 1
    return start, start + size


def find_opening(lines: Sequence[str], symbol: str) -> int | None:
    """The index of the line in which the definition of a symbol begins; None if not among these."""
    name = symbol.rpartition(".")[2]
    return next((at for at, line in enumerate(lines) if name and name in line), None)


def reaches(lines: Sequence[str], opening: int, at: int) -> bool:
    """Whether the block that begins at `opening` extends to line `at`, judged by indentation."""
    depth = _measure_indent(lines[opening])
    return opening <= at and all(
        _measure_indent(line) > depth or line.lstrip()[:1] in _HEAD_ENDS
        for line in lines[opening + 1 : at + 1]
        if line.strip()
    )


def _measure_indent(line: str) -> int:
    return len(line.expandtabs()) - len(line.expandtabs().lstrip())


@dataclass(frozen=True, slots=True)
class Style:
    """How results are printed: the screen, the spelling of paths, how much of each."""

    screen: Screen
    show_path: Callable[[str, str | None], str] = lambda path, _project: path
    full: bool = False
    scores: bool = False

    def path(self, path: str, project: str | None = None) -> str:
        """A path relative to the working directory; its controls are escaped on a terminal."""
        shown = self.show_path(path, project)
        return self.screen.paint("path", escape_controls(shown) if self.screen.tty else shown)

    def cut(self, text: str, spans: Sequence[TextSpan], taken: int) -> str:
        """A line of a file with its matches marked, cut to the width left of `taken`."""
        shown, moved = prepare_line(text, spans)
        width = None if self.full or self.screen.width is None else self.screen.width - taken
        return self.screen.mark(cut_line(shown, width), moved)


@dataclass(frozen=True, slots=True)
class Result:
    """One result of a search, as its answer documents it."""

    path: str
    text: str
    start_line: int
    end_line: int
    score: float
    symbol: str = ""
    project: str | None = None
    stale: bool = False
    why: tuple[tuple[str, float], ...] = ()

    @property
    def lines(self) -> list[str]:
        """The text, line by line."""
        return self.text.removesuffix("\n").split("\n")


def read_results(answer: SearchAnswer) -> Iterator[Result]:
    """The results of an answer."""
    for row in answer["results"]:
        yield Result(
            row["path"],
            row["text"],
            row["startLine"],
            row["endLine"],
            row["score"],
            row.get("symbol") or "",
            row.get("project"),
            bool(row.get("stale")),
            tuple(row.get("why", {}).items()),
        )


def render_search(answer: SearchAnswer, look: Style, find: Finder) -> Iterator[str]:
    """Each result: its place, then the lines that match best."""
    for index, result in enumerate(read_results(answer)):
        if index:
            yield ""
        lines, symbol = result.lines, result.symbol
        opening = find_opening(lines, symbol)
        size = len(lines) if look.full else SNIPPET_LINES
        start, end = choose_window(lines, find, size, opening)
        if opening is not None and not start <= opening < end:
            best = next((at for at in range(start, end) if find(lines[at])), start)
            # a chunk may hold several definitions: the name of another one misleads
            symbol = symbol if reaches(lines, opening, best) else ""
        yield _render_place(result, look, symbol)
        yield from _render_snippet(result, look, find, (start, end))
        for name, value in result.why:
            yield look.screen.paint("dim", f"    {value:+8.3f}  {escape_controls(name)}")


def _render_place(result: Result, look: Style, symbol: str) -> str:
    paint, start, end = look.screen.paint, result.start_line, result.end_line
    lines = str(start) if start == end else f"{start}-{end}"
    parts = [f"{look.path(result.path, result.project)}:{paint('line', lines)}"]
    if symbol:
        parts.append(paint("bold", escape_controls(symbol)))
    if look.scores:
        parts.append(paint("dim", f"{result.score:.3f}"))
    if result.stale:
        parts.append(paint("warn", "(the file changed since)"))
    return "  ".join(parts)


def _render_snippet(
    result: Result, look: Style, find: Finder, window: tuple[int, int]
) -> Iterator[str]:
    (start, end), lines = window, result.lines
    gutter = len(str(result.start_line + len(lines) - 1))
    for index in range(start, end):
        number = look.screen.paint("dim", f"  {result.start_line + index:>{gutter}} │ ")
        line = lines[index].removesuffix("\r")
        yield (number + look.cut(line, join_parts(line, find(line)), gutter + 5)).rstrip()
    hidden = len(lines) - (end - start)
    if hidden:
        note = f"  {'':>{gutter}} ⋮ {hidden} more line{'s' if hidden > 1 else ''}"
        yield look.screen.paint("dim", note)


def describe_search(answer: SearchAnswer) -> list[str]:
    """Notes on the results: how many, how fresh, what was cut."""
    shown, total = len(answer["results"]), answer["totalResults"]
    count = f"{shown}" if shown == total else f"{shown} of {total}"
    notes = [f"{count} result{'' if total == 1 else 's'} in {answer['searchTimeMs']} ms"]
    if answer.get("truncated"):
        notes.append("cut to the size limit; see more with --max-tokens or --limit")
    metadata = answer["metadata"]
    if metadata.get("freshness") == "indexing":
        notes.append("indexing goes on; more may be found in a moment")
    if note := metadata.get("note"):
        notes.append(escape_controls(note))
    return notes


_Line = tuple[str, Sequence[TextSpan] | None]
"""The text of a line and its matches; None marks a line that is only context."""


def render_grep(answer: GrepAnswer, look: Style, *, heading: bool, numbers: bool) -> Iterator[str]:
    """Matching lines as grep prints them; grouped under their file on a terminal."""
    files = groupby(answer["matches"], key=lambda match: match["path"])
    for index, (path, matches) in enumerate(files):
        context = False
        lines: dict[int, _Line] = {}
        for match in matches:
            line = match["line"]
            before, after = match.get("before", ()), match.get("after", ())
            context |= bool(before or after)
            for number, text in enumerate((*before, None, *after), line - len(before)):
                if text is not None:
                    lines.setdefault(number, (text, None))
            lines[line] = (match["text"], [(start, end) for start, end in match["spans"]])
        if index and (heading or context):
            yield "" if heading else "--"
        if heading:
            yield look.path(path)
        prefix = "" if heading else look.path(path)
        yield from _render_lines(dict(sorted(lines.items())), prefix, look, numbers)


def _render_lines(
    lines: Mapping[int, _Line], prefix: str, look: Style, numbers: bool
) -> Iterator[str]:
    previous: int | None = None
    context = any(spans is None for _, spans in lines.values())
    plain = display_width(re.sub("\x1b\\[[0-9;]*m", "", prefix))
    for number, (text, spans) in lines.items():
        if context and previous is not None and number > previous + 1:
            yield look.screen.paint("dim", "--")
        previous = number
        mark = "-" if spans is None else ":"
        head = f"{prefix}{mark}" if prefix else ""
        if numbers:
            head += look.screen.paint("line", str(number)) + mark
        taken = plain + len(mark) * bool(prefix) + (len(str(number)) + 1) * numbers
        if look.screen.tty or look.screen.color:
            yield head + look.cut(text, spans or (), taken)
        else:
            yield head + text


def render_facts(facts: Mapping[str, object], screen: Screen, indent: str = "") -> Iterator[str]:
    """An answer as aligned `Label  value` lines; nested values follow, indented."""
    shown = {key: value for key, value in facts.items() if value or isinstance(value, int)}
    width = max((len(_label(key)) for key in shown), default=0)
    for key, value in shown.items():
        label = screen.paint("dim", f"{_label(key):<{width}}")
        if isinstance(value, Mapping):
            yield f"{indent}{label}".rstrip()
            yield from render_facts(value, screen, indent + "  ")
        elif isinstance(value, list | tuple):
            yield f"{indent}{label}".rstrip()
            yield from (f"{indent}  {_show_item(item)}" for item in value)
        else:
            yield f"{indent}{label}  {_show_value(value)}"


def _label(key: str) -> str:
    """`totalFiles` -> `Total files`; anything but an identifier is kept."""
    if not key.isidentifier():
        return escape_controls(key)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", key).lower()
    return words[:1].upper() + words[1:]


def _show_value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3g}"
    return escape_controls(str(value))


def _show_item(item: object) -> str:
    if isinstance(item, Mapping):
        return "  ".join(_show_value(value) for value in item.values())
    return _show_value(item)


def render_projects(answer: ProjectsAnswer, screen: Screen) -> Iterator[str]:
    """One line per project: path, status, counts, size, last update."""
    rows = [
        (
            escape_controls(project["projectPath"]),
            str(project.get("status", "")),
            f"{project.get('totalFiles', 0):,} files",
            f"{project.get('totalChunks', 0):,} chunks",
            str(project.get("storageSize", "")),
            str(project.get("lastUpdated") or "never"),
        )
        for project in answer["projects"]
    ]
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    for path, *rest in rows:
        cells = [
            cell.rjust(width)
            if cell[:1].isdigit() and index != len(rest) - 1
            else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(rest, widths[1:], strict=True))
        ]
        padding = " " * (widths[0] - display_width(path))
        yield f"{screen.paint('path', path)}{padding}  {'  '.join(cells)}".rstrip()
