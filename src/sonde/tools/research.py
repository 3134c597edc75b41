"""Verbs for one question to everything: personal knowledge, code and docs at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_args
from urllib.parse import quote, unquote

from sonde.app import App
from sonde.errors import CatalogError, EmptyQuery, InvalidRequest
from sonde.knowledge.library import save_session
from sonde.knowledge.ranking import KnowledgeHit, merge_sources, read_knowledge_query, sort_recent
from sonde.knowledge.retrieval import clamp_length, read_retrieval, show_text
from sonde.knowledge.service import (
    KnowledgeRequest,
    answer_get,
    find_knowledge_session,
    find_ranking,
    list_defaults,
    rank_knowledge,
    read_filters,
    read_opening,
)
from sonde.paging.results import count_tokens
from sonde.projects.find import indexed_project
from sonde.projects.search import Request, rank_everywhere
from sonde.ranking.question import read_question as read_code_question
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import SOURCES, Conditions, Entry, Piece, Source
from sonde.text.times import show_time
from sonde.tools.schema import Param
from sonde.tools.shapes.know import GetAnswer, KnowAnswer, show_compact, show_knowledge_hit
from sonde.tools.tool import Tool
from sonde.types import Kind, Skipped

KINDS: tuple[Kind, ...] = get_args(Kind)
EVERYWHERE = (*SOURCES, *KINDS)
_CODE_HITS = 50
_POINTER = re.compile(r"(?P<source>[a-z]+)://(?P<id>[^#]*)(?:#(?P<rest>.*))?", re.DOTALL)
_LINES = re.compile(r"L(\d{1,9})-L(\d{1,9})")

ModeParam = Annotated[
    str,
    Param("`compact`: {id, title, text, url, metadata}", choices=("full", "compact"), terse=True),
]


def search(
    app: App,
    query: Annotated[str, Param("Words or a question", max_length=100_000, terse=True)],
    limit: Annotated[int, Param("Results", minimum=1, maximum=100)] = 20,
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
        dict[str, Any] | None, Param("By source, as of knowledge_search", listed=False)
    ] = None,
    dedupe: Annotated[bool, Param("Hold back what was seen", listed=False)] = True,
    max_tokens: Annotated[
        int | None, Param("Size of the answer", minimum=200, maximum=20_000, listed=False)
    ] = None,
    session_id: Annotated[str | None, Param("A session's handle", listed=False)] = None,
    *,
    work: Work,
) -> KnowAnswer:
    """Search personal knowledge, code and docs at once."""
    if not query.strip():
        raise EmptyQuery
    session = find_knowledge_session(app, work, session_id)
    chosen = _read_sources(sources)
    where = read_filters(filters or {})
    defaults = list_defaults(session, work)
    order_by = order_by or defaults.get("order_by")
    parameters = {
        "tool": "search",
        "query": query.strip(),
        "sources": chosen,
        "order_by": order_by,
        "where": {source: repr(each) for source, each in where.items()},
        "user": work.caller.user,
        "session": session.id if session else "",
    }
    store = app.knowledge.of(work.caller.user)

    def rank_fresh() -> list[KnowledgeHit]:
        hits = _rank_all(app, query, chosen, where, work)
        return sort_recent(hits) if order_by == "recent" else hits

    deduped = session if dedupe else None
    kept = find_ranking(app, store, parameters, offset, rank_fresh, deduped, _name_hit)
    terms = read_knowledge_query(query).terms
    length = clamp_length(snippet_length or defaults.get("snippet_length"))
    wanted = kept.hits[offset : offset + limit]
    rows = [show_any(hit, terms, length, read_opening(store, hit)) for hit in wanted]
    shown = rows if mode == "full" else [show_compact(row) for row in rows]
    budget = max_tokens or defaults.get("max_tokens") or app.workspace.max_tokens
    while len(shown) > 1 and count_tokens(shown) > budget - 60:
        shown.pop()
    behind = offset + len(shown)
    more = bool(shown) and behind < len(kept.hits)
    answer: KnowAnswer = {
        "results": shown,
        "has_more": more,
        "next_offset": behind if more else None,
        "total_estimated": len(kept.hits),
    }
    if len(shown) < len(rows):
        answer["truncated"] = True
    if session:
        session.mark(row["uri"] for row in rows[: len(shown)])
        session.ask(query.strip())
        save_session(store, session)
        answer["session_id"] = session.id
        if kept.facts["held"]:
            answer["suppressed"] = kept.facts["held"]
    return answer


def fetch(
    app: App,
    id: Annotated[  # noqa: A002
        str, Param("A result's uri", min_length=1, max_length=5000, numbers=True, terse=True)
    ],
    source: Annotated[
        str | None, Param("Where a bare id is from", choices=EVERYWHERE, listed=False)
    ] = None,
    retrieval: Annotated[
        dict[str, Any] | None, Param("As of knowledge_get; all of it by default", terse=True)
    ] = None,
    mode: Annotated[str, Param("As of search", choices=("full", "compact"), listed=False)] = "full",
    session_id: Annotated[str | None, Param("A session's handle", listed=False)] = None,
    *,
    work: Work,
) -> dict[str, Any]:
    """What a result points at."""
    pointer = _POINTER.fullmatch(id)
    kind = pointer["source"] if pointer else source
    if kind not in EVERYWHERE:
        raise InvalidRequest(
            f"{id!r} is no pointer",
            user_message="`id` must be the `uri` of a search result, or come with its `source`.",
        )
    name, rest = (pointer["id"], pointer["rest"] or "") if pointer else (id, "")
    if kind in KINDS:
        answer = _fetch_file(app, kind, name, rest, retrieval, work)
    else:
        options = dict(retrieval or {})
        known: Source = next(each for each in SOURCES if each == kind)
        if known == "chats" and rest and "loc" not in options:
            options = {"mode": "chunk_with_siblings", "loc": {"message_id": rest}} | options
        session = find_knowledge_session(app, work, session_id)
        answer = answer_get(app, known, name, options, work, session, "full")
    if mode == "full":
        return dict(answer)
    row = show_compact(answer["meta"])
    content = answer["content"]
    if isinstance(content, dict) and "messages" in content:
        content = "\n".join(
            f"{each['sender'] or ''}: {each['content']}" for each in content["messages"]
        )
    elif isinstance(content, dict):
        content = "\n\n".join(f"{key}: {value}" for key, value in content.items())
    return row | {"text": content}


def show_any(
    hit: KnowledgeHit, terms: Sequence[str], length: int, opening: str = ""
) -> dict[str, Any]:
    """A hit of whatever kind as a result."""
    row = show_knowledge_hit(hit, terms, length, (), opening)
    if hit.entry.facts.get("kind") not in KINDS:
        return row
    facts = hit.entry.facts
    uri = make_file_uri(facts["kind"], facts["project"], facts["path"], facts["lines"])
    loc = {"path": facts["path"], "start_line": facts["lines"][0], "end_line": facts["lines"][1]}
    return row | {"id": uri, "source": facts["kind"], "uri": uri, "version": None, "loc": loc}


def _name_hit(hit: KnowledgeHit) -> str:
    return hit.entry.id if hit.entry.facts.get("kind") in KINDS else hit.uri


def make_file_uri(kind: str, project: str, path: str, lines: Sequence[int]) -> str:
    """Points at lines of a file of a project."""
    return f"{kind}://{quote(project, safe='/')}//{quote(path, safe='/')}#L{lines[0]}-L{lines[1]}"


def _read_sources(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in EVERYWHERE:
            problem = f"`sources` must be some of {', '.join(EVERYWHERE)}; one is {name!r}"
            raise InvalidRequest(problem, user_message="{problem}.", problem=problem)
    return tuple(each for each in EVERYWHERE if each in names) or EVERYWHERE


def _rank_all(
    app: App,
    query: str,
    chosen: Sequence[str],
    where: Mapping[Source, Conditions],
    work: Work,
) -> list[KnowledgeHit]:
    store = app.knowledge.of(work.caller.user)
    rankings = [
        rank_knowledge(app, store, KnowledgeRequest("search", query, (source,), where=where), work)
        for source in SOURCES
        if source in chosen
    ]
    kinds = tuple(kind for kind in KINDS if kind in chosen)
    if kinds:
        only = not rankings
        rankings += _rank_files(app, query, kinds, work, required=only)
    return merge_sources(rankings)


def _rank_files(
    app: App, query: str, kinds: tuple[Kind, ...], work: Work, *, required: bool
) -> list[list[KnowledgeHit]]:
    """Code and docs of the project around here, when there is one and it is indexed."""
    question = read_code_question(query)
    rankings = []
    for kind in kinds:
        request = Request("search", query, (kind,), _CODE_HITS)
        try:
            hits, _ = rank_everywhere(app.workspace, request, question, work)
        except CatalogError:
            if required:
                raise
            return []
        rankings.append([_as_entry(hit) for hit in hits])
    return rankings


def _as_entry(hit: Any) -> KnowledgeHit:
    facts = {
        "kind": hit.kind,
        "project": hit.project,
        "path": hit.path,
        "lines": (hit.span.start_line, hit.span.end_line),
    }
    modified = hit.state.mtime_ns // 1_000_000 if hit.state else 0
    key = make_file_uri(hit.kind, hit.project, hit.path, facts["lines"])
    entry = Entry("notes", hit.path, id=key, last_modified=modified, facts=facts)
    return KnowledgeHit(entry, Piece(hit.text), hit.score, hit.score_type)


def _fetch_file(
    app: App, kind: str, name: str, rest: str, retrieval: dict[str, Any] | None, work: Work
) -> GetAnswer:
    project_text, _, path = unquote(name).rpartition("//")
    work.check()
    # only what was indexed can have been found: a pointer opens no other folder, no other file
    project = indexed_project(app.workspace, project_text or None)
    admitted = project.tree.check(path)
    content = admitted if isinstance(admitted, Skipped) else project.tree.read(path)
    if isinstance(content, Skipped):
        raise InvalidRequest(
            f"{path}: {content.reason}",
            user_message="The file '{path}' cannot be read: {reason}.",
            path=path,
            reason=content.reason.replace("_", " "),
        )
    given = dict(retrieval or {})
    lines = _LINES.fullmatch(rest)
    text = content.text
    anchor = 0
    if lines:
        before = text.split("\n")[: int(lines[1]) - 1]
        anchor = sum(len(line) + 1 for line in before)
        given = {"mode": "chunk"} | given
    options = read_retrieval(given, {}, "full")
    if options.mode == "chunk" and lines:
        body = "\n".join(text.split("\n")[int(lines[1]) - 1 : int(lines[2])])
        shown = show_text(body, replace(options, mode="full"), 0)
    else:
        shown = show_text(text, options, anchor)
    uri = f"{kind}://{name}" + (f"#{rest}" if rest else "")
    meta = {
        "id": uri,
        "source": kind,
        "title": Path(path).name,
        "snippet": None,
        "uri": uri,
        "score": 1.0,
        "score_type": "exact",
        "created_at": None,
        "last_modified": show_time(content.mtime_ns // 1_000_000),
        "version": None,
        "tags": None,
        "loc": {"path": path},
    }
    answer: GetAnswer = {"meta": meta, "content": shown.text, "attachments": None}
    if shown.next_offset is not None:
        answer["next_offset"] = shown.next_offset
    return answer


TOOLS = (
    Tool(
        name="search",
        call=search,
        toolset="research",
        title="Search everything",
        description="Search notes, media, chats, characters, prompts, code and docs at once. "
        "mode=compact: {id, title, text, url, metadata}. Prefer search_code for code.",
    ),
    Tool(
        name="fetch",
        call=fetch,
        toolset="research",
        title="Fetch a result",
        description="Read what the uri of a result points at.",
    ),
)
