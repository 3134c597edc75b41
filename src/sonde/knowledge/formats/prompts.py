"""Prompts and character cards: entries with named fields.

Prompts come from Markdown, JSON, CSV, YAML and the folders of fabric; character cards V1, V2 and V3
from JSON and PNG.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from sonde.knowledge.formats import (
    File,
    RefusedFormat,
    front_matter_to_json,
    load_yaml,
    make_entry,
    split_front,
)
from sonde.knowledge.formats.data_files import SAMPLE_ROWS, load_json, read_named_rows
from sonde.knowledge.identity import DERIVED
from sonde.stores.knowledge.base import Entry
from sonde.text.formats import read_time

_NAMES = {
    "name": ("name", "title", "act", "id", "prompt_name"),
    "author": ("author", "creator", "by", "contributor"),
    "details": ("details", "description", "summary", "notes"),
    "system_prompt": ("system_prompt", "system", "system_message", "instructions"),
    "user_prompt": ("user_prompt", "user", "prompt", "template", "content", "text", "user_message"),
    "keywords": ("keywords", "tags", "categories", "labels"),
}
MAX_YAML_BYTES = 1 << 20  # a larger file takes the YAML parser seconds
_TEXTS = ("system_prompt", "user_prompt")
_PLAIN = ("system_prompt", "user_prompt", "prompt", "system_message", "user_message")
"""Keys that only prompts have."""
_SECTION = re.compile(r"(?im)^#{1,3} +(system|user|details|description)(?: prompt)?:? *$")


def is_prompt(value: Any, *, wanted: bool) -> bool:
    """Whether JSON, YAML or a table contains prompts.

    Unless prompts are `wanted` (by the user, or by the file's name), every row must have a key that
    only prompts have, since settings have texts under keys such as `content` as well.
    """
    rows = _list_rows(value, wanted=wanted)
    names = _TEXTS if wanted or _is_list_of_prompts(value) else ()
    return bool(rows) and all(
        isinstance(row, dict)
        and (
            any(_find(row, name) for name in names)
            or any(isinstance(row.get(n), str) and row[n].strip() for n in _PLAIN)
        )
        for row in rows[:SAMPLE_ROWS]
    )


def _is_list_of_prompts(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("prompts"), list | dict)


def _read_yaml(file: File) -> Any:
    """Parse YAML. Raises `RefusedFormat`."""
    import yaml

    if len(file.data) > MAX_YAML_BYTES:
        raise RefusedFormat("too_large", f"more than {MAX_YAML_BYTES} bytes of YAML")
    try:
        return front_matter_to_json(load_yaml(file.text()))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise RefusedFormat("broken", f"not YAML: {type(error).__name__}") from error


READERS: Mapping[str, Callable[[File], Any]] = {
    "json": load_json, "yaml": _read_yaml, "yml": _read_yaml,
    "csv": lambda file: list(islice(read_named_rows(file), SAMPLE_ROWS)),
}  # fmt: skip
"""Readers of data files by ending; of a table, only enough rows to recognise prompts."""


def parse_prompts(file: File, value: Any) -> list[Entry]:
    """A prompt, a list or table of prompts, or a mapping from names to prompts."""
    value = list(read_named_rows(file)) if file.suffix == "csv" else value
    rows = [row for row in _list_rows(value, wanted=True) if isinstance(row, dict)]
    if not rows:
        raise RefusedFormat("unknown", "no prompts")
    if len(rows) == 1 and isinstance(value, dict):
        return [_make(file, rows[0], "")]
    return [_make(file, row, DERIVED + (_find(row, "name") or f"{file.stem} {at}"))
            for at, row in enumerate(rows, 1)]  # fmt: skip


def parse_prompt_markdown(file: File) -> list[Entry]:
    """A prompt in Markdown, with sections `# System` and `# User` or as user prompt alone."""
    front, body = split_front(file.text())
    row = {str(key).lower(): value for key, value in front.items()}
    parts = _SECTION.split(body)
    for name, text in zip(parts[1::2], parts[2::2], strict=False):
        row[name.lower()] = text.strip()
    if not any(_find(row, name) for name in _TEXTS):
        row["user_prompt"] = body.strip()
    row.setdefault("name", file.stem)
    return [_make(file, row, "")]


def parse_fabric(file: File) -> list[Entry]:
    """A prompt of fabric, `patterns/<name>/system.md` or `user.md`."""
    folder = file.folder or file.stem
    field = "system_prompt" if file.stem.lower() == "system" else "user_prompt"
    name = folder if field == "system_prompt" else f"{folder} (user)"
    if not file.text().strip():
        raise RefusedFormat("no_text")
    return [_make(file, {"name": name, field: file.text().strip()}, "")]


def _list_rows(value: Any, *, wanted: bool) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        if _is_list_of_prompts(value):
            return _list_rows(value["prompts"], wanted=True)
        if any(_find(value, name) for name in _TEXTS):
            return [value]
        rows = [
            {"name": key} | (row if isinstance(row, dict) else {"user_prompt": row})
            for key, row in value.items()
            if isinstance(row, dict) or (wanted and isinstance(row, str))
        ]
        return rows if len(rows) == len(value) else []
    return []


def _make(file: File, row: Mapping[str, Any], key: str) -> Entry:
    known = {name: _find(row, name) for name in _NAMES}
    if not any(known[name] for name in _TEXTS):
        raise RefusedFormat("unknown", "a prompt without text")
    given: Any = next((row[alias] for alias in _NAMES["keywords"] if row.get(alias)), [])
    named = given if isinstance(given, list) else re.split(r"[,;]\s*", str(given))
    tags = tuple(str(tag).strip() for tag in named if str(tag).strip())
    shown = {name: known[name] for name in ("details", *_TEXTS, "author")}
    shown["keywords"] = ", ".join(tags)
    fields = {name: text for name, text in shown.items() if text}
    name = known["name"] or key.removeprefix(DERIVED) or file.stem
    used = {alias for aliases in _NAMES.values() for alias in aliases}
    rest = {str(name): value for name, value in row.items() if name not in used and value}
    return make_entry("prompts", name, fields, file, path=key, tags=tags, facts=rest)


def _find(row: Mapping[str, Any], name: str) -> str:
    for alias in _NAMES[name]:
        value = row.get(alias)
        if isinstance(value, str) and value.strip():
            return value.strip() if name in ("name", "author") else value
        if isinstance(value, int) and not isinstance(value, bool) and name == "name":
            return str(value)
    return ""


CARD_FIELDS = (
    "description", "personality", "scenario", "first_mes", "mes_example", "creator_notes",
    "system_prompt", "post_history_instructions",
)  # fmt: skip
_PNG = b"\x89PNG\r\n\x1a\n"
MAX_CARD_BYTES = 1 << 25  # of a card after decompression


def is_card(value: Any) -> bool:
    """Whether JSON is a character card."""
    data = value.get("data", value) if isinstance(value, dict) else None
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        return False
    return str(value.get("spec", "")).startswith("chara_card") or "first_mes" in data


def has_card(data: bytes) -> bool:
    """Whether a PNG contains a character card."""
    try:
        return any(name in ("chara", "ccv3") for name, _ in _list_texts(data))
    except RefusedFormat:
        return False


def parse_png(file: File) -> list[Entry]:
    """The character card in a PNG, V3 if there is one."""
    texts = dict(_list_texts(file.data))
    packed = texts.get("ccv3") or texts.get("chara")
    if not packed:
        raise RefusedFormat("unknown", "no card in the picture")
    try:
        card = json.loads(base64.b64decode(packed))
    except (ValueError, binascii.Error, RecursionError) as error:
        raise RefusedFormat("broken", f"the card: {error}") from error
    return parse_card(file, card)


def parse_card(file: File, card: Any) -> list[Entry]:
    """A character card in JSON."""
    if not is_card(card):
        raise RefusedFormat("unknown", "not a character card")
    data: Mapping[str, Any] = card.get("data", card)
    fields = {name: str(data[name]) for name in CARD_FIELDS if data.get(name)}
    for name in ("alternate_greetings", "group_only_greetings"):
        greetings = data.get(name) or []
        if isinstance(greetings, list) and greetings:
            fields[name] = "\n\n".join(map(str, greetings))
    book = data.get("character_book")
    if isinstance(book, dict) and isinstance(book.get("entries"), list):
        lore = [str(each.get("content", "")) for each in book["entries"] if isinstance(each, dict)]
        fields["character_book"] = "\n\n".join(filter(None, lore))
    tags = data.get("tags") if isinstance(data.get("tags"), list) else []
    said = {name: text for name, text in fields.items() if text}
    return [make_entry(
        "characters", str(data["name"]), said, file, tags=tuple(map(str, tags or ())),
        created_at=read_time(data.get("creation_date")) or file.modified,
        last_modified=read_time(data.get("modification_date")) or file.modified,
        facts={"card": card},
    )]  # fmt: skip


def _list_texts(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The text chunks of a PNG: keyword and text."""
    if not data.startswith(_PNG):
        raise RefusedFormat("broken", "not a PNG")
    at = len(_PNG)
    while at + 8 <= len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        at += size + 12
        if kind == b"IEND":
            return
        if kind not in (b"tEXt", b"zTXt", b"iTXt"):
            continue
        name, _, text = body.partition(b"\0")
        packed = kind == b"zTXt" or (kind == b"iTXt" and text[:1] == b"\1")
        text = text[1:] if kind == b"zTXt" else text
        text = text[2:].split(b"\0", 2)[-1] if kind == b"iTXt" else text
        try:
            text = zlib.decompressobj().decompress(text, MAX_CARD_BYTES) if packed else text
        except zlib.error as error:
            raise RefusedFormat("broken", str(error)) from error
        yield name.decode("latin-1").lower(), text
