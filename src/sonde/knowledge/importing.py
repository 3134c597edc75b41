"""Importing a folder or a file: new, changed, moved and deleted files become entries' changes."""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from sonde.embedding.base import Embedder
from sonde.errors import FileMissing
from sonde.knowledge.formats import File, RefusedFormat
from sonde.knowledge.formats.chats import PEOPLE
from sonde.knowledge.library import Refusal
from sonde.knowledge.parsing import Parsers
from sonde.knowledge.ranking import embed_missing
from sonde.policy.read import read_document
from sonde.policy.walk import walk_documents
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import SOURCES, Entry, KnowledgeStore, Place, Source
from sonde.types import ListedFile as Listed
from sonde.types import Progress, Skipped

MAX_FILE_BYTES = 256 << 20
MAX_PEOPLE_BYTES = 1 << 20
"""Of Slack's list of users, which lies beside its channels."""
MAX_EXAMPLES = 10_000
"""Skipped files that a report names; the rest is only counted."""
EDITED = "edited"
"""The fact that names what of an entry was changed here: its title, its text, its tags."""
_KEY_MARK = "//"
"""Separates a file's path from the key of an entry inside it."""
BATCH_FILES, BATCH_PIECES = 50, 2_000
"""Written in one transaction: large enough to be fast, small enough to lose little."""

Key = tuple[Source, str]
"""An entry of a file: its source, and its key in the file."""
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


@dataclass(frozen=True, slots=True)
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
    """Secrets that were removed from texts."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Files that were not imported, by reason."""
    examples: tuple[Skipped, ...] = ()

    def as_dict(self) -> Mapping[str, object]:
        """The report as a job carries it."""
        return asdict(self) | {"examples": [asdict(each) for each in self.examples]}


