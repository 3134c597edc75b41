"""Embedding in the background waits for power, and steps back on a busy machine."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sonde.embedding.base import BackgroundEmbedder
from sonde.errors import Cancelled
from sonde.runtime.system import BUSY, ON_BATTERY, find_pause


def write_supply(folder: Path, name: str, **facts: str) -> None:
    (folder / name).mkdir()
    for fact, value in facts.items():
        (folder / name / fact).write_text(f"{value}\n")


@pytest.mark.parametrize(
    ("status", "load", "reason"),
    [
        ("Discharging", 0.1, ON_BATTERY),
        ("Charging", 0.1, ""),
        ("Full", 2.9, ""),
        ("Full", 3.1, BUSY),
        ("Discharging", 9.0, ON_BATTERY),
    ],
)
def test_a_pause_has_its_reason(tmp_path: Path, status: str, load: float, reason: str) -> None:
    write_supply(tmp_path, "AC", type="Mains", online="1")
    write_supply(tmp_path, "BAT0", type="Battery", status=status)
    write_supply(tmp_path, "mouse", type="Battery", scope="Device", status="Discharging")
    assert find_pause(tmp_path, lambda: (load, 0.0, 0.0), cores=2) == reason


def test_a_machine_without_any_battery_does_not_wait(tmp_path: Path) -> None:
    assert find_pause(tmp_path / "nothing", lambda: (0.0, 0.0, 0.0), cores=1) == ""


def test_it_waits_until_there_is_power() -> None:
    reasons = [ON_BATTERY] * 3
    slept: list[float] = []

    def find() -> str:
        return reasons.pop() if reasons else ""

    with closing(BackgroundEmbedder(lambda: None, find, slept.append)) as embedder:
        assert embedder.embed(["a text"], "passage").shape == (1, 384)
    assert len(slept) == 3


def test_on_a_busy_machine_it_rests_before_each_batch_and_goes_on() -> None:
    slept: list[float] = []
    with closing(BackgroundEmbedder(lambda: None, lambda: BUSY, slept.append)) as embedder:
        embedder.embed(["a text"], "passage")
        embedder.embed(["another"], "passage")
    assert sum(slept) == pytest.approx(4.0)


def test_waiting_ends_when_the_work_is_cancelled() -> None:
    def stop() -> None:
        raise Cancelled

    embedder = BackgroundEmbedder(stop, lambda: ON_BATTERY, lambda _: None)
    with closing(embedder), pytest.raises(Cancelled):
        embedder.embed(["a text"], "passage")
