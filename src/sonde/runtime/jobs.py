"""Long work in a thread: submit, follow, cancel; one running job per key.

What becomes of a job is written down, so that it can be looked up by its handle later, from
another process, and after a crash. Work that ends within a moment and leaves nothing to tell is
not: a server looks for changed files before many searches.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from sonde.errors import Cancelled, HandleUnknown, OutOfMemory, SondeError
from sonde.runtime.work import Work, trim_heap
from sonde.types import JobRecord, Progress

HANDLE_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
"""No letter that reads like another: handles are read aloud and typed."""
HANDLE_LENGTH = 12
"""Sixty random bits."""


def mint_handle(length: int = HANDLE_LENGTH) -> str:
    """A new handle; one that stands in every line of a listing may be shorter."""
    return "".join(secrets.choice(HANDLE_LETTERS) for _ in range(length))


Status = Literal["running", "done", "failed", "cancelled", "interrupted"]
_POLL_S = 0.1
_NICEST = 19
_MOMENT_S = 0.5
"""Work that takes longer is written down."""
_SAVE_S = 1.0
_STOP_S = 10.0
_REMEMBERED = 200

log = logging.getLogger(__name__)


class JobStore(Protocol):
    """What became of long work, also of other processes."""

    def put(self, record: JobRecord) -> bool:
        """Keep a job as it is now; true when somebody has asked for its end."""

    def get(self, id_: str) -> JobRecord | None:
        """One job; `interrupted` when its process died with it."""

    def recent(self, limit: int, after: tuple[int, str] | None = None) -> list[JobRecord]:
        """Jobs, the newest first."""

    def cancel(self, id_: str) -> bool:
        """Ask for the end of a job that another process runs; whether it was running."""

    def close(self) -> None:
        """Release the file."""


class Job:
    """One piece of work under way, or finished."""

    def __init__(
        self,
        kind: str,
        function: Callable[[Work], Any],
        *,
        owner: str = "",
        subject: str = "",
        keep: Callable[[Job], bool] = lambda _job: False,
        process: str = "",
    ) -> None:
        self.id = mint_handle()
        self.kind = kind
        self.owner = owner
        self.subject = subject
        self.status: Status = "running"
        self.progress = Progress("starting")
        self.started_at = time.time()
        self.finished_at: float | None = None
        self.result: Any = None
        self.error: SondeError | None = None
        self.called_off = False
        self._keep = keep
        self._process = process
        self._kept = False
        self._keep_at = time.monotonic() + _MOMENT_S
        self._function = function
        self._work = Work(report=self._note)
        self._finished = threading.Event()
        self._guard = threading.Lock()
        self._joined = 0

    def _note(self, progress: Progress) -> None:
        self.progress = progress
        if time.monotonic() >= self._keep_at:
            self.keep()

    def keep(self) -> None:
        """Write down how it stands; whoever wants it stopped is heard here."""
        self._kept = True
        self._keep_at = time.monotonic() + _SAVE_S
        if self._keep(self):
            self.cancel()

    def run(self) -> None:
        """Do the work in the calling thread and keep what came of it."""
        status: Status = "failed"
        began = time.monotonic()
        try:
            self.result = self._function(self._work)
            status = "done"
        except Cancelled as error:
            status, self.error = "cancelled", error
        except SondeError as error:
            self.error = error
        except MemoryError as error:
            self.error = OutOfMemory(str(error))
        except Exception as error:
            log.exception("job %s (%s) broke", self.id, self.kind)
            self.error = SondeError(f"{type(error).__name__}: {error}")
        finally:
            self._finish(status)
            if time.monotonic() - began > _MOMENT_S:
                trim_heap()

    def fail(self, error: SondeError) -> None:
        """End without having begun."""
        self.error = error
        self._finish("failed")

    def _finish(self, status: Status) -> None:
        self.finished_at = time.time()
        self.status = status
        try:
            if self._kept or status == "failed":
                self._keep(self)
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
                if work and self.progress is not shown:
                    work.report(self.progress)
                return True
            if work:
                work.check()
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def join(self, work: Work) -> Any:
        """Wait and give what the work returned; the last caller to be cancelled takes it along."""
        with self._guard:
            self._joined += 1
        try:
            self.wait(work)
        except Cancelled:
            with self._guard:
                self._joined -= 1
                alone = not self._joined
            if alone:
                self.cancel()
                self.wait(timeout_s=_STOP_S)
            raise
        return self.outcome()

    def outcome(self) -> Any:
        """What the work returned; raises what it raised."""
        if self.error:
            raise self.error
        return self.result

    def record(self) -> JobRecord:
        """The job as it is written down."""
        describe = getattr(self.result, "as_dict", None)
        report: Mapping[str, Any] | None = describe() if describe else None
        if isinstance(self.result, Mapping):
            report = self.result
        progress = self.progress
        return JobRecord(
            id=self.id,
            kind=self.kind,
            status=self.status,
            started_ms=int(self.started_at * 1000),
            owner=self.owner,
            subject=self.subject,
            finished_ms=int(self.finished_at * 1000) if self.finished_at else None,
            stage=progress.stage,
            done=progress.done,
            total=progress.total,
            eta_s=progress.eta_s if self.status == "running" else None,
            report=report,
            error=self.error.as_dict() if self.error else None,
            process=self._process,
            updated_ms=int(time.time() * 1000),
        )


class Jobs:
    """The jobs of this process by key: asking for one that runs joins it."""

    def __init__(self, open_store: Callable[[], JobStore] | None = None, process: str = "") -> None:
        self._open_store = open_store
        self._process = process
        self._store: JobStore | None = None
        self._jobs: dict[str, Job] = {}
        self._by_id: OrderedDict[str, Job] = OrderedDict()
        self._lock = threading.Lock()
        self._opening = threading.Lock()

    def submit(
        self,
        key: str,
        kind: str,
        function: Callable[[Work], Any],
        *,
        gently: bool = False,
        owner: str = "",
        subject: str = "",
        lasting: bool = False,
    ) -> Job:
        """Start the work, or join it if it is running; `gently` yields to everything else, and
        `lasting` work is written down from the start."""
        with self._lock:
            running = self._jobs.get(key)
            if running and running.status == "running" and not running.called_off:
                return running
            job = Job(
                kind,
                function,
                owner=owner,
                subject=subject or key.partition(":")[2],
                keep=self._keep,
                process=self._process,
            )
            self._jobs[key] = self._by_id[job.id] = job
            self._forget_old()
        if lasting:
            job.keep()

        def body() -> None:
            if gently and sys.platform == "linux":
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICEST)
            job.run()

        try:
            threading.Thread(target=body, name=f"sonde-{kind}", daemon=True).start()
        except RuntimeError as error:  # the system has no room for another thread
            job.fail(OutOfMemory(str(error)))
            job.outcome()
        return job

    def find(self, key: str) -> Job | None:
        """The newest job under this key."""
        return self._jobs.get(key)

    def look_up(self, id_: str) -> JobRecord | None:
        """What is known of a job, of whichever process."""
        job = self._by_id.get(id_)
        if job:
            return job.record()
        store = self._stored()
        return store.get(id_) if store else None

    def find_visible(self, id_: str, user: str) -> JobRecord:
        """The job, if it belongs to this user or to everyone; raises `HandleUnknown`."""
        record = self.look_up(id_)
        if record is None or record.owner not in ("", user):
            raise HandleUnknown(f"job {id_!r}", what="job", handle=id_)
        return record

    def recent(self, limit: int, after: tuple[int, str] | None = None) -> list[JobRecord]:
        """Jobs of every process, the newest first."""
        for job in list(self._by_id.values()):
            if job.status == "running":
                job.keep()
        store = self._stored()
        if store is None:
            made = sorted(self._by_id.values(), key=lambda job: (-job.started_at, job.id))
            return [job.record() for job in made][:limit]
        return store.recent(limit, after)

    def stop(self, id_: str) -> bool:
        """Ask for the end of a job by its handle; whether it was running."""
        job = self._by_id.get(id_)
        if job:
            running = job.status == "running"
            job.cancel()
            return running
        store = self._stored()
        return store.cancel(id_) if store else False

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
        with self._opening:
            self._open_store = None
            if self._store:
                self._store.close()
                self._store = None

    def _keep(self, job: Job) -> bool:
        store = self._stored()
        if store is None:
            return False
        try:
            return store.put(job.record())
        except (SondeError, MemoryError) as error:
            # the work matters more than the note of it
            log.warning("job %s is not written down: %s", job.id, error)
            return False

    def _stored(self) -> JobStore | None:
        with self._opening:
            if self._store is None and self._open_store:
                try:
                    self._store = self._open_store()
                except (SondeError, MemoryError) as error:
                    log.warning("jobs are not written down: %s", error)
                    self._open_store = None
            return self._store

    def _forget_old(self) -> None:
        while len(self._by_id) > _REMEMBERED:
            oldest = next((id_ for id_, job in self._by_id.items() if job.status != "running"), "")
            if not oldest:
                return
            del self._by_id[oldest]
