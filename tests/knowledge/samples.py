"""One small file of every format, made by the programs' own rules."""

from __future__ import annotations

import base64
import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any


def write_samples(root: Path) -> None:
    for name, text in TEXTS.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text), "utf-8")
    write_office(root)
    write_epub(root / "book.epub")
    write_card(root / "card3.png")


def write_office(root: Path) -> None:
    from docx import Document
    from openpyxl import Workbook
    from PIL import Image
    from pptx import Presentation

    letter = Document()
    letter.add_paragraph("Dear walrus,")
    letter.add_table(1, 2).rows[0].cells[1].text = "cell"
    letter.core_properties.title = ""
    letter.save(root / "letter.docx")
    slides = Presentation()
    slides.slides.add_slide(slides.slide_layouts[0]).shapes.title.text = "Walrus slide"
    slides.core_properties.title = ""
    slides.save(root / "slides.pptx")
    book = Workbook()
    book.active.append(["walrus", 3])
    book.save(root / "table.xlsx")
    Image.new("RGB", (4, 3)).save(root / "photo.jpg")
    (root / "paper.pdf").write_bytes(make_pdf("Walrus on a page"))


def make_pdf(text: str) -> bytes:
    """A PDF of one page."""
    fonts = b"/Resources << /Font << /F1 5 0 R >> >>"
    stream = f"BT /F1 24 Tf 10 10 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents 4 0 R %s >>" % fonts,
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    data = b"%PDF-1.4\n"
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
    data += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        len(objects) + 1,
        start,
    )
    return data


def write_epub(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OEBPS/content.opf"/></rootfiles></container>',
        )
        archive.writestr(
            "OEBPS/content.opf",
            '<package xmlns="http://www.idpf.org/2007/opf"'
            ' xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>A book</dc:title>'
            '</metadata><manifest><item id="c1" href="one.xhtml"/></manifest>'
            '<spine><itemref idref="c1"/></spine></package>',
        )
        archive.writestr("OEBPS/one.xhtml", "<html><body><p>chapter one</p></body></html>")


def write_card(path: Path) -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    def pack(card: Any) -> bytes:
        return base64.b64encode(json.dumps(card).encode())

    data = {"name": "V3", "description": "third card", "first_mes": "hi", "tags": []}
    third = {"spec": "chara_card_v3", "spec_version": "3.0", "data": data}
    image = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    image += chunk(b"tEXt", b"chara\0" + pack({"name": "old", "first_mes": "x"}))
    image += chunk(b"tEXt", b"ccv3\0" + pack(third))
    image += chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
    path.write_bytes(image)


