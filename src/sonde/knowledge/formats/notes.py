"""Notes of Markdown programs (Obsidian, Logseq, Joplin), Notion, Keep, Evernote and Apple Notes.

The format of Apple Notes is taken from public descriptions. Texts, headings, lists, links, tags,
folders and cells of tables are read; drawings and scans are not. Of a locked note, only the title
is readable.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from sonde.knowledge.formats import (
    LEFT_OUT,
    LOSS_OF,
    File,
    RefusedFormat,
    list_dicts,
    list_said_tags,
    make_each,
    make_entry,
    parse_xml,
    read_media_facts,
    read_times,
    split_front,
)
from sonde.knowledge.formats.pages import declared_charset, read_html
from sonde.knowledge.identity import DERIVED
from sonde.stores.knowledge.base import Entry
from sonde.text.formats import read_time

_PROPERTY = re.compile(r"\A(?:[ \t]*[\w-]+:: .*\n)+")
_FENCED = re.compile(r"(?ms)^(`{3,}+|~{3,}+).*?^\1[^\n]*$|`[^`\n]+`")
# Possessive, so that a hostile line takes no longer than any other.
_TAG = re.compile(r"(?<![\w#&/])(?<!\]\()#([\w/-]++)")
_LINK = re.compile(r"(!?)\[\[([^\[\]|#\n]++)(?:[|#][^\[\]\n]*+)?\]\]")
_MARKDOWN_LINK = re.compile(r"!\[[^\[\]\n]*+\]\(([^()\s]++)[^()\n]*+\)")
_HEADING = re.compile(r"\A\s*# +(.+)")
_NOTE = re.compile(rb"(?s)<note\b(?:(?!<note\b).)*?</note>")
_NOTION = re.compile(r" [0-9a-f]{32}$")
_KEEP_TITLE_CHARS = 80  # of the text, as the title of a note without one


def parse_note(file: File) -> list[Entry]:
    """A Markdown or text file as a note."""
    front, body = split_front(file.text())
    if properties := _PROPERTY.match(body):  # Logseq writes them as `key:: value`
        for line in properties.group().splitlines():
            key, _, value = line.partition("::")
            front.setdefault(key.strip(), value.strip())
    prose = _FENCED.sub(" ", body)
    links = [(bool(mark), target.strip()) for mark, target in _LINK.findall(prose)]
    attached = [target for is_file, target in links if is_file]
    attached += [unquote(target) for target in _MARKDOWN_LINK.findall(prose)]
    linked = [target for is_file, target in links if not is_file]
    author, url = front.get("author") or "", read_media_facts(front, file, "")["url"]
    author = ", ".join(map(str, author)) if isinstance(author, list) else str(author)
    said = {"front_matter": front, "links": linked, "attachments": attached, "author": author}
    facts = {name: list(dict.fromkeys(fact)) if isinstance(fact, list) else fact
             for name, fact in said.items()}  # fmt: skip
    inline = [tag for tag in _TAG.findall(prose) if any(map(str.isalpha, tag))]
    tags = tuple(list_said_tags({"tags": [*list_said_tags(front), *inline]}))
    title, times = _find_title(file, front, body), read_times(front, file)
    found = _NOTION.search(file.stem)
    key = found[0].strip() if found else ""
    return [
        make_entry("notes", title, body, file, path=key, tags=tags, facts=facts, url=url, **times)
    ]


def _find_title(file: File, front: Mapping[str, Any], body: str) -> str:
    title = front.get("title")
    if isinstance(title, str) and title.strip():
        return title
    stem = _NOTION.sub("", file.stem)
    if stem != file.stem:
        heading = _HEADING.match(body)
        return heading[1] if heading else stem
    if "/pages/" in f"/{file.path}" or "/journals/" in f"/{file.path}":
        stem = unquote(stem).replace("___", "/")  # Logseq's way to write a slash
    return stem


def is_notion(file: File) -> bool:
    """Whether a page was exported by Notion."""
    return bool(_NOTION.search(file.stem)) and b'<article id="' in file.data


def parse_notion(file: File) -> list[Entry]:
    """A page that Notion exported as HTML."""
    title, text = read_html(file.text(declared_charset(file.data)))
    facts, key = {"app": "Notion", "id": file.stem[-32:]}, file.stem[-32:]
    return [
        make_entry("notes", title or _NOTION.sub("", file.stem), text, file, path=key, facts=facts)
    ]


def parse_enex(file: File) -> Iterable[Entry]:
    """Notes exported by Evernote; skips and reports unreadable ones."""
    try:
        root = parse_xml(file.data)
        notes = list(root.iter("note"))
    except RefusedFormat as error:
        if error.reason != "broken" or not (parts := _NOTE.findall(file.data)):
            raise
        return make_each(file, "note", parts, lambda part: [_make_enex(file, parse_xml(part))])
    if root.tag != "en-export":
        raise RefusedFormat("unknown", "not an Evernote export")
    return make_each(file, "note", notes, lambda note: [_make_enex(file, note)])


def _make_enex(file: File, note: Any) -> Entry:
    """A note of Evernote, identified by its time, since exports have no ids."""
    title = note.findtext("title") or file.stem
    written = re.sub(r'<en-todo[^>]*checked="true"[^>]*/?>', "[x] ", note.findtext("content") or "")
    written = re.sub(r"<en-todo[^>]*/?>", "[ ] ", written)
    created = read_time(note.findtext("created") or "")
    names: list[str] = []
    lost: Counter[str] = Counter()
    for resource in note.iter("resource"):
        kind = (resource.findtext("mime") or "").partition("/")[0]
        names += filter(None, [resource.findtext("resource-attributes/file-name")])
        lost[LOSS_OF.get(kind, "attached file")] += 1
    text = "\n".join([read_html(written)[1], *(f"[{name}]" for name in names)])
    author = note.findtext("note-attributes/author")
    facts = {"author": author, "attachments": names, LEFT_OUT: dict(lost)}
    return make_entry(
        "notes", title, text, file, path=f"{DERIVED}{created or title}",
        url=note.findtext("note-attributes/source-url") or "",
        tags=tuple(tag.text for tag in note.iter("tag") if tag.text),
        facts=facts,
        created_at=created or file.modified,
        last_modified=read_time(note.findtext("updated") or "") or created or file.modified,
    )  # fmt: skip


MAGIC = b"SQLite format 3\0"
_EPOCH_S = 978_307_200  # 2001-01-01, from which Apple counts
MAX_NOTE_BYTES = 1 << 25  # of a note after decompression
_GZIP = 31  # wbits of zlib for gzip
_HOLE = "\ufffc"  # placeholder of an attachment in a text
_MARKS: Mapping[int, str] = {
    0: "# ", 1: "## ", 2: "### ", 100: "- ", 101: "- ", 102: "1. ", 103: "- [ ] ",
}  # fmt: skip
_CHECKLIST = 103  # paragraph style of a checklist item
_NOTES = """
SELECT n.ZIDENTIFIER, n.ZTITLE1, n.ZFOLDER, n.ZISPASSWORDPROTECTED, d.ZDATA, {created}, {modified}
FROM ZICCLOUDSYNCINGOBJECT AS n JOIN ZICNOTEDATA AS d ON d.Z_PK = n.ZNOTEDATA
WHERE coalesce(n.ZMARKEDFORDELETION, 0) = 0 ORDER BY n.Z_PK
"""
_OTHERS = (
    "SELECT Z_PK, ZPARENT, ZIDENTIFIER, ZTITLE2, ZALTTEXT, ZSUMMARY, ZURLSTRING, ZTITLE"
    " FROM ZICCLOUDSYNCINGOBJECT WHERE ZNOTEDATA IS NULL"
)


class _Other(NamedTuple):
    """A folder or an attachment."""

    number: int
    parent: int | None
    identifier: str
    folder: str
    alternative: str
    summary: str
    url: str
    title: str


def is_apple_notes(data: bytes) -> bool:
    """Whether a file is a database of Apple Notes."""
    return data.startswith(MAGIC) and b"ZICNOTEDATA" in data


def parse_apple_notes(file: File) -> Iterable[Entry]:
    """The notes of a database of Apple Notes, except deleted ones."""
    import apsw

    connection = apsw.Connection(":memory:")
    try:
        # clears the WAL flag, which a copy of a database in use has: in memory there is no log
        data = file.data[:18] + b"\x01\x01" + file.data[20:]
        connection.deserialize("main", data)
        columns = {row[1] for row in connection.execute("PRAGMA table_info(ZICCLOUDSYNCINGOBJECT)")}
        names = {"created": ("n.ZCREATIONDATE", "31"), "modified": ("n.ZMODIFICATIONDATE", "1")}
        query = _NOTES.format(**{key: _first(columns, *name) for key, name in names.items()})
        others = [_Other(*row[:2], *(str(each or "") for each in row[2:]))
                  for row in connection.execute(_OTHERS)]  # fmt: skip
        notes = connection.execute(query).fetchall()
    except (apsw.Error, TypeError) as error:
        raise RefusedFormat("broken", f"not a database of Apple Notes: {error}") from error
    finally:
        connection.close()
    folders = {other.number: other for other in others if other.folder}
    attached = {other.identifier: other for other in others}
    return make_each(
        file, "note", notes, lambda row: filter(None, [_make_note(file, row, folders, attached)])
    )


def _first(columns: set[str], name: str, numbers: str) -> str:
    """SQL for the first of the columns with this name and a number that has a value."""
    known = [name + end for end in (*numbers, "") if (name + end).removeprefix("n.") in columns]
    return f"coalesce({', '.join(known)}, 0)" if len(known) > 1 else (known or ["0"])[0]


def _make_note(
    file: File, row: Any, folders: Mapping[int, _Other], attached: Mapping[str, _Other]
) -> Entry | None:
    identifier, title, folder, is_locked, packed, created, modified = row
    way = list(_list_folders(folder, folders))
    if any(each.identifier.startswith("TrashFolder") for each in way):
        return None
    folder = "/".join(each.folder for each in way[::-1])
    facts: dict[str, object] = {"app": "Apple Notes", "folder": folder}
    text = ""
    if is_locked:
        facts |= {"locked": True, LEFT_OUT: {"locked note": 1}}
    elif packed:
        try:
            text = _write_markdown(bytes(packed), attached)
        except (zlib.error, ValueError, IndexError, StopIteration):
            facts["unreadable"] = True
    tags = tuple(dict.fromkeys(re.findall(r"(?<!\S)#(\w[\w/-]*)", text)))
    times = [int((each + _EPOCH_S) * 1000) if each else 0 for each in (created, modified)]
    known: dict[str, object] = {"path": str(identifier or ""), "tags": tags, "facts": facts}
    known |= {"created_at": times[0] or file.modified, "last_modified": times[1] or file.modified}
    return make_entry("notes", str(title or "") or file.stem, text, file, **known)


def _list_folders(number: int | None, folders: Mapping[int, _Other]) -> Iterator[_Other]:
    passed: set[int] = set()
    while number in folders and number not in passed:
        assert number is not None
        passed.add(number)
        yield folders[number]
        number = folders[number].parent


def _write_markdown(packed: bytes, attached: Mapping[str, _Other]) -> str:
    unpacked = zlib.decompressobj(_GZIP).decompress(packed, MAX_NOTE_BYTES)
    note = list(_read_fields(_find(_find(unpacked, 2), 3)))
    texts = [value for number, value in note if number == 2 and isinstance(value, bytes)]
    text = texts[0].decode("utf-8", "replace") if texts else ""
    units = text.encode("utf-16-le", "surrogatepass")
    lines: list[list[Any]] = [["", None]]
    at = 0
    runs = [value for number, value in note if number == 5 and isinstance(value, bytes)]
    for run in [*runs, b""]:
        fields = dict(_read_fields(run))
        length = int(fields.get(1, 0)) if run else len(units) // 2 - at
        said = units[2 * at : 2 * (at + length)].decode("utf-16-le", "replace")
        at += length
        said = _fill(said, fields, attached)
        style = dict(_read_fields(_bytes(fields.get(2))))
        for number, part in enumerate(said.split("\n")):
            if number:
                lines.append(["", None])
            lines[-1][0] += part
            if lines[-1][1] is None and part:
                lines[-1][1] = style
    return "\n".join(_mark(line, style or {}) for line, style in lines).strip()


def _fill(said: str, fields: Mapping[int, Any], attached: Mapping[str, _Other]) -> str:
    """A run of text with its attachment or link."""
    if _HOLE in said:
        info = dict(_read_fields(_bytes(fields.get(12))))
        other = attached.get(_bytes(info.get(1)).decode("utf-8", "replace"))
        cells = " | ".join(other.summary.split("\n")).strip(" |") if other else ""
        shown = other.alternative or cells or other.url or other.title if other else ""
        return said.replace(_HOLE, shown)
    link = _bytes(fields.get(9)).decode("utf-8", "replace")
    shown = said.strip()
    if link.startswith(("http://", "https://", "mailto:")) and shown and link not in shown:
        return said.replace(shown, f"[{shown}]({link})")
    return said


def _mark(line: str, style: Mapping[int, Any]) -> str:
    kind = style.get(1)
    if not line.strip() or not isinstance(kind, int):
        return line
    mark = _MARKS.get(kind, "")
    if kind == _CHECKLIST and dict(_read_fields(_bytes(style.get(5)))).get(2):
        mark = "- [x] "
    indent = style.get(4)
    return "  " * min(indent if isinstance(indent, int) else 0, 20) + mark + line


def _find(message: bytes, number: int) -> bytes:
    """The first field with this number that is a message."""
    fields = _read_fields(message)
    return next(value for name, value in fields if name == number and isinstance(value, bytes))


def is_keep(value: Any) -> bool:
    """Whether JSON is a note of Google Keep from Takeout."""
    return isinstance(value, dict) and "userEditedTimestampUsec" in value


def parse_keep(file: File, value: Mapping[str, Any]) -> list[Entry]:
    """A note of Google Keep, with its list, links and labels."""
    if value.get("isTrashed"):
        raise RefusedFormat("unknown", "in the trash of Google Keep")
    lines = [str(value.get("textContent") or "")]
    lines += [f"- [{'x' if each.get('isChecked') else ' '}] {each.get('text')}"
              for each in list_dicts(value.get("listContent"))]  # fmt: skip
    lines += [f"[{each.get('title') or each['url']}]({each['url']})"
              for each in list_dicts(value.get("annotations")) if each.get("url")]  # fmt: skip
    kinds = (str(each.get("mimetype")) for each in list_dicts(value.get("attachments")))
    lost = Counter(LOSS_OF.get(kind.partition("/")[0], "attached file") for kind in kinds)
    if not (text := "\n".join(filter(None, lines)).strip()):
        raise RefusedFormat("no_text")
    edited = read_time(value["userEditedTimestampUsec"]) or file.modified
    return [make_entry(
        "notes", str(value.get("title") or text[:_KEEP_TITLE_CHARS]), text, file,
        tags=tuple(str(each.get("name")) for each in list_dicts(value.get("labels"))),
        facts={"app": "Google Keep", LEFT_OUT: dict(lost)}, last_modified=edited,
        created_at=read_time(value.get("createdTimestampUsec")) or edited,
    )]  # fmt: skip


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else b""


def _read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer: integers, and bytes that may be messages or texts."""
    at = 0
    while at < len(data):
        tag, at = _read_number(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _read_number(data, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            size, at = _read_number(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if at + size > len(data):
            raise ValueError("cut short")
        if kind == 2:
            yield tag >> 3, data[at : at + size]
        at += size


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number that does not end")
