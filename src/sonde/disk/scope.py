"""Which session, tree and node a call on files is about; nobody reaches what another owns."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

from sonde.app import App
from sonde.errors import FileMissing, HandleUnknown, NodeMissing, NotScanned, OutsideRoots
from sonde.policy.metadata import look_live
from sonde.policy.roots import show_path
from sonde.runtime.jobs import mint_handle, split_node
from sonde.stores.disk.base import LINK, ROOT_ID, DiskIndex, Node, ShellSession
from sonde.tools.schema import Param
from sonde.tools.shapes.shell import has_children, show_path_of
from sonde.types import Caller

_LONGEST = 400
"""Characters of a path in a message."""
_ESCAPE = re.compile(r"\\x([89a-f][0-9a-f])")


@dataclass(frozen=True, slots=True)
class Place:
    """A path inside a scanned tree; `names` lead from its root down."""

    index: DiskIndex
    names: tuple[str, ...]

    @property
    def path(self) -> str:
        """The whole path."""
        return str(Path(self.index.root, *self.names))


def read_path(text: str, cwd: str, home: Path | None) -> Path:
    """The absolute path that a text means in a folder: relative, `..`, `~`; links stay as named."""
    if "\0" in text:
        raise OutsideRoots("the path holds a NUL character")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise OutsideRoots("no file can have such a name") from error
    if text == "~" or text.startswith("~/"):
        if home is None:
            raise OutsideRoots("nobody's home is known")
        text = str(home / text[2:])
    return Path(os.path.normpath(Path(cwd or "/", text)))


def locate(
    target: Path, indexes: Iterable[DiskIndex], current: str, roots: Iterable[Path]
) -> Place:
    """The tree that a path lies in: the current one if it does, else the nearest above it.

    What lies in none is refused alike whether it exists or not.
    """
    known = list(indexes)
    for place in (target, _resolve(target)):
        holding = [index for index in known if place.is_relative_to(index.root)]
        if holding:
            best = max(holding, key=lambda index: (index.id == current, len(index.root)))
            return Place(best, place.relative_to(best.root).parts)
    if any(target.is_relative_to(root) for root in roots):
        shown = str(target) if len(str(target)) <= _LONGEST else f"{str(target)[:_LONGEST]}…"
        raise NotScanned("no scanned tree holds it", path=show_path(shown))
    raise OutsideRoots(
        "the path lies in no scanned tree and in none of the allowed folders",
        user_message="That path is outside the folders that may be looked at.",
        next_action="Name a path inside a scanned folder; `cd ~` and `cd -` lead back.",
    )


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path


def read_node_name(name: str) -> str:
    """A name as it was shown -> as the system knows it: `\\xe9` may stand for a stray byte."""
    if "\\x" not in name:
        return name
    data = _ESCAPE.sub(lambda found: chr(0xDC00 + int(found[1], 16)), name)
    return data.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


SessionParam = Annotated[
    str | None,
    Param("sessionId of an answer; default: this connection's", max_length=64, terse=True),
]
PREFERENCES: dict[str, Any] = {"units": "bytes", "limit": 20, "sort": "name"}


def now_ms() -> int:
    """This moment in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def find_shell_session(app: App, caller: Caller, handle: str | None) -> ShellSession:
    """The session named, the one of this connection, or a new one."""
    key = (caller.user, caller.session)
    given = handle or app.disk.sessions.get(key)
    found = app.disk.saved.session(given, caller.user) if given else None
    if handle and found is None:
        raise HandleUnknown(f"session {handle!r}", what="session", handle=handle)
    if found is None:
        found = ShellSession(
            mint_handle(), caller.user, cwd=str(app.workspace.start), updated_ms=now_ms()
        )
        app.disk.saved.put_session(found)
    if caller.session or not app.workspace.stays:
        app.disk.remember(key, found.id)
    return found


def keep_session(app: App, session: ShellSession, **changes: Any) -> ShellSession:
    """The session with these changes, written down."""
    changed = replace(session, **changes, updated_ms=now_ms())
    app.disk.saved.put_session(changed)
    return changed


def read_preferences(session: ShellSession | None) -> dict[str, Any]:
    """What a session prefers, the defaults filled in."""
    return PREFERENCES | dict(session.preferences if session else {})


