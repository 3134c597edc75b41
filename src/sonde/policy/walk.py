"""The files of a project that may be indexed, and why each other file may not.

`walk_files` and `check_path` apply the same checks in the same order, so they agree: both admit a
path or both skip it, for the same reason. `walk_documents` lists files that a user names to import.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sonde.policy.admit import Gate, Rules, compile_rules, find_denied
from sonde.policy.changes import GitRules
from sonde.policy.deny_list import has_binary_suffix
from sonde.policy.git import GIT_FOLDER, read_git_rules
from sonde.policy.ignore import GIT_FILE, OWN_FILE, Scope, open_scope
from sonde.policy.roots import (
    Folder,
    OpenPath,
    clamp_mtime,
    open_root,
    show_path,
    skip_unreadable,
    split_inside,
    stamp_file,
)
from sonde.text.globs import compose
from sonde.types import ListedFile, Skipped

_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "symlink"}


class Level(NamedTuple):
    """An open folder on the path of a walk, and its entries that are left."""

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
    return (found for found in _walk(root, rules, under) if not isinstance(found, str))


def walk_folders(root: Path, rules: Rules) -> Iterator[str]:
    """Every folder that may contain admitted files; the root first, as an empty name."""
    return (each for each in _walk(root, rules, "", only_folders=True) if isinstance(each, str))


def _walk(
    root: Path, rules: Rules, under: str, *, only_folders: bool = False
) -> Iterator[ListedFile | Skipped | str]:
    """Files as `walk_files` yields them, preceded by the path of their folder."""
    gate = compile_rules(rules)
    levels: list[Level] = []
    try:
        with Checker(root, rules) as start:
            verdict = start.check(under)
            if not (isinstance(verdict, Skipped) and verdict.reason == "folder"):
                return
            levels.append(start.take_level())
        yield levels[0].prefix[:-1]
        while levels:
            level = levels[-1]
            for entry in level.entries:
                if only_folders and not entry.is_dir(follow_symlinks=False):
                    continue
                path = level.prefix + compose(entry.name)
                found = _judge_entry(entry, path, gate, level.scope)
                if not isinstance(found, Skipped) and is_second_spelling(level.folder, entry):
                    found = Skipped(path, "same_name")
                if found is not None:
                    yield found
                    continue
                try:
                    levels.append(_open_level(level, entry.name, rules, root))
                except OSError as error:
                    yield skip_unreadable(path, error)
                    continue
                yield path
                break
            else:
                levels.pop().folder.close()
    finally:
        for level in levels:
            level.folder.close()


def check_path(root: Path, path: str, rules: Rules) -> ListedFile | Skipped:
    """The verdict of the walk on one path; raises `OutsideRoots` if it is not below the root."""
    with Checker(root, rules) as checker:
        return checker.check(path)


class Checker(OpenPath):
    """The verdict of the walk on single paths, best in their order."""

    def __init__(self, root: Path, rules: Rules) -> None:
        super().__init__(root)
        self._gate = compile_rules(rules)
        self._scopes: list[Scope | None] = []
        """Of each open folder."""

    def check(self, path: str) -> ListedFile | Skipped:
        """The verdict on one path; raises `OutsideRoots` if it is not below the root."""
        names = split_inside(self._root, path)
        if not names:
            return Skipped(".", "folder")
        relative = "/".join(names)
        try:
            self._leave(names)
            del self._scopes[len(self._names) + 1 :]
            return self._descend(names, relative)
        except OSError as error:
            return skip_unreadable(show_path(relative), error)

    def take_level(self) -> Level:
        """The folder that was checked last, the root at first; it is not closed with the others."""
        folder, scope = self._find_scope()
        entries = iter(folder.scan())
        self._folders.pop()
        return Level(folder, "".join(f"{name}/" for name in self._names), scope, entries)

    def _descend(self, names: tuple[str, ...], relative: str) -> ListedFile | Skipped:
        for index in range(len(self._names), len(names)):
            folder, scope = self._find_scope()
            name, at = names[index], "/".join(names[: index + 1])
            facts = folder.look_at(folder.spell(name))
            kind = _KINDS.get(stat.S_IFMT(facts.st_mode), "special")
            if (found := judge_name(at, name, kind, self._gate, scope)) is not None:
                return Skipped(show_path(relative), found.reason, found.detail)
            if not stat.S_ISDIR(facts.st_mode):
                last = index == len(names) - 1
                return judge_file(at, facts, self._gate) if last else Skipped(relative, "missing")
            self._enter(name)
        self._innermost().scan()
        return Skipped(relative, "folder")

    def _find_scope(self) -> tuple[Folder, Scope | None]:
        """The innermost open folder and its scope."""
        folder = self._innermost()
        if len(self._scopes) == len(self._names):
            above = self._scopes[-1] if self._scopes else None
            path, rules = "/".join(self._names), self._gate.rules
            git = read_git_rules(self._root / path, around=not path)
            self._scopes.append(open_folder_scope(above, path, rules, folder, git))
        return folder, self._scopes[-1]


def open_folder_scope(
    above: Scope | None, path: str, rules: Rules, folder: Folder, git: GitRules | None
) -> Scope | None:
    """The scope of a folder from its ignore files and its repository."""
    if rules.protect_only and not rules.respect_gitignore:
        return None
    respect_git = rules.respect_gitignore
    return open_scope(
        above, path, folder.read_start, git, fold_case=rules.folds_case, respect_git=respect_git
    )


def _open_level(above: Level, name: str, rules: Rules, root: Path) -> Level:
    folder = above.folder.enter(name, same_system=True)
    try:
        entries = folder.scan()
    except OSError:
        folder.close()
        raise
    scope, prefix = above.scope, f"{above.prefix}{compose(name)}/"
    if names := {OWN_FILE, GIT_FILE, GIT_FOLDER}.intersection(entry.name for entry in entries):
        git = read_git_rules(root / prefix) if GIT_FOLDER in names else None
        scope = open_folder_scope(scope, prefix[:-1], rules, folder, git)
    elif scope is not None:
        scope = scope.enter(prefix[:-1])
    return Level(folder, prefix, scope, iter(entries))


def is_second_spelling(folder: Folder, entry: os.DirEntry[str]) -> bool:
    """Whether the composed name is that of another entry: both would have the same path."""
    if entry.name.isascii() or (name := compose(entry.name)) == entry.name:
        return False
    try:
        return folder.look_at(name).st_ino != entry.inode()  # equal where spellings do not count
    except OSError:
        return False


def _judge_entry(
    entry: os.DirEntry[str], path: str, gate: Gate, scope: Scope | None
) -> ListedFile | Skipped | None:
    """The verdict on an entry; None for a folder to walk."""
    kind = name_entry_kind(entry)
    found = judge_name(path, entry.name, kind, gate, scope)
    if found is not None or kind == "folder":
        return found
    try:
        facts = entry.stat(follow_symlinks=False)
    except OSError as error:
        return skip_unreadable(path, error)
    return judge_file(path, facts, gate)


def name_entry_kind(entry: os.DirEntry[str]) -> str:
    """file, folder, symlink or special."""
    if entry.is_file(follow_symlinks=False):
        return "file"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "symlink" if entry.is_symlink() else "special"


def judge_name(path: str, name: str, kind: str, gate: Gate, scope: Scope | None) -> Skipped | None:
    """Why a name or a kind of entry is skipped; None if it is not."""
    folder = kind == "folder"
    if show_path(name) != name:
        return Skipped(show_path(path), "bad_name")
    if (denial := gate.find_denial(name, folder=folder, path=path)) is not None:
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
    if facts.st_nlink > 1 and facts.st_uid != gate.rules.owner:
        return Skipped(path, "hard_link")
    if not gate.includes(path):
        return Skipped(path, "not_included")
    return ListedFile(path, facts.st_size, clamp_mtime(facts), stamp_file(facts), facts.st_ctime_ns)


_MAX_DOCUMENT_DEPTH = 40  # folders; twice that of a project, and still few open at once


def walk_documents(root: Path, most_bytes: int) -> Iterator[ListedFile | Skipped]:
    """The files to import at or below a path that a user names: deny list and size decide."""
    gate = compile_rules(Rules())
    is_file = root.is_file()
    # a folder that the user names may be called `build`, never `.ssh`
    denial = find_denied(root.as_posix() + ("" if is_file else "/"), secrets_only=True)
    if denial := denial or (gate.find_denial(root.name, folder=False) if is_file else None):
        yield Skipped(root.name, "denied", denial)
        return
    if is_file:
        yield _judge_document(root.name, root.stat(), most_bytes)
        return
    with open_root(root) as folder:
        yield from _walk_documents(folder, "", most_bytes, 0)


def _walk_documents(
    folder: Folder, prefix: str, most_bytes: int, depth: int
) -> Iterator[ListedFile | Skipped]:
    gate = compile_rules(Rules())
    for entry in folder.scan():
        path = prefix + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if show_path(entry.name) != entry.name:
            yield Skipped(show_path(path), "bad_name")
        elif denial := gate.find_denial(entry.name, folder=is_folder):
            yield Skipped(path, "denied", denial)
        elif entry.is_symlink():
            yield Skipped(path, "symlink")
        elif not is_folder or not (entry.name.startswith(".") or depth >= _MAX_DOCUMENT_DEPTH):
            try:
                if is_folder:
                    with folder.enter(entry.name) as inner:
                        yield from _walk_documents(inner, f"{path}/", most_bytes, depth + 1)
                else:
                    yield _judge_document(path, entry.stat(follow_symlinks=False), most_bytes)
            except OSError as error:
                yield skip_unreadable(path, error)


def _judge_document(path: str, facts: os.stat_result, most_bytes: int) -> ListedFile | Skipped:
    if not stat.S_ISREG(facts.st_mode):
        return Skipped(path, "special")
    if facts.st_size > most_bytes:
        return Skipped(path, "too_large", f"{facts.st_size} bytes")
    return ListedFile(path, facts.st_size, facts.st_mtime_ns, stamp_file(facts))
