"""Folders and files of a tree: listings, details and previews.

Entries that the scan has not reached are read from the disk and marked as pending. Scanned entries
are compared with the disk and marked if they have changed or are gone.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sonde.disk.scope import Place, miss_node, place_node
from sonde.disk.trees import Disk, Page, list_node_names
from sonde.errors import NodeMissing
from sonde.policy.metadata import Facts, list_live, look_at_names, look_live
from sonde.policy.read import decode_text, may_show, open_shown
from sonde.policy.roots import show_path
from sonde.stores.disk.base import FILE, OK, PENDING, STATES, DiskIndex, Node, Sort
from sonde.stores.disk.filters import KINDS
from sonde.stores.disk.sqlite import TreeStore
from sonde.types import Content

_PREVIEW_BYTES = 64 * 1024  # as documented: about a thousand lines of text
_DUMP_BYTES = 1024  # enough to recognize a format by its header
_DUMP_COLUMNS = 16  # bytes of a row, as `hexdump` shows them
_MAX_PICTURE_BYTES = 4 << 20  # 4 MiB: it is held in memory and sent whole
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MAX_CUT_BYTES = 4  # longest UTF-8 sequence: so much of a preview's end may be half a character

CHANGED, GONE = "changed", "gone"
"""The state of a node compared with its scan; `ok` if unchanged."""


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A row of a listing; `node` is None if the scan has not reached it."""

    name: str
    kind: str
    size: int | None
    mtime_ms: int
    state: str
    node: Node | None

    @property
    def listable(self) -> bool:
        """Whether it is a folder that can be listed."""
        return self.node.listable if self.node else self.kind == "directory"


@dataclass(frozen=True, slots=True)
class FolderListing:
    """One page of a folder."""

    place: Place
    node: Node | None
    """None if the scan has not reached the folder."""
    trail: tuple[Node, ...]
    """Nodes from the root down; empty if the folder was read from the disk."""
    sort: Sort
    page: Page[FolderEntry]
    scanned_ms: int | None = None
    """When the last scan began; None if the folder was read from the disk."""
    since: str = STATES[OK]
    """The state of the folder since then."""

    @property
    def state(self) -> str:
        """The state of the folder; `pending` if it was read from the disk."""
        if self.since == GONE:
            return GONE
        return STATES[self.node.state] if self.node else STATES[PENDING]

    @property
    def stale(self) -> bool:
        """Whether the disk differs from what is shown, or has names that are not."""
        return not {CHANGED, GONE}.isdisjoint((self.since, *(row.state for row in self.page.rows)))


@dataclass(frozen=True, slots=True)
class NodeDetail:
    """A scanned node with its place and, if its contents were compared, its digest."""

    index: DiskIndex
    node: Node
    names: tuple[str, ...]
    digest: bytes | None
    scanned_ms: int | None
    since: str
    """Its state since the scan."""

    @property
    def state(self) -> str:
        """Its state in the scan, or `changed` or `gone` if the disk differs now."""
        return STATES[self.node.state] if self.since == STATES[OK] else self.since

    @property
    def path(self) -> str:
        """The absolute path."""
        return Place(self.index, self.names).path

    @property
    def shown(self) -> bool:
        """Whether its contents may be shown; secrets and hard links are not."""
        return self.node.kind == FILE and self.node.links == 1 and may_show(list(self.names))


@dataclass(frozen=True, slots=True)
class LiveDetail:
    """The current metadata of a name that the scan has not reached."""

    place: Place
    facts: Facts