def import_source(
    store: KnowledgeStore,
    root: Path,
    work: Work,
    *,
    wanted: Source | None = None,
    embedder: Embedder | None = None,
    restore: bool = False,
    refused: dict[str, Refusal] | None = None,
    parsers: Parsers | None = None,
) -> ImportReport:
    """Import everything below a folder, or one file; a second run does only what is left.

    `restore` brings back what was deleted here; `refused` has the files that earlier runs could
    not read, by path; `parsers` that are given stay open.
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
        run.import_files()
    if embedder:
        for source in SOURCES:
            total = store.count(source)[1]

            def report(done: int, total: int = total) -> None:
                work.report(Progress("embedding", done, total))

            embed_missing(store, source, embedder, step=report)
    return run.report()


def forget_deleted(store: KnowledgeStore, origin: str) -> None:
    """Let the next import of this origin bring back what was deleted here."""
    for source in SOURCES:
        places = [place for place in store.list_buried(source) if place[0] == origin]
        if places:
            store.unbury(source, places)


class _Run:
    """The state of one import."""

    def __init__(
        self,
        store: KnowledgeStore,
        root: Path,
        work: Work,
        wanted: Source | None,
        parsers: Parsers,
        refused: dict[str, Refusal],
    ) -> None:
        self._refused = refused
        self._store = store
        self._root = root
        self._work = work
        self._wanted = wanted
        self._parsers = parsers
        self._origin = str(root)
        self._counts: Counter[str] = Counter()
        """The numbers of the report."""
        self._skipped: Counter[str] = Counter()
        self._examples: list[Skipped] = []
        self._known: dict[str, dict[Key, Entry]] = {}
        """The entries made of each file before."""
        self._buried: dict[str, dict[Key, str]] = {}
        """The hashes of the entries of each file that were deleted here."""
        self._by_hash: dict[str, str] = {}
        """Files that are gone, by their digests: a moved file has the digest of one of them."""
        self._people: dict[str, bytes] = {}
        self._waiting: dict[Source, list[Entry]] = {}
        self._files = self._pieces = 0

    def report(self) -> ImportReport:
        return ImportReport(
            **self._counts, skipped=dict(self._skipped), examples=tuple(self._examples)
        )

    def _skip(self, skipped: Skipped) -> None:
        self._skipped[skipped.reason] += 1
        if len(self._examples) < MAX_EXAMPLES:
            self._examples.append(skipped)

    def import_files(self) -> None:
        listed: list[Listed] = []
        kept: set[str] = set()
        for found in walk_documents(self._root, MAX_FILE_BYTES):
            self._work.check()
            if isinstance(found, Skipped):
                self._skip(found)
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

    def _take(self, one: Listed, gone: dict[str, dict[Key, Entry]]) -> None:
        known = self._known.get(one.path, {})
        buried = self._buried.get(one.path, {})
        stamp = f"{one.size}:{one.mtime_ns}"
        hashes = [*(entry.hash for entry in known.values()), *buried.values()]
        if _is_whole(hashes) and all(_stamp(text) == stamp for text in hashes):
            self._pass_over(known, buried)
            return
        before = self._refused.get(one.path)
        if before and before.stamp == stamp:
            self._skip(Skipped(one.path, before.reason, before.detail))
            return
        data = read_document(self._root, one.path, MAX_FILE_BYTES)
        if isinstance(data, Skipped):
            self._skip(data)
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
            parsed = self._parsers.parse(file, self._wanted)
        except RefusedFormat as error:
            self._refused[one.path] = Refusal(stamp, error.reason, error.detail)
            self._skip(Skipped(one.path, error.reason, error.detail))
            return
        self._counts["redacted"] += parsed.redacted
        for each in parsed.skipped:
            self._skip(each)
        if not parsed.entries:
            self._skip(Skipped(one.path, "no_text"))
        mark = f"{digest}:{stamp}:{len(parsed.entries)}"
        named = name_entries(parsed.entries)
        still = {key: mark for key in buried if key in named}
        self._unbury(one.path, {key: "" for key in buried if key not in named})
        self._bury(one.path, still)
        self._counts["deleted"] += len(still)
        kept = {key: replace(each, hash=mark) for key, each in named.items() if key not in still}
        self._put(one.path, known, kept, moved=bool(moved))

    def _read_beside(self, path: str) -> bytes:
        """The users of a Slack export, for a file that may be a channel of it."""
        if not path.endswith(".json") or path.count("/") < 1:
            return b""
        people = "/".join([*path.split("/")[:-2], PEOPLE])
        if people not in self._people:
            data = read_document(self._root, people, MAX_PEOPLE_BYTES)
            self._people[people] = b"" if isinstance(data, Skipped) else data
        return self._people[people]

    def _pass_over(self, known: Mapping[Key, Entry], buried: Mapping[Key, str]) -> None:
        self._counts["unchanged"] += len(known)
        self._counts["deleted"] += len(buried)
        # a crash came between recording a deletion and doing it
        self._remove({key: entry for key, entry in known.items() if key in buried})

    def _put(
        self,
        path: str,
        known: Mapping[Key, Entry],
        made: Mapping[Key, Entry],
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
                self._counts["moved"] += moved
                self._counts["updated"] += not moved
            else:
                self._counts["added"] += 1
            self._waiting.setdefault(source, []).append(entry)
            self._pieces += len(entry.pieces)
        self._remove({key: entry for key, entry in known.items() if key not in made})
        self._files += 1
        if self._files >= BATCH_FILES or self._pieces >= BATCH_PIECES:
            self._flush()

    def _keep_edits(self, old: Entry, new: Entry, *, moved: bool) -> Entry:
        """The new entry with titles and tags edited here. Of a text that changed here and in its
        file, the file's wins and ours becomes an entry of its own."""
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
                self._counts["copied"] += 1
        return replace(new, facts={**new.facts, EDITED: edited} if edited else new.facts)

    def _find_character(self, entry: Entry) -> Entry:
        """The entry, linked to the character that its conversation is with, if that is stored."""
        name = entry.facts.get("character_name") if entry.source == "chats" else None
        known = self._store.find_title("characters", str(name)) if name else None
        return replace(entry, character=known.id) if known else entry

    def _bury(self, path: str, buried: Mapping[Key, str]) -> None:
        for source in SOURCES:
            places: dict[Place, str] = {
                (self._origin, _place(path, key)): text
                for (each, key), text in buried.items()
                if each == source
            }
            if places:
                self._store.bury(source, places)

    def _unbury(self, path: str, buried: Mapping[Key, str]) -> None:
        for source in SOURCES:
            places = [(self._origin, _place(path, key)) for each, key in buried if each == source]
            if places:
                self._store.unbury(source, places)

    def _flush(self) -> None:
        for source, entries in self._waiting.items():
            self._store.put(source, entries)
        self._waiting, self._files, self._pieces = {}, 0, 0

    def _remove(self, known: Mapping[Key, Entry]) -> None:
        for source in SOURCES:
            ids = [entry.id for (each, _), entry in known.items() if each == source]
            if ids:
                self._counts["removed"] += self._store.remove(source, ids)


def name_entries(entries: Iterable[Entry]) -> dict[Key, Entry]:
    """Entries of a file by source and key; repeated keys are numbered."""
    named: dict[Key, Entry] = {}
    for entry in entries:
        key, number = entry.path, 1
        while (entry.source, key) in named:
            number += 1
            key = f"{entry.path}~{number}"
        named[entry.source, key] = entry
    return named


def _place(path: str, key: str) -> str:
    return f"{path}{_KEY_MARK}{key}" if key else path


def _split(place: str, text: str, present: Container[str]) -> tuple[str, str]:
    """File and key of a place; older imports, whose hashes have no count, separated them by `#`."""
    is_old = text.count(":") < 3 and place not in present
    name, _, key = place.partition("#" if is_old else _KEY_MARK)
    return name, key


def _content(text: str) -> str:
    """The digest in a hash, which is `digest:size:time:count`."""
    return text.partition(":")[0]


def _stamp(text: str) -> str:
    return ":".join(text.split(":")[1:3])


def _is_whole(hashes: list[str]) -> bool:
    """Whether all entries of a file are stored: sources are written one after the other."""
    counts = [text.split(":")[3:] for text in hashes]
    return bool(hashes) and all(not count or count == [str(len(hashes))] for count in counts)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
