"""Jobs: long work in a thread that can be followed, joined and cancelled; one per key at a time.

Jobs are recorded in a store, so that their handles can be looked up later, from another process,
and after a crash. Work that succeeds within half a second is not recorded: a server checks for
changed files before many searches.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol

from sonde.errors import Cancelled, OutOfMemory, SondeError
from sonde.runtime.processes import trim_heap
from sonde.runtime.system import lower_priority
from sonde.runtime.work import Work
from sonde.types import Progress

HANDLE_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Letters that cannot be confused, because people read handles aloud and type them."""
HANDLE_LENGTH = 12  # sixty random bits


def mint_handle(length: int = HANDLE_LENGTH) -> str:
    """A new handle; handles that appear in every line of a listing may be shorter."""
    return "".join(secrets.choice(HANDLE_LETTERS) for _ in range(length))


Status = Literal["running", "done", "failed", "cancelled", "interrupted"]
_POLL_S = 0.1  # a waiting person does not notice it
RECORD_AFTER_S = 0.5
"""Work that takes longer is recorded; for shorter work the record would cost more than the work."""
_SAVE_INTERVAL_S = 1.0  # often enough for somebody who watches from another process
_STOP_TIMEOUT_S = 10.0  # then the caller goes on; the work stops at its next step
_CLOSE_TIMEOUT_S = 5.0  # shorter: the process ends, and its threads with it
_RECENT_JOBS = 200  # finished jobs whose results stay in memory

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The stored state of a job; times are epoch milliseconds."""

    id: str
    kind: str
    status: str
    started_ms: int
    owner: str = ""
    """The user; empty if the job belongs to everyone who may see the project in `subject`."""
    subject: str = ""
    """The handle or path that it works on."""
    finished_ms: int | None = None
    stage: str = ""
    done: int = 0
    total: int | None = None
    eta_s: float | None = None
    report: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    process: str = ""
    """Identifies the process that runs it."""
    updated_ms: int = 0


class JobStore(Protocol):
    """Records of the jobs of every process."""

    def put(self, record: JobRecord) -> bool:
        """Store the current state of a job; true if its cancellation was requested."""

    def get(self, id_: str) -> JobRecord | None:
        """One job; `interrupted` if its process died before it finished."""

    def recent(self, limit: int, after: tuple[int, str] | None = None) -> list[JobRecord]:
        """Jobs, the newest first."""

    def cancel(self, id_: str) -> bool:
        """Request the cancellation of another process's job; whether it was running."""

    def close(self) -> None:
        """Release the file."""


def start_thread(body: Callable[[], None], name: str) -> None:
    """Run a function in a daemon thread; `RuntimeError` if the system cannot start one."""
    threading.Thread(target=body, name=name, daemon=True).start()


class Job:
    """One piece of work, running or finished."""

    def __init__(
        self,
        kind: str,
        function: Callable[[Work], Any],
        *,
        owner: str = "",
        subject: str = "",
        process: str = "",
        save: Callable[[Job], bool] = lambda _job: False,
        clock: Callable[[], float] = time.time,
        save_interval_s: float = _SAVE_INTERVAL_S,
        record_after_s: float = RECORD_AFTER_S,
    ) -> None:
        self.id, self.kind, self.subject = mint_handle(), kind, subject
        self.status: Status = "running"
        self.progress = Progress("starting")
        self.result: Any = None
        self.error: SondeError | None = None
        self.called_off = False
        began_ms = int(clock() * 1000)
        self._began = JobRecord(self.id, kind, "running", began_ms, owner, subject, process=process)
        self._finished_ms: int | None = None
        self._save, self._save_interval_s = save, save_interval_s
        self._clock = clock
        self._is_recorded = False
        self._next_save = time.monotonic() + record_after_s
        self._function = function
        self._work = Work(report=self._record_progress)
        self._finished = threading.Event()
        self._guard = threading.Lock()
        self._joined = 0

    def _record_progress(self, progress: Progress) -> None:
        self.progress = progress
        if time.monotonic() >= self._next_save:
            self.save()

    def save(self) -> None:
        """Record the current state, and cancel the job if another process requested it."""
        self._is_recorded = True
        self._next_save = time.monotonic() + self._save_interval_s
        if self._save(self):
            self.cancel()

    def run(self) -> None:
        """Do the work in the calling thread and keep its result or its error."""
        status: Status = "failed"
        started = time.monotonic()
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
            log.exception("job %s (%s) failed", self.id, self.kind)
            self.error = SondeError(f"{type(error).__name__}: {error}")
        finally:
            self.finish(status)
            if time.monotonic() - started > RECORD_AFTER_S:
                trim_heap()

    def finish(self, status: Status, error: SondeError | None = None) -> None:
        """Record the end of the work."""
        self.error = self.error or error
        self._finished_ms = int(self._clock() * 1000)
        self.status = status
        try:
            if self._is_recorded or status == "failed":
                self._save(self)
        finally:
            self._finished.set()

    def cancel(self) -> None:
        """Request that the work stop at its next step."""
        self.called_off = True
        self._work.cancel()

    def wait(self, work: Work | None = None, timeout_s: float | None = None) -> bool:
        """Wait for the end, passing progress on; raises `Cancelled` if the caller is cancelled."""
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
        """Wait for the result of the work; cancelling the last waiting caller cancels the job."""
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
                self.wait(timeout_s=_STOP_TIMEOUT_S)
            raise
        return self.outcome()

    def outcome(self) -> Any:
        """The result of the work; raises its error."""
        if self.error:
            raise self.error
        return self.result

    def record(self) -> JobRecord:
        """The job as the store keeps it."""
        describe = getattr(self.result, "as_dict", None)
        report: Mapping[str, Any] | None = describe() if describe else None
        if isinstance(self.result, Mapping):
            report = self.result
        progress = self.progress
        return replace(
            self._began,
            status=self.status,
            finished_ms=self._finished_ms,
            stage=progress.stage,
            done=progress.done,
            total=progress.total,
            eta_s=progress.eta_s if self.status == "running" else None,
            report=report,
            error=self.error.as_dict() if self.error else None,
            updated_ms=int(self._clock() * 1000),
        )


