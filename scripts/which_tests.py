"""A pytest plugin for mutants.py: records which lines each test runs, or runs chosen tests.

    WHICH_TESTS_RECORD=folder pytest -p which_tests ...   # needs the package `coverage`
    WHICH_TESTS_SERVE="3 4" pytest -p which_tests ...     # requests and answers: two pipes

While a record is made, every Python process of the environment runs `start_recording` when it
starts (mutants.py writes it into a `.pth` file). So lines that child processes run count for the
test that started them, also where that test gives them no environment variables.

PYTEST_DONT_REWRITE: this module is imported before pytest is.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import marshal
import os
import select
import signal
import threading
import types
from collections import Counter, defaultdict, deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

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


class Server:
    """Collects the tests once; then runs chosen ones in a fork, with one function changed.

    A request is a line of JSON: `tests`, `seconds`, and what `change_code` takes. The answer is
    a line: `passed`, `timeout`, `ended`, `not changed`, or the test that failed.
    """

    def __init__(self, requests: int, answers: int) -> None:
        self._requests = os.fdopen(requests)
        self._answers = os.fdopen(answers, "w")
        self._failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for line in self._requests:
            request = json.loads(line)
            chosen = [items[test] for test in request["tests"] if test in items]
            print(self._fork(session, chosen, request), file=self._answers, flush=True)
        return True

    def _fork(self, session: pytest.Session, items: list[pytest.Item], request: Any) -> str:
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            self._answer(session, items, request["change"], writing)
        os.close(writing)
        ready, _, _ = select.select([reading], [], [], request["seconds"])
        answer = (os.read(reading, 4096).decode() or "ended") if ready else "timeout"
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # and the servers that its tests left
        os.waitpid(pid, 0)
        return answer

    def _answer(
        self, session: pytest.Session, items: list[pytest.Item], change: Any, writing: int
    ) -> NoReturn:
        from _pytest.unraisableexception import unraisable_exceptions

        os.setsid()
        session.config.stash[unraisable_exceptions].clear()  # libraries that dislike a fork
        try:
            change_code(**change)
        except ValueError:  # a variable of an outer function is no longer used
            os.write(writing, b"not changed")
            os._exit(0)
        try:
            os.write(writing, self._run(session, items).encode())
        finally:
            os._exit(0)

    def _run(self, session: pytest.Session, items: list[pytest.Item]) -> str:
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                with contextlib.suppress(BaseException):
                    session._setupstate.teardown_exact(None)  # noqa: SLF001
                return self._failed[0]
        return "passed"


def change_code(path: str, source: str, before: str, after: str) -> None:
    """Give the functions of a module that is imported already the code of a changed text.

    `source` is the text that was imported, `before` the same written like `after`.
    """
    old, new = list_code(compile(before, path, "exec")), list_code(compile(after, path, "exec"))
    places = list_code(compile(source, path, "exec"))
    names = {(name, code.co_firstlineno): (name, at) for (name, at), code in places.items()}
    for function in gc.get_objects():
        if isinstance(function, types.FunctionType) and function.__code__.co_filename == path:
            code = function.__code__
            key = names.get((code.co_qualname, code.co_firstlineno))
            if key in new and marshal.dumps(old[key]) != marshal.dumps(new[key]):
                function.__code__ = new[key]


def list_code(module: types.CodeType) -> dict[tuple[str, int], types.CodeType]:
    """The functions in a module by name, and by how many of this name come before."""
    found: dict[tuple[str, int], types.CodeType] = {}
    counts: Counter[str] = Counter()
    queue = deque([module])
    while queue:
        code = queue.popleft()
        found[code.co_qualname, counts[code.co_qualname]] = code
        counts[code.co_qualname] += 1
        queue.extend(one for one in code.co_consts if isinstance(one, types.CodeType))
    return found


def pytest_configure(config: pytest.Config) -> None:
    if folder := os.environ.get("WHICH_TESTS_RECORD"):
        import coverage

        config.pluginmanager.register(Recorder(Path(folder), coverage.Coverage.current()))
    if pipes := os.environ.pop("WHICH_TESTS_SERVE", ""):
        config.pluginmanager.register(Server(*map(int, pipes.split())))
