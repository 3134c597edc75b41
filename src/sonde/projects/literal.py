"""Literal queries, such as paths, globs and messages: the files they name, the lines they spell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, takewhile

from sonde.errors import InvalidPattern, InvalidRequest
from sonde.projects.lines import LineScan, list_line_hits, trim_line
from sonde.projects.project import Project
from sonde.ranking.features import TEST_PATH
from sonde.ranking.question import Question, read_question
from sonde.runtime.work import Work
from sonde.searching.hits import occurs_nowhere
from sonde.searching.readings import Reading, read_literally
from sonde.stores.chunks.base import EVERYTHING, ChunkStore
from sonde.text.formats import count_of
from sonde.text.globs import compile_glob
from sonde.text.words import fold_name
from sonde.types import FileState, Filter, Hit, Kind, Span

OWN_HITS = 5
"""Hits that a place itself may be: its chunks, and the definition around them."""
EXACT = "exact"
"""The score type of what a query names or spells."""
_STEP = 1e-6  # between the scores of exact hits: keeps their order, too small to be shown
_BELOW = 0.98  # share of their scores that other hits keep, so that none comes before an exact one
_MOST_FILES = 5  # of one name that lead an answer; other hits need room too
_MOST_LINES = 500  # that hold a text, among which the best are chosen
_QUOTE = re.compile("[\"'`]")
_LONGEST_LINE = 300  # characters that are kept of a matching line; minified code has longer ones


@dataclass(frozen=True, slots=True)
class LiteralHits:
    """The hits that a query names or spells in one project, and a note on them."""

    hits: Sequence[Hit] = ()
    note: str = ""
    is_final: bool = False
    """Nothing else answers the query."""


@dataclass(frozen=True, slots=True)
class LiteralSearch:
    """The search of one project for literal queries. Paths are looked up in both indexes, lines
    only in files of the requested kinds."""

    project: Project
    narrow: Callable[[ChunkStore, Kind], Filter]
    kinds: Sequence[Kind]
    limit: int
    work: Work

    def find(self, query: str, question: Question) -> LiteralHits:
        """Hits that the query names or spells. Empty and final if a word of it occurs nowhere."""
        reading, found = read_literally(query), LiteralHits()
        # a name or key that nothing but tests defines: `MAX_AGE`, `--max-age`
        if not reading and (question.is_code or "-" in query) and len(query.split()) == 1:
            named = self.project.stores()["code"].paths_named(question.names)
            if not [path for path in named if not TEST_PATH.search(path)]:
                reading = Reading("text", query.strip(), is_certain=not question.is_code)
        if not query:  # nothing but conditions
            return self._list_paths(lambda _path: True, "filter")
        kinds = {"path": self._find_path, "glob": self._find_glob, "regex": self._find_regex}
        if reading:
            with suppress(InvalidPattern):  # a glob of too many alternatives, too large a pattern
                found = kinds.get(reading.kind, self._find_text)(reading)
        stores = [self.project.stores()[kind] for kind in self.kinds]
        nothing = not found.hits and occurs_nowhere(stores, question)
        return replace(found, is_final=True) if nothing else found

    def lead(self, found: LiteralHits, ranked: Sequence[Hit]) -> list[Hit]:
        """Literal hits, tests last, followed by the ranked hits that they do not cover."""
        order = {hit.path: at for at, hit in reversed(list(enumerate(ranked)))}

        def place(hit: Hit) -> tuple[bool, int]:
            return TEST_PATH.search(hit.path) is not None, order.get(hit.path, len(ranked))

        first: dict[tuple[str, Span], Hit] = {}
        for hit in found.hits if found.is_final else sorted(found.hits, key=place)[: self.limit]:
            shown = hit if found.is_final else self._widen(hit)
            first.setdefault((hit.path, shown.span), shown)
        rest = (hit for hit in ranked if not any(_covers(hit, one) for one in first.values()))
        return [
            *(replace(hit, score=1.0 - at * _STEP) for at, hit in enumerate(first.values())),
            *(replace(hit, score=_BELOW * hit.score) for hit in rest),
        ][: self.limit]

    def _widen(self, hit: Hit) -> Hit:
        """The chunk around the line that answers; the hit itself if its file is not indexed."""
        store = self.project.stores()[hit.kind]
        chunks = [c for c in store.chunks_of(hit.path) if c.span.start_line <= hit.focus]
        if not chunks:
            return hit
        symbols = store.symbols_of([hit.path]).get(hit.path, ())
        around = [one.name for one in symbols if one.start_line <= hit.focus <= one.end_line]
        span, symbol = chunks[-1].span, around[-1] if around else chunks[-1].symbol
        focus = min(hit.focus, span.end_line)
        return replace(hit, text=chunks[-1].text, span=span, symbol=symbol, focus=focus)

    def _find_path(self, reading: Reading) -> LiteralHits:
        parts = [part for part in reading.text.lower().split("/") if part.strip(".")]
        if not parts:
            return LiteralHits()
        stem = FileState(parts[-1], "", 0, 0, "", "code").stem
        # no file is listed under a name of punctuation alone
        named = self._admit(lambda s: s.paths_named([stem]) if fold_name(stem) else s.files())
        rates = {path: _rate_path(path, parts, reading.least) for path in named}
        best = max(rates.values(), default=0)
        if best:
            files = sorted(path for path, rate in rates.items() if rate == best)
            hits = [self._make_hit(named[path], path, reading) for path in files[:_MOST_FILES]]
            many = f"{len(files)} files are called `{reading.text}`. Add a folder to choose one."
            return LiteralHits(hits, many if len(files) > _MOST_FILES else "")
        folder = f"/{'/'.join(parts)}/"
        if len(parts) > 1 and not reading.line:
            inside = self._list_paths(lambda path: folder in f"/{path.lower()}", "folder")
            if inside.hits:
                return inside
        alike = sorted(path for path in named if f"/{path.lower()}/".endswith(f"/{parts[-1]}/"))
        others = f" Of that name: {', '.join(alike[:_MOST_FILES])}." if alike else ""
        note = f"No indexed file is `{reading.text}`.{others}"
        return LiteralHits(note=note if reading.is_certain else "")

    def _find_glob(self, reading: Reading) -> LiteralHits:
        found = self._list_paths(compile_glob(reading.text).matches, "glob")
        if found.hits or not reading.is_certain:
            return found if found.hits else LiteralHits()
        return replace(found, note="No indexed path matches this glob.")

    def _find_regex(self, reading: Reading) -> LiteralHits:
        scan = LineScan(reading.text)
        lines = list(islice(self._list_lines(scan), self.limit + 1))
        if not lines:
            found = self._find_text(reading)
            return replace(found, note="Read as a regular expression, this matches no line.")
        some = f"the first {self.limit}" if len(lines) > self.limit else "all"
        note = f"Read as a regular expression: {some} matching lines. For words: mode `lexical`."
        return LiteralHits(lines[: self.limit], note, is_final=True)

    def _find_text(self, reading: Reading) -> LiteralHits:
        longest = max(reading.text.split("\n"), key=len).strip()
        patterns = filter(None, (reading.loose, reading.spread))
        for scan in (LineScan(longest, fixed_string=True), *map(LineScan, patterns)):
            lines = list(islice(self._list_lines(scan), _MOST_LINES))
            if scan.pattern == reading.spread:  # the lines that hold most of the message
                spans = scan.compile().find_spans
                shares = [sum(end - start for start, end in spans(hit.text)) for hit in lines]
                best = max(shares, default=0)
                lines = [hit for hit, share in zip(lines, shares, strict=True) if share == best]
            if lines:
                # what writes a text has it in quotes
                return LiteralHits(sorted(lines, key=lambda hit: not _QUOTE.search(hit.text)))
        return LiteralHits(note="No line holds this text." if reading.is_certain else "")

    def _admit(self, list_paths: Callable[[ChunkStore], Iterable[str]]) -> dict[str, Kind]:
        """The files of each index that pass the filters, with their kind."""
        found: dict[str, Kind] = {}
        for kind, store in self.project.stores().items():
            allowed = self.narrow(store, kind).paths
            paths = (path for path in list_paths(store) if allowed is None or path in allowed)
            found |= dict.fromkeys(paths, kind)
        return found

    def _list_lines(self, scan: LineScan) -> Iterator[Hit]:
        """Matching lines of files that pass the filters, by path and line."""
        stores = self.project.stores()
        allowed = {kind: self.narrow(stores[kind], kind).paths for kind in self.kinds}
        for hit in list_line_hits(self.project, scan, self.work):
            if hit.kind in allowed and ((paths := allowed[hit.kind]) is None or hit.path in paths):
                start = next(iter(scan.compile().find_spans(hit.text)), (0, 0))[0]
                line = trim_line(hit, start, _LONGEST_LINE)
                yield replace(line, score_type=EXACT, focus=hit.start_line)

    def _list_paths(self, matches: Callable[[str], bool], read_as: str) -> LiteralHits:
        """Every file whose path matches, without its text."""
        found = self._admit(lambda store: filter(matches, store.files()))
        hits = [self._make_hit(found[path], path) for path in sorted(found)[: self.limit]]
        more = " search_by_path lists all." if len(found) > self.limit else ""
        note = f"Read as a {read_as}: {count_of(len(found), 'file')}.{more}"
        return LiteralHits(hits, note, is_final=True)

    def _make_hit(self, kind: Kind, path: str, reading: Reading | None = None) -> Hit:
        """A hit without text: a file, at the line or definition that the query names."""
        store, line = self.project.stores()[kind], reading.line if reading else 1
        if reading and reading.name:
            symbols = store.symbols_of([path]).get(path, ())
            named = (one.line for one in symbols if one.name.rpartition(".")[2] == reading.name)
            line = next(named, 1)
        state = store.files([path]).get(path)  # None if it was removed just now
        place = (self.project.key, kind, path, Span(1, 1, 0, 0))
        language = state.language if state else ""
        return Hit(*place, "", 1.0, EXACT, language, state=state, focus=max(line, 1))


def _covers(hit: Hit, other: Hit) -> bool:
    return hit.path == other.path and hit.span.start_line <= other.focus <= hit.span.end_line


def _rate_path(path: str, parts: Sequence[str], least: int) -> int:
    """How well a path ends in these parts; 0 if it does not. The last of several parts may lack
    its ending, as in an import."""
    *folders, name = path.lower().split("/")
    if parts[-1] != name and (len(parts) == 1 or parts[-1] != name.partition(".")[0]):
        return 0
    pairs = zip(reversed(folders), reversed(parts[:-1]), strict=False)
    agree = 1 + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    is_whole = agree > len(folders)
    return 2 * agree + is_whole if is_whole or agree >= min(least, len(parts)) else 0


@dataclass(frozen=True, slots=True)
class Origin:
    """A passage to start from, and where it lies if it is one of the project's."""

    text: str
    project: str = ""
    path: str = ""
    lines: tuple[int, int] = (0, 0)

    def covers(self, hit: Hit) -> bool:
        """Whether a hit is the passage itself, or holds it."""
        if (hit.project, hit.path) == (self.project, self.path):
            return hit.start_line <= self.lines[1] and self.lines[0] <= hit.end_line
        return not self.path and self.text.strip() in hit.text


