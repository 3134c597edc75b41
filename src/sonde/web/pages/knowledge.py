"""The pages of personal knowledge: entries by source, tag and date, and one entry rendered."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from starlette.responses import Response

from sonde.app import App
from sonde.errors import EntryMissing, PermissionDenied
from sonde.knowledge.formats import BY_TESSERACT, LEFT_OUT
from sonde.knowledge.getting import find_entry
from sonde.knowledge.ranking import make_uri
from sonde.knowledge.service import KnowledgeRequest, PageOptions, search_knowledge
from sonde.knowledge.upload_jobs import MAX_UPLOAD_FILES
from sonde.policy.read import open_shown
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import SOURCES, Conditions, Entry, Source
from sonde.text.formats import count_of, read_day_end, read_time, show_time
from sonde.text.highlight import find_query_words
from sonde.tools.research import fetch
from sonde.tools.schema import Param
from sonde.tools.shapes.know import show_ranked_page
from sonde.types import LOCAL, Content, Json
from sonde.web.guard import MAX_UPLOAD_BYTES, UPLOADS
from sonde.web.pages import html
from sonde.web.pages.html import Markup, frame, join, link_to, show_icon, show_note, tag
from sonde.web.results.groups import mark_words
from sonde.web.viewer.rendering import DocumentPlace, render_markdown

_SHOWN = 30  # entries of a page: a few screens
_LISTED = 2_000  # heads of each source that are looked through: the newest
_SHOWN_TAGS = 24  # the commonest; a longer list is searched, not read
_OPENING_CHARS = 240  # of an entry in a list: three lines
_ANSWER_TOKENS = 20_000  # enough for a page of snippets
_MAX_PICTURE_BYTES = 8 << 20  # 8 MiB: it is held in memory and sent whole
_SIGNS = re.compile(r"^#+ .*\n|[#*`>|]+|\[[ xX]\]")
"""Markdown to drop from excerpts: a first heading that repeats the title, and pure markup."""
_PNG = b"\x89PNG\r\n\x1a\n"
_ICONS: Mapping[str, str] = {
    "notes": "sticky-note", "media": "file-text", "chats": "message-square",
    "characters": "user", "prompts": "terminal",
}  # fmt: skip

Text = Annotated[str, Param("As in the form", max_length=1000)]
UriParam = Annotated[str, Param("Of a result", min_length=1, max_length=5000)]


@dataclass(frozen=True, slots=True)
class KnowledgeForm:
    """The fields of the page."""

    query: str = ""
    source: str = ""
    label: str = ""
    since: str = ""
    until: str = ""

    def link(self, **changes: object) -> str:
        """The address of the same list with some fields changed."""
        kept = {"q": self.query, "source": self.source, "label": self.label,
                "since": self.since, "until": self.until}  # fmt: skip
        return link_to("/knowledge", **(kept | changes))

    @property
    def conditions(self) -> Conditions:
        """The fields as conditions of a search."""
        since = read_time(self.since) if self.since else None
        until = read_day_end(self.until) if self.until else None
        return Conditions(tags=(self.label,) if self.label else (), since=since, until=until)


def show_knowledge(
    app: App,
    q: Annotated[str, Param("What to look for", max_length=20_000)] = "",
    source: Text = "",
    label: Annotated[str, Param("Only with this tag", max_length=200)] = "",
    since: Text = "",
    until: Text = "",
    offset: Annotated[int, Param("Entries before", minimum=0, maximum=1_000_000)] = 0,
    *,
    work: Work,
) -> Content:
    """Every entry, newest first, or those that a query finds."""
    store = app.knowledge.seen_by(work.caller.user)
    asked = KnowledgeForm(q.strip(), source if source in SOURCES else "", label, since, until)
    heads = {each: store.list_newest(each, _LISTED) for each in SOURCES}
    if not any(heads.values()):
        return frame("Knowledge", "/knowledge", tag("h1", "Knowledge"), _show_nothing(),
                     _show_upload(app, work, is_open=True), kind="knowledge")  # fmt: skip
    chosen: tuple[Source, ...] = tuple(each for each in SOURCES if asked.source in ("", each))
    if asked.query:
        rows, total, after = _search(app, asked, chosen, offset, work)
    else:
        where = asked.conditions
        found = sorted((entry for each in chosen for entry in heads[each] if _fits(entry, where)),
                       key=lambda entry: -entry.last_modified)  # fmt: skip
        total, page = len(found), found[offset : offset + _SHOWN]
        rows = [_describe_entry(app, entry, work) for entry in page]
        after = offset + _SHOWN if offset + _SHOWN < total else None
    listed = tag("ol", [_show_row(row, asked) for row in rows], class_="entries")
    return frame(
        "Knowledge",
        "/knowledge",
        tag("h1", "Knowledge", class_="hidden"),
        _show_form(asked),
        tag("div",
            _show_facets(asked, heads),
            tag("section",
                tag("p", tag("strong", f"{total:,}"), " entr" + ("y" if total == 1 else "ies"),
                    class_="summary"),
                listed if rows else show_note("Nothing matches", tag("p", tag(
                    "a", "Show everything", href="/knowledge"))),
                tag("nav", tag("a", "More", href=asked.link(offset=after), rel="next"),
                    class_="ways", aria_label="Pages") if after else None,
                aria_label="Entries"),
            class_="with-facets"),
        _show_upload(app, work),
        kind="knowledge",
    )  # fmt: skip


def _fits(entry: Entry, where: Conditions) -> bool:
    return (
        {each.lower() for each in where.tags} <= {each.lower() for each in entry.tags}
        and (where.since is None or entry.created_at >= where.since)
        and (where.until is None or entry.created_at <= where.until)
    )


def _search(
    app: App, asked: KnowledgeForm, sources: Sequence[Source], offset: int, work: Work
) -> tuple[list[Json], int, int | None]:
    where = dict.fromkeys(sources, asked.conditions)
    request = KnowledgeRequest("knowledge_search", asked.query, tuple(sources), None, where)
    options = PageOptions(_SHOWN, offset, _OPENING_CHARS, _ANSWER_TOKENS)
    answer = show_ranked_page(search_knowledge(app.knowledge, request, options, work), work.caller)
    return answer["results"], answer["total_estimated"] or 0, answer["next_offset"]


def _describe_entry(app: App, entry: Entry, work: Work) -> Json:
    """An entry of the list in the shape of a result."""
    store = app.knowledge.seen_by(work.caller.user)
    opening = " ".join(piece.text for piece in store.read_pieces(entry.source, entry.id, 0, 1))
    opening = _SIGNS.sub("", opening).strip()
    return {
        "source": entry.source, "title": entry.title, "tags": list(entry.tags),
        "uri": make_uri(entry.source, entry.id), "snippet": opening[:_OPENING_CHARS],
        "last_modified": show_time(entry.last_modified), "media_type": entry.media_type,
    }  # fmt: skip


def _show_row(row: Json, asked: KnowledgeForm) -> Markup:
    source, title = str(row["source"]), str(row["title"] or row["uri"])
    snippet = str(row["snippet"] or "").removeprefix(f"# {title} ")
    opening = mark_words(snippet, find_query_words(asked.query))
    link = tag("a", title, href=link_to("/entry", uri=row["uri"]), class_="open")
    tags = [tag("a", f"#{each}", href=asked.link(label=each), class_="tag")
            for each in row.get("tags") or ()]  # fmt: skip
    face = (
        _show_face(str(row["uri"]), title) if source == "characters" else show_icon(_ICONS[source])
    )
    return tag(
        "li", tag("span", face, class_="face"),
        tag("div",
            tag("h2", link, tag("span", row.get("media_type") or source, class_="badge")),
            tag("p", opening, class_="opening") if snippet else None,
            _show_duplicates(row),
            tag("p", tags, html.show_age(row["last_modified"]) if row["last_modified"] else None,
                class_="facts")),
    )  # fmt: skip


def _show_duplicates(row: Json) -> Markup | None:
    named = [(", ", tag("a", each["file"], href=link_to("/entry", uri=each["uri"])))
             for each in row.get("duplicates", ())]  # fmt: skip
    more = row.get("duplicates_total", 0) - len(named)
    parts = [part for pair in named for part in pair][1:] + [f" and {more:,} more"] * bool(more)
    return tag("p", "also in: ", parts, class_="facts") if named else None


def _show_face(uri: str, name: str) -> Markup:
    """A character's picture, or its initial if there is none."""
    picture = tag("img", src=link_to("/entry/picture", uri=uri), alt="", loading="lazy")
    return tag("span", name[:1].upper(), picture, class_="portrait", aria_hidden="true")


