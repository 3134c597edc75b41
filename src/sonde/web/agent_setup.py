"""The page that sets up agents: it shows the change to each configuration, then writes it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from starlette.responses import Response
from starlette.routing import BaseRoute

from sonde.agents.machine import Launch, Machine
from sonde.agents.steps import Step, plan_steps
from sonde.app import App
from sonde.errors import ConfigChanged, PermissionDenied
from sonde.runtime.work import Work
from sonde.tools.schema import Param
from sonde.types import LOCAL, Content
from sonde.web.application import Pages, Parts
from sonde.web.pages import html
from sonde.web.pages.endpoints import serve_form, serve_page
from sonde.web.pages.html import Markup, frame, link_to, show_note, tag

_DIFF = {"+": "plus", "-": "minus"}


def add_setup(machine: Machine, launch: Launch, backups: Path) -> Pages:
    """The routes of the page, for the agents of this machine."""

    def plan() -> list[Step]:
        found = machine.find_agents()
        steps = plan_steps(machine, found, "user", None, launch, backups, remove=False)
        named = {agent.name for agent in found}
        return [step for step in steps if step.agent in named and step.file]

    def show_setup(
        app: App,
        done: Annotated[str, Param("Agent that was just set up", max_length=40)] = "",
        *,
        work: Work,
    ) -> Content:
        """Every agent that was found, with the change it needs."""
        _require_person(work)
        return _show(plan(), done)

    def write_setup(
        app: App,
        agent: Annotated[str, Param("Its name", max_length=40)],
        seen: Annotated[str, Param("Digest of the change that was shown", max_length=64)],
        *,
        work: Work,
    ) -> Response:
        """Write the change of one agent, if it is still the one that was shown."""
        _require_person(work)
        for step in plan():
            if step.agent == agent and step.change and step.is_pending:
                if _digest(step) != seen:
                    raise ConfigChanged(f"{agent}: another plan", path=str(step.file))
                step.change.write(backups)
        return html.redirect_to(link_to("/setup", done=agent))

    def add(parts: Parts) -> Sequence[BaseRoute]:
        return [serve_page("/setup", show_setup, parts), serve_form("/setup", write_setup, parts)]

    return add


def _require_person(work: Work) -> None:
    """Only the owner of this machine may see or change the configuration of its agents."""
    if work.caller.user != LOCAL or not work.caller.is_person:
        raise PermissionDenied(
            "not a signed-in browser of the operator",
            user_message="Only the owner of this machine can set up agents.",
            next_action="Sign in with the link that sonde serve prints, or run sonde setup there.",
        )


def _digest(step: Step) -> str:
    """Identifies the change of a step: what is written is what was shown."""
    after = step.change.after if step.change else None
    return hashlib.sha256(after or b"").hexdigest()


def _show(found: Sequence[Step], done: str) -> Content:
    head = tag("div", tag("h1", "Set up agents"),
               tag("p", "You see each change before it is made, and the previous file is kept. ",
                   tag("code", "sonde setup --remove"), " takes it back.", class_="faint"),
               class_="head")  # fmt: skip
    nothing = show_note(
        "No agent was found on this machine",
        tag("p", "Any MCP client can start ", tag("code", "sonde mcp"), "."),
    )
    shown = [_show_agent(step, done == step.agent) for step in found]
    return frame("Set up agents", "", head, shown or nothing, kind="setup")


def _show_agent(step: Step, done: bool) -> Markup:
    body: list[Markup] = []
    badge = tag("span", "set up" if done else "up to date", class_="badge good")
    place = html.show_place(str(step.file))
    if step.error:
        badge = tag("span", "cannot be changed", class_="badge warn")
        body = [tag("p", step.error.user_message, " ", step.error.next_action)]
    elif step.change and step.is_pending:
        badge = tag("span", "not set up yet" if step.action == "add" else "an older entry",
                    class_="badge busy")  # fmt: skip
        lines = [tag("span", line, class_=_DIFF.get(line[:1]))
                 for line in step.change.show() if not line.startswith(("---", "+++"))]  # fmt: skip
        body = [
            tag("p", "This changes ", place),
            tag("pre", lines, class_="diff", tabindex="0", role="region",
                aria_label=f"Change for {step.title}"),
            tag("form", html.hidden_fields(agent=step.agent, seen=_digest(step)),
                tag("button", f"Write this for {step.title}"), method="post", action="/setup"),
        ]  # fmt: skip
    elif step.change:
        body = [tag("p", place, class_="faint")]
    return tag("section", tag("h2", step.title, badge), body, class_="agent")
