"""`import sonde`: the verbs as typed functions that return values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, Unpack

from sonde.disk.indexes import find_index_of, start_scan
from sonde.disk.sets import find_matches
from sonde.errors import NotScanned
from sonde.paging.budget import SHORTEST_SNIPPET, count_tokens, fit_page, snippet_limit
from sonde.projects.find import find_project
from sonde.projects.lines import LineScan, scan_project
from sonde.projects.search import open_search_page
from sonde.projects.views import ProjectSearcher
from sonde.runtime.work import Work
from sonde.searching.contexts import ContextSearcher
from sonde.searching.filters import read_folder
from sonde.searching.lines.grep import Line
from sonde.searching.request import Request
from sonde.settings import load_settings
from sonde.tools import code
from sonde.tools import index as indexes
from sonde.tools.shapes.nodes import show_matches
from sonde.types import Caller, Hit, Kind, Progress
from sonde.values import to_camel
from sonde.wiring import build_app

ProgressCallback = Callable[[Progress], None]
SearchMode = Literal["auto", "hybrid", "semantic", "lexical", "related", "history"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """The answer of a tool with typed fields."""

    answer: Mapping[str, Any] = field(repr=False)

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Self:
        """The value of an answer, whose keys are the fields' names, most in camel case."""
        names = [one.name for one in fields(cls)]
        given = {name: answer[key] for name in names for key in (name, to_camel(name))
                 if key in answer}  # fmt: skip
        return cls(answer=answer, **given)

    def as_dict(self) -> dict[str, Any]:
        """The documented JSON."""
        return dict(self.answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexResult(Value):
    """What `index` did; as `create_index` answers."""

    status: str
    project_path: str
    files_indexed: int
    chunks_created: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Reason -> how many files were left out for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(Value):
    """How large, fresh and complete an index is; as `get_index_status` answers."""

    status: str
    """`ready`, `indexing` or `incomplete`."""
    project_path: str
    total_files: int
    total_chunks: int
    last_updated: str | None
    """ISO 8601; None before the first index is complete."""
    storage_size: str
    watcher_active: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    """Store, vectors, what was left out, and how the index is kept up to date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeResult(Value):
    """One place in personal knowledge; as `knowledge_search` answers."""

    source: str
    title: str | None
    snippet: str | None
    uri: str
    score: float
    duplicates: Sequence[Mapping[str, str]] = ()
    """Up to five others with the same text, each by `uri`, `title` and `file`."""
    duplicates_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCounts(Value):
    """How many entries an import added, updated and so on."""

    added: int
    updated: int
    moved: int
    removed: int
    unchanged: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskEntry(Value):
    """A file or folder of a scanned disk."""

    path: str
    kind: str
    size: int
    modified_at: str
    """ISO 8601."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskScan(Value):
    """What a scan found, and what changed since the one before."""

    files: int
    folders: int
    size: int
    """Bytes, as `du --apparent-size` counts them."""
    added: int
    changed: int
    removed: int


class SearchFilters(TypedDict, total=False):
    """Options of `search`; see `Sonde.search`."""

    limit: int
    docs: bool
    mode: SearchMode
    path: str | None
    max_tokens: int


class LineFilters(TypedDict, total=False):
    """Which lines `grep` looks for, and in which files."""

    paths: Sequence[str]
    """Only below these folders or files."""
    ignore_case: bool
    whole_word: bool
    fixed_string: bool
    include: Sequence[str]
    """Only paths matching one of these globs."""
    exclude: Sequence[str]
    language: str | None


class LineOptions(LineFilters, total=False):
    """Options of `grep`; see `Sonde.grep`."""

    before: int
    after: int
    max_count: int | None
    limit: int


class Sonde:
    """An open installation: indexes and models stay loaded between calls."""

    def __init__(self, project: str | Path = ".", *, home: str | Path | None = None) -> None:
        settings = load_settings(os.environ, home=home, assume_yes=True)
        start = Path(project).expanduser().resolve()
        self.app = build_app(settings, start=start)
        """The parts that every verb works on, for `sonde.mcp.mounting`."""
        self._project = str(start)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every file."""
        self.app.close()

    def index(self, *, report: ProgressCallback | None = None) -> IndexResult:
        """Index the project, or bring its index up to date."""
        work = Work(report=report)
        return IndexResult.read(indexes.create_index(self.app, self._project, work=work))

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        docs: bool = False,
        mode: SearchMode = "auto",
        path: str | None = None,
        max_tokens: int = 20_000,
    ) -> list[Hit]:
        """The best places for a question, words or a symbol.

        `docs` searches documentation instead of code, `path` only below that folder. `max_tokens`
        limits all hits together, as JSON. Mode `related` finds what is near to a place
        (`cart.py:120`) or a passage, mode `history` commits: a hit's path is then the commit's id.
        """
        kind: Kind = "docs" if docs else "code"
        folder, workspace = read_folder(path), self.app.workspace
        request = Request(f"search_{kind}", query, (kind,), limit, mode, self._project, folder)
        page = open_search_page(workspace, request, Work())
        return fit_page(
            page.hits,
            lambda hit, length: page.present(workspace, hit, length),
            list,
            max_tokens,
            length=snippet_limit([hit.text for hit in page.hits[:limit]], max_tokens),
            shortest=SHORTEST_SNIPPET,
            measure=_count_hit_tokens,
        )

    def grep(
        self,
        pattern: str,
        *,
        before: int = 0,
        after: int = 0,
        max_count: int | None = None,
        limit: int = 1000,
        **filters: Unpack[LineFilters],
    ) -> list[Line]:
        """Lines that match a regular expression, in the files as they are; needs no index. `before`
        and `after` are lines of context, `max_count` limits the matches of each file."""
        project = find_project(self.app.workspace, self._project)
        scan = LineScan(pattern, **filters)
        stream = scan_project(
            project, scan, Work(), before=before, after=after, max_count=max_count
        )
        return [line for _, line in islice(stream, limit)]

    def find_files(self, pattern: str, *, limit: int = 1000) -> list[str]:
        """Indexed files whose path fits a glob."""
        answer = code.search_by_path(self.app, pattern, limit, self._project, work=Work())
        return answer["matches"]

    def import_knowledge(
        self, place: str | Path, *, report: ProgressCallback | None = None
    ) -> ImportCounts:
        """Import notes, documents, chats, characters or prompts."""
        from sonde.knowledge.editing import import_knowledge

        done = import_knowledge(self.app.knowledge, str(place), work=Work(report=report))
        names = ("added", "updated", "moved", "removed", "unchanged")
        counts = {name: getattr(done, name) for name in names}
        return ImportCounts.read(counts | {"skipped": sum(done.skipped.values())})

    def search_knowledge(
        self,
        query: str,
        *,
        limit: int = 10,
        sources: Sequence[str] = (),
        snippet_length: int | None = None,
        filters: Mapping[str, Any] | None = None,
        max_tokens: int = 20_000,
    ) -> list[KnowledgeResult]:
        """The best matches in personal knowledge; options as in the tool `knowledge_search`."""
        from sonde.tools.knowledge import knowledge_search

        answer = knowledge_search(
            self.app,
            query,
            limit,
            snippet_length=snippet_length,
            sources=tuple(sources),
            filters=dict(filters) if filters else None,
            max_tokens=max_tokens,
            work=Work(),
        )
        return [KnowledgeResult.read(row) for row in answer["results"]]

    def status(self) -> Status:
        """How large, fresh and complete the index is."""
        return Status.read(indexes.get_index_status(self.app, self._project, work=Work()))

    def scan(self, *, report: ProgressCallback | None = None) -> DiskScan:
        """Scan names, sizes and times below the folder."""
        job = start_scan(self.app.disk, Caller(), Path(self._project))
        job.wait(Work(report=report))
        return DiskScan.read(job.outcome().as_dict())

    def select(self, where: str, *, limit: int = 1000) -> list[DiskEntry]:
        """The largest entries of the scanned folder that match a filter (`size>10MB`)."""
        from sonde.stores.disk.filters import parse_filter

        known = find_index_of(self.app.disk, Caller(), Path(self._project))
        if known is None:
            raise NotScanned("scan() first", path=self._project)
        found = find_matches(self.app.disk, known, parse_filter(where), limit, Work())
        return [DiskEntry.read(row) for row in show_matches(found, Caller())["entries"]]

    def searcher(self) -> ContextSearcher:
        """A searcher of the project's context chunks by type and tag."""
        return ProjectSearcher(self.app.workspace, self._project)

    def projects(self) -> list[Status]:
        """Every indexed project of this machine."""
        rows = indexes.list_projects(self.app, work=Work())["projects"]
        return [Status.read(row) for row in rows]


def _count_hit_tokens(part: Any) -> int:
    return count_tokens(part.as_dict() if isinstance(part, Hit) else [h.as_dict() for h in part])


open = Sonde  # noqa: A001
"""An open installation for many calls; use it with `with`."""


def index(project: str | Path = ".", *, report: ProgressCallback | None = None) -> IndexResult:
    """Index a project, or bring its index up to date."""
    with Sonde(project) as sonde:
        return sonde.index(report=report)


def search(query: str, project: str | Path = ".", **options: Unpack[SearchFilters]) -> list[Hit]:
    """The best places in a project for a question, words or a symbol; see `Sonde.search`."""
    with Sonde(project) as sonde:
        return sonde.search(query, **options)


def related(place: str, project: str | Path = ".", *, limit: int = 10) -> list[Hit]:
    """What is similar in words and meaning to a place (`cart.py:120`) or a passage."""
    with Sonde(project) as sonde:
        return sonde.search(place, mode="related", limit=limit)


def history(query: str, project: str | Path = ".", *, limit: int = 10) -> list[Hit]:
    """Commits that match a query; a hit's path is the commit's id."""
    with Sonde(project) as sonde:
        return sonde.search(query, mode="history", limit=limit)


def grep(pattern: str, project: str | Path = ".", **options: Unpack[LineOptions]) -> list[Line]:
    """Lines of a project that match a regular expression; see `Sonde.grep`."""
    with Sonde(project) as sonde:
        return sonde.grep(pattern, **options)


def find_files(pattern: str, project: str | Path = ".", *, limit: int = 1000) -> list[str]:
    """Indexed files of a project whose path fits a glob."""
    with Sonde(project) as sonde:
        return sonde.find_files(pattern, limit=limit)


def status(project: str | Path = ".") -> Status:
    """How large, fresh and complete a project's index is."""
    with Sonde(project) as sonde:
        return sonde.status()


def scan(folder: str | Path = ".", *, report: ProgressCallback | None = None) -> DiskScan:
    """Scan names, sizes and times below a folder."""
    with Sonde(folder) as sonde:
        return sonde.scan(report=report)


def select(where: str, folder: str | Path = ".", *, limit: int = 1000) -> list[DiskEntry]:
    """The largest entries of a scanned folder that match a filter."""
    with Sonde(folder) as sonde:
        return sonde.select(where, limit=limit)


def projects() -> list[Status]:
    """Every indexed project of this machine."""
    with Sonde() as sonde:
        return sonde.projects()
