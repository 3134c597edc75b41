"""Lines of a project's files as they are now: found, found again after a change, and shown;
hits cut to the lines that answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from sonde.embedding.nearness import open_measure
from sonde.errors import CatalogError, FileMissing, OutsideRoots, PermissionDenied
from sonde.indexing.sources import Tree, TreeReader
from sonde.projects.freshness import KnownFiles
from sonde.projects.project import Project, Workspace
from sonde.ranking.question import Question, read_prose_terms
from sonde.ranking.snippets import DEFAULT_LENGTH, cut_around, cut_snippet, find_answer
from sonde.runtime.work import Work
from sonde.searching.filters import filter_paths, read_folder
from sonde.searching.hits import find_changed, refresh_hit
from sonde.searching.lines.candidates import CandidateFiles, sift_files
from sonde.searching.lines.grep import Expression, Line, compile_pattern, grep_text
from sonde.searching.query_language import QueryCondition
from sonde.stores.chunks.base import ChunkStore
from sonde.text.languages import find_language, language_of
from sonde.types import FileState, FileText, Hit, ListedFile, Needs, Skipped, Span, Symbol

_LEAD = 4  # a line that is too long is cut so that a quarter of what is shown is before the match


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
    find_lines = partial(
        grep_text, expression, before=before, after=after, max_count=max_count, spans=spans
    )
    for pattern in (*scan.include, *scan.exclude):
        filter_paths((), include=(pattern,))  # refuse a wrong glob even if no file is read
    sight, _ = look_around(project, project.tree, [read_folder(path) for path in scan.paths])
    chosen, trusted, stores = choose_files(project, sight, expression.needs)
    files = ((sight.entries[path], path in trusted, None) for path in narrow_scope(scan, chosen))
    with open_reader(project.tree) as reader:
        for (entry, *_), held, at in sift_files(files, stores, expression.find_among):
            work.check()
            text = held or reader.read_utf8(entry.path)
            if not isinstance(text, Skipped):
                for line in find_lines(text, work, at=at):
                    yield text, line


def look_around(
    project: Project | None, tree: Tree, places: Sequence[str]
) -> tuple[CandidateFiles, Collection[Skipped]]:
    """The files of a tree as they are now, and what is left out: all of them, or at first only at
    and below these places."""
    everywhere = "" in places or not places
    if project and tree is project.tree:
        candidates = project.part(KnownFiles).candidates
        if everywhere or candidates.seen:
            return candidates.look(tree.sources), candidates.list_skipped()
    found: dict[str, ListedFile | Skipped] = {}
    for place in [""] if everywhere else places:
        found |= {each.path: each for each in tree.walk(place)}
        with suppress(OutsideRoots):  # a folder that holds whole roots lies in none
            found |= {place: tree.check(place)} if place else {}
    entries = {path: each for path, each in found.items() if isinstance(each, ListedFile)}
    skipped = [each for each in found.values() if isinstance(each, Skipped)]
    return CandidateFiles(entries, version=-time.monotonic_ns()), skipped


def narrow_scope(scan: LineScan, paths: Collection[str]) -> list[str]:
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


def choose_files(
    project: Project | None, sight: CandidateFiles, needs: Needs | None
) -> tuple[Collection[str], Collection[str], Collection[ChunkStore]]:
    """Those of the files that can match, by the project's index if there is one, those whose
    content was admitted before, and the stores that hold it."""
    with suppress(CatalogError):  # a broken index saves no time, and costs no answer
        if project and project.is_indexed():
            stores = project.stores().values()
            candidates = project.part(KnownFiles).candidates
            return *candidates.choose(sight, needs, project.folder, stores), stores
    return sight.entries.keys(), (), ()


def list_line_hits(project: Project, scan: LineScan, work: Work) -> Iterator[Hit]:
    """Matching lines as hits that know the state of their file."""
    state: FileState | None = None
    for text, line in scan_project(project, scan, work, spans=False):
        if state is None or state.path != text.path:
            kind = project.tree.kind_of(text.path) or "docs"
            name = language_of(text.path).name
            state = FileState(text.path, "", text.size, text.mtime_ns, name, kind, text.stamp)
        end = line.start_byte + measure_utf8(line.text)
        yield Hit(
            project=project.key,
            kind=state.kind,
            path=line.path,
            span=Span(line.line, line.line, line.start_byte, end),
            text=line.text,
            score=1.0,
            score_type="regex",
            language=state.language,
            state=state,
        )


def find_files_holding(
    project: Project, conditions: Sequence[QueryCondition], work: Work
) -> frozenset[str] | None:
    """The files that hold every text that is asked for, and none that is not; None for any."""
    held: frozenset[str] | None = None
    for one in sorted(conditions, key=lambda one: one.negated):
        if one.field not in ("text", "regex", "word"):
            continue
        is_word = one.field == "word"
        scan = LineScan(
            one.value, ignore_case=one.field != "regex", whole_word=is_word,
            fixed_string=one.field != "regex",
        )  # fmt: skip
        lines = scan_project(project, scan, work, max_count=1, spans=False)
        files = frozenset(text.path for text, _ in lines)
        if not one.negated:
            held = files if held is None else held & files
        else:
            stores = project.stores().values()
            held = held if held is not None else frozenset().union(*(s.files() for s in stores))
            held -= files
    return held


def find_line(hit: Hit, content: FileText | None) -> Hit:
    """The equal line nearest to where it was; stale if there is none."""
    lines = _decode(content.data).split("\n") if content else []
    old = hit.span.start_line - 1
    text = hit.text.removesuffix("\r")
    places = [at for at, line in enumerate(lines) if line.removesuffix("\r") == text]
    if not places:
        return replace(hit, stale=True)
    at = min(places, key=lambda place: abs(place - old))
    start = sum(measure_utf8(line) + 1 for line in lines[:at])
    return replace(hit, span=Span(at + 1, at + 1, start, start + measure_utf8(hit.text)))


def trim_line(hit: Hit, at: int, limit: int) -> Hit:
    """At most `limit` characters of a line, so that the one at `at` is among them."""
    line = hit.text.removesuffix("\r")
    start = max(0, min(at - limit // _LEAD, len(line) - limit))
    text = line[start : start + limit]
    start_byte = hit.span.start_byte + measure_utf8(hit.text[:start])
    span = replace(hit.span, start_byte=start_byte, end_byte=start_byte + measure_utf8(text))
    return replace(hit, text=text, span=span)


def cut_to_focus(hit: Hit, limit: int) -> Hit:
    """At most `limit` characters of a hit: whole lines around the one that answers."""
    lines = hit.text.rstrip("\n").split("\n")
    at = max(0, min(hit.focus - hit.start_line, len(lines) - 1))
    start = sum(len(line) + 1 for line in lines[:at])
    cut = cut_around(hit.text, hit.span, limit, (start, start + len(lines[at]) + 1))
    return replace(hit, text=cut.text, span=cut.span)


def list_lines_around(
    content: FileText | None, span: Span, count: int, limit: int
) -> tuple[list[str], list[str]]:
    """The lines before and after a span, each cut to the limit."""
    if content is None:
        return [], []
    lines = _decode(content.data).removesuffix("\n").split("\n")
    before = lines[max(0, span.start_line - 1 - count) : span.start_line - 1]
    after = lines[span.end_line : span.end_line + count]
    cut = [[line.removesuffix("\r")[:limit] for line in part] for part in (before, after)]
    return cut[0], cut[1]


def count_file_bytes(content: FileText | None, span: Span) -> Span:
    """Spans count the text as UTF-8; the file may be written otherwise, or begin with a mark."""
    if content is None or len(content.data) == content.size:
        return span
    text = _decode(content.data)
    for mark, measure in _CODINGS:
        if mark + measure(text) == content.size:
            start, end = (
                mark + measure(_decode(content.data[:at]))
                for at in (span.start_byte, span.end_byte)
            )
            return replace(span, start_byte=start, end_byte=end)
    return span


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def measure_utf8(text: str) -> int:
    """The number of its bytes as UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _measure_as(encoding: str, text: str) -> int:
    with suppress(UnicodeEncodeError):
        return len(text.encode(encoding))
    return -1


