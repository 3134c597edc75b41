"""`sonde knowledge`: import, search, read, edit and export personal knowledge."""

from __future__ import annotations

import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sonde.cli.parse import FOUND
from sonde.cli.session import Session
from sonde.cli.terminal import Screen, escape_controls, render_facts
from sonde.errors import Cancelled, InvalidRequest, list_packages
from sonde.runtime.work import Work
from sonde.text.formats import count_of, format_bytes
from sonde.text.highlight import Finder, find_query_words
from sonde.types import Json

if TYPE_CHECKING:
    from sonde.knowledge.importing import ImportReport
    from sonde.stores.knowledge.base import Entry, Source

_SHOWN_EXAMPLES = 3  # skipped files that are named for each reason without --verbose


def run_knowledge(session: Session) -> int:
    """Run the action that the command line names."""
    actions = {
        "import": _import, "search": _search, "get": _get, "add": _add, "edit": _edit,
        "delete": _delete, "export": _export, "restore": _restore, "status": _status,
    }  # fmt: skip
    return actions[session.args.action](session)


def _import(session: Session) -> int:
    from sonde.knowledge.editing import follow_knowledge, import_knowledge

    place = _take(session, "one file or folder to bring in")
    if not Path(place).expanduser().exists():
        raise InvalidRequest(
            f"{place} does not exist",
            user_message=f"There is no file or folder '{place}'.",
            next_action="Check the path of the file or folder to import.",
        )
    wanted, restore = session.args.source, session.args.restore
    with session.working() as work:
        report = import_knowledge(session.app.knowledge, place, wanted, restore=restore, work=work)
        _print_import(session, report)
        sys.stdout.flush()
        if session.args.watch:
            try:
                for report in follow_knowledge(session.app.knowledge, place, wanted, work=work):
                    _print_import(session, report)
                    sys.stdout.flush()
            except Cancelled:
                return FOUND
    return FOUND


def _print_import(session: Session, report: ImportReport) -> None:
    if session.args.json:
        session.print_json(report.as_dict())
        return
    kinds = ("added", "updated", "moved", "removed", "unchanged")
    counts = {name: getattr(report, name) for name in kinds}
    done = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    session.print_lines([f"{session.out.paint('good', '✓')} {done or 'nothing to import'}"])
    for count, words in (
        (report.deleted, "deleted here and skipped; --restore restores them"),
        (report.copied, "changed here and in their files; yours became separate entries"),
        (report.redacted, "secrets left out of texts"),
    ):
        if count:
            session.note(f"{count:,} {words}")
    for kind, count in Counter(report.left_out).most_common():
        from sonde.knowledge.formats import LOSSES

        session.note(f"{count_of(count, kind)} left out of texts: {LOSSES.get(kind, '')}")
    if report.skipped:
        from sonde.knowledge.importing import REASONS
        from sonde.policy.admit import REASONS as ADMITTED

        for reason, count in Counter(report.skipped).most_common():
            words = REASONS.get(reason) or ADMITTED.get(reason, reason)
            packages = list_packages("documents") if reason == "missing_extra" else ""
            session.note(f"{count:,} skipped: {words}{packages and f'; pip install {packages}'}")
            named = [each for each in report.examples if each.reason == reason]
            for each in named if session.args.verbose else named[:_SHOWN_EXAMPLES]:
                is_known = each.detail in f"{words} {each.path}"
                detail = "" if is_known else f" ({each.detail})"
                session.note(escape_controls(f"  {each.path}{detail}"))


def _search(session: Session) -> int:
    from sonde.tools.knowledge import knowledge_search

    words = session.args.arguments
    if not words:
        raise _usage("words to search for")
    limit, work = min(session.args.limit or 10, 100), Work(caller=session.caller)
    sources = (session.args.source,) if session.args.source else ()
    answer = knowledge_search(
        session.app, " ".join(words), limit, sources=sources, max_tokens=20_000, work=work
    )
    found = answer["results"]
    note = "" if found else "nothing found; `sonde knowledge status` counts what there is"
    find = find_query_words(" ".join(words))
    lines = (line for row in found for line in ("", *_render_row(row, session.out, find)))
    return session.print_answer(answer, islice(lines, 1, None), note, found=bool(found))


def _render_row(row: Json, screen: Screen, find: Finder) -> Iterator[str]:
    paint, title = screen.paint, escape_controls(row["title"] or "(untitled)")
    yield f"{paint('bold', title)}  {paint('path', escape_controls(row['uri']))}"
    text = escape_controls((row["snippet"] or "").removeprefix(f"# {row['title']} "))
    lines = textwrap.wrap(text, screen.width - 2) if screen.width else [text]
    yield from (f"  {screen.mark(line, find(line))}" for line in lines)
    if row.get("duplicates"):
        named = [f"{each['file']} ({each['uri']})" for each in row["duplicates"]]
        more = row["duplicates_total"] - len(named)
        also = ", ".join([*named, f"{more:,} more"] if more else named)
        yield paint("dim", escape_controls(f"  also in: {also}"))


