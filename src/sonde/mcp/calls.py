"""One call of a tool: its verb in a worker thread, tied to the client by progress, consent, cancel.

The verb is synchronous and knows only `Work`. What it reports becomes progress notifications;
what it asks becomes a form the client shows: on the spot where the protocol lets a server ask
(up to 2025-11-25), else by handing the question back as the result, upon which the client calls
again with the answer (2026-07-28). So a verb asks before it changes anything: it may run anew.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
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

from sonde.errors import Cancelled, CatalogError, InvalidRequest, SondeError, TooManyRequests
from sonde.runtime.work import Work
from sonde.types import Caller, Progress

Context = ServerRequestContext[Any, Any]

SCOPE_CALLER = "sonde.caller"
"""Where in an ASGI scope the guard leaves the caller."""
SCOPE_SESSION = "sonde.session"
"""Where a WebSocket leaves the name of its connection."""
_LONGEST_SESSION = 200
PROGRESS_INTERVAL_S = 0.2
"""Clients redraw on every notification."""

_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "Go ahead", "default": True}},
    "required": ["confirm"],
}
_KEY = "confirm"
_GONE = (asyncio.CancelledError, concurrent.futures.CancelledError)
"""Both mean that the task on the loop was cancelled; which one arrives depends on timing."""


class AnswerNeeded(Exception):
    """Unwinds a verb whose question travels back as the result of the call."""

    def __init__(self, question: str, answers: dict[str, bool]) -> None:
        super().__init__(question)
        form = types.ElicitRequestFormParams(message=question, requested_schema=_FORM)
        self.result = types.InputRequiredResult(
            input_requests={_KEY: types.ElicitRequest(params=form)},
            request_state=json.dumps({"question": question, "answers": answers}),
        )


class Calls:
    """The verbs that are running now, so that shutting down can stop and await them."""

    def __init__(self) -> None:
        self._running: set[Work] = set()
        self._worked = False
        self._changed = threading.Condition()
        # without HTTP the process serves one client: it is the session
        self._caller = Caller(session=uuid4().hex)

    async def run(
        self, verb: Callable[[Work], Any], ctx: Context, params: types.CallToolRequestParams
    ) -> Any:
        """Run a verb in a worker thread; if the caller goes away, the work is called off."""
        line = ClientChannel()
        work = Work(
            report=_Reporter(ctx, line).report,
            ask=_choose_ask(ctx, params, line),
            caller=self.read_caller(ctx),
        )
        try:
            return await self.run_work(verb, work)
        except anyio.get_cancelled_exc_class():
            line.cut()
            raise

    async def run_work(self, verb: Callable[[Work], Any], work: Work) -> Any:
        """The same for work that talks to its caller in another way."""
        try:
            return await anyio.to_thread.run_sync(
                self._run_tracked, verb, work, abandon_on_cancel=True
            )
        except anyio.get_cancelled_exc_class():
            work.cancel()
            raise

    def read_caller(self, ctx: Context) -> Caller:
        """Who asks: what the guard found out, or the one client of this process."""
        if ctx.request is None:
            return self._caller
        scope = ctx.request.scope
        asked = ctx.request.query_params.get("mcp-session-id", "")[:_LONGEST_SESSION]
        session = asked or scope.get(SCOPE_SESSION, "")
        if not session and ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            session = ctx.request.headers.get("mcp-session-id", "")
        caller: Caller = scope[SCOPE_CALLER]
        return replace(caller, session=session)

    def has_come_to_rest(self) -> bool:
        """Whether something has run since this was last asked, and nothing runs now."""
        with self._changed:
            rests = self._worked and not self._running
            self._worked = self._worked and not rests
            return rests

    def stop(self, timeout: float) -> bool:
        """Call everything off; true when all of it has ended in time."""
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


class ClientChannel:
    """From a verb's threads back to the event loop, until the call is over."""

    def __init__(self) -> None:
        self._token = anyio.lowlevel.current_token()
        self._scopes: set[anyio.CancelScope] = set()
        self._is_cut = False

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a coroutine function on the loop and wait for it; raises `Cancelled` once cut."""
        try:
            return anyio.from_thread.run(self._run, function, *args, token=self._token)
        except (*_GONE, anyio.RunFinishedError) as error:
            raise Cancelled("the client went away") from error

    def cut(self) -> None:
        """End what is under way and refuse what comes (on the loop)."""
        self._is_cut = True
        for scope in self._scopes:
            scope.cancel()

    async def _run(self, function: Callable[..., Any], *args: Any) -> Any:
        if not self._is_cut:
            with anyio.CancelScope() as scope:
                self._scopes.add(scope)
                try:
                    return await function(*args)
                finally:
                    self._scopes.discard(scope)
        raise Cancelled("the client went away")


class _Reporter:
    """Progress of several stages as one number that only grows, at a bearable rate."""

    def __init__(self, ctx: Context, line: ClientChannel) -> None:
        self._ctx = ctx
        self._line = line
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
        self._line.call(self._ctx.session.report_progress, value, total, message)


def _choose_ask(
    ctx: Context, params: types.CallToolRequestParams, line: ClientChannel
) -> Callable[[str], bool | None] | None:
    """How to ask this client, or None when it did not say that it can show a form."""
    capabilities = ctx.session.client_capabilities
    offered = capabilities.elicitation if capabilities else None
    if offered is None or (offered.form is None and offered.url is not None):
        return None
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return _ReturnedAnswers(params).ask

    def ask(question: str) -> bool | None:
        try:
            result = line.call(ctx.session.elicit_form, question, _FORM, ctx.request_id)
        except (MCPError, ValidationError):
            return None
        return _is_consent(result)

    return ask


class _ReturnedAnswers:
    """What the client has answered so far, as it came back with this call."""

    def __init__(self, params: types.CallToolRequestParams) -> None:
        # The state was sealed when it left and is unsealed by the SDK's boundary: it is our own.
        state = json.loads(params.request_state or "{}")
        self._answers: dict[str, bool] = state.get("answers", {})
        given = (params.input_responses or {}).get(_KEY)
        if "question" in state and isinstance(given, types.ElicitResult):
            self._answers[state["question"]] = _is_consent(given)

    def ask(self, question: str) -> bool | None:
        if question not in self._answers:
            raise AnswerNeeded(question, self._answers)
        return self._answers[question]


def _is_consent(result: types.ElicitResult) -> bool:
    return result.action == "accept" and (result.content or {}).get(_KEY) is True


_log = logging.getLogger("sonde.mcp")


def translate_error(error: Exception) -> dict[str, Any]:
    """The error result for a catalogued situation; anything else is raised as a protocol error."""
    if isinstance(error, CatalogError | TooManyRequests):
        return shape_answer(error.as_dict()) | {"isError": True}
    if isinstance(error, SondeError):
        code = INVALID_PARAMS if isinstance(error, InvalidRequest) else INTERNAL_ERROR
        if code == INTERNAL_ERROR:
            _log.error("%s", error.developer_message, exc_info=error)
        shown = f"{error.user_message} {error.next_action}"
        raise MCPError(code, shown, error.as_dict()) from error
    # Details of a defect stay in the log: they may quote what was being read.
    _log.error("a tool failed unexpectedly", exc_info=error)
    unexpected = SondeError(f"unexpected {type(error).__name__}; see the log")
    shown = f"{unexpected.user_message} {unexpected.next_action}"
    raise MCPError(INTERNAL_ERROR, shown, unexpected.as_dict()) from error


def shape_answer(answer: dict[str, Any]) -> dict[str, Any]:
    """A tool result: the object, and the same object once more as minified JSON text."""
    text = dump_answer(answer)
    if "\ufffd" in text:
        answer = json.loads(text)
    return {
        "resultType": "complete",
        "content": [{"type": "text", "text": text}],
        "structuredContent": answer,
    }


def dump_answer(answer: Any) -> str:
    """Minified JSON that is Unicode throughout; a file name need not be."""
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text
