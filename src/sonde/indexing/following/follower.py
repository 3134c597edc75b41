"""Following a project: one process watches it and keeps its index in step, the others stand by.

Whoever holds `watcher.lock` leads: it watches, and a strategy decides when what it saw is
indexed. The lock dies with its process, and somebody else takes over within a second. The leader
shows that it is well by touching `watcher.json`; to lead is thrift, not safety, as every write is
under the writer's lock. All waiting is measured by a clock that no one can set.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

from sonde.errors import Cancelled, IndexBusy, SondeError
from sonde.indexing.following.leader import REST_S, Leader, stat_config
from sonde.indexing.following.state import Actions, FollowedProject, LeaderState
from sonde.indexing.following.watch import Inbox
from sonde.runtime.locks import WriterLock
from sonde.runtime.work import Work
from sonde.stores.files import read_json, write_json

_TICK_S = 1.0
_BEAT_S, _DEAD_S = 2.0, 10.0
"""How often a leader shows that it is well, and when it counts as stuck."""
_STEADY_S = 600.0
_LONGEST_PAUSE_S = 30.0

log = logging.getLogger(__name__)


class Follower:
    """Keeps one project's index in step for as long as it runs, in a thread of its own."""

    def __init__(self, project: FollowedProject, actions: Actions) -> None:
        self._project = project
        self._actions = actions
        self._lock = WriterLock(project.folder, "watcher.lock")
        self._inbox: Inbox = Inbox()
        self._stopping = threading.Event()
        self._leads = False
        self._state = LeaderState()
        self._config = stat_config(project.folder)
        self._leader: dict[str, Any] = {}
        self._work = Work()
        self._beat_seen: tuple[int, float] = (0, -_DEAD_S)
        self._last_beat = -_BEAT_S
        self._written: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._run, name="sonde-follow", daemon=True)

    def start(self) -> None:
        """Begin, without making anyone wait."""
        self._thread.start()

    def stop(self) -> None:
        """End; what waits is written down."""
        self._stopping.set()
        self._work.cancel()
        self._inbox.put(None)
        if self._thread is not threading.current_thread() and self._thread.ident:
            self._thread.join(10.0)

    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def leads(self) -> bool:
        """Whether this process is the one that watches."""
        return self._leads

    def is_watched(self) -> bool:
        """Whether somebody keeps the index in step, this process or another."""
        if not self._thread.is_alive():
            return False
        return self._state.watching != "starting" if self._leads else self._leader_is_well()

    def is_current(self) -> bool:
        """Whether whatever changes reaches the index without anyone looking for it."""
        if not self._thread.is_alive():
            return False
        if self._leads:
            return self._state.current
        return self._leader_is_well() and bool(self._leader.get("current"))

    def describe(self) -> dict[str, Any]:
        """How the project is followed, for the status."""
        reads = not self._leads and self._leader_is_well()
        told = self._leader if reads else self._state.as_dict()
        return {"role": "reader" if reads else "writer" if self._leads else "none", **told}

    def catch_up(self, timeout_s: float) -> bool:
        """Have what waits indexed now; whether that was done in time. For whoever leads."""
        done = threading.Event()
        self._inbox.put(done)
        return done.wait(timeout_s)

    def _leader_is_well(self) -> bool:
        return time.monotonic() - self._beat_seen[1] < _DEAD_S

    def _run(self) -> None:
        crashes = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._stand_by()
                with contextlib.suppress(IndexBusy), self._lock.held(wait_s=0):
                    self._lead()
            except Cancelled:
                continue
            except Exception as error:
                log.exception("following %s broke; it is taken up again", self._project.folder)
                crashes = 1 if time.monotonic() - began > _STEADY_S else crashes + 1
                self._state.restarts += 1
                self._state.broke = f"{type(error).__name__}: {error}"
                self._stopping.wait(min(2.0**crashes / 2, _LONGEST_PAUSE_S))

    def _stand_by(self) -> None:
        """Wait until the place of the leader is free, meanwhile looking how it does."""
        rested = time.monotonic()
        while not self._stopping.is_set():
            if self._project.watching != "off" and self._project.is_indexed():
                try:
                    with self._lock.held(wait_s=0):
                        return
                except IndexBusy:
                    self._look_at_leader()
                except SondeError as error:  # a home that cannot be written: nobody leads
                    self._leader = {"watching": "off", "note": error.user_message}
            self._stopping.wait(_TICK_S)
            self._follow_settings()
            if time.monotonic() - rested >= REST_S:
                self._actions.rest()
                rested = time.monotonic()

    def _follow_settings(self) -> None:
        config = stat_config(self._project.folder)
        if config != self._config:
            self._config = config
            try:
                self._actions.reload()
            except SondeError as error:
                log.warning("the settings stay as they were: %s", error)

    def _look_at_leader(self) -> None:
        path = self._project.folder / "watcher.json"
        try:
            beat = path.stat().st_mtime_ns
        except OSError:
            return
        seen, when = self._beat_seen
        if beat == seen:
            return
        # at the first look there is nothing to compare with but the clock
        well = seen != 0 or abs(time.time() - beat / 1e9) < _DEAD_S
        self._beat_seen = (beat, time.monotonic() if well else when)
        found = read_json(path)
        self._leader = found if isinstance(found, dict) else {}

    def _lead(self) -> None:
        leading = Leader(
            self._project,
            self._actions,
            self._state,
            self._inbox,
            goes_on=self._still_leads,
            make_work=self._make_work,
            beat=self._beat,
        )
        try:
            self._leads = True
            leading.run()
        finally:
            self._leads = False
            self._state.watching, self._state.current = "starting", False
            leading.close()

    def _still_leads(self) -> bool:
        if self._stopping.is_set():
            return False
        wanted = self._project.watching != "off" and self._project.is_indexed()
        return wanted and self._lock.is_in_place()

    def _make_work(self) -> Work:
        """Work that ends when following does, and shows meanwhile that the leader is well."""
        self._work = Work(report=lambda _progress: self._beat())
        if self._stopping.is_set():
            self._work.cancel()
        return self._work

    def _beat(self) -> None:
        """Show that this process is well, and how far it is."""
        now = time.monotonic()
        told = self._state.as_dict()
        path = self._project.folder / "watcher.json"
        try:
            if told != self._written:
                write_json(path, {"formatVersion": 1, "pid": os.getpid(), **told})
                self._written = told
            elif now - self._last_beat >= _BEAT_S:
                os.utime(path)
            else:
                return
        except (OSError, SondeError) as error:
            self._written = {}
            log.debug("%s: %s", path, error)
        self._last_beat = now


def describe_leader(folder: Path) -> dict[str, Any] | None:
    """How another process follows the project of this index, if one does."""
    path = folder / "watcher.json"
    try:
        if abs(time.time() - path.stat().st_mtime) > _DEAD_S:
            return None
        with WriterLock(folder, "watcher.lock").held(wait_s=0):
            return None
    except IndexBusy:
        found = read_json(path)
        return found if isinstance(found, dict) else None
    except (OSError, SondeError):
        return None
