"""HTML as text, with headings, lists, tables and links written as in Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

from sonde.knowledge.formats import MAX_URL_CHARS

_META = {
    "og:url": "url", "og:type": "type", "article:published_time": "created", "title": "title",
    "article:modified_time": "modified", "datepublished": "created", "datemodified": "modified",
    "date": "date", "dc.date": "date", "dcterms.date": "date", "keywords": "keywords",
    "author": "author",
    "article:author": "author", "dc.creator": "author", "og:title": "og_title",
    "parsely-pub-date": "created", "parsely-author": "author", "citation_author": "author",
}  # fmt: skip
"""Names of metadata in the head of a page -> names in front matter."""
_CHARSET = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?([\w.:-]{2,40})""",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_OPEN = re.compile(r"<(?=[^<>]*+(?:<|\Z))")
MAX_OPEN_TAGS = 200  # unclosed tags, for each of which the parser scans the rest of the text
MAX_DEPTH = 150  # of nested elements; deeper ones count as children of this depth
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_BLOCKS = frozenset(
    "address article aside blockquote body dd details div dl dt fieldset figcaption figure footer "
    "form h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section summary table ul".split()
)
_HIDDEN = frozenset("script style noscript template svg head select button iframe object".split())
_NAMING = ("a", "span", "p")  # elements that may contain an author
_CLOSES = {"li": {"li"}, "dt": {"dt", "dd"}, "dd": {"dt", "dd"}, "tr": {"tr", "td", "th"},
           "td": {"td", "th"}, "th": {"td", "th"}, "option": {"option"}}  # fmt: skip
"""Elements closed by the start of another one."""
_FRAMES = {"li": {"ul", "ol", "menu"}, "dt": {"dl"}, "dd": {"dl"}, "tr": {"table"},
           "td": {"table"}, "th": {"table"}, "option": {"select"}}  # fmt: skip


@dataclass(slots=True)
class Element:
    """An element of a page."""

    tag: str
    given: Mapping[str, str] = field(default_factory=dict)
    inside: list[Element | str] = field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        """The element and its descendants, in order."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += [each for each in reversed(node.inside) if isinstance(each, Element)]

    def text(self) -> str:
        """The visible text."""
        parts: list[str] = []
        waiting: list[Element | str] = [self]
        while waiting:
            each = waiting.pop()
            if isinstance(each, str):
                parts.append(each)
            elif each.tag not in _HIDDEN:
                waiting += reversed(each.inside)
        return " ".join("".join(parts).split())


class _Builder(HTMLParser):
    """HTML -> a tree, with the error recovery of browsers."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("html")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("html", "body"):
            self.root.given = {**self.root.given, **{name: value or "" for name, value in attrs}}
            self._close("head")
            return
        if tag in _BLOCKS:
            self._close("head")
            if self._open[-1].tag == "p":
                self._open.pop()
        if tag in _CLOSES:
            self._close_sibling(_CLOSES[tag], _FRAMES[tag])
        node = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].inside.append(node)
        if tag not in _VOID and len(self._open) < MAX_DEPTH:
            self._open.append(node)

    def _close_sibling(self, siblings: set[str], frames: set[str]) -> None:
        for at in range(len(self._open) - 1, 0, -1):
            if self._open[at].tag in frames:
                return
            if self._open[at].tag in siblings and not any(
                node.tag in siblings for node in self._open[max(1, at - 2) : at]
            ):
                del self._open[at:]
                return

    def _close(self, tag: str) -> None:
        for at in range(len(self._open) - 1, 0, -1):
            if self._open[at].tag == tag:
                del self._open[at:]
                return

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID and self._open[-1].tag == tag:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        self._close(tag)

    def handle_data(self, data: str) -> None:
        self._open[-1].inside.append(data)


