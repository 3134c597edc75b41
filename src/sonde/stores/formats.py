"""Formats of what is stored: every file says its version, older ones are brought up on open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw

from sonde.errors import IndexCorrupt, IndexTooNew

Step = Callable[[apsw.Connection], None]


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of database: its mark, and the steps from an empty file to the newest version.

    Version n is what the first n steps make, so a step is never changed once it was released:
    the next version is one more step.
    """

    application_id: int
    steps: tuple[Step, ...]

    @property
    def version(self) -> int:
        """The newest version, which is what a new file gets."""
        return len(self.steps)


def upgrade_database(connection: apsw.Connection, path: Path, form: Format) -> None:
    """Bring a database to the newest version, or refuse it when it is newer or not ours."""
    if _read_version(connection, path, form) == form.version:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # another process may have done it while this one waited
        for step in form.steps[_read_version(connection, path, form) :]:
            step(connection)
        connection.pragma("application_id", form.application_id)
        connection.pragma("user_version", form.version)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _read_version(connection: apsw.Connection, path: Path, form: Format) -> int:
    application = connection.pragma("application_id")
    version = int(connection.pragma("user_version"))
    if application != form.application_id and (application or _has_tables(connection)):
        raise IndexCorrupt(f"{path} is a database of another program")
    refuse_newer(path, version, form.version)
    return version


def _has_tables(connection: apsw.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is not None


def refuse_newer(path: Path, found: int, known: int) -> None:
    """Raise `IndexTooNew` when a file has a later format than this version knows."""
    if found > known:
        raise IndexTooNew(f"{path} has format {found}, this version of sonde reads up to {known}")