def _get(session: Session) -> int:
    from sonde.knowledge.editing import write_editable
    from sonde.knowledge.formats import BY_TESSERACT, LEFT_OUT
    from sonde.knowledge.getting import find_entry
    from sonde.knowledge.identity import name_file

    source, key = _pointer(session)
    if session.args.json:
        from sonde.tools.knowledge import knowledge_get

        options, work = {"mode": "full", "max_tokens": 20_000}, Work(caller=session.caller)
        session.print_json(knowledge_get(session.app, key, source, options, work=work))
        return FOUND
    entry = find_entry(session.app.knowledge.seen_by(session.caller.user), source, key)
    session.print_lines([session.out.paint("bold", escape_controls(entry.title))])
    left_out = (
        f"{count_of(n, kind)} left out" for kind, n in entry.facts.get(LEFT_OUT, {}).items()
    )
    scanned = entry.facts.get(BY_TESSERACT)
    said = [name_file(entry.path), str(entry.facts.get("author") or ""), entry.url, *left_out]
    said += [f"{scanned} read by tesseract"] if scanned else []
    if about := ", ".join(filter(None, said)):
        session.print_lines([session.out.paint("dim", escape_controls(about))])
    session.print_lines(escape_controls(line) for line in write_editable(entry).split("\n"))
    return FOUND


def _add(session: Session) -> int:
    from sonde.knowledge.editing import add_entry

    title = session.args.title
    if not title:
        raise _usage("--title TITLE; the text comes as an argument or on standard input")
    text = " ".join(session.args.arguments) or sys.stdin.read()
    source: Source = session.args.source or "notes"
    work = Work(caller=session.caller)
    entry = add_entry(session.app.knowledge, source, title, text, _tags(session) or (), work=work)
    return _print_change(session, entry, "added")


def _edit(session: Session) -> int:
    from sonde.knowledge.editing import edit_entry

    source, key = _pointer(session)
    library, args, tags = session.app.knowledge, session.args, _tags(session)
    text = " ".join(args.arguments[1:]) if args.arguments[1:] else None
    if text is None and args.title is None and tags is None:
        text = sys.stdin.read()
    work = Work(caller=session.caller)
    entry = edit_entry(library, source, key, title=args.title, text=text, tags=tags, work=work)
    return _print_change(session, entry, "changed")


def _delete(session: Session) -> int:
    from sonde.knowledge.editing import delete_entry
    from sonde.knowledge.getting import find_entry

    source, key = _pointer(session)
    seen = session.app.knowledge.seen_by(session.caller.user)
    entry = find_entry(seen, source, key, pieces=False)
    with session.working() as work:
        answer = work.ask(f"Delete '{entry.title}' from {source} for good?")
    if not answer:
        raise Cancelled(
            "not confirmed",
            user_message="Nothing was deleted.",
            next_action="Say yes when asked, or repeat the command with --yes.",
        )
    entry = delete_entry(session.app.knowledge, source, key, work=Work(caller=session.caller))
    return _print_change(session, entry, "deleted")


def _export(session: Session) -> int:
    from sonde.knowledge.editing import export_lines, write_knowledge
    from sonde.stores.knowledge.base import SOURCES

    sources = (session.args.source,) if session.args.source else SOURCES
    if session.args.arguments:
        target = Path(session.args.arguments[0]).expanduser()
        with session.working() as work:
            count = write_knowledge(session.app.knowledge, target, sources, work=work)
        session.note(f"{count:,} entries in {escape_controls(str(target))}")
    else:
        # no job: how long it takes depends on the reader
        store = session.app.knowledge.of(session.caller.user)
        session.print_lines(export_lines(store, sources))
    return FOUND


def _restore(session: Session) -> int:
    from sonde.knowledge.editing import restore_knowledge

    place = _take(session, "the file that `export` wrote")
    try:
        with Path(place).expanduser().open(encoding="utf-8") as file, session.working() as work:
            count = restore_knowledge(session.app.knowledge, file, name=place, work=work)
    except OSError as error:
        raise InvalidRequest(
            f"{place}: {error}",
            user_message=f"The file '{place}' cannot be read: {error.strerror}.",
            next_action="Name the file that `sonde knowledge export FILE` wrote.",
        ) from error
    session.print_lines([f"{session.out.paint('good', '✓')} {count:,} entries restored"])
    return FOUND


def _status(session: Session) -> int:
    from sonde.knowledge.editing import count_knowledge

    counts = count_knowledge(session.app.knowledge, work=Work(caller=session.caller))
    shown = {**counts, "bytes": format_bytes(counts["bytes"])}
    shown = {re.sub("_|(?=[A-Z])", " ", name).capitalize(): each for name, each in shown.items()}
    return session.print_answer(counts, render_facts(shown, session.out))


def _print_change(session: Session, entry: Entry, what: str) -> int:
    from sonde.knowledge.ranking import make_uri

    uri = make_uri(entry.source, entry.id)
    answer = {"status": what, "uri": uri, "version": entry.version}
    return session.print_done(answer, f"{what} {uri}")


def _tags(session: Session) -> list[str] | None:
    given: str | None = session.args.tags
    return None if given is None else [tag.strip() for tag in given.split(",") if tag.strip()]


def _pointer(session: Session) -> tuple[Source, str]:
    """`notes://ID`, as results show it."""
    from sonde.stores.knowledge.base import SOURCES

    given = session.args.arguments[0] if session.args.arguments else ""
    kind, found, key = given.partition("://")
    source = next((each for each in SOURCES if each == kind), None)
    if not found or source is None or not key:
        raise _usage("an address such as notes://ID, as `sonde knowledge search` shows it")
    return source, key.partition("#")[0]


def _take(session: Session, what: str) -> str:
    given: list[str] = session.args.arguments
    if len(given) != 1:
        raise _usage(what)
    return given[0]


def _usage(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"missing {what}",
        user_message=f"This needs {what}.",
        next_action="See `sonde knowledge --help`.",
    )
