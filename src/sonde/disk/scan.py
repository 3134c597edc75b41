"""The scan of a folder: one walk that updates the stored tree and keeps the ids of nodes.

A folder is compared with its stored children before its subfolders are entered, so the stored nodes
form a tree at any time. Totals are written when a folder is done. Only metadata is read, and an
error in one folder does not stop the walk.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from sonde.disk.trees import ScanReport
from sonde.errors import FileMissing
from sonde.policy.metadata import Descent, measure_blocks
from sonde.runtime.system import now_ms
from sonde.runtime.work import Work
from sonde.stores.disk import base
from sonde.stores.disk.base import ROOT_ID, Batch, Node, sort_names
from sonde.stores.disk.sqlite import TreeStore
from sonde.types import Progress

_KINDS = {stat.S_IFREG: base.FILE, stat.S_IFDIR: base.FOLDER, stat.S_IFLNK: base.LINK}
_TYPE_BITS = 0o170000  # S_IFMT of stat.h
_NS_PER_MS = 1_000_000  # stat gives nanoseconds, trees store milliseconds


@dataclass(slots=True)
class _Frame:
    """A folder that is being walked."""

    node: Node
    """`disk` is what the folder takes by itself."""
    stored: Node | None
    """As the last scan left it."""
    device: int
    weight: float
    """Its estimated share of the whole tree, for progress."""
    identity: tuple[int, int] = (0, 0)
    todo: list[tuple[Node, Node | None, os.stat_result]] = field(default_factory=list)
    """Subfolders to enter, the last one first."""
    size: int = 0
    disk: int = 0
    files: int = 0
    folders: int = 0
    children: int = 0
    state: int = base.OK


@dataclass
class TreeScan:
    """One scan that brings a tree up to date with the disk."""

    store: TreeStore
    root: Path
    work: Work
    _: KW_ONLY
    clock_ms: Callable[[], int] = now_ms
    depth_limit: int | None = None
    follow: Sequence[Path] = ()
    """Roots that links are followed into."""
    names_at_once: int = 10_000
    """Names of a folder compared at a time; a folder may have millions."""
    flush_rows: int = 10_000
    """Changes written in one transaction."""
    flush_s: float = 0.5
    """Longest time between two writes and reports of progress."""

    def __post_init__(self) -> None:
        self._began = self._flushed_at = time.monotonic()
        self._batch = Batch()
        self._report = ScanReport()
        self._names: dict[tuple[int, int], int] = {}
        """Files with several hard links: how many of the links are still to come."""
        self._above: set[tuple[int, int]] = set()
        self._entered: set[tuple[int, int]] = set()
        """Every folder walked; kept only if links are followed."""
        self._finished = 0.0
        self._seen = 0
        self._expected = 0

    def run(self) -> ScanReport:
        """Walk the whole tree."""
        self._expected = next((s.nodes for s in self.store.scans() if s.finished_ms), 0)
        descent = Descent(self.root)
        try:
            self._scan, self._next_id = self.store.begin_scan(self.clock_ms())
            self._walk(descent)
        finally:
            descent.close()
            self._flush()
        self.work.report(Progress("scanning", self._seen, self._seen))
        report = self._report
        report.seconds = time.monotonic() - self._began
        self.store.finish_scan(self._scan, self.clock_ms(), nodes=self._seen, size=report.size)
        return report

    def _walk(self, descent: Descent) -> None:
        stored = self.store.get(ROOT_ID)
        here = descent.look_here()
        born = stored.born if stored else self._scan
        node = _make_node((ROOT_ID, 0, "", base.FOLDER, 0), here, base.PENDING, "", born)
        if stored is None:
            self._batch.inserted[ROOT_ID] = node
        self._report.folders += 1
        self._seen += 1
        first = _Frame(node, stored, here.st_dev, 1.0, (here.st_dev, here.st_ino))
        self._read_folder(descent, first)
        stack = [first]
        while stack:
            frame = stack[-1]
            if frame.todo:
                inner = self._enter(descent, frame, *frame.todo.pop())
                if inner:
                    stack.append(inner)
                continue
            stack.pop()
            self._above.discard(frame.identity)
            if stack:
                descent.leave()
            self._finish(frame, stack[-1] if stack else None)

    def _enter(
        self, descent: Descent, above: _Frame, node: Node, stored: Node | None, seen: os.stat_result
    ) -> _Frame | None:
        """The frame of a folder, or None if it is not walked; then its state is written."""
        device = seen.st_dev
        inner = _Frame(node, stored, device, above.weight)
        linked = node.kind == base.LINK
        state = base.OUTSIDE if linked else base.TOO_DEEP
        deep = self.depth_limit is not None and node.depth >= self.depth_limit
        if not linked and device != above.device:
            inner.node, state = node._replace(disk=0), base.MOUNT
        elif not deep:
            try:
                inside = False
                if linked:
                    inside = descent.follow(node.name, self.follow).is_relative_to(self.root)
                else:
                    descent.enter(node.name)
            except (OSError, RuntimeError) as error:
                state = _classify_error(error, linked=linked)
            else:
                try:
                    # `seen` describes a link itself, but of a folder the folder
                    here = descent.look_here() if linked else seen
                    inner.identity = (here.st_dev, here.st_ino)
                    state = self._judge(inner, counted=inside)
                    if state == base.OK:
                        inner.device = here.st_dev
                        inner.disk = measure_blocks(here) if linked else 0
                        self._read_folder(descent, inner)
                        return inner
                except (OSError, FileMissing) as error:
                    state = _classify_error(error, linked=linked)
                descent.leave()
        inner.state = state
        if stored and self.store.children(node.id, 1):
            self._batch.emptied.append(node.id)
        if node.kind == base.FOLDER or state != base.OUTSIDE:
            self._count_problem(state)
        self._finished += inner.weight
        self._finish(inner, above)
        return None

    def _judge(self, inner: _Frame, *, counted: bool) -> int:
        """The state of an opened folder: OK if it is to be walked."""
        if inner.identity in self._above:
            return base.LOOP
        if counted or inner.identity in self._entered:
            return base.LINKED
        if self.follow:
            self._entered.add(inner.identity)
        return base.OK

    def _read_folder(self, descent: Descent, frame: _Frame) -> None:
        """Compare the names in a folder with its stored children."""
        names = sort_names(descent.list_names())
        self._above.add(frame.identity)
        step = self.names_at_once
        for start in range(0, max(len(names), 1), step):
            end = start + step
            known: dict[str, Node] = {}
            if frame.stored:
                low = names[start] if start else None
                high = names[end] if end < len(names) else None
                known = dict(self.store.between(frame.node.id, low, high))
            self._compare(descent, frame, names[start:end], known)
            self._pause()
        frame.todo.reverse()
        frame.weight /= len(frame.todo) + 1
        self._finished += frame.weight

    def _compare(
        self, descent: Descent, frame: _Frame, names: Sequence[str], known: dict[str, Node]
    ) -> None:
        parent, depth = frame.node.id, frame.node.depth + 1
        inserted, first_free = self._batch.inserted, self._next_id
        seen = files = folders = size = disk = 0
        for name, facts in descent.look_at(names):
            seen += 1
            kind = _KINDS.get(facts.st_mode & _TYPE_BITS, base.OTHER)
            # folders and followed links are pending until they are entered
            state, target = base.PENDING if kind == base.FOLDER else base.OK, ""
            if kind == base.LINK:
                state, target = base.PENDING if self.follow else base.OK, descent.read_target(name)
            elif kind == base.FILE and facts.st_nlink > 1:
                state = self._count_name(facts)
            stored = known.pop(name, None)
            if stored is not None and stored.kind != kind:
                self._batch.removed.append(stored.id)
                self._report.removed += 1
                stored = None
            number, born = (stored.id, stored.born) if stored else (self._next_id, self._scan)
            node = _make_node((number, parent, name, kind, depth), facts, state, target, born)
            if stored is None:
                inserted[number] = node
                self._next_id += 1
            elif state != base.PENDING and node != stored:
                self._note_change(stored, node)
            if state == base.PENDING:
                frame.todo.append((node, stored, facts))
            if kind == base.FILE:
                files += 1
                size += node.size if state == base.OK else 0
            if kind == base.FOLDER:
                folders += 1
            elif state != base.LINKED:
                disk += node.disk
        self._seen += seen
        self._report.files += files
        self._report.folders += folders
        self._report.added += self._next_id - first_free
        self._report.removed += len(known)
        self._batch.removed.extend(node.id for node in known.values())
        frame.children += seen
        frame.files += files
        frame.folders += folders
        frame.size += size
        frame.disk += disk

    def _note_change(self, stored: Node, node: Node) -> None:
        self._report.changed += 1
        self._batch.updated.append(node)
        if stored.kind == base.LINK and (stored.children or stored.state == base.PENDING):
            self._batch.emptied.append(stored.id)  # the last scan followed it
        if node.size != stored.size:
            self._batch.past.append((stored.id, stored.size, stored.disk))

    def _count_name(self, facts: os.stat_result) -> int:
        """The state of a hard link: a file counts under the first of its names."""
        key = (facts.st_dev, facts.st_ino)
        left = self._names.pop(key, 0)
        if not left:
            self._names[key] = facts.st_nlink - 1
            return base.OK
        if left > 1:
            self._names[key] = left - 1
        self._count_problem(base.LINKED)
        return base.LINKED

    def _finish(self, frame: _Frame, above: _Frame | None) -> None:
        """Write a folder's totals and add them to those of the folder above."""
        node, stored = frame.node, frame.stored
        if node.kind == base.LINK and frame.state != base.OK:
            done = node._replace(state=frame.state)
        else:
            done = node._replace(
                size=frame.size,
                disk=frame.disk + node.disk,
                files=frame.files,
                folders=frame.folders,
                children=frame.children,
                state=frame.state,
            )
            if above:
                above.size += frame.size
                # the link itself was counted with its folder
                above.disk += frame.disk + (node.disk if node.kind == base.FOLDER else 0)
                above.files += frame.files
                above.folders += frame.folders
            else:
                self._report.size, self._report.disk = done.size, done.disk
        if done.id in self._batch.inserted:
            self._batch.inserted[done.id] = done
        elif stored is None or done != stored:
            self._batch.updated.append(done)
        if stored and (done.size, done.disk) != (stored.size, stored.disk):
            self._batch.past.append((stored.id, stored.size, stored.disk))
        self._pause()

    def _count_problem(self, state: int) -> None:
        name = base.STATES[state]
        self._report.problems[name] = self._report.problems.get(name, 0) + 1

    def _pause(self) -> None:
        """Write the batch and report progress, if it is time."""
        now = time.monotonic()
        if len(self._batch) < self.flush_rows and now - self._flushed_at < self.flush_s:
            return
        self._flush()
        total = self._expected
        if total < self._seen:
            total = max(self._seen, int(self._seen / max(self._finished, 0.001)))
        rate = self._seen / max(now - self._began, 0.001)
        left = (total - self._seen) / rate
        self.work.report(Progress("scanning", self._seen, total, "", rate, left))

    def _flush(self) -> None:
        if len(self._batch):
            self.store.apply(self._scan, self._batch)
            self._batch = Batch()
        self._flushed_at = time.monotonic()


def _make_node(
    place: tuple[int, int, str, int, int], facts: os.stat_result, state: int, target: str, born: int
) -> Node:
    """The node of a name; `place` is id, parent, name, kind and depth."""
    size = 0 if place[3] == base.FOLDER else facts.st_size
    mtime_ms, mode = facts.st_mtime_ns // _NS_PER_MS, facts.st_mode & ~_TYPE_BITS
    disk, links = measure_blocks(facts), facts.st_nlink
    return Node(*place, size, disk, mtime_ms, mode, links, state, 0, 0, 0, target, born)


def _classify_error(error: Exception, *, linked: bool) -> int:
    """The state of a folder that could not be entered."""
    number = getattr(error, "errno", None)
    if isinstance(error, RuntimeError) or number == errno.ELOOP:
        return base.LOOP
    if linked:
        return base.OUTSIDE
    return base.VANISHED if number in (errno.ENOENT, errno.ENOTDIR) else base.UNREADABLE
