"""The commands `search`, `files`, `related` and `history`, and their results as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sonde.cli.colors import color_code
from sonde.cli.parse import FOUND, NOTHING
from sonde.cli.session import Session
from sonde.cli.terminal import Screen, escape_controls
from sonde.errors import DocsIndexNotFound
from sonde.text.formats import count_of, format_heading
from sonde.text.highlight import Finder, find_query_words, join_parts, number_lines
from sonde.text.languages import language_of
from sonde.types import HitRow

if TYPE_CHECKING:
    from sonde.tools.shapes.rfc import SearchAnswer

SNIPPET_LINES = 10  # a screen shows three results of this height
LEAD_LINES = 2  # shown above the first line with a match
_COMMENTS = ("#", "//", "/*", "*", "--", ";", '"', "'")
"""Starts of lines that end the signature of a definition, not the definition itself."""
_DOUBTFUL = "No exact match"
"""How the note begins if the index contains no word of the query."""
_NO_INDEX = "no index yet: with `sonde index`, searches are faster and find by meaning"
_DOCUMENTS = "no code contains these words; documents do (--docs)"
_DOUBTFUL_HITS = 3  # of such an answer: enough to see whether one fits by meaning
_MOST_HITS = 50  # what the verbs rank at most
_COMMIT_CHARS, _MESSAGE_LINES = 10, 6
"""Shown of a commit: the length of its id as git abbreviates it, lines of message, and paths."""
_TERMINAL_TOKENS = 20_000
"""Token budget for people, who scroll; programs get the budget of the settings."""


def run_search(session: Session) -> int:
    """Answer a question from the project's code, or from its documents if no code has its words."""
    args = session.args
    query = " ".join(args.query)
    answer = _ask(session, query, docs=args.docs)
    if _is_doubtful(answer) and not args.docs and args.mode in (None, "auto"):
        with suppress(DocsIndexNotFound):
            documents = _ask(session, query, docs=True)
            if documents["results"] and not _is_doubtful(documents):
                answer = documents
                answer["metadata"]["note"] = _DOCUMENTS
    results, note = answer["results"], answer["metadata"].get("note", "")
    is_doubtful = _is_doubtful(answer)
    if is_doubtful and not (args.limit or args.all or args.json or args.json_lines):
        results = results[:_DOUBTFUL_HITS]
        answer = {**answer, "results": results}
    if args.open and results:
        path = session.show_path(results[0]["path"], results[0].get("project"))
        return session.open_place(path, results[0]["startLine"])
    if args.json_lines:
        for row in results:
            session.console.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    elif args.json:
        session.print_json(answer)
    else:
        _print_results(session, answer, query, note if is_doubtful else "")
    return FOUND if results else NOTHING


def _is_doubtful(answer: SearchAnswer) -> bool:
    """Whether nothing was found, or only what is near in meaning."""
    return not answer["results"] or answer["metadata"].get("note", "").startswith(_DOUBTFUL)


def _ask(session: Session, query: str, *, docs: bool) -> SearchAnswer:
    from sonde.tools.code import search_code, search_docs

    args = session.args
    verb = search_docs if docs else search_code
    tokens = args.max_tokens or (None if args.json else _TERMINAL_TOKENS)
    with session.working() as work:
        options = {"max_tokens": tokens, "explain": args.explain, "work": work}
        skip, wanted = args.cursor or 0, args.limit or (_MOST_HITS if args.all else 10)
        answer = verb(
            session.app,
            query,
            top_k=min(skip + wanted, max(_MOST_HITS, wanted)),
            project="all" if args.all_projects else session.project,
            mode=args.mode or "auto",
            # across projects, a path is relative to each of them
            path=args.path if args.all_projects or not args.path else session.inside(args.path),
            **options,
        )
        # who names a number wants that many; rankings are ordered, so pages can be counted
        is_more = (args.limit and not args.max_tokens) or args.all or skip
        while is_more and "nextCursor" in answer:
            more = verb(session.app, cursor=answer["nextCursor"], **options)
            rows = answer["results"] + more["results"]
            answer = {**more, "results": rows, "metadata": answer["metadata"]}
    return {**answer, "results": answer["results"][skip:]}


def _print_results(session: Session, answer: SearchAnswer, query: str, doubt: str) -> None:
    from sonde.searching.query_language import parse_query
    from sonde.searching.readings import read_literally

    args = session.args
    if doubt:  # before what is only near in meaning
        session.note(escape_controls(doubt), "warn")
    look = Style(session.out, session.show_path, full=args.full, scores=args.scores)
    reading = read_literally(query)
    line, words = reading.line if reading else 0, parse_query(query).words
    lines = list(render_search(answer, look, find_query_words(words), line))
    session.page_lines([*([doubt, ""] if doubt and lines else ()), *lines], len(lines))
    session.note(" · ".join(note for note in describe_search(answer) if note != doubt))
    if "nextCursor" in answer:
        after = (args.cursor or 0) + len(answer["results"])
        session.note(f"more: repeat with --all, or --cursor {after}")


def run_files(session: Session) -> int:
    """Print the paths that match a glob."""
    from sonde.tools.code import search_by_path

    args, glob = session.args, widen_name(session.args.glob)
    with session.working() as work:
        answer = search_by_path(
            session.app, glob, limit=args.limit or 20, project=session.project, work=work
        )
    matches, total = answer["matches"], answer["totalMatches"]
    more = f"{total - len(matches):,} more; see them with --limit {total}"
    lines = map(Style(session.out, session.show_path).path, matches)
    note = more if total > len(matches) else ""
    note = note if matches else f"no indexed path matches '{args.glob}'"
    return session.print_answer(answer, lines, note, found=bool(matches))


