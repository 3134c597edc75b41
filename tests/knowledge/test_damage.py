"""One damaged part never costs the rest of a file, and is named."""

from __future__ import annotations

import io
import json
import re
import zipfile
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sonde.knowledge.formats import LEFT_OUT, File
from sonde.knowledge.parsing import parse_file
from sonde.stores.knowledge.base import Entry
from sonde.types import Skipped

from .test_fidelity import MADE
from .test_identity import CONTAINERS, Item, number_of

JUNK = (b'"', b"\xff\xfe", b"<&", b"\\", b"}]", b"\x00", b"]]>", b"</note>")


def read(name: str, data: bytes) -> tuple[list[Entry], list[Skipped]]:
    left: list[Skipped] = []
    return parse_file(File(name, data, 1), None, left), left


@pytest.mark.parametrize("kind", CONTAINERS)
@settings(max_examples=30, deadline=None)
@given(at=st.integers(0, 4), junk=st.lists(st.sampled_from(JUNK), min_size=1, max_size=4))
@example(at=0, junk=[b"]]>", b"\xff\xfe", b"\xff\xfe", b"<&"])  # taken for EBCDIC
def test_a_damaged_entry_costs_no_other(kind, at, junk):
    write, name = CONTAINERS[kind]
    data = write([Item(number, "first") for number in range(5)])
    begin = data.index(f"item{at} first".encode()) + len(f"item{at} f")
    data = data[:begin] + b"".join(junk) + data[begin + 4 :]
    entries, left = read(name, data)
    found = {number_of(entry) for entry in entries}
    assert found >= set(range(5)) - {at}
    assert at in found or any(part.reason == "damaged" for part in left)


def talk_of(app: str, texts: list[str], name: str = "") -> dict[str, Any]:
    """One exported conversation as the app writes it, with what real exports nest in messages."""
    if app == "Telegram":
        return {"name": name, "type": "personal_chat", "id": 7, "messages": [
            {"id": n, "type": "message", "from": "Ann", "from_id": "user1", "text": text,
             "text_entities": [{"type": "plain", "text": "x"}]}
            for n, text in enumerate(texts)]}  # fmt: skip
    if app == "Discord":
        return {"guild": {"id": "1", "name": name}, "channel": {"id": "2", "name": "general"},
                "messages": [
            {"id": str(n), "type": "Default", "timestamp": "2024-01-01T10:00:00+00:00",
             "content": text, "author": {"id": "9", "name": "ann", "roles": [
                 {"id": "5", "name": "admin", "color": "", "position": 1}]},
             "attachments": [], "embeds": [], "reactions": []} for n, text in enumerate(texts)],
            "messageCount": len(texts)}  # fmt: skip
    return {"participants": [{"name": "Ann"}, {"name": "Bob"}], "messages": [
        {"sender_name": "Ann", "timestamp_ms": 1700000000000 - n, "content": text,
         "reactions": [{"reaction": "+", "actor": "Bob"}], "is_geoblocked": False}
        for n, text in enumerate(texts)], "title": name, "thread_path": "inbox/7"}  # fmt: skip


@pytest.mark.parametrize("app", ["Telegram", "Discord", "Messenger"])
@pytest.mark.parametrize("indent", [None, 1])
@settings(max_examples=30, deadline=None)
@given(at=st.integers(0, 4), junk=st.lists(st.sampled_from(JUNK), min_size=1, max_size=4))
def test_a_damaged_message_costs_no_other_of_a_conversation(app, indent, at, junk):
    talk = talk_of(app, [f"item{n} words" for n in range(5)], "Port Ellery")
    data = json.dumps(talk, indent=indent).encode()
    begin = data.index(f"item{at} words".encode()) + len(f"item{at} w")
    (entry,), left = read("result.json", data[:begin] + b"".join(junk) + data[begin + 4 :])
    found = {number for piece in entry.pieces for number in re.findall(r"item(\d)", piece.text)}
    assert found >= {str(n) for n in range(5) if n != at}
    assert str(at) in found or any(part.reason == "damaged" for part in left)
    assert "Port Ellery" in entry.title


