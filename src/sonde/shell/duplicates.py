"""Digests of files that may be copies: those that share their size with another."""

from __future__ import annotations

from pathlib import Path

from sonde.errors import Cancelled, SondeError
from sonde.policy.content import digest_file
from sonde.stores.tree_base import Node, TreeStore
from sonde.types import Progress
from sonde.work import Work

_KEPT_AT_ONCE = 200
_SMALLEST = 1
"""Bytes; empty files are all alike and waste nothing."""


def digest_candidates(store: TreeStore, root: Path, work: Work) -> dict[str, int]:
    """Digest what could be a copy and is not digested as it is now; secrets are never opened."""
    candidates: list[Node] = list(store.undigested(_SMALLEST))
    total = sum(node.size for node in candidates)
    done = compared = refused = 0
    found: list[tuple[int, int, int, bytes]] = []
    for node in candidates:
        work.report(Progress("comparing", done, total))
        path = "/".join(step.name for step in store.trail(node.id)[1:])
        try:
            digest, size, mtime_ms = digest_file(root, path, work.check)
        except Cancelled:
            store.keep_digests(found)
            raise
        except (SondeError, OSError):
            refused += 1
        else:
            if (size, mtime_ms) == (node.size, node.mtime_ms):
                found.append((node.id, size, mtime_ms, digest))
                compared += 1
        done += node.size
        if len(found) >= _KEPT_AT_ONCE:
            store.keep_digests(found)
            found = []
    store.keep_digests(found)
    work.report(Progress("comparing", total, total))
    return {"compared": compared, "notOpened": refused, "bytes": total}
