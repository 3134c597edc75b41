"""The steps of adding sonde to agents, or of removing it: one per file, all planned first.

Besides the entry in its configuration, an agent gets a skill, and a section in its instructions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sonde.agents.configs import Change, find_setups, plan_change, plan_entry
from sonde.agents.machine import Agent, Launch, Machine, Scope
from sonde.errors import SondeError

START = "<!-- sonde: start -->"
END = "<!-- sonde: end -->"
_SECTION = re.compile(re.escape(START) + r".*?" + re.escape(END), re.DOTALL)

SKILL = Path(__file__).with_name("SKILL.md").read_text("utf-8")
"""A file of our own, read by an agent when its description fits the task."""
GUIDE = "#" + SKILL[SKILL.index("# ") :].removesuffix("\n")
"""At most twenty lines, to be pasted into the instructions of any agent."""
_SKILL_FOLDERS = 3  # `.agents/skills/sonde`: what setup may have made for a skill


@dataclass(frozen=True, slots=True)
class Step:
    """One file of an agent: the planned change, or the reason there is none."""

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
        yield _plan(step, partial(plan_entry, agent, path, launch, remove=remove, backups=backups))
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


def put_section(text: str) -> str:
    """The text with our section, in its place or at the end."""
    end = "\r\n" if "\r\n" in text else "\n"
    section = f"{START}\n{GUIDE}\n{END}".replace("\n", end)
    if _SECTION.search(text):
        return _SECTION.sub(lambda _: section, text, count=1)
    gap = "" if not text else end if text.endswith("\n") else end * 2
    return text + gap + section + end


def drop_section(text: str) -> str:
    """The text without our section and the empty line before it."""
    found = _SECTION.search(text)
    if not found:
        return text
    head, rest = text[: found.start()], text[found.end() :]
    rest = re.sub(r"\A\r?\n", "", rest)
    if not rest:
        head = re.sub(r"(\A|\n)\r?\n\Z", r"\1", head)
    return head + rest


def plan_guide(path: Path, *, remove: bool, backups: Path) -> Change:
    """The change that adds our section to a file of instructions, or removes it."""
    return plan_change(
        path,
        put_section,
        drop_section,
        lambda text: drop_section(text) != text,
        remove=remove,
        backups=backups,
    )


def plan_skill(path: Path, *, remove: bool, backups: Path) -> Change:
    """The change that writes our skill, or deletes it; one of that name that is not ours stays."""

    def is_ours(text: str) -> bool:
        return text.startswith("---\nname: sonde\n") or not text

    change = plan_change(
        path,
        lambda text: SKILL if is_ours(text) else text,
        lambda text: "" if is_ours(text) else text,
        lambda text: bool(text) and is_ours(text),
        remove=remove,
        backups=backups,
    )
    return replace(change, after=None) if change.action == "remove" else change
