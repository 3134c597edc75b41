"""Verbs and addresses of personal knowledge: notes, media, chats, characters, prompts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, NotRequired, TypedDict, get_type_hints

from sonde.app import App
from sonde.errors import PermissionDenied
from sonde.knowledge import service
from sonde.knowledge.editing import add_entry
from sonde.knowledge.library import KnowledgeSession
from sonde.knowledge.ranking import make_uri
from sonde.knowledge.retrieval import Mode, Order
from sonde.knowledge.transcripts import Segments, TranscriptFormat
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import MEDIA_TYPES, SOURCES, Source
from sonde.tools.route import Route
from sonde.tools.schema import Param, TokensParam
from sonde.tools.shapes import know
from sonde.tools.tool import declare_signature, declare_tool

QueryParam = Annotated[str, Param("Words or a question", max_length=100_000, terse=True)]
TagsParam = Annotated[
    str, Param("Text, or tags: a list, or with commas", max_length=100_000, lists=True)
]
LimitParam = Annotated[int, Param("Results in a page", minimum=1, maximum=100)]
OffsetParam = Annotated[int, Param("next_offset of the page before", minimum=0)]
PartParam = Annotated[int, Param("next_offset of the part before", minimum=0)]
LengthParam = Annotated[int | None, Param("Characters of text, clamped to 50..1000", minimum=0)]
RetrievalParam = Annotated[
    Mapping[str, object] | None,
    Param(
        "{mode: snippet|chunk|chunk_with_siblings|full|auto, loc (of a result), max_tokens, "
        "snippet_length, sibling_window}"
    ),
]
BriefRetrievalParam = Annotated[
    Mapping[str, object] | None, Param("As of knowledge_get", terse=True)
]
HiddenRetrievalParam = Annotated[
    Mapping[str, object] | None, Param("As of knowledge_get", listed=False)
]
SessionParam = Annotated[
    str | None,
    Param(
        "A session's handle; `new` makes one. The connection's own by default",
        max_length=200,
        listed=False,
    ),
]
IdParam = Annotated[str, Param("Its id", min_length=1, max_length=1000, numbers=True, terse=True)]
SourceParam = Annotated[Source, Param("Where it is from")]


def knowledge_search(
    app: App,
    query: QueryParam,
    limit: LimitParam = 20,
    offset: OffsetParam = 0,
    snippet_length: LengthParam = None,
    sources: Annotated[
        tuple[str, ...], Param("Some of notes, media, chats, characters, prompts; default all")
    ] = (),
    order_by: know.OrderParam = None,
    filters: Annotated[
        Mapping[str, object] | None,
        Param(
            "By source: {media: {media_types, date_from, date_to}, notes: {keywords}, chats: "
            "{by, character_id, sender}, prompts: {fields}}"
        ),
    ] = None,
    dedupe: Annotated[bool, Param("Hold back what this session has seen", terse=True)] = True,
    max_tokens: TokensParam = None,
    session_id: SessionParam = None,
    defaults: Annotated[
        Mapping[str, object] | None,
        Param("Preferences that the session keeps, such as snippet_length", listed=False),
    ] = None,
    *,
    work: Work,
) -> know.KnowAnswer:
    """Search every source at once."""
    session = app.knowledge.open_session(work.caller, session_id, defaults)
    given = filters or {}
    chosen, where = know.choose_sources(sources, SOURCES), know.read_filters(given)
    request = service.KnowledgeRequest(
        "knowledge_search", query, chosen, order_by, where, know.list_recent(given)
    )
    options = service.PageOptions(limit, offset, snippet_length, max_tokens)
    return _answer(app, request, options, work, session, dedupe=dedupe)


def knowledge_get(
    app: App,
    id: Annotated[  # noqa: A002
        str,
        Param("A result's uri, or its id", min_length=1, max_length=1000, numbers=True, terse=True),
    ],
    source: Annotated[Source | None, Param("Where a bare id is from")] = None,
    retrieval: RetrievalParam = None,
    session_id: SessionParam = None,
    *,
    work: Work,
) -> know.GetAnswer:
    """As much of one entry as `retrieval` asks for."""
    session = app.knowledge.open_session(work.caller, session_id)
    found = service.read_entry(app.knowledge, source, id, retrieval, work, session)
    return know.show_content(found, work.caller)


def _declare_search(source: Source, query: Any = QueryParam) -> Callable[..., know.KnowAnswer]:
    """The verb that searches one source: its arguments are the shared ones and its filter's."""
    narrow = know.FILTERS[source]

    def search_source(
        app: App,
        query: str,
        limit: int = 10,
        offset: int = 0,
        snippet_length: int | None = None,
        max_tokens: int | None = None,
        order_by: Order | None = None,
        *,
        work: Work,
        **filters: Any,
    ) -> know.KnowAnswer:
        where = {source: narrow(**filters)}
        request = service.KnowledgeRequest(f"{source}_search", query, (source,), order_by, where)
        options = service.PageOptions(limit, offset, snippet_length, max_tokens)
        return _answer(app, request, options, work)

    hints = get_type_hints(narrow, include_extras=True)
    own = inspect.signature(narrow).parameters.values()
    parameters = {
        "query": (query, inspect.Parameter.empty),
        "limit": (LimitParam, 10),
        "offset": (OffsetParam, 0),
        "snippet_length": (LengthParam, None),
        **{each.name: (hints[each.name], each.default) for each in own},
        "max_tokens": (TokensParam, None),
    }
    return declare_signature(search_source, f"{source}_search", know.KnowAnswer, parameters)


