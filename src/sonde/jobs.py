"""Long work in a thread: submit, follow, cancel; one running job per key."""

from __future__ import annotations

import itertools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from sonde.errors import Cancelled, SondeError
from sonde.types import Progress
from sonde.work import Work

Status = Literal["running", "done", "failed", "cancelled"]
_POLL_S = 0.1
_NICEST = 19

log = logging.getLogger(__name__)


class Job:
    """One piece of work under way, or finished."""

    def __init__(self, id_: str, kind: str, function: Callable[[Work], Any]) -> None:
        self.id = id_
        self.kind = kind
        self.status: Status = "running"
        self.progress = Progress("starting")
        self.started_at = time.time()
        self.result: Any = None
        self.error: SondeError | None = None
        self.called_off = False
        self._function = function
        self._work = Work(report=self._note)
        self._finished = threading.Event()

    def _note(self, progress: Progress) -> None:
        self.progress = progress

    def run(self) -> None:
        """Do the work in the calling thread and keep what came of it."""
        try:
            self.result = self._function(self._work)
            self.status = "done"
        except Cancelled as error:
            self.status, self.error = "cancelled", error
        except SondeError as error:
            self.status, self.error = "failed", error
        except Exception as error:
            log.exception("job %s (%s) broke", self.id, self.kind)
            self.status, self.error = "failed", SondeError(f"{type(error).__name__}: {error}")
        finally:
            self._finished.set()

    def cancel(self) -> None:
        """Ask the work to stop; it does at its next step."""
        self.called_off = True
        self._work.cancel()

    def wait(self, work: Work | None = None, timeout_s: float | None = None) -> bool:
        """Wait for the end, passing progress on; a caller that is cancelled stops waiting."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        shown: Progress | None = None
        while True:
            if work and self.progress is not shown:
                shown = self.progress
                work.report(shown)
            if self._finished.wait(_POLL_S):
                return True
            if work:
                work.check()
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def outcome(self) -> Any:
        """What the work returned; raises what it raised."""
        if self.error:
            raise self.error
        return self.result


class Jobs:
    """The jobs of this process by key: asking for one that runs joins it."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)

    def submit(
        self, key: str, kind: str, function: Callable[[Work], Any], *, gently: bool = False
    ) -> Job:
        """Start the work, or join it if it is running; `gently` yields to everything else."""
        with self._lock:
            running = self._jobs.get(key)
            if running and running.status == "running" and not running.called_off:
                return running
            job = Job(f"job-{next(self._numbers)}", kind, function)
            self._jobs[key] = job

        def body() -> None:
            if gently and sys.platform == "linux":
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICEST)
            job.run()

        threading.Thread(target=body, name=f"sonde-{kind}", daemon=True).start()
        return job

    def find(self, key: str) -> Job | None:
        """The newest job under this key."""
        return self._jobs.get(key)

    def cancel(self, key: str, timeout_s: float = 10.0) -> None:
        """Stop the job under this key and wait until it has stopped."""
        job = self._jobs.get(key)
        if job and job.status == "running":
            job.cancel()
            job.wait(timeout_s=timeout_s)

    def close(self) -> None:
        """Stop everything."""
        for job in list(self._jobs.values()):
            job.cancel()
        for job in list(self._jobs.values()):
            job.wait(timeout_s=5.0)
