"""The admitted files of a project as they are now, looked at again with as few questions as can be.

The first look walks everything. After that a folder is listed again only when its own time has
changed, or an ignore file that holds in it; a file's size and time are asked every time. So a look
misses nothing that a walk would find, and costs one question for each file.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sonde.policy.admit import GIT_FILE, OWN_FILE, Scope, Source, compile_rules, open_scope
from sonde.policy.folder import Folder, open_folder
from sonde.policy.walk import ListedFile, judge_file, judge_name

_SETTLED_NS = 2_000_000_000
"""What changed so lately may change again without its time showing it."""

_Stamp = tuple[int, ...]


@dataclass(slots=True)
class _Known:
    """A folder as it was when it was listed last."""

    path: str
    """Below the root, with a slash at the end; empty for the root itself."""
    above: Scope | None = None
    scope: Scope | None = None
    stamp: _Stamp | None = None
    """None when it is to be listed again in any case."""
    ignore_files: dict[str, _Stamp] = field(default_factory=dict)
    files: dict[str, _Stamp] = field(default_factory=dict)
    """Where it is -> what it was like; also files that are too large, which may shrink."""
    folders: tuple[str, ...] = ()


class Census:
    """All files of one project, whichever folders they lie in."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._counts = [_Count(source) for source in sources]
        self._prefixes = [source.prefix for source in sources]
        self._guard = threading.Lock()
        self._entries: dict[str, ListedFile] = {}
        self.version = 0
        """Grows with every change that a look finds."""

    def look(self) -> Mapping[str, ListedFile]:
        """Every admitted file by its path, in order; what is returned never changes."""
        with self._guard:
            changed = [count.look() for count in self._counts]
            if any(changed) or not self.version:
                self._entries = self._merge()
                self.version += 1
            return self._entries

    def _merge(self) -> dict[str, ListedFile]:
        merged: dict[str, ListedFile] = {}
        for prefix, count in zip(self._prefixes, self._counts, strict=True):
            # what lies under a root inside this one comes from there, once
            nested = tuple(p for p in self._prefixes if p != prefix and p.startswith(prefix))
            for path, entry in count.entries.items():
                named = prefix + path
                if not (nested and named.startswith(nested)):
                    merged[named] = entry._replace(path=named) if prefix else entry
        return dict(sorted(merged.items()))


