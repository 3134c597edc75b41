"""The table of formats: the parser of each file, and advice on files without one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from sonde.knowledge.formats import (
    File,
    RefusedFormat,
    Row,
    articles,
    chats,
    collected,
    documents,
    list_dicts,
    mail,
    make_each,
    messengers,
    notes,
    office,
    pdf,
    prompts,
    transcripts,
)
from sonde.knowledge.formats.data_files import SAMPLE_ROWS
from sonde.knowledge.formats.office import legacy, opendocument, outlook, rtf, sheets, word
from sonde.stores.knowledge.base import Entry, Source

Parser = Callable[[File], Iterable[Entry]]

PICTURES = ("png", "jpg", "jpeg", "gif", "webp", "tiff", "tif", "bmp")
_MARKDOWN = ("md", "markdown", "mdown")
_TEXT = ("txt", "text", "rst", "org", "adoc", "asciidoc")


def _by_ending(table: Mapping[str, Row]) -> Mapping[str, Row]:
    return {ending: row for endings, row in table.items() for ending in endings.split()}


_BY_SUFFIX: Mapping[str, Parser] = _by_ending({
    "pdf": pdf.parse_pdf, "epub": documents.parse_epub, "docx docm dotx": word.parse_docx,
    "pptx pptm ppsx": sheets.parse_pptx, "xlsx xlsm": sheets.parse_xlsx,
    "xls xlsb": sheets.parse_workbook,
    "odt ods odp odg ott fodt fods fodp": opendocument.parse_opendocument,
    "rtf": rtf.parse_rtf, "doc": legacy.parse_doc, "ppt pps": legacy.parse_ppt,
    "html htm xhtml": articles.parse_html, "mht mhtml": articles.parse_mhtml,
    "eml": mail.parse_eml, "msg": outlook.parse_msg, "mbox mbx": mail.parse_mbox,
    "enex": notes.parse_enex, "opml": documents.parse_opml, "ipynb": documents.parse_notebook,
    "tex latex ltx": documents.parse_latex, "bib": collected.parse_bibtex,
    "ris": collected.parse_ris, "ics ical vcf": mail.parse_records,
    "srt vtt": transcripts.parse_subtitles, "jsonl": transcripts.parse_log,
    " ".join(PICTURES): documents.parse_image,
})  # fmt: skip
"""Parsers by ending. Files with other endings are recognised by content in `find_parser`."""
_BY_CONTENT: tuple[tuple[tuple[str, ...], Callable[[bytes], bool], Parser], ...] = (
    (("html", "htm"), collected.is_bookmarks, collected.parse_bookmarks),
    (("html",), messengers.is_telegram_page, messengers.parse_telegram_page),
    (("png",), prompts.has_card, prompts.parse_png),
    (("js",), collected.is_posts, collected.parse_posts),
    (("doc",), lambda data: data.lstrip()[:5] == b"{\\rtf", rtf.parse_rtf),
    (("doc", "xls"), lambda data: b"<html" in data[:2048].lower(), articles.parse_html),
    (("doc", "docx"), lambda d: b"opendocument.text" in d[:100], opendocument.parse_opendocument),
    (("doc",), lambda data: data.startswith(b"PK"), word.parse_docx),
    (("docx", "docm", "dotx"), office.is_legacy, legacy.parse_doc),
    (("xlsx", "xlsm"), office.is_legacy, sheets.parse_workbook),
    (("pptx", "pptm", "ppsx"), office.is_legacy, legacy.parse_ppt),
    (("ppt", "pps"), lambda data: data.startswith(b"PK"), sheets.parse_pptx),
    (("mht", "mhtml", "eml"), articles.is_mhtml, articles.parse_mhtml),
    (("sqlite", "sqlite3", "db"), notes.is_apple_notes, notes.parse_apple_notes),
    (("",), lambda data: data.startswith(b"From "), mail.parse_mbox),
)
"""Parsers by content for files with these endings; these take precedence."""
_SHAPES: tuple[tuple[Callable[[File, Any], Iterator[Entry]], Callable[[Any, Any], bool]], ...] = (
    (chats.make_chatgpt, lambda row, _: isinstance(row.get("mapping"), dict)),
    (chats.make_claude, lambda row, _: isinstance(row.get("chat_messages"), list)),
    (chats.make_claude_project, lambda row, _: "prompt_template" in row and "docs" in row),
    (chats.make_claude_memory, lambda row, _: "conversations_memory" in row),
    (chats.make_studio, lambda row, _: isinstance(row.get("chunkedPrompt"), dict)),
    (chats.make_gemini,
     lambda _, value: isinstance(value, list) and any(map(chats.is_gemini, value))),
    (chats.make_messages, lambda _, value: _has_roles(value)),
    (messengers.make_discord, lambda row, _: {"guild", "channel", "messages"} <= set(row)),
    (messengers.make_messenger, lambda row, _: {"participants", "thread_path"} <= set(row)),
    (messengers.make_telegram, lambda row, value: row is value and _is_telegram(row)),
    (messengers.make_slack, lambda row, value: isinstance(value, list)
     and row.get("type") == "message" and "ts" in row),
    (messengers.make_signal, lambda row, value: isinstance(value, list) and "body" in row
     and bool({"sent_at", "quote", "reactions"} & set(row))),
)  # fmt: skip
"""Parsers of chat exports in JSON, each with a test of the first row and the whole value."""


def _has_roles(value: Any) -> bool:
    rows = list_dicts(value if isinstance(value, list) else [value])[:SAMPLE_ROWS]
    messages = (each for row in rows for each in list_dicts(row.get("messages")))
    return any({"role", "content"} <= set(each) for each in messages)


def _is_telegram(row: Mapping[str, Any]) -> bool:
    chats, messages = row.get("chats"), row.get("messages")
    first = messages[:20] if isinstance(messages, list) else []
    known = {name for each in first if isinstance(each, dict) for name in each}
    return isinstance(chats, dict) or ("role" not in known and bool({"from", "from_id"} & known))


def _find_chat_maker(value: Any) -> Callable[[File, Any], Iterator[Entry]] | None:
    """The function that makes conversations of the rows of a JSON export; None for other JSON."""
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict):
        return None
    return next((make for make, is_it in _SHAPES if is_it(first, value)), None)


def _parse_chat_export(file: File, value: Any) -> Iterable[Entry]:
    """The conversations of an export in JSON; skips and reports unreadable ones."""
    make = _find_chat_maker(value)
    assert make
    if make in (messengers.make_slack, messengers.make_signal):
        return list(make(file, value))
    rows = [row for row in (value if isinstance(value, list) else [value]) if isinstance(row, dict)]
    return make_each(
        file, "conversation", rows, lambda row: (each for each in make(file, row) if each.pieces)
    )


_JSON: tuple[tuple[Callable[[Any], object], Callable[[File, Any], Iterable[Entry]]], ...] = (
    (prompts.is_card, prompts.parse_card),
    (_find_chat_maker, _parse_chat_export),
    (transcripts.is_transcript, transcripts.parse_transcript),
    (collected.is_csl, collected.parse_csl),
    (documents.is_notebook, documents.parse_notebook),
    (notes.is_keep, notes.parse_keep),
)
"""Parsers of JSON by shape."""
_LINES: tuple[tuple[tuple[Source, ...], Callable[[str], bool], Parser], ...] = (
    (("chats",), messengers.is_signal, messengers.parse_signal),
    (("chats",), messengers.is_whatsapp, messengers.parse_whatsapp),
    (("media",), collected.is_clippings, collected.parse_clippings),
)
"""Parsers of exports as plain text, by their first lines, and the sources they make."""
_REFUSED = _by_ending({
    "json": "JSON of no known export", "yaml yml": "YAML without prompts",
    "pages": "of Apple's Pages: export it as DOCX or PDF",
    "numbers": "of Apple's Numbers: export it as XLSX",
    "key": "of Apple's Keynote: export it as PPTX",
    "mobi azw azw3 kfx": "of a Kindle: convert it to EPUB", "djvu": "convert it to PDF",
    "pst ost": "of Outlook: save its mails as MSG or EML",
    "one": "of OneNote: export it as DOCX or PDF",
    "rar 7z tar gz tgz": "unpack it and import the folder",
    "mp3 m4a wav ogg flac mp4 mov mkv webm": "sound and video: import a transcript",
    "wpd wps sxw": "of an old word processor: save it as ODT or DOCX",
})  # fmt: skip
"""Advice on files that cannot be imported, by ending."""
_FABRIC = re.compile(r"(?:^|/)(?:system|user)\.md$")


def find_parser(file: File, wanted: Source | None) -> Parser:
    """The parser of a file. Raises `RefusedFormat`."""
    suffix = file.suffix
    if suffix == "html" and wanted != "media" and notes.is_notion(file):
        return notes.parse_notion
    for endings, is_it, parser in _BY_CONTENT:
        if suffix in endings and is_it(file.data):
            return parser
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    if suffix in _MARKDOWN or suffix in _TEXT:
        return _find_text(file, wanted)
    if suffix in prompts.READERS and (data := _find_data(file, wanted)):
        return data
    if suffix in ("csv", "tsv"):
        return collected.parse_table
    if mail.is_mail(file.data):
        return mail.parse_eml
    if file.left_out:
        raise RefusedFormat("broken", f"not JSON: {file.left_out[0].detail}")
    if file.is_named and (suffix in prompts.READERS or suffix not in _REFUSED):
        return documents.parse_plain_text  # the user named it, so it is imported as text
    raise RefusedFormat("unknown", _REFUSED.get(suffix, f".{suffix}" if suffix else "no ending"))


def _find_data(file: File, wanted: Source | None) -> Parser | None:
    value = prompts.READERS[file.suffix](file)
    for is_shape, parse in _JSON if file.suffix == "json" else ():
        if is_shape(value):
            return lambda file: parse(file, value)
    is_wanted = wanted == "prompts" or "prompt" in file.path.lower()
    is_prompt = prompts.is_prompt(value, wanted=is_wanted)
    return partial(prompts.parse_prompts, value=value) if is_prompt else None


def _find_text(file: File, wanted: Source | None) -> Parser:
    if file.suffix in _TEXT:
        text = file.text()
        for sources, is_it, parser in _LINES:
            if (wanted is None or wanted in sources) and is_it(text):
                return parser
        return notes.parse_note if wanted == "notes" else documents.parse_plain_text
    if wanted == "media":
        return documents.parse_markdown
    if _FABRIC.search(file.path):
        return prompts.parse_fabric
    return prompts.parse_prompt_markdown if wanted == "prompts" else notes.parse_note