def read_origin(projects: Sequence[Project], text: str, work: Work) -> Origin:
    """The definition or section around a place such as `cart.py:120`; any other text is itself."""
    reading = read_literally(text)
    if reading is None or reading.kind != "path":
        return Origin(text)
    for project in projects:
        look = LiteralSearch(project, lambda *_: EVERYTHING, ("code", "docs"), 1, work)
        named = look.find(text, read_question(text))
        if not named.hits or named.is_final:
            continue
        (hit,) = look.lead(named, ())[:1]
        store = project.stores()[hit.kind]
        symbols = store.symbols_of([hit.path]).get(hit.path, ())
        around = [one for one in symbols if one.start_line <= hit.focus <= one.end_line]
        first, last = hit.start_line, hit.end_line
        if around:
            inner = min(around, key=lambda one: one.end_line - one.start_line)
            first, last = max(first, inner.start_line), min(last, inner.end_line)
        lines = hit.text.split("\n")[first - hit.start_line : last - hit.start_line + 1]
        return Origin("\n".join(lines), hit.project, hit.path, (first, last))
    if not reading.is_certain:
        return Origin(text)
    raise InvalidRequest(
        f"no indexed file for {text!r}",
        user_message=f"No indexed file is called '{reading.text}'.",
        next_action="Name a place as path:line, or pass the passage itself.",
    )
