"""Files that change under the indexer's hands, and clocks that do not run as they should."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sonde.runtime.work import Work


class Meddler(Work):
    """Does something to the files after they were listed and before the first is read."""

    def __init__(self, meddle: Callable[[], Any]) -> None:
        super().__init__()
        self._meddle: Callable[[], Any] | None = meddle

    def check(self) -> None:
        meddle, self._meddle = self._meddle, None
        if meddle:
            meddle()
        super().check()


def fill(bench: Any) -> Path:
    for number in range(6):
        bench.write(f"m{number}.py", f"def function_{number}():\n    return {number}\n")
    return bench.root / "m3.py"


def vanish(path: Path) -> None:
    path.unlink()


def grow(path: Path) -> None:
    path.write_text("x = 1\n" * 400_000)


def change(path: Path) -> None:
    path.write_text("def other_function():\n    return 'other'\n")


def become_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def become_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


def become_binary(path: Path) -> None:
    path.write_bytes(b"\0\1\2" * 100)


@pytest.mark.parametrize("known", [False, True], ids=["new", "indexed before"])
@pytest.mark.parametrize(
    "meddle", [vanish, grow, change, become_a_folder, become_a_link, become_binary]
)
def test_a_file_that_changes_between_listing_and_reading_ends_as_it_is(
    bench: Any, open_bench: Any, meddle: Callable[[Path], None], known: bool
) -> None:
    path = fill(bench)
    if known:
        bench.update()
        for each in bench.root.iterdir():
            each.write_text(each.read_text() + "# edited\n")
    report = bench.update(Meddler(lambda: meddle(path)))
    assert report.files_indexed >= 5
    bench.update()
    fresh = open_bench()
    fresh.update()
    assert bench.snapshot() == fresh.snapshot()
    assert ("m3.py" in bench.files()) is (meddle is change)


@pytest.mark.parametrize("stamp", [0, -86_400, 4_102_444_800, 253_402_300_799])
def test_files_from_any_time_are_indexed_once_and_followed(bench: Any, stamp: int) -> None:
    path = fill(bench)
    os.utime(path, (stamp, stamp))
    assert bench.update().files_indexed == 6
    assert bench.update().files_indexed == 0
    change(path)
    # a clock that was set back gives the edited file an older time than before
    os.utime(path, (stamp - 3_600, stamp - 3_600))
    assert bench.update().files_indexed == 1
    assert "other" in bench.stores["code"].chunks_of("m3.py")[0].text