_CODINGS: tuple[tuple[int, Callable[[str], int]], ...] = (
    (3, measure_utf8),
    (2, lambda text: len(text.encode("utf-16-le", "surrogatepass"))),
    (4, lambda text: 4 * len(text)),
    (0, len),
    *((0, partial(_measure_as, encoding)) for encoding in ("cp932", "euc_jp", "gb18030", "euc_kr")),
)
"""Length of the mark and of the text in the encodings that are read besides UTF-8."""


def find_changed_hits(
    workspace: Workspace, hits: Iterable[Hit], *, just_searched: bool
) -> set[tuple[str, str]]:
    """Project and path of the hits whose files have changed since they were searched.

    Right after the search, files that it compared with the disk itself are not compared again.
    """
    moved: set[tuple[str, str]] = set()
    states: dict[str, dict[str, FileState]] = {}
    for hit in hits:
        known = states.setdefault(hit.project, {})
        if hit.state is None:
            moved.add((hit.project, hit.path))
        elif not (just_searched and hit.compared):
            known[hit.path] = hit.state
    for project, known in states.items():
        try:
            tree = workspace.projects.get(project).tree
            changed: Collection[str] = find_changed(tree.check_all(known), known)
        except (FileMissing, PermissionDenied):  # the project's folder itself is gone
            changed = known
        moved |= {(project, path) for path in changed}
    return moved


def present_hit(
    workspace: Workspace, question: Question, hit: Hit, limit: int, *, moved: bool
) -> Hit:
    """The hit as the file is now, cut to the lines that answer."""
    project = workspace.projects.get(hit.project)
    project.shown[hit.path] += 1
    if moved:
        try:
            hit = refresh_hit(hit, project.tree.read)
        except (FileMissing, PermissionDenied):
            hit = replace(hit, stale=True)
    if hit.focus:
        return cut_to_focus(hit, limit)
    whole = hit.definition
    if hit.kind == "docs" and len(hit.text) > limit:
        length, terms = min(limit, DEFAULT_LENGTH), read_prose_terms(question.text)
        measure = open_measure(workspace.prose, question.text)
        answer = find_answer(hit.text, terms, (), length, measure)
        cut = cut_around(hit.text, hit.span, limit, answer)
    else:
        opening = whole.line if whole else None
        cut = cut_snippet(question, hit.text, hit.span, limit, opening=opening)
    # an overview has lines of its own: they say nothing about where in the file it is
    if hit.text.count("\n", 0, -1) != hit.span.end_line - hit.span.start_line:
        return replace(hit, text=cut.text)
    if whole is None:
        own = _find_symbol(hit.symbols, cut.span)
        section = own if hit.kind == "docs" else None  # a chunk of code is cut around its matches
        hit = replace(hit, symbol=own.name if own else "", definition=section)
    return replace(hit, text=cut.text, span=cut.span, parts=cut.parts)


def _find_symbol(symbols: Sequence[Symbol], shown: Span) -> Symbol | None:
    """The definition or section that lines lie in, else the first that begins in them."""
    around = [one for one in symbols if one.start_line <= shown.start_line <= one.end_line]
    inside = (one for one in symbols if shown.start_line <= one.line <= shown.end_line)
    return min(around, key=lambda one: one.end_line - one.start_line, default=next(inside, None))
