"""The commands that search: search, grep, files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sonde.cli.parse import FOUND, NOTHING
from sonde.cli.render import Style, describe_search, render_grep, render_search
from sonde.cli.session import Session
from sonde.errors import InvalidRequest
from sonde.text.highlight import find_query_words

if TYPE_CHECKING:
    from sonde.tools.shapes.rfc import GrepAnswer


_MAX_LINES = 100_000
"""Of a grep without --limit: more than anybody reads, and still little memory."""
_TERMINAL_TOKENS = 20_000
"""People scroll, so they get whole results; programs get the budget of the settings."""


def run_search(session: Session) -> int:
    """Answer a question about the project's code, or its documentation."""
    from sonde.tools.code import search_code, search_docs

    args = session.args
    query = " ".join(args.query)
    if args.mode == "regex":
        return _search_lines(session, query)
    project = "all" if args.all_projects else session.project
    with session.working() as work:
        answer = (search_docs if args.docs else search_code)(
            session.app,
            query,
            top_k=args.limit or 10,
            project=project,
            mode=args.mode or "auto",
            path=_read_path(session, args.path),
            max_tokens=args.max_tokens or (None if args.json else _TERMINAL_TOKENS),
            explain=args.explain,
            work=work,
        )
    if args.json:
        session.print_json(answer)
    else:
        look = Style(session.out, session.show_path, full=args.full, scores=args.scores)
        session.print_lines(render_search(answer, look, find_query_words(query)))
        session.note(" · ".join(describe_search(answer)))
    return FOUND if answer["results"] else NOTHING


def _read_path(session: Session, path: str | None) -> str | None:
    """A path as typed here; across projects it is relative to each of them."""
    return path if not path or session.args.all_projects else session.inside(path)


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
    with session.working() as work:
        return grep(
            session.app, pattern, paths=below, project=session.project, work=work, **options
        )


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
        hidden = answer["totalMatches"] - len(answer["matches"])
        if hidden > 0:
            session.note(f"{hidden:,} more; see them with --limit {answer['totalMatches']}")
    return FOUND if answer["matches"] else NOTHING
