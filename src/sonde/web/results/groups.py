"""A page of search results as values and as HTML: highlighted matches by file, with reasons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise
from operator import itemgetter
from typing import Literal, NamedTuple

from sonde.projects.literal import EXACT
from sonde.searching.query_language import FileKind
from sonde.text.formats import count_of, format_heading
from sonde.text.highlight import Finder, TextSpan, join_parts, number_lines
from sonde.text.syntax_highlighting import Token, highlight_code
from sonde.types import Hit
from sonde.web.pages import html
from sonde.web.pages.html import Markup, join, link_file, link_to, show_icon, tag

Mode = Literal["hybrid", "lexical", "semantic"]
SHOWN_MATCHES, SHOWN_LINES = 3, 10
"""How many matches of a file are not folded: passages, and single lines."""
_GAP = "⋮"
_REFINED = re.compile(r"complete; deeper vectors for (\d+) % of chunks")
"""The index is complete; the deep model is still computing vectors."""
_DATED = re.compile(r"as of (\S+); not compared with the files")
_LANGUAGE_NAMES = {
    "cpp": "C++", "csharp": "C#", "css": "CSS", "html": "HTML", "javascript": "JavaScript",
    "json": "JSON", "php": "PHP", "rst": "reStructuredText", "scss": "SCSS", "sql": "SQL",
    "svg": "SVG", "toml": "TOML", "typescript": "TypeScript", "xml": "XML", "yaml": "YAML",
    "ini": "INI", "csv": "CSV", "graphql": "GraphQL", "latex": "LaTeX",
}  # fmt: skip
KIND_ICONS: Mapping[FileKind, str] = {
    "code": "file-code", "docs": "file-text", "config": "file-cog", "test": "flask-conical",
    "notes": "sticky-note",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SearchForm:
    """The fields of the search form."""

    query: str = ""
    tab: str = "all"
    project: str = ""
    mode: Mode = "hybrid"
    cursor: str = ""
    offset: int = 0

    def link(self, **changes: str | int | None) -> str:
        """The address of the same search with some fields changed."""
        kept = {
            "q": self.query,
            "tab": self.tab if self.tab != "all" else "",
            "project": self.project,
            "mode": self.mode if self.mode != "hybrid" else "",
        }
        return link_to("/", **{**kept, **changes})


class Row(NamedTuple):
    """One line of code on the page."""

    number: int
    """0 stands for lines left out."""
    tokens: Sequence[Token]
    spans: Sequence[TextSpan] = ()
    """The matching parts."""


@dataclass(frozen=True, slots=True)
class FileGroup:
    """A file and its matches, or one entry of personal knowledge."""

    title: str
    href: str
    kind: FileKind = "code"
    project: str = ""
    """Empty if all results are from one project."""
    language: str = ""
    count: int = 0
    matches: Sequence[Markup] = ()
    excerpt: str = ""
    """The text of an entry, which has no lines."""
    score: float = 0.0
    """How likely an entry answers, on the scale of all sources."""


@dataclass(frozen=True, slots=True)
class ResultPage:
    """A page of results."""

    groups: Sequence[FileGroup]
    total: int
    files: int | None = None
    """The number of files with matches, if known."""
    more: Mapping[str, str | int | None] = field(default_factory=dict)
    """The field that differs in the address of the next page; None values if there is none."""
    note: str = ""
    freshness: str = ""
    milliseconds: int | None = None
    noun: str = "match"
    is_capped: bool = False
    """There are more than `total`."""
    facets: Markup | None = None


# --- reasons ---

_REASONS: Mapping[str, str] = {
    "lexical": "contains your words", "dense": "close in meaning", "deep": "close in meaning",
    "defines": "defines it", "definition": "a name in it matches", "name": "its name matches",
    "is_named": "its name matches", "is_spelled": "its name matches",
    "is_qualified": "its name matches",
    "scope": "its surroundings match", "stem": "the file's name matches",
    "folder": "the folder's name matches", "path": "the path matches",
    "holds_name": "uses the name",
    "importers": "many files import it", "test_asked": "a test, as asked",
    "opening": "its first lines match", "told_lexical": "contains your words",
    "code_lexical": "contains your words", "code_dense": "close in meaning",
    "chunk_lexical": "contains your words", "chunk_dense": "close in meaning",
    "chunk_deep": "close in meaning", "own": "close in meaning",
    "told_dense": "close in meaning", "told_path": "you named its path",
    "told_frame": "a line of your stack trace", "told_name": "you named it",
}  # fmt: skip
"""Ranking features, or prefixes of their names, in plain words."""
_MOST_REASONS = 3  # a line, also on a phone; the rest counts for little


def describe_reasons(hit: Hit) -> tuple[str, ...]:
    """The reasons for a hit's rank, strongest first, in words."""
    if hit.score_type == EXACT:
        return ("exactly what you typed",)
    said = (
        _REASONS.get(name) or _REASONS.get("_".join(name.split("_")[:2]))
        or _REASONS.get(name.partition("_")[0])
        for name, part in hit.why if part > 0
    )  # fmt: skip
    return tuple(dict.fromkeys(filter(None, said)))[:_MOST_REASONS]


