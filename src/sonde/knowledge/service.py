"""Search of personal knowledge and reading of one entry, as every surface calls them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import cast

from sonde.embedding.nearness import open_measure
from sonde.errors import EmptyQuery
from sonde.knowledge.getting import EntryContent, find_entry, get_entry, read_messages
from sonde.knowledge.identity import are_same_text, name_file, tally_words
from sonde.knowledge.library import KnowledgeSession, Library, load_ranking, save_ranking
from sonde.knowledge.ranking import (
    AnyHit,
    Duplicate,
    KnowledgeHit,
    KnowledgeSearch,
    merge_sources,
    normalise,
    read_knowledge_query,
    sort_recent,
)
from sonde.knowledge.retrieval import KnowledgePreferences, Mode, clamp_length, read_retrieval
from sonde.knowledge.transcripts import Segments, TranscriptFormat, write_transcript
from sonde.knowledge.vectors import count_deep, list_limits
from sonde.knowledge.who_and_when import read_who_and_when
from sonde.paging.cursor import hash_parameters
from sonde.ranking.snippets import find_answer
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import ANYTHING, SOURCES, TITLE, Conditions, KnowledgeStore, Source
from sonde.values import invalid_value

HINTING_QUERIES = 3  # earlier queries of a session whose words snippets prefer
COMPARED_HITS = 100  # best hits among which duplicates are joined: five pages, read in tens of ms
_COMPARED_PIECES = 40  # of an entry: some 20 pages show whether two texts are the same
_COMPARED_CHARS = 30_000  # of those pieces: texts with other line breaks are cut elsewhere
_OPENING_CHARS = 120  # first characters that must agree before two texts are compared in full
_READ_CHARS = 600  # read for the opening, which may be full of markup
_SHARED_OPENING = 0.6  # share of the opening's words that two formats of one text have in common
_FORMATTING = re.compile(
    r"[-=]{2,}|(?<!\S)[-=#>+]+(?!\S)|[!\"'()*,.:;?\[\]\\_`{|}«»·\u2010-\u2027]"
)
"""Markup that differs between formats: rules, bullets, headings, emphasis, quotes, tables."""


@dataclass(frozen=True, slots=True)
class KnowledgeRequest:
    """The parameters of a search; equal requests share one ranking."""

    tool: str
    query: str
    sources: tuple[str, ...] = SOURCES
    order_by: str | None = None
    where: Mapping[Source, Conditions] = field(default_factory=dict)
    recent: tuple[Source, ...] = ()
    """Sources to sort by time before they are merged with the others."""


@dataclass(frozen=True, slots=True)
class PageOptions:
    """The page of a ranking to show, and its budget."""

    limit: int
    offset: int = 0
    snippet_length: int | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class RankedPage:
    """A ranking and the page of it to show; the serializer cuts the page to the budget."""

    query: str
    hits: Sequence[AnyHit]
    """The whole ranking."""
    offset: int
    shown: Sequence[AnyHit]
    """The hits of this page, before the budget is applied."""
    snippet_length: int
    max_tokens: int
    suppressed: int
    """Hits left out because the session has seen them."""
    session: KnowledgeSession | None
    answers: Mapping[str, tuple[str, tuple[int, int]]]
    """The text of each shown hit by uri, and where in it the answer is."""
    note: str = ""
    """A remark on how complete the ranking is; empty if there is none."""


def search_knowledge(
    library: Library, request: KnowledgeRequest, options: PageOptions, work: Work,
    session: KnowledgeSession | None = None, *, dedupe: bool = False,
) -> RankedPage:  # fmt: skip
    """One page of a search in a user's knowledge; `dedupe` hides what the session has seen."""
    notes: list[str] = []

    def rank(request: KnowledgeRequest) -> Sequence[AnyHit]:
        rankings = rank_sources(library, request, work, notes)
        hits = rankings[0] if len(rankings) == 1 else merge_sources(rankings)
        if any(hit.score_type != "fts" for hit in hits):
            return hits
        return normalise(hits, library.of(work.caller.user).scale)  # documented for BM25 alone

    page = open_ranked_page(library, request, options, work, session, rank, dedupe=dedupe)
    return replace(page, note="; ".join(dict.fromkeys(notes)))


