"""Saved web pages: the article without menus, its address, author and date."""

from __future__ import annotations

import email
import re
from collections import Counter
from collections.abc import Callable, Mapping

from sonde.knowledge.formats import (
    SAMPLE_BYTES,
    File,
    RefusedFormat,
    decode_bytes,
    make_document,
    read_media_facts,
)
from sonde.knowledge.formats.pages import (
    Element,
    TextWriter,
    build_tree,
    declared_charset,
    join_lines,
    read_head,
)
from sonde.stores.knowledge.base import Entry

_SAVED_FROM = re.compile(
    r"(?:saved from url=\(\d{1,9}\)|saved with SingleFile\s{1,9}url:\s{1,9})(https?://[^\s>]{1,2000})"
)
_MENUS = frozenset("nav aside footer dialog".split())
_ROLES = frozenset("navigation banner contentinfo complementary search dialog alert menu".split())
_MENU_NAME = re.compile(
    r"(?i)(?:^|[\s_-])(?:nav(?:bar|igation)?|(?:site|main|page|global)-?(?:menu|header|footer)|menus?|"
    r"sidebar|breadcrumbs?|cookies?|consent|gdpr|share|sharing|social|related|recommended|advert\w*|"
    r"ads?|promo\w*|newsletter|subscribe|popup|modal|skip-link|toolbar|paywall)(?:$|[\s_-])"
)


def read_page(text: str, url: str = "") -> tuple[str, str, Mapping[str, str], Counter[str]]:
    """Title, article and metadata of a web page, and the number of menus left out."""
    root = build_tree(text)
    said = read_head(root)
    if saved := _SAVED_FROM.search(text[:SAMPLE_BYTES]):  # as browsers and SingleFile write it
        said["url"] = saved[1]
    elif url:
        said["url"] = url
    base = said.get("canonical") or said.get("url") or ""
    lost = Counter({"menu": _drop(root, _is_marked_menu)})
    whole = len(root.text())
    lost["menu"] += _drop(root, _looks_like_menu)
    article = _find_article(root)
    if whole > 4 * len(article.text()):  # most of the page looked like menus: keep it
        root = article = build_tree(text)
        lost = Counter({"menu": _drop(root, _is_marked_menu)})
    writer = TextWriter(base if base.startswith("http") else "")
    writer.write(article)
    title = said.get("title") or said.get("og_title") or ""
    return title, join_lines(writer.parts), said, lost


def _is_marked_menu(node: Element) -> bool:
    """Whether the page marks an element as navigation or hidden."""
    role = node.given.get("role", "")
    if node.tag == "html" or role.startswith("doc-"):  # of notes and other parts of a book
        return False
    return node.tag in _MENUS or role in _ROLES or "hidden" in node.given


def _looks_like_menu(node: Element) -> bool:
    named = f"{node.given.get('id', '')} {node.given.get('class', '')}"
    if node.tag == "form":
        return len(node.text()) < 2_000  # some pages are one large form
    if node.tag in ("div", "section", "ul", "header", "ol", "span", "table"):
        return bool(_MENU_NAME.search(named)) or _is_link_list(node)
    return False


def _is_link_list(node: Element) -> bool:
    """Whether a block consists of short links, as menus do."""
    if node.tag not in ("ul", "div"):
        return False
    links = [each for each in node.walk() if each.tag == "a"]
    if len(links) < 5:
        return False
    shown = [len(each.text()) for each in links]
    return sum(shown) >= 0.9 * len(node.text()) and sum(shown) < 30 * len(shown)


def _drop(root: Element, is_menu: Callable[[Element], bool]) -> int:
    """Remove the menus of a page. Returns their number."""
    count = 0
    waiting = [root]
    while waiting:
        node = waiting.pop()
        inner = [each for each in node.inside if isinstance(each, Element)]
        menus = {id(each): each for each in inner if is_menu(each)}
        count += sum(bool(each.text()) for each in menus.values())
        node.inside = [each for each in node.inside if id(each) not in menus]
        waiting += (each for each in inner if id(each) not in menus and each.tag != "pre")
    return count


def _find_article(root: Element) -> Element:
    """The element of the article; the whole page if no element has most of its text."""
    total = len(root.text())
    best, most = root, 0.6 * total  # the rest is then headers and links to other articles
    for node in root.walk():
        role = node.given.get("role", "") == "main" or node.given.get("itemprop") == "articleBody"
        if node.tag in ("article", "main") or role:
            size = len(node.text())
            if size >= most:
                best, most = node, size
    return best


def parse_html(file: File) -> list[Entry]:
    """The article of a web page, with its address, author and date."""
    return [make_page(file, file.text(declared_charset(file.data)))]


def is_mhtml(data: bytes) -> bool:
    """Whether a message is a page saved by a browser."""
    return b"snapshot-content-location" in data[:4096].lower()


def parse_mhtml(file: File) -> list[Entry]:
    """A page saved by a browser as MHTML."""
    message = email.message_from_bytes(file.data)
    url = str(message["snapshot-content-location"] or "")
    for part in message.walk():
        raw = part.get_payload(decode=True)
        if part.get_content_subtype() in ("html", "xhtml+xml") and isinstance(raw, bytes):
            text = decode_bytes(raw, part.get_content_charset() or declared_charset(raw))
            url = url or str(part["content-location"] or "")
            return [make_page(file, text or "", url if url.startswith("http") else "")]
    raise RefusedFormat("no_text", "no page in it")


def make_page(file: File, text: str, url: str = "") -> Entry:
    """The entry of a web page."""
    title, body, said, lost = read_page(text, url)
    known = read_media_facts(said, file, "html")
    author = said.get("author", "")
    return make_document(file, "html", title, body, author=author, lost=lost, **known)
