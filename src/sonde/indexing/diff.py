"""What changed on disk since the index was written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sonde.indexing.sources import Tree
from sonde.policy.walk import ListedFile
from sonde.runtime.work import Work
from sonde.stores.records import Refusals
from sonde.types import FileState, Kind, Progress, Skipped

_EXAMPLES = 20
_REPORT_EVERY = 2_000
CUT_SHORT = "cut_short"
"""The reason of a file that is indexed, but not to its end."""
_WORTH_TELLING = frozenset(
    {"secret_content", "unreadable", "bad_name", "too_large", "symlink", CUT_SHORT}
)


@dataclass(slots=True)
class Omissions:
    """Counts of what is left out, with a few examples a user may want to know of."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: list[Skipped] = field(default_factory=list)

    def add(self, skipped: Skipped) -> None:
        """Count one."""
        self.counts[skipped.reason] += 1
        if skipped.reason in _WORTH_TELLING and len(self.examples) < _EXAMPLES:
            self.examples.append(skipped)


@dataclass(slots=True)
class Diff:
    """Files to read again and files to forget, per index."""

    changed: list[tuple[Kind, ListedFile]] = field(default_factory=list)
    removed: list[tuple[Kind, str]] = field(default_factory=list)
    unchanged: int = 0
    omitted: Omissions = field(default_factory=Omissions)


def compare_tree(
    tree: Tree, known: Mapping[Kind, Mapping[str, FileState]], refused: Refusals, work: Work
) -> Diff:
    """Walk the disk once and compare sizes and times; contents are compared when read."""
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
        if total % _REPORT_EVERY == 0:
            work.report(Progress("scanning", done=total))
        seen[kind].add(found.path)
        _judge(diff, kind, found, known[kind].get(found.path), refused)
    for kind, states in known.items():
        diff.removed.extend((kind, path) for path in states if path not in seen[kind])
    for path in [path for path in refused if not any(path in paths for paths in seen.values())]:
        del refused[path]
    return diff


def expand_folders(
    tree: Tree, paths: set[str], list_known: Callable[[], Iterable[str]]
) -> set[str]:
    """The files that these paths name; one that ends in a slash is a folder, and stands for what
    is in it and for what was known to be."""
    folders = {path for path in paths if path.endswith("/")}
    files = paths - folders
    if not folders:
        return files
    for folder in folders:
        files |= {found.path for found in tree.walk(folder[:-1]) if isinstance(found, ListedFile)}
    prefixes = tuple(folders)
    return files | {path for path in list_known() if path.startswith(prefixes)}


def compare_paths(
    tree: Tree, known: Mapping[Kind, Mapping[str, FileState]], refused: Refusals, paths: set[str]
) -> Diff:
    """The same for a few named files."""
    diff = Diff()
    for path in sorted(paths):
        found = tree.check(path)
        kind = tree.kind_of(path)
        admitted = isinstance(found, ListedFile) and kind is not None
        if isinstance(found, Skipped):
            diff.omitted.add(found)
        for other, states in known.items():
            if path in states and (not admitted or other != kind):
                diff.removed.append((other, path))
        if not admitted or kind is None or isinstance(found, Skipped):
            continue
        _judge(diff, kind, found, known[kind].get(path), refused)
    return diff


def _judge(
    diff: Diff, kind: Kind, entry: ListedFile, state: FileState | None, refused: Refusals
) -> None:
    now = (entry.size, entry.mtime_ns)
    *before, reason = refused.get(entry.path, (-1, -1, ""))
    if state is not None and now == (state.size, state.mtime_ns):
        diff.unchanged += 1
        if reason == CUT_SHORT:
            diff.omitted.add(Skipped(entry.path, reason))
    elif tuple(before) == now and reason != CUT_SHORT:
        diff.omitted.add(Skipped(entry.path, reason))
    else:
        diff.changed.append((kind, entry))
