"""Collections with an entry per item: bookmarks, posts, highlights, references.

Any other table becomes one entry.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from html import unescape
from itertools import islice
from typing import Any

from sonde.knowledge.formats import MAX_URL_CHARS, File, list_dicts, make_document, make_each
from sonde.knowledge.formats.data_files import load_json, read_named_rows, read_table
from sonde.knowledge.formats.documents import compose_accents
from sonde.knowledge.formats.office import write_row
from sonde.knowledge.formats.pages import declared_charset
from sonde.knowledge.identity import DERIVED
from sonde.stores.knowledge.base import Entry
from sonde.text.formats import read_time

_NETSCAPE = b"netscape-bookmark-file"  # at the beginning of exported bookmarks
MAX_TITLE_CHARS = 200  # of an item titled by its text
MAX_ROWS = 1_000_000  # of a table: as many as fit in a parser's memory as text
_BOOKMARK = re.compile(r"(?is)<(dt|/dl|dl|dd|h3|a)\b([^>]*)>([^<]*)")
_ATTRIBUTE = re.compile(r"""([\w:-]+)\s*=\s*"([^"]*)\"""")


def _digest(*parts: str) -> str:
    return DERIVED + hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def is_bookmarks(data: bytes) -> bool:
    """Whether a page is an export of bookmarks."""
    return _NETSCAPE in data[:200].lower()


def parse_bookmarks(file: File) -> Iterable[Entry]:
    """Bookmarks as browsers and services export them, with their folders."""
    rows: list[tuple[Mapping[str, str], list[str], str]] = []
    folders: list[str] = []
    named = ""
    for found in _BOOKMARK.finditer(file.text(declared_charset(file.data))):
        tag, text = found[1].lower(), unescape(found[3].strip())
        if tag == "h3":
            named = text
        elif tag == "dl":
            folders.append(named)
            named = ""
        elif tag == "/dl" and folders:
            folders.pop()
        elif tag == "a":
            given = {name.lower(): unescape(value) for name, value in _ATTRIBUTE.findall(found[2])}
            rows.append((given, [text], "/".join(filter(None, folders))))
        elif tag == "dd" and rows:
            rows[-1][1].append(text)
    return make_each(file, "bookmark", rows, lambda row: _make_bookmark(file, *row))


def _make_bookmark(
    file: File, given: Mapping[str, str], texts: list[str], folder: str
) -> Iterator[Entry]:
    if url := given.get("href", "")[:MAX_URL_CHARS]:
        name, *said = texts
        lines = [name, url, f"Folder: {folder}" if folder else "", given.get("shortcuturl"), *said]
        yield make_document(
            file, "bookmark", (name or url)[:MAX_TITLE_CHARS], "\n".join(filter(None, lines)),
            path=url, url=url, keywords=given.get("tags", ""), facts={"folder": folder},
            created_at=read_time(given.get("add_date") or given.get("time_added") or ""),
        )  # fmt: skip


_POSTS = re.compile(rb"\s*window\.YTD\.tweets?\.part\d+\s*=\s*")


def is_posts(data: bytes) -> bool:
    """Whether a script has the posts of an archive of X."""
    return _POSTS.match(data) is not None


def parse_posts(file: File) -> Iterable[Entry]:
    """Posts of an archive of X, with short addresses expanded."""
    value = load_json(replace(file, data=_POSTS.sub(b"", file.data, count=1)))
    return make_each(file, "post", list_dicts(value), partial(_make_post, file))


def _make_post(file: File, row: Mapping[str, Any]) -> Iterator[Entry]:
    post = row.get("tweet") or row
    key, links = str(post["id_str"]), post.get("entities") or {}
    text = unescape(str(post.get("full_text") or post.get("text") or ""))
    for each in list_dicts(links.get("urls")):
        if short := each.get("url"):
            text = text.replace(short, each.get("expanded_url") or short)
    when = read_time(datetime.strptime(post["created_at"], "%a %b %d %H:%M:%S %z %Y"))
    lost = Counter({"picture": len(list_dicts(links.get("media")))})
    yield make_document(
        file, "post", " ".join(text.split())[:MAX_TITLE_CHARS], text, path=key, created_at=when,
        url=f"https://x.com/i/status/{key}", lost=lost,
    )  # fmt: skip


_PAGE = re.compile(r"(?i)(?:page|Seite|página|pagina) ([\w-]+)")
_LOCATION = re.compile(r"(?i)(?:location|loc\.|position|posición|emplacement) ([\d-]+)")


def is_clippings(text: str) -> bool:
    """Whether a text is a Kindle's `My Clippings.txt`."""
    return text.count("\n==========") > 0 and re.search(r"(?m)^- .*\|", text[:4_000]) is not None


def parse_clippings(file: File) -> Iterable[Entry]:
    """Highlights and notes of a Kindle, with book, author and place."""
    blocks = re.split(r"(?m)^={8,}\s*$", file.text())
    return make_each(file, "highlight", blocks, partial(_make_clipping, file))


