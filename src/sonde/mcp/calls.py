"""One call of a tool: the verb in a worker thread, its progress, consent, cancellation and errors.

The verb is synchronous and knows only `Work`. Its reports become progress notifications. Its
questions become a form that the client shows: during the call where the protocol lets a server
ask (up to 2025-11-25), else as the result of the call, which the client repeats with the answer
(2026-07-28). So a verb asks before it changes anything, because it may run again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.requests import HTTPConnection

from sonde.errors import Cancelled, CatalogError, InvalidRequest, SondeError, TooManyRequests
from sonde.runtime.work import Work
from sonde.types import Caller, Json, Progress

Context = ServerRequestContext[Any, Any]

SCOPE_CALLER = "sonde.caller"
"""Key of the caller in an ASGI scope; set by the guard."""
SCOPE_SESSION = "sonde.session"
"""Key of a WebSocket's session name in its ASGI scope."""
SESSION_NAME = "mcp-session-id"
"""The header or argument of an address that names a session."""
MAX_SESSION_CHARS = 200
"""A session names itself in the address; it is kept in memory."""
PROGRESS_INTERVAL_S = 0.2
"""Least time between progress notifications: clients redraw on each."""

CALLS_PER_USER = 16
"""Calls of one user that run at a time, of anyio's 40 threads; more wait, others are answered."""
ROOTS_TIMEOUT_S = 2.0
"""How long a client may take to list its roots, which it knows without asking anyone."""

Call = tuple[str, Mapping[str, object]]
"""A call: the name of a verb or an address, and its arguments."""
Record = Callable[[Callable[[], Awaitable[Any]], Caller, Call], Awaitable[Any]]
"""Runs a call and records who made it and its outcome."""

_log = logging.getLogger("sonde.mcp")

_FORM: Json = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "Go ahead", "default": True}},
    "required": ["confirm"],
}
_KEY = "confirm"
_CANCELLATIONS = (asyncio.CancelledError, concurrent.futures.CancelledError)
"""Both mean that the task on the loop was cancelled; timing decides which one is raised."""


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


class AnswerNeeded(Exception):
    """Unwinds a verb whose question is returned as the result of the call."""

    def __init__(self, question: str, answers: dict[str, bool]) -> None:
        super().__init__(question)
        form = types.ElicitRequestFormParams(message=question, requested_schema=_FORM)
        self.result = types.InputRequiredResult(
            input_requests={_KEY: types.ElicitRequest(params=form)},
            request_state=json.dumps({"question": question, "answers": answers}),
        )


class Calls:
    """The running verbs, so that shutdown can cancel and await them."""

    def __init__(self, record: Record | None = None) -> None:
        self._record = record
        self._running: set[Work] = set()
        self._turns: dict[str, anyio.CapacityLimiter] = {}  # of each user
        self._worked = False
        self._changed = threading.Condition()
        # over stdio a process serves one client: the process is the session
        self._caller = Caller(session=uuid4().hex)

    async def run(
        self,
        verb: Callable[[Work], Any],
        ctx: Context,
        params: types.CallToolRequestParams,
        what: Call | None = None,
    ) -> Any:
        """Run a verb in a worker thread; cancelled with the request."""
        channel = ClientChannel()
        work = Work(
            report=_Reporter(ctx, channel).report,
            ask=_choose_ask(ctx, params, channel),
            caller=replace(
                _add_preferences(self.read_caller(ctx), ctx),
                list_roots=cache(partial(_list_roots, ctx, channel)),
            ),
        )
        try:
            return await self.run_work(verb, work, what)
        except anyio.get_cancelled_exc_class():
            channel.close()
            raise

    async def run_work(
        self, verb: Callable[[Work], Any], work: Work, what: Call | None = None
    ) -> Any:
        """The same for a prepared `Work`; `what` describes the call for the audit log."""
        run = partial(self._run_in_turn, verb, work)
        return await (self._record(run, work.caller, what) if self._record and what else run())

    async def _run_in_turn(self, verb: Callable[[Work], Any], work: Work) -> Any:
        try:
            user = work.caller.user
            if user not in self._turns:
                self._turns[user] = anyio.CapacityLimiter(CALLS_PER_USER)
            async with self._turns[user]:
                return await anyio.to_thread.run_sync(
                    self._run_tracked, verb, work, abandon_on_cancel=True
                )
        except anyio.get_cancelled_exc_class():
            work.cancel()
            raise

    def read_caller(self, ctx: Context) -> Caller:
        """The caller identified by the guard, or the only client of this process."""
        if ctx.request is None:
            return self._caller
        caller: Caller = ctx.request.scope[SCOPE_CALLER]
        return replace(caller, session=read_session_name(ctx.request))

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


def read_session_name(request: HTTPConnection) -> str:
    """The session that a request names in its address or a header, or that its socket is."""
    named = request.query_params.get(SESSION_NAME) or request.scope.get(SCOPE_SESSION)
    return str(named or request.headers.get(SESSION_NAME, ""))[:MAX_SESSION_CHARS]


def _add_preferences(caller: Caller, ctx: Context) -> Caller:
    """The caller with the preferences that the client declared in `initialize`, if any."""
    from sonde.knowledge.retrieval import check_preferences

    declared, params = ctx.session.client_capabilities, ctx.session.client_params
    given = {**(params.meta or {})} if params and params.meta else {}
    given |= (declared.experimental or {}) if declared else {}
    config = given.get("config")
    if not isinstance(config, dict):
        return caller
    return replace(caller, config={**check_preferences(config), **caller.config})


