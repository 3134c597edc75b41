"""A folder or file -> entries, kept in step with what is new, changed, moved or gone."""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sonde.embedding.base import Embedder
from sonde.errors import FileMissing
from sonde.knowledge.formats.chats import PEOPLE
from sonde.knowledge.formats.reading import File, RefusedFormat
from sonde.knowledge.parsing import Parsers
from sonde.knowledge.ranking import embed_missing
from sonde.policy.content import read_document, walk_documents
from sonde.policy.walk import ListedFile as Listed
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import SOURCES, Entry, KnowledgeStore, Place, Source
from sonde.types import Progress, Skipped

MOST_BYTES = 256 << 20
_MOST_BESIDE = 1 << 20
_EXAMPLES = 10_000
EDITED = "edited"
"""The fact that names what of an entry was changed here: its title, its text, its tags."""
_BETWEEN = "//"
_BATCH_FILES, _BATCH_PIECES = 50, 2_000

Refusals = dict[str, tuple[str, str, str]]
"""Path -> the size and time of a file that was refused, the reason and what there is to say."""
REASONS: Mapping[str, str] = {
    "unknown": "no known format",
    "broken": "it cannot be read as what its name says",
    "encrypted": "it needs a password",
    "bomb": "it unpacks to far more than it is",
    "hostile": "it holds what no honest file holds",
    "too_slow": "reading it took too long",
    "crashed": "reading it ended the parser",
    "no_text": "there is no text in it",
    "missing_extra": "it needs sonde[documents]",
}