def _show_form(asked: KnowledgeForm) -> Markup:
    return tag(
        "form",
        html.hidden_fields(source=asked.source, label=asked.label),
        tag("div", show_icon("search"),
            tag("input", type="search", name="q", id="q", value=asked.query, maxlength=20_000,
                placeholder="Notes, documents, chats, characters, prompts", autocomplete="off",
                aria_label="Search knowledge", enterkeyhint="search"),
            tag("button", "Search"), class_="search-line"),
        tag("div",
            tag("label", "From ", tag("input", type="date", name="since", value=asked.since,
                                      class_="field")),
            tag("label", "to ", tag("input", type="date", name="until", value=asked.until,
                                    class_="field")), class_="dates"),
        action="/knowledge", role="search", class_="knowledge-form",
    )  # fmt: skip


def _show_facets(asked: KnowledgeForm, heads: Mapping[Source, Sequence[Entry]]) -> Markup:
    sources = [
        tag("li", tag("a", show_icon(_ICONS[each]), tag("span", each),
                      tag("small", f"{len(rows):,}"), href=asked.link(
                          source="" if asked.source == each else each),
                      aria_current="true" if asked.source == each else None))
        for each, rows in heads.items() if rows
    ]  # fmt: skip
    counts = Counter(
        name for each, rows in heads.items() if asked.source in ("", each)
        for entry in rows for name in entry.tags
    )  # fmt: skip
    names = dict.fromkeys([*([asked.label] if asked.label else []),
                           *(name for name, _ in counts.most_common(_SHOWN_TAGS))])  # fmt: skip
    tags = [
        tag("a", f"#{name}", tag("small", counts[name]), class_="tag",
            href=asked.link(label="" if asked.label == name else name),
            aria_current="true" if asked.label == name else None)
        for name in names
    ]  # fmt: skip
    return tag(
        "nav", tag("h2", "Source"), tag("ul", sources),
        [tag("h2", "Tags"), tag("p", tags, class_="tags")] if tags else None,
        class_="facets", aria_label="Filters",
    )  # fmt: skip


