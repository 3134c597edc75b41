"""`import sonde`: the verbs as plain typed functions."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from sonde.app import App
from sonde.disk.indexes import find_index_of, start_scan
from sonde.disk.queries import find_matches
from sonde.errors import NotScanned
from sonde.projects.views import ProjectSearcher
from sonde.runtime.work import Work
from sonde.searching.contexts import ContextSearcher
from sonde.settings import load_settings
from sonde.stores.disk.filters import parse_filter
from sonde.tools import code
from sonde.tools import index as indexes
from sonde.tools.shapes.sets import show_matches
from sonde.types import Caller, Progress
from sonde.wiring import build_app

Report = Callable[[Progress], None]
Mode = Literal["auto", "hybrid", "semantic", "lexical"]


class Sonde:
    """An open installation: indexes and models stay loaded between calls."""

    def __init__(self, project: str | Path = ".", *, home: str | Path | None = None) -> None:
        settings = load_settings(os.environ, home=home, assume_yes=True)
        start = Path(project).expanduser().resolve()
        self._app = build_app(settings, start=start)
        self._project = str(start)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every file."""
        self._app.close()

    def index(self, *, report: Report | None = None) -> dict[str, Any]:
        """Index the project, or bring its index up to date."""
        return dict(indexes.create_index(self._app, self._project, work=Work(report=report)))

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        docs: bool = False,
        mode: Mode = "auto",
        path: str | None = None,
        max_tokens: int = 20_000,
        explain: bool = False,
    ) -> list[dict[str, Any]]:
        """The best places for a question, words or a symbol.

        `docs` searches documentation instead of code, `path` only below that folder. Each result
        has `path`, `text`, `score`, `startLine`, `endLine`; `symbol` and `stale` where they hold.
        """
        verb = code.search_docs if docs else code.search_code
        answer = verb(
            self._app,
            query,
            limit,
            self._project,
            path,
            mode,
            max_tokens,
            explain,
            work=Work(),
        )
        return answer["results"]

    def grep(self, pattern: str, **options: Any) -> list[dict[str, Any]]:
        """Lines that match a regular expression: `path`, `line`, `text`; needs no index.

        Options: paths, ignore_case, whole_word, fixed_string, include, exclude, language, before,
        after, max_count (in each file) and limit (in all, 1000).
        """
        answer = code.grep(self._app, pattern, project=self._project, work=Work(), **options)
        return answer["matches"]

    def find_files(self, pattern: str, *, limit: int = 1000) -> list[str]:
        """Indexed files whose path fits a glob."""
        answer = code.search_by_path(self._app, pattern, limit, self._project, work=Work())
        return answer["matches"]

    def import_knowledge(
        self, place: str | Path, *, report: Report | None = None
    ) -> dict[str, int]:
        """Bring in notes, documents, chats, characters or prompts; how many of what."""
        from sonde.knowledge.editing import import_knowledge

        done = import_knowledge(self._app, str(place), work=Work(report=report))
        names = ("added", "updated", "moved", "removed", "unchanged")
        counts = {name: int(getattr(done, name)) for name in names}
        return counts | {"skipped": sum(done.skipped.values())}

    def search_knowledge(self, query: str, *, limit: int = 10, **options: Any) -> list[Any]:
        """The best places in personal knowledge; options as of the tool `knowledge_search`."""
        from sonde.tools.knowledge import knowledge_search

        options.setdefault("max_tokens", 20_000)
        answer = knowledge_search(self._app, query, limit, work=Work(), **options)
        return answer["results"]

    def status(self) -> dict[str, Any]:
        """How large, fresh and complete the index is."""
        return dict(indexes.get_index_status(self._app, self._project, work=Work()))

    def scan(self, *, report: Report | None = None) -> dict[str, Any]:
        """Scan names, sizes and times below the folder; what was found and what changed."""
        job = start_scan(self._app.disk, Caller(), Path(self._project))
        job.wait(Work(report=report))
        found: dict[str, Any] = job.outcome().as_dict()
        return found

    def select(self, where: str, *, limit: int = 1000) -> list[dict[str, Any]]:
        """The largest of what fits a filter (`size>10MB age>30d`), in the folder as scanned."""
        known = find_index_of(self._app.disk, Caller(), Path(self._project))
        if known is None:
            raise NotScanned("scan() first", path=self._project)
        found = find_matches(self._app.disk, known, parse_filter(where), limit, Work())
        entries: list[dict[str, Any]] = show_matches(found, Caller())["entries"]
        return entries

    @property
    def app(self) -> App:
        """The parts that every verb works on, for `sonde.mcp.mounting`."""
        return self._app

    def searcher(self) -> ContextSearcher:
        """Finds context chunks of the project by type and tag."""
        return ProjectSearcher(self._app.workspace, self._project)

    def projects(self) -> list[dict[str, Any]]:
        """Every indexed project of this machine."""
        return [dict(row) for row in indexes.list_projects(self._app, work=Work())["projects"]]


def open(project: str | Path = ".", *, home: str | Path | None = None) -> Sonde:  # noqa: A001
    """An open installation for many calls; use it with `with`."""
    return Sonde(project, home=home)


def index(project: str | Path = ".", *, report: Report | None = None) -> dict[str, Any]:
    """Index a project, or bring its index up to date."""
    with Sonde(project) as sonde:
        return sonde.index(report=report)


def search(
    query: str,
    project: str | Path = ".",
    *,
    limit: int = 10,
    docs: bool = False,
    mode: Mode = "auto",
    path: str | None = None,
    max_tokens: int = 20_000,
    explain: bool = False,
) -> list[dict[str, Any]]:
    """The best places in a project for a question, words or a symbol; see `Sonde.search`."""
    with Sonde(project) as sonde:
        return sonde.search(
            query,
            limit=limit,
            docs=docs,
            mode=mode,
            path=path,
            max_tokens=max_tokens,
            explain=explain,
        )


def grep(pattern: str, project: str | Path = ".", **options: Any) -> list[dict[str, Any]]:
    """Lines of a project that match a regular expression; options as of `Sonde.grep`."""
    with Sonde(project) as sonde:
        return sonde.grep(pattern, **options)


def find_files(pattern: str, project: str | Path = ".", *, limit: int = 1000) -> list[str]:
    """Indexed files of a project whose path fits a glob."""
    with Sonde(project) as sonde:
        return sonde.find_files(pattern, limit=limit)


def status(project: str | Path = ".") -> dict[str, Any]:
    """How large, fresh and complete a project's index is."""
    with Sonde(project) as sonde:
        return sonde.status()


def scan(folder: str | Path = ".", *, report: Report | None = None) -> dict[str, Any]:
    """Scan names, sizes and times below a folder."""
    with Sonde(folder) as sonde:
        return sonde.scan(report=report)


def select(where: str, folder: str | Path = ".", **options: Any) -> list[dict[str, Any]]:
    """The largest of what fits a filter in a scanned folder."""
    with Sonde(folder) as sonde:
        return sonde.select(where, **options)


def projects() -> list[dict[str, Any]]:
    """Every indexed project of this machine."""
    with Sonde() as sonde:
        return sonde.projects()
