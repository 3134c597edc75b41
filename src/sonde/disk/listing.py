"""Listings of a folder: from the tree, or straight from the disk where the scan has yet to come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sonde.app import App
from sonde.disk.scope import Place
from sonde.paging.cursor import decode_key, encode_key
from sonde.policy.metadata import Facts, list_live
from sonde.policy.roots import show_path
from sonde.runtime.jobs import join_node
from sonde.stores.disk.base import PENDING, STATES, Node, Sort
from sonde.tools.shapes.shell import (
    fit_rows,
    shorten_text,
    show_breadcrumb,
    show_bytes,
    show_epoch,
    show_listing_entry,
)
from sonde.types import Caller

Page = dict[str, Any]
"""`entries`, `nextPageUrl`, `breadcrumb` and, where it is not simply there, `state`."""


def list_folder(
    app: App,
    place: Place,
    node: Node | None,
    caller: Caller,
    *,
    limit: int,
    sort: Sort = "name",
    cursor: str | None = None,
    units: str = "bytes",
    most_bytes: int | None = None,
) -> Page:
    """One page of a folder; `node` is None where the scan has not come to it."""
    if node is None or node.state == PENDING:
        return _list_live(app, place, caller, limit, cursor, units, most_bytes)
    index = place.index.id
    scope = f"tree:{index}:{node.id}:{sort}"
    after = decode_key(cursor, scope, app.workspace.key) if cursor else None
    tree = app.disk.tree(index)
    found = tree.children(node.id, limit + 1, sort, after)
    trail = show_breadcrumb(index, tree.trail(node.id), place.index.root)

    def shape(rows: Sequence[Node]) -> Page:
        following = None
        if rows and len(rows) < len(found):
            key = encode_key(_key_of(rows[-1], sort), scope, app.workspace.key)
            following = f"{link_folder(index, node.id, sort)}&limit=50&cursor={key}"
        page: Page = {
            "breadcrumb": trail,
            "entries": [show_listing_entry(index, row, caller, units) for row in rows],
            "nextPageUrl": caller.link(following) if following else None,
        }
        return page | ({"state": STATES[node.state]} if node.state else {})

    return _cut(found[:limit], shape, most_bytes)


def link_folder(index: str, node: int, sort: Sort = "name") -> str:
    """The address of a folder's listing."""
    order = "" if sort == "name" else f"&sort={sort}"
    return f"indexes/{index}/tree?parent={join_node(index, node)}{order}"


def _key_of(node: Node, sort: Sort) -> list[Any]:
    if sort == "name":
        return [node.name]
    return [-(node.size if sort == "size" else node.mtime_ms), node.id]


def _list_live(
    app: App,
    place: Place,
    caller: Caller,
    limit: int,
    cursor: str | None,
    units: str,
    most_bytes: int | None,
) -> Page:
    index, path = place.index.id, "/".join(place.names)
    scope = f"live:{index}:{path}"
    after = decode_key(cursor, scope, app.workspace.key)[0] if cursor else None
    live = list_live(Path(place.index.root), path)
    found = [facts for facts in live if after is None or facts.name > after][: limit + 1]
    names = (Path(place.index.root).name or place.index.root, *place.names)
    trail = [{"nodeId": None, "name": shorten_text(name, 80)} for name in names][-8:]

    def shape(rows: Sequence[Facts]) -> Page:
        following = None
        if rows and len(rows) < len(found):
            key = encode_key([rows[-1].name], scope, app.workspace.key)
            following = f"indexes/{index}/tree?path={quote_path(path)}&limit=50&cursor={key}"
        return {
            "breadcrumb": trail,
            "entries": [_show_live(index, path, row, caller, units) for row in rows],
            "nextPageUrl": caller.link(following) if following else None,
            "state": "pending",
        }

    return _cut(found[:limit], shape, most_bytes)


def _cut(rows: Sequence[Any], shape: Any, most_bytes: int | None) -> Page:
    page: Page = fit_rows(rows, shape, most_bytes) if most_bytes else shape(rows)
    return page


def quote_path(path: str) -> str:
    """A path inside a tree as a query string takes it."""
    return quote(show_path(path), safe="/")


def _show_live(index: str, folder: str, facts: Facts, caller: Caller, units: str) -> dict[str, Any]:
    """A ListingEntry of what has no node yet."""
    path = f"{folder}/{facts.name}" if folder else facts.name
    kind = "tree" if facts.kind == "directory" else "detail"
    return {
        "nodeId": None,
        "name": shorten_text(facts.name, 260),
        "kind": facts.kind,
        "size": None if facts.kind == "directory" else show_bytes(facts.size, units),
        "modifiedAt": show_epoch(facts.mtime_ms),
        "state": "pending",
        "link": caller.link(f"indexes/{index}/{kind}?path={quote_path(path)}"),
    }
