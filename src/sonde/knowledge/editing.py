"""Verbs that change personal knowledge, for people: bring in, add, edit, delete, export."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sonde.app import App
from sonde.errors import InvalidRequest
from sonde.knowledge.exporting import export_lines, restore_lines
from sonde.knowledge.getting import find_entry
from sonde.knowledge.importing import EDITED, ImportReport, import_source
from sonde.knowledge.parsing import Parsers
from sonde.knowledge.ranking import embed_missing
from sonde.knowledge.retrieval import cut_pieces
from sonde.runtime.jobs import Job
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import SOURCES, Entry, Piece, Source
from sonde.types import Progress

_STEP_MS = 200
_SETTLE_MS = 400
_LOOK_S = 30.0
"""Events are hints: everything is looked at now and then without any."""
_LOOK_BLIND_S = 2.0


def watch_source(root: Path, work: Work) -> Iterator[None]:
    """Yields whenever something below a folder, or one file, may have changed; ends never.

    Raises `Cancelled` when the work is called off. Where the system reports nothing, such as with
    too many folders, it yields every other second.
    """
    from watchfiles import watch

    def is_wanted(_change: object, path: str) -> bool:
        # programs that keep notes write into folders of their own all the time
        inside = Path(path).relative_to(root) if path.startswith(str(root)) else Path(path)
        return not any(part.startswith(".") for part in inside.parts[:-1])

    looked, longest = 0.0, 0.0  # the first look is for what changed before the watch began
    try:
        events = watch(
            root, watch_filter=is_wanted, step=_STEP_MS, debounce=_SETTLE_MS,
            rust_timeout=_STEP_MS, yield_on_timeout=True, raise_interrupt=True,
        )  # fmt: skip
        for changes in events:
            work.check()
            if changes or time.monotonic() - looked >= longest:
                yield
                looked, longest = time.monotonic(), _LOOK_S
    except OSError:
        pass
    while True:
        until = time.monotonic() + _LOOK_BLIND_S
        while time.monotonic() < until:
            work.check()
            time.sleep(_STEP_MS / 1000)
        yield


_TOLD = 100
"""After so many entries it is told how far a job is."""
_DELETED = '{"deleted"'
_FIELD = re.compile(r"^## (\w+)[ \t]*\n", re.MULTILINE)


def import_knowledge(
    app: App,
    place: str,
    wanted: Source | None = None,
    *,
    restore: bool = False,
    parsers: Parsers | None = None,
    work: Work,
) -> ImportReport:
    """Bring in a folder or a file, and keep in step with it from then on."""
    store = app.knowledge.of(work.caller.user)
    folder = app.workspace.start / Path(place).expanduser()

    def run(inner: Work) -> ImportReport:
        return import_source(
            store, folder, inner, wanted=wanted, embedder=app.workspace.static, restore=restore,
            refused=app.knowledge.refused.setdefault((work.caller.user, str(folder), wanted), {}),
            parsers=parsers,
        )  # fmt: skip

    report: ImportReport = _submit(app, "import", str(folder), run, work).join(work)
    return report


def _submit(app: App, kind: str, subject: str, function: Callable[[Work], Any], work: Work) -> Job:
    """Long work on what a user has, as a job of that user."""
    user = work.caller.user
    return app.workspace.jobs.submit(
        f"{kind}:{user}:{subject}",
        kind,
        function,
        owner=user,
        subject=subject,
        lasting=kind != "import",  # one that keeps in step does it every few seconds
    )


def follow_knowledge(
    app: App, place: str, wanted: Source | None = None, *, work: Work
) -> Iterator[ImportReport]:
    """Bring in a folder again whenever it may have changed; what each import did, if anything."""
    root = (app.workspace.start / Path(place).expanduser()).resolve()
    with contextlib.closing(Parsers()) as parsers:
        for _ in watch_source(root, work):
            report = import_knowledge(app, place, wanted, parsers=parsers, work=work)
            if report.added + report.updated + report.moved + report.removed:
                yield report


def add_entry(
    app: App,
    source: Source,
    title: str,
    text: str,
    tags: Sequence[str] = (),
    *,
    work: Work,
) -> Entry:
    """Write a new entry; characters and prompts take their fields as `## name` sections."""
    now = int(time.time() * 1000)
    entry = Entry(
        source,
        title,
        _read_pieces(source, text),
        created_at=now,
        last_modified=now,
        tags=tuple(tags),
        media_type="txt" if source == "media" else "",
    )
    return _put(app, entry, work)


def edit_entry(
    app: App,
    source: Source,
    id: str,  # noqa: A002
    *,
    title: str | None = None,
    text: str | None = None,
    tags: Sequence[str] | None = None,
    work: Work,
) -> Entry:
    """Change an entry; what is not given stays. What was changed is known to later imports."""
    old = find_entry(app.knowledge.of(work.caller.user), source, id)
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
        last_modified=int(time.time() * 1000),
    )
    return _put(app, new, work)


def delete_entry(app: App, source: Source, id: str, *, work: Work) -> Entry:  # noqa: A002
    """Forget an entry for good; importing its file again does not bring it back."""
    store = app.knowledge.of(work.caller.user)
    entry = find_entry(store, source, id, pieces=False)
    if entry.origin:
        store.bury(source, {(entry.origin, entry.path): entry.hash})
    store.remove(source, [entry.id])
    return entry


def export_knowledge(app: App, sources: Sequence[Source] = SOURCES, *, work: Work) -> Iterator[str]:
    """Everything, or some sources, as lines of JSON."""
    return export_lines(app.knowledge.of(work.caller.user), sources or SOURCES)


def write_knowledge(
    app: App, target: Path, sources: Sequence[Source] = SOURCES, *, work: Work
) -> int:
    """The same into a file, as a job; how many entries."""
    store = app.knowledge.of(work.caller.user)
    wanted = sources or SOURCES
    total = sum(store.count(source)[0] for source in wanted)

    def run(inner: Work) -> dict[str, int]:
        entries = -1  # the first line says what follows
        try:
            with target.open("w", encoding="utf-8") as file:
                for line in export_lines(store, wanted):
                    file.write(line + "\n")
                    entries += not line.startswith(_DELETED)
                    if entries % _TOLD == 0:
                        inner.report(Progress("exporting", entries, total))
        except OSError as error:
            raise InvalidRequest(
                f"{target}: {error}", user_message="'{p}' cannot be written.", p=target
            ) from error
        return {"entries": entries}

    count: int = _submit(app, "export", str(target), run, work).join(work)["entries"]
    return count


def restore_knowledge(app: App, lines: Iterable[str], *, name: str = "", work: Work) -> int:
    """Put back what was exported, as a job."""
    caller = work.caller
    store = app.knowledge.of(caller.user)

    def follow(inner: Work) -> Iterator[str]:
        for at, line in enumerate(lines):
            if at % _TOLD == 0:
                inner.report(Progress("restoring", at))
            yield line

    def run(inner: Work) -> dict[str, int]:
        try:
            count = restore_lines(store, follow(inner))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequest(
                f"{name}: {error}", user_message="The file '{p}' cannot be read.", p=name
            ) from error
        for source in SOURCES:
            inner.check()
            _embed(app, caller.user, source)
        return {"entries": count}

    count: int = _submit(app, "restore", name or "export", run, work).join(work)["entries"]
    return count


def count_knowledge(app: App, *, work: Work) -> dict[str, Any]:
    """How much there is of each source."""
    store = app.knowledge.of(work.caller.user)
    counts: dict[str, Any] = {source: store.count(source)[0] for source in SOURCES}
    return counts | {"bytes": store.measure_bytes()}


def show_changed_entry(entry: Entry) -> str:
    """An entry as text that `edit_entry` takes back."""
    if entry.source == "chats":
        return "\n".join(f"{piece.sender}: {piece.text}" for piece in entry.pieces)
    parts: list[str] = []
    field = ""
    for piece in entry.pieces:
        if piece.field != field:
            field = piece.field
            parts.append(f"{chr(10) if parts else ''}## {field}\n")
        parts.append(piece.text)
    return "".join(parts)


def _put(app: App, entry: Entry, work: Work) -> Entry:
    store = app.knowledge.of(work.caller.user)
    (key,) = store.put(entry.source, [entry])
    _embed(app, work.caller.user, entry.source)
    return replace(entry, id=key)


def _embed(app: App, user: str, source: Source) -> None:
    if app.workspace.static:
        embed_missing(app.knowledge.of(user), source, app.workspace.static, 1 << 40)


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
    pieces: list[Piece] = []
    for name, body in fields.items():
        pieces.extend(cut_pieces(body, name, len(pieces)))
    if not pieces:
        raise InvalidRequest("no text", user_message="There is no text.")
    return tuple(pieces)