def _show_nothing() -> Markup:
    return show_note(
        "No notes, documents or chats yet",
        tag("p", "Add files below, or import a folder on the server's machine: notes, PDFs, mails, "
                 "exported chats, character cards, prompts."),
        tag("pre", tag("code", "sonde knowledge import FOLDER")),
    )  # fmt: skip


def _show_upload(app: App, work: Work, *, is_open: bool = False) -> Markup:
    """The upload form, and what the user allows agents to do."""
    user = work.caller.user
    names = sorted({*app.knowledge.list_filled(user)} - {user})
    choices = [tag("option", "your own", value=""),
               [tag("option", each, value=each) for each in names]]  # fmt: skip
    form = tag(
        "form",
        tag("label", "Files, or a zip of a folder ",
            tag("input", type="file", name="file", multiple=True, required=True, class_="field")),
        tag("label", "Into ", tag("select", choices, name="into", class_="field"))
        if names else None,
        tag("label", tag("input", type="checkbox", name="restore", value="1"),
            " bring back what was deleted here"),
        tag("button", "Add"),
        tag("p", f"At most {MAX_UPLOAD_BYTES >> 20} MiB and {MAX_UPLOAD_FILES:,} files at a time. "
                 "Sending a file again updates it.", class_="faint"),
        method="post", action=UPLOADS[0], enctype="multipart/form-data", class_="sheet",
    )  # fmt: skip
    return tag("details", tag("summary", "Add files"), form, _show_consent(app, user),
               class_="upload", open=is_open)  # fmt: skip


def _show_consent(app: App, user: str) -> Markup | None:
    """The button with which a user lets agents add notes, if the operator allows it."""
    if user == LOCAL or not app.knowledge.agent_notes:
        return None
    lets = app.lets_agents_write(user)
    words = "Agents may add notes." if lets else "Agents may not add notes."
    name, lets_next = ("Do not allow", "") if lets else ("Allow", "yes")
    return tag("div", tag("p", words), html.show_button("/knowledge/agents", name, lets=lets_next))


def let_agents(app: App, lets: Text = "", *, work: Work) -> Response:
    """Allow or forbid agents to add notes; only a signed-in person can."""
    if not work.caller.is_person:
        raise PermissionDenied(
            "a program", user_message="Only a person can change this.",
            next_action="Sign in with a browser and change it on the page of knowledge.",
        )  # fmt: skip
    app.let_agents_write(work.caller.user, lets=bool(lets))
    return html.redirect_to("/knowledge")


