"""The commands that search: search, files; and their answers as lines for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sonde.cli.parse import FOUND, NOTHING
from sonde.cli.session import Session
from sonde.cli.terminal import Screen, cut_line, escape_controls, prepare_line
from sonde.errors import InvalidRequest
from sonde.text.formats import count_of
from sonde.text.highlight import Finder, TextSpan, find_query_words, join_parts
from sonde.types import HitRow

if TYPE_CHECKING:
    from sonde.tools.shapes.rfc import SearchAnswer

SNIPPET_LINES = 10  # a screen shows three results of this height
LEAD_LINES = 2  # shown above the first line with a match
_HEAD_ENDS = (")", "]", "{")
"""How a line begins that ends the head of a definition, not the definition itself."""
_MAX_LINES = 100_000  # without --limit: more than anybody reads, and still little memory
_TERMINAL_TOKENS = 20_000
"""People scroll, so they get whole results; programs get the budget of the settings."""


def run_search(session: Session) -> int:
    """Answer a question about the project's code, or its documentation."""
    from sonde.searching.readings import read_literally
    from sonde.tools.code import search_code, search_docs

    args = session.args
    query = " ".join(args.query)
    if args.mode == "regex":
        return _search_lines(session, query)
    project = "all" if args.all_projects else session.project
    verb = search_docs if args.docs else search_code
    tokens = args.max_tokens or (None if args.json else _TERMINAL_TOKENS)
    with session.working() as work:
        options = {"max_tokens": tokens, "explain": args.explain, "work": work}
        answer = verb(
            session.app,
            query,
            top_k=args.limit or 10,
            project=project,
            mode=args.mode or "auto",
            # across projects, a path is relative to each of them
            path=args.path if args.all_projects or not args.path else session.inside(args.path),
            **options,
        )
        # who names a number wants all of them, and no option takes a cursor
        while args.limit and not args.max_tokens and "nextCursor" in answer:
            more = verb(session.app, cursor=answer["nextCursor"], **options)
            rows = answer["results"] + more["results"]
            answer = {**more, "results": rows, "metadata": answer["metadata"]}
    if args.json:
        session.print_json(answer)
    else:
        look = Style(session.out, session.show_path, full=args.full, scores=args.scores)
        reading = read_literally(query)
        line = reading.line if reading else 0
        session.print_lines(render_search(answer, look, find_query_words(query), line))
        session.note(" · ".join(describe_search(answer)))
    return FOUND if answer["results"] else NOTHING


def _search_lines(session: Session, pattern: str) -> int:
    """`--mode regex`: the lines that match."""
    from sonde.cli.grep.printing import Form, Printer, pick_lines
    from sonde.projects.lines import LineScan, scan_project
    from sonde.tools.code import grep

    args = session.args
    if args.all_projects or args.docs:
        raise InvalidRequest(
            "mode=regex",
            user_message="A regular expression searches one project, code and docs alike.",
            next_action="Leave out --all-projects and --docs; name the project with --project.",
        )
    paths = (session.inside(args.path),) if args.path else ()
    limit = args.limit or _MAX_LINES
    with session.working() as work:
        if args.json:
            answer = grep(
                session.app, pattern, paths=paths, limit=limit, project=session.project, work=work
            )
            session.print_json(answer)
            return FOUND if answer["matches"] else NOTHING
        form = Form(heading=session.out.tty, full=args.full)
        printer = Printer(form, session.out, sys.stdout.buffer)
        scan = LineScan(pattern, paths=paths)
        for text, _ in scan_project(session.opened, scan, work, max_count=1, spans=False):
            lines = pick_lines(scan.compile(), text.data, form, work.check)
            lines = lines[: limit - printer.totals.lines]
            printer.print_file(session.show_path(text.path), text.data, lines, None)
            if printer.totals.lines >= limit:
                session.note("more lines may match; see them with --limit N", "warn")
                break
    sys.stdout.buffer.flush()
    return FOUND if printer.totals.lines else NOTHING


def run_files(session: Session) -> int:
    """Print the paths that match a glob."""
    from sonde.tools.code import search_by_path

    args = session.args
    with session.working() as work:
        answer = search_by_path(
            session.app, args.glob, limit=args.limit or 20, project=session.project, work=work
        )
    if args.json:
        session.print_json(answer)
    else:
        look = Style(session.out, session.show_path)
        session.print_lines(look.path(path) for path in answer["matches"])
        if (hidden := answer["totalMatches"] - len(answer["matches"])) > 0:
            session.note(f"{hidden:,} more; see them with --limit {answer['totalMatches']}")
    return FOUND if answer["matches"] else NOTHING


def choose_window(
    lines: Sequence[str], find: Finder, size: int, opening: int | None = None
) -> tuple[int, int]:
    """The first run of at most `size` lines with the most distinct words of the query, moved so
    that the first match is near its top; the line at `opening` counts as one more word."""
    last = len(lines) - size
    if last <= 0:
        return 0, len(lines)
    found = [{line[a:b].lower() for a, b in find(line)} for line in lines]
    if opening is not None:
        found[opening].add("")
    runs = [set().union(*found[start : start + size]) for start in range(last + 1)]
    start = max(range(last + 1), key=lambda index: (len(runs[index]), -index))
    first = next((index for index in range(start, start + size) if found[index]), start)
    if opening is not None and start <= opening < start + size:
        whole = max(0, min(opening - LEAD_LINES, last))
        first = opening if len(runs[whole]) == len(runs[start]) else first
    start = max(start, min(first - LEAD_LINES, last))
    while start < last and not lines[start].strip():
        start += 1
    return start, start + size


