"""The commands that look for something: search, grep, files."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sonde.cli.highlight import find_pattern, find_query_words
from sonde.cli.render import Look, describe_search, render_grep, render_search
from sonde.cli.session import Session

FOUND, NOTHING = 0, 1
_ROOMY = 20_000
"""Tokens: people scroll, so they get whole results; programs get the budget of the settings."""


def run_search(session: Session) -> int:
    """Answer a question about the project's code, or its documentation."""
    from sonde.tools.code import search_code, search_docs

    args = session.args
    query = " ".join(args.query)
    project = "all" if args.all_projects else session.project
    with session.working() as work:
        answer = (search_docs if args.docs else search_code)(
            session.app,
            query,
            top_k=args.limit or 10,
            project=project,
            mode=args.mode or "auto",
            path=_read_path(session, args.path),
            max_tokens=args.max_tokens or (None if args.json else _ROOMY),
            explain=args.explain,
            work=work,
        )
    if args.json:
        session.print_json(answer)
    else:
        look = Look(session.out, session.show_path, full=args.full, scores=args.scores)
        find = find_pattern(query) if args.mode == "regex" else find_query_words(query)
        session.print_lines(render_search(answer, look, find))
        session.note(" · ".join(describe_search(answer)))
    return FOUND if answer["results"] else NOTHING


def _read_path(session: Session, path: str | None) -> str | None:
    """A path as typed here; a glob, or anything across projects, is passed on as it is."""
    if not path or session.args.all_projects or any(char in path for char in "*?[{"):
        return path
    return session.inside(path)


def run_grep(session: Session) -> int:
    """Print the lines that match, as grep does."""
    from sonde.tools.code import grep

    args = session.args
    globs = args.glob or []
    around = args.context or 0
    with session.working() as work:
        answer = grep(
            session.app,
            args.pattern,
            paths=[session.inside(path) for path in args.paths],
            ignore_case=args.ignore_case,
            whole_word=args.word_regexp,
            fixed_string=args.fixed_strings,
            include=[glob for glob in globs if not glob.startswith("!")],
            exclude=[glob[1:] for glob in globs if glob.startswith("!")],
            language=args.type,
            before=around if args.before_context is None else args.before_context,
            after=around if args.after_context is None else args.after_context,
            max_count=args.max_count,
            project=session.project,
            work=work,
            **({"limit": args.limit} if args.limit else {}),
        )
    if args.json:
        session.print_json(answer)
    else:
        _print_grep(session, answer)
    return FOUND if answer["matches"] else NOTHING


def _print_grep(session: Session, answer: Any) -> None:
    args = session.args
    look = Look(session.out, session.show_path, full=args.full)
    counts = Counter(match["path"] for match in answer["matches"])
    if args.files_with_matches:
        session.print_lines(look.path(path) for path in counts)
    elif args.count:
        session.print_lines(f"{look.path(path)}:{count}" for path, count in counts.items())
    else:
        lines = render_grep(answer, look, heading=session.out.tty, numbers=not args.no_line_number)
        session.print_lines(lines)
    if answer.get("truncated"):
        session.note("more lines match; see them with --limit N or a narrower path", "warn")


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
        look = Look(session.out, session.show_path)
        session.print_lines(look.path(path) for path in answer["matches"])
        hidden = answer["totalMatches"] - len(answer["matches"])
        if hidden > 0:
            session.note(f"{hidden:,} more; see them with --limit {answer['totalMatches']}")
    return FOUND if answer["matches"] else NOTHING