def _declare_get(
    source: Source, id_name: str, mode: Mode, retrieval: Any = BriefRetrievalParam
) -> Callable[..., know.GetAnswer]:
    """The verb that reads one entry of a source, in `mode` unless `retrieval` names another."""

    def get_entry(
        app: App,
        entry: str = "",
        retrieval: Mapping[str, object] | None = None,
        *,
        work: Work,
        **named: str,
    ) -> know.GetAnswer:
        id_, session = named.get(id_name, entry), app.knowledge.open_session(work.caller, None)
        found = service.read_entry(app.knowledge, source, id_, retrieval, work, session, mode)
        return know.show_content(found, work.caller)

    parameters = {id_name: (IdParam, inspect.Parameter.empty), "retrieval": (retrieval, None)}
    return declare_signature(get_entry, f"{source}_get", know.GetAnswer, parameters)


notes_search = _declare_search("notes")
media_search = _declare_search("media")
chats_search = _declare_search("chats")
characters_search = _declare_search("characters", TagsParam)
prompts_search = _declare_search("prompts")
notes_get = _declare_get("notes", "note_id", "snippet")
media_get = _declare_get("media", "media_id", "snippet")
characters_get = _declare_get("characters", "character_id", "full", HiddenRetrievalParam)
prompts_get = _declare_get("prompts", "prompt_id_or_name", "full", HiddenRetrievalParam)


class TranscriptAnswer(TypedDict):
    """What media_transcript answers."""

    content: str | Segments
    next_offset: NotRequired[int]


def media_transcript(
    app: App,
    media_id: IdParam,
    format: Annotated[TranscriptFormat, Param("How it is written")] = "text",  # noqa: A002
    include_timestamps: Annotated[bool, Param("With times", terse=True)] = False,
    offset: PartParam = 0,
    max_tokens: Annotated[
        int | None, Param("Size of a part; 5,000 by default", minimum=1, maximum=20_000)
    ] = None,
    *,
    work: Work,
) -> TranscriptAnswer:
    """What is said in a recording, in parts."""
    options = {"offset": offset, "max_tokens": max_tokens}
    content, behind = service.read_transcript(
        app.knowledge, media_id, format, options, work, timestamps=include_timestamps
    )
    answer: TranscriptAnswer = {"content": content}
    return answer if behind is None else answer | {"next_offset": behind}


def chats_get(
    app: App,
    conversation_id: IdParam,
    page: Annotated[int, Param("Page of messages", minimum=1, maximum=10**6)] = 1,
    page_size: Annotated[int, Param("Messages in a page", minimum=1, maximum=200, clamp=True)] = 50,
    retrieval: BriefRetrievalParam = None,
    *,
    work: Work,
) -> know.GetAnswer:
    """A conversation, page by page, or the messages around one."""
    found = service.read_conversation(
        app.knowledge, conversation_id, retrieval, page, page_size, work
    )
    return know.show_content(found, work.caller)


class AddAnswer(TypedDict):
    """What notes_add answers."""

    uri: str


