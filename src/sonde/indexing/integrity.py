"""Comparison of an index with the files and with itself, and repair of what differs.

The RFC's algorithm: every file is hashed and compared, whatever its size and time claim. On top
of it the stores are compared with themselves. Only the repair takes the writer's lock.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from sonde.embedding.base import Embedder
from sonde.indexing.diff import Refusals, States, Stores, compare_index
from sonde.indexing.pipeline import refine_vectors, update_index
from sonde.indexing.sources import Tree
from sonde.runtime.work import Work, WriterLock
from sonde.stores.records import Findings
from sonde.text.languages import language_of
from sonde.types import FileState, Kind, ListedFile, Progress, Skipped

_REPORT_EVERY = 100  # files between two reports: hashing so few is a moment


def check_index(
    tree: Tree,
    stores: Stores,
    static: Mapping[Kind, Embedder],
    lock: WriterLock,
    work: Work,
    *,
    refused: Refusals | None = None,
    thorough: bool = False,
    changes_wait: bool = False,
) -> Findings:
    """Compare the stores with the files and with themselves, and repair what differs.

    `thorough` also looks at every single word. With `changes_wait`, files that were changed, added
    or removed are left to the strategy that lets them wait. Raises `IndexCorrupt` when a store
    cannot be repaired piece by piece. `refused` is brought up to date in place, as by
    `update_index`.
    """
    began = time.monotonic()
    refused = {} if refused is None else refused
    seen, suspects = _compare_files(tree, stores, refused, work, changes_wait=changes_wait)
    drifts = {}
    for kind, store in stores.items():
        work.report(Progress("checking", len(seen), len(seen), message=kind))
        drifts[kind] = store.find_drift(work.check, thorough=thorough)
    covered = [stores[kind].coverage(model.name) for kind, model in static.items()]
    damaged = sum(store.count_damaged() for store in stores.values())  # counted as drift
    lost = max(sum(total - have for have, total in covered) - damaged, 0)
    broken = set().union(*(drift.files for drift in drifts.values()))
    torn = {kind for kind, drift in drifts.items() if drift.strays or drift.vectors}
    counted: Counter[str] = Counter()
    # while a project is worked on, the writer has indexed nearly all of it meanwhile, and must not
    # wait for a check of lowest priority
    if broken or lost or torn or _find_real(tree, stores, suspects, refused):
        with lock.held(work):
            for kind in torn:
                stores[kind].drop_broken()
            real = _find_real(tree, stores, suspects, refused)
            counted.update(real.values())
            _index_again(tree, stores, static, work, refused, {*real, *broken})
            refine_vectors(stores, static, lock, work)
    return Findings(
        files=len(seen),
        broken=len(broken),
        strays=sum(drift.strays for drift in drifts.values()),
        vectors=lost + sum(drift.vectors for drift in drifts.values()),
        thorough=thorough,
        seconds=time.monotonic() - began,
        **counted,
    )


def _compare_files(
    tree: Tree, stores: Stores, refused: Refusals, work: Work, *, changes_wait: bool
) -> tuple[set[str], list[str]]:
    """Every file there is, and those that seem to differ from what is indexed."""
    known: States = {kind: store.files() for kind, store in stores.items()}
    entries = [entry for entry in tree.walk() if not isinstance(entry, Skipped)]
    seen: set[str] = set()
    suspects = []
    for entry in entries:
        if len(seen) % _REPORT_EVERY == 0:
            work.report(Progress("checking", len(seen), len(entries)))
        if tree.kind_of(entry.path) is None:
            continue
        seen.add(entry.path)
        states = {k: files[entry.path] for k, files in known.items() if entry.path in files}
        as_indexed = any(state.stamp == entry.stamp for state in states.values())
        if (as_indexed or not changes_wait) and _judge(tree, entry, states, refused):
            suspects.append(entry.path)
    if not changes_wait:
        suspects += {path for files in known.values() for path in files if path not in seen}
    return seen, suspects


def _index_again(
    tree: Tree,
    stores: Stores,
    static: Mapping[Kind, Embedder],
    work: Work,
    refused: Refusals,
    paths: set[str],
) -> None:
    """Index these files from their contents, and drop the rows that this leaves without a file."""
    diff = compare_index(tree, stores, work, refused=refused, paths=paths, force=True)
    update_index(tree, stores, static, work, diff)
    for store in stores.values():
        if store.find_drift(work.check, thorough=False).strays:
            store.drop_broken()


def _find_real(
    tree: Tree, stores: Stores, suspects: Sequence[str], refused: Refusals
) -> dict[str, str]:
    """Those of the suspects that differ even now, and how."""
    known: States = {kind: store.files(suspects) for kind, store in stores.items()}
    found = {}
    for path in suspects:
        states = {kind: files[path] for kind, files in known.items() if path in files}
        if verdict := _judge(tree, tree.check(path), states, refused):
            found[path] = verdict
    return found


def _judge(
    tree: Tree, entry: ListedFile | Skipped, states: Mapping[Kind, FileState], refused: Refusals
) -> str | None:
    """How a file differs from what is indexed of it; None when it does not."""
    kind = tree.kind_of(entry.path)
    if isinstance(entry, Skipped) or kind is None:
        return "gone" if states else None
    stamp, *_ = refused.get(entry.path, (0, "", ""))
    if not states and stamp == entry.stamp:
        return None
    content = tree.read(entry.path)
    if isinstance(content, Skipped):
        return "gone" if states else None
    if kind not in states:
        return "missing"
    now = (content.hash, language_of(entry.path).name)
    same = now == (states[kind].hash, states[kind].language)
    return None if same and len(states) == 1 else "changed"