def _make_clipping(file: File, block: str) -> Iterator[Entry]:
    book, where, *lines = [*block.strip("\ufeff\n ").split("\n"), ""]
    found = re.match(r"(.*?)\s*(?:\(([^()]*)\))?$", book.strip())
    book, author = (found[1], found[2] or "") if found else (book, "")
    if text := "\n".join(lines).strip():
        page, location = _PAGE.search(where), _LOCATION.search(where)
        place = {"page": page[1] if page else "", "location": location[1] if location else ""}
        when = _read_long_date(where.rpartition("|")[2])
        yield _make_highlight(file, text, book, author, place, when)


def _make_highlight(
    file: File, text: str, book: str, author: str, place: Mapping[str, str], when: int | None,
    note: str = "", **known: Any,
) -> Entry:  # fmt: skip
    said = ", ".join(f"{name} {value}" for name, value in place.items() if value)
    source = ", ".join(filter(None, [book, author, said]))
    whole = "\n\n".join(filter(None, [text, f"Note: {note}" if note else "", f"From {source}"]))
    # by its place: the text of a highlight may be extended or corrected later
    where = place.get("location", "") or place.get("page", "") or text[:60]
    key = known.pop("key", "") or _digest(book, where)
    title = " ".join(f"{book}: {text}".split())[:MAX_TITLE_CHARS]
    facts = {"book": book, "author": author, **place}
    return make_document(
        file, "highlight", title, whole, path=key, facts=facts, created_at=when, **known
    )


_ENGLISH = "jan feb mar apr may jun jul aug sep oct nov dec".split()


