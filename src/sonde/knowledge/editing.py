"""Changes to personal knowledge: import, add, edit, delete, export and restore."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from sonde.errors import FileMissing, InvalidRequest, OutsideRoots
from sonde.knowledge.getting import find_entry
from sonde.knowledge.importing import ImportReport, import_source
from sonde.knowledge.library import Library
from sonde.knowledge.parsing import Parsers, unpack_entry
from sonde.knowledge.reconcile import EDITED
from sonde.knowledge.retrieval import cut_fields, cut_pieces, list_fields
from sonde.knowledge.vectors import count_deep, embed_missing
from sonde.runtime.work import Work
from sonde.stores.files import replace_file
from sonde.stores.knowledge.base import SOURCES, Entry, KnowledgeStore, Piece, Source
from sonde.types import Progress

EXPORT_FORMAT = "sonde-knowledge-1"
EXPORT_BATCH = 100  # entries per page of an export, per transaction of a restore
WATCH_STEP_MS = 200  # how late a cancellation may be noticed
WATCH_SETTLE_MS = 400  # events are gathered this long, so that one save is imported once
RECHECK_INTERVAL_S = 30.0  # between full comparisons, since events may get lost
POLL_INTERVAL_S = 2.0  # the same where the system reports no events
_FIELD = re.compile(r"^## (\w+)[ \t]*\n", re.MULTILINE)

T = TypeVar("T")


def import_knowledge(
    library: Library, place: str, wanted: Source | None = None, *, restore: bool = False,
    parsers: Parsers | None = None, work: Work,
) -> ImportReport:  # fmt: skip
    """Import a folder or a file as a job; a second import updates the entries."""
    if not place:  # as of an unset variable, and not the current folder
        raise FileMissing("no path", path="")
    user = work.caller.user
    folder = library.start / Path(place).expanduser()

    def run(inner: Work) -> ImportReport:
        return import_source(
            library.of(user), folder, inner, wanted=wanted, embedder=library.models.static,
            restore=restore, parsers=parsers,
            refused=library.refused.setdefault((user, str(folder), wanted), {}),
        )  # fmt: skip

    return _run_job(library, "import", str(folder), run, work)


def follow_knowledge(
    library: Library, place: str, wanted: Source | None = None, *, work: Work
) -> Iterator[ImportReport]:
    """Import a folder whenever it may have changed; yields the reports of imports with changes."""
    root = (library.start / Path(place).expanduser()).resolve()
    with contextlib.closing(Parsers()) as parsers:
        for _ in watch_source(root, work):
            report = import_knowledge(library, place, wanted, parsers=parsers, work=work)
            if report.added + report.updated + report.moved + report.removed:
                yield report


def watch_source(root: Path, work: Work) -> Iterator[None]:
    """Yields whenever anything at or below a path may have changed, until the work is cancelled."""
    from sonde.policy.changes import FolderWatch, WatchFailed

    def is_wanted(path: str) -> bool:
        # note programs write into hidden folders of their own all the time
        inside = Path(path).relative_to(root) if path.startswith(str(root)) else Path(path)
        return not any(part.startswith(".") for part in inside.parts[:-1])

    events: SimpleQueue[set[str] | Exception] = SimpleQueue()
    interval = RECHECK_INTERVAL_S
    with contextlib.ExitStack() as stack:
        try:
            watch = FolderWatch(
                [str(root)], events.put, recursive=True, step_ms=WATCH_STEP_MS,
                gather_ms=WATCH_SETTLE_MS,
            )  # fmt: skip
            stack.callback(watch.close)
        except (OSError, WatchFailed):
            interval = POLL_INTERVAL_S  # no events, for instance with too many folders
        checked = float("-inf")  # the first check finds what changed before the watch began
        while True:
            work.check()
            found: set[str] | Exception = set()
            with contextlib.suppress(Empty):
                found = events.get(timeout=WATCH_STEP_MS / 1000)
            if isinstance(found, Exception):
                found, interval = set(), POLL_INTERVAL_S
            if any(map(is_wanted, found)) or time.monotonic() - checked >= interval:
                yield
                checked = time.monotonic()


def add_entry(
    library: Library, source: Source, title: str, text: str, tags: Sequence[str] = (), *, work: Work
) -> Entry:
    """Store a new entry; the text of a character or prompt has its fields as `## name` sections."""
    now = library.now_ms()
    pieces, kind = _read_pieces(source, text), "txt" if source == "media" else ""
    entry = Entry(source, title, pieces, "", now, now, tags=tuple(tags), media_type=kind)
    return _put(library, entry, work)


def edit_entry(
    library: Library, source: Source, id: str,  # noqa: A002
    *, title: str | None = None, text: str | None = None, tags: Sequence[str] | None = None,
    work: Work,
) -> Entry:  # fmt: skip
    """Change parts of an entry. Later imports keep the changes."""
    old = _find_own(library, source, id, work)
    given = {"title": title, "text": text, "tags": tags}
    changed = {name for name, value in given.items() if value is not None}
    edited = sorted(changed | set(old.facts.get(EDITED) or ()))
    new = replace(
        old,
        title=old.title if title is None else title,
        pieces=old.pieces if text is None else _read_pieces(source, text),
        tags=old.tags if tags is None else tuple(tags),
        facts={**old.facts, EDITED: edited} if old.origin else old.facts,
        version=old.version + 1,
        last_modified=library.now_ms(),
    )
    return _put(library, new, work)


def delete_entry(library: Library, source: Source, id: str, *, work: Work) -> Entry:  # noqa: A002
    """Delete an entry. Later imports of its file do not restore it."""
    store = library.of(work.caller.user)
    entry = _find_own(library, source, id, work)
    if entry.origin:
        store.bury(source, {(entry.origin, entry.path): entry.hash})
    store.remove(source, [entry.id])
    return entry


def _find_own(library: Library, source: Source, id: str, work: Work) -> Entry:  # noqa: A002
    """An entry that the caller may change. Raises `OutsideRoots` for one of a collection."""
    user = work.caller.user
    entry = find_entry(library.seen_by(user), source, id)
    if library.of(user).get(source, entry.id, pieces=False) is None:
        raise OutsideRoots(
            f"{entry.id} is shared with {user}",
            user_message="This entry is shared with you, so you cannot change it.",
            next_action="Ask its owner to change it.",
        )
    return entry


def count_knowledge(library: Library, *, work: Work) -> dict[str, int]:
    """The number of entries by source, of pieces and deep vectors, and the size in bytes."""
    store = library.of(work.caller.user)
    counts: dict[str, int] = {source: store.count(source)[0] for source in SOURCES}
    if library.models.deep:
        counts["deep_vectors"], counts["pieces"] = count_deep(library.models, store)
    return counts | {"bytes": store.measure_bytes()}


def write_editable(entry: Entry) -> str:
    """The text of an entry in the form that `edit_entry` takes."""
    if entry.source == "chats":
        return "\n".join(f"{piece.sender}: {piece.text}" for piece in entry.pieces)
    fields = list_fields(entry).items()
    return "\n".join(f"## {name}\n{text}" if name else text for name, text in fields)


def write_knowledge(
    library: Library, target: Path, sources: Sequence[Source] = SOURCES, *, work: Work
) -> int:
    """Export to a file as a job. Returns the number of entries."""
    store = library.of(work.caller.user)
    wanted = sources or SOURCES
    total = sum(store.count(source)[0] for source in wanted)

    def run(inner: Work) -> dict[str, int]:
        entries = -1  # the first line is the header
        try:
            # a device or a pipe cannot be replaced
            special = target.exists() and not target.is_file()
            opened = target.open("w", encoding="utf-8") if special else replace_file(target)
            with opened as file:
                for line in export_lines(store, wanted):
                    file.write(line + "\n")
                    entries += not line.startswith('{"deleted"')
                    if entries % EXPORT_BATCH == 0:
                        inner.report(Progress("exporting", entries, total))
        except OSError as error:
            raise InvalidRequest(
                f"{target}: {error}",
                user_message="'{p}' cannot be written: {why}.",
                next_action="Name a file in a folder that exists and that you may write to.",
                p=target,
                why=error.strerror or error,
            ) from error
        return {"entries": entries}

    return _run_job(library, "export", str(target), run, work)["entries"]


def restore_knowledge(library: Library, lines: Iterable[str], *, name: str = "", work: Work) -> int:
    """Restore an export as a job. Returns the number of entries."""
    store = library.of(work.caller.user)

    def report_lines(inner: Work) -> Iterator[str]:
        for at, line in enumerate(lines):
            if at % EXPORT_BATCH == 0:
                inner.report(Progress("restoring", at))
            yield line

    def run(inner: Work) -> dict[str, int]:
        try:
            count = restore_lines(store, report_lines(inner))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequest(
                f"{name}: {error}",
                user_message="The file '{p}' cannot be read.",
                next_action="Pass a file written by `sonde knowledge export`.",
                p=name,
            ) from error
        for source in SOURCES:
            inner.check()
            embed_missing(store, source, library.models.static)
        return {"entries": count}

    return _run_job(library, "restore", name or "export", run, work)["entries"]


def export_lines(store: KnowledgeStore, sources: Iterable[Source] = SOURCES) -> Iterator[str]:
    """The entries and deletions of some sources as lines of JSON, after a header line."""
    yield json.dumps({"format": EXPORT_FORMAT})
    for source in sources:
        last = ""
        while page := store.list_entries(source, last, EXPORT_BATCH):
            for entry in page:
                row = asdict(entry)
                for numbered in (row, *row["pieces"]):
                    del numbered["number"]  # valid in this store alone
                yield json.dumps(row)
            last = page[-1].id
        for (origin, path), text in store.list_buried(source).items():
            yield json.dumps({"deleted": source, "origin": origin, "path": path, "hash": text})


def restore_lines(store: KnowledgeStore, lines: Iterable[str]) -> int:
    """Store the entries of an export under their ids, and its deletions. Returns their number."""
    rows = iter(lines)
    try:
        head = json.loads(next(rows, "null"))
    except ValueError:
        head = None
    if not isinstance(head, dict) or head.get("format") != EXPORT_FORMAT:
        raise InvalidRequest(
            f"the first line is not {EXPORT_FORMAT}",
            user_message="This is not an export of sonde's knowledge.",
            next_action="Pass a file written by `sonde knowledge export`.",
        )
    count = 0
    batch: dict[Source, list[Entry]] = {}
    for number, line in enumerate(rows, 2):
        if not line.strip():
            continue
        entry = _read_line(line, number)
        if not isinstance(entry, Entry):
            source, origin, path, text = entry
            store.bury(source, {(origin, path): text})
            continue
        batch.setdefault(entry.source, []).append(entry)
        count += 1
        if count % EXPORT_BATCH == 0:
            _flush(store, batch)
    _flush(store, batch)
    return count


def _flush(store: KnowledgeStore, batch: dict[Source, list[Entry]]) -> None:
    """Store the entries, and drop the records of their deletion."""
    for source, entries in batch.items():
        store.put(source, entries)
        store.unbury(source, [(entry.origin, entry.path) for entry in entries if entry.origin])
    batch.clear()


def _read_line(line: str, number: int) -> Entry | tuple[Source, str, str, str]:
    """An entry, or the source, origin, path and hash of one that was deleted."""
    try:
        row = json.loads(line)
        if "deleted" in row:
            if row["deleted"] not in SOURCES:
                raise ValueError("source")
            return row["deleted"], str(row["origin"]), str(row["path"]), str(row["hash"])
        entry = unpack_entry(row)
        if entry.source not in SOURCES or not entry.id:
            raise ValueError("source and id")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidRequest(
            f"line {number}: {error}",
            user_message="Line {number} of the export cannot be read.",
            next_action="Export again, or remove that line from the file.",
            number=number,
        ) from error
    return entry


def _run_job(
    library: Library, kind: str, subject: str, function: Callable[[Work], T], work: Work
) -> T:
    """Run a job for the caller and return its result."""
    user = work.caller.user
    lasting = kind != "import"  # a followed folder is imported every few seconds
    job = library.jobs.submit(
        f"{kind}:{user}:{subject}", kind, function, owner=user, subject=subject, lasting=lasting
    )
    result: T = job.join(work)
    library.deepen(user)
    return result


def _put(library: Library, entry: Entry, work: Work) -> Entry:
    store = library.of(work.caller.user)
    (key,) = store.put(entry.source, [entry])
    embed_missing(store, entry.source, library.models.static)
    library.deepen(work.caller.user)
    return replace(entry, id=key)


def _read_pieces(source: Source, text: str) -> tuple[Piece, ...]:
    if source in ("notes", "media"):
        return tuple(cut_pieces(text))
    if source == "chats":
        lines = [line for line in text.split("\n") if line.strip()]
        said = [line.partition(": ") if ": " in line else ("", "", line) for line in lines]
        return tuple(Piece(words, at, sender=sender) for at, (sender, _, words) in enumerate(said))
    parts = _FIELD.split(text)
    first = parts[0].strip()
    default = "description" if source == "characters" else "user_prompt"
    fields = {default: first} if first else {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        fields[name] = body.strip("\n")
    if pieces := cut_fields(fields):
        return pieces
    raise InvalidRequest(
        "no text",
        user_message="There is no text.",
        next_action="Pass the text, with fields as sections such as `## system_prompt`.",
    )
