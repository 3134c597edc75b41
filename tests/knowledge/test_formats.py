"""What real exports hold that a first look does not show; found by bringing such exports in."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import apsw
import pytest

from sonde.knowledge.formats import File, RefusedFormat
from sonde.knowledge.parsing import parse_file
from sonde.stores.knowledge.base import Entry
from sonde.types import Skipped


def parse(path: str, data: Any, **options: Any) -> list[Entry]:
    if not isinstance(data, bytes):
        data = (data if isinstance(data, str) else json.dumps(data)).encode()
    return parse_file(File(path, data, 1, options.pop("beside", b"")), **options)


def said(entry: Entry) -> list[tuple[str, str]]:
    return [(piece.sender, piece.text) for piece in entry.pieces]


def text_of(entry: Entry) -> str:
    return "".join(piece.text for piece in entry.pieces)


def gpt_node(parent: str | None, role: str, text: str) -> dict[str, Any]:
    message = {"author": {"role": role}, "content": {"parts": [text]}}
    return {"parent": parent, "children": [], "message": message}


def test_every_branch_of_a_conversation_comes_in():
    mapping = {
        "root": {"parent": None, "message": None},
        "q": gpt_node("root", "user", "question"),
        "a1": gpt_node("q", "assistant", "first answer"),
        "a2": gpt_node("q", "assistant", "second answer"),
        "q2": gpt_node("a2", "user", "and then"),
        "loop": gpt_node("loop", "user", "its own parent"),
    }
    export = [{"title": "T", "conversation_id": "c", "mapping": mapping, "current_node": "q2"}]
    main, other = parse("conversations.json", export)
    assert said(main) == [
        ("user", "question"),
        ("assistant", "second answer"),
        ("user", "and then"),
    ]
    assert (other.title, said(other)) == ("T (branch 2)", [("assistant", "first answer")])
    assert (other.path, other.facts["branches_from"]) == ("c/a1", "q")


def test_claude_says_what_a_message_answers():
    rows = [
        {"uuid": "1", "sender": "human", "text": "question", "parent_message_uuid": "0"},
        {"uuid": "2", "sender": "assistant", "text": "old answer", "parent_message_uuid": "1"},
        {"uuid": "3", "sender": "assistant", "text": "new answer", "parent_message_uuid": "1"},
    ]
    main, other = parse("c.json", [{"uuid": "u", "name": "N", "chat_messages": rows}])
    assert [text for _, text in said(main)] == ["question", "new answer"]
    assert [text for _, text in said(other)] == ["old answer"]


def test_a_day_of_slack_names_its_people():
    people = [{"id": "U1", "name": "ann", "profile": {"real_name": "Ann Lee"}}]
    day = [
        {
            "type": "message",
            "ts": "1700000000.1",
            "user": "U1",
            "text": "see <@U1> &amp; <http://x|it>",
        },
        {"type": "message", "ts": "1700000001.1", "user": "U2", "text": "in <#C1|general>"},
        {"type": "message", "ts": "1", "user": "U1", "subtype": "channel_join", "text": "joined"},
    ]
    expected = [("Ann Lee", "see @Ann Lee & it (http://x)"), ("U2", "in #general")]
    (chat,) = parse("export/general/2024-01-01.json", day, beside=json.dumps(people).encode())
    assert (chat.title, said(chat)) == ("#general 2024-01-01", expected)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("general/2024-01-01.json", json.dumps(day))
        archive.writestr("users.json", json.dumps(people))
    (chat,) = parse("slack.zip", packed.getvalue())
    assert said(chat) == expected


def test_an_unpacked_slack_export_names_its_people(app, tmp_path):
    from sonde.knowledge.importing import import_source
    from sonde.runtime.work import Work

    root = tmp_path / "slack"
    (root / "general").mkdir(parents=True)
    (root / "users.json").write_text(json.dumps([{"id": "U1", "real_name": "Ann Lee"}]))
    day = [{"type": "message", "ts": "1700000000.1", "user": "U1", "text": "hello"}]
    (root / "general" / "2024-01-01.json").write_text(json.dumps(day))
    store = app.knowledge.of("local")
    assert import_source(store, root, Work()).added == 1
    assert said(store.list_entries("chats")[0]) == [("Ann Lee", "hello")]


def test_codex_sessions_that_kept_only_what_was_shown():
    events = [("session_meta", {"id": "s", "cwd": "/w"}),
              ("event_msg", {"type": "user_message", "message": "please"}),
              ("event_msg", {"type": "agent_message", "message": "done"})]  # fmt: skip
    lines = [json.dumps({"type": kind, "payload": body}) for kind, body in events]
    (chat,) = parse("rollout.jsonl", "\n".join(lines))
    assert said(chat) == [("user", "please"), ("assistant", "done")]
    whole = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "please"}],
    }
    lines.append(json.dumps({"type": "response_item", "payload": whole}))
    assert said(parse("rollout.jsonl", "\n".join(lines))[0]) == [("user", "please")]


def test_gemini_stands_among_other_activity():
    rows = [{"header": "Chrome", "title": "Visited x", "time": "2024-01-01T00:00:00Z"},
            {"header": "Gemini Apps", "title": "Prompted why?", "time": "2024-01-02T00:00:00Z",
             "safeHtmlItem": [{"html": "<p>because</p>"}]}]  # fmt: skip
    (chat,) = parse("MyActivity.json", rows)
    assert said(chat) == [("user", "why?"), ("Gemini", "because")]


@pytest.mark.parametrize("stamp", [
    "July 19, 2024 3:30pm", "2024-07-19 @15h 30m 00s 000ms", "2024-07-19@15h30m00s",
    "2024-07-19T15:30:00Z", 1721403000000,
])  # fmt: skip
def test_times_and_names_of_sillytavern(stamp):
    rows = [{"user_name": "unused", "character_name": "unused", "chat_metadata": {}},
            {"name": "Wally", "is_user": False, "mes": "Harumph", "send_date": stamp,
             "swipes": ["Harumph", "Hm"]}]  # fmt: skip
    (chat,) = parse("t.jsonl", "\n".join(map(json.dumps, rows)))
    assert chat.pieces[0].created_at == 1_721_403_000_000
    assert chat.facts["character_name"] == "Wally"
    assert chat.facts["swipes"] == {"0": ["Harumph", "Hm"]}


def test_whatsapp_in_spanish():
    text = "1/30/2019, 8:49 p. m. - Jahn Doe: Hola\n2/1/2019, 9:00 a. m. - Ann: Adios\n"
    (chat,) = parse("chat.txt", text)
    assert said(chat) == [("Jahn Doe", "Hola"), ("Ann", "Adios")]
    assert chat.pieces[0].created_at == 1_548_881_340_000


MAIL = (
    "Return-Path: <a@b>\nFrom: Ann <a@b>\nTo: bob@c\nSubject: Hello\n"
    "Date: Mon, 1 Jan 2024 10:00:00 +0000\n"
)


def test_mail_is_known_without_its_ending():
    for name in ("1704103200.M1P2.host:2,S", "mail_1"):
        (mail,) = parse(name, f"{MAIL}\nthe body\n")
        assert (mail.media_type, mail.title) == ("email", "Hello")
    for text in ("From: nobody\nText", "key: value\nother: thing\n\nx"):
        with pytest.raises(RefusedFormat):
            parse("thing", text)


def test_mail_that_is_put_together_wrongly_is_read_all_the_same():
    parts = ("Content-Type: multipart/related; boundary=x\n\n--x\n"
             "Content-Type: image/png; name=a.png\n\nAA"
             "\n--x\nContent-Type: text/plain\n\nthe words\n--x--\n")  # fmt: skip
    (mail,) = parse("m.eml", MAIL + parts)
    assert "the words" in text_of(mail)
    assert mail.facts["attachments"] == ["a.png"]


@pytest.mark.parametrize(("encoding", "text"), [
    ("gb2312", "宇宙守护神 保护我们远离邪恶"), ("shift_jis", "今日は海岸でセイウチを見ました"),
    ("cp1251", "Сегодня мы видели моржа на берегу"), ("cp1252", "Größe über café – na ja"),
])  # fmt: skip
def test_old_encodings_are_told_apart(encoding, text):
    if encoding != "cp1252":
        pytest.importorskip("charset_normalizer")
    data = f"1\n00:00:01,000 --> 00:00:02,000\n{text}\n".encode(encoding)
    assert text_of(parse("a.srt", data)[0]) == f"{text}\n"


def pack(**files: Any) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "."), data)
    return packed.getvalue()


def test_notion_packs_its_export_twice():
    number = "0123456789abcdef" * 2
    page = (
        f'<html><head><title>My page</title></head><body><article id="{number}">hi</article></body>'
    )
    inner = pack(**{f"Page {number}.md": "# A heading\n\nwords", f"Other {number}.html": page})
    left_out: list[Skipped] = []
    outer = pack(**{"Part-1.zip": inner, "photo.jpg": b"x"})
    notes = parse("Export.zip", outer, left_out=left_out)
    assert sorted(note.title for note in notes) == ["A heading", "My page"]
    assert {note.source for note in notes} == {"notes"}
    assert [each.path for each in left_out] == ["Export.zip/photo.jpg"]


def test_archives_in_archives_have_an_end():
    bomb = pack(**{"a.md": b"0" * (200 << 20)})
    left_out: list[Skipped] = []
    with pytest.raises(RefusedFormat):
        parse("a.zip", pack(**{f"{at}.zip": bomb for at in range(3)}), left_out=left_out)
    assert {each.reason for each in left_out} == {"bomb"}
    left_out.clear()
    with pytest.raises(RefusedFormat):
        parse("a.zip", pack(b__zip=pack(c__zip=pack(d__md="deep"))), left_out=left_out)
    assert "hostile" in {each.reason for each in left_out}


def field(number: int, value: int | bytes | str) -> bytes:
    """A field of a protocol buffer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    low, high = value & 127, value >> 7
    return bytes([low | 128]) + varint(high) if high else bytes([low])


