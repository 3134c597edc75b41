"""Facets: counts of the results by property, each a link that adds a condition to the query."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sonde.ranking.features import TEST_PATH
from sonde.searching.query_language import (
    Field,
    FileKind,
    Query,
    QueryCondition,
    kind_of_file,
    parse_query,
)
from sonde.text.languages import find_language
from sonde.types import Hit
from sonde.web.pages.html import Markup, name_folder, show_icon, tag
from sonde.web.results.groups import KIND_ICONS, SearchForm, name_language

_SHOWN = 6  # values of a facet that are not folded
_MOST = 30  # values of a facet at all: a longer list is not read
_KIND_NAMES = {"code": "Code", "docs": "Docs", "config": "Config", "notes": "Notes"}


@dataclass(frozen=True, slots=True)
class FacetValue:
    """One value of a facet: the condition it adds, and how many results match."""

    label: str
    condition: QueryCondition
    count: int | None = None
    """None if unknown, because results of other values are not counted."""
    icon: str = ""


def show_facets(asked: SearchForm, hits: Sequence[Hit], notes: int = 0) -> Markup | None:
    """The facets of a ranking; None if there is nothing to choose."""
    query = parse_query(asked.query, named_only=asked.tab == "lines")
    plain = {
        "Project": _count_projects(hits),
        "Kind": _count_kinds(hits, notes),
        "Language": _count_languages(hits),
    }
    facets = {name: values if len(values) > 1 else [] for name, values in plain.items()}
    facets |= {"Folder": _count_folders(hits, query), "Tests": _count_tests(hits)}
    shown = [
        _show_facet(name, _add_chosen(values, query, name), asked, query)
        for name, values in facets.items()
    ]
    if not any(shown):
        return None
    return tag("aside", tag("h2", "Narrow down", class_="hidden"), shown, class_="facets",
               aria_label="Filters")  # fmt: skip


def _count_projects(hits: Iterable[Hit]) -> list[FacetValue]:
    counted = Counter(hit.project for hit in hits).most_common(_MOST)
    named = [(name_folder(root), count) for root, count in counted]
    return [FacetValue(name, QueryCondition("repo", name), n, "git-branch") for name, n in named]


def _count_kinds(hits: Iterable[Hit], notes: int) -> list[FacetValue]:
    counted = Counter[FileKind](kind_of_file(hit.path, hit.kind) for hit in hits)
    counted["notes"] += notes
    return [
        FacetValue(_KIND_NAMES[kind], QueryCondition("kind", kind), count, KIND_ICONS[kind])
        for kind, count in counted.most_common() if count
    ]  # fmt: skip


def _count_languages(hits: Iterable[Hit]) -> list[FacetValue]:
    counted = Counter(hit.language for hit in hits if hit.language).most_common(_MOST)
    return [FacetValue(name_language(name), QueryCondition("lang", name), n) for name, n in counted]


def _count_folders(hits: Sequence[Hit], query: Query) -> list[FacetValue]:
    """The folders one step below what all results have in common."""
    folders = {hit.path: hit.path.rpartition("/")[0] for hit in hits}
    common = os.path.commonpath(folders.values()) if folders else ""
    base = f"{common}/" if common else ""
    steps = (
        base + path.removeprefix(base).partition("/")[0]
        for path in (hit.path for hit in hits) if "/" in path.removeprefix(base)
    )  # fmt: skip
    values = [
        FacetValue(
            folder.removeprefix(base) + "/", QueryCondition("file", f"{folder}/"), count, "folder"
        )
        for folder, count in Counter(steps).most_common(_MOST)
    ]
    chosen = any(one.value == base and not one.negated for one in query.conditions)
    return values if len(values) > 1 or (values and chosen) else []


def _count_tests(hits: Sequence[Hit]) -> list[FacetValue]:
    tests = sum(TEST_PATH.search(hit.path) is not None for hit in hits)
    if not 0 < tests < len(hits):
        return []
    return [
        FacetValue("Only tests", QueryCondition("kind", "test"), tests),
        FacetValue("No tests", QueryCondition("kind", "test", negated=True), len(hits) - tests),
    ]


_FACET_FIELDS: dict[str, Field] = {
    "Project": "repo", "Kind": "kind", "Language": "lang", "Folder": "file", "Tests": "kind",
}  # fmt: skip


def _add_chosen(values: list[FacetValue], query: Query, facet: str) -> list[FacetValue]:
    """The values plus conditions of the query that match no result, so they can be removed."""
    known = {value.condition for value in values}
    chosen = [
        FacetValue(_label(one), one)
        for one in query.conditions
        if one.field == _FACET_FIELDS[facet] and one not in known
        and (one.field != "kind" or (one.value == "test") == (facet == "Tests"))
    ]  # fmt: skip
    return [*chosen, *values]


def _label(one: QueryCondition) -> str:
    if one.field == "kind" and one.value == "test":
        return "No tests" if one.negated else "Only tests"
    names = {
        "lang": name_language(find_language(one.value)),
        "kind": _KIND_NAMES.get(one.value, one.value),
    }
    return f"{'not ' if one.negated else ''}{names.get(one.field, one.value)}"


def _show_facet(
    name: str, values: Sequence[FacetValue], asked: SearchForm, query: Query
) -> Markup | None:
    if not values:
        return None
    items = [_show_value(value, asked, query) for value in values]
    rest = items[_SHOWN:]
    fold = tag("details", tag("summary", f"{len(rest)} more"), tag("ul", rest)) if rest else None
    title = f"facet-{name.lower()}"
    return tag("div", tag("h3", name, id=title),
               tag("ul", items[:_SHOWN], aria_labelledby=title), fold, class_="facet")  # fmt: skip


def _show_value(value: FacetValue, asked: SearchForm, query: Query) -> Markup:
    chosen = value.condition in query.conditions
    if value.condition.field == "file" and not chosen:
        query = _without_above(query, value.condition.value)
    href = asked.link(q=str(query.toggle(value.condition)))
    mark = show_icon("check") if chosen else show_icon(value.icon) if value.icon else None
    return tag("li", tag(
        "a", mark, tag("span", value.label, class_="label"),
        tag("span", f"{value.count:,}", class_="number") if value.count is not None
        else show_icon("x"),
        href=href, aria_current="true" if chosen else None,
        title=f"Without {value.condition}" if chosen else str(value.condition)))  # fmt: skip


def _without_above(query: Query, folder: str) -> Query:
    """The query without the parent folders of one, which would include their other files."""
    above = (
        part for part in query.conditions
        if part.field == "file" and not part.negated and part.value.endswith("/")
        and folder.startswith(part.value)
    )  # fmt: skip
    for part in above:
        query = query.toggle(part)
    return query
