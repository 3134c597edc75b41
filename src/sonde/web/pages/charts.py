"""Reports of a disk as pictures: inline SVG, drawn here."""

from __future__ import annotations

import math
import mimetypes
from collections import Counter
from collections.abc import Mapping, Sequence

from sonde.stores.disk import base
from sonde.text.formats import count_of
from sonde.text.languages import UNKNOWN, language_of
from sonde.web.pages.html import Markup, show_size, tag

_RADIUS = 42  # of the ring, in a box of 100 by 100
_AROUND = 2 * math.pi * _RADIUS
_GAP = 1.2  # between two parts of the ring
_COLUMN, _HEIGHT = 60, 120  # of a column, in the units of the drawing


_ARCHIVES = frozenset("zip gz tgz tar bz2 xz zst 7z rar jar whl iso dmg deb rpm".split())
_MIMES = {"image": "picture", "video": "video", "audio": "sound", "font": "data"}
COLOURS: Mapping[str, Mapping[str, str]] = {
    "kind": {"code": "code", "docs": "documents", "data": "data", "picture": "pictures",
             "video": "video", "sound": "sound", "archive": "archives", "other": "other"},
    "age": {"week": "this week", "month": "this month", "year": "this year", "older": "older"},
}  # fmt: skip
"""Ways to colour a map, each with its colours and their meaning."""


def classify_file(name: str) -> str:
    """The kind of a file by its name, as the map colours it."""
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    mime = (mimetypes.guess_type(name)[0] or "").partition("/")[0]
    if ending in _ARCHIVES:
        return "archive"
    language = language_of(name)
    if language != UNKNOWN and not (mime in _MIMES and language.kind == "data"):
        return language.kind
    return "docs" if ending == "pdf" else _MIMES.get(mime, "other")


def show_chart(rows: Sequence[base.ReportRow]) -> Markup | None:
    """A report as a chart: a ring of kinds, columns of ages, or space wasted by duplicates."""
    extensions = [row for row in rows if isinstance(row, base.ExtensionTotal)]
    ages = [row for row in rows if isinstance(row, base.AgeTotal)]
    copies = [row for row in rows if isinstance(row, base.Copies)]
    if extensions:
        return _show_ring(extensions)
    if ages:
        return _show_columns([(row.age, row.size, count_of(row.files, "file")) for row in ages])
    if copies:
        wasted = sum(row.size * (row.copies - 1) for row in copies)
        extra = sum(row.copies - 1 for row in copies)
        return tag("p", tag("strong", show_size(wasted)), f" in {extra:,} extra copies of ",
                   count_of(len(copies), "file"), class_="figure")  # fmt: skip
    return None


def _show_ring(rows: Sequence[base.ExtensionTotal]) -> Markup:
    sizes: Counter[str] = Counter()
    for row in rows:
        sizes[classify_file(f"x.{row.extension}" if row.extension else "x")] += row.size
    total = sum(sizes.values()) or 1
    parts, legend, at = [], [], 0.0
    for kind, size in sizes.most_common():
        long = _AROUND * size / total
        drawn = max(long - _GAP, 0.5)
        parts.append(tag(
            "circle", tag("title", f"{COLOURS['kind'][kind]}, {show_size(size)}"), cx=50, cy=50,
            r=_RADIUS, class_=f"ring stroke-{kind}", stroke_dasharray=f"{drawn:.2f} {_AROUND:.2f}",
            stroke_dashoffset=f"{-at:.2f}"))  # fmt: skip
        at += long
        legend.append(tag("li", tag("i", class_=f"fill-{kind}", aria_hidden="true"),
                          COLOURS["kind"][kind], tag("span", show_size(size)),
                          tag("small", f"{size / total:.0%}")))  # fmt: skip
    middle = tag("text", show_size(total), x=50, y=53, class_="middle")
    ring = tag("svg", tag("g", parts, transform="rotate(-90 50 50)"), middle, viewBox="0 0 100 100",
               role="img", aria_label="Share of each kind of file")  # fmt: skip
    return tag("div", ring, tag("ul", legend), class_="chart ring-chart")


def _show_columns(rows: Sequence[tuple[str, int, str]]) -> Markup:
    most = max((size for _, size, _ in rows), default=0) or 1
    drawn = []
    for number, (label, size, files) in enumerate(rows):
        tall, x = _HEIGHT * size / most, number * _COLUMN
        drawn.append(tag(
            "g", tag("title", f"{label}: {show_size(size)}, {files}"),
            tag("rect", x=x + 8, y=f"{_HEIGHT - tall + 14:.1f}", width=_COLUMN - 16,
                height=f"{max(tall, 1):.1f}", rx=3),
            tag("text", show_size(size), x=x + _COLUMN / 2, y=f"{_HEIGHT - tall + 9:.1f}"),
            tag("text", label, x=x + _COLUMN / 2, y=_HEIGHT + 28)))  # fmt: skip
    width = len(rows) * _COLUMN
    return tag("div", tag("svg", drawn, viewBox=f"0 0 {width} {_HEIGHT + 34}", role="img",
                          aria_label="Sizes by age", style=f"--columns:{len(rows)}"),
               class_="chart columns")  # fmt: skip
