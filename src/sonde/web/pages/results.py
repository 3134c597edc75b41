"""A page of search results as values, and as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sonde.text.highlight import Finder, TextSpan, join_parts
from sonde.web.pages.html import Markup, join, link_to, tag

Mode = Literal["hybrid", "lexical", "semantic"]


@dataclass(frozen=True, slots=True)
class SearchForm:
    """The fields of the search form."""

    query: str = ""
    tab: str = "all"
    project: str = ""
    mode: Mode = "hybrid"
    path: str = ""
    language: str = ""
    cursor: str = ""
    offset: int = 0

    @property
    def scope(self) -> SearchForm:
        """The form with the filters to send: none with a cursor, which carries its own."""
        return SearchForm() if self.cursor else self

    def link(self, **changes: str | int | None) -> str:
        """The address of the same search with some fields changed."""
        kept = {
            "q": self.query,
            "tab": self.tab if self.tab != "all" else "",
            "project": self.project,
            "mode": self.mode if self.mode != "hybrid" else "",
            "path": self.path,
            "language": self.language,
        }
        return link_to("/", **{**kept, **changes})


@dataclass(frozen=True, slots=True)
class ResultItem:
    """One result."""

    title: str
    href: str
    text: str = ""
    first: int = 0
    """The number of the first line of `text`; 0 if it is not whole lines of a file."""
    lines: str = ""
    badges: tuple[str, ...] = ()
    spans: tuple[TextSpan, ...] | None = None
    """The matches in `text`, if they are known exactly."""
    stale: bool = False


@dataclass(frozen=True, slots=True)
class ResultPage:
    """A page of results."""

    rows: list[ResultItem]
    total: int
    more: Mapping[str, str | int | None]
    """The field in which the address of the next page differs; None if there is none."""
    note: str = ""
    freshness: str = ""
    milliseconds: int | None = None
    noun: str = "result"
    is_capped: bool = False
    """There are more than `total`."""


def _mark_words(text: str, find: Finder) -> Markup:
    return _mark_spans(text, join_parts(text, find(text)))


def _mark_spans(text: str, spans: Iterable[TextSpan]) -> Markup:
    """The text with these characters marked; spans that overlap an earlier one are skipped."""
    parts: list[str] = []
    at = 0
    for start, end in spans:
        if start < at or end <= start or end > len(text):
            continue
        parts += [text[at:start], tag("mark", text[start:end])]
        at = end
    return join([*parts, text[at:]])


def show_results(asked: SearchForm, found: ResultPage, find: Finder) -> Markup:
    """A page of results; `find` marks the texts whose matches are not known exactly."""
    time, fresh = found.milliseconds, found.freshness
    summary = [
        tag("strong", f"{found.total:,}{'+' if found.is_capped else ''}"),
        f" {found.noun}{'' if found.total == 1 else 's'}",
        f" in {time} ms" if time is not None else None,
        tag("span", fresh, class_="badge") if fresh not in ("", "complete") else None,
        f" · {found.note}" if found.note else None,
    ]  # fmt: skip
    ways = [
        tag("a", "First page", href=asked.link()) if asked.cursor or asked.offset else None,
        tag("a", "Next page", href=asked.link(**found.more), rel="next", class_="next")
        if any(found.more.values()) else None,
    ]  # fmt: skip
    return join([
        tag("p", summary, class_="summary"),
        tag("ol", [_show_item(item, find) for item in found.rows],
            class_="hits paths" if asked.tab == "paths" else "hits"),
        tag("nav", ways, class_="ways", aria_label="Pages") if any(ways) else None,
    ])  # fmt: skip


def _show_item(item: ResultItem, find: Finder) -> Markup:
    folder, slash, name = item.title.rpartition("/")
    title = [tag("span", _mark_words(folder + slash, find), class_="folder") if folder else None,
             tag("span", _mark_words(name, find), class_="name")]  # fmt: skip
    head = tag(
        "h2",
        tag("a", title, href=item.href, class_="open"),
        tag("span", item.lines, class_="lines") if item.lines else None,
        [tag("span", badge, class_="badge") for badge in item.badges if badge],
        tag("span", "changed since", class_="badge warn") if item.stale else None,
    )
    return tag("li", head, _show_text(item, find) if item.text else None)


def _show_text(item: ResultItem, find: Finder) -> Markup:
    if item.spans is not None:
        return _number_lines([_mark_spans(item.text, item.spans)], item.first)
    if not item.first:
        return tag("p", _mark_words(item.text, find), class_="excerpt")
    return _number_lines([_mark_words(line, find) for line in item.text.split("\n")], item.first)


def _number_lines(lines: Sequence[Markup], first: int) -> Markup:
    shown = [
        tag("span", tag("i", at, aria_hidden="true"), tag("span", line), "\n")
        for at, line in enumerate(lines, first)
    ]
    return tag("pre", tag("code", shown), class_="code", tabindex="-1")