def widen_name(name: str) -> str:
    """The glob of every path with this in it, unless it is one already."""
    return name if set(name) & set("*?[{") else f"**/*{name}*"


def choose_window(
    lines: Sequence[str], find: Finder, size: int, opening: int | None = None
) -> tuple[int, int]:
    """The first window of at most `size` lines with most distinct words of the query, shifted so
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
    """The index of the first line outside comments that names a symbol; None if none does."""
    name = symbol.rpartition(".")[2]
    naming = [at for at, line in enumerate(lines) if name and name in line]
    in_code = (at for at in naming if not lines[at].lstrip().startswith(_COMMENTS))
    return next(in_code, naming[0] if naming else None)


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
        painted = self.screen.paint("path", escape_controls(shown) if self.screen.tty else shown)
        return self.screen.link(shown, painted)


def render_search(answer: SearchAnswer, look: Style, find: Finder, focus: int = 0) -> Iterator[str]:
    """Each result: its place, then the best matching lines, or those around a line number."""
    for index, row in enumerate(answer["results"]):
        if index:
            yield ""
        lines = row["text"].removesuffix("\n").split("\n")
        opening = find_opening(lines, row.get("symbol", ""))
        size = len(lines) if look.full else SNIPPET_LINES
        start, end = choose_window(lines, find, size, opening)
        if 0 <= (at := focus - row["startLine"]) < len(lines):
            start = max(0, min(at - LEAD_LINES, len(lines) - size))
            end = min(start + size, len(lines))
        shown = list(range(start, end if row["text"] else start))  # a listed path has no text
        if opening is not None and opening not in shown:
            shown = sorted([*shown[: size - 1], opening])  # what the lines belong to
        yield _render_place(row, look)
        numbers = number_lines(row.get("parts") or (), row["startLine"], len(lines))
        colored = color_code(row["text"], language_of(row["path"]).name, look.screen)
        gutter = len(str(row["endLine"]))
        for before, at in zip([None, *shown], shown, strict=False):
            if before is not None and at > before + 1:
                yield look.screen.paint("dim", f"  {'':>{gutter}} ⋮")
            number = look.screen.paint("dim", f"  {numbers[at] or '':>{gutter}} │ ")
            line = lines[at].removesuffix("\r")
            width = None if look.full or not look.screen.width else look.screen.width - gutter - 5
            yield (number + colored.draw(at, join_parts(line, find(line)), width)).rstrip()
        if hidden := len(lines) - max(len(shown), 1):
            yield look.screen.paint("dim", f"  {'':>{gutter}} ⋮ {count_of(hidden, 'more line')}")
        if why := row.get("why"):
            from sonde.ranking.weights import explain_score

            for reason, part in explain_score(why):
                yield look.screen.paint("dim", f"    {part:+6.2f}  {escape_controls(reason)}")


def _render_place(row: HitRow, look: Style) -> str:
    paint, start, end = look.screen.paint, row["startLine"], row["endLine"]
    lines = str(start) if start == end else f"{start}-{end}"
    parts = [f"{look.path(row['path'], row.get('project'))}:{paint('line', lines)}"]
    if symbol := format_heading(row.get("symbol", "")):
        parts.append(paint("bold", escape_controls(symbol)))
    if look.scores:
        parts.append(paint("dim", f"{row['score']:.3f}"))
    if row.get("stale"):
        parts.append(paint("warn", "(the file changed since)"))
    return "  ".join(parts)


def describe_search(answer: SearchAnswer) -> list[str]:
    """Notes on the results: count, freshness, what was cut."""
    shown, total = len(answer["results"]), answer["totalResults"]
    count = f"{shown}" if shown == total else f"{shown} of {total}"
    notes = [f"{count} result{'' if total == 1 else 's'} in {answer['searchTimeMs']} ms"]
    if answer.get("truncated"):
        notes.append("cut to the size limit; see more with --max-tokens or --limit")
    metadata = answer["metadata"]
    freshness = metadata.get("freshness", "complete")
    if freshness.startswith("no index"):
        return [*notes, _NO_INDEX]
    if not freshness.startswith("complete"):
        notes.append(escape_controls(freshness))
    if (note := metadata.get("note")) and not freshness.startswith("empty"):
        notes.append(escape_controls(note))
    return notes


def run_related(session: Session) -> int:
    """Print what is similar in words and meaning to a place or a passage."""
    from sonde.tools.code import find_related

    answer = _ask_near(session, find_related, " ".join(session.args.place))
    look = Style(session.out, session.show_path, full=session.args.full)
    lines = render_search(answer, look, lambda _line: [])
    return session.print_answer(answer, lines, _sum_up(answer), found=bool(answer["results"]))


def run_history(session: Session) -> int:
    """Print commits that match a query."""
    from sonde.tools.code import search_history

    query = " ".join(session.args.query)
    answer = _ask_near(session, search_history, query)
    lines = _render_commits(session, answer, find_query_words(query))
    return session.print_answer(answer, lines, _sum_up(answer), found=bool(answer["results"]))


def _ask_near(session: Session, verb: Callable[..., SearchAnswer], query: str) -> SearchAnswer:
    args = session.args
    path = session.inside(args.path) if args.path else None
    tokens = None if args.json else _TERMINAL_TOKENS
    options = {"top_k": args.limit or 10, "path": path, "max_tokens": tokens}
    with session.working() as work:
        return verb(session.app, query, project=session.project, work=work, **options)


def _sum_up(answer: SearchAnswer) -> str:
    return " · ".join(describe_search(answer))


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
