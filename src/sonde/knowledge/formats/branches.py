"""Conversations that fork: an answer was asked for again, or a question put in another way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sonde.knowledge.formats.reading import File, make_chat
from sonde.stores.knowledge_base import Entry, Piece


class Node(NamedTuple):
    """A message, or nothing, behind another."""

    parent: str
    said: tuple[Piece, ...]


def make_branches(
    title: str, nodes: Mapping[str, Node], shown: str, file: File, **facts: Any
) -> Iterator[Entry]:
    """The branch that ends in the leaf `shown`; then each other one, from where it forks off."""
    parents = {node.parent for node in nodes.values()}
    leaves = [key for key in nodes if key not in parents]
    taken: set[str] = set()
    first = shown if shown in nodes else next(iter(leaves), "")
    main = _climb(nodes, first, taken)[0]
    yield make_chat(title, main, file, **facts)
    key, number = facts.get("path", ""), 1
    for leaf in leaves:
        if leaf in taken:
            continue
        said, fork = _climb(nodes, leaf, taken)
        if said:
            number += 1
            known = {**facts.get("facts", {}), "branch_of": key, "branches_from": fork}
            own = facts | {"path": f"{key}/{leaf}", "facts": known}
            yield make_chat(f"{title} (branch {number})", said, file, **own)


def _climb(nodes: Mapping[str, Node], leaf: str, taken: set[str]) -> tuple[list[Piece], str]:
    """What was said on the way to a leaf, and the message behind which that way begins."""
    said: list[Piece] = []
    while leaf in nodes and leaf not in taken:
        taken.add(leaf)
        said += reversed(nodes[leaf].said)
        leaf = nodes[leaf].parent
    return said[::-1], leaf
