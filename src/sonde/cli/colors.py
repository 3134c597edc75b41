"""Code on a terminal: the colours of its tokens, with the matches on top, cut to the width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from sonde.cli.terminal import Screen, cut_line, prepare_line
from sonde.text.highlight import TextSpan

_STYLES = {
    "comment": "90", "string": "32", "number": "36", "keyword": "34", "constant": "36",
    "type": "33", "function": "35", "definition": "1", "attribute": "33", "key": "34",
    "tag": "34", "heading": "1", "added": "32", "removed": "31",
}  # fmt: skip
"""By kind of token, colours that every terminal's palette has, readable on light and dark."""
_MATCH = "1;31"


@dataclass(frozen=True, slots=True)
class ColoredCode:
    """The lines of a text, and for each the styles of its characters."""

    lines: Sequence[str]
    spans: Sequence[Sequence[tuple[int, int, str]]]
    screen: Screen

    def draw(self, at: int, matches: Sequence[TextSpan] = (), width: int | None = None) -> str:
        """One line: tabs widened, controls escaped, at most `width` columns."""
        styled = [*self.spans[at], *((a, b, _MATCH) for a, b in matches)] if self.spans else []
        marked = [(a, b) for a, b, _ in styled] if styled else list(matches)
        shown, moved = prepare_line(self.lines[at].removesuffix("\r"), marked)
        shown = cut_line(shown, width)
        if not self.screen.color or not styled:
            return self.screen.mark(shown, moved)
        styles = [""] * len(shown)
        for (start, end), (_, _, style) in zip(moved, styled, strict=True):
            end = min(end, len(shown))
            styles[start:end] = [style] * max(end - start, 0)
        drawn = ""
        for style, run in groupby(zip(styles, shown, strict=True), itemgetter(0)):
            text = "".join(char for _, char in run)
            drawn += f"\x1b[{style}m{text}\x1b[0m" if style else text
        return drawn


def color_code(text: str, language: str, screen: Screen) -> ColoredCode:
    """The text with the colours of its language; plain where the screen takes none."""
    lines = text.removesuffix("\n").split("\n")
    if not screen.color:
        return ColoredCode(lines, (), screen)
    from sonde.text.syntax_highlighting import highlight_code

    rows: list[list[tuple[int, int, str]]] = []
    for tokens in highlight_code("\n".join(lines), language)[: len(lines)]:
        row, at = [], 0
        for kind, piece in tokens:
            if style := _STYLES.get(kind):
                row.append((at, at + len(piece), style))
            at += len(piece)
        rows.append(row)
    rows += [[] for _ in range(len(lines) - len(rows))]
    return ColoredCode(lines, rows, screen)
