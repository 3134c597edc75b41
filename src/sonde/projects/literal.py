"""What a query that is no question stands for: the files it names, the lines it spells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile

from sonde.errors import InvalidPattern
from sonde.projects.lines import LineScan, list_line_hits, measure_utf8, trim_line
from sonde.projects.project import Project
from sonde.runtime.work import Work
from sonde.searching.readings import Reading
from sonde.stores.chunks.base import ChunkStore
from sonde.text.formats import count_of
from sonde.text.globs import compile_glob
from sonde.text.words import fold_name
from sonde.types import Chunk, FileState, Filter, Hit, Kind, Span

EXACT = "exact"
"""The score type of what a query names or spells."""
_STEP = 1e-6  # between the scores of exact hits: keeps their order, too small to be shown
_BELOW = 0.98  # share of their scores that other hits keep, so that none comes before an exact one
_MOST_FILES = 5  # of one name that lead an answer; other hits need room too
_MOST_LINES = 500  # that hold a text, among which the best are chosen
_HEAD_LINES = 3  # of a file that is listed for its path
_LONGEST_LINE = 300  # characters that are kept of a matching line; minified code has longer ones


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look: one index of a project, and which of its files pass the filters."""

    kind: Kind
    store: ChunkStore
    where: Filter

    def admits(self, path: str) -> bool:
        """Whether a file passes the filters."""
        return self.where.paths is None or path in self.where.paths


@dataclass(frozen=True, slots=True)
class Named:
    """What a query names or spells in one project, and a note about it."""

    hits: Sequence[Hit] = ()
    note: str = ""
    is_final: bool = False
    """Nothing else answers the query."""

    def lead(self, ranked: Sequence[Hit], limit: int) -> list[Hit]:
        """One ranking: these hits first, those in the files that rank best before the others."""
        order = {hit.path: at for at, hit in reversed(list(enumerate(ranked)))}
        first = sorted(self.hits, key=lambda hit: order.get(hit.path, len(ranked)))
        shown = [(hit.path, hit.focus or hit.span.start_line) for hit in first]
        rest = [hit for hit in ranked if not any(_covers(hit, *place) for place in shown)]
        share = _BELOW if first else 1.0
        return [
            *(replace(hit, score=1.0 - at * _STEP) for at, hit in enumerate(first)),
            *(replace(hit, score=share * hit.score) for hit in rest),
        ][:limit]


def find_literal(
    project: Project,
    reading: Reading | None,
    narrow: Callable[[ChunkStore, Kind], Filter],
    kinds: Sequence[Kind],
    limit: int,
    work: Work,
) -> Named:
    """What a query names or spells in a project; nothing for a question.

    Paths are looked for in every index, as they name a file whatever its kind; lines only in
    those of the kinds asked for.
    """
    if reading is None:
        return Named()
    stores = project.stores().items()
    places = {kind: Scope(kind, store, narrow(store, kind)) for kind, store in stores}
    return _LiteralSearch(project, places, kinds, limit, work).find(reading)