# --- lines ---


def number_rows(hit: Hit, whole: Hit, find: Finder) -> list[Row]:
    """The lines shown of a hit with their numbers, colours and matches. Colours come from the whole
    passage: what is shown may begin inside a comment."""
    lines = [line.removesuffix("\r") for line in hit.text.removesuffix("\n").split("\n")]
    numbers = number_lines(hit.parts, hit.start_line, len(lines))
    numbers += [0] * (len(lines) - len(numbers))
    colored = dict(enumerate(highlight_code(whole.text, hit.language), whole.start_line))
    rows: list[Row] = []
    for number, line in zip(numbers, lines, strict=False):
        tokens = [] if not number else colored.get(number, [])
        if "".join(text for _, text in tokens) != line:
            tokens = highlight_code(line, hit.language)[0]
        rows.append(Row(number, tokens, join_parts(line, find(line)) if number else ()))
    blank = next((at for at, line in enumerate(lines) if line.strip()), 0)
    return rows[blank:]


def _split_tokens(
    tokens: Iterable[Token], spans: Sequence[TextSpan]
) -> Iterator[tuple[bool, Token]]:
    """The tokens cut at the borders of the spans, and whether each piece is inside one."""
    borders = sorted(set(chain.from_iterable(spans)))
    at = 0
    for kind, text in tokens:
        cuts = [0, *(b - at for b in borders if 0 < b - at < len(text)), len(text)]
        for start, end in pairwise(cuts):
            inside = any(first <= at + start < last for first, last in spans)
            yield inside, Token(kind, text[start:end])
        at += len(text)


def mark_tokens(tokens: Iterable[Token], spans: Sequence[TextSpan]) -> Markup:
    """A line of code in colours, with its matches marked."""
    if not spans:
        return html.show_tokens(tokens)
    parts: list[Markup] = []
    for inside, run in groupby(_split_tokens(tokens, spans), itemgetter(0)):
        shown = html.show_tokens(token for _, token in run)
        parts.append(tag("mark", shown) if inside else shown)
    return join(parts)


def mark_words(text: str, find: Finder) -> Markup:
    """A text with the words of the query marked."""
    return mark_tokens([Token("", text)], join_parts(text, find(text)))


def _show_code(rows: Sequence[Row], href: str) -> Markup:
    view = href.partition("#")[0]
    lines = [
        html.show_line(row.number, view, mark_tokens(row.tokens, row.spans))
        if row.number else tag("span", tag("i", _GAP, aria_hidden="true"), "\n", class_="gap")
        for row in rows
    ]  # fmt: skip
    return tag("pre", tag("code", lines), class_="code", tabindex="-1")


# --- groups ---


def show_match(hit: Hit, rows: Sequence[Row], why: Sequence[str] = ()) -> Markup:
    """A passage of a file: what it is, why it is here, and its lines."""
    href, names = link_hit(hit), hit.symbol.split(" > " if " " in hit.symbol else ".")
    steps = [tag("span", step) for step in map(format_heading, names) if step]
    trail = join(chain.from_iterable((tag("i", "›", aria_hidden="true"), step) for step in steps))
    head = [
        tag("a", trail, href=href, class_="symbol") if steps else None,
        tag("span", "changed since", class_="badge warn") if hit.stale else None,
        tag("span", " · ".join(why), class_="why", title="Why this is here") if why else None,
    ]  # fmt: skip
    code = _show_code(rows, href) if rows else None
    return tag("div", tag("p", head) if any(head) else None, code, class_="match")