def notes_add(
    app: App,
    title: Annotated[str, Param("Its title", min_length=1, max_length=500)],
    text: Annotated[str, Param("Markdown", min_length=1, max_length=200_000)],
    tags: Annotated[tuple[str, ...], Param("Words to find it by")] = (),
    *,
    work: Work,
) -> AddAnswer:
    """Keep a new note, if the user lets agents do so."""
    if not (work.caller.is_person or app.lets_agents_write(work.caller.user)):
        raise PermissionDenied(
            f"agents of {work.caller.user} may not add notes",
            user_message="Agents may not add notes here.",
            next_action="The user allows it: `agentNotes` in the settings of sonde, and on a "
            "server also the knowledge page.",
        )
    entry = add_entry(app.knowledge, "notes", title, text, tags, work=work)
    return {"uri": make_uri("notes", entry.id)}


class TypesAnswer(TypedDict):
    """Kinds of media."""

    types: list[str]
    """Those the user has."""
    suggested: list[str]


def list_media_types(app: App, *, work: Work) -> TypesAnswer:
    """The kinds of media that this user has."""
    store = app.knowledge.seen_by(work.caller.user)
    return {"types": store.list_media_types(), "suggested": list(MEDIA_TYPES)}


def read_knowledge_entry(
    app: App,
    source: SourceParam,
    id: IdParam,  # noqa: A002
    offset: PartParam = 0,
    *,
    work: Work,
) -> know.GetAnswer:
    """One entry, from an offset on."""
    options = {"mode": "full", "offset": offset}
    found = service.read_entry(app.knowledge, source, id, options, work)
    return know.show_content(found, work.caller)


def _answer(
    app: App,
    request: service.KnowledgeRequest,
    options: service.PageOptions,
    work: Work,
    session: KnowledgeSession | None = None,
    *,
    dedupe: bool = False,
) -> know.KnowAnswer:
    page = service.search_knowledge(app.knowledge, request, options, work, session, dedupe=dedupe)
    answer = know.show_ranked_page(page, work.caller)
    service.record_shown(app.knowledge, page, len(answer["results"]), work)
    return answer


_declare = partial(declare_tool, "knowledge")

TOOLS = (
    _declare(
        knowledge_search,
        "Search knowledge",
        "Search notes, media, chats, characters and prompts at once. "
        "Pass uri and loc to knowledge_get; search_code is for projects.",
    ),
    _declare(
        knowledge_get,
        "Get knowledge",
        "Read one entry: a snippet, the matching chunk, its neighbours within a budget, or all. "
        "Find entries with knowledge_search.",
    ),
    _declare(
        notes_search,
        "Search notes",
        "Search the user's notes. Prefer knowledge_search when the source is unknown.",
    ),
    _declare(notes_get, "Get a note", "Read one note, a snippet by default."),
    _declare(
        media_search,
        "Search media",
        "Search documents, mails and transcripts by kind and date. "
        "Prefer knowledge_search when the source is unknown.",
    ),
    _declare(media_get, "Get a medium", "Read one document, a snippet by default."),
    _declare(
        media_transcript,
        "Get a transcript",
        "What is said in a recording, as text or subtitles. Prefer media_get for a part of it.",
    ),
    _declare(
        chats_search,
        "Search chats",
        "Search conversations by title and message. "
        "Prefer knowledge_search when the source is unknown.",
    ),
    _declare(
        chats_get,
        "Get a chat",
        "Read a conversation by page, or the messages around one (retrieval.loc).",
    ),
    _declare(characters_search, "Search characters", "Search character cards by text or tags."),
    _declare(characters_get, "Get a character", "Read one character with all fields."),
    _declare(prompts_search, "Search prompts", "Search saved prompts."),
    _declare(prompts_get, "Get a prompt", "Read one prompt by id or name, all fields."),
    _declare(
        notes_add,
        "Add a note",
        "Keep a new note in the user's knowledge. Look for one with notes_search first.",
        read_only=False,
        idempotent=False,
        listed=False,
    ),
)

ROUTES = (
    Route("search/knowledge", knowledge_search, "Notes, media, chats, characters and prompts"),
)
ENTRY_ROUTES = (
    Route("knowledge", knowledge_get, "As much of an entry as is asked for, by its `uri`"),
    Route("knowledge/media/types", list_media_types, "The kinds of media there are"),
    Route("knowledge/{source}/{id}", read_knowledge_entry, "A note, a document, a chat and so on"),
)
