"""The operations that `failing_writes` interrupts: the state before each, and what must hold."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.kills import expect, look, make_app, read
from tests.knowledge.samples import make_pdf

from sonde.app import App
from sonde.knowledge.editing import (
    add_entry,
    export_lines,
    import_knowledge,
    restore_knowledge,
    write_knowledge,
)
from sonde.projects.maintenance import convert_store
from sonde.projects.update import update_project
from sonde.projects.views import export_chunks
from sonde.runtime.work import Work
from sonde.tools.index import create_index
from sonde.tools.knowledge import knowledge_search

DONE, REFUSED, BROKEN = 0, 10, 11  # exit codes of a victim
_SETTLED = 1_700_000_000.5  # a time of files, long ago
EXPORT, CHUNKS = "export.jsonl", "chunks"  # below the storage, where the shim looks


@dataclass(frozen=True)
class Place:
    """One try: the storage, and the files that it is about."""

    home: Path
    root: Path
    store: str
    before: Any = None
    """What was committed before the fault."""

    def open(self, record_after_s: float = math.inf) -> App:
        # a store that is set cannot be converted; without, an index is opened in the one it has
        store = "" if self.before else self.store
        return make_app(self.home, self.root, store, record_after_s=record_after_s)


def index(app: App, place: Place) -> None:
    del place
    create_index(app, work=Work())


def update(app: App, place: Place) -> None:
    update_project(app.workspace, app.workspace.projects.get(place.root), Work())


def compact(app: App, place: Place) -> None:
    update(app, place)
    for store in app.workspace.projects.get(place.root).stores().values():
        store.compact()


def convert(app: App, place: Place) -> None:
    convert_store(app.workspace, "lance" if place.store == "sqlite" else "sqlite", work=Work())


def write_chunks(app: App, place: Place) -> None:
    export_chunks(app.workspace, str(place.home / CHUNKS), work=Work())


def bring_in(app: App, place: Place) -> None:
    import_knowledge(app.knowledge, str(place.root / "papers"), work=Work())


def export(app: App, place: Place) -> None:
    write_knowledge(app.knowledge, place.home / EXPORT, work=Work())


def restore(app: App, place: Place) -> None:
    with (place.root / EXPORT).open(encoding="utf-8") as lines:
        restore_knowledge(app.knowledge, lines, work=Work())


def read_index(app: App, place: Place) -> Any:
    return read(app, place.root)


def read_knowledge(app: App, place: Place) -> list[str]:
    """All entries, without their times."""
    del place
    rows = [json.loads(line) for line in export_lines(app.knowledge.of("local"))]
    for row in rows:
        for name in ("created_at", "last_modified", "id"):
            row.pop(name, None)
        for piece in row.get("pieces", ()):
            piece.pop("uuid")
    return sorted(json.dumps(row) for row in rows)


def judge_index(place: Place, code: int, operation: str) -> None:
    """An index is whole if it is said to be, and after one check."""
    if code == DONE:
        app = place.open()
        try:
            assert read_index(app, place) == expect(place.root), "said to be done, and is not"
        finally:
            app.close()
    look(place.home, place.root, place.store, place.before or {}, operation)


def judge_converted(place: Place, code: int, operation: str) -> None:
    """The index is whole at any time, in whichever store, and can be converted again."""
    del code, operation
    for again in (True, False):
        app = place.open()
        try:
            assert read_index(app, place) == place.before, "not whole"
            if again:
                convert(app, place)
        finally:
            app.close()


def judge_chunks(place: Place, code: int, operation: str) -> None:
    """Chunk files are whole or not there."""
    del operation
    files = list((place.home / CHUNKS).glob("*.json"))
    held = [json.loads(path.read_text("utf-8"))["chunks"] for path in files]
    assert code != DONE or held, "said to be written, and is not"
    app = place.open()
    try:
        assert read_index(app, place) == place.before, "the index was changed"
        write_chunks(app, place)
    finally:
        app.close()


def judge_imported(place: Place, code: int, operation: str) -> None:
    """What was there is there; what is said to have come in has; again makes it whole."""
    app = place.open()
    try:
        found = read_knowledge(app, place)
        kept, whole = place.before
        assert set(kept) & set(whole) <= set(found), "lost"
        assert code != DONE or found == whole, "said to be done, and is not"
        OPERATIONS[operation].do(app, place)
        assert read_knowledge(app, place) == whole, "not whole after another try"
        answer = knowledge_search(app, "walrus", work=Work())
        assert answer["results"], "not found"
    finally:
        app.close()


def judge_exported(place: Place, code: int, operation: str) -> None:
    """The file is the new one or, unless it is said to be written, the old one."""
    del operation
    lines = (place.home / EXPORT).read_text("utf-8").splitlines()
    assert len(lines) in place.before[1 if code == DONE else 0 :], "torn"
    assert all(isinstance(json.loads(line), dict) for line in lines)


def write_code(root: Path, *stems: str, title: str = "First") -> None:
    """Modules of a few chunks each."""
    for stem in stems:
        parts = [f"def {stem}_{n}(value):\n    return {n}\n\n\n" for n in range(3)]
        (root / f"{stem}.py").write_text(f"# {title}\n" + "".join(parts))


def begin_index(place: Place) -> None:
    write_code(place.root, "kept", "changed", "removed")
    (place.root / "kept.md").write_text("# Document\n\nof a walrus\n")
    for path in place.root.iterdir():  # one that is read just after it was written is read again
        os.utime(path, (_SETTLED, _SETTLED))


def begin_indexed(place: Place) -> Any:
    """An index, and files that have been changed, removed and added since."""
    before = begin_same(place)
    write_code(place.root, "changed", "added", title="Second")
    (place.root / "removed.py").unlink()
    return before


def begin_same(place: Place) -> Any:
    begin_index(place)
    app = place.open()
    create_index(app, work=Work())
    before = read_index(app, place)
    app.close()
    return before


def begin_import(place: Place) -> Any:
    """Some knowledge, and documents to be converted and come in; what there is before and after."""
    papers = place.root / "papers"
    papers.mkdir()
    for number in range(3):
        (papers / f"note{number}.md").write_text(f"# Note {number}\n\nof a walrus\n")
    app = place.open()
    add_entry(app.knowledge, "notes", "by hand", "a walrus by hand", work=Work())
    bring_in(app, place)
    kept = read_knowledge(app, place)
    app.close()
    (papers / "note1.md").write_text("# Note 1\n\nof another walrus\n")
    (papers / "paper.pdf").write_bytes(make_pdf("Walrus on a page"))
    (papers / "page.html").write_text("<h1>Page</h1><p>of a walrus</p>")
    other = Place(place.home.with_name("other"), place.root, place.store)
    shutil.copytree(place.home, other.home)
    app = other.open()
    bring_in(app, other)
    whole = read_knowledge(app, other)
    app.close()
    return kept, whole


def begin_export(place: Place) -> Any:
    """An export, and more knowledge than it holds."""
    before = begin_import(place)
    app = place.open()
    export(app, place)
    bring_in(app, place)
    app.close()
    first = len((place.home / EXPORT).read_text("utf-8").splitlines())
    return first, len(before[1])


def begin_restore(place: Place) -> Any:
    """A store with other knowledge, and an export to come in."""
    begin_import(place)
    other = Place(place.home.with_name("other"), place.root, place.store)
    app = other.open()
    write_knowledge(app.knowledge, place.root / EXPORT, work=Work())
    app.close()
    shutil.rmtree(place.home)
    app = place.open()
    add_entry(app.knowledge, "notes", "mine", "a walrus of mine", work=Work())
    kept = read_knowledge(app, place)
    app.close()
    shutil.rmtree(other.home)
    shutil.copytree(place.home, other.home)
    app = other.open()
    restore(app, other)
    whole = read_knowledge(app, other)
    app.close()
    return kept, whole


@dataclass(frozen=True)
class Operation:
    """Something that writes."""

    begin: Callable[[Place], Any]
    """Make what there is before; returns what the judge needs to know of it."""
    do: Callable[[App, Place], None]
    judge: Callable[[Place, int, str], None]


OPERATIONS = {
    "index": Operation(begin_index, index, judge_index),
    "update": Operation(begin_indexed, update, judge_index),
    "compact": Operation(begin_indexed, compact, judge_index),
    "convert": Operation(begin_same, convert, judge_converted),
    "chunks": Operation(begin_same, write_chunks, judge_chunks),
    "import": Operation(begin_import, bring_in, judge_imported),
    "export": Operation(begin_export, export, judge_exported),
    "restore": Operation(begin_restore, restore, judge_imported),
}
