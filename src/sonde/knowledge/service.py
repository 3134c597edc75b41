"""One search of knowledge from question to page, and one look at an entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from sonde.app import App
from sonde.errors import EmptyQuery, InvalidRequest
from sonde.knowledge.getting import EntryContent, get_entry
from sonde.knowledge.library import (
    KnowledgeSession,
    load_ranking,
    load_session,
    make_session_id,
    read_defaults,
    save_ranking,
    save_session,
)
from sonde.knowledge.ranking import (
    KnowledgeHit,
    KnowledgeSearch,
    merge_sources,
    read_knowledge_query,
    sort_recent,
)
from sonde.knowledge.retrieval import Mode, clamp_length, read_retrieval
from sonde.paging.budget import count_tokens
from sonde.paging.cursor import hash_parameters
from sonde.paging.results import ResultSet
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import ANYTHING, SOURCES, TITLE, Conditions, KnowledgeStore, Source
from sonde.text.times import read_day_end, read_time
from sonde.tools.schema import Param, bind
from sonde.tools.shapes.know import GetAnswer, KnowAnswer, show_got, show_knowledge_hit
from sonde.tools.tool import read_arguments

_SHORTEST = 50
_RESERVED = 25
"""Tokens for what a page says besides its rows."""


@dataclass(frozen=True, slots=True)
class KnowledgeRequest:
    """What is asked for; equal ones share a ranking."""

    tool: str
    query: str
    sources: tuple[Source, ...] = SOURCES
    order_by: str | None = None
    where: Mapping[Source, Conditions] = field(default_factory=dict)
    recent: tuple[Source, ...] = ()
    """Sources that are ranked by time before they are merged with the others."""


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """Which part of the ranking is shown, and how."""

    limit: int
    offset: int = 0
    snippet_length: int | None = None
    max_tokens: int | None = None


def answer_knowledge_search(
    app: App,
    inquiry: KnowledgeRequest,
    view: AnswerOptions,
    work: Work,
    session: KnowledgeSession | None = None,
    *,
    dedupe: bool = False,
) -> KnowAnswer:
    """One page of a ranking that stays as it was when its first page was asked for."""
    query = inquiry.query.strip()
    if not query:
        raise EmptyQuery
    user = work.caller.user
    store = app.knowledge.of(user)
    defaults = list_defaults(session, work)
    inquiry = replace(inquiry, order_by=inquiry.order_by or defaults.get("order_by") or "relevance")
    parameters = _name(inquiry, user, session.id if session else "")

    def rank_fresh() -> list[KnowledgeHit]:
        return rank_knowledge(app, store, inquiry, work)

    deduped = session if dedupe else None
    kept = find_ranking(app, store, parameters, view.offset, rank_fresh, deduped)
    answer = _show_page(app, store, kept.hits, query, view, session, defaults)
    if session:
        answer["session_id"] = session.id
        if kept.facts["held"]:
            answer["suppressed"] = kept.facts["held"]
        session.mark(row["uri"] for row in answer["results"])
        session.ask(query)
        save_session(store, session)
    return answer


def find_ranking(
    app: App,
    store: KnowledgeStore,
    parameters: Mapping[str, Any],
    offset: int,
    rank_fresh: Callable[[], list[KnowledgeHit]],
    session: KnowledgeSession | None,
    name: Callable[[KnowledgeHit], str] = lambda hit: hit.uri,
) -> ResultSet:
    """The ranking that a page is cut from: a new one for the first page, else the one it had.

    What a session has seen is held back. Where several servers answer, any of them may have shown
    the page before: what they share comes first.
    """
    key = hash_parameters(parameters)
    known = load_ranking(store, key) if offset else None
    kept = app.workspace.results.find(parameters) if offset and known is None else None
    if kept is None:
        if known is None:
            hits, held = rank_fresh(), 0
            if session:
                hits, held = hide_seen(session, hits, name)
            save_ranking(store, key, hits, held)
            known = hits, held
        kept = app.workspace.results.keep(parameters, known[0], {"held": known[1]})
    return kept


def rank_knowledge(
    app: App, store: KnowledgeStore, inquiry: KnowledgeRequest, work: Work
) -> list[KnowledgeHit]:
    """Everything that answers, in order."""
    asking = KnowledgeSearch(store, read_knowledge_query(inquiry.query), app.workspace.static)
    rankings = []
    for source in dict.fromkeys(inquiry.sources):
        work.check()
        found = asking.rank(source, inquiry.where.get(source, ANYTHING))
        rankings.append(sort_recent(found) if source in inquiry.recent else found)
    hits = rankings[0] if len(rankings) == 1 else merge_sources(rankings)
    return sort_recent(hits) if inquiry.order_by == "recent" else hits


def hide_seen(
    session: KnowledgeSession,
    hits: list[KnowledgeHit],
    name: Callable[[KnowledgeHit], str],
) -> tuple[list[KnowledgeHit], int]:
    """What the session has not seen yet; all of it again once it has seen everything."""
    fresh = [hit for hit in hits if name(hit) not in session.seen]
    if hits and not fresh:
        session.forget(map(name, hits))
        return hits, 0
    return fresh, len(hits) - len(fresh)


def find_knowledge_session(
    app: App, work: Work, session_id: str | None, defaults: Mapping[str, Any] | None = None
) -> KnowledgeSession | None:
    """The session named, else the caller's own; `new` makes one. None where there is none."""
    name = session_id or work.caller.session
    if not name:
        return None
    if name == "new":
        name = make_session_id()
    session = app.knowledge.sessions.open(work.caller.user, name)
    load_session(app.knowledge.of(work.caller.user), session)
    if defaults:
        session.defaults |= read_defaults(defaults)
    return session


