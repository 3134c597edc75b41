"""Bookmarks, highlights, references, calendars, contacts, and the conversations of messengers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sonde.knowledge.formats import LEFT_OUT, File, RefusedFormat
from sonde.knowledge.parsing import parse_file
from sonde.stores.knowledge.base import Entry


def parse(name: str, data: bytes) -> list[Entry]:
    return parse_file(File(name, data, 1))


def text_of(entry: Entry) -> str:
    return "".join(piece.text for piece in entry.pieces)


def test_bookmarks_have_their_addresses():
    page = b"""<!DOCTYPE NETSCAPE-Bookmark-file-1><DL><p><DT><H3>Sea</H3><DL><p>
    <DT><A HREF="https://x.org/a" ADD_DATE="1700000000" TAGS="fish,net">Nets &amp; twine</A>
    <DD>How to mend</DL><p></DL>"""
    (entry,) = parse("bookmarks.html", page)
    assert (entry.title, entry.url, entry.tags) == (
        "Nets & twine",
        "https://x.org/a",
        ("fish", "net"),
    )
    assert (entry.facts["folder"], entry.created_at) == ("Sea", 1_700_000_000_000)
    assert "How to mend" in text_of(entry)


def test_highlights_are_one_entry_each():
    clips = """Walden (Henry David Thoreau)
- Your Highlight on page 12 | location 170-171 | Added on Sunday, 3 March 2024 10:15:02 PM

I went to the woods
==========
Walden (Henry David Thoreau)
- Your Note on page 14 | location 190 | Added on Monday, 4 March 2024 09:00:00 AM

