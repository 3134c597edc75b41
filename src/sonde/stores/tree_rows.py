"""Rows of the table of nodes <-> nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from sonde.stores.sqlite import bind_text, read_text
from sonde.stores.tree_base import Node

_LONGEST_EXTENSION = 16

COLUMNS = ", ".join(
    f"n.{name}"
    for name in (
        "id parent name kind depth size disk mtime mode links state files folders children "
        "target born"
    ).split()
)
WIDTH = len(Node._fields)


def to_node(row: Sequence[Any]) -> Node:
    """The node of a row of `COLUMNS`."""
    if isinstance(row[2], str) and row[14] is None:
        return Node._make((*row[:14], "", row[15]))
    name, target = read_text(row[2]), read_text(row[14] or "")
    return Node._make((*row[:2], name, *row[3:14], target, row[15]))


def to_row(node: Node) -> tuple[Any, ...]:
    """The row of a node, its extension last."""
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
