"""One search over everything: personal knowledge, and the code and docs of a project."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args
from urllib.parse import unquote

from sonde.app import App
from sonde.errors import CatalogError, InvalidRequest
from sonde.knowledge import service
from sonde.knowledge.getting import EntryContent, FileExcerpt
from sonde.knowledge.library import KnowledgeSession
from sonde.knowledge.ranking import AnyHit, FileHit, merge_sources
from sonde.knowledge.retrieval import read_retrieval, show_text
from sonde.projects.find import name_scope, readable_project
from sonde.projects.freshness import is_searchable
from sonde.projects.lines import cut_to_focus
from sonde.projects.literal import EXACT
from sonde.projects.search import rank_everywhere
from sonde.ranking.evidence import LIKELY_ENOUGH, find_least_shown
from sonde.runtime.work import Work
from sonde.searching.likelihood import rate_hits
from sonde.searching.request import Request, read_asked
from sonde.searching.search import QueryVectors
from sonde.stores.knowledge.base import SOURCES
from sonde.types import Hit, Kind, Skipped

KINDS: tuple[Kind, ...] = get_args(Kind)
EVERYWHERE = (*SOURCES, *KINDS)
FILE_HITS = 50
"""Hits in code, and in docs, that are merged with those in knowledge."""
_FOCUS_CHARS = 500  # around the line that a query names: about ten lines
_POINTER = re.compile(r"(?P<source>[a-z]+)://(?P<id>[^#]*)(?:#(?P<rest>.*))?", re.DOTALL)
_LINES = re.compile(r"L(\d{1,9})-L(\d{1,9})")


def search_everything(
    app: App,
    request: service.KnowledgeRequest,
    options: service.PageOptions,
    work: Work,
    session: KnowledgeSession | None,
    *,
    dedupe: bool,
) -> service.RankedPage:
    """One page of a search over knowledge, code and docs."""

    notes: list[str] = []

    def rank(request: service.KnowledgeRequest) -> Sequence[AnyHit]:
        rankings: list[Sequence[AnyHit]] = [
            *service.rank_sources(app.knowledge, request, work, notes)
        ]
        rankings += _rank_files(app, request, work, notes, required=not rankings)
        # literal matches lead, whatever else is found
        exact = [hit for ranking in rankings for hit in ranking if hit.score_type == EXACT]
        others = [[hit for hit in ranking if hit.score_type != EXACT] for ranking in rankings]
        merged = merge_sources(others)
        # a source that has no answer is left out; if none has, what comes nearest is shown
        best = max((hit.score for hit in merged), default=0.0)
        least = find_least_shown(best) if exact or best >= LIKELY_ENOUGH else best / 2
        likely = [hit for hit in merged if hit.score >= least]
        return [*(replace(hit, score=1.0) for hit in exact), *likely]

    page = service.open_ranked_page(
        app.knowledge, request, options, work, session, rank, dedupe=dedupe
    )
    return replace(page, note=next(filter(None, notes), ""))


def fetch_anything(
    app: App,
    id: str,  # noqa: A002
    source: str | None,
    retrieval: Mapping[str, object] | None,
    work: Work,
    session: KnowledgeSession | None,
) -> EntryContent | FileExcerpt:
    """The entry or file that a result's uri points to, or the entry of a source with this id."""
    pointer = _POINTER.fullmatch(id)
    wanted = pointer["source"] if pointer else source
    name, rest = (pointer["id"], pointer["rest"] or "") if pointer else (id, "")
    for kind in KINDS:
        if kind == wanted:
            return _fetch_file(app, kind, name, rest, retrieval, work)
    for known in SOURCES:
        if known == wanted:
            options = dict(retrieval or {})
            if known == "chats" and rest and "loc" not in options:
                options = {"mode": "chunk_with_siblings", "loc": {"message_id": rest}} | options
            return service.read_entry(app.knowledge, known, name, options, work, session, "full")
    raise InvalidRequest(
        f"{id!r} is no pointer",
        user_message="`id` must be the `uri` of a search result, or come with its `source`.",
    )


def _rank_files(
    app: App, request: service.KnowledgeRequest, work: Work, notes: list[str], *, required: bool
) -> list[list[FileHit]]:
    """Hits in code and docs of the current project, if there is one, and `notes` on them."""
    rankings = []
    question = read_asked(request.query)
    vectors = QueryVectors(question, app.workspace.static, app.workspace.deep)
    for kind in KINDS:
        if kind not in request.sources:
            continue
        scope = name_scope(app.workspace, None)
        wanted = Request("search", request.query, (kind,), FILE_HITS, project=scope)
        try:
            ranking = rank_everywhere(app.workspace, wanted, question, work)
        except CatalogError as error:
            if required:
                raise
            notes.append(f"No files were searched: {error.user_message}")
            return []
        if not ranking.freshness.startswith("complete"):
            notes.append(f"{ranking.freshness}. {ranking.note}".strip())
        # a query that names a file finds it in either request
        hits = [hit for hit in ranking.hits if hit.kind == kind]
        rankings.append([_make_file_hit(hit) for hit in rate_files(app, kind, vectors, hits)])
    return rankings


def rate_files(app: App, kind: Kind, vectors: QueryVectors, hits: Sequence[Hit]) -> list[Hit]:
    """The hits of one kind with scores that compare with those of other sources."""
    exact = [hit for hit in hits if hit.score_type == EXACT]
    others = [hit for hit in hits if hit.score_type != EXACT]
    if not others:
        return exact
    project = app.workspace.projects.get(others[0].project)
    store = project.stores()[kind] if is_searchable(project) else None
    # what the best project's own hits are worth; the store knows nothing of other projects
    rated = rate_hits(store, vectors, [hit for hit in others if hit.project == others[0].project])
    share = rated[0].score / (others[0].score or 1.0)
    return exact + [replace(hit, score=share * hit.score) for hit in others]


def _make_file_hit(hit: Hit) -> FileHit:
    hit = cut_to_focus(hit, _FOCUS_CHARS) if hit.focus else hit
    span, modified = hit.span, hit.state.mtime_ns // 1_000_000 if hit.state else 0
    place = (hit.kind, hit.project, hit.path, span.start_line, span.end_line)
    return FileHit(*place, hit.text, modified, hit.score, hit.score_type)


def _fetch_file(
    app: App, kind: Kind, name: str, rest: str, retrieval: Mapping[str, object] | None, work: Work
) -> FileExcerpt:
    project_text, _, path = unquote(name).rpartition("//")
    work.check()
    # only what was searched can have been found: a pointer opens no other folder, no other file
    project = readable_project(app.workspace, project_text or None)
    admitted = project.tree.check(path)
    content = admitted if isinstance(admitted, Skipped) else project.tree.read(path)
    if isinstance(content, Skipped):
        raise InvalidRequest(
            f"{path}: {content.reason}",
            user_message=f"The file '{path}' cannot be read: {content.reason.replace('_', ' ')}.",
        )
    lines = _LINES.fullmatch(rest)
    rows = content.text.split("\n")
    first = int(lines[1]) - 1 if lines else 0
    options = read_retrieval({"mode": "chunk" if lines else "full"} | dict(retrieval or {}), {})
    if lines and options.mode == "chunk":
        shown = show_text("\n".join(rows[first : int(lines[2])]), replace(options, mode="full"), 0)
    else:
        shown = show_text(content.text, options, sum(len(row) + 1 for row in rows[:first]))
    uri = f"{kind}://{name}" + (f"#{rest}" if rest else "")
    modified = content.mtime_ns // 1_000_000
    return FileExcerpt(uri, kind, path, shown.text, modified, shown.next_offset)
