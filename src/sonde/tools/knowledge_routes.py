"""Addresses of personal knowledge: what kinds of media there are, and each entry."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from sonde.app import App
from sonde.stores.knowledge_base import Source
from sonde.tools.arguments import Param
from sonde.tools.knowing import answer_get
from sonde.tools.knowledge import IdParam
from sonde.tools.route import Route
from sonde.tools.shapes.know import GetAnswer
from sonde.work import Work

SUGGESTED = (
    "video", "audio", "podcast", "pdf", "epub", "docx", "pptx", "html", "markdown", "txt", "image",
    "article",
)  # fmt: skip


class TypesAnswer(TypedDict):
    """Kinds of media."""

    types: list[str]
    """Those there are."""
    suggested: list[str]


def list_media_types(app: App, *, work: Work) -> TypesAnswer:
    """The kinds of media that this user has."""
    store = app.knowledge.of(work.caller.user)
    return {"types": store.list_media_types(), "suggested": list(SUGGESTED)}


def read_entry(
    app: App,
    source: Annotated[Source, Param("Where it is from")],
    id: IdParam,  # noqa: A002
    offset: Annotated[int, Param("next_offset of the part before", minimum=0)] = 0,
    *,
    work: Work,
) -> GetAnswer:
    """One entry, from an offset on."""
    options: dict[str, Any] = {"mode": "full", "offset": offset}
    return answer_get(app, source, id, options, work)


KNOWLEDGE_ROUTES = (
    Route("knowledge/media/types", list_media_types, "The kinds of media there are"),
    Route("knowledge/{source}/{id}", read_entry, "A note, a document, a chat and so on"),
)
