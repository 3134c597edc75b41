"""Reconciliation of an import with the store: which entries are new, changed, moved or gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sonde.knowledge.formats import LEFT_OUT
from sonde.knowledge.identity import KEY_MARK, Known, Mark, Pool, are_alike, is_certain
from sonde.stores.knowledge.base import SOURCES, Entry, KnowledgeStore, Source

EDITED = "edited"
"""The fact that lists what a user edited of an entry: title, text, tags."""
PART = "*"  # stands for the number of entries while a file is read in parts
MAX_COMPARED = 50  # removed files whose text is compared with a file that may be one of them
BATCH_FILES, BATCH_PIECES = 50, 2_000
"""Limits of one transaction: large enough to be fast, small enough to lose little."""


@dataclass(slots=True)
class Reconciler:
    """The entries of one origin before and after an import."""

    store: KnowledgeStore
    origin: str
    is_part: bool = False
    """Whether this is a part of the origin, so that missing files are in other parts."""
    counts: Counter[str] = field(default_factory=Counter)
    """Entries added, updated, moved, removed, unchanged, copied, and deleted by the user."""
    left_out: Counter[str] = field(default_factory=Counter)
    known: dict[str, list[Known]] = field(default_factory=dict)
    """The entries that earlier imports made, by file."""
    kept: set[str] = field(default_factory=set)
    """Files that cannot be read now, whose entries stay."""
    streamed: dict[str, Mark] = field(default_factory=dict)
    """Files that were read in parts, with their marks."""
    _pool: Pool = field(default_factory=Pool)
    _gone: set[str] = field(default_factory=set)
    _pending: set[str] = field(default_factory=set)
    """Changed files still to be read; their entries may still be in them."""
    _held: list[tuple[str, str, Entry]] = field(default_factory=list)
    """New entries that may have moved out of pending files: file, key and content."""
    _waiting: dict[Source, list[Entry]] = field(default_factory=dict)
    _stamps: dict[Source, dict[str, tuple[str, str]]] = field(default_factory=dict)
    """New places and marks of unchanged entries, by id."""
    _files: int = 0
    _pieces: int = 0

    def compare(self, stamps: Mapping[str, tuple[str, str]], unread: Collection[str]) -> None:
        """Load the known entries, and note which files changed or are gone.

        `stamps` has size and stamp of each present file, `unread` the paths of files and folders
        that cannot be read now.
        """
        self._recall()
        for path, known in self.known.items():
            if path in stamps:
                if not is_whole(known) or known[0].mark[1:3] != stamps[path]:
                    self._pending.add(path)
                    self._pool.add(known)
            elif self.is_part or any(f"{path}/".startswith(f"{each}/") for each in unread):
                self.kept.add(path)
            else:
                self._gone.add(path)
                self._pool.add(known)

    def finish_file(self, path: str) -> None:
        """Mark a file as processed; writes a batch when it is full."""
        self._pending.discard(path)
        self._files += 1
        if self._files >= BATCH_FILES:
            self._flush()

    def finish(self) -> None:
        """Store the entries that were held back, and remove those whose file has none left."""
        for path, key, entry in self._held:
            self._put(path, key, entry, self._find_moved(path, entry))
        self._flush()
        self._remove_gone()
        self._finish_streamed()

    def _recall(self) -> None:
        for source in SOURCES:
            buried: set[str] = set()
            for (origin, path), text in self.store.list_buried(source).items():
                if origin == self.origin:
                    buried.add(path)
                    self._know(source, path, text, None)
            stored = self.store.list_origin(source, self.origin)
            # left by a crash between recording a deletion and doing it
            cut = [entry.id for path, entry in stored.items() if path in buried]
            self.counts["removed"] += self.store.remove(source, cut) if cut else 0
            for path, entry in stored.items():
                if path not in buried:
                    self._know(source, path, entry.hash, entry)

    def _know(self, source: Source, path: str, text: str, entry: Entry | None) -> None:
        name, _, key = path.partition(KEY_MARK)
        self.known.setdefault(name, []).append(Known(source, name, key, Mark.read(text), entry))

    def settle(self, path: str, key: str, entry: Entry, old: Known | None) -> None:
        """Store an entry, or hold it back until the files are read that it may have moved from."""
        if old is None:
            others = self._pool.find(path, entry)
            if any(each.file in self._pending and is_certain(each, path, entry) for each in others):
                self._held.append((path, key, entry))
                return
            old = self._find_moved(path, entry)
        self._put(path, key, entry, old)

    def _find_moved(self, path: str, entry: Entry) -> Known | None:
        """The known entry of another file that is this one."""
        found = [each for each in self._pool.find(path, entry) if each.file not in self.kept]
        for each in found:
            if each.file not in self._pending and is_certain(each, path, entry):
                return each
        for each in [each for each in found if each.file in self._gone][:MAX_COMPARED]:
            whole = each.entry and self.store.get(each.source, each.entry.id)
            if whole and are_alike(whole, entry):
                return each
        return None

    def _put(self, path: str, key: str, entry: Entry, known: Known | None) -> None:
        place = _place(path, key)
        self.left_out.update(entry.facts.get(LEFT_OUT) or {})
        entry = replace(self._link(entry), origin=self.origin, path=place)
        if known:
            self._pool.claim(known)
        if known and known.entry is None:
            self.store.unbury(known.source, [(self.origin, _place(known.file, known.key))])
            self.store.bury(entry.source, {(self.origin, place): entry.hash})
            self.counts["deleted"] += 1
            return
        if known is None or known.entry is None:
            self.counts["added"] += 1
        else:
            old, mark = known.entry, Mark.read(entry.hash)
            same = mark.text == known.mark.text or mark.file == known.mark.file
            moved = path != known.file and same
            made = self._keep_edits(old, replace(entry, id=old.id, version=old.version), same=same)
            if mark.text == known.mark.text and _list_head(made) == _list_head(old):
                self.counts["moved" if moved else "unchanged"] += 1
                self._stamps.setdefault(entry.source, {})[old.id] = place, entry.hash
                return
            self.counts["moved" if moved else "updated"] += 1
            entry = replace(made, version=old.version + (not moved))
        self._waiting.setdefault(entry.source, []).append(entry)
        self._pieces += len(entry.pieces)
        if self._pieces >= BATCH_PIECES:
            self._flush()

    def pass_over(self, known: Sequence[Known], mark: Mark | None = None) -> None:
        """Keep the entries of an unchanged file; with the mark of a file that was written again."""
        for each in known:
            self._pool.claim(each)
            self.counts["unchanged" if each.entry else "deleted"] += 1
            if mark and each.entry:
                new = mark._replace(entries=each.mark.entries).with_text(each.entry.hash)
                self._stamps.setdefault(each.source, {})[each.entry.id] = each.entry.path, new

    def _keep_edits(self, old: Entry, new: Entry, *, same: bool) -> Entry:
        """The new entry with the user's edits. If a text changed both here and in its file, the
        file's replaces it and the user's becomes a separate entry."""
        edited = [str(name) for name in old.facts.get(EDITED) or ()]
        if not edited:
            return new
        if "title" in edited:
            new = replace(new, title=old.title)
        if "tags" in edited:
            new = replace(new, tags=old.tags)
        if "text" in edited and (whole := self.store.get(old.source, old.id)):
            if same:
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
                self.counts["copied"] += 1
        return replace(new, facts={**new.facts, EDITED: edited} if edited else new.facts)

    def _link(self, entry: Entry) -> Entry:
        """The conversation with a link to its character, if that is stored."""
        name = entry.facts.get("character_name") if entry.source == "chats" else None
        known = self.store.find_title("characters", str(name)) if name else None
        return replace(entry, character=known.id) if known else entry

    def _flush(self) -> None:
        for source, entries in self._waiting.items():
            self.store.put(source, entries)
        for source, stamps in self._stamps.items():
            self.store.restamp(source, stamps)
        self._waiting, self._stamps, self._files, self._pieces = {}, {}, 0, 0

    def _remove_gone(self) -> None:
        for path, known in self.known.items():
            left = [each for each in known if path not in self.kept and self._pool.is_left(each)]
            for source in {each.source for each in left}:
                ours = [each for each in left if each.source == source]
                ids = [each.entry.id for each in ours if each.entry]
                self.counts["removed"] += self.store.remove(source, ids) if ids else 0
                places = [_place(path, each.key) for each in ours if not each.entry]
                self.store.unbury(source, [(self.origin, place) for place in places])

    def _finish_streamed(self) -> None:
        """Write the final marks of files that were read in parts."""
        for path, mark in self.streamed.items():
            start = path + KEY_MARK
            for source in SOURCES:
                marks = self.store.list_marks(source, self.origin)
                stored = {place: marks[place] for place in marks if place.startswith(start)}
                buried = {at: text for at, text in self.store.list_buried(source).items()
                          if at[0] == self.origin and at[1].startswith(start)}  # fmt: skip
                whole = mark._replace(entries=str(len(stored) + len(buried)))
                stamps = {id_: (place, whole.with_text(text))
                          for place, (id_, text) in stored.items()}  # fmt: skip
                self.store.restamp(source, stamps)
                self.store.bury(source, {at: whole.with_text(text) for at, text in buried.items()})


def _list_head(entry: Entry) -> list[object]:
    """The fields of an entry that its content sets; times may be those of the file."""
    return [entry.title, entry.tags, entry.media_type, entry.url, entry.character, entry.facts]


def _place(path: str, key: str) -> str:
    return f"{path}{KEY_MARK}{key}" if key else path


def is_whole(known: Sequence[Known]) -> bool:
    """Whether all entries of a file were stored; a crash may come between two sources."""
    counts = {each.mark.entries for each in known}
    return counts == {str(len(known))} and len({each.mark.file for each in known}) == 1
