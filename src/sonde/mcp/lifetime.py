"""From the start of a server to its end: opening the app, background work, leaving in time."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from sonde.errors import SondeError
from sonde.types import Caller

BEGIN_S = 1.0
"""Background work starts this long after the server, when the opening requests are answered."""
RETRY_S = 5.0
"""How often opening the app is retried."""
LEAVE_S = 0.5
"""How long threads may take to end before the process exits without them."""
_log = logging.getLogger("sonde.mcp")


class Closable(Protocol):
    """The part of an app that a server needs."""

    def seen_by(self, caller: Caller) -> object:
        """The app as this caller may see it, to call verbs with."""

    def close(self) -> None:
        """Release everything."""


class LazyApp:
    """The app, opened by the first call that needs it."""

    def __init__(self, open_app: Callable[[], Closable]) -> None:
        self._open_app = open_app
        self._lock = threading.Lock()
        self._app: Closable | None = None

    def get(self, caller: Caller) -> Any:
        """The app as this caller may see it. Every served verb gets it from here."""
        return self.open().seen_by(caller)

    def open(self) -> Closable:
        """The whole app; the first call opens it, concurrent ones wait."""
        with self._lock:
            if self._app is None:
                self._app = self._open_app()
            return self._app

    def peek(self) -> Closable | None:
        """The whole app if it is open."""
        return self._app

    def close(self) -> None:
        """Close the app if it was opened."""
        with self._lock:
            if self._app is not None:
                self._app.close()
                self._app = None


def begin_soon(begin: Callable[[Closable], None], app: LazyApp, ending: threading.Event) -> None:
    """Start background work once the opening requests of a client are answered. If the app cannot
    be opened, as while a shared index is away, it is tried again."""

    def run() -> None:
        wait_s = BEGIN_S
        while not ending.wait(wait_s):
            try:
                begin(app.open())
            except SondeError as error:
                _log.warning("not ready: %s", error.user_message)
                wait_s = RETRY_S
            except Exception:  # noqa: BLE001 - the server serves without it
                _log.exception("background work did not start")
                return
            else:
                return

    threading.Thread(target=run, name="sonde-begin", daemon=True).start()


def end_if_busy(patience_s: float = LEAVE_S) -> None:
    """Exit the process here if a thread is still working.

    A thread inside native code cannot be stopped, and an ordinary exit would unload the model
    runtime under it and abort. Exiting is safe: stores survive a crash at any point.
    """
    deadline = time.monotonic() + patience_s
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(max(deadline - time.monotonic(), 0.0))
            if thread.is_alive():
                _log.info("%s was still running", thread.name)
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(0)
