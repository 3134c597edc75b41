"""The way in: folders kept in step, every format, nothing hostile."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sonde.errors import Cancelled, FileMissing
from sonde.knowledge.editing import export_lines, import_knowledge, restore_lines
from sonde.knowledge.formats import File, RefusedFormat
from sonde.knowledge.importing import ImportReport, import_source
from sonde.knowledge.parsing import Parsers
from sonde.policy.roots import stamp_file
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import SOURCES
from sonde.stores.knowledge.sqlite import SqliteKnowledge
from sonde.types import Progress, Skipped


@pytest.fixture
def store(tmp_path: Path):
    opened = SqliteKnowledge(tmp_path / "store")
    yield opened
    opened.close()


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    root = tmp_path / "vault"
    (root / "daily").mkdir(parents=True)
    (root / ".obsidian").mkdir()
    (root / ".obsidian" / "app.json").write_text("{}")
    (root / "Walrus.md").write_text(
        "---\ntitle: The Walrus\ntags: [sea, Größe]\ncreated: 2024-03-01\n---\n"
        "A walrus #mammal/big. See [[Otter|otters]] and ![[tusk.png]].\n```\n#nottag\n```\n"
    )
    (root / "Otter.md").write_text("Otters hold hands. #sea\n")
    (root / "daily" / "2024-01-01.md").write_text("Happy new year\n")
    (root / "secret.pem").write_text("x")
    return root


def bring(store: Any, root: Path, **options: Any) -> ImportReport:
    return import_source(store, root, Work(), **options)


def counts(report: ImportReport) -> tuple[int, ...]:
    return (report.added, report.updated, report.moved, report.removed, report.unchanged)


def by_title(store: Any, source: Any = "notes") -> dict[str, Any]:
    return {entry.title: entry for entry in store.list_entries(source)}


def test_a_vault_comes_in_with_what_its_notes_say(store, vault):
    report = bring(store, vault)
    assert counts(report) == (3, 0, 0, 0, 0)
    assert report.skipped == {"denied": 1}
    walrus = by_title(store)["The Walrus"]
    assert walrus.tags == ("sea", "Größe", "mammal/big")
    assert walrus.facts["links"] == ["Otter"]
    assert walrus.facts["attachments"] == ["tusk.png"]
    assert walrus.created_at == 1_709_251_200_000
    assert walrus.pieces[0].text.startswith("A walrus")


def test_a_second_import_does_only_what_changed(store, vault):
    bring(store, vault)
    before = {title: entry.id for title, entry in by_title(store).items()}
    assert counts(bring(store, vault)) == (0, 0, 0, 0, 3)
    (vault / "Otter.md").write_text("Otters swim.\n")
    (vault / "Walrus.md").rename(vault / "daily" / "Renamed.md")
    (vault / "daily" / "2024-01-01.md").unlink()
    (vault / "New.md").write_text("fresh\n")
    assert counts(bring(store, vault)) == (1, 1, 1, 1, 0)
    now = by_title(store)
    assert now["The Walrus"].id == before["The Walrus"]
    assert now["The Walrus"].path == "daily/Renamed.md"
    assert now["Otter"].id == before["Otter"]
    assert (now["Otter"].version, now["Otter"].pieces[0].text) == (2, "Otters swim.\n")
    assert "2024-01-01" not in now
    assert counts(bring(store, vault)) == (0, 0, 0, 0, 3)


def test_a_touched_file_with_the_same_text_is_unchanged(store, vault):
    bring(store, vault)
    before = by_title(store)["Otter"].hash
    os.utime(vault / "Otter.md", (1, 1))
    assert counts(bring(store, vault)) == (0, 0, 0, 0, 3)
    after = by_title(store)["Otter"].hash
    assert after != before  # it is not read again
    assert counts(bring(store, vault)) == (0, 0, 0, 0, 3)
    assert by_title(store)["Otter"].hash == after


def test_an_edit_that_keeps_size_and_time_is_noticed(store, vault):
    bring(store, vault)
    note = vault / "Otter.md"
    text, facts = note.read_text(), note.stat()
    note.write_text(text.swapcase())
    os.utime(note, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert counts(bring(store, vault)) == (0, 1, 0, 0, 2)


def test_what_cannot_be_read_now_is_not_taken_for_gone(store, vault):
    bring(store, vault)
    (vault / "Otter.md").unlink()
    (vault / "Otter.md").symlink_to(vault / "Walrus.md")
    report = bring(store, vault)
    assert report.removed == 0
    assert report.skipped["symlink"] == 1


@pytest.mark.row("004-131")
def test_an_import_that_was_stopped_goes_on_where_it_was(store, tmp_path):
    root = tmp_path / "many"
    root.mkdir()
    for number in range(130):
        (root / f"{number:03}.md").write_text(f"note {number}")
    stopped = Work()

    def stop(progress: Progress) -> None:
        if progress.done == 100:
            stopped.cancel()

    work = Work(report=stop, cancelled=stopped._cancelled)
    with pytest.raises(Cancelled):
        import_source(store, root, work)
    done = store.count("notes")[0]
    assert 0 < done < 130
    report = bring(store, root)
    assert (report.added, report.unchanged) == (130 - done, done)


def test_another_folder_is_another_origin(store, vault, tmp_path):
    bring(store, vault)
    shutil.copytree(vault, tmp_path / "copy")
    assert bring(store, tmp_path / "copy").added == 3
    shutil.rmtree(tmp_path / "copy")
    (tmp_path / "copy").mkdir()
    assert bring(store, tmp_path / "copy").removed == 3
    assert store.count("notes")[0] == 3
    with pytest.raises(FileMissing):
        bring(store, tmp_path / "nowhere")


def test_export_and_import_lose_nothing(store, vault, tmp_path, fixtures):
    bring(store, vault)
    bring(store, fixtures)
    lines = list(export_lines(store))
    other = SqliteKnowledge(tmp_path / "other")
    try:
        assert restore_lines(other, lines) == len(lines) - 1 > 20
        assert list(export_lines(other)) == lines
        for source in SOURCES:
            assert store.count(source)[0] == other.count(source)[0] > 0
    finally:
        other.close()


EXPECTED = {
    "book.epub": ("media", "epub", "A book", "chapter one"),
    "letter.docx": ("media", "docx", "letter", "Dear walrus"),
    "slides.pptx": ("media", "pptx", "slides", "Walrus slide"),
    "table.xlsx": ("media", "xlsx", "table", "walrus | 3"),
    "paper.pdf": ("media", "pdf", "paper", "Walrus on a page"),
    "page.html": ("media", "html", "A page", "Visible walrus"),
    "plain.txt": ("media", "txt", "plain", "plain walrus"),
    "mail.eml": ("media", "email", "Grüße", "Walrus mail"),
    "box.mbox": ("media", "email", "Second", "two"),
    "talk.srt": ("media", "video", "talk", "Hello walrus"),
    "talk.vtt": ("media", "video", "talk", "Hello walrus"),
    "whisper.json": ("media", "video", "whisper", "heard walrus"),
    "photo.jpg": ("media", "image", "photo", "size: 4x3"),
    "chatgpt.json": ("chats", "", "GPT talk", "shown answer"),
    "claude.json": ("chats", "", "Claude talk", "claude says"),
    "gemini.json": ("chats", "", "about walruses", "gemini says"),
    "telegram.json": ("chats", "", "Friends", "bold text"),
    "slack/general/2024-01-01.json": ("chats", "", "#general 2024-01-01", "slack says"),
    "WhatsApp Chat with Ann.txt": ("chats", "", "Ann", "second line"),
    "code.jsonl": ("chats", "", "Fix the walrus", "assistant says"),
    "codex.jsonl": ("chats", "", "codex asked", "codex says"),
    "tavern.jsonl": ("chats", "", "Wally tavern", "Harumph"),
    "card1.json": ("characters", "", "V1", "old card"),
    "card2.json": ("characters", "", "V2", "second card"),
    "card3.png": ("characters", "", "V3", "third card"),
    "prompts.csv": ("prompts", "", "Linux Terminal", "act as a terminal"),
    "prompts.yaml": ("prompts", "", "Summarise", "in one line"),
    "prompt.json": ("prompts", "", "Reviewer", "you review"),
    "patterns/improve/system.md": ("prompts", "", "improve", "You improve writing"),
    "notes.enex": ("notes", "", "Evernote", "enex walrus"),
}


@pytest.fixture(scope="module")
def brought(fixtures: Path, tmp_path_factory: pytest.TempPathFactory):
    store = SqliteKnowledge(tmp_path_factory.mktemp("brought"))
    report = bring(store, fixtures)
    assert not report.skipped, report.examples
    yield store
    store.close()


@pytest.mark.parametrize("name", EXPECTED)
def test_every_format_is_read(brought, fixtures, name):
    store = brought
    source, kind, title, text = EXPECTED[name]
    found = [entry for entry in store.list_origin(source, str(fixtures)).values()
             if entry.path.partition("//")[0] == name and entry.title == title]  # fmt: skip
    assert len(found) == 1, [e.title for e in store.list_origin(source, str(fixtures)).values()]
    whole = store.get(source, found[0].id)
    assert whole.media_type == kind
    assert text in "".join(piece.text for piece in whole.pieces)


def test_details_of_conversations_survive(brought):
    store = brought
    chats = by_title(store, "chats")
    gpt = chats["GPT talk"]
    assert [piece.text for piece in gpt.pieces] == ["asked", "shown answer"]
    assert [piece.sender for piece in gpt.pieces] == ["user", "assistant"]
    assert gpt.created_at == 1_700_000_000_000
    ann = chats["Ann"]
    assert ann.pieces[1].text == "Yes\nsecond line"
    assert ann.pieces[0].created_at == 1_704_147_300_000
    heard = by_title(store, "media")["whisper"]
    assert (heard.pieces[0].begins, heard.pieces[0].ends) == (500, 2000)
    card = by_title(store, "characters")["V2"]
    assert card.tags == ("funny",)
    assert card.facts["card"]["data"]["character_book"]["entries"][0]["keys"] == ["sea"]


def test_a_time_that_no_recording_has_is_left_out(store, tmp_path):
    (tmp_path / "heard").mkdir()
    said = {"segments": [{"start": 1e30, "end": 2.5, "text": "walrus"}]}
    (tmp_path / "heard" / "whisper.json").write_text(json.dumps(said))
    bring(store, tmp_path / "heard")
    (heard,) = store.list_entries("media")
    whole = store.get("media", heard.id)
    assert (whole.pieces[0].begins, whole.pieces[0].ends) == (None, 2500)


def test_the_owner_says_what_a_file_is_taken_for(store, tmp_path):
    root = tmp_path / "papers"
    root.mkdir()
    (root / "a.md").write_text("# System\nbe brief\n# User\nask {{x}}\n")
    bring(store, root, wanted="media")
    assert [e.media_type for e in store.list_entries("media")] == ["markdown"]
    shutil.copytree(root, tmp_path / "p2")
    bring(store, tmp_path / "p2", wanted="prompts")
    (prompt,) = store.list_entries("prompts")
    assert [(p.field, p.text) for p in prompt.pieces] == [
        ("system_prompt", "be brief"), ("user_prompt", "ask {{x}}"),
    ]  # fmt: skip


def test_an_import_under_another_source_files_it_there(store, tmp_path):
    root = tmp_path / "papers"
    root.mkdir()
    (root / "a.md").write_text("# Walrus\nblubber\n")
    (root / "b.txt").write_text("kelp\n")
    bring(store, root)
    assert [len(store.list_entries(source)) for source in ("notes", "media")] == [1, 1]
    assert counts(bring(store, root, wanted="media")) == (1, 0, 0, 1, 1)
    assert [len(store.list_entries(source)) for source in ("notes", "media")] == [0, 2]
    report = bring(store, root, wanted="chats")
    assert report.skipped == {"unknown": 2}  # and what was there stays
    assert len(store.list_entries("media")) == 2
    assert counts(bring(store, root)) == (0, 0, 0, 0, 2)


def test_an_empty_path_imports_nothing(open_app, tmp_path):
    app = open_app(embedding="static")
    app.knowledge.start = tmp_path
    (tmp_path / "a.md").write_text("kelp\n")
    with pytest.raises(FileMissing):
        import_knowledge(app.knowledge, "", work=Work())
    assert app.knowledge.of("local").count("notes") == (0, 0)


def test_a_file_refused_for_a_missing_package_is_tried_again(store, tmp_path):
    root = tmp_path / "papers"
    root.mkdir()
    (root / "a.md").write_text("kelp\n")
    facts = (root / "a.md").stat()
    stamp = f"{facts.st_size}:{stamp_file(facts)}"
    for reason, added in (("broken", 0), ("missing_extra", 1)):
        refused = {"a.md": (stamp, Skipped("a.md", reason))}
        assert bring(store, root, refused=refused).added == added


def write_bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"0" * (200 << 20))


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {chr(98 + n)} "{("&" + chr(97 + n) + ";") * 10}">' for n in range(9))
    + "]><en-export><note><title>&j;</title></note></en-export>"
)
HOSTILE: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "bomb.docx": ("bomb", write_bomb),
    "laughs.enex": ("hostile", lambda path: path.write_text(LAUGHS)),
    "broken.pdf": ("broken", lambda path: path.write_bytes(b"%PDF-1.7\nnothing")),
    "broken.docx": ("broken", lambda path: path.write_bytes(b"PK\x03\x04 not a zip")),
    "deep.json": ("broken", lambda path: path.write_text("[" * 200_000)),
    "binary.txt": ("binary", lambda path: path.write_bytes(bytes(range(256)) * 40)),
    "empty.html": ("no_text", lambda path: path.write_text("<html></html>")),
    "other.json": ("unknown", lambda path: path.write_text('{"a": 1}')),
    "thing.xyz": ("unknown", lambda path: path.write_text("x")),
}


def test_an_export_comes_in_as_it_was_downloaded(store, fixtures, tmp_path):
    root = tmp_path / "exports"
    root.mkdir()
    with zipfile.ZipFile(root / "export.zip", "w") as archive:
        archive.write(fixtures / "chatgpt.json", "conversations.json")
        archive.write(fixtures / "photo.jpg", "file-1.jpg")
        archive.writestr("user.json", "{}")
        archive.writestr("../../evil.md", "harmless text")
    assert counts(bring(store, root)) == (3, 0, 0, 0, 0)
    assert {"GPT talk", "GPT talk (branch 2)"} == set(by_title(store, "chats"))
    assert counts(bring(store, root)) == (0, 0, 0, 0, 3)
    assert not (tmp_path.parent / "evil.md").exists()


@pytest.mark.row("004-102")
def test_a_conversation_knows_its_character(store, fixtures, tmp_path):
    root = tmp_path / "tavern"
    root.mkdir()
    card = json.loads((fixtures / "card1.json").read_text()) | {"name": "Wally"}
    (root / "card.json").write_text(json.dumps(card))
    bring(store, root)
    shutil.copy(fixtures / "tavern.jsonl", root / "talk.jsonl")
    bring(store, root)
    (chat,) = store.list_entries("chats")
    assert chat.character == by_title(store, "characters")["Wally"].id


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_broken_or_hostile_is_refused_and_the_rest_comes_in(store, tmp_path, name):
    reason, write = HOSTILE[name]
    root = tmp_path / "odd"
    root.mkdir()
    write(root / name)
    (root / "zz.md").write_text("fine")
    report = bring(store, root)
    assert (dict(report.skipped), report.added) == ({reason: 1}, 1), report.examples


def test_an_encrypted_pdf_is_refused(store, tmp_path):
    from pypdf import PdfWriter

    writer = PdfWriter()
    writer.add_blank_page(100, 100)
    writer.encrypt("secret")
    (tmp_path / "odd").mkdir()
    writer.write(tmp_path / "odd" / "locked.pdf")
    assert dict(bring(store, tmp_path / "odd").skipped) == {"encrypted": 1}


def test_a_parser_has_only_so_much_memory_and_time():
    greedy = Parsers(memory=400 << 20)
    huge = json.dumps([{"mapping": {}, "title": "x" * 100}] * 900_000).encode()
    with pytest.raises(RefusedFormat) as caught:
        greedy.parse(File("huge.json", huge))
    assert caught.value.reason in ("too_large", "crashed")
    assert next(greedy.parse(File("small.md", b"fine")).read()).title == "small"
    greedy.close()
    hasty = Parsers(seconds=0.0)
    with pytest.raises(RefusedFormat) as caught:
        hasty.parse(File("a.md", b"x"))
    assert caught.value.reason == "too_slow"
    hasty.close()


def test_paths_in_archives_lead_nowhere(store, tmp_path):
    (tmp_path / "odd").mkdir()
    with zipfile.ZipFile(tmp_path / "odd" / "trick.epub", "w") as archive:
        archive.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="../../../../etc/passwd"/></rootfiles></container>',
        )
    assert dict(bring(store, tmp_path / "odd").skipped) == {"broken": 1}
