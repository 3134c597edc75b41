"""An import and its source: what is deleted, edited, moved or cut short on either side."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sonde.app import App
from sonde.errors import InvalidRequest
from sonde.knowledge.editing import (
    delete_entry,
    edit_entry,
    export_lines,
    import_knowledge,
    restore_lines,
)
from sonde.knowledge.formats import File
from sonde.knowledge.importing import ImportReport, import_source
from sonde.knowledge.parsing import ParseResult, Parsers
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import SOURCES, Source
from sonde.stores.knowledge.sqlite import SqliteKnowledge


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    root = tmp_path / "vault"
    root.mkdir()
    (root / "Walrus.md").write_text("A walrus.\n")
    (root / "Otter #1.md").write_text("Otters swim.\n")
    talk = [
        {"title": name, "conversation_id": name, "mapping": {
            "m": {"message": {"author": {"role": "user"}, "content": {"parts": [f"ask {name}"]}}}
        }}
        for name in ("one", "two")
    ]  # fmt: skip
    (root / "conversations.json").write_text(json.dumps(talk))
    return root


def bring(app: App, root: Path, **options: Any) -> ImportReport:
    return import_source(app.knowledge.of("local"), root, Work(), **options)


def titles(app: App, source: Any = "notes") -> dict[str, Any]:
    return {entry.title: entry for entry in app.knowledge.of("local").list_entries(source)}


def text_of(entry: Any) -> str:
    return "".join(piece.text for piece in entry.pieces)


def test_what_was_deleted_stays_deleted_until_it_is_asked_for(app, vault):
    bring(app, vault)
    delete_entry(app.knowledge, "notes", titles(app)["Walrus"].id, work=Work())
    delete_entry(app.knowledge, "chats", titles(app, "chats")["one"].id, work=Work())
    for _ in range(2):
        report = bring(app, vault)
        assert (report.added, report.deleted, report.unchanged) == (0, 2, 2)
    (vault / "Walrus.md").write_text("A walrus, longer.\n")  # changed at its source
    talk = json.loads((vault / "conversations.json").read_text())
    (vault / "conversations.json").write_text(json.dumps([*talk, talk[0] | {
        "conversation_id": "three", "title": "three"}]))  # fmt: skip
    report = bring(app, vault)
    assert (report.added, report.updated, report.unchanged, report.deleted) == (1, 0, 2, 2)
    assert (set(titles(app)), set(titles(app, "chats"))) == ({"Otter #1"}, {"two", "three"})
    (vault / "Walrus.md").rename(vault / "Moved.md")
    assert bring(app, vault).deleted == 2
    assert "Moved" not in titles(app)
    report = bring(app, vault, restore=True)
    assert (report.added, report.deleted) == (2, 0)
    assert (set(titles(app)), set(titles(app, "chats"))) == (
        {"Otter #1", "Moved"}, {"one", "two", "three"},
    )  # fmt: skip


def test_a_file_that_went_and_comes_back_is_new(app, vault):
    bring(app, vault)
    delete_entry(app.knowledge, "notes", titles(app)["Walrus"].id, work=Work())
    text = (vault / "Walrus.md").read_text()
    (vault / "Walrus.md").unlink()
    bring(app, vault)
    assert app.knowledge.of("local").list_buried("notes") == {}
    (vault / "Walrus.md").write_text(text)
    assert bring(app, vault).added == 1


def test_a_deletion_that_was_cut_short_is_completed(app, vault):
    bring(app, vault)
    entry = titles(app)["Walrus"]
    app.knowledge.of("local").bury("notes", {(entry.origin, entry.path): entry.hash})
    report = bring(app, vault)
    assert (report.removed, report.deleted) == (1, 1)
    assert "Walrus" not in titles(app)


def test_a_line_of_an_export_that_makes_no_sense_is_named(app, vault):
    bring(app, vault)
    store = app.knowledge.of("local")
    head, first, *_ = export_lines(store)
    for change in ({"source": "recipes"}, {"id": ""}, {"deleted": "recipes"}):
        with pytest.raises(InvalidRequest, match="line 3"):
            restore_lines(store, [head, first, json.dumps(json.loads(first) | change)])


def test_deletions_travel_with_an_export(app, open_app, vault, tmp_path):
    bring(app, vault)
    store = app.knowledge.of("local")
    delete_entry(app.knowledge, "notes", titles(app)["Walrus"].id, work=Work())
    lines = list(export_lines(store))
    other = SqliteKnowledge(tmp_path / "other")
    try:
        assert restore_lines(other, lines) == 3
        assert list(export_lines(other)) == lines
        assert import_source(other, vault, Work()).deleted == 1
        delete = other.list_entries("notes")[0]
        other.bury("notes", {(delete.origin, delete.path): delete.hash})
        other.remove("notes", [delete.id])
        restore_lines(other, lines)
        assert [path for _, path in other.list_buried("notes")] == ["Walrus.md"]
    finally:
        other.close()


def test_titles_and_tags_given_here_outlive_changes_of_the_file(app, vault):
    bring(app, vault)
    note = titles(app)["Walrus"]
    edit_entry(app.knowledge, "notes", note.id, title="My walrus", tags=["pet"], work=Work())
    (vault / "Walrus.md").write_text("A walrus that grew. #sea\n")
    assert bring(app, vault).updated == 1
    kept = titles(app)["My walrus"]
    assert (kept.id, kept.tags, text_of(kept)) == (note.id, ("pet",), "A walrus that grew. #sea\n")


def test_no_text_is_lost_when_both_sides_change_it(app, vault):
    bring(app, vault)
    note = titles(app)["Walrus"]
    edit_entry(app.knowledge, "notes", note.id, text="My own words.", work=Work())
    assert bring(app, vault).unchanged == 4
    assert text_of(titles(app)["Walrus"]) == "My own words."
    (vault / "Walrus.md").rename(vault / "Renamed.md")
    assert bring(app, vault).moved == 1
    assert text_of(titles(app)["Renamed"]) == "My own words."
    (vault / "Renamed.md").write_text("Their words.\n")
    report = bring(app, vault)
    assert (report.updated, report.copied) == (1, 1)
    now = titles(app)
    assert (text_of(now["Renamed"]), now["Renamed"].id) == ("Their words.\n", note.id)
    copy = now["Renamed (edited here)"]
    assert (text_of(copy), copy.origin) == ("My own words.", "")
    (vault / "Renamed.md").write_text("Their words again.\n")
    assert bring(app, vault).copied == 0
    assert len(titles(app)) == 3


def test_a_name_with_a_hash_sign_is_one_file(app, vault):
    bring(app, vault)
    before = titles(app)["Otter #1"].id
    report = bring(app, vault)
    assert (report.added, report.removed, report.unchanged) == (0, 0, 4)
    (vault / "Otter #1.md").rename(vault / "Otter #2.md")
    assert bring(app, vault).moved == 1
    assert titles(app)["Otter #2"].id == before


def test_a_file_of_several_sources_is_whole_or_done_again(app, tmp_path, fixtures):
    root = tmp_path / "packed"
    root.mkdir()
    with zipfile.ZipFile(root / "all.zip", "w") as archive:
        for name in ("chatgpt.json", "card1.json", "prompt.json"):
            archive.write(fixtures / name, name)
        archive.writestr("note.md", "hello")
    made = bring(app, root).added
    assert made == 5  # the conversation has two branches
    store = app.knowledge.of("local")
    (card,) = store.list_entries("characters")
    store.remove("characters", [card.id])  # as if the process had died between two databases
    report = bring(app, root)
    assert (report.added, report.unchanged) == (1, 4)
    assert bring(app, root).unchanged == 5


def test_equal_keys_in_one_file_are_two_entries(app, tmp_path):
    (tmp_path / "box").mkdir()
    row = {"header": "Gemini Apps", "title": "Prompted x", "time": "2025-01-01T00:00:00Z"}
    (tmp_path / "box" / "MyActivity.json").write_text(json.dumps([row, row | {"title": "y"}]))
    assert bring(app, tmp_path / "box").added == 2
    assert bring(app, tmp_path / "box").unchanged == 2


RUN = """
import sys
from pathlib import Path
from sonde.knowledge.importing import import_source
from sonde.stores.knowledge.sqlite import SqliteKnowledge
from sonde.runtime.work import Work
def tell(progress):
    print(progress.done, flush=True)
