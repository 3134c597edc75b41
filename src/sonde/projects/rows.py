"""A kept hit as a row of a page: where it is in the file now, cut, with the lines around it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from sonde.errors import FileMissing, PermissionDenied
from sonde.projects.search import present_hit
from sonde.projects.workspace import Workspace
from sonde.ranking.question import Question
from sonde.searching.lines.grep import Expression
from sonde.types import FileText, Hit, Span

_UNCUT = 1 << 30
_MOST_COLUMNS = 10
"""Matches of one line whose columns are listed; a minified file has thousands."""
_LEAD = 4
"""A line that is too long is cut so that a quarter of what is shown is before the match."""


@dataclass(frozen=True, slots=True)
class PageMatch:
    """A hit as a page shows it."""

    hit: Hit
    columns: tuple[tuple[int, int], ...] = ()
    """The characters of the line that match, for regular expressions."""
    around: tuple[list[str], list[str]] | None = None
    """Lines before and after; None where none are wanted."""


@dataclass(slots=True)
class Rows:
    """Reads the rows of one page; each file is read once."""

    workspace: Workspace
    changed: Collection[tuple[str, str]]
    """Project and path of files that are no longer as they were when searched."""
    question: Question | None
    """For chunks: cut to the lines that answer it."""
    expression: Expression | None
    """For lines: cut around its first match."""
    include_snippet: bool = True
    context_lines: int = 0
    _texts: dict[tuple[str, str], FileText | None] = field(default_factory=dict)

    def present(self, hit: Hit, length: int) -> PageMatch:
        """One row; its text and each line around it have at most `length` characters."""
        limit = length if self.include_snippet else _UNCUT
        moved = (hit.project, hit.path) in self.changed
        if self.question is None:
            shown = self._cut_line(hit, limit, moved=moved)
        else:
            shown = present_hit(self.workspace, self.question, hit, limit, moved=moved)
        content = None if shown.stale else self.read(hit)
        around = None
        if self.include_snippet and self.context_lines:
            around = _lines_around(content, shown.span, self.context_lines, length)
        columns: list[tuple[int, int]] = []
        if self.expression is not None:
            width = len(hit.text.removesuffix("\r"))
            spans = self.expression.find_spans(hit.text)[:_MOST_COLUMNS]
            columns = [(min(start, width), min(end, width)) for start, end in spans]
        span = _count_file_bytes(content, shown.span)
        return PageMatch(replace(shown, span=span), tuple(columns), around)

    def _cut_line(self, hit: Hit, limit: int, *, moved: bool) -> Hit:
        """The equal line nearest to where it was, cut around its first match."""
        if moved:
            hit = _find_line(hit, self.read(hit))
        line = hit.text.removesuffix("\r")
        start = 0
        if len(line) > limit:
            spans = self.expression.find_spans(hit.text) if self.expression else []
            at = spans[0][0] if spans else 0
            start = max(0, min(at - limit // _LEAD, len(line) - limit))
        text = line[start : start + limit]
        start_byte = hit.span.start_byte + _measure(hit.text[:start])
        span = replace(hit.span, start_byte=start_byte, end_byte=start_byte + _measure(text))
        return replace(hit, text=text, span=span)

    def read(self, hit: Hit) -> FileText | None:
        """The file as it is now; None when it cannot be read any more."""
        key = (hit.project, hit.path)
        if key not in self._texts:
            known = (hit.state.size, hit.state.mtime_ns) if hit.state else None
            try:
                tree = self.workspace.projects.get(Path(hit.project)).tree
                content = tree.read_again(hit.path, known)
            except (FileMissing, PermissionDenied):  # the project's folder itself is gone
                self._texts[key] = None
            else:
                self._texts[key] = content if isinstance(content, FileText) else None
        return self._texts[key]


def _find_line(hit: Hit, content: FileText | None) -> Hit:
    lines = _decode(content.data).split("\n") if content else []
    old = hit.span.start_line - 1
    text = hit.text.removesuffix("\r")
    places = [at for at, line in enumerate(lines) if line.removesuffix("\r") == text]
    if not places:
        return replace(hit, stale=True)
    at = min(places, key=lambda place: abs(place - old))
    start = sum(_measure(line) + 1 for line in lines[:at])
    return replace(hit, span=Span(at + 1, at + 1, start, start + _measure(hit.text)))


def _lines_around(
    content: FileText | None, span: Span, count: int, limit: int
) -> tuple[list[str], list[str]]:
    if content is None:
        return [], []
    lines = _decode(content.data).removesuffix("\n").split("\n")
    before = lines[max(0, span.start_line - 1 - count) : span.start_line - 1]
    after = lines[span.end_line : span.end_line + count]
    cut = [[line.removesuffix("\r")[:limit] for line in part] for part in (before, after)]
    return cut[0], cut[1]


def _count_file_bytes(content: FileText | None, span: Span) -> Span:
    """Spans count the text as UTF-8; the file may be written otherwise, or begin with a mark."""
    if content is None or len(content.data) == content.size:
        return span
    text = _decode(content.data)
    for mark, measure in _CODINGS:
        if mark + measure(text) == content.size:
            start, end = (
                mark + measure(_decode(content.data[:at]))
                for at in (span.start_byte, span.end_byte)
            )
            return replace(span, start_byte=start, end_byte=end)
    return span


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _measure(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_CODINGS: tuple[tuple[int, Callable[[str], int]], ...] = (
    (3, _measure),
    (2, lambda text: len(text.encode("utf-16-le", "surrogatepass"))),
    (4, lambda text: 4 * len(text)),
    (0, len),
)
"""Length of the mark and of the text in the encodings that are read besides UTF-8."""