@example(at=6, junk=[b'"', b"}]", b"}]"], of_name=True)
@settings(max_examples=100, deadline=None)
@given(
    at=st.integers(0, 8),
    junk=st.lists(st.sampled_from(JUNK), min_size=1, max_size=4),
    of_name=st.booleans(),
)
def test_messages_around_damage_stay_in_their_conversations(at, junk, of_name):
    talks = [talk_of("Telegram", [f"item{n} words" for n in range(first, first + 3)], f"of {first}")
             | {"id": first + 1} for first in (0, 3, 6)]  # fmt: skip
    data = json.dumps({"contacts": {"list": []}, "chats": {"about": "x", "list": talks}}).encode()
    damaged = f"of {at // 3 * 3}" if of_name else f"item{at} words"
    begin = data.index(damaged.encode()) + len(damaged) - 1
    entries, left = read("result.json", data[:begin] + b"".join(junk) + data[begin + 1 :])
    kept = dict[int, set[int]]()
    for entry in entries:
        numbers = {int(n) for piece in entry.pieces for n in re.findall(r"item(\d)", piece.text)}
        assert len({n // 3 for n in numbers}) == 1
        kept[min(numbers) // 3] = numbers
    lost = set(range(9)) - set().union(*kept.values())
    assert lost <= (set(range(at // 3 * 3, at // 3 * 3 + 3)) if of_name else {at})
    assert not lost or left


def test_a_damaged_name_costs_no_message():
    data = json.dumps(talk_of("Telegram", ["item0 words"], "Port Ellery")).encode()
    (entry,), left = read("result.json", data.replace(b"Port", b'"'))
    assert [piece.text for piece in entry.pieces] == ["item0 words"]
    assert len(left) == 1


def test_a_truncated_export_keeps_what_is_whole():
    write, name = CONTAINERS["ChatGPT"]
    data = write([Item(number, "first") for number in range(5)])
    entries, left = read(name, data[: data.index(b"item3") + 9])
    assert ({number_of(entry) for entry in entries}, len(left)) == ({0, 1, 2}, 1)


def test_a_damaged_line_of_a_log_costs_only_itself():
    rows = [json.dumps({"type": "user", "sessionId": "s", "message": {"role": "user",
            "content": f"line {n}"}}) for n in range(4)]  # fmt: skip
    rows[2] = rows[2][:-5]
    entries, left = read("log.jsonl", "\n".join(rows).encode())
    assert [piece.text for piece in entries[0].pieces] == ["line 0", "line 1", "line 3"]
    assert [part.path for part in left] == ["log.jsonl/line 3"]


def test_a_wrong_byte_does_not_change_the_encoding():
    text = "Größe und Übermut in Köln, schön gesagt über die Brücke. " * 9
    entries, _ = read("a.txt", text.encode()[:-3] + b"\xff" + text.encode()[-3:])
    assert "Größe und Übermut" in entries[0].pieces[0].text


def damage(data: bytes, name: str) -> bytes:
    """An archive whose member no longer unpacks."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, content in members.items():
            archive.writestr(each, content)
        info = archive.getinfo(name)
    made = bytearray(packed.getvalue())
    begin = info.header_offset + 30 + len(name.encode())
    made[begin : begin + info.compress_size] = b"\xff" * info.compress_size
    return bytes(made)


def test_a_damaged_member_costs_no_other_of_an_archive():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(3):
            archive.writestr(f"{number}.md", f"item{number} words of a note")
    entries, left = read("notes.zip", damage(packed.getvalue(), "1.md"))
    assert {number_of(entry) for entry in entries} == {0, 2}
    assert [(part.path, part.reason) for part in left] == [("notes.zip/1.md", "broken")]


PACKED = [name for name in MADE.namelist() if name.endswith(("docx", "odt", "pptx", "xlsx"))]
NEEDED = re.compile(
    r"_rels/(?:presentation\.xml|workbook\.xml)?\.rels|word/document|content\.xml|ppt/presentation|"
    r"ppt/slides/slide|xl/(?:work|sharedStrings)|\[Content_Types\]|mimetype|\.png$|/$"
)


@pytest.mark.parametrize("name", PACKED)
def test_a_damaged_part_costs_no_other_of_a_document(name):
    data = MADE.read(name)
    whole = read(name, data)[0][0]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = [each for each in archive.namelist() if not NEEDED.search(each)]
    for part in parts:
        (entry,), left = read(name, damage(data, part))
        kept = sum(len(piece.text) for piece in entry.pieces)
        assert kept > 0.6 * sum(len(piece.text) for piece in whole.pieces), part
        assert entry.facts.get(LEFT_OUT, {}).get("damaged part", 0) == len(left), part


def test_a_workbook_without_its_texts_keeps_its_numbers():
    name = "table.libreoffice.xlsx"
    (entry,), left = read(name, damage(MADE.read(name), "xl/sharedStrings.xml"))
    assert "12.5" in entry.pieces[0].text
    assert [(part.path, part.reason) for part in left] == [
        (f"{name}/xl/sharedStrings.xml", "damaged")
    ]


def test_a_damaged_part_of_a_pdf_is_named():
    name = "rich.libreoffice-from-docx.pdf"
    data = MADE.read(name)
    begin = data.index(b"stream\n") + len(b"stream\n")
    assert read(name, data)[1] == []
    entries, left = read(name, data[:begin] + b"\xff" * 40 + data[begin + 40 :])
    assert [part.path for part in left] == [f"{name}/byte {begin}"]
    assert entries[0].facts[LEFT_OUT]["damaged part"] == 1


def test_a_damaged_chapter_costs_no_other_of_a_book():
    name = next(name for name in MADE.namelist() if name.endswith("rich.pandoc.epub"))
    data = MADE.read(name)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        chapter = next(each for each in archive.namelist() if "/title" in each)
    (entry,), left = read(name, damage(data, chapter))
    assert "Port Ellery" in "".join(piece.text for piece in entry.pieces)
    assert [part.reason for part in left] == ["damaged"]
