"""What the leader of a project does: receive events, let them settle, pass them on, and look.

The index ends equal to a fresh one whatever the events leave out: everything is compared when
leading begins, when rules change, when it gets quiet after events, and now and then without any.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty
from typing import Any

from sonde.errors import Cancelled, SondeError
from sonde.indexing.following.state import Actions, FollowedProject, LeaderState
from sonde.indexing.following.strategies import EVERYTHING, Strategy, make_strategy
from sonde.indexing.following.watch import (
    Inbox,
    Settling,
    Watch,
    WatchFailed,
    identify_roots,
    note_silence,
)
from sonde.policy.admit import GIT_FILE, OWN_FILE
from sonde.runtime.work import Work

_TICK_S = 1.0
_QUIET_S, _QUIET_TIMES = 5.0, 20
"""After this long without events, or so many times what a look takes, everything is compared."""
_BUSY_S, _BUSY_TIMES = 60.0, 100
"""The same while events do not stop."""
_LOOK_S, _LOOK_TIMES = 600.0, 400
"""The same without any event: a queue that overflowed may have lost all of them."""
_POLL_S, _POLL_TIMES, _POLL_LONGEST_S = 2.0, 30, 60.0
_RETRY_WATCH_S = 600.0
_REST_SOON_S, REST_S = 15.0, 60.0
"""How long after a look, and how often without one, what is no longer needed is let go of."""
_CHECK_S = 24 * 3600.0
_GONE = "the project's folder is not there"
_MANY = 1_000
"""From so many touched paths on, comparing everything is cheaper."""
_LONGEST_PAUSE_S = 60.0

log = logging.getLogger(__name__)


class Leader:
    """One spell of leading: from taking the lock to giving it back."""

    def __init__(
        self,
        project: FollowedProject,
        actions: Actions,
        state: LeaderState,
        inbox: Inbox,
        *,
        goes_on: Callable[[], bool],
        make_work: Callable[[], Work],
        beat: Callable[[], None],
    ) -> None:
        self._project, self._actions, self._state = project, actions, state
        self._inbox, self._goes_on = inbox, goes_on
        self._make_work, self._beat = make_work, beat
        self._settling = Settling()
        self._watch: Watch | None = None
        self._roots: list[tuple[int, int] | None] = []
        self._config = stat_config(project.folder)
        self._strategy = self._make_strategy()
        self._differed: set[str] = set()
        self._look_cost = 0.0
        now = time.monotonic()
        self._last_event = self._last_look = self._last_open = now
        self._next_check = self._last_check = self._rest_at = now
        self._stirred = self._failing = False
        self._pause, self._retry_at = 1.0, now

    def run(self) -> None:
        """Lead until told otherwise."""
        self._strategy.initialize()
        self._strategy.start()
        self._open_watch()
        self._guard(self._look)
        next_tick = 0.0
        while self._goes_on():
            if time.monotonic() >= next_tick:
                self._tick()
                next_tick = time.monotonic() + _TICK_S
            self._receive(next_tick)
            settled = self._settling.take()
            if settled:
                self._pass_on(settled)

    def close(self) -> None:
        """Write down what waits and let go of the file system."""
        if self._watch:
            self._watch.close()
        try:
            if self._strategy.name != "realtime":
                self._strategy.on_file_event(self._settling.take(everything=True))
            self._strategy.stop()
        except SondeError as error:
            log.info("what waits is not written down: %s", error)

    def _receive(self, until: float) -> None:
        wait_s = self._settling.seconds_left(max(until - time.monotonic(), 0.0))
        try:
            arrived = self._inbox.get(timeout=wait_s) if wait_s else self._inbox.get_nowait()
        except Empty:
            return
        if isinstance(arrived, set):
            self._take_events(arrived)
        elif isinstance(arrived, threading.Event):
            self._catch_up(arrived)
        elif isinstance(arrived, Exception):
            # a name that is no Unicode, for one: what it was about is not known
            log.info("the watch on %s is opened anew: %s", self._project.folder, arrived)
            self._open_watch()
            self._settling.add({EVERYTHING})

    def _take_events(self, places: set[str]) -> None:
        tree, folders = self._project.tree, self._watch.folders if self._watch else frozenset()
        touched = set()
        for place in places:
            name = tree.name_of(place)
            if not name or name.endswith("/"):
                continue  # no business of ours, or a root, which is looked at each second
            if name.rpartition("/")[2] in (GIT_FILE, OWN_FILE):
                touched.add(EVERYTHING)
            if place in folders or os.path.isdir(place):  # noqa: PTH112 - half the time
                touched.add(f"{name}/")
            elif not folders and not os.path.lexists(place):
                touched.update((name, f"{name}/"))  # gone: whether it was a folder is not known
            else:
                touched.add(name)
        if not touched:
            return
        self._state.events += len(touched)
        self._last_event, self._stirred = time.monotonic(), True
        if len(touched) + len(self._settling) > _MANY:
            self._settling.take(everything=True)
            touched = {EVERYTHING}
        self._settling.add(touched)

    def _pass_on(self, paths: set[str]) -> None:
        if any(path.endswith("/") for path in paths):
            # first, so that what happens in new folders from here on is seen
            self._open_watch()
        self._guard(lambda: self._strategy.on_file_event(paths))

    def _catch_up(self, done: threading.Event) -> None:
        paths = self._settling.take(everything=True)

        def flush() -> None:
            self._strategy.on_file_event(paths)
            self._strategy.flush()

        self._guard(flush)
        done.set()

    def _tick(self) -> None:
        now = time.monotonic()
        self._follow_settings()
        self._follow_roots()
        if now >= self._retry_at:
            self._guard(self._do_what_is_due)
        if now >= self._rest_at:
            self._actions.rest()
            self._rest_at = now + REST_S
        if now >= self._next_check and self._state.looks:
            self._check_or_wait(now)
        if self._state.watching == "polling" and now - self._last_open >= _RETRY_WATCH_S:
            self._open_watch()
        self._tell_strategy()
        self._beat()

    def _do_what_is_due(self) -> None:
        self._strategy.on_tick()
        now = time.monotonic()
        if now - self._last_look >= self._look_interval(now) and not len(self._settling):
            self._look()
            self._rest_at = min(self._rest_at, now + _REST_SOON_S)

    def _check_or_wait(self, now: float) -> None:
        """Check now; where changes wait by choice, they would be indexed: then once none waits, but
        within a day."""
        waits = self._strategy.name != "realtime" and self._strategy.get_stats().pending
        if waits and now - self._last_check < _CHECK_S:
            return
        self._last_check, self._next_check = now, now + _CHECK_S
        self._actions.check()

    def _look_interval(self, now: float) -> float:
        """How long after the last look at everything the next one is due."""
        if self._state.watching == "polling":
            return min(max(_POLL_S, _POLL_TIMES * self._look_cost), _POLL_LONGEST_S)
        quiet = max(_QUIET_S, _QUIET_TIMES * self._look_cost)
        if self._stirred and now - self._last_event >= quiet:
            return quiet
        if self._stirred:
            return max(_BUSY_S, _BUSY_TIMES * self._look_cost)
        return max(_LOOK_S, _LOOK_TIMES * self._look_cost)

    def _look(self) -> None:
        """Compare everything with the index."""
        began = time.monotonic()
        self._stirred = False
        if self._project.strategy == "realtime":
            self._strategy.on_file_event({EVERYTHING})
        else:
            found = self._actions.find_changes(self._make_work())
            # what differed before waits already, and is no sign of somebody at work
            if found - self._differed:
                self._strategy.on_file_event(found - self._differed)
            self._differed = found
        self._last_look = time.monotonic()
        self._look_cost = self._last_look - began
        self._state.looks += 1
        self._state.current = self._state.watching == "events"
        if self._failing:
            self._failing, self._pause, self._state.note = False, 1.0, ""

    def _guard(self, action: Callable[[], None]) -> None:
        """Do something that may fail for reasons that pass; then everything is looked at again,
        each time later, until that is done."""
        try:
            action()
        except Cancelled:
            if self._goes_on():
                return  # somebody else called off the job that was joined: it is taken up again
            raise
        except SondeError as error:
            log.info("%s: %s", self._project.folder, error)
            self._failing = True
            gone = None in identify_roots(self._project.tree)
            self._state.note = _GONE if gone else error.user_message
            self._state.current = False
            self._retry_at = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)
            self._last_look = float("-inf")

    def _follow_settings(self) -> None:
        config = stat_config(self._project.folder)
        if config == self._config:
            return
        self._config = config
        self._guard(self._actions.reload)
        self._strategy.stop()
        self._strategy = self._make_strategy()
        self._strategy.initialize()
        self._strategy.start()
        self._differed = set()
        self._open_watch()
        self._guard(self._look)

    def _follow_roots(self) -> None:
        roots = identify_roots(self._project.tree)
        if roots == self._roots:
            return
        if None in roots:
            self._state.watching, self._state.current = "polling", False
            self._state.note = _GONE
        else:
            self._open_watch()
            self._settling.add({EVERYTHING})
            self._retry_at = time.monotonic()
        self._roots = roots

    def _open_watch(self) -> None:
        """Watch the folders as they are now; where that cannot be, they are looked at in turn."""
        old, self._watch = self._watch, None
        self._last_open = time.monotonic()
        self._roots = identify_roots(self._project.tree)
        silent = note_silence(self._project.tree)
        mode, note = "polling", ""
        if self._project.watching != "auto":
            note = "as the setting `watching` says"
        elif silent:
            note = f"the file system ({silent}) reports no changes"
        else:
            try:
                self._watch = Watch(self._project.tree, self._inbox)
                mode = "events"
            except WatchFailed as error:
                note = f"{error}; changes are looked for instead"
            except SondeError as error:
                note = error.user_message
        if old:
            old.close()  # last: what happened meanwhile is seen by one of the two
        if mode != self._state.watching:
            log.info("%s: %s %s", self._project.folder, mode, note)
        self._state.watching = mode
        self._state.current = self._state.current and mode == "events"
        self._state.note = note or (self._state.note if self._failing else "")

    def _make_strategy(self) -> Strategy:
        project = self._project
        return make_strategy(
            project.strategy,
            project.folder,
            lambda paths: self._actions.update(paths, self._make_work()),
            idle_s=project.lazy_idle_s,
            tree=project.tree,
        )

    def _tell_strategy(self) -> None:
        stats = self._strategy.get_stats()
        told: dict[str, Any] = {
            "strategy": self._strategy.name,
            "pendingFiles": stats.pending + len(self._settling),
            "updates": stats.updates,
            "filesUpdated": stats.files,
        }
        if stats.last_update:
            when = datetime.fromtimestamp(stats.last_update, UTC)
            told["lastUpdate"] = when.isoformat(timespec="seconds").replace("+00:00", "Z")
        if stats.note:
            told["strategyNote"] = stats.note
        self._state.strategy = told


def stat_config(folder: Path) -> tuple[int, int]:
    """What changes when the project's settings are saved."""
    try:
        facts = os.stat(folder / "config.json")  # noqa: PTH116 - done every second
        return facts.st_mtime_ns, facts.st_ino
    except OSError:
        return 0, 0