@dataclass(frozen=True, slots=True)
class _LiteralSearch:
    """One query in one project."""

    project: Project
    places: Mapping[Kind, Scope]
    kinds: Sequence[Kind]
    limit: int
    work: Work

    def find(self, reading: Reading) -> Named:
        """The hits that the query names or spells."""
        find = {
            "path": self._find_files,
            "glob": self._match_glob,
            "regex": self._match_regex,
            "text": self._find_text,
        }[reading.kind]
        try:
            return find(reading)
        except InvalidPattern:  # a glob of too many alternatives, too large an expression
            return Named()

    # --- files ---

    def _find_files(self, reading: Reading) -> Named:
        parts = [part for part in reading.text.lower().split("/") if part not in ("", ".", "..")]
        named = self._list_named(parts[-1]) if parts else {}
        rates = {path: _rate_path(path, parts, reading.least) for path in named}
        best = max(rates.values(), default=0)
        if best:
            chosen = sorted(path for path, rate in rates.items() if rate == best)
            hits = [self._show_place(named[path], path, reading) for path in chosen[:_MOST_FILES]]
            many = f"{len(chosen)} files are called `{reading.text}`. Add a folder to choose one."
            return Named(hits, many if len(chosen) > _MOST_FILES else "")
        if "/" in reading.text and not (reading.line or reading.name):
            folder = f"/{'/'.join(parts)}/"
            inside = self._list_heads(lambda path: folder in f"/{path.lower()}", "folder")
            if inside.hits:
                return replace(inside, is_final=False)
        alike = sorted(path for path in named if f"/{path.lower()}".endswith(f"/{parts[-1]}"))
        others = f" Of that name: {', '.join(alike[:_MOST_FILES])}." if alike else ""
        note = f"No indexed file is `{reading.text}`.{others}"
        return Named(note=note if reading.is_certain else "")

    def _list_named(self, name: str) -> dict[str, Scope]:
        """Files that may have this name."""
        stem = FileState(name, "", 0, 0, "", "code").stem
        return {
            path: place
            for place in self.places.values()
            # no file is listed under a name of punctuation alone
            for path in (
                place.store.paths_named([stem]) if fold_name(stem) else place.store.files()
            )
            if place.admits(path)
        }

    def _show_place(self, place: Scope, path: str, reading: Reading) -> Hit:
        """The part of a file that holds the line or the definition which the query names."""
        line = reading.line
        if reading.name:
            symbols = place.store.symbols_of([path]).get(path, ())
            names = {symbol.name.rpartition(".")[2]: symbol.line for symbol in symbols}
            line = names.get(reading.name, 0)
        chunks = [c for c in place.store.chunks_of(path) if c.span.start_line <= max(line, 1)]
        hit = self._make_hit(place, path, chunks[-1] if chunks else None)
        return replace(hit, focus=min(max(line, 1), hit.span.end_line))

    def _match_glob(self, reading: Reading) -> Named:
        found = self._list_heads(compile_glob(reading.text).matches, "glob")
        if found.hits or not reading.is_certain:
            return found if found.hits else Named()
        return Named(note="No indexed path matches this glob.", is_final=True)

    def _list_heads(self, matches: Callable[[str], bool], read_as: str) -> Named:
        """The first lines of every file whose path matches, by path."""
        found = {
            path: place
            for place in self.places.values()
            for path in filter(matches, place.store.files())
            if place.admits(path)
        }
        hits = []
        for path in sorted(found)[: self.limit]:
            first = next(iter(found[path].store.chunks_of(path)), None)
            hits.append(_keep_head(self._make_hit(found[path], path, first)))
        more = " search_by_path lists all." if len(found) > self.limit else ""
        note = f"Read as a {read_as}: {count_of(len(found), 'file')}.{more}"
        return Named(hits, note, is_final=True)

    def _make_hit(self, place: Scope, path: str, chunk: Chunk | None) -> Hit:
        """A chunk as a hit; without one, the file is empty."""
        state = place.store.files([path]).get(path)
        return Hit(
            project=str(self.project.root),
            kind=place.kind,
            path=path,
            span=chunk.span if chunk else Span(1, 1, 0, 0),
            text=chunk.text if chunk else "",
            score=1.0,
            score_type=EXACT,
            language=state.language if state else "",
            symbol=chunk.symbol if chunk else "",
            state=state,
        )

    # --- lines ---

    def _match_regex(self, reading: Reading) -> Named:
        scan = LineScan(reading.text)
        lines = list(islice(self._list_lines(scan), self.limit + 1))
        if lines:
            first = (
                f"the first {self.limit} lines that match" if lines[self.limit :] else "all lines"
            )
            note = f"Read as a regular expression: {first}."
            find_spans = scan.compile().find_spans
            hits = [
                trim_line(hit, find_spans(hit.text)[0][0], _LONGEST_LINE)
                for hit in lines[: self.limit]
            ]
            return Named(hits, f"{note} Mode `lexical` searches its words.", is_final=True)
        found = self._find_text(replace(reading, is_certain=False))
        return replace(found, note="Read as a regular expression, this matches no line.")

    def _find_text(self, reading: Reading) -> Named:
        longest = max(reading.text.split("\n"), key=len).strip()
        scans = [LineScan(longest, fixed_string=True), *map(LineScan, reading.loose)]
        for scan in scans:
            lines = list(islice(self._list_lines(scan), _MOST_LINES))
            if lines:
                break
        else:
            note = "No line holds this text." if reading.is_certain else ""
            return Named(note=note)
        find_spans = scan.compile().find_spans
        spans = [find_spans(hit.text) for hit in lines]
        shares = [sum(end - start for start, end in found) for found in spans]
        # of a message that is spread over the source, the lines with the longest part of it
        best = [at for at, share in enumerate(shares) if share == max(shares)]
        hits: dict[tuple[str, int], Hit] = {}
        for at in best:
            hit = self._widen(lines[at], spans[at][0][0])
            hits.setdefault((hit.path, hit.span.start_line), hit)
        return Named(list(hits.values())[: self.limit])

    def _list_lines(self, scan: LineScan) -> Iterator[Hit]:
        """Matching lines of files that pass the filters, by path and line."""
        for hit in list_line_hits(self.project, scan, self.work):
            if hit.kind in self.kinds and self.places[hit.kind].admits(hit.path):
                yield replace(hit, score_type=EXACT)

    def _widen(self, line: Hit, at: int) -> Hit:
        """The chunk that holds a line, if it is indexed as it is now."""
        place, number = self.places[line.kind], line.span.start_line
        for chunk in place.store.chunks_of(line.path):
            rows, row = chunk.text.split("\n"), number - chunk.span.start_line
            if 0 <= row < len(rows) and rows[row] == line.text:
                return replace(self._make_hit(place, line.path, chunk), focus=number)
        return trim_line(line, at, _LONGEST_LINE)


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


def _covers(hit: Hit, path: str, line: int) -> bool:
    return hit.path == path and hit.span.start_line <= line <= hit.span.end_line


def _keep_head(hit: Hit) -> Hit:
    """The first lines of a hit alone."""
    text = "\n".join(hit.text.split("\n")[:_HEAD_LINES]).rstrip("\n")
    start, first = hit.span.start_byte, hit.span.start_line
    span = Span(first, first + text.count("\n"), start, start + measure_utf8(text))
    return replace(hit, text=text, span=span, symbol="")
