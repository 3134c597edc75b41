"""Verbs that search a project: by meaning, by words, by path, by regular expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated, Literal

from sonde.app import App, Project
from sonde.errors import CatalogError, DocsIndexNotFound
from sonde.languages import language_of
from sonde.policy.walk import Entry
from sonde.searching.paths import match_paths, narrow, read_folder
from sonde.searching.regex import compile_pattern, grep_files, required_literals
from sonde.tools.arguments import Param
from sonde.tools.scope import find_project, indexed_project, projects_in_scope
from sonde.tools.searching import Request, answer_search
from sonde.tools.shapes.rfc import GrepAnswer, PathAnswer, SearchAnswer
from sonde.tools.updating import rebuilding
from sonde.work import Work

_MOST_LINES = 10_000

Mode = Literal["auto", "hybrid", "semantic", "lexical"]
ProjectsParam = Annotated[
    str | None,
    Param("Folder of the project, or 'all' for every indexed one; default: here", max_length=4096),
]
PathParam = Annotated[str | None, Param("Only below this folder", max_length=4096)]
TokensParam = Annotated[
    int | None, Param("Size of the answer; the rest comes by cursor", minimum=200, maximum=20_000)
]
CursorParam = Annotated[
    str | None, Param("nextCursor of an earlier answer; needs nothing else", max_length=2_000)
]
ExplainParam = Annotated[bool, Param("Say for each result why it is there")]
ModeParam = Annotated[Mode, Param("How to search")]
TopParam = Annotated[int, Param("Number of results to return", minimum=1, maximum=50)]


def search_code(
    app: App,
    query: Annotated[
        str, Param("The question or code concept to search for", max_length=100_000)
    ] = "",
    top_k: TopParam = 10,
    project: ProjectsParam = None,
    path: PathParam = None,
    mode: ModeParam = "auto",
    max_tokens: TokensParam = None,
    explain: ExplainParam = False,
    cursor: CursorParam = None,
    *,
    work: Work,
) -> SearchAnswer:
    """Search a project's code."""
    request = Request("search_code", query, ("code",), top_k, mode, project, read_folder(path))
    return answer_search(app, request, work, max_tokens=max_tokens, explain=explain, cursor=cursor)


def search_docs(
    app: App,
    query: Annotated[
        str, Param("The question or topic to search for in documentation", max_length=100_000)
    ] = "",
    top_k: TopParam = 10,
    project: ProjectsParam = None,
    path: PathParam = None,
    mode: ModeParam = "auto",
    max_tokens: TokensParam = None,
    explain: ExplainParam = False,
    cursor: CursorParam = None,
    *,
    work: Work,
) -> SearchAnswer:
    """Search a project's documentation."""
    if not cursor:
        for found in projects_in_scope(app, project):
            if project != "all" and not found.tree.index_docs:
                raise DocsIndexNotFound(f"No docs index at {found.folder}/")
    request = Request("search_docs", query, ("docs",), top_k, mode, project, read_folder(path))
    return answer_search(app, request, work, max_tokens=max_tokens, explain=explain, cursor=cursor)


def search_by_path(
    app: App,
    pattern: Annotated[
        str,
        Param("Glob pattern (e.g. '**/auth*.ts', 'src/**/*.md')", min_length=1, max_length=1000),
    ],
    limit: Annotated[int, Param("Maximum results to return", minimum=1, maximum=1000)] = 20,
    project: Annotated[
        str | None, Param("Folder of the project; the current one when left out", max_length=4096)
    ] = None,
    *,
    work: Work,
) -> PathAnswer:
    """Find files by a glob on their path."""
    del work
    found = indexed_project(app, project)
    with rebuilding(app, found):
        paths = [path for store in found.stores().values() for path in store.files()]
    matches = match_paths(pattern, paths)
    return {"matches": matches[:limit], "totalMatches": len(matches)}


def grep(
    app: App,
    pattern: Annotated[str, Param("Regular expression (RE2 syntax)", min_length=1)],
    paths: Annotated[tuple[str, ...], Param("Only below these folders or files")] = (),
    ignore_case: Annotated[bool, Param("Letter case does not matter")] = False,
    whole_word: Annotated[bool, Param("Only whole words")] = False,
    fixed_string: Annotated[bool, Param("The pattern is plain text")] = False,
    include: Annotated[tuple[str, ...], Param("Only paths matching one of these globs")] = (),
    exclude: Annotated[tuple[str, ...], Param("No paths matching these globs")] = (),
    language: Annotated[str | None, Param("Only files in this language")] = None,
    before: Annotated[int, Param("Lines of context before", minimum=0, maximum=100)] = 0,
    after: Annotated[int, Param("Lines of context after", minimum=0, maximum=100)] = 0,
    max_count: Annotated[int | None, Param("Matching lines per file", minimum=1)] = None,
    limit: Annotated[int, Param("Matching lines in all", minimum=1, maximum=_MOST_LINES)] = 1000,
    project: Annotated[str | None, Param("Folder of the project")] = None,
    *,
    work: Work,
) -> GrepAnswer:
    """Matching lines of a project's files as they are now; needs no index."""
    found = find_project(app, project)
    expression = compile_pattern(
        pattern, ignore_case=ignore_case, whole_word=whole_word, fixed_string=fixed_string
    )
    scope = _files_in_scope(found, paths, include, exclude, language)
    literals = required_literals(pattern, fixed_string=fixed_string)
    candidates = _files_to_read(found, scope, literals)
    stream = grep_files(
        expression,
        candidates,
        found.tree.read,
        work,
        before=before,
        after=after,
        max_count=max_count,
    )
    matches = list(islice(stream, limit + 1))
    truncated = len(matches) > limit
    shown = matches[:limit]
    return {
        "matches": [
            {
                "path": match.path,
                "line": match.line,
                "text": match.text,
                "spans": [list(span) for span in match.spans],
                **({"before": list(match.before)} if before else {}),
                **({"after": list(match.after)} if after else {}),
            }
            for match in shown
        ],
        "totalMatches": len(shown),
        "files": len({match.path for match in shown}),
        "truncated": truncated,
    }


def _files_in_scope(
    project: Project,
    paths: Sequence[str],
    include: Sequence[str],
    exclude: Sequence[str],
    language: str | None,
) -> dict[str, Entry]:
    """Every admitted file that the call asks for."""
    walked = {entry.path: entry for entry in project.tree.walk() if isinstance(entry, Entry)}
    kept: set[str] = set()
    for under in paths or [""]:
        where = narrow(walked, under=read_folder(under), include=include, exclude=exclude)
        kept |= set(walked) if where.paths is None else where.paths
    if language:
        wanted = language.lower()
        kept = {path for path in kept if language_of(path).name.lower() == wanted}
    return {path: walked[path] for path in sorted(kept)}


def _files_to_read(
    project: Project, scope: Mapping[str, Entry], literals: Sequence[str]
) -> list[str]:
    """The files that can match: those whose trigrams fit, and those the index does not know as
    they are now."""
    if not literals or not project.is_indexed():
        return list(scope)
    unfit: set[str] = set()
    try:
        for store in project.stores().values():
            # states first: trigrams of a file that is indexed again meanwhile are the newer ones
            states = store.files()
            fitting = store.trigram_candidates(literals)
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
