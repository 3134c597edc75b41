"""SQLite as every store opens it: WAL, one writer, pooled readers, our errors."""

from __future__ import annotations

import contextlib
import errno
import logging
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import apsw

from sonde.errors import (
    DiskFull,
    IndexBusy,
    IndexCorrupt,
    PermissionDenied,
    SondeError,
    StorageUnusable,
)
from sonde.stores.formats import Format, upgrade_database


@dataclass(frozen=True, slots=True)
class Frozen:
    """A database that can be read and not be written, as it was found."""

    reason: SondeError
    immutable: bool
    state: object

    def has_changed(self, path: Path) -> bool:
        """Whether somebody can write again, and has."""
        return self.state != _tell_state(path)


def freeze(path: Path, version: int, reason: SondeError) -> Frozen:
    """How to read what cannot be written; raises the reason when there is nothing to read."""
    state = _tell_state(path)
    for immutable in (False, True):
        try:
            connection = connect_frozen(path, immutable=immutable)
            try:
                usable = connection.pragma("user_version") == version
            finally:
                connection.close()
        except apsw.Error:
            continue
        if usable:
            return Frozen(reason, immutable, state)
    raise reason


def connect_frozen(path: Path, *, immutable: bool) -> apsw.Connection:
    """A connection that writes nothing at all.

    `immutable` does without the shared file that readers of a log need and that cannot be made.
    """
    address = f"file:{quote(str(path))}?mode=ro{'&immutable=1' * immutable}"
    return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def _tell_state(path: Path) -> object:
    facts: list[object] = []
    for each in (path, Path(f"{path}-wal")):
        try:
            found = each.stat()
            # an empty log is the same as none
            facts.append((found.st_size and found.st_mtime_ns, found.st_size))
        except OSError:
            facts.append((0, 0))
    return facts


_BUSY_MS = 60_000
_READ_CACHE_KB, _WRITE_CACHE_KB = 2_000, 8_000
_IDLE_READERS = 4
_MEGABYTE = 1 << 20
_FEW_PAGES, _WASTED = 256, 0.2

_log = logging.getLogger(__name__)

Value = str | int | float | bytes | None


