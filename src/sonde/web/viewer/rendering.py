"""Markdown and notebooks as safe HTML: rendered by markdown-it, sanitised by nh3.

The text is not trusted: scripts, styles, forms, frames, handlers and all classes except our own are
dropped, and ids are replaced. Pictures are only loaded from this server.
"""

from __future__ import annotations

import json
import posixpath
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from sonde.text.languages import find_language
from sonde.text.syntax_highlighting import highlight_code
from sonde.types import Json
from sonde.web.pages.html import Markup, join, link_to, show_tokens, tag

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_TAGS = frozenset(
    "a abbr b blockquote br caption cite code col colgroup dd del details dfn div dl dt em "
    "figcaption figure h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p picture pre q rp rt ruby s "
    "samp small span strike strong sub summary sup table tbody td tfoot th thead tr tt u ul var "
    "wbr".split()
)
_ATTRIBUTES = {
    "*": {"id", "title", "dir", "lang", "class"},
    "a": {"href"},
    "img": {"src", "alt", "width", "height"},
    "td": {"align", "colspan", "rowspan"},
    "th": {"align", "colspan", "rowspan", "scope"},
    "ol": {"start"},
    "p": {"align"},
    "div": {"align"},
    "h1": {"align"},
    "details": {"open"},
}
_CLASS = re.compile(r"(?:c-[a-z]+|task|on|meta)")
"""Those that we write ourselves."""
_TASK = re.compile(r"\[([ xX])\]\s+")
_HEADING = re.compile(r"[^\w\- ]+")
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)\r?\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_NAMELESS = re.compile(r"<img (?![^>]*\balt=)")
_WEB_SCHEMES = {"http", "https", "mailto"}
_DATA_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+")
_MAX_CELLS = 2_000  # a notebook with more is generated, and too long to read


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """The base of a document's links and pictures; without a project they lead nowhere."""

    project: str
    path: str

    def resolve(self, address: str) -> str | None:
        """The path in the project that a relative address names; None if it leads out of it."""
        plain = unquote(urlsplit(address).path)
        base = "" if plain.startswith("/") else posixpath.dirname(self.path)
        path = posixpath.normpath(posixpath.join(base, plain.lstrip("/")))
        return None if path.startswith("..") else "" if path == "." else path

    def link(self, address: str) -> str | None:
        """The target of a link: elsewhere on the web, or the page of a file on this server."""
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            return address if parts.scheme in _WEB_SCHEMES else None
        if address.startswith("#"):
            return address
        path = self.resolve(address) if self.project else None
        if path is None:
            return None
        mark = f"#{parts.fragment}" if parts.fragment else ""
        return link_to("/view", project=self.project, path=path or "/") + mark

    def link_picture(self, address: str) -> str | None:
        """The address of a picture in the document itself, or on this server."""
        if _DATA_PICTURE.fullmatch(address):
            return address
        parts = urlsplit(address)
        is_ours = self.project and not (parts.scheme or parts.netloc)
        path = self.resolve(address) if is_ours else None
        return link_to("/original", project=self.project, path=path) if path else None


@cache
def _load_markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    for kind in ("fence", "code_block"):
        markdown.add_render_rule(kind, _render_code)
    return markdown


def render_markdown(text: str, place: DocumentPlace, on: tuple[int, int] = (0, 0)) -> Markup:
    """A document; the blocks with the lines `on` are marked, and the first is named `L<line>`."""
    ours = secrets.token_hex(8)  # no document can guess it, so every id that has it is ours
    front = _FRONT.match(text)
    skipped = text.count("\n", 0, front.end()) if front else 0
    markdown = _load_markdown()
    tokens = markdown.parse(text[front.end() :] if front else text)
    if tokens:
        _mark_lines(tokens, on, skipped, ours)
    _name_headings(tokens, ours)
    _mark_tasks(tokens)
    for token in tokens:
        if token.type in ("th_open", "td_open") and "style" in token.attrs:
            token.attrSet("align", str(token.attrs.pop("style")).removeprefix("text-align:"))
    head = tag("pre", tag("code", front[1]), class_="meta") if front else ""
    body = markdown.renderer.render(tokens, markdown.options, {})
    return Markup(head + _sanitise(body, place, ours))


def _render_code(_self: object, tokens: Sequence[Token], index: int, *_: object) -> str:
    token = tokens[index]
    language = token.info.strip().partition(" ")[0].strip("{}.").partition(",")[0]
    named = {key: value for key, value in token.attrs.items() if key in ("id", "class")}
    return tag("pre", tag("code", _show_code(token.content, language)), **named)


def _show_code(text: str, language: str) -> Markup:
    lines = highlight_code(text.removesuffix("\n"), find_language(language) or "text")
    return join([show_tokens(line), "\n"] for line in lines)


