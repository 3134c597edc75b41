"""Conditions on contents: the nodes whose files our own searches find."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from sonde.app import App
from sonde.disk.scope import now_ms
from sonde.errors import Cancelled, IndexNotFound, SondeError
from sonde.policy.content import digest_file
from sonde.projects.find import known_roots
from sonde.projects.lines import LineScan, scan_project
from sonde.projects.project import Project
from sonde.projects.search import Request, rank_everywhere
from sonde.ranking.question import read_question
from sonde.runtime.jobs import Job
from sonde.runtime.work import Work
from sonde.stores.disk.base import Context, DiskIndex, Node, TreeStore
from sonde.stores.disk.filters import CONTENT, Condition, Filter, list_conditions
from sonde.types import Progress

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


_BEST = 200
"""Files that a ranked search may add to a selection."""
_DUPLICATE = Condition("is", ":", "duplicate")


def gather_context(app: App, index: DiskIndex, where: Filter, work: Work) -> Context:
    """What a filter needs beyond metadata: contents searched, copies compared."""
    tests = list(dict.fromkeys(list_conditions(where)))
    if _DUPLICATE in tests:
        compare_copies(app, index).join(work)
    found = {test: _find(app, index, test, work) for test in tests if test.field in CONTENT}
    return Context(now_ms(), found)


def compare_copies(app: App, index: DiskIndex) -> Job:
    """The job that digests what may be a copy in an index."""
    return app.workspace.jobs.submit(
        f"duplicates:{index.id}",
        "duplicates",
        lambda inner: digest_candidates(app.disk.tree(index.id), Path(index.root), inner),
        owner=index.owner,
        subject=index.id,
    )


def _find(app: App, index: DiskIndex, test: Condition, work: Work) -> Collection[int]:
    query = str(test.value)
    places = (
        _grep(app, index, query, work)
        if test.field == "content"
        else _rank(app, index, test.field, query, work)
    )
    tree, root, nodes = app.disk.tree(index.id), Path(index.root), set()
    for place in places:
        if place.is_relative_to(root):
            node = tree.find(place.relative_to(root).parts)
            if node:
                nodes.add(node.id)
    return nodes


def _grep(app: App, index: DiskIndex, pattern: str, work: Work) -> set[Path]:
    """Files below the root with a line that matches; needs no index of contents."""
    project = app.workspace.projects.get(Path(index.root))
    lines = scan_project(project, LineScan(pattern), work, max_count=1)
    return {_place(project, file.path) for file, _ in lines}


def _rank(app: App, index: DiskIndex, mode: str, query: str, work: Work) -> set[Path]:
    """Files among the best answers of the indexed projects that lie here, or that this lies in."""
    root = Path(index.root)
    near = [
        p for p in known_roots(app.workspace) if p.is_relative_to(root) or root.is_relative_to(p)
    ]
    if not near:
        raise IndexNotFound(f"no project is indexed in {root}, below it or above it")
    places: set[Path] = set()
    for place in near:
        under = root.relative_to(place).as_posix() if root.is_relative_to(place) else "."
        request = Request(
            tool="query_run",
            query=query,
            kinds=("code", "docs"),
            top_k=_BEST,
            mode=mode,
            project=str(place),
            under="" if under == "." else under,
        )
        hits = rank_everywhere(app.workspace, request, read_question(query), work).hits
        project = app.workspace.projects.get(place)
        places |= {_place(project, hit.path) for hit in hits}
    return places


def _place(project: Project, path: str) -> Path:
    source = next(s for s in project.tree.sources if path.startswith(s.prefix))
    return source.root / path.removeprefix(source.prefix)
