"""`sonde setup`, which adds the server to the configuration of agents, and `sonde model`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

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
_OTHER_MODEL_S = 60.0  # to wait for a process that embeds knowledge with the model used so far
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
    if added:
        session.note("restart agents that are running: they read their configuration once")
    if not (args.json or args.guide or args.remove):
        session.note("`sonde setup --guide` also tells agents when to use which tool")
    return _finish(session, steps, FAILED if any(step.error for step in steps) else FOUND)


def _offer_auto_index(session: Session) -> None:
    """Ask once whether servers may index the project they are started in, and save the answer."""
    asks = session.console.is_interactive() and not (session.args.json or session.args.yes)
    if session.settings.sources["auto_index"] != "default" or not (asks or session.args.auto_index):
        return
    wanted = session.args.auto_index or session.console.ask_yes(
        "When an agent starts in a project that has no index, index it without asking?"
    )
    config = _save_settings(session, {"auto_index": wanted})
    if not session.args.json:
        state = "on" if wanted else "off"
        session.note(f"autoIndex is {state}, in {escape_controls(str(config))}")


def _save_settings(session: Session, values: Mapping[str, object]) -> Path:
    """Write settings into the user's config.json. Returns its path."""
    config = session.settings.home / "config.json"
    before = read_config(config)
    text, mark = decode_config(before, config)
    for name, value in values.items():
        text = put_jsonc(text, (RULES[name].key,), value)
    config.parent.mkdir(parents=True, exist_ok=True)
    replace_config(config, before, mark + text.encode())
    return config


def run_model(session: Session) -> int:
    """Check an embedding model, save it as the user's, and embed personal knowledge with it."""
    from sonde.knowledge.vectors import count_deep, refine_knowledge
    from sonde.wiring import open_provider

    name, library = session.args.name, session.app.knowledge
    place = session.at(Path(name).expanduser())
    values = {"embedding": "model", "embedding_model": str(place) if place.is_dir() else name}
    if name == "auto":
        values = {"embedding": "auto"}
    chosen: Any = values  # of the types that the settings have
    with session.working() as work:
        embedder: Any = open_provider(replace(session.settings, **chosen), session.note)
        embedder.embed(["ready"], "query")  # downloads it, and raises if it cannot be used
        config = _save_settings(session, values)
        models, store = replace(library.models, deep=embedder), library.of(session.caller.user)
        refine_knowledge(models, embedder, store, work, wait_s=_OTHER_MODEL_S)
    have, total = count_deep(models, store)
    facts = {"model": embedder.name, "dimensions": embedder.dimensions, "settings": str(config)}
    read = f"it has read {have:,} of {total:,} texts of knowledge"
    session.print_done(facts | {"read": have, "of": total}, f"the model is {embedder.name}; {read}")
    for source in (session.settings.sources[key] for key in values):
        if source.startswith("environment"):
            session.note(f"the {source} has precedence over {config}: unset it")
    session.note("`sonde index --deep` embeds a project with it; agents use it when restarted")
    return FOUND


def choose_agents(machine: Machine, names: list[str]) -> list[Agent]:
    """The agents that are named, else those found on the machine."""
    known = {agent.name: agent for agent in AGENTS}
    for name in names:
        if name not in known:
            raise UnknownArgument(
                f"unknown agent {name}",
                user_message=f"No agent is called {name}.",
                next_action="Choose from: " + ", ".join(known) + ".",
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
