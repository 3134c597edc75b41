"""Jobs in one SQLite file that every process of the installation shares."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from sonde.runtime.jobs import JobRecord
from sonde.runtime.system import read_birth
from sonde.stores.database import Database, Format, bind_row, bind_text, read_row

_MAX_JOBS = 500  # records kept; running jobs are never dropped
_SILENT_MS = 60_000  # without an update, if the system cannot show whether the process is alive
_DEAD_MS = 24 * 3_600_000  # without an update, after which a running job may be dropped

_COLUMNS = tuple(each.name for each in fields(JobRecord))
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM jobs"  # noqa: S608 - our own names
_SCHEMA = """
    CREATE TABLE jobs (
        id TEXT PRIMARY KEY, kind TEXT NOT NULL, status TEXT NOT NULL,
        started_ms INTEGER NOT NULL, owner NOT NULL, subject NOT NULL, finished_ms INTEGER,
        stage NOT NULL, done INTEGER NOT NULL, total INTEGER, eta_s REAL, report TEXT,
        error TEXT, process TEXT NOT NULL, updated_ms INTEGER NOT NULL,
        ended INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX jobs_by_start ON jobs(started_ms);
"""
_FORMAT = Format(application_id=0x736E646A, steps=(_SCHEMA,))


class SqliteJobStore:
    """The state of long work; see `JobStore`."""

    def __init__(self, path: Path, *, max_jobs: int = _MAX_JOBS) -> None:
        self._database = Database(path, _FORMAT)
        self._max_jobs = max_jobs

    def put(self, record: JobRecord) -> bool:
        """Store a job's state. Returns whether it was cancelled."""
        values = [getattr(record, name) for name in _COLUMNS]
        row = bind_row([json.dumps(dict(v)) if isinstance(v, Mapping) else v for v in values])
        marks = ", ".join("?" for _ in _COLUMNS)
        changed = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])
        with self._database.write() as db:
            db.execute(
                f"INSERT INTO jobs ({', '.join(_COLUMNS)}) VALUES ({marks}) "  # noqa: S608
                f"ON CONFLICT (id) DO UPDATE SET {changed}",
                row,
            )
            if record.finished_ms:
                db.execute(
                    "DELETE FROM jobs WHERE (status <> 'running' OR updated_ms < ?) AND id IN "
                    "(SELECT id FROM jobs ORDER BY started_ms DESC LIMIT -1 OFFSET ?)",
                    (record.finished_ms - _DEAD_MS, self._max_jobs),
                )
            found = db.execute("SELECT ended FROM jobs WHERE id = ?", (record.id,)).fetchone()
            return bool(found and found[0])

    def get(self, id_: str) -> JobRecord | None:
        """One job; `interrupted` if its process has died."""
        rows = self._database.select(f"{_SELECT} WHERE id = ?", (bind_text(id_),))
        return next((_settle(_to_record(row)) for row in rows), None)

    def recent(self, limit: int, after: tuple[int, str] | None = None) -> list[JobRecord]:
        """Jobs, newest first."""
        later = "WHERE (-started_ms, id) > (?, ?)" if after else ""
        query = f"{_SELECT} {later} ORDER BY -started_ms, id LIMIT ?"
        rows = self._database.select(query, (*(after or ()), limit))
        return [_settle(_to_record(row)) for row in rows]

    def cancel(self, id_: str) -> bool:
        """Cancel a job that another process runs. Returns whether it was running."""
        query = "UPDATE jobs SET ended = 1 WHERE id = ? AND status = 'running'"
        with self._database.write() as db:
            db.execute(query, (bind_text(id_),))
            return db.changes() > 0

    def close(self) -> None:
        """Release the file."""
        self._database.close()


def _settle(record: JobRecord) -> JobRecord:
    """A running job whose process is gone was interrupted."""
    number, _, birth = record.process.partition(":")
    if record.status != "running" or (
        read_birth(int(number)) == birth
        if birth
        else time.time() * 1000 - record.updated_ms < _SILENT_MS
    ):
        return record
    return replace(record, status="interrupted", finished_ms=record.updated_ms, eta_s=None)


def _to_record(row: tuple[Any, ...]) -> JobRecord:
    values = dict(zip(_COLUMNS, read_row(row), strict=True))
    for name in ("report", "error"):
        values[name] = json.loads(values[name]) if values[name] else None
    return JobRecord(**values)
