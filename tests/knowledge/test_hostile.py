"""Files made to hurt a parser: long lines, deep nesting; each is read or refused in good time."""

from __future__ import annotations

import io
import re
import time
import zipfile
from collections.abc import Iterator

import pytest

from sonde.knowledge.formats import File, RefusedFormat, decode_bytes
from sonde.knowledge.parsing import Parsers

SIZE = 100_000
PARTS = (
    "[", "[[", "![", "![[a", "[[a|", "#", "#a", "#1", "`", "```\n", "~~~a\n", "<", "<v ", "<v.a ",
    "<b>", "<!--", "</", "&", "{\\", "1", "1:", "1:2", "00:00", "-->", "0,0 -->", "a:: b\n", "- ",
    "---\n", " ", "\t", "\n", "\r", "a", "é", "\u202e", "😀", "(", "](", ",", ";", "From ",
    "From a\n", "a: b\n", "[1/1/24, 1:1] ", "Subject: x\n", "\\", '"', "{", "{}", "%", "\x1b[",
)  # fmt: skip
NAMES = (
    "a.md", "a.txt", "a.srt", "a.vtt", "a.html", "a.eml", "a.mbox", "a.csv", "a.yaml", "a.json",
    "a.jsonl", "a.enex", "a",
)  # fmt: skip
LIMIT_S = 10.0


@pytest.fixture(scope="module")
def parsers() -> Iterator[Parsers]:
    made = Parsers(seconds=LIMIT_S)
    yield made
    made.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_line_of_anything_is_read_or_refused_in_good_time(parsers, name):
    problems = []
    for part in PARTS:
        text = part * (SIZE // len(part))
        if name == "a.srt":
            text = f"1\n00:00:01,000 --> 00:00:02,000\n{text}\n"
        began = time.monotonic()
        try:
            parsers.parse(File(name, text.encode(), 1))
        except RefusedFormat as error:
            problems += [(part, error.reason)] * (error.reason in ("too_slow", "crashed"))
        if time.monotonic() - began > LIMIT_S / 2:
            problems.append((part, "slow"))
    assert not problems


ENTITIES = '<!DOCTYPE x [<!ENTITY a "' + "ha" * 50 + '">' + "".join(
    f'<!ENTITY {chr(98 + at)} "{f"&{chr(97 + at)};" * 10}">' for at in range(8)
) + ']>'  # fmt: skip
OUTSIDE = '<!DOCTYPE x [<!ENTITY i SYSTEM "file:///etc/passwd">]>'
BODIES = {
    "letter.docx": ("word/document.xml", "Dear walrus"),
    "slides.pptx": ("ppt/slides/slide1.xml", "Walrus slide"),
    "table.xlsx": ("xl/worksheets/sheet1.xml", "walrus"),
    "book.epub": ("OEBPS/one.xhtml", "chapter one"),
}


def test_a_long_line_beside_a_byte_of_another_encoding_takes_no_time():
    data = b"caf\xe9\n" + b"us " * 21_000
    began = time.process_time()
    assert decode_bytes(data) == data.decode("latin-1")
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("head", ["entities", "outside"])
def test_entities_in_documents_are_not_resolved(parsers, fixtures, name, head):
    """Neither a few bytes that would become gigabytes, nor a file of this machine."""
    doctype, use = (ENTITIES, "&i;") if head == "entities" else (OUTSIDE, "&i;")
    packed = io.BytesIO()
    inside, said = BODIES[name]
    with zipfile.ZipFile(fixtures / name) as source, zipfile.ZipFile(packed, "w") as target:
        changed = 0
        for member in source.namelist():
            text = source.read(member)
            if member == inside or (name == "book.epub" and said.encode() in text):
                plain = re.sub(r"^<\?xml[^>]*\?>", "", text.decode())
                changed += 1
                text = (doctype + plain.replace(said, f"{said} {use}")).encode()
            target.writestr(member, text)
    assert changed == 1
    try:
        entries = list(parsers.parse(File(name, packed.getvalue(), 1)).read())
    except RefusedFormat as error:
        assert error.reason in ("broken", "hostile", "no_text")  # noqa: PT017 - either is right
        return
    text = "".join(piece.text for entry in entries for piece in entry.pieces)
    assert len(text) < 10_000
    assert "root:" not in text


def test_an_archive_with_a_password_is_refused(parsers):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.md", "secret")
    data = bytearray(packed.getvalue())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + at] |= 1  # the flag that says so
    with pytest.raises(RefusedFormat) as caught:
        parsers.parse(File("a.zip", bytes(data), 1))
    assert caught.value.reason == "encrypted"


def test_a_parser_runs_nothing_that_lies_in_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "select.py").write_text("open('ran', 'w').close()\nraise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    made = Parsers(seconds=60.0)
    try:
        assert made.parse(File("a.md", b"# Title\n\ntext\n", 0))
    finally:
        made.close()
    assert not (tmp_path / "ran").exists()