def find_index(app: App, caller: Caller, handle: str) -> DiskIndex:
    """An index of this caller."""
    found = app.disk.saved.index(handle, caller.user)
    if found is None:
        raise HandleUnknown(f"index {handle!r}", what="index", handle=handle)
    return found


def find_node(app: App, caller: Caller, handle: str) -> tuple[DiskIndex, Node]:
    """The node of a handle, and its index."""
    parts = split_node(handle)
    index = app.disk.saved.index(parts[0], caller.user) if parts else None
    node = app.disk.tree(index.id).get(parts[1]) if index and parts else None
    if index is None or node is None:
        raise HandleUnknown(f"node {handle!r}", what="node", handle=handle)
    return index, node


def find_place(app: App, session: ShellSession, path: str) -> Place:
    """The place that a path means in a session."""
    text = path
    if path == "-":
        if not session.previous:
            raise NodeMissing("no folder was left before", what="folder", path="-")
        text = session.previous
    target = read_path(text, session.cwd, find_home_folder())
    indexes = app.disk.saved.indexes(session.owner)
    place = locate(target, indexes, session.index, app.disk.roots)
    return replace(place, names=settle_names(app, place.index, place.names))


def settle_names(app: App, index: DiskIndex, names: Sequence[str]) -> tuple[str, ...]:
    """Names as the system knows them: an escape stands for a byte unless a name is spelled so."""
    settled: tuple[str, ...] = ()
    for name in names:
        meant = read_node_name(name)
        if meant != name and _exists(app, index, (*settled, name)):
            meant = name
        settled = (*settled, meant)
    return settled


def _exists(app: App, index: DiskIndex, names: tuple[str, ...]) -> bool:
    if app.disk.tree(index.id).find(names):
        return True
    return look_live(Path(index.root), "/".join(names)) is not None


def find_home_folder() -> Path | None:
    """The home folder, where one is known."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def walk_to(app: App, place: Place) -> Node | None:
    """The node at a place, through links that stay inside the tree; None when it is not scanned
    yet but is there."""
    tree = app.disk.tree(place.index.id)
    node = tree.find(place.names)
    if node is not None:
        return node
    target = _follow_links(app, place)
    if target is not None:
        return target
    try:
        there = look_live(Path(place.index.root), "/".join(place.names))
    except (FileMissing, OutsideRoots):
        there = None
    if there is None:
        raise miss_node(place, "path")
    if tree.get(ROOT_ID) is None and app.workspace.jobs.look_up(place.index.job) is None:
        raise NotScanned("its scan never began", path=show_path_of(place.path))
    return None


def miss_node(place: Place, what: str) -> NodeMissing:
    """The error for a place where nothing of that kind is."""
    return NodeMissing("it is not in the tree", what=what, path=show_path_of(place.path))


def _follow_links(app: App, place: Place, hops: int = 8) -> Node | None:
    """The node behind a link on the way, when the link leads to a place in the same tree."""
    tree = app.disk.tree(place.index.id)
    names = place.names
    while hops:
        hops -= 1
        for count in range(1, len(names) + 1):
            node = tree.find(names[:count])
            if node is None:
                return None
            if node.kind == LINK and not has_children(node):
                above = Path(place.index.root, *names[: count - 1])
                target = read_path(node.target or ".", str(above), None)
                if not target.is_relative_to(place.index.root):
                    raise OutsideRoots("a link leads out of the tree")
                names = target.relative_to(place.index.root).parts + names[count:]
                break
        else:
            return tree.find(names)
    return None


def resolve_folder(app: App, place: Place) -> tuple[Place, Node | None]:
    """A place to list: where a link leads when it is one."""
    node = walk_to(app, place)
    if node is not None and node.kind == LINK and not has_children(node):
        node = _follow_links(app, place) or node
    if node is not None:
        names = tuple(step.name for step in app.disk.tree(place.index.id).trail(node.id)[1:])
        place = replace(place, names=names)
    return place, node


def read_cursor(given: str | None) -> str | None:
    """The cursor itself, also from a whole nextPageUrl."""
    if given and "cursor=" in given:
        return parse_qs(urlsplit(given).query).get("cursor", [given])[0]
    return given
