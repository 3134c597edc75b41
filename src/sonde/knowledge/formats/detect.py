"""Which format a file is in, by its name and a look inside."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from sonde.knowledge.formats import (
    MAX_UNPACKED_BYTES,
    File,
    RefusedFormat,
    apple,
    chats,
    documents,
    load_json,
    notes,
    open_archive,
    prompts,
    read_member,
    transcripts,
)
from sonde.policy.admit import find_denied
from sonde.policy.roots import show_path
from sonde.stores.knowledge.base import Entry, Source
from sonde.types import Skipped

Parser = Callable[[File], list[Entry]]

_DOCUMENTS: Mapping[str, Parser] = {
    "pdf": documents.parse_pdf,
    "epub": documents.parse_epub,
    "docx": documents.parse_docx,
    "pptx": documents.parse_pptx,
    "xlsx": documents.parse_xlsx,
    "html": documents.parse_html,
    "htm": documents.parse_html,
    "xhtml": documents.parse_html,
    "srt": transcripts.parse_subtitles,
    "vtt": transcripts.parse_subtitles,
    "eml": documents.parse_eml,
    "mbox": documents.parse_mbox,
    "enex": notes.parse_enex,
    "jpg": documents.parse_image,
    "jpeg": documents.parse_image,
    "gif": documents.parse_image,
    "webp": documents.parse_image,
    "tiff": documents.parse_image,
}
MAX_NESTED_ARCHIVES = 1
"""Notion packs its parts once more; deeper nesting is a bomb."""
_LEFT_PACKED = ("png", "jpg", "jpeg", "gif", "webp", "tiff", "")
_MARKDOWN = ("md", "markdown", "mdown")
_TEXT = ("txt", "text", "rst", "org", "adoc")
_FABRIC = re.compile(r"(?:^|/)(?:system|user)\.md$")
_OWN = re.compile(r"(?:^|/)(?:logseq|\.obsidian|\.trash)/")
"""Folders where note programs keep their own files."""


def parse_file(
    file: File, wanted: Source | None = None, left_out: list[Skipped] | None = None
) -> list[Entry]:
    """The entries of a file; `wanted` is the source its owner files it under.

    Members of an archive that are not imported are added to `left_out`.
    """
    if file.suffix == "zip":
        left = [] if left_out is None else left_out
        return _parse_archive(file, wanted, left, [MAX_UNPACKED_BYTES])
    if _OWN.search(file.path):
        raise RefusedFormat("unknown", "belongs to the program")
    entries = _find_parser(file, wanted)(file)
    if wanted and any(entry.source != wanted for entry in entries):
        raise RefusedFormat("unknown", f"not among {wanted}")
    return entries


def _find_parser(file: File, wanted: Source | None) -> Parser:
    suffix = file.suffix
    if suffix == "html" and wanted != "media" and notes.is_notion(file):
        return notes.parse_notion
    if suffix in _DOCUMENTS:
        return _DOCUMENTS[suffix]
    if suffix in _MARKDOWN:
        return _find_markdown(file, wanted)
    if suffix in _TEXT:
        return _find_text(file, wanted)
    if not suffix and file.data.startswith(b"From "):
        return documents.parse_mbox
    if suffix == "png":
        return prompts.parse_png if prompts.has_card(file.data) else documents.parse_image
    if suffix == "json":
        return _find_json(file)
    if suffix == "jsonl":
        return transcripts.parse_log
    if suffix in ("csv", "yaml", "yml"):
        return _find_table(file)
    if suffix in ("sqlite", "sqlite3", "db") and apple.is_apple_notes(file.data):
        return apple.parse_apple_notes
    if documents.is_mail(file.data):
        return documents.parse_eml
    raise RefusedFormat("unknown", f".{suffix}" if suffix else "no ending")


def _find_markdown(file: File, wanted: Source | None) -> Parser:
    if wanted == "media":
        return documents.parse_markdown
    if _FABRIC.search(file.path):
        return prompts.parse_fabric
    return prompts.parse_prompt_markdown if wanted == "prompts" else notes.parse_note


def _find_text(file: File, wanted: Source | None) -> Parser:
    if wanted == "notes":
        return notes.parse_note
    if wanted in (None, "chats") and chats.is_whatsapp(file.text()):
        return chats.parse_whatsapp
    return documents.parse_plain_text


def _find_json(file: File) -> Parser:
    value = load_json(file)
    if prompts.is_card(value):
        return prompts.parse_card
    if chats.find_chat_kind(value):
        return chats.parse_chat_export
    if transcripts.is_transcript(value):
        return transcripts.parse_transcript
    if prompts.is_prompt(value):
        return prompts.parse_prompt_json
    raise RefusedFormat("unknown", "JSON of another kind")


def _find_table(file: File) -> Parser:
    if file.suffix == "csv" and prompts.is_prompt(prompts.read_csv(file)):
        return prompts.parse_prompt_csv
    if file.suffix != "csv" and prompts.is_prompt(prompts.read_yaml(file)):
        return prompts.parse_prompt_yaml
    raise RefusedFormat("unknown", f"a .{file.suffix} file without prompts")


def _parse_archive(
    file: File, wanted: Source | None, left_out: list[Skipped], room: list[int], depth: int = 0
) -> list[Entry]:
    """The entries of every known file in an archive, pictures excepted.

    Nested archives share the `room` for unpacked bytes.
    """
    entries: list[Entry] = []
    with open_archive(file.data, room[0]) as archive:
        room[0] -= sum(member.file_size for member in archive.infolist())
        for name in sorted(archive.namelist()):
            inner = File(name, b"", file.modified)
            if name.endswith("/"):
                continue
            try:
                if denial := find_denied(name.replace("\\", "/")):
                    raise RefusedFormat("denied", denial)
                if inner.suffix in _LEFT_PACKED:
                    raise RefusedFormat("unknown", "left packed")
                if inner.suffix == "zip" and depth >= MAX_NESTED_ARCHIVES:
                    raise RefusedFormat("hostile", "archives in archives in archives")
                people = posixpath.join(posixpath.dirname(posixpath.dirname(name)), chats.PEOPLE)
                known = people in archive.NameToInfo and inner.suffix == "json"
                beside = read_member(archive, people) if known else b""
                inner = File(name, read_member(archive, name), file.modified, beside)
                if inner.suffix == "zip":
                    inner = replace(inner, path=f"{file.path}/{name}")
                    found = _parse_archive(inner, wanted, left_out, room, depth + 1)
                else:
                    found = parse_file(inner, wanted)
            except RefusedFormat as error:
                place = show_path(f"{file.path}/{name}")
                left_out.append(Skipped(place, error.reason, error.detail))
                continue
            entries += [replace(each, path=f"{name}!{each.path}") for each in found]
    if not entries:
        raise RefusedFormat("unknown", "nothing known in the archive")
    return entries
