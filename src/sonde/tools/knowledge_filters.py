"""The filters of each source of knowledge, as arguments and inside `filters`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from sonde.errors import InvalidRequest
from sonde.knowledge.times import read_day_end, read_time
from sonde.stores.knowledge_base import ANYTHING, SOURCES, Conditions, Source
from sonde.tools.arguments import Param, bind
from sonde.tools.tool import read_arguments

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
