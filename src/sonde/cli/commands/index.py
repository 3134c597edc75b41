"""The commands that build, show and repair indexes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sonde.cli.parse import FOUND, NOTHING
from sonde.cli.render import render_facts, render_projects
from sonde.cli.session import Session
from sonde.cli.terminal import escape_controls
from sonde.errors import FileLimitWarning
from sonde.text.sizes import count_of
from sonde.text.times import format_seconds

if TYPE_CHECKING:
    from sonde.types import Findings


_SKIP_REASONS = {
    "denied": "on the deny list",
    "not_included": "not in `include`",
    "symlink": "symbolic links",
    "hard_link": "hard links",
    "special": "no regular files",
    "bad_name": "with a name that is not UTF-8",
    "secret_content": "with a secret inside",
    "cut_short": "indexed in part",
}
"""Reasons for skipping files whose names do not explain themselves."""
_LARGE_PROJECT = FileLimitWarning.user_message.split("{", maxsplit=1)[0]
"""How the one question begins that typing `sonde index` does not answer."""


def run_index(session: Session) -> int:
    """Index the project; typing the command is consent, except for a very large one."""
    from sonde.tools.index import create_index

    session.choose_project(session.args.path)
    with session.working(lambda question: not question.startswith(_LARGE_PROJECT)) as work:
        answer = create_index(
            session.app, project=session.project, deep=session.args.deep, work=work
        )
    if session.args.json:
        session.print_json(answer)
        return FOUND
    paint = session.out.paint
    files, chunks = answer["filesIndexed"], answer["chunksCreated"]
    counts = f"{count_of(files, 'file')}, {count_of(chunks, 'chunk')}"
    place = paint("path", escape_controls(answer["projectPath"]))
    session.print_lines([f"{paint('good', '✓')} {counts} in {answer['duration']}  {place}"])
    if skipped := answer.get("skipped"):
        reasons = ", ".join(
            f"{count:,} {_SKIP_REASONS.get(reason, reason.replace('_', ' '))}"
            for reason, count in skipped.items()
        )
        session.note(f"left out: {reasons}; see `sonde status`")
    return FOUND


def run_reindex(session: Session) -> int:
    """Rebuild the index, once confirmed."""
    from sonde.tools.index import reindex_project

    return _run_plain(session, reindex_project)


def run_delete(session: Session) -> int:
    """Delete the index, once confirmed."""
    from sonde.tools.index import delete_index

    return _run_plain(session, delete_index)


def run_store(session: Session) -> int:
    """Move the index to the other store."""
    from sonde.projects.maintenance import convert_store

    with session.working() as work:
        answer = convert_store(
            session.app.workspace, session.args.store, project=session.project, work=work
        )
    session.print_answer(answer, [f"{session.out.paint('good', '✓')} {answer['message']}"])
    return FOUND


def run_export(session: Session) -> int:
    """Write the views of the project's files to chunk files."""
    from sonde.projects.views import export_chunks

    with session.working() as work:
        answer = export_chunks(
            session.app.workspace,
            session.args.output,
            session.project,
            work=work,
        )
    message = escape_controls(str(answer["message"]))
    session.print_answer(answer, [f"{session.out.paint('good', '✓')} {message}"])
    return FOUND


FLUSH_COMMAND = (sys.executable, "-P", "-m", "sonde.cli.main", "flush", "--quiet", "-p")
"""What a post-commit hook runs, with the project as its last argument."""


def run_strategy(session: Session) -> int:
    """Show or choose when changes are indexed."""
    from sonde.projects.maintenance import choose_strategy

    args = session.args
    hook = True if args.hook else False if args.no_hook else None
    with session.working() as work:
        answer = choose_strategy(
            session.app.workspace,
            args.strategy,
            hook,
            project=session.project,
            flush_command=FLUSH_COMMAND,
            work=work,
        )
    shown = answer["strategy"] + (" (with hook)" if answer["hook"] else "")
    session.print_answer(answer, [shown])
    if not args.json and (message := answer.get("message")):
        session.note(escape_controls(message))
    return FOUND


_REPAIRS = {
    "changed": "changed",
    "missing": "not indexed",
    "gone": "gone",
    "broken": "broken",
    "strays": "belonging to nothing",
    "vectors": "damaged vectors",
}
"""Counts of `Findings`, in the words of the report."""


def run_check(session: Session) -> int:
    """Compare the index with the files and with itself, and repair it."""
    from sonde.projects.find import indexed_project
    from sonde.projects.maintenance import check_now

    workspace = session.app.workspace
    thorough = True if session.args.thorough else None
    project = indexed_project(workspace, session.project)
    with session.working() as work:
        findings = check_now(workspace, project, work, thorough=thorough)
    if session.args.json or not session.args.quiet:
        line = f"{session.out.paint('good', '✓')} {_describe_check(findings)}"
        session.print_answer(findings.as_dict(), [line])
    return FOUND


def _describe_check(findings: Findings) -> str:
    counts = ((getattr(findings, name), words) for name, words in _REPAIRS.items())
    repaired = ", ".join(f"{count:,} {words}" for count, words in counts if count)
    checked = f"{count_of(findings.files, 'file')} checked in {format_seconds(findings.seconds)}"
    return f"{checked}; " + (f"repaired: {repaired}" if repaired else "nothing to repair")


def run_flush(session: Session) -> int:
    """Index pending changes."""
    from sonde.projects.maintenance import flush_index

    return _run_plain(session, lambda app, **given: flush_index(app.workspace, **given))


def run_status(session: Session) -> int:
    """Show the state of the index."""
    from sonde.tools.index import get_index_status

    if session.args.json:
        return _run_plain(session, get_index_status)
    with session.working() as work:
        answer = get_index_status(session.app, project=session.project, work=work)
    shown: Mapping[str, object] = {**answer}
    if checks := answer["details"].get("integrity"):
        repaired = sum(checks.get("repaired", {}).values()) or "nothing"
        brief = {"lastCheck": checks.get("lastCheck"), "repaired": repaired}
        shown = {**answer, "details": {**answer["details"], "integrity": brief}}
    session.print_lines(render_facts(shown, session.out))
    if deep := session.app.workspace.deep:
        pairs = [store.coverage(deep.name) for store in session.opened.stores().values()]
        if any(have < total for have, total in pairs):
            session.note(
                f"{deep.name} orders answers a little better; a running server makes its vectors "
                "when idle, `sonde index --deep` now"
            )
    return FOUND


def _run_plain(session: Session, verb: Callable[..., Mapping[str, object]]) -> int:
    with session.working() as work:
        answer = verb(session.app, project=session.project, work=work)
    session.print_answer(answer, render_facts(answer, session.out))
    return FOUND


def run_projects(session: Session) -> int:
    """List every indexed project of this machine."""
    from sonde.tools.index import list_projects

    with session.working() as work:
        answer = list_projects(session.app, work=work)
    session.print_answer(answer, render_projects(answer, session.out))
    if not answer["projects"] and not session.args.json:
        session.note("no project is indexed yet; run `sonde index` in one")
    return FOUND if answer["projects"] else NOTHING
