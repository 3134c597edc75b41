"""Running verbs for a client, over any transport: from opening the app to leaving in time.

The verb is synchronous, runs in a worker thread and knows only `Work`. Its reports become progress
notifications. Its questions become a form that the client shows: during the call where the
protocol lets a server ask (up to 2025-11-25), else as the result of the call, which the client
repeats with the answer (2026-07-28). So a verb asks before it changes anything, because it may
run again.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from sonde.errors import SondeError
from sonde.runtime.work import Work
from sonde.types import Caller, Json, Progress

SCOPE_CALLER = "sonde.caller"
"""Key of the caller in an ASGI scope; set by the guard."""
SCOPE_SESSION = "sonde.session"
"""Key of a WebSocket's session name in its ASGI scope."""
SESSION_NAME = "mcp-session-id"
"""The header or argument of an address that names a session."""
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
PROGRESS_INTERVAL_S = 0.2
"""Least time between progress notifications: clients redraw on each."""
CALLS_PER_USER = 16
"""Calls of one user that run at a time; more wait, and other users are answered."""
ROOTS_TIMEOUT_S = 2.0
"""How long a client may take to list its roots, which it knows without asking anyone."""
BEGIN_S = 1.0
"""Background work starts this long after the server, when the opening requests are answered."""
RETRY_S = 5.0
"""How often opening the app is retried."""
LEAVE_S = 0.5
"""How long threads may take to end before the process exits without them."""
_log = logging.getLogger("sonde.mcp")

Call = tuple[str, Mapping[str, object]]
"""A call: the name of a verb or an address, and its arguments."""
Record = Callable[[Callable[[], Any], Caller, Call], Any]
"""Runs a call and records who made it and its outcome."""

_FORM: Json = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "Go ahead", "default": True}},
    "required": ["confirm"],
}
_KEY = "confirm"


class ProtocolError(Exception):
    """A JSON-RPC error: code, message and data."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class ClientRefusedError(Exception):
    """The client answered a request with an error or in an unexpected form."""


class Client(Protocol):
    """The client of one request."""

    caller: Caller
    cancelled: threading.Event
    """Set when the client has given up on the request."""
    is_modern: bool
    """Whether it speaks 2026-07-28, where a server cannot send requests."""
    capabilities: Json
    """As the client declared them."""
    meta: Json
    """The `_meta` of its handshake."""

    def report(self, progress: float, total: float | None, message: str) -> None:
        """Send a progress notification if the client asked for them."""

    def request(self, method: str, params: Json, timeout_s: float | None = None) -> Json:
        """The client's answer to a request of ours, or `ClientRefusedError`, `TimeoutError`, or
        `Cancelled` once nobody waits for the call."""


class AnswerNeeded(Exception):
    """Unwinds a verb whose question is returned as the result of the call."""

    def __init__(self, question: str, answers: dict[str, bool]) -> None:
        super().__init__(question)
        form = {"method": "elicitation/create", "params": _make_form(question)}
        self.result: Json = {
            "resultType": "input_required",
            "inputRequests": {_KEY: form},
            "requestState": json.dumps({"question": question, "answers": answers}),
        }


class Calls:
    """The running verbs, so that shutdown can cancel and await them."""

    def __init__(self, record: Record | None = None) -> None:
        self._record = record
        self._running: set[Work] = set()
        self._worked = False
        self._changed = threading.Condition()

    def run(self, verb: Callable[[Work], Any], work: Work, what: Call | None = None) -> Any:
        """Run a verb in this thread; `what` describes the call for the audit log."""
        run = partial(self._run_tracked, verb, work)
        return self._record(run, work.caller, what) if self._record and what else run()

    def has_become_idle(self) -> bool:
        """Whether nothing is running, but something has run since this was last true."""
        with self._changed:
            idle = self._worked and not self._running
            self._worked = self._worked and not idle
            return idle

    def stop(self, timeout: float) -> bool:
        """Cancel every call. Returns whether all ended within the timeout."""
        with self._changed:
            for work in self._running:
                work.cancel()
            return self._changed.wait_for(lambda: not self._running, timeout)

    def _run_tracked(self, verb: Callable[[Work], Any], work: Work) -> Any:
        with self._changed:
            self._running.add(work)
            self._worked = True
        try:
            work.check()
            return verb(work)
        finally:
            with self._changed:
                self._running.discard(work)
                self._changed.notify_all()


def make_work(client: Client, params: Json) -> Work:
    """The work of one call of a tool."""
    caller = replace(_add_preferences(client), list_roots=cache(partial(_list_roots, client)))
    report = _Reporter(client).report
    return Work(report, _choose_ask(client, params), client.cancelled, caller)


def _add_preferences(client: Client) -> Caller:
    """The caller with the preferences that the client declared in `initialize`, if any."""
    given = {**client.meta, **(client.capabilities.get("experimental") or {})}
    config = given.get("config")
    if not isinstance(config, dict):
        return client.caller
    from sonde.knowledge.retrieval import check_preferences

    return replace(client.caller, config={**check_preferences(config), **client.caller.config})


class _Reporter:
    """Progress over all stages as one number that only grows, at a limited rate."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._stage: str | None = None
        self._base = 0
        self._sent = -1
        self._next = 0.0

    def report(self, progress: Progress) -> None:
        if progress.stage != self._stage:
            self._stage, self._base = progress.stage, max(self._sent, 0)
            self._next = 0.0
        value = self._base + progress.done
        complete = progress.total is not None and progress.done >= progress.total
        if value <= self._sent or (time.monotonic() < self._next and not complete):
            return
        self._sent = value
        self._next = time.monotonic() + PROGRESS_INTERVAL_S
        total = None if progress.total is None else self._base + progress.total
        self._client.report(value, total, progress.message or progress.stage)


