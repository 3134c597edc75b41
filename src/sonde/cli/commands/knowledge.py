"""`sonde knowledge`: bring personal knowledge in, find it, read it, change it, take it out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde.cli.session import Session
from sonde.cli.terminal import escape_controls
from sonde.errors import Cancelled, InvalidRequest
from sonde.runtime.work import Work

if TYPE_CHECKING:
    from sonde.knowledge.importing import ImportReport
    from sonde.stores.knowledge.base import Source


FOUND, NOTHING = 0, 1
_SHOWN = 10


def run_knowledge(session: Session) -> int:
    """One of the actions."""
    actions = {
        "import": _import,
        "search": _search,
        "get": _get,
        "add": _add,
        "edit": _edit,
        "delete": _delete,
        "export": _export,
        "restore": _restore,
        "status": _status,
    }
    return actions[session.args.action](session)


def _import(session: Session) -> int:
    from sonde.knowledge.editing import follow_knowledge, import_knowledge

    (place,) = _take(session, "one file or folder to bring in")
    if not Path(place).expanduser().exists():
        raise InvalidRequest(
            f"{place} does not exist",
            user_message="There is no file or folder '{place}'.",
            next_action="Name what is to be brought in, relative to here or in full.",
            place=place,
        )
    wanted = _source(session)
    with session.working() as work:
        restore = session.args.restore
        report = import_knowledge(session.app, place, wanted, restore=restore, work=work)
        _tell_import(session, report)
        if session.args.watch:
            try:
                for report in follow_knowledge(session.app, place, wanted, work=work):
                    _tell_import(session, report)
            except Cancelled:
                return FOUND
    return FOUND


def _tell_import(session: Session, report: ImportReport) -> None:
    if session.args.json:
        session.print_json(report.as_dict())
    else:
        _print_report(session, report)
    session.flush()


def _print_report(session: Session, report: ImportReport) -> None:
    counts = ("added", "updated", "moved", "removed", "unchanged")
    told = ", ".join(
        f"{getattr(report, name):,} {name}" for name in counts if getattr(report, name)
    )
    session.print_lines([f"{session.out.paint('good', '✓')} {told or 'nothing to bring in'}"])
    for count, words in (
        (report.deleted, "deleted here and left out; --restore brings them back"),
        (report.copied, "changed here and in their files; what was here is kept beside them"),
        (report.redacted, "left out of texts because they are secrets"),
    ):
        if count:
            session.note(f"{count:,} {words}")
    if report.skipped:
        from sonde.knowledge.importing import REASONS
        from sonde.policy.admit import REASONS as ADMITTED

        for reason, count in report.skipped.most_common():
            told = REASONS.get(reason) or ADMITTED.get(reason, reason)
            session.note(f"{count:,} skipped: {told}")
        shown = report.examples if session.args.verbose else report.examples[:_SHOWN]
        for each in shown:
            detail = f" ({each.detail})" if each.detail else ""
            session.note(escape_controls(f"  {each.path}: {each.reason}{detail}"))
        if len(shown) < len(report.examples):
            session.note("  … --verbose shows more")


def _search(session: Session) -> int:
    from sonde.tools.knowledge import knowledge_search

    words = session.args.arguments
    if not words:
        raise _usage("words to search for")
    wanted = _source(session)
    answer = knowledge_search(
        session.app,
        " ".join(words),
        limit=min(session.args.limit or 10, 100),
        sources=(wanted,) if wanted else (),
        max_tokens=20_000,
        work=Work(),
    )
    if session.args.json:
        session.print_json(answer)
        return FOUND if answer["results"] else NOTHING
    paint = session.out.paint
    if not answer["results"]:
        session.note("nothing was found; `sonde knowledge status` says what there is")
    for row in answer["results"]:
        title = escape_controls(row["title"] or "(untitled)")
        session.print_lines([
            f"{paint('bold', title)}  {paint('path', escape_controls(row['uri']))}",
            f"  {escape_controls(row['snippet'] or '')}",
        ])  # fmt: skip
    return FOUND if answer["results"] else NOTHING


def _get(session: Session) -> int:
    from sonde.knowledge.editing import show_changed_entry
    from sonde.knowledge.getting import find_entry

    source, key = _pointer(session)
    if session.args.json:
        from sonde.tools.knowledge import knowledge_get

        options = {"mode": "full", "max_tokens": 20_000}
        session.print_json(knowledge_get(session.app, source, key, options, work=Work()))
        return FOUND
    entry = find_entry(session.app.knowledge.of(Work().caller.user), source, key)
    session.print_lines([session.out.paint("bold", escape_controls(entry.title))])
    session.print_lines(escape_controls(line) for line in show_changed_entry(entry).split("\n"))
    return FOUND


def _add(session: Session) -> int:
    from sonde.knowledge.editing import add_entry

    title = session.args.title
    if not title:
        raise _usage("--title TITLE; the text comes as an argument or on standard input")
    text = " ".join(session.args.arguments) or sys.stdin.read()
    tags = [tag.strip() for tag in (session.args.tags or "").split(",") if tag.strip()]
    source = _source(session) or "notes"
    return _tell(session, add_entry(session.app, source, title, text, tags, work=Work()), "added")


def _edit(session: Session) -> int:
    from sonde.knowledge.editing import edit_entry

    source, key = _pointer(session)
    words = session.args.arguments[1:]
    text = " ".join(words) if words else None
    if text is None and session.args.title is None and session.args.tags is None:
        text = sys.stdin.read()
    tags = session.args.tags
    listed = None if tags is None else [tag.strip() for tag in tags.split(",") if tag.strip()]
    entry = edit_entry(
        session.app, source, key, title=session.args.title, text=text, tags=listed, work=Work()
    )
    return _tell(session, entry, "changed")


def _delete(session: Session) -> int:
    from sonde.knowledge.editing import delete_entry
    from sonde.knowledge.getting import find_entry

    source, key = _pointer(session)
    entry = find_entry(session.app.knowledge.of(Work().caller.user), source, key, pieces=False)
    with session.working() as work:
        answer = work.ask(f"Delete '{entry.title}' from {source} for good?")
    if not answer:
        raise Cancelled(
            "not confirmed",
            user_message="Nothing was deleted.",
            next_action="Say yes when asked, or repeat the command with --yes.",
        )
    return _tell(session, delete_entry(session.app, source, key, work=Work()), "deleted")


def _export(session: Session) -> int:
    from sonde.knowledge.editing import export_knowledge, write_knowledge

    wanted = _source(session)
    sources = (wanted,) if wanted else ()
    if session.args.arguments:
        target = Path(session.args.arguments[0]).expanduser()
        with session.working() as work:
            count = write_knowledge(session.app, target, sources, work=work)
        session.note(f"{count:,} entries in {escape_controls(str(target))}")
    else:
        # no job: how long it takes is up to whoever reads
        session.print_lines(export_knowledge(session.app, sources, work=Work()))
    return FOUND


def _restore(session: Session) -> int:
    from sonde.knowledge.editing import restore_knowledge

    (place,) = _take(session, "the file that `export` wrote")
    try:
        with Path(place).expanduser().open(encoding="utf-8") as file, session.working() as work:
            count = restore_knowledge(session.app, file, name=place, work=work)
    except OSError as error:
        raise InvalidRequest(
            f"{place}: {error}",
            user_message="The file '{place}' cannot be read: {why}.",
            next_action="Name the file that `sonde knowledge export FILE` wrote.",
            place=place,
            why=error.strerror,
        ) from error
    session.print_lines([f"{session.out.paint('good', '✓')} {count:,} entries restored"])
    return FOUND


def _status(session: Session) -> int:
    from sonde.cli.render import render_facts
    from sonde.knowledge.editing import count_knowledge
    from sonde.text.sizes import format_bytes

    counts = count_knowledge(session.app, work=Work())
    if session.args.json:
        session.print_json(counts)
    else:
        shown = counts | {"bytes": format_bytes(counts["bytes"])}
        session.print_lines(render_facts(shown, session.out))
    return FOUND


def _tell(session: Session, entry: Any, what: str) -> int:
    from sonde.knowledge.ranking import make_uri

    uri = make_uri(entry.source, entry.id)
    if session.args.json:
        session.print_json({"status": what, "uri": uri, "version": entry.version})
    else:
        session.print_lines([f"{session.out.paint('good', '✓')} {what} {escape_controls(uri)}"])
    return FOUND


def _source(session: Session) -> Source | None:
    source: Source | None = session.args.source
    return source


def _pointer(session: Session) -> tuple[Source, str]:
    """`notes://ID`, as results show it."""
    from sonde.stores.knowledge.base import SOURCES

    given = session.args.arguments[0] if session.args.arguments else ""
    kind, found, key = given.partition("://")
    source = next((each for each in SOURCES if each == kind), None)
    if not found or source is None or not key:
        raise _usage("an address such as notes://ID, as `sonde knowledge search` shows it")
    return source, key.partition("#")[0]


def _take(session: Session, what: str) -> list[str]:
    given: list[str] = session.args.arguments
    if len(given) != 1:
        raise _usage(what)
    return given


def _usage(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"missing {what}",
        user_message="This needs {what}.",
        next_action="See `sonde knowledge --help`.",
        what=what,
    )
