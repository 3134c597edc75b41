"""The commands about indexes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sonde.cli.render import count_of, render_facts, render_projects
from sonde.cli.session import Session
from sonde.cli.terminal import Screen, escape_controls, format_seconds
from sonde.errors import FileLimitWarning

if TYPE_CHECKING:
    from sonde.types import Findings


FOUND, NOTHING = 0, 1
_LEFT_OUT = {
    "denied": "on the deny list",
    "not_included": "not in `include`",
    "symlink": "symbolic links",
    "hard_link": "hard links",
    "special": "no regular files",
    "bad_name": "with a name that is not UTF-8",
    "secret_content": "with a secret inside",
    "cut_short": "indexed in part",
}
"""Reasons for leaving files out whose names do not say enough."""
_LARGE = FileLimitWarning.user_message.split("{", maxsplit=1)[0]


def run_index(session: Session) -> int:
    """Index the project; typing the command is consent, save for a very large one."""
    from sonde.tools.index import create_index

    session.args.project = session.args.path or session.args.project
    with session.working(waved=lambda question: not question.startswith(_LARGE)) as work:
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
    done = f"{paint('good', '✓')} {counts} in {answer['duration']}  {place}"
    session.print_lines([done])
    skipped: Any = answer.get("skipped") or {}
    if skipped:
        reasons = ", ".join(
            f"{count:,} {_LEFT_OUT.get(reason, reason.replace('_', ' '))}"
            for reason, count in skipped.items()
        )
        session.note(f"left out: {reasons}; see `sonde status`")
    return FOUND


def run_reindex(session: Session) -> int:
    """Build the index anew, once confirmed."""
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
    if session.args.json:
        session.print_json(answer)
    else:
        session.print_lines([f"{session.out.paint('good', '✓')} {answer['message']}"])
    return FOUND


def run_export(session: Session) -> int:
    """Write the views of the project's files to chunk files."""
    from sonde.projects.maintenance import export_chunks

    with session.working() as work:
        answer = export_chunks(
            session.app.workspace,
            session.args.output,
            session.project,
            work=work,
        )
    if session.args.json:
        session.print_json(answer)
    else:
        told = escape_controls(answer["message"])
        session.print_lines([f"{session.out.paint('good', '✓')} {told}"])
    return FOUND


def run_strategy(session: Session) -> int:
    """Show or choose when changes are indexed."""
    from sonde.projects.maintenance import choose_strategy

    args = session.args
    hook = True if args.hook else False if args.no_hook else None
    with session.working() as work:
        answer = choose_strategy(
            session.app.workspace, args.strategy, hook, project=session.project, work=work
        )
    if session.args.json:
        session.print_json(answer)
        return FOUND
    session.print_lines([answer["strategy"] + (" (with hook)" if answer["hook"] else "")])
    if message := answer.get("message"):
        session.note(escape_controls(message))
    return FOUND


def run_check(session: Session) -> int:
    """Compare the index with the files and with itself, and repair it."""
    from sonde.projects.find import indexed_project
    from sonde.projects.maintenance import check_now

    thorough = True if session.args.thorough else None
    project = indexed_project(session.app.workspace, session.project)
    with session.working() as work:
        findings = check_now(session.app.workspace, project, work, thorough=thorough)
    if session.args.json:
        session.print_json(findings.as_dict())
    elif not session.args.quiet:
        session.print_lines([_tell_check(findings, session.out)])
    return FOUND


def _tell_check(findings: Findings, screen: Screen) -> str:
    words = {
        "changed": "changed",
        "missing": "not indexed",
        "gone": "gone",
        "broken": "broken",
        "strays": "belonging to nothing",
        "vectors": "damaged vectors",
    }
    counts = ((getattr(findings, name), told) for name, told in words.items())
    mended = ", ".join(f"{count:,} {told}" for count, told in counts if count)
    took = format_seconds(findings.seconds)
    told = f"repaired: {mended}" if mended else "nothing to repair"
    return (
        f"{screen.paint('good', '✓')} {count_of(findings.files, 'file')} checked in {took}; {told}"
    )


def run_flush(session: Session) -> int:
    """Index everything that waits."""
    from sonde.projects.maintenance import flush_index

    return _run_plain(session, lambda app, **given: flush_index(app.workspace, **given))


def run_status(session: Session) -> int:
    """Show how the index is."""
    from sonde.tools.index import get_index_status

    if session.args.json:
        return _run_plain(session, get_index_status)
    with session.working() as work:
        answer: Any = get_index_status(session.app, project=session.project, work=work)
    if checks := answer["details"].get("integrity"):
        mended = sum(checks.get("repaired", {}).values())
        answer["details"]["integrity"] = {
            "lastCheck": checks.get("lastCheck"),
            "repaired": mended or "nothing",
        }
    session.print_lines(render_facts(answer, session.out))
    if deep := session.app.workspace.deep:
        pairs = [store.coverage(deep.name) for store in session.opened.stores().values()]
        if any(have < total for have, total in pairs):
            session.note(
                f"{deep.name} orders answers a little better; a running server makes its vectors "
                "when idle, `sonde index --deep` now"
            )
    return FOUND


def _run_plain(session: Session, verb: Callable[..., Any]) -> int:
    with session.working() as work:
        answer = verb(session.app, project=session.project, work=work)
    if session.args.json:
        session.print_json(answer)
    else:
        session.print_lines(render_facts(answer, session.out))
    return FOUND


def run_projects(session: Session) -> int:
    """List every indexed project of this machine."""
    from sonde.tools.index import list_projects

    with session.working() as work:
        answer = list_projects(session.app, work=work)
    if session.args.json:
        session.print_json(answer)
    else:
        session.print_lines(render_projects(answer, session.out))
        if not answer["projects"]:
            session.note("no project is indexed yet; run `sonde index` in one")
    return FOUND if answer["projects"] else NOTHING