def _choose_ask(client: Client, params: Json) -> Callable[[str], bool | None] | None:
    """How to ask this client; None if it did not declare that it can show a form."""
    offered = client.capabilities.get("elicitation")
    if offered is None or (offered.get("form") is None and offered.get("url") is not None):
        return None
    if client.is_modern:
        return _ask_by_answer(params)

    def ask(question: str) -> bool | None:
        try:
            result = client.request("elicitation/create", _make_form(question))
        except ClientRefusedError:
            return None
        return _is_consent(result) if "action" in result else None

    return ask


def _make_form(question: str) -> Json:
    return {"mode": "form", "message": question, "requestedSchema": _FORM}


def _list_roots(client: Client) -> tuple[Path, ...]:
    """The client's roots, of clients that declare them; the newest protocol has none."""
    if client.is_modern or client.capabilities.get("roots") is None:
        return ()
    try:
        roots = client.request("roots/list", {}, ROOTS_TIMEOUT_S)["roots"]
        addresses = [urlsplit(root["uri"]) for root in roots]
    except (ClientRefusedError, TimeoutError, KeyError, TypeError, ValueError, AttributeError):
        return ()
    return tuple(Path(unquote(each.path)).resolve() for each in addresses if each.scheme == "file")


def _ask_by_answer(params: Json) -> Callable[[str], bool]:
    """Uses the client's answers in this call, and unwinds it for a new question."""
    # The transport has sealed and unsealed the state: nobody else can have written it.
    state = json.loads(params.get("requestState") or "{}")
    answers: dict[str, bool] = state.get("answers", {})
    given = (params.get("inputResponses") or {}).get(_KEY)
    if "question" in state and isinstance(given, dict) and "action" in given:
        answers[state["question"]] = _is_consent(given)

    def ask(question: str) -> bool:
        if question not in answers:
            raise AnswerNeeded(question, answers)
        return answers[question]

    return ask


def _is_consent(result: Json) -> bool:
    content = result.get("content")
    return result["action"] == "accept" and isinstance(content, dict) and content.get(_KEY) is True


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


def begin_soon(
    begin: Callable[[Closable], None], app: LazyApp, ending: threading.Event
) -> threading.Thread:
    """Start background work once the opening requests of a client are answered. If the app cannot
    be opened, as while a shared index is away, it is tried again."""

    def run() -> None:
        wait_s = BEGIN_S
        while not ending.wait(wait_s):
            try:
                opened = app.open()
                if not ending.is_set():
                    begin(opened)
            except SondeError as error:
                _log.warning("not ready: %s", error.user_message)
                wait_s = RETRY_S
            except Exception:  # noqa: BLE001 - the server serves without it
                _log.exception("background work did not start")
                return
            else:
                return

    beginning = threading.Thread(target=run, name="sonde-begin", daemon=True)
    beginning.start()
    return beginning


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
