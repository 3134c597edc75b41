"""A push that is killed loses nothing; `tests/shared/kill_pushes.py` does it as often as wanted."""

from __future__ import annotations

from pathlib import Path

from tests.shared.kill_pushes import run


def test_a_push_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    outcome = run(tmp_path, 2, seed=7)
    assert outcome.lost == []
    assert outcome.killed + outcome.finished == 2