def open_ranked_page(
    library: Library, request: KnowledgeRequest, options: PageOptions, work: Work,
    session: KnowledgeSession | None, rank: Callable[[KnowledgeRequest], Sequence[AnyHit]], *,
    dedupe: bool,
) -> RankedPage:  # fmt: skip
    """One page of a ranking: the first page calls `rank`, later pages reuse the result."""
    query = request.query.strip()
    if not query:
        raise EmptyQuery
    user = work.caller.user
    store = library.seen_by(user)
    preferences = list_preferences(session, work)
    order_by = request.order_by or preferences.get("order_by") or "relevance"
    request = replace(request, query=query, order_by=order_by)
    order = sort_recent if order_by == "recent" else list
    # part of the key, so that a withdrawn collection does not stay visible on later pages
    named = {"request": repr(request), "user": user, "session": session.id if session else "",
             "collections": library.list_collections(user)}  # fmt: skip
    hits, held = _find_ranking(
        library, store, named, options.offset,
        lambda: _join_duplicates(store, order(rank(request))), session if dedupe else None,
    )  # fmt: skip
    earlier = list(session.recent)[:HINTING_QUERIES] if session else []
    shown = hits[options.offset : options.offset + options.limit]
    wished, usual = options.snippet_length, preferences.get("snippet_length")
    length = clamp_length(usual if wished is None else wished)
    hints = [term for each in earlier for term in read_knowledge_query(each).terms]
    texts = {hit.uri: _read_shown(store, hit) for hit in shown}
    asked = read_knowledge_query(query)
    measure = open_measure(library.models.static, asked.text)
    answers = {
        uri: find_answer(text, asked.terms, hints, length, measure if len(text) > length else None)
        for uri, text in texts.items()
    }
    return RankedPage(
        query, hits, options.offset, shown, length,
        options.max_tokens or preferences.get("max_tokens") or library.max_tokens,
        held if session else 0, session,
        {uri: (text, answers[uri]) for uri, text in texts.items()},
    )  # fmt: skip


def _read_shown(store: KnowledgeStore, hit: AnyHit) -> str:
    """The text that a hit's snippet is cut from; a title is followed by the first message."""
    if not isinstance(hit, KnowledgeHit) or hit.piece.field != TITLE:
        return hit.text
    first = store.read_pieces("chats", hit.entry.id, 0, 1) if hit.source == "chats" else []
    return ": ".join([hit.entry.title, *(piece.text for piece in first)])


def record_shown(library: Library, page: RankedPage, count: int, work: Work) -> None:
    """Record the query and the hits shown in the page's session."""
    if page.session:
        page.session.mark_seen(_list_uris(page.shown[:count]))
        page.session.add_query(page.query)
        library.save_session(work.caller.user, page.session)


def rank_sources(
    library: Library, request: KnowledgeRequest, work: Work, notes: list[str]
) -> list[list[KnowledgeHit]]:
    """The hits in each of the request's sources, best first; remarks are added to `notes`."""
    store = library.seen_by(work.caller.user)
    sources = [source for source in SOURCES if source in request.sources]
    deep = library.models.deep
    covered = [store.coverage(source, deep.name) for source in sources] if deep else []
    question, unread = read_knowledge_query(request.query), sum(h < t for h, t in covered)
    search = KnowledgeSearch(store, question, library.models, sources=unread or 1)
    rankings, asked = [], read_who_and_when(request.query, library.now_ms())
    for source in sources:
        work.check()
        found = search.rank_asked(source, request.where.get(source, ANYTHING), asked)
        rankings.append(sort_recent(found) if source in request.recent else found)
    notes += search.notes
    read = count_deep(library.models, store)
    notes += list_limits(library.models, read, request.query)
    if read[0] < read[1]:
        library.deepen(work.caller.user)
    return rankings


