"""One damaged part never costs the rest of a file, and is named."""

from __future__ import annotations

import io
import json
import re
import zipfile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sonde.knowledge.formats import LEFT_OUT, File, RefusedFormat
from sonde.knowledge.parsing import parse_file
from sonde.stores.knowledge.base import Entry
from sonde.types import Skipped

from .test_fidelity import MADE
from .test_identity import CONTAINERS, Item, number_of

JUNK = (b'"', b"\xff\xfe", b"<&", b"\\", b"}]", b"\x00", b"]]>", b"</note>")
IN_ONE_PIECE = ("Telegram",)  # one JSON object: what follows the damage cannot be told apart


def read(name: str, data: bytes) -> tuple[list[Entry], list[Skipped]]:
    left: list[Skipped] = []
    return parse_file(File(name, data, 1), None, left), left


@pytest.mark.parametrize("kind", [kind for kind in CONTAINERS if kind not in IN_ONE_PIECE])
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


def test_an_export_that_is_one_object_is_refused_with_the_place():
    write, name = CONTAINERS["Telegram"]
    data = write([Item(0, "first")]).replace(b"item0", b'"')
    with pytest.raises(RefusedFormat, match="line 1 column"):
        read(name, data)


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
    r"ppt/slides/slide|xl/(?:work|styles|sharedStrings)|\[Content_Types\]|mimetype|\.png$|/$"
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


def test_a_damaged_chapter_costs_no_other_of_a_book():
    name = next(name for name in MADE.namelist() if name.endswith("rich.pandoc.epub"))
    data = MADE.read(name)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        chapter = next(each for each in archive.namelist() if "/title" in each)
    (entry,), left = read(name, damage(data, chapter))
    assert "Port Ellery" in "".join(piece.text for piece in entry.pieces)
    assert [part.reason for part in left] == ["damaged"]