@contextlib.contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite and the operating system say about `path` into our errors."""
    try:
        yield
    except apsw.FullError as error:
        raise _report_full(path) from error
    except (apsw.CorruptError, apsw.NotADBError, apsw.FormatError) as error:
        raise IndexCorrupt(f"{path}: {error}") from error
    except apsw.BusyError as error:
        raise IndexBusy(f"{path}: {error}") from error
    except (apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError) as error:
        raise StorageUnusable(f"{path}: {error}") from error
    except (apsw.CantOpenError, apsw.IOError) as error:
        raise _report_unusable(path, str(error)) from error
    except apsw.NoMemError as error:
        raise MemoryError(str(error)) from error
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError(str(error)) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise _report_full(path) from error
        if error.errno in (errno.EACCES, errno.EPERM):
            raise PermissionDenied(
                f"{path}: {error}",
                user_message="There is no permission to use '{path}'.",
                next_action="Give yourself access to it, or set SONDE_HOME to a folder of yours.",
                path=error.filename or path,
            ) from error
        raise StorageUnusable(f"{path}: {error}") from error


def _report_full(path: Path) -> DiskFull:
    free, used = _measure_free(path), 0
    for each in path.parent.glob(f"{path.name}*"):
        with contextlib.suppress(OSError):  # a log goes when the last connection does
            used += each.stat().st_size
    needed = max(used // 4, 16 * _MEGABYTE) // _MEGABYTE
    have = free // _MEGABYTE
    return DiskFull(
        f"ENOSPC - need ~{needed}MB, have {have}MB at {path}", needed=needed, available=have
    )


def _report_unusable(path: Path, detail: str) -> SondeError:
    """What cannot be opened or written is a full disk more often than a broken one."""
    if _measure_free(path) < _MEGABYTE:
        return _report_full(path)
    return StorageUnusable(f"{path}: {detail}")


def _measure_free(path: Path) -> int:
    """Where its folder is gone, or there was no room for it, the one above tells the same."""
    for folder in path.absolute().parents:
        with contextlib.suppress(OSError):
            return shutil.disk_usage(folder).free
    return 0


class Database:
    """One SQLite file: a writer that everyone takes turns on, and readers that never wait.

    Where nothing can be written (a full disk, storage that is read-only) it is still read.
    """

    def __init__(self, path: Path, form: Format) -> None:
        self.path = path
        self._form = form
        self._writing = threading.RLock()
        self._pooling = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._closed = False
        self._traced = threading.local()
        self._writer: apsw.Connection | None = None
        self._frozen: Frozen | None = None
        self._open()

    def _open(self) -> None:
        try:
            with translate_errors(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
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
        if self._frozen and self._frozen.has_changed(self.path):
            self._thaw()
        with translate_errors(self.path):
            connection = self._take_reader()
            ran = getattr(self._traced, "list", None)
            if ran is not None:
                connection.exec_trace = lambda _cursor, text, values: (
                    ran.append((text, values or ())) or True
                )
            try:
                connection.execute("BEGIN")
                try:
                    yield connection
                finally:
                    if connection.in_transaction:  # it is not after an error of disk or memory
                        connection.execute("COMMIT")
            finally:
                connection.exec_trace = None
                self._give_back(connection)

    @contextlib.contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """The writing connection inside a transaction: all of it is kept, or nothing."""
        with self._writing, translate_errors(self.path):
            writer = self._take_writer()
            writer.execute("BEGIN IMMEDIATE")
            try:
                yield writer
                writer.execute("COMMIT")
            except BaseException:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def tracing(self) -> Iterator[list[tuple[str, Sequence[Value]]]]:
        """Every statement that this thread reads with, and its parameters."""
        ran: list[tuple[str, Sequence[Value]]] = []
        self._traced.list = ran
        try:
            yield ran
        finally:
            self._traced.list = None

    def shrink(self) -> None:
        """Give unused pages and the write-ahead log back to the disk."""
        with self._writing, translate_errors(self.path):
            writer = self._take_writer()
            writer.execute("PRAGMA incremental_vacuum").fetchall()
            self._empty_log(writer)

    def _empty_log(self, writer: apsw.Connection) -> None:
        # a reader that is in the middle of something keeps its part of the log: next time
        writer.set_busy_timeout(0)
        try:
            with contextlib.suppress(apsw.BusyError):
                writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            writer.set_busy_timeout(_BUSY_MS)

    def rest(self) -> None:
        """Close readers and empty caches; the log goes too where nobody reads or writes."""
        self._drop_idle()
        if not self._frozen and self._writer and self._writing.acquire(blocking=False):
            try:
                with translate_errors(self.path):
                    self._empty_log(self._writer)
                    self._writer.execute("PRAGMA shrink_memory")
            finally:
                self._writing.release()

    def measure_bytes(self) -> int:
        """The size of the database on disk, its log included."""
        size = 0
        for suffix in ("", "-wal"):
            with contextlib.suppress(OSError):
                size += Path(f"{self.path}{suffix}").stat().st_size
        return size

    def is_wasteful(self) -> bool:
        """Whether much of the file is pages that nothing uses."""
        with self.read() as connection:
            free, pages = (
                int(connection.pragma(name)) for name in ("freelist_count", "page_count")
            )
        return free > max(_FEW_PAGES, pages * _WASTED)

    def check(self) -> list[str]:
        """What SQLite itself finds broken."""
        # a connection that has searched before may remember segments that were merged since
        try:
            with translate_errors(self.path):
                connection = self._connect(_READ_CACHE_KB)
                found = [str(row[0]) for row in connection.execute("PRAGMA quick_check")]
                connection.close()
        except IndexCorrupt as error:
            return [error.developer_message]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Close every connection that is not in use, and the others when they come back."""
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
        """Open the file for writing after all, if that is possible now."""
        with self._writing:
            if self._frozen and not self._closed:
                self._open()

    def _connect(self, cache_kb: int, *, create: bool = False) -> apsw.Connection:
        if self._frozen and not create:
            connection = connect_frozen(self.path, immutable=self._frozen.immutable)
        else:
            # whoever reads must not leave an empty database where one was deleted
            flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
            connection = apsw.Connection(str(self.path), flags=flags)
        connection.set_busy_timeout(_BUSY_MS)
        connection.execute(f"PRAGMA cache_size = -{cache_kb}; PRAGMA temp_store = MEMORY")
        return connection

    def _prepare(self, writer: apsw.Connection) -> None:
        deadline = time.monotonic() + _BUSY_MS / 1000
        while True:
            try:
                writer.execute("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL")
                break
            except apsw.BusyError:
                # changing the journal mode does not wait by itself
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        writer.execute("PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 8388608")
        upgrade_database(writer, self.path, self._form)

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
    """A string as SQLite can keep it: bytes where it is no valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def read_stored_text(value: Value) -> str:
    """The string that `bind_text` was given."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else str(value)
