"""Character cards V1, V2 and V3, as JSON and inside PNG."""

from __future__ import annotations

import base64
import binascii
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from sonde.knowledge.formats.reading import File, RefusedFormat, load_json, make_fields
from sonde.stores.knowledge.base import Entry
from sonde.text.times import read_time

FIELDS = (
    "description", "personality", "scenario", "first_mes", "mes_example", "creator_notes",
    "system_prompt", "post_history_instructions",
)  # fmt: skip
_PNG = b"\x89PNG\r\n\x1a\n"
_MOST_TEXT = 1 << 25


def is_card(value: Any) -> bool:
    """JSON that is a character."""
    data = value.get("data", value) if isinstance(value, dict) else None
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        return False
    return str(value.get("spec", "")).startswith("chara_card") or "first_mes" in data


def parse_card(file: File) -> list[Entry]:
    """A card as a JSON file."""
    return [_make_card(file, load_json(file))]


def has_card(data: bytes) -> bool:
    """Whether a PNG carries a card."""
    try:
        return any(name in ("chara", "ccv3") for name, _ in _list_texts(data))
    except RefusedFormat:
        return False


def parse_png(file: File) -> list[Entry]:
    """A card inside a picture; V3 wins over V2."""
    texts = dict(_list_texts(file.data))
    packed = texts.get("ccv3") or texts.get("chara")
    if not packed:
        raise RefusedFormat("unknown", "no card in the picture")
    try:
        card = json.loads(base64.b64decode(packed))
    except (ValueError, binascii.Error, RecursionError) as error:
        raise RefusedFormat("broken", f"the card: {error}") from error
    return [_make_card(file, card)]


def _make_card(file: File, card: Any) -> Entry:
    if not is_card(card):
        raise RefusedFormat("unknown", "not a character card")
    data: Mapping[str, Any] = card.get("data", card)
    fields = {name: str(data[name]) for name in FIELDS if data.get(name)}
    for name in ("alternate_greetings", "group_only_greetings"):
        greetings = data.get(name) or []
        if isinstance(greetings, list) and greetings:
            fields[name] = "\n\n".join(map(str, greetings))
    book = data.get("character_book")
    if isinstance(book, dict) and isinstance(book.get("entries"), list):
        lore = [str(each.get("content", "")) for each in book["entries"] if isinstance(each, dict)]
        fields["character_book"] = "\n\n".join(filter(None, lore))
    tags = data.get("tags") if isinstance(data.get("tags"), list) else []
    created = read_time(data.get("creation_date")) or file.modified
    modified = read_time(data.get("modification_date")) or file.modified
    return make_fields(
        "characters",
        str(data["name"]),
        {name: text for name, text in fields.items() if text},
        file,
        tags=tuple(str(tag) for tag in tags or ()),
        created_at=created,
        last_modified=modified,
        facts={"card": card},
    )


def _list_texts(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The texts of a PNG by keyword."""
    if not data.startswith(_PNG):
        raise RefusedFormat("broken", "not a PNG")
    at = len(_PNG)
    while at + 8 <= len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        at += size + 12
        if kind == b"tEXt":
            name, _, text = body.partition(b"\0")
            yield name.decode("latin-1").lower(), text
        elif kind == b"zTXt":
            name, _, text = body.partition(b"\0")
            yield name.decode("latin-1").lower(), _inflate(text[1:])
        elif kind == b"iTXt":
            name, _, rest = body.partition(b"\0")
            packed = rest[:1] == b"\1"
            text = rest[2:].split(b"\0", 2)[-1]
            yield name.decode("latin-1").lower(), _inflate(text) if packed else text
        elif kind == b"IEND":
            return


def _inflate(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, _MOST_TEXT)
    except zlib.error as error:
        raise RefusedFormat("broken", str(error)) from error
