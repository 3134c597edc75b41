"""Lines of a project's files as they are now; an index only saves reading files."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sonde.errors import CatalogError, OutsideRoots
from sonde.indexing.sources import Tree, TreeReader
from sonde.projects.project import Project
from sonde.runtime.work import Work
from sonde.searching.filters import filter_paths, read_folder
from sonde.searching.lines.candidates import CandidateFiles
from sonde.searching.lines.grep import Expression, Line, compile_pattern, grep_text
from sonde.text.languages import find_language, language_of
from sonde.types import FileText, ListedFile, Needs, Skipped


@dataclass(frozen=True, slots=True)
class LineScan:
    """Which lines are looked for, and in which files."""

    pattern: str
    ignore_case: bool = False
    whole_word: bool = False
    fixed_string: bool = False
    paths: Sequence[str] = ()
    """Only below these folders or files; none means everywhere."""
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    language: str | None = None

    def compile(self) -> Expression:
        """The expression, or `InvalidPattern`."""
        return compile_pattern(
            self.pattern,
            ignore_case=self.ignore_case,
            whole_word=self.whole_word,
            fixed_string=self.fixed_string,
        )


def scan_project(
    project: Project,
    scan: LineScan,
    work: Work,
    *,
    before: int = 0,
    after: int = 0,
    max_count: int | None = None,
    spans: bool = True,
    open_reader: Callable[[Tree], TreeReader] = TreeReader,
) -> Iterator[tuple[FileText, Line]]:
    """Matching lines with their files, by path and line; needs no index. Without `spans`, only the
    first match of a line is reported."""
    expression = scan.compile()
    for pattern in (*scan.include, *scan.exclude):
        filter_paths((), include=(pattern,))  # refuse a wrong glob even if no file is read
    sight = _look(project, scan)
    chosen, trusted = _choose_files(project, sight, expression.needs)
    with open_reader(project.tree) as reader:
        for path in _narrow_scope(scan, chosen):
            work.check()
            entry = sight.entries[path]
            vouched = (entry.size, entry.mtime_ns) if path in trusted else None
            text = reader.read_utf8(path, vouched=vouched)
            if not isinstance(text, Skipped):
                for line in grep_text(
                    expression,
                    text,
                    work,
                    before=before,
                    after=after,
                    max_count=max_count,
                    spans=spans,
                ):
                    yield text, line


def _look(project: Project, scan: LineScan) -> CandidateFiles:
    """The files as they are now: all of them, or only the part a first search is limited to."""
    folders = [read_folder(path) for path in scan.paths]
    if "" in folders or not folders or project.line_candidates.has_looked:
        return project.line_candidates.look(project.tree.sources)
    entries: dict[str, ListedFile] = {}
    for folder in folders:
        found = [*project.tree.walk(folder)]
        with suppress(OutsideRoots):  # a folder that holds whole roots lies in none
            found.append(project.tree.check(folder))
        entries |= {entry.path: entry for entry in found if isinstance(entry, ListedFile)}
    return CandidateFiles(entries, version=-time.monotonic_ns())


def _narrow_scope(scan: LineScan, paths: Collection[str]) -> list[str]:
    """Those of the files that the call asks for, in order."""
    kept: set[str] = set()
    for under in scan.paths or [""]:
        where = filter_paths(
            paths, under=read_folder(under), include=scan.include, exclude=scan.exclude
        )
        kept |= set(paths) if where.paths is None else where.paths
    if scan.language:
        wanted = find_language(scan.language)
        kept = {path for path in kept if language_of(path).name == wanted}
    return sorted(kept)


def _choose_files(
    project: Project, sight: CandidateFiles, needs: Needs | None
) -> tuple[Collection[str], Collection[str]]:
    """The files that can match, and those whose content was admitted before."""
    if not project.is_indexed():
        return sight.entries.keys(), ()
    try:
        stores = project.stores().values()
        return project.line_candidates.choose(sight, needs, project.folder, stores)
    except CatalogError:
        return sight.entries.keys(), ()  # a broken index saves no time, and costs no answer