def _mark_lines(tokens: list[Token], on: tuple[int, int], skipped: int, ours: str) -> None:
    """Mark the blocks with these lines, and put the name of the first line before them."""
    first, last = on
    marked = [
        token for token in tokens
        if token.map and not token.level and token.nesting >= 0
        and token.map[0] + 1 + skipped <= last and token.map[1] + skipped >= first
    ]  # fmt: skip
    for token in marked:
        token.attrJoin("class", "on")
    if first:
        name = type(tokens[0])("html_block", "", 0, content=f'<span id="{ours}L{first}"></span>')
        tokens.insert(tokens.index(marked[0]) if marked else 0, name)


def _name_headings(tokens: Sequence[Token], ours: str) -> None:
    """Ids as other viewers make them, so that links within a document work."""
    seen: dict[str, int] = {}
    for opening, inner in pairwise(tokens):
        if opening.type != "heading_open":
            continue
        plain = "".join(each.content for each in inner.children or () if each.type != "html_inline")
        opening.attrSet("id", ours + name_heading(plain, seen))


def name_heading(title: str, seen: dict[str, int]) -> str:
    """The id of a heading; `seen` counts those of the document."""
    slug = _HEADING.sub("", title.strip().lower()).replace(" ", "-") or "section"
    count = seen[slug] = seen.get(slug, 0) + 1
    return f"{slug}-{count - 1}" if count > 1 else slug


def _mark_tasks(tokens: Sequence[Token]) -> None:
    for item, inner in zip(tokens, tokens[2:], strict=False):
        if item.type != "list_item_open" or inner.type != "inline" or not inner.children:
            continue
        first = inner.children[0]
        if found := _TASK.match(first.content):
            item.attrJoin("class", "task")
            first.content = f"{'☐' if found[1] == ' ' else '☑'} {first.content[found.end() :]}"


def _sanitise(html: str, place: DocumentPlace, ours: str = "") -> str:
    import nh3

    def keep(_element: str, attribute: str, value: str) -> str | None:
        if attribute == "id":
            return value.removeprefix(ours) if ours and value.startswith(ours) else None
        if attribute == "class":
            return " ".join(each for each in value.split() if _CLASS.fullmatch(each)) or None
        if attribute == "src":
            return place.link_picture(value)
        return place.link(value) if attribute == "href" else value

    clean = nh3.clean(
        html.encode("utf-8", "replace").decode(),
        tags=set(_TAGS),
        clean_content_tags={"script", "style", "title", "textarea", "noscript", "svg", "math"},
        attributes=_ATTRIBUTES,
        attribute_filter=keep,
        url_schemes={*_WEB_SCHEMES, "data"},
        link_rel="noopener noreferrer nofollow",
    )
    return _NAMELESS.sub('<img alt="" ', clean)


def render_notebook(text: str, place: DocumentPlace) -> Markup | None:
    """The cells of a Jupyter notebook with their outputs; None if the text is none."""
    try:
        book = json.loads(text)
    except (ValueError, RecursionError):
        return None
    cells = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(cells, list):
        return None
    facts = book.get("metadata")
    kernel = facts.get("kernelspec") if isinstance(facts, dict) else None
    language = str(kernel.get("language") or "python") if isinstance(kernel, dict) else "python"
    known = [cell for cell in cells[:_MAX_CELLS] if isinstance(cell, dict)]
    shown = [_show_cell(cell, language, place) for cell in known]
    return tag("div", shown, class_="notebook")


def _show_cell(cell: Json, language: str, place: DocumentPlace) -> Markup:
    source = _join(cell.get("source"))
    if cell.get("cell_type") == "markdown":
        return tag("div", render_markdown(source, place), class_="cell prose")
    number = cell.get("execution_count")
    outputs = [each for each in cell.get("outputs") or () if isinstance(each, dict)]
    return tag(
        "div",
        tag("span", f"[{number if isinstance(number, int) else ' '}]", class_="count"),
        tag("pre", tag("code", _show_code(source, language)), class_="source", tabindex="0"),
        [_show_output(each, place) for each in outputs],
        class_="cell",
    )


def _show_output(output: Json, place: DocumentPlace) -> Markup | None:
    """An output as its best form: a picture, sanitised HTML, or text."""
    if "text" in output:
        return tag("pre", _join(output["text"]), class_="output", tabindex="0")
    if output.get("output_type") == "error":
        lines = re.sub(r"\x1b\[[0-9;]*m", "", _join(output.get("traceback"), "\n"))
        return tag("pre", lines, class_="output failed", tabindex="0")
    found = output.get("data")
    data: Mapping[str, object] = found if isinstance(found, dict) else {}
    for kind in ("image/png", "image/jpeg"):
        if kind in data:
            address = f"data:{kind};base64,{''.join(_join(data[kind]).split())}"
            if _DATA_PICTURE.fullmatch(address):
                return tag("img", src=address, alt="Output of the cell", class_="output")
    if "text/html" in data:
        html = Markup(_sanitise(_join(data["text/html"]), place))
        return tag("div", html, class_="output prose", tabindex="0")
    plain = _join(data.get("text/plain"))
    return tag("pre", plain, class_="output", tabindex="0") if plain else None


def _join(value: object, between: str = "") -> str:
    if isinstance(value, list):
        return between.join(map(str, value))
    return value if isinstance(value, str) else ""