def find_opening(lines: Sequence[str], symbol: str) -> int | None:
    """The index of the line in which the definition of a symbol begins; None if not among these."""
    name = symbol.rpartition(".")[2]
    return next((at for at, line in enumerate(lines) if name and name in line), None)


def reaches(lines: Sequence[str], opening: int, at: int) -> bool:
    """Whether the block that begins at `opening` extends to line `at`, judged by indentation."""
    depth = _measure_indent(lines[opening])
    return opening <= at and all(
        _measure_indent(line) > depth or line.lstrip()[:1] in _HEAD_ENDS
        for line in lines[opening + 1 : at + 1]
        if line.strip()
    )


def _measure_indent(line: str) -> int:
    return len(line.expandtabs()) - len(line.expandtabs().lstrip())


@dataclass(frozen=True, slots=True)
class Style:
    """How results are printed: the screen, the spelling of paths, how much of each."""

    screen: Screen
    show_path: Callable[[str, str | None], str] = lambda path, _project: path
    full: bool = False
    scores: bool = False

    def path(self, path: str, project: str | None = None) -> str:
        """A path relative to the working directory; its controls are escaped on a terminal."""
        shown = self.show_path(path, project)
        return self.screen.paint("path", escape_controls(shown) if self.screen.tty else shown)

    def cut(self, text: str, spans: Sequence[TextSpan], taken: int) -> str:
        """A line of a file with its matches marked, cut to the width left of `taken`."""
        shown, moved = prepare_line(text, spans)
        width = None if self.full or self.screen.width is None else self.screen.width - taken
        return self.screen.mark(cut_line(shown, width), moved)


def render_search(answer: SearchAnswer, look: Style, find: Finder, focus: int = 0) -> Iterator[str]:
    """Each result: its place, then the lines that match best, or those around a line number."""
    for index, row in enumerate(answer["results"]):
        if index:
            yield ""
        lines, symbol = row["text"].removesuffix("\n").split("\n"), row.get("symbol", "")
        opening = find_opening(lines, symbol)
        size = len(lines) if look.full else SNIPPET_LINES
        start, end = choose_window(lines, find, size, opening)
        if 0 <= (at := focus - row["startLine"]) < len(lines):
            start = max(0, min(at - LEAD_LINES, len(lines) - size))
            end = min(start + size, len(lines))
        if opening is not None and not start <= opening < end:
            best = next((at for at in range(start, end) if find(lines[at])), start)
            # a chunk may hold several definitions: the name of another one misleads
            symbol = symbol if reaches(lines, opening, best) else ""
        yield _render_place(row, look, symbol)
        numbers = _number_lines(row, len(lines))
        gutter = len(str(row["endLine"]))
        for at in range(start, end if row["text"] else start):  # a listed path has no text
            number = look.screen.paint("dim", f"  {numbers[at]:>{gutter}} │ ")
            line = lines[at].removesuffix("\r")
            yield (number + look.cut(line, join_parts(line, find(line)), gutter + 5)).rstrip()
        if hidden := len(lines) - (end - start):
            yield look.screen.paint("dim", f"  {'':>{gutter}} ⋮ {count_of(hidden, 'more line')}")
        for name, value in row.get("why", {}).items():
            yield look.screen.paint("dim", f"    {value:+8.3f}  {escape_controls(name)}")


def _number_lines(row: HitRow, count: int) -> list[str]:
    """The number of each line shown; empty for the line that stands for those left out."""
    first = row["startLine"]
    parts = row.get("parts") or ((first, first + count - 1),)
    numbers: list[str] = []
    for start, end in parts:
        numbers += ([""] if numbers else []) + [str(line) for line in range(start, end + 1)]
    return numbers


def _render_place(row: HitRow, look: Style, symbol: str) -> str:
    paint, start, end = look.screen.paint, row["startLine"], row["endLine"]
    lines = str(start) if start == end else f"{start}-{end}"
    parts = [f"{look.path(row['path'], row.get('project'))}:{paint('line', lines)}"]
    if symbol:
        parts.append(paint("bold", escape_controls(symbol)))
    if look.scores:
        parts.append(paint("dim", f"{row['score']:.3f}"))
    if row.get("stale"):
        parts.append(paint("warn", "(the file changed since)"))
    return "  ".join(parts)


def describe_search(answer: SearchAnswer) -> list[str]:
    """Notes on the results: how many, how fresh, what was cut."""
    shown, total = len(answer["results"]), answer["totalResults"]
    count = f"{shown}" if shown == total else f"{shown} of {total}"
    notes = [f"{count} result{'' if total == 1 else 's'} in {answer['searchTimeMs']} ms"]
    if answer.get("truncated"):
        notes.append("cut to the size limit; see more with --max-tokens or --limit")
    metadata = answer["metadata"]
    freshness = metadata.get("freshness", "complete")
    if not freshness.startswith(("complete", "no index")):  # a note says the latter
        notes.append(escape_controls(freshness))
    if note := metadata.get("note"):
        notes.append(escape_controls(note))
    return notes
