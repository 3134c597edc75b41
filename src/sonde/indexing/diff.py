"""What changed on disk since the index was written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from sonde.indexing.sources import Tree
from sonde.policy.walk import Entry
from sonde.types import FileState, Kind, Progress, Skipped
from sonde.work import Work

_EXAMPLES = 20
_REPORT_EVERY = 2_000
_WORTH_TELLING = frozenset({"secret_content", "unreadable", "bad_name", "too_large", "symlink"})


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

    changed: list[tuple[Kind, str]] = field(default_factory=list)
    removed: list[tuple[Kind, str]] = field(default_factory=list)
    unchanged: int = 0
    omitted: Omissions = field(default_factory=Omissions)

    def is_empty(self) -> bool:
        """Nothing to do."""
        return not self.changed and not self.removed


def compare_tree(tree: Tree, known: Mapping[Kind, Mapping[str, FileState]], work: Work) -> Diff:
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
        if _is_unchanged(found, known[kind].get(found.path)):
            diff.unchanged += 1
        else:
            diff.changed.append((kind, found.path))
    for kind, states in known.items():
        diff.removed.extend((kind, path) for path in states if path not in seen[kind])
    return diff


def compare_paths(
    tree: Tree, known: Mapping[Kind, Mapping[str, FileState]], paths: set[str]
) -> Diff:
    """The same for a few named files."""
    diff = Diff()
    for path in sorted(paths):
        found = tree.check(path)
        kind = tree.kind_of(path)
        admitted = isinstance(found, Entry) and kind is not None
        if isinstance(found, Skipped):
            diff.omitted.add(found)
        for other, states in known.items():
            if path in states and (not admitted or other != kind):
                diff.removed.append((other, path))
        if not admitted or kind is None or isinstance(found, Skipped):
            continue
        if _is_unchanged(found, known[kind].get(path)):
            diff.unchanged += 1
        else:
            diff.changed.append((kind, path))
    return diff


def _is_unchanged(entry: Entry, state: FileState | None) -> bool:
    return state is not None and entry.size == state.size and entry.mtime_ns == state.mtime_ns