def read_entry(
    library: Library, source: Source | None, id: str,  # noqa: A002
    retrieval: Mapping[str, object] | None, work: Work,
    session: KnowledgeSession | None = None, mode: Mode = "snippet",
) -> EntryContent:  # fmt: skip
    """The part of an entry that `retrieval` selects; a `uri` as `id` implies source and message."""
    named, _, rest = id.partition("://")
    source = next((each for each in SOURCES if each == named and rest), source)
    if source is None:
        raise invalid_value("`id` must be the `uri` of a search result, or come with its `source`")
    message = rest.partition("#")[2] if source == "chats" else ""
    if message and "loc" not in (retrieval or {}):
        retrieval = {"loc": {"message_id": message}} | dict(retrieval or {})
    options = read_retrieval(retrieval, list_preferences(session, work), mode)
    if session and session.recent and not options.query:
        options = replace(options, query=session.recent[0])
    found = get_entry(library.seen_by(work.caller.user), source, id, options)
    return replace(found, snippet_length=options.snippet_length)


def read_conversation(
    library: Library, id: str,  # noqa: A002
    retrieval: Mapping[str, object] | None, page: int, page_size: int, work: Work,
) -> EntryContent:  # fmt: skip
    """A page of a conversation's messages, or the part of it that `retrieval` selects."""
    session = library.open_session(work.caller, None)
    mode: Mode = "snippet" if retrieval else "full"
    options = read_retrieval(retrieval, list_preferences(session, work), mode)
    if options.mode != "full":
        return read_entry(library, "chats", id, retrieval, work, session)
    store = library.seen_by(work.caller.user)
    entry = find_entry(store, "chats", id, pieces=False)
    first = options.offset or (page - 1) * page_size
    found = read_messages(store, entry, first, page_size, options, page)
    return replace(found, snippet_length=options.snippet_length)


def read_transcript(
    library: Library, id: str,  # noqa: A002
    form: TranscriptFormat, options: Mapping[str, object], work: Work, *, timestamps: bool,
) -> tuple[str | Segments, int | None]:  # fmt: skip
    """The part of a recording's transcript that the options select."""
    session = library.open_session(work.caller, None)
    found = find_entry(library.seen_by(work.caller.user), "media", id)
    wanted = read_retrieval(options, list_preferences(session, work), "full")
    return write_transcript(found, form, wanted, timestamps=timestamps)


def list_preferences(session: KnowledgeSession | None, work: Work) -> KnowledgePreferences:
    """The caller's preferences, overridden by those of the session."""
    asked = cast("KnowledgePreferences", work.caller.config)  # checked by the surface that read it
    return {**asked, **session.preferences} if session else asked


def _find_ranking(
    library: Library, store: KnowledgeStore, parameters: Mapping[str, object], offset: int,
    rank: Callable[[], Sequence[AnyHit]], session: KnowledgeSession | None,
) -> tuple[Sequence[AnyHit], int]:  # fmt: skip
    """The ranking that a page is cut from, and how many hits it leaves out.

    The first page makes a ranking, later pages look it up: first among those that servers share,
    since another server may have shown the first page.
    """
    key = hash_parameters(parameters)
    known = load_ranking(store, key) if offset else None
    if offset and known is None and (kept := library.results.find(parameters)):
        return kept.hits, kept.facts["held"]
    if known is None:
        hits = rank()
        known = _hide_seen(session, hits) if session else (hits, 0)
        save_ranking(store, key, *known)
    library.results.keep(parameters, known[0], {"held": known[1]})
    return known


def _join_duplicates(store: KnowledgeStore, hits: Sequence[AnyHit]) -> list[AnyHit]:
    """The hits, with those of the same text joined into the best one, which lists the others."""

    @cache
    def read(source: Source, id_: str) -> str:
        pieces = store.read_pieces(source, id_, 0, _COMPARED_PIECES)
        return "".join(piece.text for piece in pieces)

    def read_text(hit: KnowledgeHit) -> str:
        return read(hit.source, hit.entry.id)

    joined: dict[str, AnyHit | None] = {}
    for first, *rest in _group_formats(_group_copies(store, hits, read_text), read_text):
        names = ((hit.uri, hit.entry.title, name_file(hit.entry.path)) for hit in rest)
        copies = tuple(Duplicate(*each) for each in names)
        joined |= {first.uri: replace(first, duplicates=copies)} | {hit.uri: None for hit in rest}
    return [shown for hit in hits if (shown := joined.get(hit.uri, hit))]


