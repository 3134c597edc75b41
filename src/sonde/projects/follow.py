"""Following: keeping a project's index current while a server runs.

The process that holds `watcher.lock` leads: it watches the files and indexes what changed. Usually
that is the background process, and the only one. Others compare for each search, and one of them
takes over within a second when the lock dies with its process. Leading saves work, it is not
needed for safety, as every write is under the writer's lock.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable

from sonde.errors import Cancelled, IndexBusy, SondeError
from sonde.indexing.following import Inbox, TreeWatch
from sonde.projects.find import find_project
from sonde.projects.freshness import measure_coverage
from sonde.projects.leader import IDLE_WORK_S, TICK_S, Leader, LeaderState, stat_config
from sonde.projects.maintenance import IdleWork
from sonde.projects.project import Project, Workspace
from sonde.projects.search import rank_project
from sonde.projects.update import follow_project, update_changed
from sonde.ranking.question import read_question
from sonde.runtime.work import Work, WriterLock
from sonde.searching.request import Request
from sonde.searching.search import QueryVectors
from sonde.stores.records import load_dirty, load_leader

_WARMING_QUERY = "main function"  # common words: their lists are the longest ones
_STILL_WARM_S = 60.0  # half as long as what was loaded is kept
_STEADY_S = 600.0  # after running this long, a crash counts as the first again
_MAX_RESTART_PAUSE_S = 30.0  # so that what passes, such as a full disk, is noticed soon
_STOP_S = 10.0  # what is being written gets this long; a daemon thread ends with the process

log = logging.getLogger(__name__)


class Follower:
    """Keeps one project's index current in its own thread, as leader or on standby."""

    def __init__(
        self,
        workspace: Workspace,
        project: Project,
        *,
        open_watch: Callable[..., TreeWatch] = TreeWatch,
    ) -> None:
        self._workspace, self._project = workspace, project
        self._open_watch = open_watch
        self._lock = WriterLock(project.folder, "watcher.lock")
        self._inbox: Inbox = Inbox()
        self._stopping = threading.Event()
        self._leads = False
        self._state = LeaderState()
        self._config = stat_config(project.folder)
        self._idle_work = IdleWork(workspace, project)
        self._other_leads, self._note = False, ""
        self._thread = threading.Thread(target=self._run, name="sonde-follow", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; pending paths are saved."""
        self._stopping.set()
        self._inbox.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(_STOP_S)

    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def is_watched(self) -> bool:
        """Whether this process or another keeps the index current."""
        if not self._thread.is_alive():
            return False
        return self._state.watching != "starting" if self._leads else self._other_leads

    def is_current(self) -> bool:
        """Whether every change reaches the index without searches comparing files. False if
        another process leads: it may be stuck."""
        return self._thread.is_alive() and self._leads and self._state.current

    def describe(self) -> dict[str, object]:
        """How the project is followed, for the status."""
        if self._leads:
            return {"role": "writer", **self._state.as_dict()}
        if self._other_leads:
            return {"role": "reader", **load_leader(self._project.folder)}
        note = {"watching": "off", "note": self._note} if self._note else {}
        return {"role": "none", **self._state.as_dict(), **note}

    def catch_up(self, timeout_s: float) -> None:
        """Index pending paths, and wait for that at most this long."""
        workspace, project = self._workspace, self._project
        if self._leads:
            done = threading.Event()
            self._inbox.put(done)
            done.wait(timeout_s)
        elif pending := load_dirty(project.folder):
            workspace.jobs.submit(
                f"flush:{project.key}",
                "flush",
                lambda work: update_changed(workspace, project, pending, work),
            ).wait(timeout_s=timeout_s)

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
                log.exception("following %s failed and is restarted", self._project.folder)
                crashes = 1 if time.monotonic() - began > _STEADY_S else crashes + 1
                self._state.restarts += 1
                self._state.restarted_after = f"{type(error).__name__}: {error}"
                self._stopping.wait(min(2.0**crashes / 2, _MAX_RESTART_PAUSE_S))

    def _is_wanted(self) -> bool:
        return self._project.settings.watching != "off" and self._project.is_indexed()

    def _stand_by(self) -> None:
        """Wait until no other process leads."""
        idle_work_at = time.monotonic() + IDLE_WORK_S
        while not self._stopping.is_set():
            if self._is_wanted():
                try:
                    self._other_leads = False
                    with self._lock.held(wait_s=0):
                        return
                except IndexBusy:
                    self._other_leads = True
                except SondeError as error:  # a home that cannot be written has no leader
                    self._note = error.user_message
            self._stopping.wait(TICK_S)
            self._follow_settings()
            if time.monotonic() >= idle_work_at:
                self._idle_work.start(leads=False, updates=self.describe().get("updates"))
                idle_work_at = time.monotonic() + IDLE_WORK_S

    def _follow_settings(self) -> None:
        config = stat_config(self._project.folder)
        if config != self._config:
            self._config = config
            try:
                self._workspace.projects.reload(self._project.root)
            except SondeError as error:
                log.warning("the settings stay as they were: %s", error)

    def _lead(self) -> None:
        leader = Leader(
            self._workspace,
            self._project,
            self._state,
            self._inbox,
            stopping=self._stopping,
            open_watch=self._open_watch,
        )
        try:
            self._leads = True
            leader.start()
            while not self._stopping.is_set() and self._is_wanted() and self._lock.is_in_place():
                leader.step()
        finally:
            self._leads = False
            self._state.watching, self._state.current = "starting", False
            leader.close()


def begin_following(workspace: Workspace) -> None:
    """Follow the project that a server was started in, if it is indexed, and load what the first
    search needs while the client lists tools."""
    try:
        project = find_project(workspace)
        if project.seconds_idle() < _STILL_WARM_S:
            follow_project(workspace, project)
        elif project.is_indexed():
            workspace.jobs.submit(
                f"warm:{project.key}", "warm", lambda work: _warm(workspace, project, work)
            )
    except SondeError as error:
        log.info("no project is followed yet: %s", error)


def _warm(workspace: Workspace, project: Project, work: Work) -> None:
    """Run a search, so that the first real one finds files, vectors and modules loaded. The deep
    model is large; the first search that needs it loads it."""
    project.note_warm()
    question = read_question(_WARMING_QUERY)
    vectors = QueryVectors(question, workspace.static, None)
    try:
        rank_project(project, Request("warm", _WARMING_QUERY), question, vectors, work)
        measure_coverage(project)  # last: it is freed as a whole when the server rests
    finally:
        follow_project(workspace, project)  # after it: two at once leave holes in the heap
