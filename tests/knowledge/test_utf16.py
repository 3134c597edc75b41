"""Text in UTF-16 without a byte order mark comes in; files that are no text are still refused."""

from __future__ import annotations

import json
import random
import struct
import zlib
from array import array
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.knowledge.formats import File, RefusedFormat
from sonde.knowledge.parsing import parse_file
from sonde.text.encodings import decode_utf16

ORDERS = ["utf-16-le", "utf-16-be"]
LATIN = st.characters(max_codepoint=0xFF, exclude_categories=["Cc"]) | st.sampled_from("\n\t é")
SCRIPTS = [  # letters that text mixes with Latin ones, spaces and digits
    st.characters(min_codepoint=0x0100, max_codepoint=0x017F),
    st.characters(min_codepoint=0x0391, max_codepoint=0x03C9, categories=["L"]),
    st.characters(min_codepoint=0x0410, max_codepoint=0x044F),
    st.characters(min_codepoint=0x4E00, max_codepoint=0x9FA5),
    st.sampled_from("—“”…€🚢🫨"),
]
FILES = {
    "a.txt": "Walrus notes\nfrom the harbour",
    "a.md": "---\ntags: [boats]\n---\n# Fleet\nWalrus from the harbour",
    "a.csv": "boat,skipper\nWalrus,Größe from the harbour\n",
    "a.html": "<html><head><meta charset='utf-16'><title>Fleet</title></head><body><p>Walrus from "
    "the harbour</p></body></html>",
    "a.xhtml": "<?xml version='1.0' encoding='UTF-16'?><html><body><p>Walrus from the harbour</p>"
    "</body></html>",
    "a.opml": '<?xml version="1.0" encoding="UTF-16"?><opml><body><outline text="Walrus from the '
    'harbour"/></body></opml>',
    "a.tex": "\\documentclass{article}\\begin{document}Walrus from the harbour\\end{document}",
    "a.ics": "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nSUMMARY:Walrus from the harbour\nEND:VEVENT\n"
    "END:VCALENDAR\n",
    "a.vcf": "BEGIN:VCARD\nVERSION:3.0\nFN:Walrus from the harbour\nEND:VCARD\n",
    "a.bib": "@book{a, title={Walrus from the harbour}, author={Ann}}",
    "a.srt": "1\n00:00:01,000 --> 00:00:02,000\nWalrus from the harbour\n",
    "a.eml": "From: a@example.org\nSubject: Fleet\nDate: Mon, 1 Jan 2024 10:00:00 +0000\n\nWalrus "
    "from the harbour\n",
    "a.rtf": "{\\rtf1\\ansi Walrus from the harbour}",
    "conversations.json": json.dumps(
        [{"messages": [{"role": "user", "content": "Walrus from the harbour"}]}]
    ),
    "bookmarks.html": '<!DOCTYPE NETSCAPE-Bookmark-file-1><DL><DT><A HREF="https://example.org/" '
    'ADD_DATE="1700000000">Walrus from the harbour</A></DL>',
    "chat.txt": "[01.02.24, 10:00:00] Ann: Walrus from the harbour\n[01.02.24, 10:01:00] Bob: ok\n",
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", FILES)
def test_a_file_in_utf_16_is_read_like_one_in_utf_8(name, order):
    entries = parse_file(File(name, FILES[name].encode(order), 1))
    plain = FILES[name].replace("UTF-16", "UTF-8").encode()
    assert entries == parse_file(File(name, plain, 1))
    said = [entry.title + "".join(piece.text for piece in entry.pieces) for entry in entries]
    assert "from the harbour" in "".join(said)


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_text_with_many_latin_characters_comes_back(order, data):
    latin = data.draw(st.text(LATIN, min_size=2, max_size=200))
    other = data.draw(st.text(st.one_of(SCRIPTS), max_size=len(latin) // 2))
    text = "".join(data.draw(st.permutations(latin + other)))
    assert decode_utf16(text.encode(order)) == text


@pytest.mark.parametrize("order", ORDERS)
def test_long_texts_need_few_latin_characters(order):
    lines = "Эта функция читает файл настроек.\n设定文件，然后建立网络连接 2024\n" * 20
    assert decode_utf16(lines.encode(order)) == lines


numbers = st.lists(st.integers(-(2**15), 2**15 - 1), min_size=40, max_size=400)


@settings(max_examples=300, deadline=None)
@given(
    st.binary(min_size=80, max_size=800)
    | numbers.map(lambda rows: array("h", rows).tobytes())
    | numbers.map(lambda rows: array("i", rows).tobytes())
    | numbers.map(lambda rows: array("d", rows).tobytes())
    | st.lists(st.integers(0, 31), min_size=40).map(lambda rows: array("H", rows).tobytes())
    | numbers.map(lambda rows: b"RIFF\0\0\0\0WAVEfmt \0" + array("h", rows).tobytes())
    | st.text(min_size=40).map(lambda text: zlib.compress(text.encode("utf-8", "replace")))
    | st.lists(st.tuples(st.text("abc", max_size=9), st.integers(0, 99)), min_size=20).map(
        lambda rows: b"".join(struct.pack("<10sI", text.encode(), n) for text, n in rows)
    )
)
def test_what_is_no_text_is_refused(data):
    assert decode_utf16(data) is None
    if b"\0" in data[:8192] and data.count(0) * 100 >= len(data):
        with pytest.raises(RefusedFormat, match="binary"):
            parse_file(File("a.txt", data, 1))


def test_programs_and_pictures_are_no_text():
    here = Path(__file__)
    known = [Path(struct.__file__).parent, here.parents[2] / "src" / "sonde", here.parent]
    files = [path for folder in known for path in folder.rglob("*") if path.is_file()]
    binary = [path for path in files if path.suffix in (".so", ".pyc", ".npy", ".zip", ".png")]
    assert len(binary) > 50
    for path in random.Random(1).sample(binary, 50):
        assert decode_utf16(path.read_bytes()) is None, path
