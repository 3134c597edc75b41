"""The files of a project that may be indexed, and why each other file may not.

`walk_files` and `check_path` apply the same checks in the same order, so they agree: both admit a
path or both skip it, for the same reason.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from sonde.policy.admit import (
    GIT_FILE,
    OWN_FILE,
    Gate,
    Rules,
    Scope,
    compile_rules,
    has_binary_suffix,
    open_scope,
)
from sonde.policy.roots import (
    Folder,
    clamp_mtime,
    open_root,
    show_path,
    skip_unreadable,
    split_inside,
)
from sonde.types import Skipped


class ListedFile(NamedTuple):
    """A file that may be indexed; `path` is relative to the root, with slashes."""

    path: str
    size: int
    mtime_ns: int


class _Level(NamedTuple):
    """A folder on the path of a walk."""

    folder: Folder
    prefix: str
    scope: Scope | None
    entries: Iterator[os.DirEntry[str]]


def walk_files(root: Path, rules: Rules, under: str = "") -> Iterator[ListedFile | Skipped]:
    """Every file below the root in the order of names, admitted or skipped with a reason.

    A skipped folder is one `Skipped` for everything in it. Links are never followed. A repository
    inside the project is part of it, without its `.git`. `under` restricts the walk to a folder;
    a folder that is skipped has no files.
    """
    for found in _walk(root, rules, under):
        if not isinstance(found, str):
            yield found


def walk_folders(root: Path, rules: Rules) -> Iterator[str]:
    """Every folder that may contain admitted files; the root first, as an empty name."""
    for found in _walk(root, rules, ""):
        if isinstance(found, str):
            yield found


def _walk(root: Path, rules: Rules, under: str) -> Iterator[ListedFile | Skipped | str]:
    """Files as `walk_files` yields them, preceded by the path of their folder."""
    gate = compile_rules(rules)
    first = _open_under(root, under, gate)
    levels = [first] if first else []
    try:
        if first:
            yield first.prefix[:-1]
        while levels:
            folder, prefix, scope, entries = levels[-1]
            for entry in entries:
                found = _judge_entry(entry, prefix + entry.name, gate, scope)
                if found is not None:
                    yield found
                    continue
                try:
                    inner = folder.enter(entry.name)
                except OSError as error:
                    yield skip_unreadable(prefix + entry.name, error)
                    continue
                try:
                    levels.append(_open_level(inner, f"{prefix}{entry.name}/", scope, rules))
                except OSError as error:
                    inner.close()
                    yield skip_unreadable(prefix + entry.name, error)
                    continue
                yield prefix + entry.name
                break
            else:
                levels.pop().folder.close()
    finally:
        for level in levels:
            level.folder.close()


def _open_under(root: Path, under: str, gate: Gate) -> _Level | None:
    """The folder to start in, if the walk from the root would reach it."""
    scope: Scope | None = None
    prefix = ""
    names = split_inside(root, under)
    folder = open_root(root)
    try:
        for name in names:
            scope = _read_scope(folder, prefix[:-1], scope, gate.rules)
            kind = name_mode_kind(folder.look_at(name).st_mode)
            if kind != "folder" or judge_name(prefix + name, name, kind, gate, scope):
                folder.close()
                return None
            inner = folder.enter(name)
            folder.close()
            folder, prefix = inner, f"{prefix}{name}/"
        return _open_level(folder, prefix, scope, gate.rules)
    except OSError:
        folder.close()
        if under:
            return None
        raise


def check_path(root: Path, path: str, rules: Rules) -> ListedFile | Skipped:
    """The verdict of the walk on one path; raises `OutsideRoots` if it is not below the root."""
    with Checker(root, rules) as checker:
        return checker.check(path)


class Checker:
    """The verdict of the walk on single paths, best in their order: folders stay open for the next
    path. Use it in a `with`, and only for a moment."""

    def __init__(self, root: Path, rules: Rules) -> None:
        self._root = root
        self._gate = compile_rules(rules)
        self._names: list[str] = []
        """Names on the way to the innermost open folder."""
        self._open: list[tuple[Folder, Scope | None]] = []

    def check(self, path: str) -> ListedFile | Skipped:
        """The verdict on one path; raises `OutsideRoots` if it is not below the root."""
        names = split_inside(self._root, path)
        if not names:
            return Skipped(".", "folder")
        relative = "/".join(names)
        try:
            if not self._open:
                self._push(open_root(self._root), None)
            self._leave(names)
            return self._descend(names, relative)
        except OSError as error:
            return skip_unreadable(show_path(relative), error)

    def _descend(self, names: tuple[str, ...], relative: str) -> ListedFile | Skipped:
        for index in range(len(self._names), len(names)):
            folder, scope = self._open[-1]
            name, at = names[index], "/".join(names[: index + 1])
            facts = folder.look_at(name)
            found = judge_name(at, name, name_mode_kind(facts.st_mode), self._gate, scope)
            if found is not None:
                return Skipped(show_path(relative), found.reason, found.detail)
            if not stat.S_ISDIR(facts.st_mode):
                last = index == len(names) - 1
                return judge_file(at, facts, self._gate) if last else Skipped(relative, "missing")
            inner = folder.enter(name)
            self._names.append(name)
            self._push(inner, scope)
        self._open[-1][0].scan()
        return Skipped(relative, "folder")

    def _push(self, folder: Folder, above: Scope | None) -> None:
        scope = _read_scope(folder, "/".join(self._names), above, self._gate.rules)
        self._open.append((folder, scope))

    def _leave(self, names: tuple[str, ...]) -> None:
        """Close folders that are not on the way to these names."""
        shared = 0
        while shared < len(self._names) and self._names[: shared + 1] == list(names[: shared + 1]):
            shared += 1
        while len(self._names) > shared:
            self._names.pop()
            self._open.pop()[0].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        while self._open:
            self._open.pop()[0].close()


def _open_level(folder: Folder, prefix: str, scope: Scope | None, rules: Rules) -> _Level:
    entries = folder.scan()
    names = {entry.name for entry in entries}
    if OWN_FILE in names or GIT_FILE in names:
        scope = _read_scope(folder, prefix[:-1], scope, rules)
    return _Level(folder, prefix, scope, iter(entries))


def _read_scope(folder: Folder, path: str, above: Scope | None, rules: Rules) -> Scope | None:
    return open_scope(above, folder, path, git=rules.respect_gitignore, fold_case=rules.folds_case)


def _judge_entry(
    entry: os.DirEntry[str], path: str, gate: Gate, scope: Scope | None
) -> ListedFile | Skipped | None:
    """The verdict on an entry; None for a folder to walk."""
    if entry.is_dir(follow_symlinks=False):
        return judge_name(path, entry.name, "folder", gate, scope)
    kind = "file"
    if not entry.is_file(follow_symlinks=False):
        kind = "symlink" if entry.is_symlink() else "special"
    found = judge_name(path, entry.name, kind, gate, scope)
    if found is not None:
        return found
    try:
        facts = entry.stat(follow_symlinks=False)
    except OSError as error:
        return skip_unreadable(path, error)
    return judge_file(path, facts, gate)


def judge_name(path: str, name: str, kind: str, gate: Gate, scope: Scope | None) -> Skipped | None:
    """Why a name or a kind of entry is skipped; None if it is not."""
    folder = kind == "folder"
    if show_path(name) != name:
        return Skipped(show_path(path), "bad_name")
    denial = gate.find_denial(name, folder=folder)
    if denial is not None:
        return Skipped(path, "denied", denial)
    if kind in ("symlink", "special"):
        return Skipped(path, kind)
    if folder and path.count("/") >= gate.rules.max_depth:
        return Skipped(path, "too_deep", f"more than {gate.rules.max_depth} folders deep")
    if gate.excludes(path, folder=folder):
        return Skipped(path, "excluded")
    if scope is not None and scope.ignores(path, folder=folder):
        return Skipped(path, "ignored")
    if not folder and has_binary_suffix(name):
        return Skipped(path, "binary")
    return None


def judge_file(path: str, facts: os.stat_result, gate: Gate) -> ListedFile | Skipped:
    """The verdict on a file whose name is admitted, by its size, links and path."""
    if facts.st_size > gate.rules.max_file_bytes:
        return Skipped(path, "too_large", f"{facts.st_size} bytes")
    if facts.st_nlink > 1 and not gate.rules.hard_links:
        return Skipped(path, "hard_link")
    if not gate.includes(path):
        return Skipped(path, "not_included")
    return ListedFile(path, facts.st_size, clamp_mtime(facts))


def name_mode_kind(mode: int) -> str:
    """file, folder, symlink or special."""
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISLNK(mode):
        return "symlink"
    return "file" if stat.S_ISREG(mode) else "special"
