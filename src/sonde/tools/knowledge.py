"""Verbs that find and show personal knowledge: notes, media, chats, characters, prompts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from sonde.app import App
from sonde.knowledge.getting import find_entry, read_messages, write_transcript
from sonde.knowledge.retrieval import Mode, read_retrieval
from sonde.knowledge.service import (
    AnswerOptions,
    ByParam,
    CharacterParam,
    FieldsParam,
    FromParam,
    KeywordsParam,
    KnowledgeRequest,
    Order,
    OrderParam,
    SenderParam,
    ToParam,
    TypesParam,
    answer_get,
    answer_knowledge_search,
    filter_chats,
    filter_media,
    filter_notes,
    filter_prompts,
    find_knowledge_session,
    list_defaults,
    list_recent,
    read_filters,
    read_sources,
)
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import Conditions, Source
from sonde.tools.route import Route
from sonde.tools.schema import Param
from sonde.tools.shapes.know import GetAnswer, KnowAnswer, TranscriptAnswer, show_got
from sonde.tools.tool import Tool

QueryParam = Annotated[str, Param("Words or a question", max_length=100_000, terse=True)]
LimitParam = Annotated[int, Param("Results in a page", minimum=1, maximum=100)]
OffsetParam = Annotated[int, Param("next_offset of the page before", minimum=0)]
LengthParam = Annotated[
    int | None,
    Param("Characters of text, clamped to 50..1000", minimum=0),
]
TokensParam = Annotated[
    int | None, Param("Size of the answer", minimum=200, maximum=20_000, listed=False)
]
RetrievalParam = Annotated[
    dict[str, Any] | None,
    Param(
        "{mode: snippet|chunk|chunk_with_siblings|full|auto, loc (of a result), max_tokens, "
        "snippet_length, sibling_window}"
    ),
]
BriefRetrievalParam = Annotated[dict[str, Any] | None, Param("As of knowledge_get", terse=True)]
SessionParam = Annotated[
    str | None,
    Param(
        "A session's handle; `new` makes one. The connection's own by default",
        max_length=200,
        listed=False,
    ),
]
_IdParam = Param("Its id", min_length=1, max_length=1000, numbers=True, terse=True)
IdParam = Annotated[str, _IdParam]
SourcesParam = Annotated[
    tuple[str, ...], Param("Some of notes, media, chats, characters, prompts; default all")
]


def knowledge_search(
    app: App,
    query: QueryParam,
    limit: LimitParam = 20,
    offset: OffsetParam = 0,
    snippet_length: LengthParam = None,
    sources: SourcesParam = (),
    order_by: OrderParam = None,
    filters: Annotated[
        dict[str, Any] | None,
        Param(
            "By source: {media: {media_types, date_from, date_to}, notes: {keywords}, chats: "
            "{by, character_id, sender}, prompts: {fields}}"
        ),
    ] = None,
    dedupe: Annotated[bool, Param("Hold back what this session has seen", terse=True)] = True,
    max_tokens: TokensParam = None,
    session_id: SessionParam = None,
    defaults: Annotated[
        dict[str, Any] | None,
        Param("Preferences that the session keeps, such as snippet_length", listed=False),
    ] = None,
    *,
    work: Work,
) -> KnowAnswer:
    """Search every source at once."""
    session = find_knowledge_session(app, work, session_id, defaults)
    chosen = read_sources(sources)
    where = read_filters(filters or {})
    inquiry = KnowledgeRequest(
        "knowledge_search", query, chosen, order_by, where, list_recent(filters or {})
    )
    view = AnswerOptions(limit, offset, snippet_length, max_tokens)
    return answer_knowledge_search(app, inquiry, view, work, session, dedupe=dedupe)


def knowledge_get(
    app: App,
    source: Annotated[Source, Param("Where it is from")],
    id: IdParam,  # noqa: A002
    retrieval: RetrievalParam = None,
    session_id: SessionParam = None,
    *,
    work: Work,
) -> GetAnswer:
    """As much of one entry as is asked for."""
    return answer_get(
        app, source, id, retrieval, work, find_knowledge_session(app, work, session_id)
    )


def notes_search(
    app: App,
    query: QueryParam,
    limit: LimitParam = 10,
    offset: OffsetParam = 0,
    snippet_length: LengthParam = None,
    keywords: KeywordsParam = (),
    max_tokens: TokensParam = None,
    *,
    work: Work,
) -> KnowAnswer:
    """Search notes."""
    where = filter_notes(keywords)
    view = AnswerOptions(limit, offset, snippet_length, max_tokens)
    return _search(app, "notes", query, where, view, work)


def notes_get(
    app: App, note_id: IdParam, retrieval: BriefRetrievalParam = None, *, work: Work
) -> GetAnswer:
    """One note."""
    return answer_get(
        app, "notes", note_id, retrieval, work, find_knowledge_session(app, work, None)
    )


def media_search(
    app: App,
    query: QueryParam,
    limit: LimitParam = 10,
    offset: OffsetParam = 0,
    snippet_length: LengthParam = None,
    media_types: TypesParam = (),
    date_from: FromParam = None,
    date_to: ToParam = None,
    order_by: OrderParam = None,
    max_tokens: TokensParam = None,
    *,
    work: Work,
) -> KnowAnswer:
    """Search media."""
    where = filter_media(media_types, date_from, date_to)
    view = AnswerOptions(limit, offset, snippet_length, max_tokens)
    return _search(app, "media", query, where, view, work, order_by)


def media_get(
    app: App, media_id: IdParam, retrieval: BriefRetrievalParam = None, *, work: Work
) -> GetAnswer:
    """One medium."""
    return answer_get(
        app, "media", media_id, retrieval, work, find_knowledge_session(app, work, None)
    )


def media_transcript(
    app: App,
    media_id: IdParam,
    format: Annotated[Literal["text", "srt", "vtt", "json"], Param("How it is written")] = "text",  # noqa: A002
    include_timestamps: Annotated[bool, Param("With times", terse=True)] = False,
    *,
    work: Work,
) -> TranscriptAnswer:
    """What is said in a recording."""
    entry = find_entry(app.knowledge.of(work.caller.user), "media", media_id)
    return {"content": write_transcript(entry, format, timestamps=include_timestamps)}


def chats_search(
    app: App,
    query: QueryParam,
    limit: LimitParam = 10,
    offset: OffsetParam = 0,
    snippet_length: LengthParam = None,
    by: ByParam = "both",
    character_id: CharacterParam = None,
    sender: SenderParam = "",
    max_tokens: TokensParam = None,
    *,
    work: Work,
) -> KnowAnswer:
    """Search conversations."""
    where = filter_chats(by, character_id, sender)
    view = AnswerOptions(limit, offset, snippet_length, max_tokens)
    return _search(app, "chats", query, where, view, work)


def chats_get(
    app: App,
    conversation_id: IdParam,
    page: Annotated[int, Param("Page of messages", minimum=1, maximum=10**6)] = 1,
    page_size: Annotated[int, Param("Messages in a page", minimum=1, maximum=200, clamp=True)] = 50,
    retrieval: BriefRetrievalParam = None,
    *,
    work: Work,
) -> GetAnswer:
    """A conversation, page by page, or the messages around one."""
    session = find_knowledge_session(app, work, None)
    mode: Mode = "snippet" if retrieval else "full"
    options = read_retrieval(retrieval, list_defaults(session, work), mode)
    if options.mode != "full":
        return answer_get(app, "chats", conversation_id, retrieval, work, session)
    store = app.knowledge.of(work.caller.user)
    entry = find_entry(store, "chats", conversation_id, pieces=False)
    first = options.offset or (page - 1) * page_size
    got = read_messages(store, entry, first, page_size, options.budget)
    answer = show_got(got, options.snippet_length)
    if isinstance(answer["content"], dict):
        answer["content"] |= {"page": page, "page_size": page_size}
    return answer


def characters_search(
    app: App,
    query: Annotated[
        str, Param("Text, or tags: a list, or with commas", max_length=100_000, lists=True)
    ],
    limit: LimitParam = 10,
    offset: OffsetParam = 0,
    snippet_length: LengthParam = None,
    max_tokens: TokensParam = None,
    *,
    work: Work,
) -> KnowAnswer:
    """Search characters."""
    view = AnswerOptions(limit, offset, snippet_length, max_tokens)
    return _search(app, "characters", query, Conditions(), view, work)


def characters_get(
    app: App,
    character_id: IdParam,
    retrieval: Annotated[dict[str, Any] | None, Param("As of knowledge_get", listed=False)] = None,
    *,
    work: Work,
) -> GetAnswer:
    """One character with all its fields."""
    session = find_knowledge_session(app, work, None)
    return answer_get(app, "characters", character_id, retrieval, work, session, "full")


def prompts_search(
    app: App,
    query: QueryParam,
    limit: LimitParam = 10,
    offset: OffsetParam = 0,
    snippet_length: LengthParam = None,
    fields: FieldsParam = (),
    max_tokens: TokensParam = None,
    *,
    work: Work,
) -> KnowAnswer:
    """Search prompts."""
    view = AnswerOptions(limit, offset, snippet_length, max_tokens)
    return _search(app, "prompts", query, filter_prompts(fields), view, work)


def prompts_get(
    app: App,
    prompt_id_or_name: IdParam,
    retrieval: Annotated[dict[str, Any] | None, Param("As of knowledge_get", listed=False)] = None,
    *,
    work: Work,
) -> GetAnswer:
    """One prompt with all its fields."""
    session = find_knowledge_session(app, work, None)
    return answer_get(app, "prompts", prompt_id_or_name, retrieval, work, session, "full")


def _search(
    app: App,
    source: Source,
    query: str,
    where: Conditions,
    view: AnswerOptions,
    work: Work,
    order_by: Order | None = None,
) -> KnowAnswer:
    inquiry = KnowledgeRequest(f"{source}_search", query, (source,), order_by, {source: where})
    return answer_knowledge_search(app, inquiry, view, work)


def _declare(call: Callable[..., Any], documented: str, title: str, description: str) -> Tool:
    return Tool(
        name=call.__name__,
        call=call,
        toolset="knowledge",
        title=title,
        description=description,
        aliases=(documented,),
    )


TOOLS = (
    _declare(
        knowledge_search,
        "knowledge.search",
        "Search knowledge",
        "Search the user's notes, media, chats, characters and prompts at once. "
        "Pass a result's source, id and loc to knowledge_get; search_code is for projects.",
    ),
    _declare(
        knowledge_get,
        "knowledge.get",
        "Get knowledge",
        "Read one entry: a snippet, the matching chunk, its neighbours within a budget, or all. "
        "Find entries with knowledge_search.",
    ),
    _declare(
        notes_search,
        "notes.search",
        "Search notes",
        "Search the user's notes. Prefer knowledge_search when the source is unknown.",
    ),
    _declare(notes_get, "notes.get", "Get a note", "Read one note, a snippet by default."),
    _declare(
        media_search,
        "media.search",
        "Search media",
        "Search documents, mails and transcripts by kind and date. "
        "Prefer knowledge_search when the source is unknown.",
    ),
    _declare(media_get, "media.get", "Get a medium", "Read one document, a snippet by default."),
    _declare(
        media_transcript,
        "media.transcript",
        "Get a transcript",
        "What is said in a recording, as text or subtitles. Prefer media_get for a part of it.",
    ),
    _declare(
        chats_search,
        "chats.search",
        "Search chats",
        "Search conversations by title and message. "
        "Prefer knowledge_search when the source is unknown.",
    ),
    _declare(
        chats_get,
        "chats.get",
        "Get a chat",
        "Read a conversation by page, or the messages around one (retrieval.loc).",
    ),
    _declare(
        characters_search,
        "characters.search",
        "Search characters",
        "Search character cards by text or tags.",
    ),
    _declare(
        characters_get, "characters.get", "Get a character", "Read one character with all fields."
    ),
    _declare(prompts_search, "prompts.search", "Search prompts", "Search saved prompts."),
    _declare(
        prompts_get, "prompts.get", "Get a prompt", "Read one prompt by id or name, all fields."
    ),
)

ROUTES = (
    Route("search/knowledge", knowledge_search, "Notes, media, chats, characters and prompts"),
)
