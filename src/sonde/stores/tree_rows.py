"""Rows of the table of nodes <-> nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from sonde.stores.sqlite import bind_text, read_text
from sonde.stores.tree_base import Node

_LONGEST_EXTENSION = 16

COLUMNS = (
    "n.id, n.parent, n.name, n.kind, n.depth, n.size, n.disk, n.mtime, n.mode, n.links, n.state, "
    "n.files, n.folders, n.children, ifnull(n.target, ''), n.born"
)
WIDTH = len(Node._fields)


def to_node(row: Sequence[Any]) -> Node:
    """The node of a row of `COLUMNS`."""
    if isinstance(row[2], str) and isinstance(row[14], str):
        return Node._make(row)
    return Node._make((*row[:2], read_text(row[2]), *row[3:14], read_text(row[14]), row[15]))


def to_row(node: Node) -> tuple[Any, ...]:
    """The row of a node, its extension last."""
    if node.name.isascii() and not node.target:
        return (*node[:14], None, node.born, _ending(node))
    name = bind_text(node.name)
    return (*node[:2], name, *node[3:14], bind_text(node.target) or None, node.born, _ending(node))


def _ending(node: Node) -> str:
    """The extension that a file is counted under: short, lower-case, and plain text."""
    if node.kind:
        return ""
    stem, _, ending = node.name.rpartition(".")
    if not stem or len(ending) > _LONGEST_EXTENSION or not ending.isalnum():
        return ""
    return ending.lower()


def get_node(db: apsw.Connection, id_: int) -> Node | None:
    """One node."""
    row = db.execute(f"SELECT {COLUMNS} FROM nodes n WHERE n.id = ?", (id_,)).fetchone()  # noqa: S608
    return to_node(row) if row else None
