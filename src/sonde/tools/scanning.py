"""Lines of a project's files as they are now; an index only saves reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sonde.app import Project
from sonde.errors import CatalogError
from sonde.languages import language_of
from sonde.policy.read import FileContent
from sonde.policy.walk import Entry
from sonde.searching.paths import narrow, read_folder
from sonde.searching.regex import Expression, LineMatch, compile_pattern, grep_files
from sonde.types import Needs, Skipped
from sonde.work import Work


@dataclass(frozen=True, slots=True)
class Scan:
    """Which lines are looked for, and in which files."""

    pattern: str
    ignore_case: bool = False
    whole_word: bool = False
    fixed_string: bool = False
    paths: tuple[str, ...] = ()
    """Only below these folders or files; none means everywhere."""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
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
    scan: Scan,
    work: Work,
    *,
    read: Callable[[str], FileContent | Skipped] | None = None,
    before: int = 0,
    after: int = 0,
    max_count: int | None = None,
) -> Iterator[LineMatch]:
    """Matching lines by path and line; needs no index."""
    expression = scan.compile()
    candidates = _files_to_read(project, _files_in_scope(project, scan), expression.needs)
    return grep_files(
        expression,
        candidates,
        read or project.tree.read,
        work,
        before=before,
        after=after,
        max_count=max_count,
    )


def _files_in_scope(project: Project, scan: Scan) -> dict[str, Entry]:
    """Every admitted file that the call asks for."""
    walked = {entry.path: entry for entry in project.tree.walk() if isinstance(entry, Entry)}
    kept: set[str] = set()
    for under in scan.paths or [""]:
        folder = read_folder(under)
        where = narrow(walked, under=folder, include=scan.include, exclude=scan.exclude)
        kept |= set(walked) if where.paths is None else where.paths
    if scan.language:
        wanted = scan.language.lower()
        kept = {path for path in kept if language_of(path).name.lower() == wanted}
    return {path: walked[path] for path in sorted(kept)}


def _files_to_read(project: Project, scope: Mapping[str, Entry], needs: Needs | None) -> list[str]:
    """The files that can match: those whose trigrams fit, and those the index does not know as
    they are now."""
    if needs is None or not project.is_indexed():
        return list(scope)
    unfit: set[str] = set()
    try:
        for store in project.stores().values():
            # states first: trigrams of a file that is indexed again meanwhile are the newer ones
            states = store.files()
            fitting = store.trigram_candidates(needs)
            for path, state in states.items():
                entry = scope.get(path)
                if (
                    entry
                    and path not in fitting
                    and (entry.size, entry.mtime_ns) == (state.size, state.mtime_ns)
                ):
                    unfit.add(path)
    except CatalogError:
        return list(scope)  # a broken index saves no time, and costs no answer
    return [path for path in scope if path not in unfit]
