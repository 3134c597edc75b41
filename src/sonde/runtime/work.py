"""Running work as it sees its caller: progress out, cancellation and consent in."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from sonde.errors import Cancelled
from sonde.types import Caller, Progress


class Work:
    """One running piece of work: reports progress, asks for consent, notices cancellation."""

    def __init__(
        self,
        report: Callable[[Progress], None] | None = None,
        ask: Callable[[str], bool | None] | None = None,
        cancelled: threading.Event | None = None,
        caller: Caller = Caller(),  # noqa: B008 - frozen
    ) -> None:
        self.caller = caller
        self._report = report
        self._ask = ask
        self._cancelled = cancelled or threading.Event()

    def report(self, progress: Progress) -> None:
        """Pass progress on to the caller; raises `Cancelled` if the work was cancelled."""
        self.check()
        if self._report:
            self._report(progress)

    def ask(self, question: str) -> bool | None:
        """The caller's answer, or None if it cannot be asked."""
        return self._ask(question) if self._ask else None

    def cancel(self) -> None:
        """Cancel the work; it stops at its next step."""
        self._cancelled.set()

    def check(self) -> None:
        """Raise `Cancelled` if the work was cancelled."""
        if self._cancelled.is_set():
            raise Cancelled("cancelled by the caller")


def name_process() -> str:
    """A name for this process that a later one with the same number does not share."""
    return f"{os.getpid()}:{read_birth(os.getpid())}"


def read_birth(number: int) -> str:
    """The start time of a process in ticks since boot; empty if it is gone, and outside Linux."""
    try:
        text = Path(f"/proc/{number}/stat").read_text(errors="replace")
        return text.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
