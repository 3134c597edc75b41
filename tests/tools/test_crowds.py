"""Many searches at once: few of them rank at a time, and nobody waits for one who has left."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S, wait_until

from sonde.app import App
from sonde.errors import Cancelled
from sonde.runtime.work import Work
from sonde.searching.modes import MODES, rank_lexical
from sonde.tools.code import search_code

CROWD = 12
AT_ONCE = 4


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[project]\n")
    (folder / "walrus.py").write_text("def find_walrus(sea):\n    return sea.walrus\n")
    return folder


class Gate:
    """A way of ranking that lets nobody through until it is opened."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self.open = threading.Event()
        self._counting = threading.Lock()

    def rank(self, *asked: Any) -> Any:
        with self._counting:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.open.wait(PATIENCE_S)
        with self._counting:
            self.inside -= 1
        return rank_lexical(*asked)


@pytest.mark.row("000-P57")
def test_few_rank_at_a_time_and_those_who_wait_can_leave(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, work = Gate(), Work()
    monkeypatch.setitem(MODES, "lexical", gate.rank)  # type: ignore[arg-type]

    def search(work: Work) -> Any:
        return search_code(app, "walrus", mode="lexical", work=work)

    with ThreadPoolExecutor(CROWD + 1) as pool:
        answers = [pool.submit(search, Work()) for _ in range(CROWD)]
        wait_until(lambda: gate.inside == AT_ONCE)
        leaving = pool.submit(search, work)
        work.cancel()
        try:
            with pytest.raises(Cancelled):
                leaving.result(PATIENCE_S)
            assert gate.inside == AT_ONCE
        finally:
            gate.open.set()
        found = [answer.result(PATIENCE_S)["results"] for answer in answers]
    assert gate.most == AT_ONCE
    assert all(rows == found[0] for rows in found)
