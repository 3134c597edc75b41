"""Resolution of handles and paths: which session, index, node or job a call is about.

Callers reach only what they own; foreign and unknown handles get the same error.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sonde.disk.trees import Disk, list_node_names, split_node
from sonde.errors import FileMissing, HandleUnknown, NodeMissing, NotScanned, OutsideRoots
from sonde.policy.metadata import look_live
from sonde.policy.roots import show_path, split_inside
from sonde.runtime.jobs import mint_handle
from sonde.runtime.system import find_home_folder, now_ms
from sonde.stores.disk.base import LINK, ROOT_ID, DiskIndex, Node, ShellSession, Sort
from sonde.stores.disk.sqlite import TreeStore
from sonde.types import Caller

_MAX_PATH_BYTES = 700  # of a path in an answer, as JSON
_MAX_LINK_HOPS = 8  # links followed on one way, so that a circle of them ends
_BYTE_ESCAPE = re.compile(r"\\x([89a-f][0-9a-f])")


@dataclass(frozen=True, slots=True)
class Place:
    """A path inside a scanned tree; `names` lead from its root down."""

    index: DiskIndex
    names: tuple[str, ...]

    @property
    def path(self) -> str:
        """The absolute path."""
        return str(Path(self.index.root, *self.names))

    @property
    def inner_path(self) -> str:
        """The path from the root of the tree."""
        return "/".join(self.names)


@dataclass(frozen=True, slots=True)
class ShellPreferences:
    """The preferences of a session: units, length and order of listings."""

    units: str = "bytes"
    limit: int = 20
    sort: Sort = "name"


def measure_json(value: object) -> int:
    """Bytes of a value as minified JSON."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "surrogatepass"))