deliberately
==========
"""
    first, second = parse("My Clippings.txt", clips.encode())
    assert first.facts == {"book": "Walden", "author": "Henry David Thoreau", "page": "12",
                           "location": "170-171"}  # fmt: skip
    assert (first.created_at, text_of(second)[:12]) == (1_709_504_102_000, "deliberately")
    rows = 'Highlight,Book Title,Book Author,Location,Tags\n"I went",Walden,Thoreau,17,woods\n'
    (entry,) = parse("readwise.csv", rows.encode())
    assert (entry.media_type, entry.facts["book"], entry.tags) == (
        "highlight",
        "Walden",
        ("woods",),
    )


def test_calendars_contacts_and_references():
    (event,) = parse("a.ics", b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1@x\nSUMMARY:Launch\\, at last\n"
                     b"DTSTART:20240301T100000Z\nLOCATION:Yard\nBEGIN:VALARM\nDESCRIPTION:ring\n"
                     b"END:VALARM\nEND:VEVENT\nEND:VCALENDAR\n")  # fmt: skip
    assert (event.path, event.title, event.created_at) == (
        "1@x",
        "Launch, at last",
        1_709_287_200_000,
    )
    assert text_of(event) == "Launch, at last\nLocation: Yard\nStart: 2024-03-01 10:00 UTC"
    (card,) = parse("a.vcf", b"BEGIN:VCARD\nFN:Ann Gull\nEMAIL;TYPE=home:ann@x.org\n"
                    b"ADR:;;1 Quay;Ellery;;;\nEND:VCARD\n")  # fmt: skip
    assert text_of(card) == "Ann Gull\nMail: ann@x.org\nAddress: 1 Quay Ellery"
    (card,) = parse("a.vcf", b"BEGIN:VCARD\nFN:Ann Gull\nNOTE:C:\\\\nets\\, say\\nnet\nEND:VCARD\n")
    assert text_of(card) == "Ann Gull\nC:\\nets, say\nnet"  # an escaped backslash before an n
    (book,) = parse("a.bib", b'@book{gull, title = {The {N}et of G{\\"o}teborg}, author="A. Gull",'
                    b" year = 1999, keywords = {sea, net}, url = {https://x.org/a_b}}")  # fmt: skip
    assert (book.path, book.title, book.tags) == ("gull", "The Net of Göteborg", ("sea", "net"))
    assert (book.url, book.facts["author"]) == ("https://x.org/a_b", "A. Gull")
    (paper,) = parse(
        "b.bib", b'@article{net, title={Nets}, journal=nat}\n@string{nat = "Nature"}\n'
    )
    assert text_of(paper) == "type: article\ntitle: Nets\njournal: Nature"


def chat_texts(name: str, value: Any) -> list[tuple[str, str]]:
    (chat,) = parse(name, json.dumps(value).encode())
    assert chat.source == "chats"
    return [(piece.sender, piece.text) for piece in chat.pieces]


def test_assistants_keep_voice_attachments_and_artifacts():
    parts = [
        {"content_type": "audio_transcription", "text": "spoken"},
        {"content_type": "image_asset"},
    ]
    talk = {
        "mapping": {"m": {"message": {"author": {"role": "user"}, "content": {"parts": parts}}}}
    }
    assert chat_texts("c.json", [talk]) == [("user", "spoken")]
    message = {"uuid": "m", "sender": "assistant", "content": [
        {"type": "text", "text": "here"},
        {"type": "tool_use", "name": "artifacts", "input": {"title": "Plan", "content": "plans"}},
        {"type": "tool_result", "content": [{"type": "text", "text": "found"}]},
    ], "attachments": [{"file_name": "a.txt", "extracted_content": "inside"}]}  # fmt: skip
    said = chat_texts("c.json", [{"uuid": "c", "name": "n", "chat_messages": [message]}])
    assert said == [("assistant", "here\nPlan\nplans\nfound\n\n[a.txt]\n\ninside")]


def test_every_picture_of_a_conversation_is_counted_once():
    def say(parent: str | None, *parts: Any, **content: Any) -> Any:
        content = {"parts": parts, **content}
        return {"parent": parent, "message": {"author": {"role": "user"}, "content": content}}

    shown = {"content_type": "image_asset_pointer"}
    heard = {"content_type": "audio_asset_pointer"}  # its words are a part of their own
    mapping = {"a": say(None, "see", shown, heard), "b": say("a", "one"), "c": say("a", "two"),
               "d": say("b", title="Page", url="https://x.org", text="quoted")}  # fmt: skip
    data = json.dumps([{"conversation_id": "c", "current_node": "d", "mapping": mapping}])
    first, other = parse("c.json", data.encode())
    assert first.facts[LEFT_OUT] == {"picture": 1}
    assert LEFT_OUT not in other.facts
    assert first.pieces[-1].text == "Page\nhttps://x.org\nquoted"


def test_messages_as_programs_send_them():
    talk = {"messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "How deep is the harbour?"}]},
        {"role": "assistant", "content": "Nine metres."}]}  # fmt: skip
    (entry,) = parse("talk.json", json.dumps(talk).encode())
    assert (entry.source, entry.title) == ("chats", "How deep is the harbour?")
    assert [(piece.sender, piece.text) for piece in entry.pieces] == [
        ("system", "Be brief."),
        ("user", "How deep is the harbour?"),
        ("assistant", "Nine metres."),
    ]


def test_posts_have_their_addresses_and_times():
    post = {"id_str": "7", "full_text": "Nets &amp; twine https://t.co/a",
            "created_at": "Wed Oct 10 20:19:24 +0000 2018", "entities": {
                "urls": [{"url": "https://t.co/a", "expanded_url": "https://x.org/nets"}],
                "media": [{"url": "https://t.co/b"}]}}  # fmt: skip
    script = "window.YTD.tweets.part0 = " + json.dumps([{"tweet": post}, {"tweet": {}}])
    file = File("tweets.js", script.encode(), 1)
    (entry,) = parse_file(file, None, left := [])
    assert text_of(entry) == "Nets & twine https://x.org/nets"
    assert (entry.url, entry.created_at) == ("https://x.com/i/status/7", 1_539_202_764_000)
    assert entry.facts[LEFT_OUT] == {"picture": 1}
    assert [(each.path, each.reason) for each in left] == [("tweets.js/post 2", "damaged")]


def test_notes_of_keep():
    note = {"title": "Boat", "userEditedTimestampUsec": 1_700_000_001_000_000,
            "createdTimestampUsec": 1_700_000_000_000_000, "labels": [{"name": "sea"}],
            "listContent": [{"text": "paint", "isChecked": True}, {"text": "sail"}],
            "annotations": [{"url": "https://x.org/paint", "title": "Paint"}],
            "attachments": [{"mimetype": "image/png"}]}  # fmt: skip
    (entry,) = parse("Boat.json", json.dumps(note).encode())
    assert text_of(entry) == "- [x] paint\n- [ ] sail\n[Paint](https://x.org/paint)"
    assert (entry.title, entry.tags, entry.facts[LEFT_OUT]) == ("Boat", ("sea",), {"picture": 1})
    assert (entry.created_at, entry.last_modified) == (1_700_000_000_000, 1_700_000_001_000)
    with pytest.raises(RefusedFormat, match="in the trash of Google Keep"):
        parse("Boat.json", json.dumps(note | {"isTrashed": True}).encode())


def test_messengers_of_other_makers():
    discord = {
        "guild": {"name": "Fleet"},
        "channel": {"id": "7", "name": "yard"},
        "messages": [
            {
                "id": "1",
                "timestamp": "2024-03-01T10:00:00Z",
                "author": {"name": "ann"},
                "timestampEdited": "2024-03-01T10:01:00Z",
                "content": "hi",
                "embeds": [{"title": "Yard", "fields": [{"name": "Boats", "value": "two"}]}],
                "stickers": [{"name": "wave"}],
            }
        ],
    }
    assert chat_texts("d.json", discord) == [("ann", "hi\nYard\nBoats\ntwo\n[wave] (edited)")]
    sent = {"type": "message", "date_unixtime": "1", "from": "Ann", "from_id": "user1", "text": ""}
    telegram = {"name": "Yard", "id": 1, "messages": [
        sent | {"text": "changed", "edited_unixtime": "2", "edited": "2024-03-01T10:00:00"},
        sent | {"photo": "photos/boat.jpg"}, sent | {"photo": "(File not included. Change …)"},
        sent | {"contact_information": {"first_name": "Bob", "phone_number": "123"}},
        sent | {"text": "news", "forwarded_from": "Gazette"}]}  # fmt: skip
    said = ["changed (edited)", "[boat.jpg]", "Bob 123", "Forwarded from Gazette:\nnews"]
    assert chat_texts("result.json", telegram) == [("Ann", text) for text in said]
    slack = [{"type": "message", "ts": "1.0", "user": "U", "text": "hi", "edited": {"ts": "2.0"}}]
    assert chat_texts("2024-03-01.json", slack) == [("U", "hi (edited)")]
    broken = "Grüße".encode().decode("latin-1")  # as Meta writes it
    meta = {"participants": [{"name": "Ann"}], "thread_path": "inbox/1", "messages": [
        {"sender_name": "Bob", "timestamp_ms": 2, "content": broken},
        {"sender_name": "Ann", "timestamp_ms": 1, "content": "first"}]}  # fmt: skip
    assert chat_texts("message_1.json", meta) == [("Ann", "first"), ("Bob", "Grüße")]
    page = """<div class="page_body chat_page"><div class="text bold">Yard</div>
    <div class="message default clearfix" id="message1"><div class="body">
    <div class="pull_right date details" title="01.03.2024 10:00:00 UTC+00:00">10:00</div>
    <div class="from_name">Ann</div><div class="text">Hello <a href="https://x.org">sea</a></div>
    </div></div>"""
    (chat,) = parse("messages.html", page.encode())
    assert (chat.title, chat.pieces[0].sender, chat.pieces[0].created_at) == (
        "Yard",
        "Ann",
        1_709_287_200_000,
    )
    assert chat.pieces[0].text == "Hello [sea](https://x.org)"
    (chat,) = parse("Ann.txt", b"[2024-03-01 10:00] Ann: hello\n[2024-03-01 10:01] Me: hi\n")
    assert (chat.facts["app"], len(chat.pieces)) == ("Signal", 2)


def test_dates_of_whatsapp_are_read_by_all_the_evidence():
    lines = [f"3/{day}/24, 9:0{day} AM - Ann: m{day}" for day in range(1, 8)]
    (chat,) = parse("WhatsApp Chat with Ann.txt", "\n".join(lines).encode())
    assert chat.pieces[-1].created_at == 1_709_802_420_000  # 7 March, not 3 July
    lines = ["[01.02.24, 10:00:00] Ann: eins", "[03.02.24, 10:00:00] Ann: <Medien ausgeschlossen>"]
    (chat,) = parse("WhatsApp-Chat mit Jörg Müller.txt", "\n".join(lines).encode())
    assert (chat.title, len(chat.pieces)) == ("Jörg Müller", 1)
    assert chat.facts[LEFT_OUT] == {"message without text": 1}
