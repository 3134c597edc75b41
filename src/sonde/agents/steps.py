"""The steps of adding sonde to agents, or of removing it: one per file, all planned first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sonde.agents.configs import Change, find_setups, plan_entry
from sonde.agents.guides import plan_guide, plan_skill
from sonde.agents.machine import Agent, Launch, Machine, Scope
from sonde.errors import SondeError

_SKILL_FOLDERS = 3  # `.agents/skills/sonde`: what setup may have made for a skill


@dataclass(frozen=True, slots=True)
class Step:
    """One file of an agent: the change planned for it, or the reason that there is none."""

    agent: str
    title: str
    file: Path | None = None
    reason: str = ""
    """Why the agent is skipped."""
    change: Change | None = None
    written: bool = False
    backup: Path | None = None
    error: SondeError | None = None
    """Why the file was refused, or could not be written."""

    @property
    def action(self) -> str:
        """What is done with the file."""
        if self.error:
            return "refuse"
        return self.change.action if self.change else "skip"

    @property
    def is_pending(self) -> bool:
        """Whether there is something to write."""
        return self.action not in ("none", "skip", "refuse")

    def as_dict(self) -> dict[str, object]:
        """The step as `--json` prints it."""
        row: dict[str, object] = {"agent": self.agent, "title": self.title}
        if self.file:
            row["file"] = str(self.file)
        row["action"] = self.action
        if self.reason:
            row["reason"] = self.reason
        if self.change and self.change.action != "none":
            row |= {"diff": "\n".join(self.change.show()), "written": self.written}
        if self.written:
            row["backup"] = str(self.backup) if self.backup else None
        if self.error:
            row["error"] = self.error.as_dict()
        return row


def plan_steps(
    machine: Machine,
    agents: list[Agent],
    scope: Scope,
    project: Path | None,
    launch: Launch,
    backups: Path,
    *,
    remove: bool,
) -> Iterator[Step]:
    """The change to every file: configurations, then skills, then sections of instructions."""
    guides: dict[Path, list[str]] = {}
    skills: dict[Path, list[str]] = {}
    for agent in agents:
        path = machine.find_config(agent, scope, project)
        step = Step(agent.name, agent.title, path)
        if guide := machine.find_guide(agent, scope, project):
            guides.setdefault(guide.resolve(), []).append(agent.title)  # one may link to another
        if skill := machine.find_skill(agent, scope, project):
            skills.setdefault(skill, []).append(agent.title)
        if path is None:
            yield replace(step, reason=f"no {scope} configuration")
            continue
        plan = partial(plan_entry, agent, path, launch, remove=remove, backups=backups)
        yield _plan(step, plan)
    shared = {  # with agents that keep sonde
        machine.find_skill(setup.agent, scope, project)
        for setup in find_setups(machine, project)
        if setup.command and setup.scope == scope and setup.agent not in agents
    }
    for kind, files in (("skill", skills), ("guide", guides)):
        for path, titles in files.items():
            step = Step(kind, f"{kind.capitalize()} for {', '.join(titles)}", path)
            plan_file = plan_skill if kind == "skill" else plan_guide
            step = _plan(step, partial(plan_file, path, remove=remove, backups=backups))
            if not (remove and (step.action == "none" or path in shared)):
                yield step


def _plan(step: Step, plan: Callable[[], Change]) -> Step:
    try:
        return replace(step, change=plan())
    except SondeError as error:
        return replace(step, error=error)


def write_step(step: Step, backups: Path) -> Path | None:
    """Write the change of a step; with a skill, its empty folders go. Returns the backup."""
    assert step.change is not None
    backup = step.change.write(backups)
    if step.agent == "skill" and step.change.after is None:
        for folder in list(step.change.path.parents)[:_SKILL_FOLDERS]:
            try:
                folder.rmdir()
            except OSError:
                break
    return backup