def write_note(*runs: tuple[str, bytes]) -> bytes:
    """A note as Apple packs it: the text, then how long each run of it is and what it is."""
    text = "".join(part for part, _ in runs)
    spans = b"".join(
        field(5, field(1, len(part.encode("utf-16-le")) // 2) + facts) for part, facts in runs
    )
    return gzip.compress(field(2, field(2, 0) + field(3, field(2, text) + spans)))


def write_store(path: Path, *, wal: bool = False) -> bytes:
    connection = apsw.Connection(str(path))
    if wal:
        connection.pragma("journal_mode", "wal")
    connection.execute(
        "CREATE TABLE ZICNOTEDATA (Z_PK INTEGER PRIMARY KEY, ZNOTE INTEGER, ZDATA BLOB);"
        "CREATE TABLE ZICCLOUDSYNCINGOBJECT (Z_PK INTEGER PRIMARY KEY, ZIDENTIFIER, ZTITLE1,"
        " ZTITLE2, ZTITLE, ZFOLDER, ZPARENT, ZISPASSWORDPROTECTED, ZMARKEDFORDELETION, ZNOTEDATA,"
        " ZALTTEXT, ZSUMMARY, ZURLSTRING, ZCREATIONDATE1, ZCREATIONDATE3, ZMODIFICATIONDATE1)"
    )

    def put(**row: Any) -> None:
        names = ", ".join(row)
        connection.execute(
            f"INSERT INTO ZICCLOUDSYNCINGOBJECT ({names}) VALUES ({', '.join('?' * len(row))})",
            tuple(row.values()),
        )

    put(Z_PK=1, ZIDENTIFIER="F1", ZTITLE2="Trips")
    put(Z_PK=2, ZIDENTIFIER="F2", ZTITLE2="Sea", ZPARENT=1)
    put(Z_PK=3, ZIDENTIFIER="TrashFolder-x", ZTITLE2="Recently Deleted")
    put(Z_PK=4, ZIDENTIFIER="TAG", ZALTTEXT="#walrus")
    put(Z_PK=5, ZIDENTIFIER="TABLE", ZSUMMARY="Name\nSize\nWally\nbig\n")
    done = field(2, field(1, 103) + field(5, field(2, 1)))
    note = write_note(
        ("🦭 Walrus\n", field(2, field(1, 0))),
        ("pack bags\n", done),
        ("buy fish\n", field(2, field(1, 103) + field(4, 1))),
        ("a site\n", field(9, "https://sea.example/")),
        ("\ufffc", field(12, field(1, "TAG") + field(2, "hashtag"))),
        ("\n", b""),
        ("\ufffc", field(12, field(1, "TABLE"))),
        ("\nlast words", b""),
    )
    for number, (folder, locked, data) in enumerate(
        [(2, 0, note), (1, 1, b"ciphertext"), (3, 0, note), (1, 0, b"torn"), (1, 0, note)], 10
    ):
        connection.execute("INSERT INTO ZICNOTEDATA VALUES (?, ?, ?)", (number, number, data))
        put(Z_PK=number, ZIDENTIFIER=f"N{number}", ZTITLE1=f"Note {number}", ZFOLDER=folder,
            ZISPASSWORDPROTECTED=locked, ZNOTEDATA=number, ZMARKEDFORDELETION=int(number == 14),
            ZCREATIONDATE3=700_000_000.5, ZMODIFICATIONDATE1=700_000_001)  # fmt: skip
    connection.pragma("wal_checkpoint")
    data = path.read_bytes()
    connection.close()
    return data


@pytest.mark.parametrize("wal", [False, True])
def test_apple_notes_are_read_from_their_database(tmp_path, wal):
    data = write_store(tmp_path / "NoteStore.sqlite", wal=wal)
    note, locked, torn = parse("NoteStore.sqlite", data)
    assert text_of(note).split("\n") == [
        "# 🦭 Walrus", "- [x] pack bags", "  - [ ] buy fish", "[a site](https://sea.example/)",
        "#walrus", "Name | Size | Wally | big", "last words",
    ]  # fmt: skip
    assert (note.title, note.tags, note.path) == ("Note 10", ("walrus",), "N10")
    assert note.facts["folder"] == "Trips/Sea"
    assert (note.created_at, note.last_modified) == (1_678_307_200_500, 1_678_307_201_000)
    assert (locked.facts["locked"], locked.pieces) == (True, ())
    assert torn.facts["unreadable"] is True


def test_a_link_to_a_section_is_not_a_tag():
    (note,) = parse("links.md", b"# Sea\n\nSee [the cold](#the-cold) and (#walrus).\n")
    assert note.tags == ("walrus",)


def test_another_database_is_not_taken_for_notes(tmp_path):
    other = apsw.Connection(str(tmp_path / "x.sqlite"))
    other.execute("CREATE TABLE t (a)")
    other.close()
    with pytest.raises(RefusedFormat) as caught:
        parse("x.sqlite", (tmp_path / "x.sqlite").read_bytes())
    assert caught.value.reason == "unknown"
    data = write_store(tmp_path / "n.sqlite")
    with pytest.raises(RefusedFormat) as caught:
        parse("n.sqlite", data[: len(data) // 3])
    assert caught.value.reason == "broken"


def test_an_empty_prompt_has_no_text():
    with pytest.raises(RefusedFormat) as caught:
        parse("patterns/sum/user.md", " \n")
    assert caught.value.reason == "no_text"
