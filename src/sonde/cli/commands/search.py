"""The commands that search: search, grep, files; and their answers as lines for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sonde.cli.parse import FOUND, NOTHING
from sonde.cli.session import Session
from sonde.cli.terminal import Screen, cut_line, display_width, escape_controls, prepare_line
from sonde.errors import InvalidRequest
from sonde.text.formats import count_of
from sonde.text.highlight import Finder, TextSpan, find_query_words, join_parts
from sonde.types import HitRow

if TYPE_CHECKING:
    from sonde.tools.shapes.rfc import GrepAnswer, SearchAnswer

SNIPPET_LINES = 10  # a screen shows three results of this height
LEAD_LINES = 2  # shown above the first line with a match
_HEAD_ENDS = (")", "]", "{")
"""How a line begins that ends the head of a definition, not the definition itself."""
_MAX_LINES = 100_000  # without --limit: more than anybody reads, and still little memory
_COMMIT_CHARS, _MESSAGE_LINES = 10, 6
"""Of a commit: its id as git shortens it in a large repository; its reasons, and some paths."""
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
    args = session.args
    if args.all_projects or args.docs:
        raise InvalidRequest(
            "mode=regex",
            user_message="A regular expression searches one project, code and docs alike.",
            next_action="Leave out --all-projects and --docs; name the project with --project.",
        )
    paths = [args.path] if args.path else []
    return _print_grep(session, _grep(session, pattern, paths, limit=args.limit or _MAX_LINES))


def run_grep(session: Session) -> int:
    """Print the lines that match, as grep does."""
    args = session.args
    globs = args.glob or []
    _check_language(args.type)
    around = args.context or 0
    answer = _grep(
        session,
        args.pattern,
        args.paths,
        ignore_case=args.ignore_case,
        whole_word=args.word_regexp,
        fixed_string=args.fixed_strings,
        include=tuple(glob for glob in globs if not glob.startswith("!")),
        exclude=tuple(glob[1:] for glob in globs if glob.startswith("!")),
        language=args.type,
        before=around if args.before_context is None else args.before_context,
        after=around if args.after_context is None else args.after_context,
        max_count=args.max_count,
        limit=args.limit or _MAX_LINES,
    )
    counts = Counter(match["path"] for match in answer["matches"])
    show = Style(session.out, session.show_path).path
    if args.json or not (args.files_with_matches or args.count):
        return _print_grep(session, answer, numbers=not args.no_line_number)
    if args.files_with_matches:
        session.print_lines(show(path) for path in counts)
    else:
        session.print_lines(f"{show(path)}:{count}" for path, count in counts.items())
    return FOUND if counts else NOTHING


def _check_language(name: str | None) -> None:
    from sonde.text.languages import NAMES, find_language

    if name and find_language(name) not in NAMES:
        raise InvalidRequest(
            f"no language {name!r}",
            user_message="There is no language '{name}'.",
            next_action="Name it as in `-t python`, by an extension (`-t ts`), or use -g '*.x'.",
            name=name,
        )


def _grep(session: Session, pattern: str, paths: Sequence[str], **options: Any) -> GrepAnswer:
    from sonde.tools.code import grep

    below = tuple(session.inside(path) for path in paths)
    options |= {"paths": below, "project": session.project}
    with session.working() as work:
        return grep(session.app, pattern, work=work, **options)


def _print_grep(session: Session, answer: GrepAnswer, *, numbers: bool = True) -> int:
    if session.args.json:
        session.print_json(answer)
    else:
        look = Style(session.out, session.show_path, full=session.args.full)
        session.print_lines(render_grep(answer, look, heading=session.out.tty, numbers=numbers))
        if answer["truncated"]:
            session.note("more lines match; see them with --limit N or a narrower path", "warn")
    return FOUND if answer["matches"] else NOTHING


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


_Line = tuple[str, Sequence[TextSpan] | None]
"""The text of a line and its matches; None marks a line that is only context."""


def render_grep(answer: GrepAnswer, look: Style, *, heading: bool, numbers: bool) -> Iterator[str]:
    """Matching lines as grep prints them; grouped under their file on a terminal."""
    files = groupby(answer["matches"], key=lambda match: match["path"])
    for index, (path, matches) in enumerate(files):
        context = False
        lines: dict[int, _Line] = {}
        for match in matches:
            line = match["line"]
            before, after = match.get("before", ()), match.get("after", ())
            context |= bool(before or after)
            for number, text in enumerate((*before, None, *after), line - len(before)):
                if text is not None:
                    lines.setdefault(number, (text, None))
            lines[line] = (match["text"], [(start, end) for start, end in match["spans"]])
        if index and (heading or context):
            yield "" if heading else "--"
        if heading:
            yield look.path(path)
        prefix = "" if heading else look.path(path)
        yield from _render_lines(dict(sorted(lines.items())), prefix, look, numbers)


def _render_lines(
    lines: Mapping[int, _Line], prefix: str, look: Style, numbers: bool
) -> Iterator[str]:
    previous: int | None = None
    context = any(spans is None for _, spans in lines.values())
    plain = display_width(re.sub("\x1b\\[[0-9;]*m", "", prefix))
    for number, (text, spans) in lines.items():
        if context and previous is not None and number > previous + 1:
            yield look.screen.paint("dim", "--")
        previous = number
        mark = "-" if spans is None else ":"
        head = f"{prefix}{mark}" if prefix else ""
        if numbers:
            head += look.screen.paint("line", str(number)) + mark
        taken = plain + len(mark) * bool(prefix) + (len(str(number)) + 1) * numbers
        if look.screen.tty or look.screen.color:
            yield head + look.cut(text, spans or (), taken)
        else:
            yield head + text


def run_related(session: Session) -> int:
    """What is similar in words and meaning to a place or a passage."""
    from sonde.tools.code import find_related

    answer = _ask_near(session, find_related, " ".join(session.args.place))
    look = Style(session.out, session.show_path, full=session.args.full)
    return _finish_near(session, answer, render_search(answer, look, lambda _line: []))


def run_history(session: Session) -> int:
    """Commits by what they did and why."""
    from sonde.tools.code import search_history

    query = " ".join(session.args.query)
    answer = _ask_near(session, search_history, query)
    return _finish_near(session, answer, _render_commits(session, answer, find_query_words(query)))


def _ask_near(session: Session, verb: Callable[..., SearchAnswer], query: str) -> SearchAnswer:
    args = session.args
    path = session.inside(args.path) if args.path else None
    tokens = None if args.json else _TERMINAL_TOKENS
    options = {"top_k": args.limit or 10, "path": path, "max_tokens": tokens}
    with session.working() as work:
        return verb(session.app, query, project=session.project, work=work, **options)


def _finish_near(session: Session, answer: SearchAnswer, lines: Iterator[str]) -> int:
    if session.args.json:
        session.print_json(answer)
    else:
        session.print_lines(lines)
        session.note(" · ".join(describe_search(answer)))
    return FOUND if answer["results"] else NOTHING


def _render_commits(session: Session, answer: SearchAnswer, find: Finder) -> Iterator[str]:
    """Each commit: its id, day, author and subject, then its message and its paths."""
    paint, mark = session.out.paint, session.out.mark
    for row in answer["results"]:
        when, *message = [escape_controls(line) for line in row["text"].splitlines()]
        subject, *rest = message or [""]
        head = f"{paint('path', row['path'][:_COMMIT_CHARS])}  {paint('dim', when)}"
        yield f"{head}  {mark(subject, find(subject))}"
        body = [line for line in rest if line.strip()]
        shown = body if session.args.full else body[:_MESSAGE_LINES]
        yield from (f"    {mark(line, find(line))}" for line in shown)
        if hidden := len(body) - len(shown):
            yield paint("dim", f"    ⋮ {count_of(hidden, 'more line')}")
