"""Cleanup of a shared index: removes old commits, and rows that no commit names.

A row is removed only if no commit names it and no push has marked it within a day. A running push
loses nothing, because it marks every row before it relies on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from operator import methodcaller

from sonde.errors import SharedIndexUnreachable
from sonde.runtime.system import now_ms
from sonde.runtime.work import Work
from sonde.shared.index import SharedIndex
from sonde.shared.manifest import name_rows, unpack_manifest
from sonde.shared.snapshot import Snapshot
from sonde.shared.tables import SCHEMAS, SharedTables, is_conflict, quote_text, split_among

KEPT = timedelta(days=30)  # a commit that is no longer the head of a branch
_GRACE = timedelta(days=1)  # a row that nothing names: longer than any push, or reader, takes
_PACK = re.compile(r"pack_(\d+)_")  # and when it was made
_STALE_COMMITS = 50  # from this many on, a push cleans by itself


def clean_index(
    shared: SharedIndex, work: Work, *, grace: timedelta = _GRACE, now: Callable[[], int] = now_ms
) -> dict[str, int]:
    """Remove unneeded commits, rows and packs. Returns the number removed of each."""
    tables, began = shared.tables, now()
    cut = began - int(grace.total_seconds() * 1000)
    before = began - int(KEPT.total_seconds() * 1000)
    stale = list_stale(shared, before)
    for repository, commit in stale:
        where = f"repository = {quote_text(repository)} AND commit = {quote_text(commit)}"
        # one that is pushed again at this moment stays
        tables.change("commits", methodcaller("delete", f"{where} AND pushed_ms < {before}"))
    work.check()
    files: set[str] = set()
    texts: set[str] = set()
    packs: set[str] = set()
    for row in tables.read_rows("commits", ["recipe", "manifest", "snapshot"]):
        for path, fact in unpack_manifest(row["manifest"]).items():
            files.add(name_rows(row["recipe"], path, fact))
            texts.add(fact.digest)
        packs |= Snapshot.unpack(row["snapshot"]).packs.keys()
    removed = {"commits": len(stale)}
    removed["files"] = _sweep(tables, "files", "key", files, cut)
    # rows of a file that is gone, and those that a push wrote and did not live to name
    held = tables.read_column("files", "key")
    removed["chunks"] = _sweep(tables, "chunks", "file", held, cut)
    removed["texts"] = _sweep(tables, "texts", "digest", texts, cut)
    work.check()
    digests = tables.read_column("chunks", "digest")
    names = tables.list_names()
    vectors = [name for name in names if name.startswith("vectors_")]
    removed["vectors"] = sum(_sweep(tables, name, "digest", digests, cut) for name in vectors)
    made = {name: int(match[1]) for name in names if (match := _PACK.match(name))}
    unused = [name for name in made.keys() - packs if made[name] < cut]
    for name in unused:
        tables.drop(name)
    removed["packs"] = len(unused)
    for name in [*SCHEMAS, *vectors]:
        work.check()
        tables.optimize(name, kept=grace)
    return removed


def list_stale(shared: SharedIndex, before_ms: int) -> list[tuple[str, str]]:
    """Commits pushed before a time that are the head of no branch."""
    heads = {(one.repository, one.commit) for one in shared.list_branches()}
    columns = ["repository", "commit"]
    rows = shared.tables.read_rows("commits", columns, f"pushed_ms < {before_ms}")
    return [pair for row in rows if (pair := (row["repository"], row["commit"])) not in heads]


def _sweep(tables: SharedTables, name: str, key: str, needed: set[str], cut: int) -> int:
    """Remove old unneeded rows. The age is checked again when the deletion commits."""
    gone = sorted(tables.read_column(name, key, f"seen_ms < {cut}") - needed)
    for condition in split_among(key, gone):
        tables.change(name, methodcaller("delete", f"{condition} AND seen_ms < {cut}"))
    return len(gone)


def maintain_tables(shared: SharedIndex, work: Work) -> str:
    """Keep the indexes of the tables current after a push. Returns a note if that failed.

    Rows without an index are found too, only a little slower. A conflict means that another push
    maintains the tables, and is ignored.
    """
    try:
        if len(list_stale(shared, now_ms() - int(KEPT.total_seconds() * 1000))) >= _STALE_COMMITS:
            clean_index(shared, work)
        for name in shared.tables.list_names():
            work.check()
            shared.tables.maintain(name)
    except SharedIndexUnreachable as error:
        return "" if is_conflict(error) else f"not maintained: {error.user_message}"
    return ""