_Group = tuple[list[KnowledgeHit], frozenset[str]]  # hits of one text, and the words it opens with


def _group_copies(
    store: KnowledgeStore, hits: Sequence[AnyHit], read: Callable[[KnowledgeHit], str]
) -> list[_Group]:
    """The best imported hits grouped by text, in order; a text is read if another opens alike."""
    openings: dict[str, str] = {}
    alike: dict[object, list[KnowledgeHit]] = {}
    for hit in hits[:COMPARED_HITS]:
        if isinstance(hit, KnowledgeHit) and hit.entry.origin:
            begins, shared = _find_opening(store, hit)
            openings[hit.uri] = begins
            alike.setdefault((_fold(begins)[:_OPENING_CHARS], shared), []).append(hit)
    groups: dict[object, list[KnowledgeHit]] = {}
    for opening, those in alike.items():
        for hit in those:
            text = _fold(read(hit))[:_COMPARED_CHARS] if len(those) > 1 else ""
            groups.setdefault((opening, text) if text else hit.uri, []).append(hit)
    ranks = {uri: rank for rank, uri in enumerate(openings)}
    ordered = sorted(groups.values(), key=lambda group: ranks[group[0].uri])
    return [(group, frozenset(tally_words(openings[group[0].uri]))) for group in ordered]


def _group_formats(
    groups: Sequence[_Group], read: Callable[[KnowledgeHit], str]
) -> list[list[KnowledgeHit]]:
    """The groups, with those joined that hold one text in two formats."""
    kept: list[_Group] = []
    for group, words in groups:
        for other, others in kept:
            if len(words & others) >= _SHARED_OPENING * min(len(words), len(others)) and any(
                _are_formats(group[0], each)
                and are_same_text(group[0].entry, each.entry, read(group[0]), read(each))
                for each in other
            ):
                other += group
                break
        else:
            kept.append((group, words))
    return [group for group, _ in kept]


def _find_opening(store: KnowledgeStore, hit: KnowledgeHit) -> tuple[str, object]:
    """The beginning of an entry's text, or the message; and what else duplicates must share."""
    entry, piece = hit.entry, hit.piece
    if entry.source == "chats":
        return piece.text, (piece.sender, piece.created_at, piece.place)
    text = piece.text
    if piece.place:
        text = "".join(each.text for each in store.read_pieces(entry.source, entry.id, 0, 1))
    return text[:_READ_CHARS], entry.title if entry.source in ("characters", "prompts") else ""


def _are_formats(one: KnowledgeHit, two: KnowledgeHit) -> bool:
    """Whether two hits may be one text in two formats: notes or documents whose endings differ."""
    endings = {name_file(hit.entry.path).rpartition(".")[2].lower() for hit in (one, two)}
    return len(endings) == 2 and {one.source, two.source} <= {"notes", "media"}


def _fold(text: str) -> str:
    """The text without case and without markup that differs between formats."""
    return " ".join(_FORMATTING.sub(" ", text).casefold().split())


def _list_uris(hits: Sequence[AnyHit]) -> list[str]:
    """The uris of these hits and of their duplicates."""
    copies = [each.uri for hit in hits if isinstance(hit, KnowledgeHit) for each in hit.duplicates]
    return [*(hit.uri for hit in hits), *copies]


def _hide_seen(session: KnowledgeSession, hits: Sequence[AnyHit]) -> tuple[Sequence[AnyHit], int]:
    """The hits that the session has not seen and the number of others; all if it has seen each."""
    fresh = [hit for hit in hits if hit.uri not in session.seen]
    if hits and not fresh:
        for uri in _list_uris(hits):
            session.seen.pop(uri, None)
        return hits, 0
    return fresh, len(hits) - len(fresh)
