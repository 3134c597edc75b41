"""Watching folders: which paths were touched, as the system reports it.

Events are hints. They may be late, coalesced or lost, so the receiver compares files.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

_POLL_DELAY_MS = 500
"""How often folders are looked at where the system cannot watch them."""
_SILENT_FILE_SYSTEMS = (
    "nfs", "cifs", "smb", "9p", "fuse", "virtiofs", "vboxsf", "vmhgfs", "drvfs", "afs", "ncpfs",
    "prl_fs", "ceph", "glusterfs", "lustre", "beegfs",
)  # fmt: skip


class WatchFailed(Exception):
    """The system refuses to watch; the text says why."""


class FolderWatch:
    """An open watch. `take` gets touched places, or what broke the watch, in a thread of its own.

    Places gathered within `gather_ms`, or until nothing happens for `step_ms`, come together.
    Raises `FileNotFoundError`, `PermissionError` or `WatchFailed` if it cannot be opened.
    """

    def __init__(
        self,
        places: Iterable[str],
        take: Callable[[set[str] | Exception], None],
        *,
        recursive: bool,
        step_ms: int,
        gather_ms: int,
        polling: bool = False,
    ) -> None:
        self._take = take
        self._places = list(places)
        self._recursive, self._polling = recursive, polling
        self._step_ms, self._gather_ms = step_ms, gather_ms
        self._closing = threading.Event()
        self._opened = threading.Event()
        self._refused: list[Exception] = []
        self._thread = threading.Thread(target=self._listen, name="sonde-events", daemon=True)
        self._thread.start()
        self._opened.wait()
        for error in self._refused:
            raise error

    def close(self) -> None:
        """Stop listening."""
        self._closing.set()
        if self._thread is not threading.current_thread():
            self._thread.join(2.0)

    def is_set(self) -> bool:
        """Whether to stop; watchfiles asks at each step, the first time right after opening."""
        self._opened.set()
        return self._closing.is_set()

    def _listen(self) -> None:
        from watchfiles import watch

        # its INFO lines count the changes of every save
        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        try:
            for changes in watch(
                *self._places,
                watch_filter=None,
                debounce=self._gather_ms,
                step=self._step_ms,
                stop_event=self,
                rust_timeout=0,
                debug=False,
                raise_interrupt=False,
                force_polling=self._polling,
                poll_delay_ms=_POLL_DELAY_MS,
                recursive=self._recursive,
                ignore_permission_denied=False,
            ):
                self._take({place for _, place in changes})
        except Exception as error:  # noqa: BLE001 - passed to the caller, or to the taker
            if not self._opened.is_set():
                missing = isinstance(error, FileNotFoundError | PermissionError)
                self._refused.append(error if missing else WatchFailed(_explain(str(error))))
            elif not self._closing.is_set():
                self._take(error)
        finally:
            self._opened.set()


def _explain(text: str) -> str:
    if "limit" in text.lower() or "os error 28" in text or "os error 24" in text.lower():
        return "the system's limit of file watches is reached (fs.inotify.max_user_watches)"
    return text


def find_silent_file_system(
    roots: Iterable[Path], mounts: Path = Path("/proc/self/mountinfo")
) -> str | None:
    """The kind of file system, if one of the roots lies on one that reports no events."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    kinds: dict[str, str] = {}
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) > 4 and after:
            kinds[fields[4].replace("\\040", " ")] = after.split()[0]
    for root in roots:
        above = next((place for place in (root, *root.parents) if str(place) in kinds), None)
        kind = kinds[str(above)] if above else ""
        if kind.startswith(_SILENT_FILE_SYSTEMS):
            return kind
    return None
