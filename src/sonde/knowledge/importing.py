"""A folder or file -> entries, kept in step with what is new, changed, moved or gone."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sonde.embedding.base import Embedder
from sonde.errors import FileMissing
from sonde.knowledge.formats.reading import File, Refused
from sonde.knowledge.ranking import embed_missing
from sonde.knowledge.worker import Parsers
from sonde.policy.documents import read_document, walk_documents
from sonde.policy.walk import Entry as Listed
from sonde.stores.knowledge_base import SOURCES, Entry, KnowledgeStore, Source
from sonde.types import Progress, Skipped
from sonde.work import Work

MOST_BYTES = 256 << 20
_EXAMPLES = 200
_BATCH_FILES, _BATCH_PIECES = 50, 2_000

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
    skipped: Counter[str] = field(default_factory=Counter)
    examples: list[Skipped] = field(default_factory=list)

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
) -> ImportReport:
    """Bring in everything below a folder, or one file; a second run does only what is left."""
    try:
        root = root.expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise FileMissing(f"{root}: {error}", path=str(root)) from error
    parsers = Parsers()
    try:
        run = _Run(store, root, work, wanted, parsers)
        run.bring_in()
    finally:
        parsers.close()
    if embedder:
        for source in SOURCES:
            total = store.count(source)[1]

            def tell(done: int, total: int = total) -> None:
                work.report(Progress("embedding", done, total))

            embed_missing(store, source, embedder, 1 << 40, tell)
    return run.report


class _Run:
    """One import under way."""

    def __init__(
        self, store: KnowledgeStore, root: Path, work: Work, wanted: Source | None, parsers: Parsers
    ) -> None:
        self._store = store
        self._root = root
        self._work = work
        self._wanted = wanted
        self._parsers = parsers
        self._origin = str(root)
        self.report = ImportReport()
        self._known: dict[str, dict[tuple[Source, str], Entry]] = {}
        """File -> what was made of it before, by source and key."""
        for source in SOURCES:
            for path, entry in store.list_origin(source, self._origin).items():
                name, _, key = path.partition("#")
                self._known.setdefault(name, {})[source, key] = entry
        self._waiting: dict[Source, list[Entry]] = {}
        self._files = 0

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
        gone = {
            path: known
            for path, known in self._known.items()
            # what cannot be read just now is not gone
            if path not in present and not any(_is_below(path, each) for each in kept)
        }
        by_hash = {
            _content(entry): path for path, known in gone.items() for entry in known.values()
        }
        for at, one in enumerate(listed):
            self._work.report(Progress("importing", at, len(listed), one.path))
            self._take(one, gone, by_hash)
        self._flush()
        for known in gone.values():
            self._remove(known)
        self._work.report(Progress("importing", len(listed), len(listed)))

    def _take(
        self,
        one: Listed,
        gone: dict[str, dict[tuple[Source, str], Entry]],
        by_hash: Mapping[str, str],
    ) -> None:
        known = self._known.get(one.path, {})
        stamp = f":{one.size}:{one.mtime_ns}"
        if known and all(entry.hash.endswith(stamp) for entry in known.values()):
            self.report.unchanged += len(known)
            return
        data = read_document(self._root, one.path, MOST_BYTES)
        if isinstance(data, Skipped):
            self.report.skip(data.path, data.reason, data.detail)
            return
        digest = hashlib.sha256(data).hexdigest()
        if known and all(_content(entry) == digest for entry in known.values()):
            self.report.unchanged += len(known)
            return
        moved = by_hash.get(digest, "") if not known else ""
        known = gone.pop(moved, known)
        try:
            file = File(one.path, data, one.mtime_ns // 1_000_000)
            made = self._parsers.parse(file, self._wanted)
        except Refused as error:
            self.report.skip(one.path, error.reason, error.detail)
            return
        marked = [replace(each, hash=digest + stamp) for each in made]
        self._put(one.path, known, marked, moved=bool(moved and known))

    def _put(
        self,
        path: str,
        known: Mapping[tuple[Source, str], Entry],
        made: Iterable[Entry],
        *,
        moved: bool,
    ) -> None:
        left = dict(known)
        pieces = 0
        for entry in made:
            old = left.pop((entry.source, entry.path), None)
            place = f"{path}#{entry.path}" if entry.path else path
            entry = replace(entry, origin=self._origin, path=place)
            entry = self._find_character(entry)
            if old:
                entry = replace(entry, id=old.id, version=old.version + (not moved))
                self.report.moved += moved
                self.report.updated += not moved
            else:
                self.report.added += 1
            self._waiting.setdefault(entry.source, []).append(entry)
            pieces += len(entry.pieces)
        self._remove(left)
        self._files += 1
        if self._files >= _BATCH_FILES or pieces >= _BATCH_PIECES:
            self._flush()

    def _find_character(self, entry: Entry) -> Entry:
        """A conversation with a character that is known by its name."""
        name = entry.facts.get("character_name") if entry.source == "chats" else None
        known = self._store.find_title("characters", str(name)) if name else None
        return replace(entry, character=known.id) if known else entry

    def _flush(self) -> None:
        for source, entries in self._waiting.items():
            self._store.put(source, entries)
        self._waiting, self._files = {}, 0

    def _remove(self, known: Mapping[tuple[Source, str], Entry]) -> None:
        for source in SOURCES:
            ids = [entry.id for (each, _), entry in known.items() if each == source]
            if ids:
                self.report.removed += self._store.remove(source, ids)


def _content(entry: Entry) -> str:
    return entry.hash.partition(":")[0]


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
