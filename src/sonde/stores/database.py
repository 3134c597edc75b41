"""SQLite databases of all stores: WAL, one writer, pooled readers, versioned formats."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from sonde.errors import DiskFull, IndexBusy, IndexCorrupt, PermissionDenied, StorageUnusable
from sonde.runtime.private import make_folder
from sonde.stores.files import refuse_newer, report_full, report_unusable, translate_os_errors

Value = str | int | float | bytes | None
Step = str | Callable[[apsw.Connection], None]  # SQL, or what runs it
Unwritable = DiskFull | PermissionDenied | StorageUnusable


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of database: its application id, and the steps from an empty file to the newest.

    The first n steps make version n, so a released step never changes: a new version appends one.
    """

    application_id: int
    steps: tuple[Step, ...]
    page_bytes: int = 4_096  # of new files: SQLite's default
    damage: type[IndexCorrupt] = IndexCorrupt
    """The error raised for a damaged file."""

    @property
    def version(self) -> int:
        """The newest version."""
        return len(self.steps)


@contextlib.contextmanager
def _transact(connection: apsw.Connection) -> Iterator[None]:
    """A writing transaction, rolled back if an error is raised."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@dataclass(frozen=True, slots=True)
class Frozen:
    """How to read a database that cannot be written, and the state of its files."""

    reason: Unwritable
    immutable: bool
    state: object


def freeze(path: Path, version: int, reason: Unwritable) -> Frozen:
    """Find out how to read a database that cannot be written. Raises the reason if that fails."""
    state = _read_file_state(path)
    for immutable in (False, True):
        with (
            contextlib.suppress(apsw.Error),
            contextlib.closing(connect_frozen(path, immutable=immutable)) as connection,
        ):
            if connection.pragma("user_version") == version:
                return Frozen(reason, immutable, state)
    raise reason


def connect_frozen(path: Path, *, immutable: bool) -> apsw.Connection:
    """A connection that writes nothing.

    With `immutable`, not even the shared-memory file that readers of a WAL need.
    """
    address = f"file:{quote(str(path))}?mode=ro{'&immutable=1' * immutable}"
    return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def _read_file_state(path: Path) -> list[tuple[int, int]]:
    """Time and size of the database and of its log."""
    facts = []
    for each in (path, Path(f"{path}-wal")):
        try:
            found = each.stat()
            # an empty log is the same as none
            facts.append((found.st_size and found.st_mtime_ns, found.st_size))
        except OSError:
            facts.append((0, 0))
    return facts


_BUSY_MS = 60_000  # how long to wait for another process's transaction
_READ_CACHE_KB, _WRITE_CACHE_KB = 2_000, 8_000  # SQLite's default; writing touches more pages
_IDLE_READERS = 4  # kept open for the next reads: 8 MB of caches at most
SPARE_PAGES, _WASTED = 256, 0.2
"""Unused pages, and their share of a file, above which it is wasteful."""

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def translate_errors(path: Path, damage: type[IndexCorrupt] = IndexCorrupt) -> Iterator[None]:
    """Translate errors of SQLite and of the operating system about `path` to `SondeError`s."""
    try:
        with translate_os_errors(path):
            yield
    except apsw.FullError as error:
        raise report_full(path) from error
    except (apsw.CorruptError, apsw.NotADBError, apsw.FormatError) as error:
        raise damage(f"{path}: {error}", path=path) from error
    except apsw.SQLError as error:
        # only a database that was deleted and is being created again lacks the table `state`
        if str(error) != "no such table: state":
            raise
        raise damage(f"{path}: {error}", path=path) from error
    except apsw.BusyError as error:
        raise IndexBusy(f"{path}: {error}") from error
    except (apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError) as error:
        raise StorageUnusable(f"{path}: {error}") from error
    except (apsw.CantOpenError, apsw.IOError, apsw.ProtocolError) as error:
        # ProtocolError: the shared-memory file of the WAL could not be created in several attempts
        raise report_unusable(path, str(error)) from error
    except apsw.NoMemError as error:
        raise MemoryError(str(error)) from error


class Database:
    """One SQLite file: one writer at a time, and readers that never wait.

    If it cannot be written (full disk, read-only storage), it is opened for reading.
    """

    def __init__(self, path: Path, form: Format, spare_pages: int = SPARE_PAGES) -> None:
        self.path = path
        self._form = form
        self._translating = partial(translate_errors, path, form.damage)
        self._spare_pages = spare_pages
        self._writing = threading.RLock()
        self._pooling = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._closed = False
        self._writer: apsw.Connection | None = None
        self._frozen: Frozen | None = None
        self._open()

    def _open(self) -> None:
        try:
            with self._translating():
                make_folder(self.path.parent)
                writer = self._connect(_WRITE_CACHE_KB, create=True)
                try:
                    self._prepare(writer)
                except BaseException:
                    writer.close()
                    raise
        except (DiskFull, StorageUnusable, PermissionDenied) as error:
            self._frozen = freeze(self.path, self._form.version, error)
            _log.warning("%s is only read: %s", self.path, error)
        else:
            self._writer, self._frozen = writer, None
        self._drop_idle()

    @contextlib.contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """A connection that sees one committed state throughout."""
        if self._frozen and self._frozen.state != _read_file_state(self.path):
            self._thaw()  # another process was able to write since
        with self._translating():
            connection = self._take_reader()
            try:
                connection.execute("BEGIN")
                try:
                    yield connection
                finally:
                    if connection.in_transaction:  # it is not after an error of disk or memory
                        connection.execute("COMMIT")
            finally:
                self._give_back(connection)

    @contextlib.contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """The writing connection in a transaction, rolled back if an error is raised."""
        with self._writing, self._translating():
            writer = self._take_writer()
            with _transact(writer):
                yield writer

    def select(self, query: str, values: Sequence[Value] = ()) -> list[Any]:
        """The rows of one query."""
        with self.read() as connection:
            return connection.execute(query, values).fetchall()

    def select_texts(self, query: str, values: Sequence[Value] = ()) -> list[str]:
        """The strings that a query returns, which were stored by `bind_text`."""
        return [read_stored_text(text) for (text,) in self.select(query, values)]

    def shrink(self) -> None:
        """Return unused pages and the write-ahead log to the disk."""
        with self._writing, self._translating():
            writer = self._take_writer()
            writer.execute("PRAGMA incremental_vacuum").fetchall()
            self._empty_log(writer)

    def _empty_log(self, writer: apsw.Connection) -> None:
        # the part that a reader still uses stays until the next time
        writer.set_busy_timeout(0)
        try:
            with contextlib.suppress(apsw.BusyError):
                writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            writer.set_busy_timeout(_BUSY_MS)

    def rest(self) -> None:
        """Close readers, empty caches, and truncate the log if the database is idle."""
        self._drop_idle()
        if not self._frozen and self._writer and self._writing.acquire(blocking=False):
            try:
                with self._translating():
                    self._empty_log(self._writer)
                    self._writer.execute("PRAGMA shrink_memory")
            finally:
                self._writing.release()

    def measure_bytes(self) -> int:
        """The size of the database on disk, including its log."""
        return sum(size for _, size in _read_file_state(self.path))

    def is_wasteful(self) -> bool:
        """Whether a large part of the file is unused pages."""
        with self.read() as connection:
            free, pages = (int(connection.pragma(n)) for n in ("freelist_count", "page_count"))
        return free > max(self._spare_pages, pages * _WASTED)

    def check(self) -> list[str]:
        """The problems that SQLite's own check finds."""
        # on a new connection: others may have cached segments that were merged since
        try:
            with self._translating():
                connection = self._connect(_READ_CACHE_KB)
                found = [str(row[0]) for row in connection.execute("PRAGMA quick_check")]
                connection.close()
        except IndexCorrupt as error:
            return [error.developer_message]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Close idle connections now, and the others when they are returned."""
        with self._pooling:
            self._closed = True
        self._drop_idle()
        with self._writing:
            if self._writer:
                self._writer.close()

    def _drop_idle(self) -> None:
        with self._pooling:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take_writer(self) -> apsw.Connection:
        self._thaw()
        if self._frozen:
            raise self._frozen.reason
        if self._closed or not self._writer:
            raise StorageUnusable(f"{self.path} is closed")
        return self._writer

    def _thaw(self) -> None:
        """Reopen the file for writing if that is possible now."""
        with self._writing:
            if self._frozen and not self._closed:
                self._open()

    def _connect(self, cache_kb: int, *, create: bool = False) -> apsw.Connection:
        if self._frozen and not create:
            connection = connect_frozen(self.path, immutable=self._frozen.immutable)
        else:
            # a reader must not recreate a deleted database
            flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
            connection = apsw.Connection(str(self.path), flags=flags)
        connection.set_busy_timeout(_BUSY_MS)
        connection.execute(f"PRAGMA cache_size = -{cache_kb}; PRAGMA temp_store = MEMORY")
        return connection

    def _prepare(self, writer: apsw.Connection) -> None:
        deadline = time.monotonic() + _BUSY_MS / 1000
        while True:
            try:
                writer.pragma("page_size", self._form.page_bytes)  # of an empty file
                writer.execute("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL")
                break
            except apsw.BusyError:
                # changing the journal mode ignores the busy timeout
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        writer.execute("PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 8388608")
        if self._read_version(writer) < self._form.version:
            with _transact(writer):
                # another process may have upgraded it in the meantime
                for step in self._form.steps[self._read_version(writer) :]:
                    writer.execute(step) if isinstance(step, str) else step(writer)
                writer.pragma("application_id", self._form.application_id)
                writer.pragma("user_version", self._form.version)

    def _read_version(self, writer: apsw.Connection) -> int:
        """The version of the file. Raises if it is too new, or of another program."""
        application, version = (writer.pragma(n) for n in ("application_id", "user_version"))
        if application != self._form.application_id and (
            application or writer.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
        ):
            detail = f"{self.path} is a database of another program"
            raise self._form.damage(detail, path=self.path)
        refuse_newer(self.path, version, self._form.version)
        return int(version)

    def _take_reader(self) -> apsw.Connection:
        with self._pooling:
            if self._closed:
                raise StorageUnusable(f"{self.path} is closed")
            if self._idle:
                return self._idle.pop()
        return self._connect(_READ_CACHE_KB)

    def _give_back(self, connection: apsw.Connection) -> None:
        with self._pooling:
            if not self._closed and len(self._idle) < _IDLE_READERS:
                self._idle.append(connection)
                return
        connection.close()


def bind_text(text: str) -> Value:
    """A string as SQLite can store it: bytes where it is not valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def read_stored_text(value: Value) -> str:
    """The string that was passed to `bind_text`."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else str(value)


def bind_row(values: Sequence[Value]) -> list[Value]:
    """A row with its strings bound."""
    return [bind_text(value) if isinstance(value, str) else value for value in values]


def read_row(row: Sequence[Any]) -> list[Any]:
    """A row of text and numbers with its bound strings read."""
    return [read_stored_text(value) if isinstance(value, bytes) else value for value in row]


def read_number(connection: apsw.Connection, query: str, values: Sequence[Value] = ()) -> int:
    """The number that a query returns; 0 if it returns nothing."""
    row = connection.execute(query, values).fetchone()
    return int(row[0] or 0) if row else 0
