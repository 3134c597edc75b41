"""`sonde setup`: add the server to the configuration of agents, or remove it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sonde.agents.configs import decode_config, read_config, replace_config
from sonde.agents.json_edit import put_jsonc
from sonde.agents.machine import AGENTS, Agent, Machine, Scope, find_launch
from sonde.agents.steps import GUIDE, Step, plan_steps, write_step
from sonde.cli.parse import FAILED, FOUND, NOTHING
from sonde.cli.session import Session
from sonde.cli.terminal import escape_controls
from sonde.errors import ConfirmationRequired, SondeError, UnknownArgument
from sonde.settings import RULES

_DONE_WORDS = {"add": "added to", "update": "updated in", "remove": "removed from"}
_DIFF_STYLES = {"+": "good", "-": "bad", "@": "dim"}


def run_setup(session: Session) -> int:
    """Show each change, ask, write. Exits with 0 if every file was handled."""
    args = session.args
    if args.print_guide:
        session.print_lines([GUIDE])
        return FOUND
    backups = session.settings.home / "backups"
    machine = Machine(Path.home(), session.environ)
    agents = choose_agents(machine, args.agents)
    if not agents:
        session.note("no agent was found; name one: " + ", ".join(a.name for a in AGENTS))
        return _finish(session, [], NOTHING)
    scope: Scope = args.scope or "user"
    project = session.opened.root if scope == "project" else None
    launch = find_launch(session.environ, args.project if scope == "user" else None)
    steps = [
        step
        for step in plan_steps(machine, agents, scope, project, launch, backups, remove=args.remove)
        if (step.agent != "guide" or args.guide or args.remove)
        and not (step.agent == "skill" and args.no_skill)
    ]
    pending = [step for step in steps if step.is_pending]
    can_ask = session.console.is_interactive() and not args.json
    if pending and not args.dry_run and not (session.settings.assume_yes or can_ask):
        for step in () if args.json else pending:
            session.print_lines(_render_step(session, step))
        question = f"This changes {len(pending)} file{'s' if len(pending) > 1 else ''}."
        raise ConfirmationRequired("nobody to ask", question=question, token="--yes")  # noqa: S106
    steps = [_apply(session, step, backups) for step in steps]
    added = any(step.written and step.action == "add" for step in steps)
    if added or (args.auto_index and not (args.remove or args.dry_run)):
        _offer_auto_index(session)
    if not (args.json or args.guide or args.remove):
        session.note("`sonde setup --guide` also tells agents when to use which tool")
    return _finish(session, steps, FAILED if any(step.error for step in steps) else FOUND)


def _offer_auto_index(session: Session) -> None:
    """Ask once whether servers may index the project they are started in, and save the answer."""
    config = session.settings.home / "config.json"
    asks = session.console.is_interactive() and not (session.args.json or session.args.yes)
    if session.settings.sources["auto_index"] != "default" or not (asks or session.args.auto_index):
        return
    wanted = session.args.auto_index or session.console.ask_yes(
        "When an agent starts in a project that has no index, index it without asking?"
    )
    before = read_config(config)
    text, mark = decode_config(before, config)
    after = put_jsonc(text, (RULES["auto_index"].key,), wanted)
    config.parent.mkdir(parents=True, exist_ok=True)
    replace_config(config, before, mark + after.encode())
    if not session.args.json:
        state = "on" if wanted else "off"
        session.note(f"autoIndex is {state}, in {escape_controls(str(config))}")


def choose_agents(machine: Machine, names: list[str]) -> list[Agent]:
    """The agents that are named, else those found on the machine."""
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


def _apply(session: Session, step: Step, backups: Path) -> Step:
    """Show one step, ask, and write it. Returns the step with its outcome."""
    show = not session.args.json
    if show:
        session.print_lines(_render_step(session, step))
    if step.change is None or not step.is_pending or session.args.dry_run:
        return step
    if not session.settings.assume_yes and not session.console.ask_yes("Write this?"):
        return step
    try:
        backup = write_step(step, backups)
    except SondeError as error:
        failed = replace(step, error=error)
        if show:
            session.print_lines(_render_step(session, failed))
        return failed
    if show:
        note = f"; the file as it was: {escape_controls(str(backup))}" if backup else ""
        done = f"{_DONE_WORDS[step.action]} {escape_controls(str(step.file))}"
        session.print_lines([f"{session.out.paint('good', '✓')} {done}{note}"])
    return replace(step, written=True, backup=backup)


def _render_step(session: Session, step: Step) -> Iterator[str]:
    paint = session.out.paint
    title = paint("bold", step.title)
    place = paint("path", escape_controls(str(step.file or "")))
    if step.error:
        yield f"{paint('bad', '✗')} {title}  {escape_controls(step.error.user_message)}"
        yield f"  {paint('dim', '→')} {escape_controls(step.error.next_action)}"
        if session.args.verbose:
            yield paint("dim", f"  {escape_controls(step.error.developer_message)}")
    elif step.change is None:
        yield f"{paint('dim', '-')} {title}  {step.reason}"
    elif step.action == "none":
        state = "not there" if session.args.remove else "up to date"
        yield f"{paint('good', '✓')} {title}  {place}  {state}"
    else:
        yield f"{title}  {place}"
        for line in step.change.show():
            style = _DIFF_STYLES.get(line[:1])
            shown = escape_controls(line)
            yield "  " + (paint(style, shown) if style else shown)


def _finish(session: Session, steps: list[Step], code: int) -> int:
    if session.args.json:
        scope = session.args.scope or "user"
        rows = [step.as_dict() for step in steps]
        session.print_json({"scope": scope, "dryRun": session.args.dry_run, "agents": rows})
    return code
