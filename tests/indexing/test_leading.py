"""What a leader does while indexing fails: try again, ever less often, and make up for it."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from tests.trees import write_files

from sonde.errors import StorageUnusable
from sonde.indexing.sources import Tree
from sonde.projects.leader import Leader, LeaderState
from sonde.projects.update import update_project
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.wiring import build_app


class Clock:
    """Time that passes only while somebody waits, and an inbox in which nothing arrives."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def get(self, timeout: float = 0.0) -> None:
        self.now += timeout
        raise Empty

    get_nowait = get


@pytest.mark.parametrize("strategy", ["realtime", "lazy"])
def test_what_fails_is_tried_ever_less_often_and_made_up_for(strategy: str, tmp_path: Path) -> None:
    clock = Clock()
    mended = clock.now + 200.0
    tries: list[float] = []

    class FailingTree(Tree):
        def walk(self, under: str = "") -> Any:
            tries.append(clock.now)
            if clock.now < mended:
                raise StorageUnusable("read-only")
            return super().walk(under)

    root = write_files(tmp_path / "project", {"pyproject.toml": "", "a.py": "x = 1\n"})
    settings = load_settings(
        {}, home=tmp_path / "home", embedding="none", indexing_strategy=strategy, watching="polling"
    )
    app = build_app(settings, start=root)
    project = app.workspace.projects.get(root)
    update_project(app.workspace, project, Work())
    tree = project.tree
    failing = FailingTree(tree.sources, tree.is_docs, tree.index_docs, tree.chunking)
    project.adopt(replace(project.settings, tree=failing))
    inbox: Any = clock
    state = LeaderState()
    leader = Leader(app.workspace, project, state, inbox, stopping=threading.Event(), clock=clock)
    notes: list[str] = []
    leader.start()
    while clock.now < mended + 80.0:
        notes.append(state.note)
        leader.step()
    leader.close()
    app.close()
    failed = [when for when in tries if when < mended]
    assert 3 <= len(failed) <= 12
    assert len(tries) > len(failed)
    assert all(notes[: int(failed[-1] - 1_000.0)])
    assert (state.note, state.comparisons > 0) == ("", True)


@pytest.mark.row("001-101")
def test_the_index_is_checked_as_often_as_the_settings_say(tmp_path: Path) -> None:
    root = write_files(tmp_path / "project", {"pyproject.toml": "", "a.py": "x = 1\n"})
    settings = load_settings(
        {"SONDE_CHECK_INTERVAL": "6"}, home=tmp_path / "home", embedding="none", watching="polling"
    )
    app = build_app(settings, start=root)
    clock, checked = Clock(), []

    def start_checker(_root: Path) -> Any:
        checked.append(clock.now)
        raise OSError

    workspace = replace(app.workspace, start_checker=start_checker)
    project = workspace.projects.get(root)
    update_project(workspace, project, Work())
    inbox: Any = clock
    leader = Leader(
        workspace, project, LeaderState(), inbox, stopping=threading.Event(), clock=clock
    )
    leader.start()
    for _ in range(24):
        leader.step()
        if job := workspace.jobs.find(f"check:{project.key}"):
            job.wait()
        clock.now += 3600.0
    leader.close()
    app.close()
    pauses = [later - sooner for sooner, later in pairwise(checked)]
    assert len(pauses) == 3
    assert all(6 * 3600 <= pause < 7.1 * 3600 for pause in pauses)
