"""Importing a folder or a file: new, changed, moved and deleted files become entries' changes."""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from sonde.embedding.base import Embedder
from sonde.errors import FileMissing
from sonde.knowledge.formats import File, RefusedFormat
from sonde.knowledge.formats.chats import PEOPLE
from sonde.knowledge.library import Refusals
from sonde.knowledge.parsing import Parsers
from sonde.knowledge.vectors import embed_missing
from sonde.policy.read import read_document
from sonde.policy.walk import walk_documents
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import SOURCES, Entry, KnowledgeStore, Source
from sonde.types import ListedFile, Progress, Skipped

MAX_FILE_BYTES = 256 << 20  # read whole: an eighth of the memory that a parser may use
MAX_PEOPLE_BYTES = 1 << 20  # of Slack's list of users, which lies beside its channels
MAX_EXAMPLES = 10_000  # skipped files that a report names; the rest is only counted
EDITED = "edited"
"""The fact that names what of an entry was changed here: its title, its text, its tags."""
_KEY_MARK = "//"  # separates a file's path from the key of an entry inside it
BATCH_FILES, BATCH_PIECES = 50, 2_000
"""Written in one transaction: large enough to be fast, small enough to lose little."""

T = TypeVar("T")
Key = tuple[Source, str]  # an entry of a file: its source, and its key in the file
REASONS: Mapping[str, str] = {
    "unknown": "no known format",
    "broken": "it cannot be read as what its name says",
    "encrypted": "it needs a password",
    "bomb": "it unpacks to far more than it is",
    "hostile": "it holds what no honest file holds",
    "too_slow": "reading it took too long",
    "crashed": "reading it ended the parser",
    "no_text": "there is no text in it",
    "missing_extra": "it needs the extra `documents`",
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
        return asdict(self)


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
    """Import everything below a folder, or one file; a second run does only what is left.

    `restore` brings back what was deleted here; `refused` has the files that earlier runs could
    not read, by path; `parsers` that are given stay open.
    """
    try:
        root = root.expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise FileMissing(f"{root}: {error}", path=str(root)) from error
    if restore:
        for source in SOURCES:
            store.unbury(source, [at for at in store.list_buried(source) if at[0] == str(root)])
    with contextlib.ExitStack() as stack:
        parsers = parsers or stack.enter_context(contextlib.closing(Parsers()))
        run = _Run(store, root, work, wanted, parsers, {} if refused is None else refused)
        run.import_files()
    for source in SOURCES:
        embed_missing(store, source, embedder, work=work)
    return ImportReport(**run.counts, skipped=dict(run.skipped), examples=tuple(run.examples))


@dataclass(slots=True)
class _Run:
    """The state of one import."""

    store: KnowledgeStore
    root: Path
    work: Work
    wanted: Source | None
    parsers: Parsers
    refused: Refusals
    counts: Counter[str] = field(default_factory=Counter)
    """The numbers of the report."""
    skipped: Counter[str] = field(default_factory=Counter)
    examples: list[Skipped] = field(default_factory=list)
    known: dict[str, dict[Key, Entry]] = field(default_factory=dict)
    """The entries made of each file before."""
    buried: dict[str, dict[Key, str]] = field(default_factory=dict)
    """The hashes of the entries of each file that were deleted here."""
    by_hash: dict[str, str] = field(default_factory=dict)
    """Files that are gone, by their digests: a moved file has the digest of one of them."""
    people: dict[str, bytes] = field(default_factory=dict)
    waiting: dict[Source, list[Entry]] = field(default_factory=dict)
    files: int = 0
    pieces: int = 0

    def _skip(self, skipped: Skipped) -> None:
        self.skipped[skipped.reason] += 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(skipped)

    def import_files(self) -> None:
        listed: list[ListedFile] = []
        kept: set[str] = set()
        for found in walk_documents(self.root, MAX_FILE_BYTES):
            self.work.check()
            if isinstance(found, Skipped):
                self._skip(found)
                kept.add(found.path)
            else:
                listed.append(found)
        present = {one.path for one in listed}
        self._recall(present)

        def is_gone(path: str) -> bool:
            # what cannot be read just now is not gone
            return path not in present and not any(f"{path}/".startswith(f"{e}/") for e in kept)

        gone = {path: known for path, known in self.known.items() if is_gone(path)}
        self.by_hash = {
            _content(entry.hash): path for path, known in gone.items() for entry in known.values()
        }
        gone_buried = {path for path in self.buried if is_gone(path)}
        for path in gone_buried:
            self.by_hash |= {_content(text): path for text in self.buried[path].values()}
        for at, one in enumerate(listed):
            self.work.report(Progress("importing", at, len(listed), one.path))
            self._take(one, gone)
        self._flush()
        for known in gone.values():
            self._remove(known)
        for path in gone_buried:
            self._unbury(path, self.buried[path])
        self.work.report(Progress("importing", len(listed), len(listed)))

    def _recall(self, present: Container[str]) -> None:
        for source in SOURCES:
            for path, entry in self.store.list_origin(source, str(self.root)).items():
                name, key = _split(path, entry.hash, present)
                self.known.setdefault(name, {})[source, key] = entry
            for (origin, path), text in self.store.list_buried(source).items():
                if origin == str(self.root):
                    name, key = _split(path, text, present)
                    self.buried.setdefault(name, {})[source, key] = text

    def _take(self, one: ListedFile, gone: dict[str, dict[Key, Entry]]) -> None:
        known = self.known.get(one.path, {})
        buried = self.buried.get(one.path, {})
        stamp = f"{one.size}:{one.mtime_ns}"
        hashes = [*(entry.hash for entry in known.values()), *buried.values()]
        if _is_whole(hashes) and all(text.split(":")[1:3] == stamp.split(":") for text in hashes):
            self._pass_over(known, buried)
            return
        before = self.refused.get(one.path)
        if before and before[0] == stamp:
            self._skip(before[1])
            return
        data = read_document(self.root, one.path, MAX_FILE_BYTES)
        if isinstance(data, Skipped):
            self._skip(data)
            return
        digest = hashlib.sha256(data).hexdigest()
        if _is_whole(hashes) and all(_content(text) == digest for text in hashes):
            self._pass_over(known, buried)
            return
        moved = "" if hashes else self.by_hash.get(digest, "")
        known = gone.pop(moved, known)
        buried = self.buried.get(moved, buried)
        try:
            beside = self._read_beside(one.path)
            file = File(one.path, data, one.mtime_ns // 1_000_000, beside)
            parsed = self.parsers.parse(file, self.wanted)
        except RefusedFormat as error:
            skipped = Skipped(one.path, error.reason, error.detail)
            self.refused[one.path] = stamp, skipped
            self._skip(skipped)
            return
        self.counts["redacted"] += parsed.redacted
        for each in parsed.skipped:
            self._skip(each)
        if not parsed.entries:
            self._skip(Skipped(one.path, "no_text"))
        mark = f"{digest}:{stamp}:{len(parsed.entries)}"
        named = name_entries(parsed.entries)
        still = {key: mark for key in buried if key in named}
        self._unbury(one.path, {key: "" for key in buried if key not in named})
        for source, rows in _group(still).items():
            places = {(str(self.root), _place(one.path, key)): text for key, text in rows.items()}
            self.store.bury(source, places)
        self.counts["deleted"] += len(still)
        kept = {key: replace(each, hash=mark) for key, each in named.items() if key not in still}
        self._put(one.path, known, kept, moved=bool(moved))

    def _read_beside(self, path: str) -> bytes:
        """The users of a Slack export, for a file that may be a channel of it."""
        if not path.endswith(".json") or path.count("/") < 1:
            return b""
        people = "/".join([*path.split("/")[:-2], PEOPLE])
        if people not in self.people:
            data = read_document(self.root, people, MAX_PEOPLE_BYTES)
            self.people[people] = b"" if isinstance(data, Skipped) else data
        return self.people[people]

    def _pass_over(self, known: Mapping[Key, Entry], buried: Mapping[Key, str]) -> None:
        self.counts["unchanged"] += len(known)
        self.counts["deleted"] += len(buried)
        # a crash came between recording a deletion and doing it
        self._remove({key: entry for key, entry in known.items() if key in buried})

    def _put(
        self, path: str, known: Mapping[Key, Entry], made: Mapping[Key, Entry], *, moved: bool
    ) -> None:
        for (source, key), entry in made.items():
            old = known.get((source, key))
            entry = replace(self._link(entry), origin=str(self.root), path=_place(path, key))
            if old:
                entry = replace(entry, id=old.id, version=old.version + (not moved))
                entry = self._keep_edits(old, entry, moved=moved)
                self.counts["moved"] += moved
                self.counts["updated"] += not moved
            else:
                self.counts["added"] += 1
            self.waiting.setdefault(source, []).append(entry)
            self.pieces += len(entry.pieces)
        self._remove({key: entry for key, entry in known.items() if key not in made})
        self.files += 1
        if self.files >= BATCH_FILES or self.pieces >= BATCH_PIECES:
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
        if "text" in edited and (whole := self.store.get(old.source, old.id)):
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
                self.waiting.setdefault(copy.source, []).append(copy)
                self.counts["copied"] += 1
        return replace(new, facts={**new.facts, EDITED: edited} if edited else new.facts)

    def _link(self, entry: Entry) -> Entry:
        """The entry, linked to the character that its conversation is with, if that is stored."""
        name = entry.facts.get("character_name") if entry.source == "chats" else None
        known = self.store.find_title("characters", str(name)) if name else None
        return replace(entry, character=known.id) if known else entry

    def _unbury(self, path: str, buried: Mapping[Key, str]) -> None:
        for source, rows in _group(buried).items():
            self.store.unbury(source, [(str(self.root), _place(path, key)) for key in rows])

    def _flush(self) -> None:
        for source, entries in self.waiting.items():
            self.store.put(source, entries)
        self.waiting, self.files, self.pieces = {}, 0, 0

    def _remove(self, known: Mapping[Key, Entry]) -> None:
        for source, rows in _group(known).items():
            ids = [entry.id for entry in rows.values()]
            self.counts["removed"] += self.store.remove(source, ids)


def _group(rows: Mapping[Key, T]) -> Mapping[Source, Mapping[str, T]]:
    groups: dict[Source, dict[str, T]] = {}
    for (source, key), row in rows.items():
        groups.setdefault(source, {})[key] = row
    return groups


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


def _is_whole(hashes: list[str]) -> bool:
    """Whether all entries of a file are stored: sources are written one after the other."""
    counts = [text.split(":")[3:] for text in hashes]
    return bool(hashes) and all(not count or count == [str(len(hashes))] for count in counts)
