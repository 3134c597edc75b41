"""Events of the file system: which paths of a project were touched, as they come.

On Linux each folder costs a watch out of a limited number, so only those are watched whose files
may be indexed, and again when folders come or go. Elsewhere a root is watched with all below it.
Events are hints: what they lead to is decided by comparing files, and a look at everything once
it is quiet finds what they left out, such as after the system's queue has overflowed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from sonde.indexing.sources import Tree

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify


_BY_FOLDER = sys.platform == "linux"
_STEP_MS, _GATHER_MS = 100, 200
"""How often arrived events are looked at, and how long a burst is gathered."""
_SETTLED_S = 0.4
"""How long a path is left alone after its last event was seen, which is one step old or two: so
it is half a second after the last write."""
_LONGEST_S = 5.0
"""A file that never comes to rest is looked at this often."""
_TRIES = 3
_WITHOUT_EVENTS = (
    "nfs", "cifs", "smb", "9p", "fuse", "virtiofs", "vboxsf", "vmhgfs", "drvfs", "afs", "ncpfs",
    "prl_fs", "ceph", "glusterfs", "lustre", "beegfs",
)  # fmt: skip

Inbox = SimpleQueue[set[str] | Exception | threading.Event | None]
"""What reaches whoever waits for events: touched places, what broke, a request, a wake-up."""


class WatchFailed(Exception):
    """The system refuses to watch; the text says why."""


class Watch:
    """An open watch on all folders of a tree; touched places go to an inbox as absolute paths."""

    def __init__(self, tree: Tree, inbox: Inbox) -> None:
        self.folders: frozenset[str] = frozenset()
        """The folders watched one by one; empty where a root is watched with all below."""
        self._inbox = inbox
        self._closing = threading.Event()
        self._notify = self._open(tree)
        self._thread = threading.Thread(target=self._listen, name="sonde-events", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._closing.set()
        self._thread.join(2.0)
        self._notify.close()

    def _open(self, tree: Tree) -> RustNotify:
        from watchfiles._rust_notify import RustNotify

        for left in reversed(range(_TRIES)):
            places = [str(source.root) for source in tree.sources]
            if _BY_FOLDER:
                places = [str(folder) for folder in tree.folders()]
                self.folders = frozenset(places)
            try:
                return RustNotify(places, False, False, 0, not _BY_FOLDER, False)  # noqa: FBT003
            except (FileNotFoundError, PermissionError) as error:
                # a folder that went away while they were listed: once more
                if not left:
                    raise WatchFailed(f"the folders do not stay: {error}") from error
            except Exception as error:
                raise WatchFailed(_explain(str(error))) from error
        raise AssertionError

    def _listen(self) -> None:
        try:
            while True:
                found = self._notify.watch(_GATHER_MS, _STEP_MS, 0, self._closing)
                if not isinstance(found, set):
                    return
                self._inbox.put({place for _, place in found})
        except Exception as error:  # noqa: BLE001 - told to whoever waits, who opens a new one
            if not self._closing.is_set():
                self._inbox.put(error)


def _explain(text: str) -> str:
    if "limit" in text.lower() or "os error 28" in text or "os error 24" in text.lower():
        return "the system's limit of file watches is reached (fs.inotify.max_user_watches)"
    return text


class Settling:
    """Paths that were touched lately, each until it has been left alone for a while."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._first: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._due)

    def add(self, paths: Iterable[str]) -> None:
        """These were touched just now."""
        now = time.monotonic()
        for path in paths:
            first = self._first.setdefault(path, now)
            self._due[path] = min(now + _SETTLED_S, first + _LONGEST_S)

    def take(self, *, everything: bool = False) -> set[str]:
        """Those that have come to rest, or all."""
        now = time.monotonic()
        taken = {path for path, due in self._due.items() if everything or due <= now}
        for path in taken:
            del self._due[path], self._first[path]
        return taken

    def seconds_left(self, most: float) -> float:
        """How long until the next one comes to rest."""
        next_due = min(self._due.values(), default=None)
        return most if next_due is None else min(max(next_due - time.monotonic(), 0.0), most)


def note_silence(tree: Tree, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
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
    for source in tree.sources:
        above = next((p for p in (source.root, *source.root.parents) if str(p) in kinds), None)
        kind = kinds[str(above)] if above else ""
        if kind.startswith(_WITHOUT_EVENTS):
            return kind
    return None


def identify_roots(tree: Tree) -> list[tuple[int, int] | None]:
    """Which folders the roots are now; None for one that is gone."""
    found: list[tuple[int, int] | None] = []
    for source in tree.sources:
        try:
            facts = os.stat(source.root)  # noqa: PTH116 - twice as fast, and done every second
            found.append((facts.st_dev, facts.st_ino))
        except OSError:
            found.append(None)
    return found
