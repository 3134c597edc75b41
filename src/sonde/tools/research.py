"""Verbs on everything at once: personal knowledge, code and docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from sonde.app import App
from sonde.everything import EVERYWHERE, KINDS, fetch_anything, search_everything
from sonde.knowledge.service import KnowledgeRequest, PageOptions, record_shown
from sonde.runtime.work import Work
from sonde.searching.query_language import parse_query
from sonde.tools.route import Route
from sonde.tools.schema import Param, TokensParam
from sonde.tools.shapes import know
from sonde.tools.tool import declare_tool

ModeParam = Annotated[
    str,
    Param("`compact`: {id, title, text, url, metadata}", choices=("full", "compact"), terse=True),
]


def search(
    app: App,
    query: Annotated[str, Param("Words or a question", max_length=100_000, terse=True)],
    limit: Annotated[int, Param("Results", minimum=1, maximum=100, terse=True, default=20)] = 20,
    offset: Annotated[int, Param("next_offset", minimum=0)] = 0,
    sources: Annotated[
        tuple[str, ...],
        Param("Some of notes, media, chats, characters, prompts, code, docs", terse=True),
    ] = (),
    mode: ModeParam = "full",
    snippet_length: Annotated[int | None, Param("Characters of text", listed=False)] = None,
    order_by: Annotated[
        str | None, Param("By relevance or time", choices=("relevance", "recent"), listed=False)
    ] = None,
    filters: Annotated[
        Mapping[str, object] | None, Param("By source, as of knowledge_search", listed=False)
    ] = None,
    dedupe: Annotated[bool, Param("Hold back what was seen", listed=False)] = True,
    max_tokens: TokensParam = None,
    session_id: Annotated[str | None, Param("A session's handle", listed=False)] = None,
    *,
    work: Work,
) -> know.KnowAnswer:
    """Search personal knowledge, code and docs at once."""
    session = app.knowledge.open_session(work.caller, session_id)
    query, chosen = _narrow_sources(query, know.choose_sources(sources, EVERYWHERE))
    where = know.read_filters(filters or {})
    request = KnowledgeRequest("search", query, chosen, order_by, where)
    options = PageOptions(limit, offset, snippet_length or None, max_tokens)
    page = search_everything(app, request, options, work, session, dedupe=dedupe)
    shape: know.Shape = "compact" if mode == "compact" else "pointers"
    answer = know.show_ranked_page(page, work.caller, shape)
    record_shown(app.knowledge, page, len(answer["results"]), work)
    return answer


def _narrow_sources(query: str, sources: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The sources that the conditions of a query leave, and the query for them: only files have
    languages, paths and definitions, and `kind:notes` is everything but files."""
    asked = parse_query(query)
    kinds = {one.value for one in asked.conditions if one.field == "kind" and not one.negated}
    files = {one.field for one in asked.conditions} & {"lang", "file", "repo", "sym"}
    wanted = {"docs" if kind == "docs" else "code" for kind in kinds - {"notes"}}
    if "test" in kinds or (files and not kinds):
        wanted |= set(KINDS)
    if "notes" in kinds and not files:
        wanted |= set(EVERYWHERE) - set(KINDS)
    kept = tuple(source for source in sources if source in wanted) if wanted else tuple(sources)
    return (query if set(kept) & set(KINDS) else asked.text or query), kept or tuple(sources)


def fetch(
    app: App,
    id: Annotated[  # noqa: A002
        str, Param("A result's id", min_length=1, max_length=5000, numbers=True, terse=True)
    ],
    source: Annotated[
        str | None, Param("Where a bare id is from", choices=EVERYWHERE, listed=False)
    ] = None,
    retrieval: Annotated[
        Mapping[str, object] | None, Param("As of knowledge_get; all of it by default", terse=True)
    ] = None,
    mode: Annotated[str, Param("As of search", choices=("full", "compact"), listed=False)] = "full",
    session_id: Annotated[str | None, Param("A session's handle", listed=False)] = None,
    *,
    work: Work,
) -> dict[str, Any]:
    """The entry or file that a result points to."""
    session = app.knowledge.open_session(work.caller, session_id)
    found = fetch_anything(app, id, source, retrieval, work, session)
    answer = know.show_content(found, work.caller)
    return dict(answer) if mode == "full" else dict(know.show_compact_content(answer))


_declare = partial(declare_tool, "research")

TOOLS = (
    _declare(
        search,
        "Search",
        "Search notes, media, chats, characters, prompts, code and docs at once. "
        "mode=compact: {id, title, text, url, metadata}. Prefer search_code for code.",
    ),
    _declare(fetch, "Fetch a result", "Read what the id of a result points at."),
)
ROUTES = (Route("fetch", fetch, "What the `uri` of a result points at"),)
