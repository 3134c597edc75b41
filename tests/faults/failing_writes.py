"""Makes every call that writes fail, one after the other, and looks at what is left.

    python -m tests.faults.failing_writes [--every 1] [--from 1] [--kinds full,io,quota,short,kill]
        [--operations index,update,compact,convert,chunks,import,export,restore] [--store lance]

A shim (`failing_writes.c`) counts the calls that create, write, truncate, sync, link, rename or
remove below the storage. The n-th fails: with ENOSPC or EDQUOT from then on, once with EIO, by half
a write, by death. After each, the work has ended well or with a clear error; what was committed
before is there, what is claimed to be done is, and doing it again makes it whole.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.kills import edit, expect, look, make_app, read
from tests.knowledge.samples import make_pdf

from sonde.app import App
from sonde.errors import SondeError
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

FAIL, SHORT, KILL = 1, 2, 3  # as in the shim
KINDS = {
    "full": (FAIL, errno.ENOSPC, 1), "io": (FAIL, errno.EIO, 0), "quota": (FAIL, errno.EDQUOT, 1),
    "short": (SHORT, 0, 0), "kill": (KILL, 0, 0),
}  # fmt: skip
DONE, REFUSED, BROKEN = 0, 10, 11  # exit codes of a victim
EXPORT, CHUNKS = "export.jsonl", "chunks"  # below the storage, where the shim looks


@dataclass(frozen=True)
class Place:
    """One try: the storage, and the files that it is about."""

    home: Path
    root: Path
    store: str
    before: Any = None
    """What was committed before the fault."""

    def open(self) -> App:
        # SQLite is the default; a store that is set cannot be converted
        return make_app(self.home, self.root, "" if self.store == "sqlite" else self.store)


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


def begin_index(place: Place) -> None:
    edit(place.root, random.Random(10), 0)


def begin_indexed(place: Place) -> Any:
    """An index, and files that have changed since."""
    before = begin_same(place)
    edit(place.root, random.Random(11), 1)
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


def run_apart(function: Callable[[], object]) -> tuple[int, Any]:
    """Run in another process, so that what a library has running does not have to survive a fork.
    Returns its exit code, or minus its signal, and what the function returned."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        code, result = BROKEN, None
        try:
            result = function()
            code = DONE
        except SondeError:
            code = REFUSED
        except BaseException:  # noqa: BLE001 - whatever it is, it is told
            traceback.print_exc()
        with os.fdopen(writable, "wb") as pipe:
            pipe.write(pickle.dumps(result))
        os._exit(code)
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return code, pickle.loads(data) if data else None


def run_victim(place: Place, operation: str, kind: str, at: int, counter: Path) -> tuple[int, int]:
    """Do the work with a fault at a place: the exit code, and how many calls were made."""
    shim = ctypes.CDLL(os.environ["LD_PRELOAD"])

    def work() -> None:
        shim.arm(os.fsencode(place.home), at, *KINDS[kind])
        try:
            app = place.open()
            OPERATIONS[operation].do(app, place)
            app.close()
        finally:
            counter.write_text(str(shim.count()))
            shim.arm(b"/nowhere", 0, 0, 0, 0)

    counter.write_text(str(at))
    code, _ = run_apart(work)
    return code, int(counter.read_text())


def try_all(
    folder: Path, operation: str, kind: str, first: int, every: int, store: str
) -> Counter[str]:
    """One fault after the other, until an operation has no more calls."""
    root, whole = folder / "project", folder / "whole"
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    root.mkdir()
    (root / "pyproject.toml").write_text("")
    code, before = run_apart(lambda: OPERATIONS[operation].begin(Place(whole, root, store)))
    assert code == DONE
    place = Place(folder / "home", root, store, before)
    outcomes: Counter[str] = Counter()
    at = first
    while True:
        shutil.rmtree(place.home, ignore_errors=True)
        if whole.exists():
            shutil.copytree(whole, place.home)  # an index knows its project, not its own place
        code, made = run_victim(place, operation, kind, at, folder / "calls")
        if made < at:
            return outcomes

        def judge(code: int = code) -> None:
            assert code != BROKEN, "an error that is not clear"
            OPERATIONS[operation].judge(place, code, operation)

        if run_apart(judge)[0] != DONE:
            print(f"{operation}, {kind} at call {at} (exit {code})", file=sys.stderr, flush=True)
            outcomes["problems"] += 1
        outcomes["ended well" if code == DONE else "refused" if code == REFUSED else "killed"] += 1
        at += every


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--from", type=int, default=1, dest="first")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--store", default="sqlite", choices=("sqlite", "lance"))
    options = parser.parse_args()
    if "failing_writes" not in os.environ.get("LD_PRELOAD", ""):
        with tempfile.TemporaryDirectory() as place:
            shim = str(Path(place) / "failing_writes.so")
            source = str(Path(__file__).with_suffix(".c"))
            build = ["cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"]
            subprocess.run(build, check=True)
            again = [sys.executable, "-m", "tests.faults.failing_writes", *sys.argv[1:]]
            return subprocess.run(
                again, env=os.environ | {"LD_PRELOAD": shim}, check=False
            ).returncode
    problems = 0
    print("| operation | fault | calls tried | ended well | refused | killed | problems |")
    print("|---|---|--:|--:|--:|--:|--:|", flush=True)
    with tempfile.TemporaryDirectory() as place:
        for operation in options.operations.split(","):
            for kind in options.kinds.split(","):
                found = try_all(
                    Path(place).resolve(), operation, kind, options.first, options.every,
                    options.store,
                )  # fmt: skip
                shown = [found[name] for name in ("ended well", "refused", "killed", "problems")]
                cells = " | ".join(map(str, [sum(shown[:3]), *shown]))
                print(f"| {operation} | {kind} | {cells} |", flush=True)
                problems += found["problems"]
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
