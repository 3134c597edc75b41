"""Documents: PDF, EPUB, office files, HTML, Markdown, text, mail, and the metadata of pictures."""

from __future__ import annotations

import contextlib
import email
import email.policy
import io
import posixpath
import re
from collections.abc import Iterator
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import Any
from urllib.parse import unquote

from sonde.knowledge.formats import (
    File,
    RefusedFormat,
    make_entry,
    open_archive,
    parse_xml,
    read_html,
    read_media_facts,
    read_member,
    read_page,
    split_front,
)
from sonde.stores.knowledge.base import Entry
from sonde.text.formats import read_time

MAX_CELLS = 500_000  # of a workbook; more take longer than a parser may
_EPUB = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_OPF = "{http://www.idpf.org/2007/opf}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_MAIL_HEAD = re.compile(rb"(?:[\x21-\x39\x3b-\x7e]+:[ \t\r\n].*\n(?:[ \t]+\S.*\n)*)+")
_MAIL_NAMES = re.compile(
    rb"(?m)^(received|from|to|subject|date|message-id|return-path|delivered-to|mime-version):"
)
_MBOX_LINE = re.compile(rb"(?m)^From .*\r?\n")


def parse_pdf(file: File) -> list[Entry]:
    """A PDF's text, page by page."""
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(file.data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise RefusedFormat("encrypted")
    text = "\n\n".join(page.extract_text() for page in reader.pages)
    known = reader.metadata
    title = (known.title if known else "") or file.stem
    facts = {"author": str(known.author)} if known and known.author else {}
    facts["pages"] = str(len(reader.pages))
    created = None
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        created = read_time(known.creation_date if known else None)
    known_at = {"created_at": created or file.modified}
    return [_make(file, "pdf", str(title), text, facts=facts, **known_at)]


def parse_epub(file: File) -> list[Entry]:
    """An EPUB's chapters in reading order."""
    archive = open_archive(file.data)
    container = parse_xml(read_member(archive, "META-INF/container.xml"))
    rootfile = container.find(f".//{_EPUB}rootfile")
    place = rootfile.get("full-path", "") if rootfile is not None else ""
    package = parse_xml(read_member(archive, place))
    items = {item.get("id"): item.get("href", "") for item in package.iter(f"{_OPF}item")}
    base = posixpath.dirname(place)
    parts: list[str] = []
    for reference in package.iter(f"{_OPF}itemref"):
        href = unquote(items.get(reference.get("idref"), ""))
        name = posixpath.normpath(posixpath.join(base, href)) if href else ""
        if name in archive.NameToInfo:
            chapter = read_member(archive, name).decode("utf-8", "replace")
            parts.append(read_html(chapter)[1])
    title = package.findtext(f".//{_DC}title") or file.stem
    author = package.findtext(f".//{_DC}creator")
    facts = {"author": author} if author else {}
    said = {
        "source": package.findtext(f".//{_DC}source"),
        "link": package.findtext(f".//{_DC}identifier"),
        "date": package.findtext(f".//{_DC}date"),
        "tags": [each.text for each in package.iter(f"{_DC}subject") if each.text],
    }
    text, known = "\n\n".join(filter(None, parts)), read_media_facts(said, file, "epub")
    return [_make(file, title=title, text=text, facts=facts, **known)]


def parse_docx(file: File) -> list[Entry]:
    """A Word document: paragraphs and tables in order."""
    document = _open_office(file, "docx", "Document")
    parts: list[str] = []
    for block in document.iter_inner_content():
        if hasattr(block, "rows"):
            parts += [" | ".join(cell.text for cell in row.cells) for row in block.rows]
        else:
            parts.append(block.text)
    return [_make_office(file, "docx", document.core_properties, "\n".join(parts))]


def parse_pptx(file: File) -> list[Entry]:
    """Slides: their texts, tables and notes in order."""
    slides = _open_office(file, "pptx", "Presentation")
    parts: list[str] = []
    for number, slide in enumerate(slides.slides, 1):
        parts.append(f"Slide {number}")
        for shape in slide.shapes:
            if shape.has_text_frame:
                parts.append(shape.text_frame.text)
            elif getattr(shape, "has_table", False):
                rows = shape.table.rows
                parts += [" | ".join(cell.text for cell in row.cells) for row in rows]
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            parts.append(slide.notes_slide.notes_text_frame.text)
        parts.append("")
    return [_make_office(file, "pptx", slides.core_properties, "\n".join(parts))]


def parse_xlsx(file: File) -> list[Entry]:
    """A workbook: every sheet as lines of cells."""
    book = _open_office(file, "openpyxl", "load_workbook", read_only=True, data_only=True)
    parts: list[str] = []
    cells = 0
    for sheet in book.worksheets:
        parts.append(f"# {sheet.title}")
        for row in sheet.iter_rows(values_only=True):
            cells += len(row)
            if cells > MAX_CELLS:
                raise RefusedFormat("too_large", f"more than {MAX_CELLS} cells")
            line = " | ".join("" if value is None else str(value) for value in row).rstrip(" |")
            if line:
                parts.append(line)
    return [_make_office(file, "xlsx", book.properties, "\n".join(parts))]


def parse_html(file: File) -> list[Entry]:
    """A page's text without its markup."""
    title, text, said = read_page(file.text())
    facts = {"author": said["author"]} if said.get("author") else {}
    known = read_media_facts(said, file, "html")
    return [_make(file, title=title or file.stem, text=text, facts=facts, **known)]


def parse_markdown(file: File) -> list[Entry]:
    """A Markdown document; its front matter gives title, address, kind, tags and times."""
    front, body = split_front(file.text())
    facts = {"front_matter": front} if front else {}
    title, known = str(front.get("title") or file.stem), read_media_facts(front, file, "markdown")
    return [_make(file, title=title, text=body, facts=facts, **known)]


def parse_plain_text(file: File) -> list[Entry]:
    """Plain text as it is."""
    return [_make(file, "txt", file.stem, file.text())]


def parse_image(file: File) -> list[Entry]:
    """A picture's metadata."""
    from PIL import ExifTags, Image

    taken = None
    with Image.open(io.BytesIO(file.data)) as image:
        facts = {"format": str(image.format), "size": f"{image.width}x{image.height}"}
        texts = {str(key): each for key, each in image.info.items() if isinstance(each, str)}
        facts |= {key: text[:2_000] for key, text in texts.items()}
        for code, value in image.getexif().items():
            name = ExifTags.TAGS.get(code, "")
            if name and isinstance(value, str | int | float):
                facts[name] = str(value)[:500]
            if name == "DateTime":
                taken = str(value).replace(":", "-", 2)
    text = "\n".join(f"{key}: {value}" for key, value in facts.items())
    created = read_time(taken) or file.modified
    return [_make(file, "image", file.stem, text, facts=facts, created_at=created)]


def _make(file: File, media_type: str, title: str, text: str, **known: Any) -> Entry:
    if not text.strip():
        raise RefusedFormat("no_text")
    title = title.strip() or file.stem
    return make_entry("media", title, text, file, media_type=media_type, **known)


def _open_office(file: File, module: str, opener: str, **options: bool) -> Any:
    open_archive(file.data).close()  # refuses bombs
    return getattr(import_module(module), opener)(io.BytesIO(file.data), **options)


def _make_office(file: File, kind: str, known: Any, text: str) -> Entry:
    author = getattr(known, "author", None) or getattr(known, "creator", None)
    facts = {"author": str(author)} if author else {}
    created = read_time(getattr(known, "created", None)) or file.modified
    title = str(getattr(known, "title", "") or file.stem)
    return _make(file, kind, title, text, facts=facts, created_at=created)


def is_mail(data: bytes) -> bool:
    """Whether a file begins like a message, whatever its name, as in a Maildir."""
    head = _MAIL_HEAD.match(data[:16_384])
    return head is not None and len(set(_MAIL_NAMES.findall(head[0].lower()))) >= 3


def parse_eml(file: File) -> list[Entry]:
    """One message."""
    return [_make_mail(file, file.data, "")]


def parse_mbox(file: File) -> list[Entry]:
    """A mailbox: one entry per message."""
    starts = [found.span() for found in _MBOX_LINE.finditer(file.data)]
    if not starts or starts[0][0] != 0:
        raise RefusedFormat("unknown", "not a mailbox")
    ends = [start for start, _ in starts[1:]] + [len(file.data)]
    return [
        _make_mail(file, file.data[begin:end], str(at))
        for at, ((_, begin), end) in enumerate(zip(starts, ends, strict=True))
    ]


def _make_mail(file: File, data: bytes, key: str) -> Entry:
    message = email.message_from_bytes(data, policy=email.policy.default)
    if not message.keys():
        raise RefusedFormat("broken", "no message")
    subject = _header(message, "subject")
    people = {name: _header(message, name) for name in ("from", "to", "cc", "message-id")}
    body = "\n".join(filter(None, _list_bodies(message)))
    named = [f"{name.title()}: {value}" for name, value in people.items() if value]
    head = "\n".join(line for line in named if not line.startswith("Message-Id"))
    attached: list[str] = []
    for part in message.walk():
        with contextlib.suppress(ValueError, AttributeError, IndexError, LookupError, TypeError):
            attached += filter(None, [part.get_filename()])
    facts = {name: each for name, each in {**people, "attachments": attached}.items() if each}
    sent = file.modified
    with contextlib.suppress(ValueError, TypeError, IndexError):
        sent = read_time(parsedate_to_datetime(_header(message, "date"))) or sent
    text = f"{head}\n\n{body}".strip() or subject
    known = {"path": key, "media_type": "email", "created_at": sent, "last_modified": sent}
    return make_entry("media", subject or file.stem, text, file, facts=facts, **known)


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message[name] or "").split())
    except (ValueError, AttributeError, IndexError, LookupError):
        return ""


def _list_bodies(message: EmailMessage) -> Iterator[str]:
    """The body that a mail program shows; all text of a malformed message."""
    part = message.get_body(("plain", "html"))
    text = _read_part(part) if part is not None else ""
    if text:
        yield text
        return
    for each in message.walk():
        if each.get_content_maintype() == "text" and not each.get_filename():
            yield _read_part(each)


def _read_part(part: Any) -> str:
    try:
        text = part.get_content()
    except (LookupError, ValueError, AttributeError):
        raw = part.get_payload(decode=True)
        text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else ""
    if part.get_content_type() == "text/html":
        text = read_html(text)[1]
    return str(text).replace("\r\n", "\n").strip()