class Jobs:
    """The jobs of this process by key; submitting a key that is running joins its job."""

    def __init__(
        self,
        open_store: Callable[[], JobStore] | None = None,
        process: str = "",
        *,
        clock: Callable[[], float] = time.time,
        save_interval_s: float = _SAVE_INTERVAL_S,
        record_after_s: float = RECORD_AFTER_S,
        start: Callable[[Callable[[], None], str], None] = start_thread,
    ) -> None:
        self._open_store = open_store
        self._start = start
        self._new_job = partial(
            Job,
            process=process,
            save=self._save,
            clock=clock,
            save_interval_s=save_interval_s,
            record_after_s=record_after_s,
        )
        self._store: JobStore | None = None
        self._jobs: dict[str, Job] = {}
        self._by_id: dict[str, Job] = {}
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
        """Start the work, or return the running job of this key. `gently` runs it at the lowest
        priority; `lasting` records it from the start."""
        with self._lock:
            running = self._jobs.get(key)
            if running and running.status == "running" and not running.called_off:
                return running
            subject = subject or key.partition(":")[2]
            job = self._new_job(kind, function, owner=owner, subject=subject)
            self._jobs[key] = self._by_id[job.id] = job
            finished = [id_ for id_, old in self._by_id.items() if old.status != "running"]
            for id_ in finished[: max(len(self._by_id) - _RECENT_JOBS, 0)]:
                del self._by_id[id_]
        if lasting:
            job.save()

        def body() -> None:
            if gently:
                lower_priority(threading.get_native_id())
            job.run()

        try:
            self._start(body, f"sonde-{kind}")
        except RuntimeError as error:
            job.finish("failed", OutOfMemory(str(error)))
            job.outcome()
        return job

    def find(self, key: str) -> Job | None:
        """The newest job under this key."""
        return self._jobs.get(key)

    def look_up(self, id_: str) -> JobRecord | None:
        """The record of a job of any process."""
        if job := self._by_id.get(id_):
            return job.record()
        store = self._stored()
        return store.get(id_) if store else None

    def recent(self, limit: int, after: tuple[int, str] | None = None) -> list[JobRecord]:
        """Jobs of every process, the newest first."""
        for job in list(self._by_id.values()):
            if job.status == "running":
                job.save()
        store = self._stored()
        if store is None:
            records = [job.record() for job in self._by_id.values()]
            return sorted(records, key=lambda record: (-record.started_ms, record.id))[:limit]
        return store.recent(limit, after)

    def stop(self, id_: str) -> bool:
        """Cancel a job by its handle; whether it was running."""
        if job := self._by_id.get(id_):
            running = job.status == "running"
            job.cancel()
            return running
        store = self._stored()
        return store.cancel(id_) if store else False

    def cancel(self, key: str, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Cancel the job under this key and wait until it has stopped."""
        if (job := self._jobs.get(key)) and job.status == "running":
            job.cancel()
            job.wait(timeout_s=timeout_s)

    def cancel_all(self) -> None:
        """Cancel every job, and wait a while until they have ended."""
        for job in list(self._jobs.values()):
            job.cancel()
        for job in list(self._jobs.values()):
            job.wait(timeout_s=_CLOSE_TIMEOUT_S)

    def close(self) -> None:
        """Cancel every job and close the store."""
        self.cancel_all()
        with self._opening:
            self._open_store = None
            if self._store:
                self._store.close()
                self._store = None

    def _save(self, job: Job) -> bool:
        store = self._stored()
        if store is None:
            return False
        try:
            return store.put(job.record())
        except (SondeError, MemoryError) as error:
            # the work matters more than its record
            log.warning("job %s is not recorded: %s", job.id, error)
            return False

    def _stored(self) -> JobStore | None:
        with self._opening:
            if self._store is None and self._open_store:
                try:
                    self._store = self._open_store()
                except (SondeError, MemoryError) as error:
                    log.warning("jobs are not recorded: %s", error)
                    self._open_store = None
            return self._store