@dataclass(slots=True)
class ImportReport:
    """What one import did."""

    added: int = 0
    updated: int = 0
    moved: int = 0
    removed: int = 0
    unchanged: int = 0
    deleted: int = 0
    """Left out because they were deleted here."""
    copied: int = 0
    """Texts that were changed here and at their source: kept as entries of their own."""
    redacted: int = 0
    """Secrets that were left out of texts."""
    skipped: Counter[str] = field(default_factory=Counter)
    examples: list[Skipped] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The report as a job carries it."""
        return {**asdict(self), "skipped": dict(self.skipped)}

    def skip(self, path: str, reason: str, detail: str = "") -> None:
        """Count a file that was left out."""
        self.skipped[reason] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(Skipped(path, reason, detail))


def import_source(
    store: KnowledgeStore,
    root: Path,
    work: Work,
    *,
    wanted: Source | None = None,
    embedder: Embedder | None = None,
    restore: bool = False,
    refused: Refusals | None = None,
    parsers: Parsers | None = None,
) -> ImportReport:
    """Bring in everything below a folder, or one file; a second run does only what is left.

    `restore` brings back what was deleted here; `refused` is what an earlier run could not read;
    `parsers` that are given stay open for the next.
    """
    try:
        root = root.expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise FileMissing(f"{root}: {error}", path=str(root)) from error
    if restore:
        forget_deleted(store, str(root))
    with (
        contextlib.closing(Parsers())
        if parsers is None
        else contextlib.nullcontext(parsers) as parsers
    ):
        run = _Run(store, root, work, wanted, parsers, {} if refused is None else refused)
        run.bring_in()
    if embedder:
        for source in SOURCES:
            total = store.count(source)[1]

            def tell(done: int, total: int = total) -> None:
                work.report(Progress("embedding", done, total))

            embed_missing(store, source, embedder, 1 << 40, tell)
    return run.report


def forget_deleted(store: KnowledgeStore, origin: str) -> None:
    """Let what was deleted come in again with the next import of its origin."""
    for source in SOURCES:
        places = [place for place in store.list_buried(source) if place[0] == origin]
        if places:
            store.unbury(source, places)


class _Run:
    """One import under way."""

    def __init__(
        self,
        store: KnowledgeStore,
        root: Path,
        work: Work,
        wanted: Source | None,
        parsers: Parsers,
        refused: Refusals,
    ) -> None:
        self._refused = refused
        self._store = store
        self._root = root
        self._work = work
        self._wanted = wanted
        self._parsers = parsers
        self._origin = str(root)
        self.report = ImportReport()
        self._known: dict[str, dict[tuple[Source, str], Entry]] = {}
        """File -> what was made of it before, by source and key."""
        self._buried: dict[str, dict[tuple[Source, str], str]] = {}
        """File -> the hashes of what was made of it and deleted here, by source and key."""
        self._by_hash: dict[str, str] = {}
        """Digest -> a file that is gone, so that a moved one is known again."""
        self._people: dict[str, bytes] = {}
        self._waiting: dict[Source, list[Entry]] = {}
        self._files = self._pieces = 0

    def bring_in(self) -> None:
        listed: list[Listed] = []
        kept: set[str] = set()
        for found in walk_documents(self._root, MOST_BYTES):
            self._work.check()
            if isinstance(found, Skipped):
                self.report.skip(found.path, found.reason, found.detail)
                kept.add(found.path)
            else:
                listed.append(found)
        present = {one.path for one in listed}
        self._recall(present)

        def is_gone(path: str) -> bool:
            # what cannot be read just now is not gone
            return path not in present and not any(_is_below(path, each) for each in kept)

        gone = {path: known for path, known in self._known.items() if is_gone(path)}
        self._by_hash = {
            _content(entry.hash): path for path, known in gone.items() for entry in known.values()
        }
        gone_buried = {path for path in self._buried if is_gone(path)}
        for path in gone_buried:
            self._by_hash |= {_content(text): path for text in self._buried[path].values()}
        for at, one in enumerate(listed):
            self._work.report(Progress("importing", at, len(listed), one.path))
            self._take(one, gone)
        self._flush()
        for known in gone.values():
            self._remove(known)
        for path in gone_buried:
            self._unbury(path, self._buried[path])
        self._work.report(Progress("importing", len(listed), len(listed)))

    def _recall(self, present: Container[str]) -> None:
        for source in SOURCES:
            for path, entry in self._store.list_origin(source, self._origin).items():
                name, key = _split(path, entry.hash, present)
                self._known.setdefault(name, {})[source, key] = entry
            for (origin, path), text in self._store.list_buried(source).items():
                if origin == self._origin:
                    name, key = _split(path, text, present)
                    self._buried.setdefault(name, {})[source, key] = text

    def _take(self, one: Listed, gone: dict[str, dict[tuple[Source, str], Entry]]) -> None:
        known = self._known.get(one.path, {})
        buried = self._buried.get(one.path, {})
        stamp = f"{one.size}:{one.mtime_ns}"
        hashes = [*(entry.hash for entry in known.values()), *buried.values()]
        if _is_whole(hashes) and all(_stamp(text) == stamp for text in hashes):
            self._pass_over(known, buried)
            return
        before = self._refused.get(one.path)
        if before and before[0] == stamp:
            self.report.skip(one.path, *before[1:])
            return
        data = read_document(self._root, one.path, MOST_BYTES)
        if isinstance(data, Skipped):
            self.report.skip(data.path, data.reason, data.detail)
            return
        digest = hashlib.sha256(data).hexdigest()
        if _is_whole(hashes) and all(_content(text) == digest for text in hashes):
            self._pass_over(known, buried)
            return
        moved = "" if hashes else self._by_hash.get(digest, "")
        known = gone.pop(moved, known)
        buried = self._buried.get(moved, buried)
        try:
            beside = self._read_beside(one.path)
            file = File(one.path, data, one.mtime_ns // 1_000_000, beside)
            made, redacted, skipped = self._parsers.parse(file, self._wanted)
        except RefusedFormat as error:
            self._refused[one.path] = (stamp, error.reason, error.detail)
            self.report.skip(one.path, error.reason, error.detail)
            return
        self.report.redacted += redacted
        for each in skipped:
            self.report.skip(each.path, each.reason, each.detail)
        if not made:
            self.report.skip(one.path, "no_text")
        mark = f"{digest}:{stamp}:{len(made)}"
        named = name_entries(made)
        still = {key: mark for key in buried if key in named}
        self._unbury(one.path, {key: "" for key in buried if key not in named})
        self._bury(one.path, still)
        self.report.deleted += len(still)
        kept = {key: replace(each, hash=mark) for key, each in named.items() if key not in still}
        self._put(one.path, known, kept, moved=bool(moved))

    def _read_beside(self, path: str) -> bytes:
        """Who is who, for a day of a channel of Slack."""
        if not path.endswith(".json") or path.count("/") < 1:
            return b""
        people = "/".join([*path.split("/")[:-2], PEOPLE])
        if people not in self._people:
            data = read_document(self._root, people, _MOST_BESIDE)
            self._people[people] = b"" if isinstance(data, Skipped) else data
        return self._people[people]

    def _pass_over(
        self, known: Mapping[tuple[Source, str], Entry], buried: Mapping[tuple[Source, str], str]
    ) -> None:
        self.report.unchanged += len(known)
        self.report.deleted += len(buried)
        # deleting was cut short between writing it down and doing it
        self._remove({key: entry for key, entry in known.items() if key in buried})

    def _put(
        self,
        path: str,
        known: Mapping[tuple[Source, str], Entry],
        made: Mapping[tuple[Source, str], Entry],
        *,
        moved: bool,
    ) -> None:
        for (source, key), entry in made.items():
            old = known.get((source, key))
            entry = replace(entry, origin=self._origin, path=_place(path, key))
            entry = self._find_character(entry)
            if old:
                entry = replace(entry, id=old.id, version=old.version + (not moved))
                entry = self._keep_edits(old, entry, moved=moved)
                self.report.moved += moved
                self.report.updated += not moved
            else:
                self.report.added += 1
            self._waiting.setdefault(source, []).append(entry)
            self._pieces += len(entry.pieces)
        self._remove({key: entry for key, entry in known.items() if key not in made})
        self._files += 1
        if self._files >= _BATCH_FILES or self._pieces >= _BATCH_PIECES:
            self._flush()

    def _keep_edits(self, old: Entry, new: Entry, *, moved: bool) -> Entry:
        """Titles and tags given here stay. Of a text that changed here and there, the file's
        goes on being in step and the other becomes an entry of its own."""
        edited = [str(name) for name in old.facts.get(EDITED) or ()]
        if not edited:
            return new
        if "title" in edited:
            new = replace(new, title=old.title)
        if "tags" in edited:
            new = replace(new, tags=old.tags)
        if "text" in edited and (whole := self._store.get(old.source, old.id)):
            if moved:
                new = replace(new, pieces=whole.pieces)
            else:
                edited.remove("text")
                facts = {name: fact for name, fact in old.facts.items() if name != EDITED}
                copy = replace(
                    whole, id="", title=f"{old.title} (edited here)", facts=facts,
                    pieces=tuple(replace(piece, uuid="") for piece in whole.pieces),
                    origin="", path="", hash="", number=0,
                )  # fmt: skip
                self._waiting.setdefault(copy.source, []).append(copy)
                self.report.copied += 1
        return replace(new, facts={**new.facts, EDITED: edited} if edited else new.facts)

    def _find_character(self, entry: Entry) -> Entry:
        """A conversation with a character that is known by its name."""
        name = entry.facts.get("character_name") if entry.source == "chats" else None
        known = self._store.find_title("characters", str(name)) if name else None
        return replace(entry, character=known.id) if known else entry

    def _bury(self, path: str, buried: Mapping[tuple[Source, str], str]) -> None:
        for source in SOURCES:
            places: dict[Place, str] = {
                (self._origin, _place(path, key)): text
                for (each, key), text in buried.items()
                if each == source
            }
            if places:
                self._store.bury(source, places)

    def _unbury(self, path: str, buried: Mapping[tuple[Source, str], str]) -> None:
        for source in SOURCES:
            places = [(self._origin, _place(path, key)) for each, key in buried if each == source]
            if places:
                self._store.unbury(source, places)

    def _flush(self) -> None:
        for source, entries in self._waiting.items():
            self._store.put(source, entries)
        self._waiting, self._files, self._pieces = {}, 0, 0

    def _remove(self, known: Mapping[tuple[Source, str], Entry]) -> None:
        for source in SOURCES:
            ids = [entry.id for (each, _), entry in known.items() if each == source]
            if ids:
                self.report.removed += self._store.remove(source, ids)


def name_entries(entries: Iterable[Entry]) -> dict[tuple[Source, str], Entry]:
    """Entries of a file by source and key; a key that comes twice is told apart."""
    named: dict[tuple[Source, str], Entry] = {}
    for entry in entries:
        key, number = entry.path, 1
        while (entry.source, key) in named:
            number += 1
            key = f"{entry.path}~{number}"
        named[entry.source, key] = entry
    return named


def _place(path: str, key: str) -> str:
    return f"{path}{_BETWEEN}{key}" if key else path


def _split(place: str, text: str, present: Container[str]) -> tuple[str, str]:
    """File and key of a place; older imports, whose hashes have no count, wrote `#` between."""
    is_old = text.count(":") < 3 and place not in present
    name, _, key = place.partition("#" if is_old else _BETWEEN)
    return name, key


def _content(text: str) -> str:
    """Of `digest:size:time:count`, how a hash is written: the digest."""
    return text.partition(":")[0]


def _stamp(text: str) -> str:
    return ":".join(text.split(":")[1:3])


def _is_whole(hashes: list[str]) -> bool:
    """Whether everything that a file made is there: stores are written one after the other."""
    counts = [text.split(":")[3:] for text in hashes]
    return bool(hashes) and all(not count or count == [str(len(hashes))] for count in counts)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
