"""What a search with pages finds: ranked chunks of the index, or lines of the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from sonde.app import App, Project
from sonde.errors import CatalogError, InvalidRequest, OutsideRoots
from sonde.languages import language_of
from sonde.ranking.words import read_question
from sonde.searching.paths import read_folder
from sonde.tools.scanning import Scan, scan_project
from sonde.tools.scope import ALL, find_project, projects_in_scope
from sonde.tools.searching import Request, rank_everywhere
from sonde.tools.shapes.page import show_score
from sonde.types import FileState, Hit, Span
from sonde.work import Work

Mode = Literal["semantic", "lexical", "hybrid", "regex"]

_MOST_CHARS = 16_000_000
"""Text of the lines of one scan; far more than anyone pages through."""


def find_ranked(
    app: App, mode: Mode, asked: Mapping[str, Any], work: Work
) -> tuple[Sequence[Hit], dict[str, Any]]:
    """Chunks, best first, and what every page says of them."""
    project, under = _place(app, asked)
    request = Request(
        tool=asked["tool"],
        query=asked["query"],
        kinds=("code", "docs"),
        top_k=asked["top_k"],
        mode=mode,
        project=project,
        under=under,
        include=asked["include"],
        exclude=asked["exclude"],
        language=asked["language"],
        tags=asked["tags"],
        chunk_types=asked["chunk_types"],
        whole=mode == "hybrid",
    )
    hits, metadata = rank_everywhere(app, request, read_question(asked["query"]), work)
    least = asked["threshold"]
    if least is not None:
        hits = [hit for hit in hits if show_score(hit.score) >= least]
    stats = _count_index(projects_in_scope(app, project))
    capped = len(hits) >= asked["top_k"]
    return hits, {"index_stats": stats, "metadata": metadata, "capped": capped}


def find_lines(
    app: App, mode: Mode, asked: Mapping[str, Any], work: Work
) -> tuple[Sequence[Hit], dict[str, Any]]:
    """Lines by path and line, and what every page says of them."""
    del mode
    project, under = _place(app, asked)
    scan = read_scan(asked, under)
    scan.compile()  # a pattern that is wrong is told before anything is walked
    several = project == ALL
    projects = projects_in_scope(app, ALL) if several else [find_project(app, project)]
    hits: list[Hit] = []
    room = _MOST_CHARS
    capped = False
    for hit in chain.from_iterable(_lines_of(found, scan, work) for found in projects):
        if len(hits) == asked["top_k"] or room < 0:
            capped = True
            break
        hits.append(hit)
        room -= len(hit.text)
    facts = {"index_stats": _count_index(projects), "metadata": {}, "capped": capped}
    return hits, facts


def _lines_of(project: Project, scan: Scan, work: Work) -> Iterator[Hit]:
    """Matching lines as hits that know the state of their file."""
    state: FileState | None = None
    for text, line in scan_project(project, scan, work, spans=False):
        if state is None or state.path != text.path:
            kind = project.tree.kind_of(text.path) or "docs"
            name = language_of(text.path).name
            state = FileState(text.path, "", text.size, text.mtime_ns, name, kind)
        end = line.start_byte + len(line.text.encode("utf-8", "surrogatepass"))
        yield Hit(
            project=str(project.root),
            kind=state.kind,
            path=line.path,
            span=Span(line.line, line.line, line.start_byte, end),
            text=line.text,
            score=1.0,
            score_type="regex",
            language=state.language,
            state=state,
        )


def read_scan(asked: Mapping[str, Any], under: str) -> Scan:
    """The scan that the parameters of a search ask for."""
    return Scan(
        asked["query"],
        ignore_case=asked["ignore_case"],
        whole_word=asked["whole_word"],
        fixed_string=asked["fixed_string"],
        paths=(under,) if under else (),
        include=asked["include"],
        exclude=asked["exclude"],
        language=asked["language"],
    )


def _place(app: App, asked: Mapping[str, Any]) -> tuple[str | None, str]:
    """The project and the folder in it; a whole path names both."""
    project, path = asked["project"], asked["path"]
    if not path or not Path(path).is_absolute():
        return project, read_folder(path)
    real = Path(path).resolve()
    if project is None:
        project = str(real if real.is_dir() else real.parent)
    if project == ALL:
        raise InvalidRequest(f"path {path!r} with project 'all'")
    root = find_project(app, project).root
    if not real.is_relative_to(root):
        raise OutsideRoots(f"{path} is not below {root}")
    return str(root), read_folder(real.relative_to(root).as_posix())


def _count_index(projects: Sequence[Project]) -> dict[str, int]:
    """What the index holds; nothing where there is none, or none that can be read."""
    files = chunks = 0
    for project in projects:
        try:
            for store in project.stores().values() if project.is_indexed() else ():
                counts = store.counts()
                files, chunks = files + counts.files, chunks + counts.chunks
        except CatalogError:
            continue
    return {"total_files": files, "total_chunks": chunks}