class TextWriter:
    """A tree -> Markdown."""

    def __init__(self, base: str = "") -> None:
        self._base = base
        self.parts: list[str] = []

    def write(self, node: Element, *, inline: bool = False) -> None:
        """Append the text of an element to `parts`."""
        tag = node.tag
        if tag in _HIDDEN:
            return
        gap = "" if inline else "\n\n" if tag == "p" or tag[0] == "h" else "\n"
        if tag == "br":
            self.parts.append(" " if inline else "\n")
        elif tag == "img":
            self.parts.append(f" {node.given['alt']} " if node.given.get("alt") else "")
        elif tag == "pre":
            text = _raw_text(node).strip("\n")
            self.parts.append("\n" + "".join(f"\0{line}\n" for line in text.split("\n")))
        elif tag == "a":
            self._link(node)
        elif tag == "table" and not inline:
            self._table(node)
        elif tag in ("ol", "ul", "menu") and not inline:
            self._list(node)
        elif tag in ("sup", "sub", "td", "th", "textarea", "input"):
            self._inside(node, inline=inline)
        elif tag in _BLOCKS:
            mark = "#" * int(tag[1]) + " " if len(tag) == 2 and tag[1] in "123456" else ""
            self.parts.append(gap + (mark if node.text() and not inline else "") or " ")
            self._inside(node, inline=inline or bool(mark))
            self.parts.append(gap or " ")
        else:
            self._inside(node, inline=inline)

    def _inside(self, node: Element, *, inline: bool) -> None:
        for each in node.inside:
            if isinstance(each, str):
                self.parts.append(re.sub(r"\s+", " ", each.replace("\0", "")))
            else:
                self.write(each, inline=inline)

    def _link(self, node: Element) -> None:
        href = node.given.get("href", "").strip()
        target = urljoin(self._base, href) if href else ""
        blocks = any(each.tag in _BLOCKS for each in node.walk())
        at = len(self.parts)
        self._inside(node, inline=False)
        shown = "".join(self.parts[at:])
        if "noteref" in node.given.get("role", "") or "footnote-ref" in node.given.get("class", ""):
            self.parts[at:] = [f"[{shown.strip()}]"]
            return
        if blocks or not shown.strip() or not target.lower().startswith(("http", "mailto:")):
            return
        flat = shown.strip()
        plain = target.removeprefix("mailto:")[:MAX_URL_CHARS]
        link = f"{flat} <{plain}>" if "(" in plain or ")" in plain else f"[{flat}]({plain})"
        if flat != plain:
            self.parts[at:] = [shown.replace(flat, link)]

    def _list(self, node: Element) -> None:
        self.parts.append("\n")
        start = node.given.get("start", "1")
        number = int(start) if start.isdigit() and len(start) < 9 else 1
        for each in node.inside:
            if isinstance(each, str):
                self.parts.append(each if each.strip() else "")
            elif each.tag == "li":
                self.parts.append(f"\n{number}. " if node.tag == "ol" else "\n- ")
                self._item(each)
                number += 1
            else:
                self.write(each)
        self.parts.append("\n")

    def _item(self, node: Element) -> None:
        """An item, whose first paragraph follows its bullet."""
        at = len(self.parts)
        self._inside(node, inline=False)
        first = next((n for n in range(at, len(self.parts)) if self.parts[n].strip()), None)
        if first is not None:
            self.parts[at:first] = [" "]
            self.parts[at + 1] = self.parts[at + 1].lstrip("\n")

    def _table(self, node: Element) -> None:
        own = [each for each in node.inside if isinstance(each, Element)]
        rows = [each for each in own if each.tag == "tr"]
        for group in own:
            if group.tag in ("thead", "tbody", "tfoot"):
                rows += [
                    each for each in group.inside if isinstance(each, Element) and each.tag == "tr"
                ]
            elif group.tag == "caption":
                self.write(group)
        self.parts.append("\n")
        for row in rows:
            cells = [each for each in row.inside if isinstance(each, Element)]
            nested = any(
                sum(each.tag in ("p", "div", "table", "ul", "ol") for each in cell.walk()) > 1
                for cell in cells
            )
            for at, cell in enumerate(cells):
                self.parts.append("\n" if nested else " | " if at else "")
                self._inside(cell, inline=not nested)
            self.parts.append("\n")
        self.parts.append("\n")


def _raw_text(node: Element) -> str:
    return "".join(each if isinstance(each, str) else "\n" if each.tag == "br" else _raw_text(each)
                   for each in node.inside)  # fmt: skip


def join_lines(parts: list[str]) -> str:
    """Join the parts of a writer, with spaces and empty lines collapsed."""
    body: list[str] = []
    for line in "".join(parts).split("\n"):
        flat = line[1:].rstrip() if line.startswith("\0") else " ".join(line.split())
        if flat or (body and body[-1]):
            body.append(flat)
    return "\n".join(body).strip()


def build_tree(text: str) -> Element:
    """Parse a page."""
    text = _COMMENT.sub("", text)
    if len(_OPEN.findall(text)) > MAX_OPEN_TAGS:
        text = _OPEN.sub("&lt;", text)
    builder = _Builder()
    builder.feed(text)
    builder.close()
    return builder.root


def declared_charset(data: bytes) -> str:
    """The encoding declared in HTML or XML; empty if there is none."""
    found = _CHARSET.search(data[:4096])
    return found[1].decode("ascii") if found else ""


def read_html(text: str) -> tuple[str, str]:
    """Title and the whole text of HTML."""
    root = build_tree(text)
    writer = TextWriter()
    writer.write(root)
    return read_head(root).get("title", ""), join_lines(writer.parts)


def read_head(root: Element) -> dict[str, str]:
    """The metadata of a page, under the names of front matter."""
    said: dict[str, str] = {}
    for node in root.walk():
        given = node.given
        if node.tag == "title" and "title" not in said and node.inside:
            said["title"] = " ".join(_raw_text(node).split())
        elif node.tag == "link" and "canonical" in given.get("rel", "").lower().split():
            said["canonical"] = given.get("href", "")
        elif node.tag == "meta":
            named = given.get("property") or given.get("name") or given.get("itemprop") or ""
            if name := _META.get(named.lower()):
                said.setdefault(name, given.get("content", "")[:MAX_URL_CHARS])
        elif node.tag == "script" and given.get("type") == "application/ld+json":
            for name, value in _read_linked(_raw_text(node)).items():
                said.setdefault(name, value)
        elif node.tag == "time" and given.get("datetime"):
            said.setdefault("published", given["datetime"])
        elif "author" in (given.get("rel"), given.get("itemprop")) and node.tag in _NAMING:
            said.setdefault("author", node.text()[:200])
        elif node.tag == "svg":
            node.inside = [each for each in node.inside if isinstance(each, str)]
    return said


def _read_linked(text: str) -> dict[str, str]:
    """The metadata of an article in JSON-LD."""
    try:
        rows: Any = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    rows = rows.get("@graph", [rows]) if isinstance(rows, dict) else rows
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and (row.get("datePublished") or row.get("author")):
            author = row.get("author")
            author = author[0] if isinstance(author, list) and author else author
            named = author.get("name") if isinstance(author, dict) else author
            said = {"author": named, "created": row.get("datePublished")}
            return {name: value for name, value in said.items() if isinstance(value, str) and value}
    return {}