def _read_long_date(text: str) -> int | None:
    """Parse a date such as `Added on Sunday, 3 March 2024 10:15:02 PM`, in English or numeric."""
    numbers = re.findall(r"\d+", text)
    forms = (rf"(?i)\b{name}[a-z]*\b" for name in _ENGLISH)
    month = next((at for at, form in enumerate(forms, 1) if re.search(form, text)), None)
    year = next((each for each in numbers if len(each) == 4), None)
    if not (month and year and numbers):
        return read_time(text)
    day = next((each for each in numbers if len(each) <= 2), "1")
    clock = re.search(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\s*([AaPp])?", text)
    hour = int(clock[1]) if clock else 0
    if clock and clock[4]:
        hour = hour % 12 + (12 if clock[4].lower() == "p" else 0)
    minute, second = (int(clock[2]), int(clock[3] or 0)) if clock else (0, 0)
    return read_time(f"{year}-{month:02}-{int(day):02}T{hour:02}:{minute:02}:{second:02}")


def parse_table(file: File) -> Iterable[Entry]:
    """A table: highlights of Readwise, references of Zotero, or any other as one entry."""
    head = {name.strip().lower() for name in next(read_table(file), [])}
    for wanted, make in _TABLES.items():
        if set(wanted) <= head:
            return make_each(file, "row", read_named_rows(file), partial(make, file))
    rows = read_table(file)
    text = "\n".join(filter(None, map(write_row, islice(rows, MAX_ROWS))))
    lost = Counter({"row over the limit": sum(1 for _ in rows)})
    return [make_document(file, file.suffix, file.stem, text, lost=lost)]


def _make_readwise(file: File, row: Mapping[str, str]) -> Iterator[Entry]:
    place = {row.get("location type") or "location": row.get("location") or ""}
    tags = [*row.get("tags", "").split(","), *row.get("document tags", "").split(",")]
    if row.get("highlight", "").strip():
        yield _make_highlight(
            file, row["highlight"], row.get("book title", ""), row.get("book author", ""), place,
            read_time(row.get("highlighted at", "")), row.get("note", ""),
            tags=tuple(dict.fromkeys(tag.strip() for tag in tags if tag.strip())),
        )  # fmt: skip


def _make_zotero(file: File, row: Mapping[str, str]) -> Iterator[Entry]:
    fields = {name: value for name, value in row.items() if value}
    yield _make_reference(file, row.get("key", ""), fields | {
        "year": row.get("publication year", ""), "abstract": row.get("abstract note", ""),
        "keywords": "; ".join([row.get("manual tags", ""), row.get("automatic tags", "")]),
        "date": row.get("date", ""), "journal": row.get("publication title", ""),
    }, added=row.get("date added", ""))  # fmt: skip


_TABLES: Mapping[tuple[str, ...], Callable[[File, Mapping[str, str]], Iterator[Entry]]] = {
    ("highlight", "book title"): _make_readwise,
    ("key", "item type", "publication year", "author"): _make_zotero,
}
"""Parsers of rows, by the columns of the table."""


def _make_reference(file: File, key: str, fields: Mapping[str, str], added: str = "") -> Entry:
    """A reference: title, author, publication, abstract and notes."""
    shown = {name: value.strip() for name, value in fields.items() if value and value.strip()}
    title = shown.get("title", "") or key
    text = "\n".join(f"{name}: {value}" for name, value in shown.items() if name != "key")
    url = shown.get("url", "") or (f"https://doi.org/{shown['doi']}" if shown.get("doi") else "")
    when = read_time(shown.get("date", "")) or read_time(f"{shown.get('year', '')[:4]}-01-01")
    author = shown.get("author", "")
    return make_document(
        file, "reference", " ".join(title.split())[:MAX_TITLE_CHARS], text, author=author,
        path=key or _digest(title, author), keywords=shown.get("keywords", ""),
        facts={"year": shown.get("year", "")}, url=url[:MAX_URL_CHARS],
        created_at=when or read_time(added),
    )  # fmt: skip


_BIB_START = re.compile(r"(?m)^[ \t]*@(?=\w+\s*[{(])")
_BIB_ENTRY = re.compile(r"(\w+)\s*[{(]\s*([^,\s{}]*)\s*,")
_BIB_FIELD = re.compile(r"(?<![\w-])(\w[\w-]{0,60}+)\s*=\s*")
_BIB_SKIPPED = ("comment", "string", "preamble")


def parse_bibtex(file: File) -> Iterable[Entry]:
    """References in BibTeX, identified by their citation keys."""
    text = file.text()
    strings = dict(re.findall(r"(?i)@string\s*[{(]\s*(\w+)\s*=\s*[\"{]([^\"{}]*)[\"}]", text))

    def make(part: str) -> Iterator[Entry]:
        found = _BIB_ENTRY.match(part)
        if found and found[1].lower() not in _BIB_SKIPPED:
            fields = {"type": found[1].lower(), **dict(_read_bib(part[found.end() :], strings))}
            yield _make_reference(file, found[2], fields)

    return make_each(file, "reference", _BIB_START.split(text)[1:], make)


def _read_bib(body: str, strings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    at = 0
    while found := _BIB_FIELD.search(body, at):
        begin = at = found.end()
        depth, quoted = 0, body[begin : begin + 1] == '"'
        at += quoted
        while at < len(body):
            char = body[at]
            depth += {"{": 1, "}": -1}.get(char, 0)
            if depth < 0 or (
                not depth and ((quoted and char == '"') or (not quoted and char == ","))
            ):
                break
            at += 1
        value = body[begin:at].strip().strip('"')
        value = strings.get(value.strip(), value)
        is_address = found[1].lower() in ("url", "doi", "file")
        plain = re.sub(r"\\[A-Za-z]+ ?|[{}\\]", "", compose_accents(value))
        yield found[1].lower(), value.strip("{} ") if is_address else " ".join(plain.split())
        at += 1


_RIS = {
    "TI": "title", "T1": "title", "AU": "author", "A1": "author", "PY": "year", "Y1": "year",
    "AB": "abstract", "N2": "abstract", "KW": "keywords", "UR": "url", "DO": "doi",
    "JO": "journal", "T2": "journal", "PB": "publisher", "N1": "note", "DA": "date", "TY": "type",
    "ID": "key",
}  # fmt: skip


def parse_ris(file: File) -> Iterable[Entry]:
    """References in RIS."""
    *parts, _ = re.split(r"(?m)^ER  -.*$", file.text())
    return make_each(file, "reference", parts, lambda part: [_make_ris(file, part)])


def _make_ris(file: File, part: str) -> Entry:
    fields: dict[str, str] = {}
    for tag, value in re.findall(r"(?m)^([A-Z][A-Z0-9])  - ?(.*\S)", part):
        name = _RIS.get(tag, tag.lower())
        fields[name] = "; ".join(filter(None, [fields.get(name, ""), value.strip()]))
    return _make_reference(file, fields.get("key", ""), fields)


def is_csl(value: Any) -> bool:
    """Whether JSON is a list of references in CSL-JSON, as Zotero and pandoc write it."""
    first = value[0] if isinstance(value, list) and value else None
    said = {"issued", "author", "container-title"}
    return isinstance(first, dict) and {"type", "id"} <= set(first) and bool(said & set(first))


def parse_csl(file: File, value: Any) -> Iterable[Entry]:
    """References in CSL-JSON."""
    return make_each(file, "reference", list_dicts(value), lambda row: [_make_csl(file, row)])


def _make_csl(file: File, row: Mapping[str, Any]) -> Entry:
    fields = {key.lower(): str(value) for key, value in row.items() if isinstance(value, str | int)}
    authors = list_dicts(row.get("author"))
    names = [str(each.get("literal") or f"{each.get('given', '')} {each.get('family', '')}")
             for each in authors]  # fmt: skip
    issued = (row.get("issued") or {}).get("date-parts") or [[]]
    when = "-".join(f"{int(part):02}" for part in issued[0] if str(part).isdigit())
    fields |= {"author": "; ".join(name.strip() for name in names), "year": when[:4], "date": when}
    return _make_reference(file, str(row.get("id") or ""), fields)
