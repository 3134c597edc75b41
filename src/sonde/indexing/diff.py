"""The difference between a project's files and its index."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sonde.indexing.sources import Tree
from sonde.policy.deny_list import is_reported
from sonde.runtime.work import Work
from sonde.stores.chunks.base import ChunkStore
from sonde.types import FileState, Kind, ListedFile, Progress, Skipped

EVERYTHING = "/"  # stands for the whole project among paths
CUT_SHORT, SECRET_LINES = "cut_short", "secret_lines"
"""The reasons of files that are indexed in part."""
_EXAMPLES = 20  # omitted files that a report names, enough to see a pattern
_MOST_REPORTED = 1_000  # secrets and vendored folders, all of which it names; about 100 KB
_REPORT_EVERY_FILES = 2_000  # walking this many files takes about as long as a person notices
_WORTH_NAMING = frozenset(
    {"secret_content", "unreadable", "bad_name", "too_large", "symlink", "hard_link", "same_name"}
    | {"mount", CUT_SHORT, SECRET_LINES}
)

Stores = Mapping[Kind, ChunkStore]
States = Mapping[Kind, Mapping[str, FileState]]
Refusals = dict[str, tuple[int, str, str]]
"""Files whose content was refused: path -> stamp, reason, detail; not read again until they
change."""


@dataclass(slots=True)
class Omissions:
    """Counts of what is left out, with a few examples a user may want to know of."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: list[Skipped] = field(default_factory=list)

    def add(self, skipped: Skipped) -> None:
        """Count one."""
        self.counts[skipped.reason] += 1
        most = _MOST_REPORTED if is_reported(skipped) else _EXAMPLES
        worth = skipped.reason in _WORTH_NAMING or most == _MOST_REPORTED
        if worth and len(self.examples) < most:
            self.examples.append(skipped)


@dataclass(slots=True)
class Diff:
    """Files to read again and files to forget, per index, as of one state of the stores."""

    changed: list[tuple[Kind, ListedFile]] = field(default_factory=list)
    removed: list[tuple[Kind, str]] = field(default_factory=list)
    unchanged: int = 0
    omitted: Omissions = field(default_factory=Omissions)
    paths: frozenset[str] | None = None
    """The files that were compared; None for all."""
    known: States = field(default_factory=dict)
    """What the stores held of those files."""
    refused: Refusals = field(default_factory=dict)
    """Files whose content was refused before; an update adds to it."""
    force: bool = False
    """Whether files count as changed even if their content is the same."""
    generation: int = 0
    """The state of the stores that was compared; under another the diff is out of date."""
    seconds: float = 0.0
    """How long comparing took."""

    def names(self) -> set[str]:
        """The paths that differ."""
        return {entry.path for _, entry in self.changed} | {path for _, path in self.removed}

    def only(self, paths: set[str]) -> Diff:
        """The part of the diff that is about these files."""
        return replace(
            self,
            changed=[(kind, entry) for kind, entry in self.changed if entry.path in paths],
            removed=[(kind, path) for kind, path in self.removed if path in paths],
            unchanged=0,
            omitted=Omissions(),
            paths=frozenset(paths),
        )


def coverage_of(stores: Stores, model: str) -> tuple[int, int]:
    """How many chunks have a vector of this model, and how many there are."""
    pairs = [store.coverage(model) for store in stores.values()]
    return sum(have for have, _ in pairs), sum(count for _, count in pairs)


def generation_of(stores: Stores) -> int:
    """A number that grows with every committed change to the files of any of the stores."""
    return sum(store.generation() for store in stores.values())


def compare_index(
    tree: Tree,
    stores: Stores,
    work: Work,
    *,
    refused: Refusals | None = None,
    paths: Iterable[str] | None = None,
    force: bool = False,
) -> Diff:
    """Compare the stores with the disk, or with the named files and folders (ending in a slash).

    Stamps are compared; contents are when they are read. `force` takes every file for
    changed. `refused` is updated in place, by comparing and by an update with the diff.
    """
    began = time.monotonic()
    generation = generation_of(stores)  # first: a write meanwhile makes the diff out of date
    refused = {} if refused is None else refused
    named = None if paths is None else _expand_folders(tree, set(paths), stores)
    known: States = {kind: store.files(named) for kind, store in stores.items()}
    if force:
        for path in list(refused) if named is None else named:
            refused.pop(path, None)
    compared: States = {kind: {} for kind in known} if force else known
    if named is None:
        diff = compare_tree(tree, compared, refused, work)
    else:
        diff = _compare_paths(tree, compared, refused, named)
    if force:
        current = {(kind, entry.path) for kind, entry in diff.changed}
        before = ((kind, path) for kind, files in known.items() for path in files)
        diff.removed = [each for each in before if each not in current]
    return replace(
        diff,
        paths=None if named is None else frozenset(named),
        known=known,
        refused=refused,
        force=force,
        generation=generation,
        seconds=time.monotonic() - began,
    )


def compare_tree(tree: Tree, known: States, refused: Refusals, work: Work) -> Diff:
    """Walk the disk once and compare stamps with known states."""
    diff = Diff()
    seen: dict[Kind, set[str]] = {"code": set(), "docs": set()}
    total = 0
    for found in tree.walk():
        if isinstance(found, Skipped):
            diff.omitted.add(found)
            continue
        kind = tree.kind_of(found.path)
        if kind is None:
            continue
        total += 1
        if total % _REPORT_EVERY_FILES == 0:
            work.report(Progress("scanning", done=total))
        seen[kind].add(found.path)
        _compare_file(diff, kind, found, known[kind].get(found.path), refused)
    for kind, states in known.items():
        diff.removed.extend((kind, path) for path in states if path not in seen[kind])
    for path in [path for path in refused if not any(path in paths for paths in seen.values())]:
        del refused[path]
    return diff


def _expand_folders(tree: Tree, paths: set[str], stores: Stores) -> set[str]:
    """The named files, and for each folder the files that are in it or were when last indexed."""
    folders = {path for path in paths if path.endswith("/")}
    files = paths - folders
    if not folders:
        return files
    for folder in folders:
        files |= {found.path for found in tree.walk(folder[:-1]) if isinstance(found, ListedFile)}
        files = files.union(*(store.files(under=folder[:-1]) for store in stores.values()))
    return files


def _compare_paths(tree: Tree, known: States, refused: Refusals, paths: set[str]) -> Diff:
    diff = Diff()
    for path in sorted(paths):
        found = tree.check(path)
        kind = None if isinstance(found, Skipped) else tree.kind_of(path)
        if isinstance(found, Skipped):
            diff.omitted.add(found)
        diff.removed += [(k, path) for k, states in known.items() if path in states and k != kind]
        if isinstance(found, ListedFile) and kind is not None:
            _compare_file(diff, kind, found, known[kind].get(path), refused)
    return diff


def _compare_file(
    diff: Diff, kind: Kind, entry: ListedFile, state: FileState | None, refused: Refusals
) -> None:
    before, reason, detail = refused.get(entry.path, (0, "", ""))
    if state is not None and entry.stamp == state.stamp:
        diff.unchanged += 1
        if reason in (CUT_SHORT, SECRET_LINES):
            diff.omitted.add(Skipped(entry.path, reason, detail))
    elif before == entry.stamp and reason not in (CUT_SHORT, SECRET_LINES):
        diff.omitted.add(Skipped(entry.path, reason, detail))
    else:
        diff.changed.append((kind, entry))