def answer_get(
    app: App,
    source: Source,
    id: str,  # noqa: A002
    retrieval: Mapping[str, Any] | None,
    work: Work,
    session: KnowledgeSession | None = None,
    mode: Mode = "snippet",
) -> GetAnswer:
    """As much of one entry as was asked for."""
    store = app.knowledge.of(work.caller.user)
    options = read_retrieval(retrieval, list_defaults(session, work), mode)
    got: EntryContent = get_entry(
        store, source, id, options, list(session.recent) if session else ()
    )
    return show_got(got, options.snippet_length)


def list_defaults(session: KnowledgeSession | None, work: Work) -> dict[str, Any]:
    """What the session prefers, and behind it what the request does."""
    return {**work.caller.config, **(session.defaults if session else {})}


def _name(inquiry: KnowledgeRequest, user: str, session: str) -> dict[str, Any]:
    return {
        "tool": inquiry.tool,
        "query": inquiry.query.strip(),
        "sources": inquiry.sources,
        "order_by": inquiry.order_by,
        "where": {source: repr(each) for source, each in inquiry.where.items()},
        "recent": inquiry.recent,
        "user": user,
        "session": session,
    }


def _show_page(
    app: App,
    store: KnowledgeStore,
    hits: Sequence[KnowledgeHit],
    query: str,
    view: AnswerOptions,
    session: KnowledgeSession | None,
    defaults: Mapping[str, Any],
) -> KnowAnswer:
    asked = defaults.get("snippet_length") if view.snippet_length is None else view.snippet_length
    length = clamp_length(asked)
    budget = (view.max_tokens or defaults.get("max_tokens") or app.workspace.max_tokens) - _RESERVED
    terms = read_knowledge_query(query).terms
    earlier = list(session.recent)[:3] if session else []
    hints = [term for each in earlier for term in read_knowledge_query(each).terms]
    wanted = hits[view.offset : view.offset + view.limit]
    rows: list[dict[str, Any]] = []
    for hit in wanted:
        rows.append(show_knowledge_hit(hit, terms, length, hints, read_opening(store, hit)))
        if len(rows) > 1 and count_tokens(_page(rows, hits, view)) > budget:
            rows.pop()
            break
    while rows and count_tokens(_page(rows, hits, view)) > budget and length > _SHORTEST:
        length = max(length // 2, _SHORTEST)
        rows = [show_knowledge_hit(wanted[0], terms, length, hints, read_opening(store, wanted[0]))]
    answer = _page(rows, hits, view)
    if len(rows) < len(wanted):
        answer["truncated"] = True
    return answer


def _page(
    rows: list[dict[str, Any]], hits: Sequence[KnowledgeHit], view: AnswerOptions
) -> KnowAnswer:
    behind = view.offset + len(rows)
    more = bool(rows) and behind < len(hits)
    return {
        "results": rows,
        "has_more": more,
        "next_offset": behind if more else None,
        "total_estimated": len(hits),
    }


def read_opening(store: KnowledgeStore, hit: KnowledgeHit) -> str:
    """The first message of a conversation that was found by its title."""
    if hit.source != "chats" or hit.piece.field != TITLE:
        return ""
    first = store.read_pieces("chats", hit.entry.id, 0, 1)
    return first[0].text if first else ""


Order = Literal["relevance", "recent"]
By = Literal["both", "title", "message"]
PROMPT_FIELDS = ("name", "details", "system_prompt", "user_prompt", "author", "keywords")

OrderParam = Annotated[Order | None, Param("By `relevance` or `recent` first", terse=True)]
KeywordsParam = Annotated[
    tuple[str, ...], Param("Only notes with all of these tags", max_length=50, terse=True)
]
TypesParam = Annotated[
    tuple[str, ...],
    Param("Only these kinds: video, audio, pdf, epub, html …", max_length=50, terse=True),
]
FromParam = Annotated[str | None, Param("Not older (ISO 8601)", max_length=50, terse=True)]
ToParam = Annotated[str | None, Param("Not newer (ISO 8601)", max_length=50, terse=True)]
ByParam = Annotated[By, Param("Where to look")]
CharacterParam = Annotated[int | None, Param("Only with this character", minimum=0, maximum=2**53)]
SenderParam = Annotated[str, Param("Only messages of this sender", max_length=500, terse=True)]
FieldsParam = Annotated[
    tuple[str, ...],
    Param(f"Only in these of {', '.join(PROMPT_FIELDS)}", max_length=10, terse=True),
]


def filter_notes(keywords: KeywordsParam = ()) -> Conditions:
    """Which notes."""
    return Conditions(tags=tuple(keywords))


def filter_media(
    media_types: TypesParam = (),
    date_from: FromParam = None,
    date_to: ToParam = None,
    order_by: OrderParam = None,
) -> Conditions:
    """Which media; the order is for `list_recent` to say."""
    del order_by
    since = _read_date("date_from", date_from, read_time)
    until = _read_date("date_to", date_to, read_day_end)
    return Conditions(media_types=tuple(media_types), since=since, until=until)


def filter_chats(
    by: ByParam = "both", character_id: CharacterParam = None, sender: SenderParam = ""
) -> Conditions:
    """Which titles and messages."""
    fields = {"both": (), "title": ("title",), "message": ("",)}[by]
    character = "" if character_id is None else str(character_id)
    return Conditions(fields=fields, character=character, sender=sender)


def filter_prompts(fields: FieldsParam = ()) -> Conditions:
    """Which fields of prompts."""
    for name in fields:
        if name not in PROMPT_FIELDS:
            raise _refuse(f"`fields` must be some of {', '.join(PROMPT_FIELDS)}; one is {name!r}")
    return Conditions(fields=tuple("title" if name == "name" else name for name in fields))


_FILTERS: Mapping[str, Callable[..., Conditions]] = {
    "notes": filter_notes,
    "media": filter_media,
    "chats": filter_chats,
    "prompts": filter_prompts,
}


def read_sources(names: tuple[str, ...]) -> tuple[Source, ...]:
    """The sources named, all when none is."""
    for name in names:
        if name not in SOURCES:
            raise _refuse(f"`sources` must be some of {', '.join(SOURCES)}; one is {name!r}")
    return tuple(source for source in SOURCES if source in names) or SOURCES


def read_filters(given: Mapping[str, Any]) -> dict[Source, Conditions]:
    """Filters by source."""
    where: dict[Source, Conditions] = {}
    for name, filters in given.items():
        (source,) = read_sources((name,))
        if not isinstance(filters, dict):
            raise _refuse(f"`filters.{name}` must be an object")
        where[source] = _read_conditions(source, filters)
    return where


def list_recent(given: Mapping[str, Any]) -> tuple[Source, ...]:
    """The sources whose own ranking is wanted by time before it is merged with the others."""
    spellings = ("order_by", "orderBy")
    asked = {name: [given.get(name, {}).get(each) for each in spellings] for name in SOURCES}
    return tuple(name for name in SOURCES if "recent" in asked[name])


def _read_date(name: str, text: str | None, read: Callable[[str], int | None]) -> int | None:
    if not text:
        return None
    stamp = read(text)
    if stamp is None:
        raise _refuse(f"`{name}` must be a date such as 2024-05-31; it is {text!r}")
    return stamp


def _read_conditions(source: Source, given: Mapping[str, Any]) -> Conditions:
    """The filters of one source, checked like arguments."""
    make = _FILTERS.get(source)
    if make is None:
        if given:
            raise _refuse(f"`filters.{source}` is reserved: there is nothing to filter by yet")
        return ANYTHING
    return make(**bind(f"filters.{source}", read_arguments(make), given))


def _refuse(problem: str) -> InvalidRequest:
    return InvalidRequest(problem, user_message="{problem}.", problem=problem)
