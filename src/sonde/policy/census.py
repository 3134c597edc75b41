"""The current admitted files of a project, found again with as few system calls as possible.

The first look walks everything. After that, a folder is listed again only if its own time changed
or an ignore file that applies in it; every file's metadata are read each time. So a look
finds everything that a walk would, for one system call per file. From the second look on, where
the system notes every change, only the folders with a note are looked at; now and then all of them.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import TypeVar

from sonde.policy.admit import Source, compile_rules
from sonde.policy.changes import GitRules
from sonde.policy.folder_events import FolderEvents, open_events
from sonde.policy.git import GIT_FOLDER, read_git_rules
from sonde.policy.ignore import GIT_FILE, OWN_FILE, Scope
from sonde.policy.roots import Folder, open_folder, skip_unreadable
from sonde.policy.walk import (
    is_second_spelling,
    judge_file,
    judge_name,
    name_entry_kind,
    open_folder_scope,
)
from sonde.text.globs import compose
from sonde.types import ListedFile, Skipped

F = TypeVar("F")

_SETTLE_NS = 2_000_000_000
"""A folder that changed less than this ago may change again without a new time: file systems
store times as coarsely as two seconds."""
_WHOLE_S = 30.0  # between two looks at everything, for what the system notes nowhere

_Stamp = tuple[int, ...]


@dataclass(slots=True)
class _Known:
    """The state of a folder at its last listing."""

    path: str
    """Relative to the root, with a slash at the end; empty for the root itself."""
    above: Scope | None = None
    scope: Scope | None = None
    stamp: _Stamp | None = None
    """None if it must be listed again in any case."""
    ignore_files: dict[str, _Stamp] = field(default_factory=dict)
    git: GitRules | None = None
    """The rules of the repository that begins here; for the root, of the one it is in."""
    files: dict[str, _Stamp] = field(default_factory=dict)
    """Path -> stamp; includes files that are too large, which may shrink."""
    folders: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """Files and folders in it whose names are not admitted."""
    inode: int = 0
    watched: bool = False
    """Whether every change in it is noted."""

    def list_names(self) -> Iterator[str]:
        """Everything in it."""
        return chain(self.files, self.refused, (path[:-1] for path in self.folders))


class Census:
    """All files of one project, from all of its sources."""

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        settle_ns: int = _SETTLE_NS,
        whole_s: float = _WHOLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counts = [_Count(source, settle_ns, whole_s, clock) for source in sources]
        self._prefixes = [source.prefix for source in sources]
        self._guard = threading.Lock()
        self._entries: dict[str, ListedFile] = {}
        self.version = 0
        """Increases with every change that a look finds."""

    def look(self) -> Mapping[str, ListedFile]:
        """Every admitted file by its path, in order. The returned mapping never changes."""
        with self._guard:
            changed = [count.look() for count in self._counts]
            if any(changed) or not self.version:
                found = [
                    entry._replace(path=prefix + entry.path) if prefix else entry
                    for prefix, entry in self._merge([each.entries for each in self._counts])
                ]
                self._entries = {entry.path: entry for entry in sorted(found)}
                self.version += 1
            return self._entries

    def confirm(self, paths: Collection[str]) -> dict[str, ListedFile]:
        """Files that are as the last look found them, as are the ignore files that apply to them,
        of a project with one source; checking them takes ten times as long."""
        with self._guard:
            same = self._counts[0].confirm(paths) if self._prefixes == [""] else ()
            return {path: self._entries[path] for path in same if path in self._entries}

    def list_skipped(self) -> list[Skipped]:
        """The files and folders that the last look skipped; a skipped folder counts as one."""
        with self._guard:
            return [
                replace(found, path=prefix + found.path) if prefix else found
                for prefix, found in self._merge([each.skipped for each in self._counts])
            ]

    def _merge(self, counts: Sequence[Mapping[str, F]]) -> Iterator[tuple[str, F]]:
        for prefix, found in zip(self._prefixes, counts, strict=True):
            # files below a nested root come from that root, once
            nested = tuple(p for p in self._prefixes if p != prefix and p.startswith(prefix))
            for path, each in found.items():
                if not (nested and (prefix + path).startswith(nested)):
                    yield prefix, each


class _Count:
    """The files of one source."""

    def __init__(
        self, source: Source, settle_ns: int, whole_s: float, clock: Callable[[], float]
    ) -> None:
        self._settle_ns, self._whole_s, self._clock = settle_ns, whole_s, clock
        self._root = source.root
        self._rules = source.rules
        self._gate = compile_rules(source.rules)
        self._base = f"{source.root.resolve()}{os.sep}"
        self._known: dict[str, _Known] = {"": _Known("")}
        self._listed: set[str] = set()
        """Folders listed during this look."""
        self._events: FolderEvents | None = None
        self._whole_at: float | None = None
        """When everything was looked at last; since then, every change is noted."""
        self._linked: dict[str, bool] = {}
        """Files with several names, and whether what happens under others is noted, too."""
        self._met_linked = False
        """Whether this look met one that is new or changed: another name of it may be known."""
        self.entries: dict[str, ListedFile] = {}
        self.skipped: dict[str, Skipped] = {}

    def look(self) -> bool:
        """Update `entries`; whether anything changed."""
        changed, now = False, self._clock()
        base = f"{self._root.resolve()}{os.sep}"
        if base != self._base:
            # the root, the one place where a link is followed, leads elsewhere now: start over
            self._base, self._known, changed = base, {"": _Known("")}, True
            self.entries, self.skipped = {}, {}
            self._events = self._whole_at = None
        touched, whole_at = self._take_touched(now), self._whole_at
        self._whole_at = None  # should this look fail, the next one begins again
        self._listed = set[str]()
        self._met_linked = False
        changed |= self._look_at([""] if touched is None else touched, below=touched is None)
        if touched is not None and self._met_linked:
            touched, more = None, self._look_at([""], below=True)
            changed |= more
        self._whole_at = now if touched is None else whole_at
        return changed

    def confirm(self, paths: Collection[str]) -> Iterator[str]:
        """The given files that have not changed since the last look, nor any folder above them."""

        @cache
        def is_listed(folder: str) -> bool:
            known, above = self._known.get(folder), folder[: folder.rfind("/", 0, -1) + 1]
            return known is not None and self._is_listed(known) and (not folder or is_listed(above))

        for path in paths if f"{self._root.resolve()}{os.sep}" == self._base else ():
            if is_listed(folder := _folder_of(path)):
                with suppress(OSError):
                    stamp = _stamp_file(os.lstat(self._base + path))
                    if self._known[folder].files.get(path) == stamp:
                        yield path

    def _take_touched(self, now: float) -> list[str] | None:
        """The folders to look at; None for all."""
        if self._events is None:
            if self._whole_at is not None and (events := open_events(self._root, len(self._known))):
                for known in self._known.values():
                    known.watched = events.watch(known.path, self._base + known.path)
                self._events = events
                for path in self._linked:
                    self._watch_file(path)
            return None
        touched = self._events.take()
        if touched is None or self._whole_at is None or now - self._whole_at > self._whole_s:
            return None
        touched |= {_folder_of(path) for path, noted in self._linked.items() if not noted}
        unsure = [p for p, known in self._known.items() if known.git or not known.watched]
        return ["", *touched, *unsure]

    def _look_at(self, waiting: list[str], *, below: bool) -> bool:
        """Look at folders and, with `below`, at everything in them; whether anything changed."""
        changed = False
        while waiting:
            path = waiting.pop()
            known = self._known.get(path)
            if known is None:
                continue
            inode = known.inode
            if path not in self._listed:
                moved = self._check_files(known) if self._is_listed(known) else None
                if moved is None:
                    try:
                        names = path.split("/")[:-1]
                        with open_folder(self._root, names, same_system=True) as folder:
                            moved = self._list(known, folder)
                    except OSError as error:
                        moved = self._leave(known, error)
                changed = changed or moved
            # another folder of this name: what is noted of those in it was noted elsewhere
            waiting += known.folders if below or known.inode != inode else ()
        return changed

    def _is_listed(self, known: _Known) -> bool:
        """Whether a folder has the same names and ignore files as when it was listed."""
        if known.stamp is None:
            return False
        full = self._base + known.path
        try:
            if _stamp_folder(os.lstat(full)) != known.stamp:
                return False
            if (known.git or not known.path) and known.git != self._read_git(known):
                return False
            rules = known.ignore_files.items()
            return all(_stamp_file(os.lstat(full + name)) == stamp for name, stamp in rules)
        except OSError:
            return False

    def _check_files(self, known: _Known) -> bool | None:
        """Whether any file changed; None if one was deleted."""
        look_at, base, changed = os.lstat, self._base, False
        for path, stamp in known.files.items():
            try:
                if _stamp_file(facts := look_at(base + path)) != stamp:
                    self._judge(known, path, facts)
                    changed = True
            except OSError:
                return None
        return changed

    def _watch_file(self, path: str) -> None:
        folder, place = _folder_of(path), self._base + path
        self._linked[path] = bool(self._events and self._events.watch(folder, place, file=True))

    def _judge(self, known: _Known, path: str, facts: os.stat_result) -> None:
        if facts.st_nlink > 1:
            self._watch_file(path)
            self._met_linked = True
            if self._linked[path]:  # it may have changed before it was watched
                facts = os.lstat(self._base + path)
        known.files[path] = _stamp_file(facts)
        verdict = judge_file(path, facts, self._gate)
        if not stat.S_ISREG(facts.st_mode):
            verdict = Skipped(path, "special")
        self._drop((path,))
        if isinstance(verdict, ListedFile):
            self.entries[path] = verdict
        else:
            self.skipped[path] = verdict

    def _drop(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.entries.pop(path, None)
            self.skipped.pop(path, None)

    def _leave(self, known: _Known, error: OSError) -> bool:
        """Treat a folder that cannot be read as empty; whether it had files."""
        had = self._known.get(known.path) is known and self._forget(known.path)
        known.stamp, known.files, known.folders, known.watched = None, {}, (), False
        known.refused = ()
        self.skipped[known.path[:-1]] = skip_unreadable(known.path[:-1], error)
        self._known[known.path] = known
        return had

    def _list(self, known: _Known, folder: Folder) -> bool:
        """List a folder again; whether files in or below it changed."""
        self._listed.add(known.path)
        if self._events:  # before it is listed, so that nothing in between is missed
            known.watched = self._events.watch(known.path, self._base + known.path)
        before = {path: self.entries.get(path) for path in known.files}
        self._drop((known.path[:-1], *known.list_names()))
        children = set(known.folders)
        began = time.time_ns()
        stamp = _stamp_folder(folder.look_at("."))
        known.inode = stamp[0]
        new = self._read(known, folder)
        # a change within the resolution of the clock would not change the folder's time
        known.stamp = stamp if began - stamp[2] > self._settle_ns else None
        changed = before != {path: self.entries.get(path) for path in known.files}
        for path in children - set(known.folders):
            changed = self._forget(path) or changed
        for child in new:
            try:
                name = folder.spell(child.path.split("/")[-2])
                with folder.enter(name, same_system=True) as inner:
                    changed = self._list(child, inner) or changed
            except OSError as error:
                changed = self._leave(child, error) or changed
        return changed

    def _read(self, known: _Known, folder: Folder) -> list[_Known]:
        """Judge the entries of a folder; returns the folders in it that must be listed too."""
        entries = folder.scan()
        found = {entry.name for entry in entries}
        names = found & {OWN_FILE, GIT_FILE}
        known.ignore_files = {name: _stamp_file(folder.look_at(name)) for name in names}
        known.git = self._read_git(known) if GIT_FOLDER in found or not known.path else None
        known.scope = known.above.enter(known.path[:-1]) if known.above else None
        if names or known.git:
            known.scope = open_folder_scope(
                known.above, known.path[:-1], self._rules, folder, known.git
            )
        known.files, folders, refused = {}, [], []
        for entry in entries:
            path = known.path + compose(entry.name)
            try:
                if is_second_spelling(folder, entry):
                    continue
                kind = name_entry_kind(entry)
                if verdict := judge_name(path, entry.name, kind, self._gate, known.scope):
                    self.skipped[path] = verdict
                    refused.append(path)
                elif kind == "folder":
                    folders.append(f"{path}/")
                else:
                    self._judge(known, path, entry.stat(follow_symlinks=False))
            except OSError:
                continue
        known.folders, known.refused = tuple(folders), tuple(refused)
        changed = []
        for path in folders:
            child = self._known.get(path)
            if child is None or child.above != known.scope:  # new, or under other ignore files
                child = self._known.setdefault(path, _Known(path))
                child.above = known.scope
                changed.append(child)
        return changed

    def _read_git(self, known: _Known) -> GitRules | None:
        return read_git_rules(self._root / known.path, around=not known.path)

    def _forget(self, path: str) -> bool:
        known = self._known.pop(path, None)
        if known is None:
            return False
        self._drop(known.list_names())
        had = bool(known.files)
        for folder in known.folders:
            had = self._forget(folder) or had
        return had


def _folder_of(path: str) -> str:
    return path[: path.rfind("/") + 1]


def _stamp_folder(facts: os.stat_result) -> _Stamp:
    return facts.st_ino, facts.st_dev, facts.st_mtime_ns, facts.st_ctime_ns


def _stamp_file(facts: os.stat_result) -> _Stamp:
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino
