"""`sonde setup`: put the server into the configuration of agents, or take it out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sonde.agents.machine import Machine, Scope, find_launch
from sonde.agents.plan import Change, plan_entry, plan_guide
from sonde.agents.table import AGENTS, Agent
from sonde.cli.session import Session
from sonde.cli.terminal import ask_yes, escape_controls, is_interactive
from sonde.errors import ConfirmationRequired, SondeError, UnknownArgument

DONE, NOTHING, FAILED = 0, 1, 2
_DONE_WORDS = {"add": "added to", "update": "updated in", "remove": "removed from"}
_PAINT = {"+": "good", "-": "bad", "@": "dim"}


def run_setup(session: Session) -> int:
    """Show each change, ask, write; the exit code says whether every file could be dealt with."""
    args = session.args
    backups = session.settings.home / "backups"
    machine = Machine(Path.home(), session.environ)
    agents = choose_agents(machine, args.agents)
    if not agents:
        session.note("no agent was found; name one: " + ", ".join(a.name for a in AGENTS))
        return _finish(session, [], NOTHING)
    rows = list(_plan_rows(session, machine, agents, backups))
    changes = [row for row in rows if isinstance(row.get("change"), Change)]
    if changes and not args.dry_run and not (session.settings.assume_yes or _can_ask(session)):
        if not args.json:
            for row in changes:
                session.print_lines(_render_change(session, row))
        question = f"This changes {len(changes)} file{'s' if len(changes) > 1 else ''}."
        raise ConfirmationRequired("nobody to ask", question=question, token="--yes")  # noqa: S106
    for row in rows:
        _settle(session, row, backups)
    failed = any("error" in row for row in rows)
    if not (args.json or args.guide or args.remove):
        session.note("`sonde setup --guide` also tells agents when to use which tool")
    return _finish(session, rows, FAILED if failed else DONE)


def choose_agents(machine: Machine, names: list[str]) -> list[Agent]:
    """Those that were named, else those that are there."""
    known = {agent.name: agent for agent in AGENTS}
    for name in names:
        if name not in known:
            raise UnknownArgument(
                f"unknown agent {name}",
                user_message="No agent is called {name}.",
                next_action="Choose from: " + ", ".join(known) + ".",
                name=name,
            )
    return [known[name] for name in dict.fromkeys(names)] or machine.find_agents()


def _plan_rows(
    session: Session, machine: Machine, agents: list[Agent], backups: Path
) -> Iterator[dict[str, Any]]:
    """One row per file: whose, where, and the change or why there is none."""
    args = session.args
    scope: Scope = args.scope or "user"
    project = session.opened.root if scope == "project" else None
    launch = find_launch(session.environ, args.project if scope == "user" else None)
    guides: dict[Path, list[str]] = {}
    for agent in agents:
        row: dict[str, Any] = {"agent": agent.name, "title": agent.title}
        path = machine.find_config(agent, scope, project)
        if guide := machine.find_guide(agent, scope, project):
            guides.setdefault(guide.resolve(), []).append(agent.title)  # one may link to another
        if path is None:
            yield row | {"action": "skip", "reason": f"no {scope} configuration"}
            continue
        row |= {"file": str(path)}
        try:
            change = plan_entry(agent, path, launch, remove=args.remove, backups=backups)
        except SondeError as error:
            yield row | {"action": "refuse", "error": error}
            continue
        yield row | _describe(change)
    if args.guide or args.remove:
        for path, titles in guides.items():
            row = {"agent": "guide", "title": f"Guide for {', '.join(titles)}", "file": str(path)}
            try:
                change = plan_guide(path, remove=args.remove, backups=backups)
            except SondeError as error:
                yield row | {"action": "refuse", "error": error}
                continue
            if change.action != "none" or not args.remove:
                yield row | _describe(change)


def _describe(change: Change) -> dict[str, Any]:
    if change.action == "none":
        return {"action": "none"}
    return {"action": change.action, "diff": "\n".join(change.show()), "change": change}


def _can_ask(session: Session) -> bool:
    return is_interactive() and not session.args.json


def _settle(session: Session, row: dict[str, Any], backups: Path) -> None:
    """Show one row, ask about it, write it; what came of it is added to the row."""
    change: Change | None = row.pop("change", None)
    show = not session.args.json
    if show:
        session.print_lines(_render_change(session, row))
    if change is None:
        return
    row["written"] = False
    if session.args.dry_run:
        return
    if not session.settings.assume_yes and not ask_yes("Write this?"):
        return
    try:
        backup = change.write(backups)
    except SondeError as error:
        row |= {"action": "refuse", "error": error}
        if show:
            session.print_lines(_render_change(session, row))
        return
    row |= {"written": True, "backup": str(backup) if backup else None}
    if show:
        note = f"; the file as it was: {escape_controls(str(backup))}" if backup else ""
        told = f"{_DONE_WORDS[change.action]} {escape_controls(str(change.path))}"
        session.print_lines([f"{session.out.paint('good', '✓')} {told}{note}"])


def _render_change(session: Session, row: dict[str, Any]) -> Iterator[str]:
    paint = session.out.paint
    title = paint("bold", row["title"])
    place = paint("path", escape_controls(row.get("file", "")))
    if "error" in row:
        error: SondeError = row["error"]
        yield f"{paint('bad', '✗')} {title}  {escape_controls(error.user_message)}"
        yield f"  {paint('dim', '→')} {escape_controls(error.next_action)}"
        if session.args.verbose:
            yield paint("dim", f"  {escape_controls(error.developer_message)}")
    elif row["action"] == "skip":
        yield f"{paint('dim', '-')} {title}  {row['reason']}"
    elif row["action"] == "none":
        state = "not there" if session.args.remove else "up to date"
        yield f"{paint('good', '✓')} {title}  {place}  {state}"
    else:
        yield f"{title}  {place}"
        for line in row["diff"].splitlines():
            style = _PAINT.get(line[:1])
            shown = escape_controls(line)
            yield "  " + (paint(style, shown) if style else shown)


def _finish(session: Session, rows: list[dict[str, Any]], code: int) -> int:
    if session.args.json:
        shown = [
            {k: v.as_dict() if isinstance(v, SondeError) else v for k, v in row.items()}
            for row in rows
        ]
        scope = session.args.scope or "user"
        answer = {"scope": scope, "dryRun": session.args.dry_run, "agents": shown}
        session.print_json(answer)
    return code