def shorten_text(text: str, max_bytes: int) -> str:
    """The text, with its middle left out if it is longer than `max_bytes` in JSON."""
    whole = shown = show_path(text)
    keep = len(whole)
    while len(shown) * 6 > max_bytes and measure_json(shown) - 2 > max_bytes:
        keep = keep * 3 // 4
        shown = whole[: keep // 2] + "…" + whole[len(whole) - keep // 2 :]
    return shown


def shorten_path(path: str) -> str:
    """A path with its middle left out if it is very long."""
    return shorten_text(path, _MAX_PATH_BYTES)


def read_path(text: str, cwd: str, home: Path | None) -> Path:
    """The absolute path of a text typed in `cwd`: relative, `..`, `~`. Links are not resolved."""
    if "\0" in text:
        raise OutsideRoots("the path holds a NUL character")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise OutsideRoots("no file can have such a name") from error
    if text == "~" or text.startswith("~/"):
        if home is None:
            raise OutsideRoots("the home folder is unknown")
        text = str(home / text[2:])
    return Path(os.path.normpath(Path(cwd or "/", text)))


def _locate(disk: Disk, session: ShellSession, target: Path) -> Place:
    """The place of a path: in the current tree if that contains it, else in the innermost one. A
    path outside all trees gets the same error whether it exists or not."""
    known, current = disk.list_indexes(session.owner), session.index
    for place in (target, resolve_path(target)):
        holding = [index for index in known if place.is_relative_to(index.root)]
        if holding:
            best = max(holding, key=lambda index: (index.id == current, len(index.root)))
            return Place(best, place.relative_to(best.root).parts)
    if disk.workspace.reach.includes(target):
        raise NotScanned("no scanned tree holds it", path=shorten_path(str(target)))
    raise OutsideRoots(
        "the path lies in no scanned tree and in none of the allowed folders",
        user_message="That path is outside the folders that may be looked at.",
        next_action="Name a path inside a scanned folder; `cd ~` and `cd -` lead back.",
    )


def resolve_path(path: Path) -> Path:
    """The path with its links resolved as far as that is possible."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path


def find_shell_session(disk: Disk, caller: Caller, handle: str | None) -> ShellSession:
    """The named session, that of this connection, or a new one."""
    given = handle or disk.recall_session(caller.user, caller.session)
    found = disk.saved.get(ShellSession, given, caller.user) if given else None
    if handle and found is None:
        raise HandleUnknown(f"session {handle!r}", what="session", handle=handle)
    if found is None:
        start = str(disk.workspace.start)
        found = save_shell_session(disk, ShellSession(mint_handle(), caller.user, cwd=start))
    if caller.session or not disk.workspace.stays:
        disk.remember_session(caller.user, caller.session, found.id)
    return found


def save_shell_session(disk: Disk, session: ShellSession) -> ShellSession:
    """Store a session as used just now."""
    session = replace(session, updated_ms=now_ms())
    disk.saved.put(session)
    return session


def move_session(disk: Disk, session: ShellSession, place: Place) -> None:
    """Make a place the cwd of a session."""
    if place.path == session.cwd and place.index.id == session.index:
        return
    previous = session.cwd if place.path != session.cwd else session.previous
    save_shell_session(
        disk, replace(session, cwd=place.path, index=place.index.id, previous=previous)
    )


def change_preferences(
    disk: Disk, session: ShellSession, **given: str | int | None
) -> ShellPreferences:
    """The preferences of a session, with those that are given changed."""
    changes = {name: value for name, value in given.items() if value is not None}
    if changes:
        kept = {**session.preferences, **changes}
        session = save_shell_session(disk, replace(session, preferences=kept))
    return read_preferences(session)


def read_preferences(session: ShellSession | None) -> ShellPreferences:
    """The preferences of a session, the defaults filled in."""
    return ShellPreferences(**(session.preferences if session else {}))  # type: ignore[arg-type]


def find_index(disk: Disk, caller: Caller, handle: str) -> DiskIndex:
    """An index of this caller."""
    found = disk.get_index(handle, caller.user)
    if found is None:
        raise HandleUnknown(f"index {handle!r}", what="index", handle=handle)
    return found


def find_node(
    disk: Disk, caller: Caller, handle: str, index_id: str | None = None
) -> tuple[DiskIndex, Node]:
    """The node of a handle with its index, which must be `index_id` if that is given."""
    wanted = find_index(disk, caller, index_id) if index_id is not None else None
    parts = split_node(handle)
    index = disk.get_index(parts[0], caller.user) if parts else None
    node = disk.tree(index.id).get(parts[1]) if index and parts else None
    if index is None or node is None:
        raise HandleUnknown(f"node {handle!r}", what="node", handle=handle)
    if wanted and wanted.id != index.id:
        raise HandleUnknown(f"node {handle!r} is in another index", what="node", handle=handle)
    return index, node


def find_place(disk: Disk, session: ShellSession, path: str) -> Place:
    """The place that a path means in a session."""
    if path == "-" and not session.previous:
        raise NodeMissing("no folder was left before", what="folder", path="-")
    text = session.previous if path == "-" else path
    place = _locate(disk, session, read_path(text, session.cwd, find_home_folder()))
    return replace(place, names=_settle_names(disk, place.index, place.names))


def place_session(disk: Disk, session: ShellSession) -> Place | None:
    """The place of a session's cwd; None outside of scanned trees."""
    index = disk.get_index(session.index, session.owner) if session.index else None
    cwd = Path(session.cwd)
    if index is None or not cwd.is_relative_to(index.root):
        return None
    return Place(index, cwd.relative_to(index.root).parts)


def place_node(disk: Disk, index: DiskIndex, node: Node) -> Place:
    """The place of a node."""
    return Place(index, list_node_names(disk.tree(index.id), node))


def find_folder(
    disk: Disk, caller: Caller, index_id: str, parent: str | None, path: str | None
) -> tuple[Place, Node | None]:
    """A folder of an index, by its handle or else by its path in the tree."""
    if parent is not None:
        index, found = find_node(disk, caller, parent, index_id)
        node: Node | None = found
        place = place_node(disk, index, found)
    else:
        place = find_inner_place(disk, find_index(disk, caller, index_id), path or "")
        node = walk_to(disk, place)
    _require_folder(place, node)
    return place, node


def find_inner_place(disk: Disk, index: DiskIndex, path: str) -> Place:
    """The place of a path that starts at the root of a tree."""
    names = split_inside(Path(index.root), path.strip("/"))
    return Place(index, _settle_names(disk, index, names))


def _settle_names(disk: Disk, index: DiskIndex, names: Sequence[str]) -> tuple[str, ...]:
    """Names as the system knows them: `\\xe9` means a stray byte unless a name is spelled so."""
    settled: tuple[str, ...] = ()
    for name in names:
        meant = _decode_escapes(name)
        spelled = (*settled, name)
        if meant != name and (
            disk.tree(index.id).find(spelled) or look_live(Path(index.root), "/".join(spelled))
        ):
            meant = name
        settled = (*settled, meant)
    return settled


def _decode_escapes(name: str) -> str:
    if "\\x" not in name:
        return name
    data = _BYTE_ESCAPE.sub(lambda found: chr(0xDC00 + int(found[1], 16)), name)
    return data.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def walk_to(disk: Disk, place: Place) -> Node | None:
    """The node at a place, through links inside the tree; None if it exists but is not scanned."""
    tree = disk.tree(place.index.id)
    node = tree.find(place.names) or _follow_links(tree, place)
    if node is not None:
        return node
    try:
        found = look_live(Path(place.index.root), place.inner_path)
    except (FileMissing, OutsideRoots):
        found = None
    if found is None:
        raise miss_node(place, "path")
    if tree.get(ROOT_ID) is None and disk.workspace.jobs.look_up(place.index.job) is None:
        raise NotScanned("its scan never began", path=shorten_path(place.path))
    return None


def resolve_folder(disk: Disk, place: Place) -> tuple[Place, Node | None]:
    """A place to list: the target if it is a link inside the tree. Refuses what is no folder."""
    tree = disk.tree(place.index.id)
    node = walk_to(disk, place)
    if node is not None and node.kind == LINK and not node.listable:
        node = _follow_links(tree, place) or node
    if node is not None:
        place = replace(place, names=list_node_names(tree, node))
        _require_folder(place, node)
    return place, node


def _require_folder(place: Place, node: Node | None) -> None:
    if node is not None and not node.listable:
        raise miss_node(place, "folder")


def miss_node(place: Place, what: str) -> NodeMissing:
    """The error for a place without a node of that kind."""
    return NodeMissing("it is not in the tree", what=what, path=shorten_path(place.path))


def _follow_links(tree: TreeStore, place: Place) -> Node | None:
    """Follow links along a path, if they lead to a place in the same tree."""
    names = place.names
    for _ in range(_MAX_LINK_HOPS):
        for count in range(1, len(names) + 1):
            node = tree.find(names[:count])
            if node is None:
                return None
            if node.kind == LINK and not node.listable:
                above = Path(place.index.root, *names[: count - 1])
                target = read_path(node.target or ".", str(above), None)
                if not target.is_relative_to(place.index.root):
                    raise OutsideRoots("a link leads out of the tree")
                names = target.relative_to(place.index.root).parts + names[count:]
                break
        else:
            return tree.find(names)
    return None
