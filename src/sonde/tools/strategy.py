"""Verbs on when changes are indexed, for the command line."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Annotated, Literal, NotRequired, TypedDict

from sonde.app import App, Project
from sonde.errors import InvalidRequest, SondeError
from sonde.policy.hooks import has_hook, install_hook, remove_hook
from sonde.stores.records import load_heads, save_dirty, write_text
from sonde.tools.arguments import Param
from sonde.tools.index import ProjectParam
from sonde.tools.scope import indexed_project
from sonde.tools.updating import index_job
from sonde.types import IndexReport
from sonde.work import Work

_QUESTION = (
    "Install a post-commit hook in this repository? Commits are then indexed even while no"
    " server runs."
)


class StrategyAnswer(TypedDict):
    """When changes are indexed, and what was done about it."""

    status: str
    projectPath: str
    strategy: str
    hook: bool
    message: NotRequired[str]


def choose_strategy(
    app: App,
    strategy: Annotated[
        Literal["realtime", "lazy", "git"] | None, Param("When changes are indexed")
    ] = None,
    hook: Annotated[bool | None, Param("Install or remove the hook; None asks")] = None,
    project: ProjectParam = None,
    *,
    work: Work,
) -> StrategyAnswer:
    """Say, or choose, when changes are indexed; running servers switch at once."""
    found = indexed_project(app, project)
    if strategy and strategy != found.strategy:
        write_setting(found, "indexingStrategy", strategy)
        app.projects.reload(found.root)
        if found.strategy != strategy:
            raise InvalidRequest(
                f"another source sets indexingStrategy to {found.strategy}",
                user_message="Another setting overrides the strategy of this project.",
                next_action="See `sonde config` for where it is set.",
            )
    done = _see_to_hook(app, found, strategy, hook, work)
    answer: StrategyAnswer = {
        "status": "success",
        "projectPath": str(found.root),
        "strategy": found.strategy,
        "hook": _has_hook(found),
    }
    return {**answer, "message": done} if done else answer


def flush_index(app: App, project: ProjectParam = None, *, work: Work) -> dict[str, object]:
    """Index everything that waits, whatever the strategy."""
    found = indexed_project(app, project)
    running = app.jobs.find(f"index:{found.key}")
    if running:
        running.wait(work)  # it may have begun before the last change
    report: IndexReport = index_job(app, found, existing=True).join(work)
    with found.lock.held(work):
        save_dirty(found.folder, (), load_heads(found.folder))
    return {
        "status": "success",
        "projectPath": str(found.root),
        "filesIndexed": report.files_indexed,
        "filesRemoved": report.files_removed,
    }


def _see_to_hook(
    app: App, project: Project, strategy: str | None, hook: bool | None, work: Work
) -> str:
    if hook is None and strategy == "git" and not _has_hook(project):
        hook = app.assume_yes or bool(work.ask(_QUESTION))
    if hook:
        command = [sys.executable, "-P", "-m", "sonde.cli.main", "flush", "--quiet"]
        storage = f"SONDE_HOME={app.home}"
        path = install_hook(project.root, ["env", storage, *command, "-p", str(project.root)])
        return f"A post-commit hook is installed: {path}"
    leaves = strategy is not None and strategy != "git"
    if (hook is False or leaves) and _has_hook(project):
        remove_hook(project.root)
        return "The post-commit hook is removed"
    return ""


def _has_hook(project: Project) -> bool:
    with suppress(SondeError):
        return has_hook(project.root)
    return False


def write_setting(project: Project, name: str, value: str) -> None:
    """Change one setting in a project's own config.json."""
    config = project.folder / "config.json"
    try:
        entries = json.loads(config.read_text("utf-8"))
    except (OSError, ValueError):
        entries = json.loads(project.config_text)
    write_text(config, json.dumps({**entries, name: value}, indent=2, ensure_ascii=False) + "\n")