def _show_group(group: FileGroup, find: Finder, *, folded_after: int, noun: str) -> Markup:
    folder, slash, name = (
        group.title.rpartition("/") if group.kind != "notes" else ("", "", group.title)
    )
    title = [tag("span", mark_words(folder + slash, find), class_="folder") if folder else None,
             tag("span", mark_words(name, find), class_="name")]  # fmt: skip
    facts = [
        tag("span", show_icon("git-branch"), html.name_folder(group.project), class_="project",
            title=group.project) if group.project else None,
        tag("span", name_language(group.language), class_="language") if group.language else None,
        tag("span", count_of(group.count, noun), class_="count")
        if group.count > 1 else None,
    ]  # fmt: skip
    head = tag("h2", show_icon(KIND_ICONS[group.kind]),
               tag("a", title, href=group.href, class_="open"),
               html.show_copy_button(group.title) if group.kind != "notes" else None,
               tag("span", facts, class_="facts"))  # fmt: skip
    shown, rest = group.matches[:folded_after], group.matches[folded_after:]
    unseen = group.count - len(group.matches)
    fold = tag(
        "details",
        tag("summary", f"{count_of(len(rest), f'more {noun}')} in this file"),
        rest,
        tag("p", tag("a", f"and {unseen:,} more", href=group.href)) if unseen > 0 else None,
    ) if rest else None  # fmt: skip
    excerpt = tag("p", mark_words(group.excerpt, find), class_="excerpt") if group.excerpt else None
    return tag("li", head, excerpt, shown, fold, class_=f"file-group of-{group.kind}")


def name_language(language: str) -> str:
    """A language as its users write it."""
    return _LANGUAGE_NAMES.get(language) or language.capitalize()


def show_results(asked: SearchForm, found: ResultPage, find: Finder) -> Markup:
    """A page of results; `find` marks the words in titles."""
    lines = asked.tab == "lines"
    after = SHOWN_LINES if lines else SHOWN_MATCHES
    groups = [_show_group(each, find, folded_after=after, noun=found.noun) for each in found.groups]
    ways = [
        tag("a", "First results", href=asked.link()) if asked.cursor or asked.offset else None,
        tag("a", "More results", href=asked.link(**found.more), rel="next", class_="next")
        if any(found.more.values()) else None,
    ]  # fmt: skip
    kind = {"paths": "hits paths", "lines": "hits by-line"}.get(asked.tab, "hits")
    return join([
        found.facets,
        tag("section",
            tag("p", _summarize(found), class_="summary"),
            tag("ol", groups, class_=kind),
            tag("nav", ways, class_="ways", aria_label="Pages") if any(ways) else None,
            class_="found", aria_label="Results"),
    ])  # fmt: skip


def _summarize(found: ResultPage) -> list[object]:
    """The number of results, the time taken, and the freshness."""
    counted = count_of(found.total, found.noun)
    place = f" in {count_of(found.files, 'file')}" if found.files and found.noun != "file" else ""
    fresh: str | Markup = found.freshness
    if refined := _REFINED.fullmatch(fresh):
        fresh = f"still refining, {refined[1]} % done"
    elif dated := _DATED.fullmatch(fresh):
        fresh = join(["indexed ", html.show_age(dated[1])])
    return [
        tag("strong", f"At least {counted}" if found.is_capped else counted), place,
        f" · {found.milliseconds} ms" if found.milliseconds is not None else None,
        tag("span", fresh, class_="badge", title=found.freshness)
        if fresh not in ("", "complete", "complete, as watched") else None,
        tag("span", html.show_sentence(found.note), class_="remark") if found.note else None,
    ]  # fmt: skip


def link_hit(hit: Hit) -> str:
    """The page of a hit's file with its lines chosen."""
    return link_file(hit.project, hit.path, hit.start_line, hit.end_line)