MAIL = (
    "From: Ann <ann@example.org>\nTo: Bob <bob@example.org>\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\n"
    "Date: Mon, 01 Jan 2024 10:00:00 +0000\nContent-Type: text/plain; charset=utf-8\n\n"
    "Walrus mail\n"
)
BOX = (
    "From a@b Mon Jan  1 10:00:00 2024\nSubject: First\n\none\n\nFrom c@d\nSubject: Second\n\ntwo\n"
)
SUBTITLES = (
    "1\n00:00:01,000 --> 00:00:02,500\nHello walrus\n\n2\n00:00:03,000 --> 00:00:04,000\nBye\n"
)
TEXTS: dict[str, Any] = {
    "plain.txt": "plain walrus\n",
    "page.html": "<html><head><title>A page</title><script>hidden()</script></head>"
    "<body><h1>Visible</h1><p>Visible walrus &amp; more</body></html>",
    "mail.eml": MAIL,
    "box.mbox": BOX,
    "talk.srt": SUBTITLES,
    "talk.vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ann>Hello walrus\n",
    "whisper.json": {"text": "x", "segments": [{"start": 0.5, "end": 2, "text": " heard walrus"}]},
    "chatgpt.json": [
        {
            "title": "GPT talk",
            "create_time": 1_700_000_000.0,
            "update_time": 1_700_000_100.0,
            "conversation_id": "gpt-1",
            "current_node": "c",
            "mapping": {
                "r": {"id": "r", "message": None, "parent": None, "children": ["a"]},
                "a": {
                    "message": {
                        "author": {"role": "user"},
                        "create_time": 1_700_000_001.0,
                        "content": {"content_type": "text", "parts": ["asked"]},
                    },
                    "parent": "r",
                    "children": ["b", "c"],
                },
                "b": {
                    "message": {"author": {"role": "assistant"}, "content": {"parts": ["older"]}},
                    "parent": "a",
                    "children": [],
                },
                "c": {
                    "message": {
                        "author": {"role": "assistant"},
                        "content": {"parts": ["shown answer"]},
                    },
                    "parent": "a",
                    "children": [],
                },
            },
        }
    ],
    "claude.json": [
        {
            "uuid": "cl-1",
            "name": "Claude talk",
            "created_at": "2024-01-01T00:00:00Z",
            "updated_at": "2024-01-02T00:00:00Z",
            "chat_messages": [
                {"uuid": "m1", "sender": "human", "text": "hi", "created_at": "2024-01-01"},
                {
                    "uuid": "m2",
                    "sender": "assistant",
                    "text": "",
                    "content": [{"type": "text", "text": "claude says"}],
                },
            ],
        }
    ],
    "gemini.json": [
        {
            "header": "Gemini Apps",
            "title": "Prompted about walruses",
            "time": "2024-02-03T04:05:06.007Z",
            "safeHtmlItem": [{"html": "<p>gemini says</p>"}],
        }
    ],
    "telegram.json": {
        "name": "Friends",
        "type": "private_group",
        "id": 7,
        "messages": [
            {"id": 1, "type": "service", "date": "2024-01-01T00:00:00", "text": ""},
            {
                "id": 2,
                "type": "message",
                "date": "2024-01-01T00:00:01",
                "from": "Ann",
                "text": ["some ", {"type": "bold", "text": "bold text"}],
            },
        ],
    },
    "slack/general/2024-01-01.json": [
        {
            "type": "message",
            "user": "U1",
            "text": "slack says",
            "ts": "1704067200.000100",
            "user_profile": {"real_name": "Ann"},
        }
    ],
    "WhatsApp Chat with Ann.txt": (
        "01/01/24, 10:00 PM - Messages are encrypted.\n01/01/24, 10:15 PM - Ann: Seen it?\n"
        "01/13/24, 10:16 PM - Bob: Yes\nsecond line\n"
    ),
    "code.jsonl": "\n".join(
        json.dumps(row)
        for row in (
            {"type": "summary", "summary": "Fix the walrus", "leafUuid": "x"},
            {
                "type": "user",
                "sessionId": "s",
                "uuid": "u1",
                "timestamp": "2024-01-01T00:00:00Z",
                "message": {"role": "user", "content": "please fix"},
            },
            {
                "type": "assistant",
                "sessionId": "s",
                "uuid": "u2",
                "message": {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "assistant says"},
                        {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}},
                    ],
                },
            },
        )
    ),
    "codex.jsonl": "\n".join(
        json.dumps(row)
        for row in (
            {"type": "session_meta", "payload": {"id": "c", "cwd": "app"}},
            {
                "type": "response_item",
                "timestamp": "2025-01-01T00:00:00Z",
                "payload": {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "codex asked"}],
                },
            },
            {
                "type": "response_item",
                "payload": {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "codex says"}],
                },
            },
        )
    ),
    "tavern.jsonl": "\n".join(
        json.dumps(row)
        for row in (
            {"user_name": "Ann", "character_name": "Wally", "chat_metadata": {}},
            {"name": "Wally", "is_user": False, "mes": "Harumph", "send_date": 1_700_000_000_000},
        )
    ),
    "card1.json": {
        "name": "V1", "description": "old card", "personality": "", "scenario": "",
        "first_mes": "hello", "mes_example": "",
    },
    "card2.json": {
        "spec": "chara_card_v2",
        "spec_version": "2.0",
        "data": {
            "name": "V2",
            "description": "second card",
            "first_mes": "hello",
            "tags": ["funny"],
            "character_book": {"entries": [{"keys": ["sea"], "content": "lore of the sea"}]},
        },
    },
    "prompts.csv": 'act,prompt\n"Linux Terminal","I want you to act as a terminal"\nPoet,"Write"\n',
    "prompts.yaml": "- name: Summarise\n  system: be short\n  user: in one line\n  tags: [a, b]\n",
    "prompt.json": {"name": "Reviewer", "system_prompt": "you review", "author": "Ann"},
    "patterns/improve/system.md": "# IDENTITY\n\nYou improve writing.\n",
    "notes.enex": (
        '<?xml version="1.0"?><!DOCTYPE en-export SYSTEM '
        '"http://xml.evernote.com/pub/evernote-export4.dtd"><en-export><note>'
        "<title>Evernote</title><content><![CDATA[<en-note><div>enex walrus</div></en-note>]]>"
        "</content><created>20240101T000000Z</created><tag>old</tag></note></en-export>"
    ),
}  # fmt: skip
