"""Metrics in Prometheus' text format, and the audit log."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sonde.errors import InvalidRequest
from sonde.indexing.sources import identify_files
from sonde.mcp.calls import Call
from sonde.text.formats import show_time
from sonde.types import Caller
from sonde.version import __version__

log = logging.getLogger(__name__)

_BOUNDS_S = (0.01, 0.05, 0.25, 1.0, 5.0)
"""Upper bounds of the histograms: from a lookup to a call that waits for indexing."""
_AREAS = ("mcp", "api", "healthz", "metrics")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_Series = tuple[str, tuple[tuple[str, str], ...]]
"""A name and its labels."""


class Metrics:
    """Counters and histograms by name and labels; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: defaultdict[_Series, float] = defaultdict(float)
        self._started = time.time()

    def add(self, name: str, amount: float, **labels: str) -> None:
        """Add to a counter."""
        with self._lock:
            self._counts[name, tuple(sorted(labels.items()))] += amount

    def time(self, name: str, seconds: float, **labels: str) -> None:
        """Add a duration to a histogram."""
        self.add(f"{name}_seconds_sum", seconds, **labels)
        self.add(f"{name}_seconds_count", 1, **labels)
        for bound in _BOUNDS_S:
            self.add(f"{name}_seconds_bucket", float(seconds <= bound), **labels, le=f"{bound}")
        self.add(f"{name}_seconds_bucket", 1, **labels, le="+Inf")

    def note_call(self, tool: str, outcome: str, seconds: float) -> None:
        """Count one call of a tool."""
        self.add("tool_calls_total", 1, tool=tool, outcome=outcome)
        self.time("tool_call", seconds, tool=tool)

    def render(self, state: Mapping[str, float]) -> str:
        """All metrics and current gauges, in Prometheus' text format."""
        with self._lock:
            now = {(name, ()): value for name, value in state.items()}
            rows = sorted([*self._counts.items(), *now.items()], key=_order)
        return "".join(f"{line}\n" for line in self._lines(rows))

    def _lines(self, rows: list[tuple[_Series, float]]) -> Iterator[str]:
        yield "# TYPE sonde_info gauge"
        yield f'sonde_info{{version="{__version__}"}} 1'
        yield "# TYPE sonde_start_time_seconds gauge"
        yield f"sonde_start_time_seconds {self._started:.3f}"
        shown = ""
        for (name, labels), value in rows:
            family, kind = _read_kind(name)
            if family != shown:
                shown = family
                yield f"# TYPE sonde_{family} {kind}"
            text = ",".join(f'{key}="{label.translate(_ESCAPES)}"' for key, label in labels)
            yield f"sonde_{name}{{{text}}} {value:.15g}"


class Meter:
    """Measures the requests to an application."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, and count area, status and duration."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        first = scope["path"].split("/")[1:2]
        area = first[0] if first and first[0] in _AREAS else "page"
        status = 101 if scope["type"] == "websocket" else 0
        began = time.perf_counter()

        async def note_status(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        self._metrics.add("requests_open", 1, area=area)
        try:
            await self._app(scope, receive, note_status)
        finally:
            self._metrics.add("requests_open", -1, area=area)
            self._metrics.add("requests_total", 1, area=area, status=str(status))
            if scope["type"] == "http":
                self._metrics.time("request", time.perf_counter() - began, area=area)


def _order(row: tuple[_Series, float]) -> tuple[object, ...]:
    """Sort key: name and labels, buckets by their bound."""
    (name, labels), _ = row
    bound = next((float(value) for key, value in labels if key == "le"), 0.0)
    return name, [pair for pair in labels if pair[0] != "le"], bound


def _read_kind(name: str) -> tuple[str, str]:
    for ending in ("_sum", "_count", "_bucket"):
        if name.endswith(f"_seconds{ending}"):
            return name.removesuffix(ending), "histogram"
    return name, "counter" if name.endswith("_total") else "gauge"


_LONGEST = 500  # characters of an argument: enough to see what was searched
_LEFT_OUT = frozenset({"confirm", "cursor", "text", "token"})  # of no use here, or secret


class AuditLog:
    """A log of calls, appended to a file that is reopened after a rename (logrotate)."""

    def __init__(self, path: Path) -> None:
        self._path, self._guard = path, threading.Lock()
        try:
            self._file = self._open()
        except OSError as error:
            raise InvalidRequest(
                str(error),
                user_message=f"The audit log '{path}' cannot be written: {error.strerror}.",
                next_action="Name a file in a folder that you can write to: --audit-log FILE.",
            ) from error

    def _open(self) -> int:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.fchmod(descriptor, 0o600)
        return descriptor

    def record(self, run: Callable[[], Any], caller: Caller, what: Call) -> Any:
        """Run a call, and log who made it and its outcome."""
        began, outcome = time.perf_counter(), "ok"
        try:
            return run()
        except BaseException as error:
            outcome = str(getattr(error, "code", type(error).__name__))
            raise
        finally:
            self._write(caller, what, outcome, time.perf_counter() - began)

    def _write(self, caller: Caller, what: Call, outcome: str, seconds: float) -> None:
        """Log one call. A full disk is reported and does not fail the call."""
        call, arguments = what
        texts = {
            name: value if isinstance(value, str) else json.dumps(value, default=str)
            for name, value in arguments.items()
            if value and name not in _LEFT_OUT
        }
        row = {
            "time": show_time(int(time.time() * 1000)), "user": caller.user, "call": call,
            "arguments": {name: text[:_LONGEST] for name, text in texts.items()},
            "outcome": outcome, "ms": round(seconds * 1000),
        }  # fmt: skip
        line = json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with self._guard:
            try:
                if identify_files([self._path])[self._path] != self._name():
                    os.close(self._file)
                    self._file = self._open()
                os.write(self._file, line)
            except OSError:
                log.exception("the audit log cannot be written")

    def _name(self) -> tuple[int, int]:
        facts = os.fstat(self._file)
        return facts.st_dev, facts.st_ino