import_source(SqliteKnowledge(Path(sys.argv[1])), Path(sys.argv[2]), Work(report=tell))
"""


@pytest.mark.row("004-131")
def test_an_import_that_is_killed_again_and_again_ends_whole(tmp_path):
    root = tmp_path / "many"
    for number in range(600):
        folder = root / f"{number % 7}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:04}.md").write_text(f"note {number} about walrus{number}\n")
    command = [sys.executable, "-c", RUN, str(tmp_path / "store"), str(root)]
    chance = random.Random(8)
    for _ in range(4):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout
        until = chance.randrange(60, 400)
        for line in child.stdout:
            if int(line) >= until:
                break
        child.send_signal(signal.SIGKILL)
        child.communicate()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    store = SqliteKnowledge(tmp_path / "store")
    try:
        entries = store.list_entries("notes", limit=1000)
        assert len(entries) == len({entry.path for entry in entries}) == 600
        assert len(store.rank("notes", ["walrus599"], 10)) == 1
        report = import_source(store, root, Work())
        assert (report.unchanged, report.added) == (600, 0)
    finally:
        store.close()


KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----"
PUTTY = (
    "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\n{}\nPrivate-MAC: ab12"
)


def random_text(seed: int, length: int) -> str:
    return base64.b64encode(random.Random(seed).randbytes(length)).decode()


def test_secrets_in_texts_are_left_out_and_the_rest_is_kept(app, tmp_path):
    root = tmp_path / "leaky"
    root.mkdir()
    body = re.sub("(.{70})", r"\1\n", random_text(1, 1200))
    letters = re.sub(r"[^A-Za-z0-9]", "", random_text(2, 200))
    token, aws = f"ghp_{letters[:36]}", "AKIA" + re.sub("[^A-Z2-7]", "", letters.upper())[:16]
    # long enough that the key would be cut between two pieces
    note = f"{'Before. ' * 170}\n{KEY.format(body)}\nBehind. Token {token}, done.\n"
    (root / "note.md").write_text(f"---\naws: {aws}\n---\n{note}")
    (root / "putty.txt").write_text(f"mine:\n{PUTTY.format(random_text(3, 80))}\nend of it\n")
    asked = f"my key is {KEY.format(body)} and {token}"
    talk = [{"name": "t", "uuid": "u", "chat_messages": [{"sender": "human", "text": asked}]}]
    (root / "claude.json").write_text(json.dumps(talk))
    report = bring(app, root)
    assert (report.added, report.redacted) == (3, 6)
    written = "".join(export_lines(app.knowledge.of("local")))
    secrets = [token, aws, *body.split("\n"), random_text(3, 80)]
    assert not [each for each in secrets if each in written]
    for kept in ("Before. ", "Behind. Token [GitHub token left out], done.", "end of it",
                 "[private key left out] and [GitHub token left out]"):  # fmt: skip
        assert kept in written
    found = titles(app)["note"]
    assert "".join(piece.text for piece in found.pieces).count("left out") == 2
    assert [piece.place for piece in found.pieces] == list(range(len(found.pieces)))
    # examples as documentation prints them stay
    (root / "doc.md").write_text(
        "Set AKIAIOSFODNN7EXAMPLE and ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
    )
    assert bring(app, root).redacted == 0


@pytest.mark.parametrize("name", [".env", ".env.md", "server.pem", "id_rsa", "credentials.json"])
def test_what_the_policy_denies_comes_in_by_no_way(app, tmp_path, name):
    root = tmp_path / "in"
    root.mkdir()
    secret = "PASSWORD=hunter2hunter2"
    (root / name).write_text(secret)
    for place in (root, root / name):
        assert dict(bring(app, place).skipped) == {"denied": 1}
    (root / name).unlink()
    with zipfile.ZipFile(root / "packed.zip", "w") as archive:
        for inside in (name, f"deep/{name}", ".ssh/notes.md", "fine.md"):
            archive.writestr(inside, secret if "fine" not in inside else "fine")
    report = bring(app, root)
    assert (report.added, dict(report.skipped)) == (1, {"denied": 3})
    assert report.examples[0].path.startswith("packed.zip/")
    hidden = tmp_path / ".ssh"
    hidden.mkdir()
    (hidden / "notes.md").write_text(secret)
    for place in (hidden, hidden / "notes.md"):
        assert dict(bring(app, place).skipped) == {"denied": 1}
    for source in SOURCES:
        for entry in app.knowledge.of("local").list_entries(source):
            assert secret not in text_of(entry)


def test_what_was_refused_is_not_tried_again_until_it_changes(app, vault):
    class Recorder(Parsers):
        def parse(self, file: File, wanted: Source | None = None) -> ParseResult:
            tried.append(file.path)
            return super().parse(file, wanted)

    def bring_in() -> dict[str, int]:
        with contextlib.closing(Recorder()) as parsers:
            report = import_knowledge(app.knowledge, str(vault), parsers=parsers, work=Work())
        return dict(report.skipped)

    tried: list[str] = []
    (vault / "broken.json").write_text("{")
    assert bring_in() == {"broken": 1}
    tried.clear()
    assert bring_in() == {"broken": 1}
    assert tried == []
    (vault / "broken.json").write_text('[{"title": "now", "mapping": {')
    bring_in()
    assert tried == ["broken.json"]