def list_folder(
    disk: Disk,
    place: Place,
    node: Node | None,
    *,
    limit: int,
    sort: Sort = "name",
    cursor: str | None = None,
    compare: bool = True,
) -> FolderListing:
    """One page of a folder; with `compare`, entries are compared with the disk. `node` is None if
    the scan has not reached the folder."""
    index = place.index.id
    if node is None or node.state == PENDING:
        scope = f"live:{index}:{place.inner_path}"
        after = disk.read_cursor(cursor, scope)
        names = list_live(Path(place.index.root), place.inner_path)
        found = [
            FolderEntry(each.name, each.kind, size, each.mtime_ms, STATES[PENDING], None)
            for each in names
            if after is None or each.name > after[0]
            for size in (None if each.kind == "directory" else each.size,)
        ]
        live = disk.cut_page(found[: limit + 1], limit, scope, lambda row: [row.name])
        return FolderListing(place, node, (), sort, live)
    scope = f"tree:{index}:{node.id}:{sort}"
    after = disk.read_cursor(cursor, scope)
    tree = disk.tree(index)
    rows = [
        FolderEntry(each.name, KINDS[each.kind], each.size, each.mtime_ms, STATES[each.state], each)
        for each in tree.children(node.id, limit + 1, sort, after)
    ]
    page = disk.cut_page(rows, limit, scope, lambda row: _sort_key(row, sort))
    since = STATES[OK]
    if compare:
        disk_has = _look(place.index, place.inner_path, [row.name for row in page.rows])
        shown = tuple(
            replace(row, state=_compare(row.node, disk_has, row.state)) for row in page.rows
        )
        page, since = replace(page, rows=shown), _compare(node, disk_has, since, ".")
    trail, scanned = tuple(tree.trail(node.id)), _find_scan_time(tree)
    return FolderListing(place, node, trail, sort, page, scanned, since)


def _find_scan_time(tree: TreeStore) -> int | None:
    """When the last complete scan began, or else the first one."""
    scans = tree.scans()
    complete = (scan.started_ms for scan in scans if scan.finished_ms)
    return next(complete, scans[0].started_ms if scans else None)


def _look(index: DiskIndex, folder: str, names: Sequence[str]) -> Mapping[str, Facts] | None:
    """The current metadata of these names in a folder; None where it cannot be read."""
    with suppress(OSError):
        return look_at_names(Path(index.root), folder, names)
    return None


def _compare(
    node: Node | None, live: Mapping[str, Facts] | None, state: str, name: str = ""
) -> str:
    if node is None or live is None:
        return state
    found = live.get(name or node.name)
    if found is None:
        return GONE
    same_size = node.kind != FILE or found.size == node.size
    same = same_size and found.kind == KINDS[node.kind] and found.mtime_ms == node.mtime_ms
    return state if same or state != STATES[OK] else CHANGED


def _sort_key(row: FolderEntry, sort: Sort) -> list[str | int]:
    assert row.node is not None
    if sort == "name":
        return [row.name]
    return [-(row.node.size if sort == "size" else row.node.mtime_ms), row.node.id]


def inspect_node(disk: Disk, index: DiskIndex, node: Node) -> NodeDetail:
    """Everything known of a node."""
    tree = disk.tree(index.id)
    digest = tree.digest(node) if node.kind == FILE else None
    names = list_node_names(tree, node)
    live = _look(index, "/".join(names[:-1]), names[-1:])
    since = _compare(node, live, STATES[OK], names[-1] if names else ".")
    return NodeDetail(index, node, names, digest, _find_scan_time(tree), since)


def read_live_detail(place: Place) -> LiveDetail:
    """The current metadata of a place that the scan has not reached."""
    facts = look_live(Path(place.index.root), place.inner_path)
    if facts is None:
        raise miss_node(place, "path")
    return LiveDetail(place, facts)


def preview_file(disk: Disk, index: DiskIndex, node: Node) -> Content:
    """The beginning of a file: text, a picture, or a dump of its first bytes."""
    place = place_node(disk, index, node)
    if not place.names:
        raise NodeMissing("a folder has no contents", what="file", path=show_path(place.path))
    file = open_shown(Path(index.root), place.inner_path)
    try:
        mime = mimetypes.guess_type(node.name)[0]
        if mime in _PICTURES and file.size <= _MAX_PICTURE_BYTES:
            return Content(b"".join(file.read(0, file.size)), mime)
        data = b"".join(file.read(0, min(file.size, _PREVIEW_BYTES)))
    finally:
        file.close()
    text = _decode_beginning(data)
    return Content(_dump(data[:_DUMP_BYTES], file.size) if text is None else text)


def _decode_beginning(data: bytes) -> str | None:
    """The text of a file's beginning, without half a character at its end."""
    for cut in range(_MAX_CUT_BYTES if len(data) == _PREVIEW_BYTES else 1):
        part = data[: len(data) - cut]
        with suppress(UnicodeDecodeError):
            part.decode()
            return decode_text(part)
    return decode_text(data)


def _dump(data: bytes, size: int) -> str:
    lines = [f"{size} bytes, not text"]
    for start in range(0, len(data), _DUMP_COLUMNS):
        row = data[start : start + _DUMP_COLUMNS]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<47}  {shown}")
    return "\n".join(lines) + "\n"
