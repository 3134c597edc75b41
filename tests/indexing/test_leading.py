"""What a leader does while indexing fails: try again, ever less often, and make up for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from types import SimpleNamespace
from typing import Any

import pytest

from sonde.errors import StorageUnusable
from sonde.indexing.following import leader as lead
from sonde.indexing.following import watch
from sonde.indexing.following.state import LeaderState
from sonde.indexing.sources import Source, Tree
from sonde.policy.admit import Rules
from sonde.runtime.work import Work


class Clock:
    """Time that passes only while somebody waits, and an inbox in which nothing arrives."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def get(self, timeout: float = 0.0) -> None:
        self.now += timeout
        raise Empty

    get_nowait = get


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    made = Clock()
    monkeypatch.setattr(lead, "time", made)
    monkeypatch.setattr(watch, "time", made)
    return made


@pytest.mark.parametrize("strategy", ["realtime", "lazy"])
def test_what_fails_is_tried_ever_less_often_and_made_up_for(
    strategy: str, clock: Clock, tmp_path: Path
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    tree = Tree((Source("", root, Rules()),), lambda _: False, index_docs=True, chunking="syntax")
    project: Any = SimpleNamespace(
        folder=tmp_path, tree=tree, strategy=strategy, lazy_idle_s=1.0, watching="poll"
    )
    mended = clock.now + 200.0
    tries: list[float] = []

    def try_now(*_: object) -> set[str]:
        tries.append(clock.now)
        if clock.now < mended:
            raise StorageUnusable("read-only")
        return set()

    actions: Any = SimpleNamespace(
        update=try_now, find_changes=try_now, rest=lambda: None, check=lambda: None
    )
    inbox: Any = clock
    state = LeaderState()
    told: list[str] = []
    leading = lead.Leader(
        project, actions, state, inbox,
        goes_on=lambda: clock.now < mended + 80.0,
        make_work=Work,
        beat=lambda: told.append(state.note),
    )  # fmt: skip
    leading.run()
    failed = [when for when in tries if when < mended]
    assert 3 <= len(failed) <= 12
    assert len(tries) > len(failed)
    assert all(told[: int(failed[-1] - 1_000.0)])
    assert (state.note, state.looks > 0) == ("", True)
