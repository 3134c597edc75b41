"""The leader of a project: the one process that watches its files and indexes what changed.

Events may be lost. So that the index still ends up equal to a fresh one, the whole tree is compared
when leading begins, when rules change, when events stop coming, and at intervals without any.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from queue import Empty

from sonde.errors import Cancelled, SondeError
from sonde.indexing import following
from sonde.indexing.diff import EVERYTHING
from sonde.indexing.sources import Identity, identify_files
from sonde.policy.changes import WatchFailed, find_silent_file_system
from sonde.projects.maintenance import IdleWork, check_soon
from sonde.projects.project import Project, Workspace
from sonde.projects.update import compare_project, update_changed, update_project
from sonde.runtime.work import Work
from sonde.stores.files import write_json
from sonde.stores.records import LEADER_FILE, is_check_due, stamp_now
from sonde.types import FileContent

TICK_S = 1.0  # how often a leader and those that stand by look at what is due
IDLE_WORK_S = 60.0  # how often unused space and memory are freed
_IDLE_WORK_AFTER_COMPARISON_S = 15.0  # what a comparison leaves is freed soon
_QUIET_S, _QUIET_TIMES = 5.0, 20
"""Everything is compared after this long without events, or this many times as long as comparing
takes, whichever is longer."""
_BUSY_S, _BUSY_TIMES = 60.0, 100  # the same while events keep coming
_NO_EVENTS_S, _NO_EVENTS_TIMES = 600.0, 400  # the same without any event: a queue may overflow
_POLL_S, _POLL_TIMES, _MAX_POLL_S = 2.0, 30, 60.0  # the same where the system reports no events
_REOPEN_WATCH_S = 600.0  # how often polling tries whether the system can watch again
_COMPARE_ALL_PATHS = 1_000  # from this many touched paths on, comparing everything is cheaper
_MAX_RETRY_S = 60.0  # the longest pause between two attempts at what fails
_RECENT = timedelta(minutes=10)  # servers that come and go do not check again within this time
_GONE = "the project's folder is not there"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class LeaderState:
    """The state of a leader, as the status and `watcher.json` show it."""

    watching: str = "starting"
    current: bool = False
    note: str = ""
    events: int = 0
    restarts: int = 0
    restarted_after: str = ""
    """The error that the last restart was for."""
    comparisons: int = 0
    strategy: str = ""
    pending: int = 0
    updates: int = 0
    files_updated: int = 0
    last_update: str = ""
    strategy_note: str = ""

    def as_dict(self) -> dict[str, object]:
        """The state as JSON; `strategy` and `pending` are left out before a strategy is set."""
        shown: dict[str, object] = {
            "watching": self.watching,
            "current": self.current,
            "events": self.events,
            "fullComparisons": self.comparisons,
            "restarts": self.restarts,
        }
        if self.strategy:
            shown |= {
                "strategy": self.strategy,
                "pendingFiles": self.pending,
                "updates": self.updates,
                "filesUpdated": self.files_updated,
            }
        notes = {
            "lastUpdate": self.last_update,
            "strategyNote": self.strategy_note,
            "restartedAfter": self.restarted_after,
            "note": self.note,
        }
        return shown | {key: note for key, note in notes.items() if note}


class Leader:
    """Leads while the lock is held: `start`, then `step` in a loop, then `close`."""

    def __init__(
        self,
        workspace: Workspace,
        project: Project,
        state: LeaderState,
        inbox: following.Inbox,
        *,
        stopping: threading.Event,
        open_watch: Callable[..., following.TreeWatch] = following.TreeWatch,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workspace, self._project, self._state = workspace, project, state
        self._inbox, self._stopping = inbox, stopping
        self._open_watch, self._clock = open_watch, clock
        self._work = Work(cancelled=stopping)
        self._idle_work = IdleWork(workspace, project)
        self._settling = following.Settling(clock)
        self._watch: following.TreeWatch | None = None
        self._roots: Identity = {}
        self._config = stat_config(project.folder)
        self._strategy = self._start_strategy()
        self._differed: set[str] = set()
        self._comparison_s = 0.0
        self._written: dict[str, object] = {}
        now = clock()
        self._last_event = self._last_comparison = self._last_open = now
        self._next_check = self._idle_work_at = now
        self._had_events = self._failing = False
        self._pause, self._retry_at, self._next_tick = 1.0, now, now

    def start(self) -> None:
        """Open the watch and compare everything for the first time."""
        self._watch_folders()
        self._retry_later(self._compare_all)

    def step(self) -> None:
        """Wait up to a second for events and handle what is due."""
        if self._clock() >= self._next_tick:
            self._tick()
            self._next_tick = self._clock() + TICK_S
        self._receive()
        if settled := self._settling.take():
            if any(path.endswith("/") for path in settled):
                # first, so that what happens in new folders from here on is seen
                self._watch_folders()
            self._retry_later(lambda: self._index(self._strategy.add(settled)))

    def close(self) -> None:
        """Save pending paths and stop watching."""
        if self._watch:
            self._watch.close()
        try:
            if self._strategy.name != "realtime":
                self._strategy.add(self._settling.take(everything=True))
            self._strategy.save()
        except SondeError as error:
            log.info("pending changes are not written down: %s", error)

    def _receive(self) -> None:
        wait_s = self._settling.seconds_left(max(self._next_tick - self._clock(), 0.0))
        try:
            arrived = self._inbox.get(timeout=wait_s) if wait_s else self._inbox.get_nowait()
        except Empty:
            return
        if isinstance(arrived, set):
            self._take_events(arrived)
        elif isinstance(arrived, threading.Event):
            self._strategy.add(self._settling.take(everything=True))
            self._retry_later(lambda: self._index(set(self._strategy.pending)))
            arrived.set()
        elif isinstance(arrived, Exception):
            # a name that is not Unicode, for one: what it was about is not known
            log.info("reopening the watch on %s: %s", self._project.folder, arrived)
            self._watch_folders()
            self._settling.add({EVERYTHING})

    def _take_events(self, places: set[str]) -> None:
        folders = self._watch.folders if self._watch else frozenset()
        touched = following.name_touched(self._project.tree, places, folders)
        if not touched:
            return
        self._state.events += len(touched)
        self._last_event, self._had_events = self._clock(), True
        if len(touched) + len(self._settling) > _COMPARE_ALL_PATHS:
            self._settling.take(everything=True)
            touched = {EVERYTHING}
        self._settling.add(touched)

    def _index(self, due: set[str]) -> None:
        """Index these paths; those of a failed update stay pending."""
        if due:
            update_changed(self._workspace, self._project, due, self._work)
            self._state.updates += 1
            self._state.files_updated += len(due)
            self._state.last_update = stamp_now()
        self._strategy.mark_indexed(due)

    def _tick(self) -> None:
        now = self._clock()
        self._follow_settings()
        self._follow_roots()
        if now >= self._retry_at:
            self._retry_later(self._do_what_is_due)
        if now >= self._idle_work_at:
            self._idle_work.start(leads=True, updates=self._state.updates)
            self._idle_work_at = now + IDLE_WORK_S
        if now >= self._next_check and self._state.comparisons:
            self._next_check = now + self._project.settings.check_interval_s
            if is_check_due(self._project.folder, _RECENT):
                check_soon(self._workspace, self._project)
        if self._state.watching == "polling" and now - self._last_open >= _REOPEN_WATCH_S:
            self._watch_folders()
        self._state.pending = len(self._strategy.pending) + len(self._settling)
        self._write_state()

    def _do_what_is_due(self) -> None:
        self._index(self._strategy.tick())
        now = self._clock()
        if now - self._last_comparison >= self._comparison_interval(now) and not self._settling:
            self._compare_all()
            self._idle_work_at = min(self._idle_work_at, now + _IDLE_WORK_AFTER_COMPARISON_S)

    def _comparison_interval(self, now: float) -> float:
        """How long after the last full comparison the next one is due."""
        if self._state.watching == "polling":
            return min(max(_POLL_S, _POLL_TIMES * self._comparison_s), _MAX_POLL_S)
        quiet = max(_QUIET_S, _QUIET_TIMES * self._comparison_s)
        if self._had_events and now - self._last_event >= quiet:
            return quiet
        if self._had_events:
            return max(_BUSY_S, _BUSY_TIMES * self._comparison_s)
        return max(_NO_EVENTS_S, _NO_EVENTS_TIMES * self._comparison_s)

    def _compare_all(self) -> None:
        """Compare the whole tree with the index, and pass the differences to the strategy."""
        began = self._clock()
        self._had_events = False
        if self._strategy.name == "realtime":
            self._index(self._strategy.add({EVERYTHING}))
        else:
            found = find_changes(self._workspace, self._project, self._work)
            # what differed before is pending already, and no sign of new work
            if found - self._differed:
                self._strategy.add(found - self._differed)
            self._differed = found
        self._last_comparison = self._clock()
        self._comparison_s = self._last_comparison - began
        self._state.comparisons += 1
        self._state.current = self._state.watching == "events"
        if self._failing:
            self._failing, self._pause, self._state.note = False, 1.0, ""

    def _retry_later(self, action: Callable[[], None]) -> None:
        """Run an action. If it fails, the whole tree is compared again after a pause that doubles
        with each failure."""
        try:
            action()
        except Cancelled:
            if self._stopping.is_set():
                raise
            # another caller cancelled the job that was joined: its work is still pending
        except SondeError as error:
            log.info("%s: %s", self._project.folder, error)
            self._failing = True
            self._state.note = _GONE if None in self._find_roots().values() else error.user_message
            self._state.current = False
            self._retry_at = self._clock() + self._pause
            self._pause = min(2 * self._pause, _MAX_RETRY_S)
            self._last_comparison = float("-inf")

    def _follow_settings(self) -> None:
        config = stat_config(self._project.folder)
        if config == self._config:
            return
        self._config = config
        self._retry_later(lambda: self._workspace.projects.reload(self._project.root))
        self._strategy.save()
        self._strategy = self._start_strategy()
        self._differed = set()
        self._watch_folders()
        self._retry_later(self._compare_all)

    def _start_strategy(self) -> following.Strategy:
        settings, state = self._project.settings, self._state
        strategy = following.make_strategy(
            settings.strategy,
            self._project.folder,
            idle_s=settings.lazy_idle_s,
            tree=settings.tree,
            clock=self._clock,
        )
        state.strategy, state.strategy_note = strategy.name, strategy.note
        state.updates, state.files_updated, state.last_update = 0, 0, ""
        return strategy

    def _find_roots(self) -> Identity:
        return identify_files(source.root for source in self._project.tree.sources)

    def _follow_roots(self) -> None:
        roots = self._find_roots()
        if roots == self._roots:
            return
        if None in roots.values():
            self._state.watching, self._state.current = "polling", False
            self._state.note = _GONE
        else:
            self._watch_folders()
            self._settling.add({EVERYTHING})
            self._retry_at = self._clock()
        self._roots = roots

    def _watch_folders(self) -> None:
        """Watch the current folders; poll where the system cannot watch."""
        tree = self._project.tree
        old, self._watch = self._watch, None
        self._last_open = self._clock()
        self._roots = self._find_roots()
        silent = find_silent_file_system(source.root for source in tree.sources)
        mode, note = "polling", ""
        if self._project.settings.watching != "auto":
            note = "as the setting `watching` says"
        elif silent:
            note = f"the file system ({silent}) reports no changes"
        else:
            try:
                self._watch = self._open_watch(tree, self._inbox)
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

    def _write_state(self) -> None:
        shown, path = self._state.as_dict(), self._project.folder / LEADER_FILE
        if shown != self._written:
            try:
                write_json(path, {"formatVersion": 1, "pid": os.getpid(), **shown})
                self._written = shown
            except SondeError as error:
                log.debug("%s: %s", path, error)


def find_changes(workspace: Workspace, project: Project, work: Work) -> set[str]:
    """Paths that differ from the index.

    Where size and time do not tell, as for a file that was written while it was indexed, contents
    are compared, and the new time is recorded.
    """
    diff = compare_project(project, work)
    same = set()
    for path in {entry.path for _, entry in diff.changed}:
        work.check()
        hashes = [files[path].hash for files in diff.known.values() if path in files]
        content = project.tree.read(path) if hashes else None
        if isinstance(content, FileContent) and content.hash in hashes:
            same.add(path)
    if same:
        update_project(workspace, project, work, diff=diff.only(same), existing=True)
    return diff.names() - same


def stat_config(folder: Path) -> tuple[int, int]:
    """Identifies the saved settings of a project: time and inode of `config.json`."""
    try:
        facts = os.stat(folder / "config.json")  # noqa: PTH116 - done every second
        return facts.st_mtime_ns, facts.st_ino
    except OSError:
        return 0, 0