class _Count:
    """The files of one folder and all below it."""

    def __init__(self, source: Source) -> None:
        self._root = source.root
        self._rules = source.rules
        self._gate = compile_rules(source.rules)
        self._base = f"{source.root.resolve()}{os.sep}"
        self._known: dict[str, _Known] = {"": _Known("")}
        self._listed: set[str] = set()
        """Folders that were listed during this look."""
        self.entries: dict[str, ListedFile] = {}

    def look(self) -> bool:
        """Bring `entries` up to date; whether anything has changed."""
        changed = self._find_root()
        self._listed = set[str]()
        waiting = [""]
        while waiting:
            path = waiting.pop()
            known = self._known[path]
            if path not in self._listed:
                moved = self._ask_files(known) if self._is_listed(known) else None
                if moved is None:
                    moved = self._list_at(known)
                changed = changed or moved
            waiting += known.folders
        return changed

    def _find_root(self) -> bool:
        """See that the root is where it was; it is the one place where a link is followed."""
        base = f"{self._root.resolve()}{os.sep}"
        if base == self._base:
            return False
        self._base, self._known, self.entries = base, {"": _Known("")}, {}
        return True

    def _is_listed(self, known: _Known) -> bool:
        """Whether the same names are in a folder as when it was listed."""
        if known.stamp is None:
            return False
        full = self._base + known.path
        try:
            if _stamp_folder(os.lstat(full)) != known.stamp:
                return False
            return all(
                _stamp_file(os.lstat(full + name)) == stamp
                for name, stamp in known.ignore_files.items()
            )
        except OSError:
            return False

    def _ask_files(self, known: _Known) -> bool | None:
        """Whether any file has changed; None when one is no longer what it was at all."""
        look_at, base, changed = os.lstat, self._base, False
        for path, stamp in known.files.items():
            try:
                facts = look_at(base + path)
            except OSError:
                return None
            if (facts.st_size, facts.st_mtime_ns, facts.st_nlink, facts.st_mode) != stamp:
                known.files[path] = _stamp_file(facts)
                self._judge(path, facts)
                changed = True
        return changed

    def _judge(self, path: str, facts: os.stat_result) -> None:
        verdict = judge_file(path, facts, self._gate)
        if isinstance(verdict, ListedFile) and stat.S_ISREG(facts.st_mode):
            self.entries[path] = verdict
        else:
            self.entries.pop(path, None)

    def _list_at(self, known: _Known) -> bool:
        """List a folder anew; whether its files or those below have changed."""
        try:
            with open_folder(self._root, known.path.split("/")[:-1]) as folder:
                return self._list(known, folder)
        except OSError:
            return self._leave(known)

    def _leave(self, known: _Known) -> bool:
        """A folder that cannot be read has no files, as far as anyone can tell."""
        had = self._known.get(known.path) is known and self._forget(known.path)
        known.stamp, known.files, known.folders = None, {}, ()
        self._known[known.path] = known
        return had

    def _list(self, known: _Known, folder: Folder) -> bool:
        self._listed.add(known.path)
        before = {path: self.entries.pop(path, None) for path in known.files}
        children = set(known.folders)
        began = time.time_ns()
        stamp = _stamp_folder(folder.look_at("."))
        new = self._read(known, folder)
        # a change in the same moment would not show in the folder's time
        known.stamp = stamp if began - stamp[2] > _SETTLED_NS else None
        changed = before != {path: self.entries.get(path) for path in known.files}
        for path in children - set(known.folders):
            changed = self._forget(path) or changed
        for child in new:
            try:
                with folder.enter(child.path.split("/")[-2]) as inner:
                    changed = self._list(child, inner) or changed
            except OSError:
                changed = self._leave(child) or changed
        return changed

    def _read(self, known: _Known, folder: Folder) -> list[_Known]:
        """Judge what is in a folder; the folders in it that are to be listed as well."""
        rules = self._rules
        entries = folder.scan()
        names = {entry.name for entry in entries} & {OWN_FILE, GIT_FILE}
        known.ignore_files = {name: _stamp_file(folder.look_at(name)) for name in names}
        known.scope = known.above
        if names:
            known.scope = open_scope(
                known.above,
                folder,
                known.path[:-1],
                git=rules.respect_gitignore,
                fold_case=rules.folds_case,
            )
        known.files, folders = {}, []
        for entry in entries:
            path = known.path + entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    if judge_name(path, entry.name, "folder", self._gate, known.scope) is None:
                        folders.append(f"{path}/")
                    continue
                kind = "file" if entry.is_file(follow_symlinks=False) else "special"
                if judge_name(path, entry.name, kind, self._gate, known.scope) is None:
                    facts = entry.stat(follow_symlinks=False)
                    known.files[path] = _stamp_file(facts)
                    self._judge(path, facts)
            except OSError:
                continue
        known.folders = tuple(folders)
        return [child for path in folders if (child := self._meet(path, known.scope))]

    def _meet(self, path: str, scope: Scope | None) -> _Known | None:
        """A folder that is new, or that other ignore files hold in than before."""
        child = self._known.get(path)
        if child and child.above == scope:
            return None
        child = self._known.setdefault(path, _Known(path))
        child.above = scope
        return child

    def _forget(self, path: str) -> bool:
        known = self._known.pop(path, None)
        if known is None:
            return False
        for file in known.files:
            self.entries.pop(file, None)
        had = bool(known.files)
        for folder in known.folders:
            had = self._forget(folder) or had
        return had


def _stamp_folder(facts: os.stat_result) -> _Stamp:
    return facts.st_ino, facts.st_dev, facts.st_mtime_ns, facts.st_ctime_ns


def _stamp_file(facts: os.stat_result) -> _Stamp:
    return facts.st_size, facts.st_mtime_ns, facts.st_nlink, facts.st_mode