def show_entry_page(
    app: App,
    uri: UriParam,
    offset: Annotated[int, Param("Where to go on", minimum=0)] = 0,
    view: Annotated[Literal["source"] | None, Param("As written")] = None,
    *,
    work: Work,
) -> Content:
    """One entry, rendered; as written with `view=source`."""
    retrieval = {"mode": "full", "offset": offset} if offset else None
    answer = fetch(app, uri, None, retrieval, work=work)
    meta = answer["meta"]
    title, source = str(meta.get("title") or uri), str(meta["source"])
    tags = [tag("a", f"#{each}", href=link_to("/knowledge", label=each), class_="tag")
            for each in meta.get("tags") or ()]  # fmt: skip
    modified, lost = meta.get("last_modified"), meta.get(LEFT_OUT) or {}
    said = [meta.get("author"), *(f"{count_of(n, kind)} left out" for kind, n in lost.items())]
    said += [f"{meta[BY_TESSERACT]} read by tesseract"] if meta.get(BY_TESSERACT) else []
    switch = tag(
        "nav",
        tag("a", "Rendered", href=link_to("/entry", uri=uri), data_key="r",
            aria_current=None if view else "true"),
        tag("a", "Source", href=link_to("/entry", uri=uri, view="source"), data_key="r",
            aria_current="true" if view else None), class_="switch", aria_label="View",
    )  # fmt: skip
    head = tag(
        "div",
        tag("div", tag("h1", _show_face(uri, title) if source == "characters" else None, title),
            tag("p", tag("a", source, href=link_to("/knowledge", source=source), class_="badge"),
                tags, html.show_age(str(modified)) if modified else None,
                " · ".join(map(str, filter(None, said))), class_="facts"),
            class_="where"),
        tag("div", switch, class_="tools"), class_="head split",
    )  # fmt: skip
    after = answer.get("next_offset")
    way = link_to("/entry", uri=uri, offset=after, view=view)
    more = tag("nav", tag("a", "Next part", href=way), class_="ways") if after is not None else None
    body = _show_content(answer["content"], is_source=view is not None)
    return frame(title, "/knowledge", head, body, more, kind="entry")


def _show_text(text: str, *, is_source: bool) -> Markup:
    if is_source:
        return tag("pre", text, class_="prose plain", tabindex="0")
    place = DocumentPlace("", "")
    return tag("div", render_markdown(text, place), class_="prose entry-text")


def _show_content(content: str | Mapping[str, object], *, is_source: bool) -> Markup:
    if isinstance(content, str):
        return _show_text(content, is_source=is_source)
    messages = content.get("messages")
    if isinstance(messages, list):
        people = list(dict.fromkeys(str(each.get("sender") or "?") for each in messages))
        return tag("div", [
            _show_message(each, people, is_source=is_source) for each in messages
        ], class_="conversation")  # fmt: skip
    return join(
        tag("section", tag("h2", name.replace("_", " ")),
            _show_text(str(value), is_source=is_source), class_="field-of")
        for name, value in content.items() if value
    )  # fmt: skip


def _show_message(message: Json, people: Sequence[str], *, is_source: bool) -> Markup:
    """A message; the first who speaks is on one side, all others on the other."""
    sender, sent = str(message.get("sender") or "?"), message.get("created_at")
    number = str(message.get("message_index", ""))
    return tag(
        "article",
        tag("h2", tag("span", sender[:1].upper(), class_="portrait", aria_hidden="true"), sender,
            html.show_age(str(sent)) if sent else None),
        _show_text(str(message["content"]), is_source=is_source),
        class_=f"message {'mine' if people.index(sender) == 0 else 'theirs'}",
        id=f"m{number}" if number else None,
    )  # fmt: skip


def send_picture(app: App, uri: UriParam, *, work: Work) -> Response:
    """The picture that a character was imported from, if it still exists and may be read."""
    entry = find_entry(app.knowledge.of(work.caller.user), "characters", uri, pieces=False)
    root = Path(entry.origin or "/")
    if not entry.origin or not entry.path.lower().endswith(".png") or "!" in entry.path:
        raise EntryMissing(f"{uri} has no picture", what="picture", id=uri)
    base = root.parent if root.suffix.lower() == ".png" else root
    if not app.workspace.reach.includes(base):
        raise app.workspace.reach.make_refusal("Add it to")
    with closing(open_shown(base, entry.path)) as file:
        data = b"".join(file.read(0, min(file.size, _MAX_PICTURE_BYTES)))
    if not data.startswith(_PNG):
        raise EntryMissing(f"{uri} is no picture any more", what="picture", id=uri)
    headers = {"content-security-policy": "sandbox; default-src 'none'",
               "cache-control": "private, max-age=300"}  # fmt: skip
    return Response(data, 200, headers, "image/png")
