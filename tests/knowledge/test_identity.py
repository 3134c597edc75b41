"""The law of identity: whatever happens to a container, each entry stays what it is.

Any edit, move, deletion and second import keeps the identity of each entry, what was edited and
deleted here, and adds exactly what is new.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sonde.knowledge.formats import File
from sonde.knowledge.importing import ImportReport, import_source
from sonde.knowledge.parsing import ParseResult, Parsers, answer_request, collect_rows
from sonde.knowledge.reconcile import EDITED
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import Entry, Source
from sonde.stores.knowledge.sqlite import SqliteKnowledge

EXAMPLES = int(os.environ.get("SONDE_IDENTITY_EXAMPLES", "4"))
"""Random histories of each container; `make identity` tries many more."""


class ParseHere(Parsers):
    """Parses in this process: the law is about entries, and a child takes time to start."""

    def parse(self, file: File, wanted: Source | None = None) -> ParseResult:
        request = {"path": file.path, "modified": file.modified, "wanted": wanted, "named": False}
        result = collect_rows(answer_request(request, file.data, file.beside), io.BytesIO())
        assert isinstance(result, ParseResult)
        return result


@dataclass
class Item:
    """One entry as its container has it."""

    number: int
    words: str

    @property
    def text(self) -> str:
        return f"item{self.number} {self.words} and more words so that the text is its own"


def write_mbox(items: list[Item]) -> bytes:
    return "".join(
        f"From a@b.org Mon Jan  1 10:00:{item.number % 60:02} 2024\nMessage-ID: <{item.number}@x>\n"
        f"From: a@b.org\nSubject: title {item.number}\n\n{item.text}\nFrom the desk of nobody\n\n"
        for item in items
    ).encode()


def write_mbox_without_ids(items: list[Item]) -> bytes:
    return write_mbox(items).replace(b"Message-ID: <", b"X-Was: <").replace(
        b"Subject: title", b"Date: Mon, 1 Jan 2024 10:00:00 +0000\nSubject: title"
    )  # fmt: skip


def write_enex(items: list[Item]) -> bytes:
    notes = "".join(
        f"<note><title>title {item.number}</title><created>202401{item.number % 28 + 1:02}T"
        f"{item.number // 28:02}0000Z</created><content><![CDATA[<en-note>{item.text}</en-note>]]>"
        "</content></note>"
        for item in items
    )
    return f"<en-export>{notes}</en-export>".encode()


def write_chatgpt(items: list[Item]) -> bytes:
    return json.dumps([
        {"title": f"title {item.number}", "conversation_id": f"c{item.number}", "mapping": {
            "m": {"message": {"author": {"role": "user"}, "content": {"parts": [item.text]}}}}}
        for item in items
    ]).encode()  # fmt: skip


def write_claude(items: list[Item]) -> bytes:
    return json.dumps([
        {"name": f"title {item.number}", "uuid": f"u{item.number}", "chat_messages": [
            {"uuid": "m", "sender": "human", "text": item.text}]} for item in items
    ]).encode()  # fmt: skip


def write_messages(items: list[Item]) -> bytes:
    return json.dumps([
        {"id": f"m{item.number}", "title": f"title {item.number}", "messages": [
            {"role": "user", "content": item.text}]} for item in items
    ]).encode()  # fmt: skip


def write_messages_without_ids(items: list[Item]) -> bytes:
    return write_messages(items).replace(b'"id"', b'"was"')


def write_telegram(items: list[Item]) -> bytes:
    return json.dumps({"chats": {"list": [
        {"name": f"title {item.number}", "id": item.number + 1, "messages": [
            {"id": 1, "type": "message", "from": "Ann", "text": item.text}]} for item in items
    ]}}).encode()  # fmt: skip


def write_calendar(items: list[Item]) -> bytes:
    events = "".join(
        f"BEGIN:VEVENT\nUID:{item.number}@x\nSUMMARY:title {item.number}\nDESCRIPTION:{item.text}\n"
        "DTSTART:20240101T100000Z\nEND:VEVENT\n"
        for item in items
    )
    return f"BEGIN:VCALENDAR\n{events}END:VCALENDAR\n".encode()


def write_contacts(items: list[Item]) -> bytes:
    return "".join(
        f"BEGIN:VCARD\nUID:{item.number}@x\nFN:title {item.number}\nNOTE:{item.text}\nEND:VCARD\n"
        for item in items
    ).encode()


def write_contacts_without_ids(items: list[Item]) -> bytes:
    return write_contacts(items).replace(b"UID:", b"X-WAS:")


def write_bibtex(items: list[Item]) -> bytes:
    return "".join(
        f"@article{{key{item.number},\n title = {{title {item.number}}},\n"
        f" note = {{{item.text}}}\n}}\n"
        for item in items
    ).encode()


def write_csl(items: list[Item]) -> bytes:
    return json.dumps([
        {"id": f"z{item.number}", "type": "book", "title": f"title {item.number}", "author": [],
         "abstract": item.text} for item in items
    ]).encode()  # fmt: skip


def write_bookmarks(items: list[Item]) -> bytes:
    rows = "".join(
        f'<DT><A HREF="https://x.org/#!/{item.number}~2" ADD_DATE="1700000000">'
        f"title {item.number}</A>\n<DD>{item.text}\n"
        for item in items
    )
    return f"<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><p>\n{rows}</DL>".encode()


def write_posts(items: list[Item]) -> bytes:
    when = "Wed Oct 10 20:19:24 +0000 2018"
    rows = [
        {"tweet": {"id_str": f"{item.number}", "full_text": item.text, "created_at": when}}
        for item in items
    ]
    return b"window.YTD.tweets.part0 = " + json.dumps(rows).encode()


def write_readwise(items: list[Item]) -> bytes:
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(["Highlight", "Book Title", "Book Author", "Location"])
    table.writerows([e.text, "Walden", "Thoreau", str(e.number)] for e in items)
    return out.getvalue().encode()


def write_prompts(items: list[Item]) -> bytes:
    return json.dumps([{"name": f"title {e.number}", "prompt": e.text} for e in items]).encode()


def write_zip(items: list[Item]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("mail/all.mbox", write_mbox(items[::2]) if items[::2] else b"")
        for item in items[1::2]:
            archive.writestr(f"notes/title {item.number}.md", item.text)
    return packed.getvalue()


CONTAINERS: dict[str, tuple[Callable[[list[Item]], bytes], str]] = {
    "mbox": (write_mbox, "box.mbox"),
    "mbox without ids": (write_mbox_without_ids, "box.mbox"),
    "Evernote": (write_enex, "notes.enex"),
    "ChatGPT": (write_chatgpt, "conversations.json"),
    "Claude": (write_claude, "conversations.json"),
    "messages": (write_messages, "talks.json"),
    "messages without ids": (write_messages_without_ids, "talks.json"),
    "Telegram": (write_telegram, "result.json"),
    "calendar": (write_calendar, "all.ics"),
    "contacts": (write_contacts, "all.vcf"),
    "contacts without ids": (write_contacts_without_ids, "all.vcf"),
    "BibTeX": (write_bibtex, "all.bib"),
    "CSL": (write_csl, "references.json"),
    "bookmarks": (write_bookmarks, "bookmarks.html"),
    "posts": (write_posts, "tweets.js"),
    "Readwise": (write_readwise, "readwise.csv"),
    "prompts": (write_prompts, "prompts.json"),
}


@contextmanager
def opened() -> Iterator[tuple[SqliteKnowledge, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteKnowledge(Path(folder) / "store")
        (Path(folder) / "root").mkdir()
        try:
            yield store, Path(folder) / "root"
        finally:
            store.close()


def bring(store: SqliteKnowledge, root: Path) -> ImportReport:
    return import_source(store, root, Work(), parsers=ParseHere())


def number_of(entry: Entry) -> int:
    text = "".join(piece.text for piece in entry.pieces)
    return int(text.split("item", 1)[1].split(" ", 1)[0])


def stored(store: SqliteKnowledge) -> dict[int, Entry]:
    sources: tuple[Source, ...] = ("media", "notes", "chats", "prompts")
    listed = [entry for source in sources for entry in store.list_entries(source)]
    found = {number_of(entry): entry for entry in listed}
    assert len(found) == len(listed), "an entry came in twice"
    return found


@dataclass
class Law:
    """A container beside what the law says of it."""

    store: SqliteKnowledge
    root: Path
    write: Callable[[list[Item]], bytes]
    name: str
    files: list[list[Item]] = field(default_factory=list)
    ids: dict[int, str] = field(default_factory=dict)
    titles: dict[int, str] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)

    def check(self) -> None:
        for at, items in enumerate(self.files):
            path = self.root / f"{at}" / self.name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(self.write(items)) if items else path.unlink(missing_ok=True)
        there = {item.number: item for items in self.files for item in items}
        self.deleted &= set(there)
        new = set(there) - set(self.ids) - self.deleted
        report = bring(self.store, self.root)
        found = stored(self.store)
        assert set(found) == set(there) - self.deleted
        assert report.added == len(new)
        assert report.deleted == len(self.deleted)
        for number, entry in found.items():
            assert there[number].words in "".join(piece.text for piece in entry.pieces)
            if number in self.ids:
                assert entry.id == self.ids[number], "an entry became another"
            if number in self.titles:
                assert entry.title == self.titles[number], "an edit is lost or stands elsewhere"
        self.ids = {number: entry.id for number, entry in found.items()}
        self.titles = {number: title for number, title in self.titles.items() if number in found}
        assert bring(self.store, self.root).unchanged == len(found)

    def retitle(self, number: int) -> None:
        entry = stored(self.store)[number]
        self.titles[number] = f"mine {number}"
        facts = {**entry.facts, EDITED: ["title"]}
        self.store.put(entry.source, [replace(entry, title=f"mine {number}", facts=facts)])

    def delete(self, number: int) -> None:
        entry = stored(self.store)[number]
        self.store.bury(entry.source, {(entry.origin, entry.path): entry.hash})
        self.store.remove(entry.source, [entry.id])
        self.deleted.add(number)
        self.ids.pop(number)
        self.titles.pop(number, None)


STEPS = ("add on top", "add below", "edit", "reorder", "take out", "to the other file", "retitle",
         "delete")  # fmt: skip


def take_step(law: Law, step: str, rng: random.Random, next_number: int) -> int:
    items = law.files[rng.randrange(2)]
    kept = [number for number in law.ids if number not in law.deleted]
    if step in ("add on top", "add below"):
        items.insert(0 if step == "add on top" else len(items), Item(next_number, "new"))
        return next_number + 1
    if step == "edit" and items:
        item = rng.choice(items)
        item.words = f"edited{rng.randrange(10**6)}"
    elif step == "reorder":
        rng.shuffle(items)
    elif step == "take out" and items:
        items.remove(rng.choice(items))
    elif step == "to the other file" and items:
        item = rng.choice(items)
        items.remove(item)
        law.files[items is law.files[0]].append(item)
    elif step == "retitle" and kept:
        law.retitle(rng.choice(kept))
    elif step == "delete" and kept:
        law.delete(rng.choice(kept))
    return next_number


@pytest.mark.parametrize("kind", CONTAINERS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(rounds=st.lists(st.lists(st.sampled_from(STEPS), min_size=1, max_size=4), max_size=3),
       seed=st.integers(0, 2**16))  # fmt: skip
def test_every_entry_of_a_container_stays_what_it_is(kind, rounds, seed):
    write, name = CONTAINERS[kind]
    rng = random.Random(seed)
    with opened() as (store, root):
        law = Law(
            store, root, write, name, [[Item(n, "first") for n in range(4)], [Item(4, "first")]]
        )
        law.check()
        number = 5
        for steps in rounds:
            edited: set[str] = set()
            for step in steps:
                # an entry without an id that is edited and moved at once cannot be known
                has_ids = "without" not in kind and kind not in ("Evernote", "Readwise", "prompts")
                if not has_ids and {step, *edited} >= {"edit", "to the other file"}:
                    continue
                edited.add(step)
                number = take_step(law, step, rng, number)
            law.check()


def test_a_text_edited_here_outlives_new_mail_beside_it():
    with opened() as (store, root):
        items = [Item(0, "first"), Item(1, "first")]
        (root / "box.mbox").write_bytes(write_mbox(items))
        bring(store, root)
        mine = stored(store)[0]
        pieces = (replace(mine.pieces[0], text="item0 in my words"),)
        store.put("media", [replace(mine, pieces=pieces, facts={**mine.facts, EDITED: ["text"]})])
        (root / "box.mbox").write_bytes(write_mbox([Item(2, "new"), *items]))
        report = bring(store, root)
        assert (report.added, report.unchanged, report.copied) == (1, 2, 0)
        assert stored(store)[0].pieces[0].text == "item0 in my words"


def test_a_note_that_is_renamed_and_edited_stays_the_same():
    with opened() as (store, root):
        (root / "Old name.md").write_text("item0 the harbour has forty boats and three cranes")
        bring(store, root)
        before = stored(store)[0].id
        (root / "Old name.md").unlink()
        (root / "New.md").write_text("item0 the harbour has forty boats and four new cranes")
        (root / "Other.md").write_text("item1 something else entirely about walruses")
        report = bring(store, root)
        assert (stored(store)[0].id, report.added, report.removed) == (before, 1, 0)