class ClientChannel:
    """Lets a verb's threads call the event loop, until the call is over."""

    def __init__(self) -> None:
        self._token = anyio.lowlevel.current_token()
        self._scopes: set[anyio.CancelScope] = set()
        self._is_closed = False

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a coroutine function on the loop and wait; raises `Cancelled` once closed."""
        try:
            return anyio.from_thread.run(self._run, function, *args, token=self._token)
        except (*_CANCELLATIONS, anyio.RunFinishedError) as error:
            raise Cancelled("the client went away") from error

    def close(self) -> None:
        """Cancel running calls and refuse later ones; called on the loop."""
        self._is_closed = True
        for scope in self._scopes:
            scope.cancel()

    async def _run(self, function: Callable[..., Any], *args: Any) -> Any:
        if not self._is_closed:
            with anyio.CancelScope() as scope:
                self._scopes.add(scope)
                try:
                    return await function(*args)
                finally:
                    self._scopes.discard(scope)
        raise Cancelled("the client went away")


class _Reporter:
    """Progress over all stages as one number that only grows, at a limited rate."""

    def __init__(self, ctx: Context, channel: ClientChannel) -> None:
        self._ctx = ctx
        self._channel = channel
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
        message = progress.message or progress.stage
        self._channel.call(self._ctx.session.report_progress, value, total, message)


def _choose_ask(
    ctx: Context, params: types.CallToolRequestParams, channel: ClientChannel
) -> Callable[[str], bool | None] | None:
    """How to ask this client; None if it did not declare that it can show a form."""
    capabilities = ctx.session.client_capabilities
    offered = capabilities.elicitation if capabilities else None
    if offered is None or (offered.form is None and offered.url is not None):
        return None
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return _ask_by_answer(params)

    def ask(question: str) -> bool | None:
        try:
            result = channel.call(ctx.session.elicit_form, question, _FORM, ctx.request_id)
        except (MCPError, ValidationError):
            return None
        return _is_consent(result)

    return ask


def _list_roots(ctx: Context, channel: ClientChannel) -> tuple[Path, ...]:
    """The client's roots, of clients that declare them; the newest protocol has none."""
    capabilities, version = ctx.session.client_capabilities, ctx.protocol_version
    if not (capabilities and capabilities.roots) or version in MODERN_PROTOCOL_VERSIONS:
        return ()

    async def ask() -> types.ListRootsResult:
        with anyio.fail_after(ROOTS_TIMEOUT_S):
            return await ctx.session.send_request(types.ListRootsRequest(), types.ListRootsResult)

    try:
        addresses = [urlsplit(str(root.uri)) for root in channel.call(ask).roots]
    except (MCPError, ValidationError, TimeoutError):
        return ()
    return tuple(Path(unquote(each.path)).resolve() for each in addresses if each.scheme == "file")


def _ask_by_answer(params: types.CallToolRequestParams) -> Callable[[str], bool]:
    """Uses the client's answers in this call, and unwinds it for a new question."""
    # The SDK's boundary has sealed and unsealed the state: nobody else can have written it.
    state = json.loads(params.request_state or "{}")
    answers: dict[str, bool] = state.get("answers", {})
    given = (params.input_responses or {}).get(_KEY)
    if "question" in state and isinstance(given, types.ElicitResult):
        answers[state["question"]] = _is_consent(given)

    def ask(question: str) -> bool:
        if question not in answers:
            raise AnswerNeeded(question, answers)
        return answers[question]

    return ask


def _is_consent(result: types.ElicitResult) -> bool:
    return result.action == "accept" and (result.content or {}).get(_KEY) is True


def protocol_error(error: Exception, code: int | None = None) -> MCPError:
    """The JSON-RPC error for what a verb raised; logs what is not the caller's mistake."""
    if not isinstance(error, SondeError):
        # Details of a defect stay in the log: they may quote what was being read.
        _log.error("a tool failed unexpectedly", exc_info=error)
        error, code = SondeError(f"unexpected {type(error).__name__}; see the log"), INTERNAL_ERROR
    elif code is None and isinstance(error, InvalidRequest):
        code = INVALID_PARAMS
    elif code is None:
        _log.error("%s", error.developer_message, exc_info=error)
        code = INTERNAL_ERROR
    return MCPError(code, f"{error.user_message} {error.next_action}", error.as_dict())


def error_result(error: Exception) -> Json:
    """The error result for a catalogued situation; raises a protocol error for anything else."""
    if isinstance(error, CatalogError | TooManyRequests):
        return shape_answer(error.as_dict()) | {"isError": True}
    raise protocol_error(error) from error


def shape_answer(answer: Json) -> Json:
    """A tool result: the object, and the same object as minified JSON text.

    Clients read one or the other, so it is written twice. Splicing the text into the message
    instead would save 30 of 65 µs for an answer of 5 kB, and bypass the SDK's models.
    """
    text = dump_answer(answer)
    if "\ufffd" in text:
        answer = json.loads(text)
    return {
        "resultType": "complete",
        "content": [{"type": "text", "text": text}],
        "structuredContent": answer,
    }


def dump_answer(answer: Any) -> str:
    """Minified JSON in valid Unicode; a file name may hold lone surrogates."""
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text
