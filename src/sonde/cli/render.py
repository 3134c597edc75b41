"""Answers of the verbs -> lines for people."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sonde.cli.terminal import Screen, Span, cut_line, display_width, escape_controls, prepare_line
from sonde.text.words import find_words, split_identifier

Finder = Callable[[str], list[Span]]

_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PLAIN_WORDS = re.compile(
    "an?|and|are|as|at|be|by|can|do|does|for|from|how|i|in|into|is|it|of|on|or|that|the|this|to"
    "|was|what|when|where|which|who|why|with",
    re.IGNORECASE,
)
_GOES_ON = (")", "]", "{")
"""How a line begins that ends the head of a definition, not the definition."""
_LEAD = 2
"""Lines shown above the first one that was found."""
_ENDING = 3
"""Two words that differ by at most this many last letters are shown as one (`index`, `indexes`)."""


def find_query_words(query: str) -> Finder:
    """A finder for the words of a query, as parts of identifiers too."""
    words = [word for word in find_words(query) if not _PLAIN_WORDS.fullmatch(word)]
    terms = {part for word in words for part in split_identifier(word) if len(part) > 1}
    foreign = [word for word in words if not word.isascii()]
    terms.update(map(_fold, foreign))
    literal = re.compile("|".join(map(re.escape, foreign)) or r"(?!)", re.IGNORECASE)

    def find(line: str) -> list[Span]:
        spans: list[Span] = []
        for word in _WORD.finditer(line):
            if word[0].isascii():
                parts = _PART.finditer(line, word.start(), word.end())
                spans += [part.span() for part in parts if _resembles(part[0].lower(), terms)]
            elif _resembles(_fold(word[0]), terms):
                spans.append(word.span())
            else:
                spans += [m.span() for m in literal.finditer(line, word.start(), word.end())]
        return spans

    return find


def join_parts(line: str, spans: Sequence[Span]) -> list[Span]:
    """The spans, with what was found of one identifier (`load_settings`) as one."""
    joined: list[Span] = []
    for start, end in spans:
        if joined and line[joined[-1][1] : start].strip("_") == "":
            start = joined.pop()[0]
        joined.append((start, end))
    return joined


def choose_window(
    lines: Sequence[str], find: Finder, size: int, opening: int | None = None
) -> tuple[int, int]:
    """The first run of at most `size` lines that holds most different words of the query, set so
    that what was found stands near its top; the line at `opening` counts as a word more."""
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
        whole = max(0, min(opening - _LEAD, last))
        first = opening if len(runs[whole]) == len(runs[start]) else first
    start = max(start, min(first - _LEAD, last))
    while start < last and not lines[start].strip():
        start += 1
    return start, start + size


def find_opening(lines: Sequence[str], symbol: str) -> int | None:
    """The line that the definition of a symbol begins in, if it is among these."""
    name = symbol.rpartition(".")[2]
    return next((at for at, line in enumerate(lines) if name and name in line), None)


def reaches(lines: Sequence[str], opening: int, at: int) -> bool:
    """Whether the block that begins at `opening` goes on to line `at`, by its indentation."""
    depth = _measure_indent(lines[opening])
    return opening <= at and all(
        _measure_indent(line) > depth or line.lstrip()[:1] in _GOES_ON
        for line in lines[opening + 1 : at + 1]
        if line.strip()
    )


def _measure_indent(line: str) -> int:
    return len(line.expandtabs()) - len(line.expandtabs().lstrip())


def _fold(word: str) -> str:
    plain = unicodedata.normalize("NFKD", word.casefold())
    return "".join(char for char in plain if not unicodedata.combining(char))


def _resembles(part: str, terms: set[str]) -> bool:
    if part in terms:
        return True
    return any(
        min(len(part), len(term)) >= 4
        and abs(len(part) - len(term)) <= _ENDING
        and (part.startswith(term) or term.startswith(part))
        for term in terms
    )


Answer = Mapping[str, Any]
_SNIPPET_LINES = 10
_UNITS = ("bytes", "KB", "MB", "GB", "TB")


@dataclass(frozen=True, slots=True)
class Style:
    """How results are shown: where, with which paths, and how much of them."""

    screen: Screen
    show_path: Callable[[str, str | None], str] = lambda path, _project: path
    full: bool = False
    scores: bool = False

    def path(self, path: str, project: str | None = None) -> str:
        """A path as printed: relative to the person; without control characters, on a terminal."""
        shown = self.show_path(path, project)
        return self.screen.paint("path", escape_controls(shown) if self.screen.tty else shown)

    def cut(self, text: str, spans: Sequence[Span], taken: int) -> str:
        """A line of a file with its matches marked, in what is left of the width."""
        shown, moved = prepare_line(text, spans)
        width = None if self.full or self.screen.width is None else self.screen.width - taken
        return self.screen.mark(cut_line(shown, width), moved)


def render_search(answer: Answer, look: Style, find: Finder) -> Iterator[str]:
    """Each result: its place, then the lines that say most."""
    for index, result in enumerate(answer["results"]):
        if index:
            yield ""
        lines = result["text"].removesuffix("\n").split("\n")
        symbol = result.get("symbol") or ""
        opening = find_opening(lines, symbol)
        size = len(lines) if look.full else _SNIPPET_LINES
        start, end = choose_window(lines, find, size, opening)
        if opening is not None and not start <= opening < end:
            best = next((at for at in range(start, end) if find(lines[at])), start)
            # a piece of a file may hold several definitions: the name of another one misleads
            symbol = symbol if reaches(lines, opening, best) else ""
        yield _render_place(result, look, symbol)
        yield from _render_snippet(result, look, find, lines, (start, end))
        for name, value in _read_reasons(result.get("why", ())):
            yield look.screen.paint("dim", f"    {value:+8.3f}  {name}")


def _render_place(result: Answer, look: Style, symbol: str) -> str:
    start, end = result["startLine"], result["endLine"]
    lines = str(start) if start == end else f"{start}-{end}"
    parts = [
        f"{look.path(result['path'], result.get('project'))}:{look.screen.paint('line', lines)}"
    ]
    if symbol:
        parts.append(look.screen.paint("bold", escape_controls(symbol)))
    if look.scores:
        parts.append(look.screen.paint("dim", f"{result['score']:.3f}"))
    if result.get("stale"):
        parts.append(look.screen.paint("warn", "(the file changed since)"))
    return "  ".join(parts)


def _render_snippet(
    result: Answer, look: Style, find: Finder, lines: Sequence[str], window: Span
) -> Iterator[str]:
    start, end = window
    gutter = len(str(result["startLine"] + len(lines) - 1))
    for index in range(start, end):
        number = look.screen.paint("dim", f"  {result['startLine'] + index:>{gutter}} │ ")
        line = lines[index].removesuffix("\r")
        yield (number + look.cut(line, join_parts(line, find(line)), gutter + 5)).rstrip()
    hidden = len(lines) - (end - start)
    if hidden:
        note = f"  {'':>{gutter}} ⋮ {hidden} more line{'s' if hidden > 1 else ''}"
        yield look.screen.paint("dim", note)


def _read_reasons(why: Any) -> Iterator[tuple[str, float]]:
    pairs = why.items() if isinstance(why, Mapping) else why
    for name, value in pairs:
        yield escape_controls(str(name)), float(value)


def describe_search(answer: Answer) -> list[str]:
    """What a person should know beside the results: how many, how fresh, what was cut."""
    shown, total = len(answer["results"]), answer.get("totalResults", 0)
    count = f"{shown}" if shown == total else f"{shown} of {total}"
    notes = [f"{count} result{'' if total == 1 else 's'} in {answer.get('searchTimeMs', 0)} ms"]
    if answer.get("truncated"):
        notes.append("cut to the size limit; see more with --max-tokens or --limit")
    metadata = answer.get("metadata", {})
    if metadata.get("freshness") == "indexing":
        notes.append("indexing goes on; more may be found in a moment")
    if metadata.get("note"):
        notes.append(escape_controls(str(metadata["note"])))
    return notes


def render_grep(answer: Answer, look: Style, *, heading: bool, numbers: bool) -> Iterator[str]:
    """Matching lines as grep prints them; grouped under their file on a terminal."""
    files = groupby(answer["matches"], key=lambda match: match["path"])
    for index, (path, group) in enumerate(files):
        matches = list(group)
        context = any(match.get("before") or match.get("after") for match in matches)
        if index and (heading or context):
            yield "" if heading else "--"
        if heading:
            yield look.path(path)
        prefix = "" if heading else look.path(path)
        yield from _render_lines(_merge_context(matches), prefix, look, numbers)


def _merge_context(matches: Sequence[Answer]) -> dict[int, tuple[str, list[Span] | None]]:
    """Line number -> text and its matches; None marks a line that is only context."""
    lines: dict[int, tuple[str, list[Span] | None]] = {}
    for match in matches:
        line = match["line"]
        before, after = match.get("before", ()), match.get("after", ())
        for offset, text in enumerate(before, -len(before)):
            lines.setdefault(line + offset, (text, None))
        for offset, text in enumerate(after, 1):
            lines.setdefault(line + offset, (text, None))
        lines[line] = (match["text"], [(a, b) for a, b in match.get("spans", ())])
    return dict(sorted(lines.items()))


def _render_lines(
    lines: Mapping[int, tuple[str, list[Span] | None]], prefix: str, look: Style, numbers: bool
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


def render_facts(facts: Answer, screen: Screen, indent: str = "") -> Iterator[str]:
    """A flat answer as aligned `Label  value` lines; nested ones follow, indented."""
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
    """`totalFiles` -> `Total files`; what is not such a name stays as it is."""
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


def render_projects(answer: Answer, screen: Screen) -> Iterator[str]:
    """One line per project: where, how it is, how big, how old."""
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


def count_of(number: int, noun: str) -> str:
    """A number and what it counts: 1 file, 2,000 files."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_bytes(size: float) -> str:
    """A size as people say it: 512 bytes, 3.4 MB."""
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"
