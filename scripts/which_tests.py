"""A pytest plugin for mutants.py: records which lines each test runs, or runs chosen tests.

    WHICH_TESTS_RECORD=folder pytest -p which_tests ...   # needs the package `coverage`
    WHICH_TESTS_ONLY=file pytest -p which_tests ...       # a file with one test a line

While a record is made, every Python process of the environment runs `start_recording` when it
starts (mutants.py writes it into a `.pth` file). So lines that child processes run count for the
test that started them, also where that test gives them no environment variables.

PYTEST_DONT_REWRITE: this module is imported before pytest is.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import coverage
    import pytest

LINES, TIMES, NOW = "lines", "times.json", "now"
SAVE_S = 0.5
"""How often a process writes down its lines: it may be killed at any time."""


def start_recording(folder: str, source: str) -> None:
    """Record the lines of this process, for the test that is running now."""
    try:
        now = Path(folder, NOW).read_text()
    except OSError:
        return  # nothing is being recorded
    import coverage

    if coverage.Coverage.current():
        return  # a `.pth` file is read twice where lib64 is a link to lib
    lines = coverage.Coverage(
        f"{folder}/{LINES}", data_suffix=True, include=[f"{source}/*"], context=now or None
    )
    lines.set_option("run:disable_warnings", ["no-data-collected"])
    lines.start()
    ending = threading.Event()

    def save_often() -> None:
        while not ending.wait(SAVE_S):
            lines.save()

    def end() -> None:
        ending.set()
        if now:
            saver.join()
        lines.stop()
        lines.save()

    saver = threading.Thread(target=save_often, daemon=True)
    if now:  # the child of a test, which may kill it
        saver.start()
    atexit.register(end)


class Recorder:
    """Lines by test and phase, as `coverage` writes them; seconds and failures of each test."""

    def __init__(self, folder: Path, lines: coverage.Coverage) -> None:
        self._folder = folder
        self._lines = lines
        self._seconds: dict[str, float] = defaultdict(float)
        self._failed: set[str] = set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._enter(f"{nodeid} (setup)")

    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self._enter(f"{item.nodeid} (call)")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._enter("")
        path = self._folder / TIMES
        known = json.loads(path.read_text()) if path.exists() else {}
        for test, seconds in self._seconds.items():
            known[test] = None if test in self._failed else round(seconds, 3)
        path.write_text(json.dumps(known, indent=0))

    def _enter(self, context: str) -> None:
        self._lines.switch_context(context)
        (self._folder / NOW).write_text(context)


class Chosen:
    """Leaves out every test that is not listed, and runs the others in the order of the list."""

    def __init__(self, path: Path) -> None:
        self._order = {test: at for at, test in enumerate(path.read_text().splitlines())}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if item.nodeid in self._order]
        items[:] = sorted(chosen, key=lambda item: self._order[item.nodeid])


def pytest_configure(config: pytest.Config) -> None:
    if folder := os.environ.get("WHICH_TESTS_RECORD"):
        import coverage

        config.pluginmanager.register(Recorder(Path(folder), coverage.Coverage.current()))
    if path := os.environ.get("WHICH_TESTS_ONLY"):
        config.pluginmanager.register(Chosen(Path(path)))
