"""The commands that build, show and repair indexes."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sonde.cli.parse import FOUND
from sonde.cli.session import Session
from sonde.cli.terminal import Screen, escape_controls, render_facts, render_table
from sonde.policy.roots import MARKERS
from sonde.text.formats import count_of, format_moment, format_seconds

if TYPE_CHECKING:
    from sonde.tools.shapes.rfc import IndexAnswer, ProjectsAnswer

_SKIP_REASONS = {
    "denied": "on the deny list",
    "not_included": "not in `include`",
    "symlink": "symbolic links",
    "hard_link": "hard links of another user",
    "same_name": "with the name of another, spelled otherwise",
    "special": "no regular files",
    "mount": "on another file system",
    "bad_name": "with a name that is not UTF-8",
    "secret_content": "with a secret inside",
    "secret_lines": "indexed without the lines of their secrets",
    "cut_short": "indexed in part",
}
"""Reasons for skipping files whose names do not explain themselves."""


def run_index(session: Session) -> int:
    """Index the project. In a detected project that is consent, unless it is very large."""
    from sonde.projects.index import INDEX_QUESTION, embed_index
    from sonde.shared.seed import fetch_vectors
    from sonde.tools.index import create_index

    session.choose_project(session.args.path)
    root = session.project

    def agree(question: str) -> bool:
        return question.startswith(INDEX_QUESTION) or (
            session.chose_root and question.startswith(root)
        )

    with session.working(agree) as work:
        answer = create_index(session.app, project=root, deep=False, work=work)
        taken = fetch_vectors(session.app.workspace, session.opened, work)
        if session.args.deep:
            embed_index(session.app.workspace, session.opened, work, wait=True)
    return _print_indexed(session, answer, taken)


def _print_indexed(session: Session, answer: IndexAnswer, taken: str = "") -> int:
    """Print what the index holds now, and what was left out."""
    if session.args.json:
        session.print_json(answer)
        return FOUND
    paint, skipped = session.out.paint, answer.get("skipped", {})
    if files := answer["filesIndexed"]:
        counts = f"{count_of(files, 'file')}, {count_of(answer['chunksCreated'], 'chunk')}"
        place = paint("path", escape_controls(answer["projectPath"]))
        session.print_lines([f"{paint('good', '✓')} {counts} in {answer['duration']}  {place}"])
    for said in filter(None, (answer.get("message"), taken)):
        session.note(escape_controls(said))
    if files and skipped:
        session.note(f"left out: {_name_reasons(skipped)}; see `sonde status`")
    root = session.opened.root
    if "binary" in skipped and not any((root / marker).exists() for marker in MARKERS):
        place = escape_controls(shlex.quote(str(root)))
        session.note(f"PDFs, office files, pictures: `sonde knowledge import {place}` reads them")
    return FOUND


def _name_reasons(skipped: Mapping[str, int]) -> str:
    return ", ".join(
        f"{count:,} {_SKIP_REASONS.get(reason, reason.replace('_', ' '))}"
        for reason, count in skipped.items()
    )


def run_verb(session: Session) -> int:
    """Rebuild, delete, flush, move or export the index."""
    from sonde.projects.maintenance import convert_store, flush_index
    from sonde.projects.views import export_chunks
    from sonde.tools.index import delete_index, reindex_project

    args = session.args
    verbs: dict[str, Callable[..., Any]] = {
        "reindex": reindex_project,
        "delete": delete_index,
        "flush": lambda app, **given: flush_index(app.workspace, **given),
        "store": lambda app, **given: convert_store(app.workspace, args.store, **given),
        "export": lambda app, **given: export_chunks(app.workspace, args.output, **given),
    }
    with session.working() as work:
        answer = verbs[args.command](session.app, project=session.project, work=work)
    if args.command == "reindex":
        return _print_indexed(session, answer)
    flushed = f"{answer.get('filesIndexed')} indexed, {answer.get('filesRemoved')} removed"
    return session.print_done(answer, str(answer.get("message", flushed)))


FLUSH_COMMAND = (sys.executable, "-P", "-m", "sonde.cli.main", "flush", "--quiet", "-p")
"""What a post-commit hook runs, with the project as its last argument."""


def run_strategy(session: Session) -> int:
    """Show or choose when changes are indexed."""
    from sonde.projects.maintenance import choose_strategy

    args = session.args
    with session.working() as work:
        answer = choose_strategy(
            session.app.workspace,
            args.strategy,
            args.hook,
            project=session.project,
            flush_command=FLUSH_COMMAND,
            work=work,
        )
    shown = answer["strategy"] + (" (with hook)" if answer["hook"] else "")
    return session.print_answer(answer, [shown], answer.get("message", ""))


_REPAIRS = {
    "changed": "changed",
    "missing": "not indexed",
    "gone": "gone",
    "broken": "broken",
    "strays": "belonging to nothing",
    "vectors": "damaged vectors",
}
"""Counts of `Findings`, as the report words them."""


def run_check(session: Session) -> int:
    """Compare the index with the files and with itself, and repair it."""
    from sonde.projects.find import indexed_project
    from sonde.projects.maintenance import check_now

    workspace = session.app.workspace
    project = indexed_project(workspace, session.project)
    with session.working() as work:
        findings = check_now(workspace, project, work, thorough=session.args.thorough or None)
    if session.args.json or not session.args.quiet:
        counts = ((getattr(findings, name), words) for name, words in _REPAIRS.items())
        repaired = ", ".join(f"{count:,} {words}" for count, words in counts if count)
        line = f"{count_of(findings.files, 'file')} checked in {format_seconds(findings.seconds)}; "
        line += f"repaired: {repaired}" if repaired else "nothing to repair"
        session.print_done(findings.as_dict(), line)
    return FOUND


def run_status(session: Session) -> int:
    """Show the state of the index."""
    from sonde.tools.index import get_index_status

    with session.working() as work:
        answer = get_index_status(session.app, project=session.project, work=work)
    now, details = time.time(), answer["details"]
    files, documents = count_of(answer["totalFiles"], "file"), details["docs"]["totalDocs"]
    chunks = count_of(answer["totalChunks"], "chunk")
    checks, error = details.get("integrity", {}), details.get("lastError", {})
    examples, config = details.get("skippedExamples", ()), details.get("config")
    repaired = sum(checks.get("repaired", {}).values()) or "nothing"
    shown = {
        "Project": answer["projectPath"],
        "Status": "; ".join(filter(None, (answer["status"], details.get("freshness")))),
        "Error": error.get("userMessage"),
        "Contents": f"{files}, {documents:,} of them documents; {chunks}",
        "Size": answer["storageSize"],
        "Updated": format_moment(answer["lastUpdated"], now),
        "Changes": _describe_following(details["following"]),
        "Checked": checks and f"{format_moment(checks['lastCheck'], now)}; repaired {repaired}",
        "Model": details.get("otherModel"),
        "Deep vectors": details.get("deepVectorsWait"),
        "Warnings": details.get("warnings"),
        "Left out": _name_reasons(details.get("skipped", {})),
        "Such as": [f"{one['path']}: {one.get('detail') or one['reason']}" for one in examples],
        "Settings": config and f"{config}: what `allow` names there is indexed after all",
    }
    deep = session.app.workspace.deep
    have, _, total = details["vectors"].get(deep.name if deep else "", "").partition("/")
    note = "deep vectors rank a little better: servers compute them when idle, `index --deep` now"
    return session.print_answer(
        answer, render_facts(shown, session.out), note if have != total else ""
    )


def _describe_following(state: Mapping[str, object]) -> str:
    if state.get("role") == "none":
        return "no server; every search checks for changes itself"
    how = "as they happen" if state.get("watching") == "events" else "now and then"
    return f"a server indexes changes {how} ({state.get('strategy')})"


def run_projects(session: Session) -> int:
    """List every indexed project of this machine."""
    from sonde.tools.index import list_projects

    with session.working() as work:
        answer = list_projects(session.app, work=work)
    rows = render_projects(answer, session.out, time.time())
    note = "" if answer["projects"] else "no project is indexed yet; run `sonde index` in one"
    return session.print_answer(answer, rows, note, found=bool(answer["projects"]))


def render_projects(answer: ProjectsAnswer, screen: Screen, now_s: float) -> Iterator[str]:
    """A table of the projects: path, status, counts, size, last update."""
    rows = [
        (
            escape_controls(project["projectPath"]),
            str(project.get("status", "")),
            f"{project.get('totalFiles', 0):,}",
            f"{project.get('totalChunks', 0):,}",
            str(project.get("storageSize", "")),
            format_moment(project.get("lastUpdated"), now_s),
        )
        for project in answer["projects"]
    ]
    head = ("PROJECT", "STATUS", "FILES", "CHUNKS", "SIZE", "UPDATED")
    return render_table(head, rows, screen)
