"""The set-up of agents: what would change in their configuration, and writing it once seen."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from starlette.responses import Response
from starlette.routing import BaseRoute

from sonde.agents.configs import Change, plan_entry
from sonde.agents.machine import Agent, Launch, Machine
from sonde.app import App
from sonde.errors import ConfigChanged, PermissionDenied, SondeError
from sonde.runtime.work import Work
from sonde.tools.route import Content
from sonde.tools.schema import Param
from sonde.types import LOCAL
from sonde.web.application import Pages, Parts
from sonde.web.pages.endpoints import serve_form, serve_page
from sonde.web.pages.html import Markup, frame, lead_to, link_to, show_note, show_place, tag

_DIFF = {"+": "plus", "-": "minus"}


@dataclass(frozen=True, slots=True)
class PlannedSetup:
    """An agent on this machine, and the change that its configuration needs."""

    agent: Agent
    change: Change | None = None
    problem: SondeError | None = None

    @property
    def is_pending(self) -> bool:
        """Whether there is something to write."""
        return self.change is not None and self.change.action != "none"

    @property
    def seen(self) -> str:
        """Identifies the change: what is written is what was shown."""
        after = self.change.after if self.change else None
        return hashlib.sha256(after or b"").hexdigest()


def add_setup(machine: Machine, launch: Launch, backups: Path) -> Pages:
    """The routes of the page, for the agents of this machine."""

    def plan() -> Iterator[PlannedSetup]:
        for agent in machine.find_agents():
            path = machine.find_config(agent, "user", None)
            if path is None:
                continue
            try:
                change = plan_entry(agent, path, launch, remove=False, backups=backups)
                yield PlannedSetup(agent, change)
            except SondeError as error:
                yield PlannedSetup(agent, problem=error)

    def show_setup(
        app: App,
        done: Annotated[str, Param("Agent that was just set up", max_length=40)] = "",
        *,
        work: Work,
    ) -> Content:
        """Every agent that was found, with the change it needs."""
        del app
        _require_person(work)
        return _show(list(plan()), done)

    def write_setup(
        app: App,
        agent: Annotated[str, Param("Its name", max_length=40)],
        seen: Annotated[str, Param("Digest of the change that was shown", max_length=64)],
        *,
        work: Work,
    ) -> Response:
        """Write the change of one agent, if it is still the one that was shown."""
        del app
        _require_person(work)
        for each in plan():
            if each.agent.name == agent and each.change and each.is_pending:
                if each.seen != seen:
                    raise ConfigChanged(f"{agent}: another plan", path=str(each.change.path))
                each.change.write(backups)
        return lead_to(link_to("/setup", done=agent))

    def add(parts: Parts) -> Sequence[BaseRoute]:
        return [serve_page("/setup", show_setup, parts), serve_form("/setup", write_setup, parts)]

    return add


def _require_person(work: Work) -> None:
    """Only the person whose machine this is may see or change the configuration of its agents."""
    if work.caller.user != LOCAL or not work.caller.is_person:
        raise PermissionDenied(
            "not a signed-in browser of the operator",
            user_message="Agents are set up by the person whose machine this is.",
            next_action="Sign in with the link that sonde serve prints, or run sonde setup there.",
        )


def _show(found: Sequence[PlannedSetup], done: str) -> Content:
    head = tag("div", tag("h1", "Set up agents"),
               tag("p", "Each change is shown before it is made, and the file as it was is kept. ",
                   tag("code", "sonde setup --remove"), " takes it back.", class_="faint"),
               class_="head")  # fmt: skip
    nothing = show_note(
        "No agent was found on this machine",
        tag("p", "Any client of MCP can start ", tag("code", "sonde mcp"), "."),
    )
    shown = [_show_agent(each, done == each.agent.name) for each in found]
    return frame("Set up agents", "", head, shown or nothing, kind="setup")


def _show_agent(planned: PlannedSetup, done: bool) -> Markup:
    agent, change, problem = planned.agent, planned.change, planned.problem
    body: list[Markup] = []
    badge = tag("span", "set up" if done else "up to date", class_="badge good")
    if problem:
        badge = tag("span", "cannot be changed", class_="badge warn")
        body = [tag("p", problem.user_message, " ", problem.next_action)]
    elif change and planned.is_pending:
        badge = tag("span", "not set up yet" if change.action == "add" else "an older entry",
                    class_="badge busy")  # fmt: skip
        lines = [tag("span", line, class_=_DIFF.get(line[:1]))
                 for line in change.show() if not line.startswith(("---", "+++"))]  # fmt: skip
        body = [
            tag("p", "This changes ", show_place(str(change.path))),
            tag("pre", lines, class_="diff", tabindex="0", role="region",
                aria_label=f"Change for {agent.title}"),
            tag("form", tag("input", type="hidden", name="agent", value=agent.name),
                tag("input", type="hidden", name="seen", value=planned.seen),
                tag("button", f"Write this for {agent.title}"), method="post", action="/setup"),
        ]  # fmt: skip
    elif change:
        body = [tag("p", show_place(str(change.path)), class_="faint")]
    return tag("section", tag("h2", agent.title, badge), body, class_="agent")
