"""Running verbs on an event loop, for MCP over HTTP and for REST, and naming their sessions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from starlette.requests import HTTPConnection

from sonde.mcp.calls import CALLS_PER_USER, SCOPE_SESSION, SESSION_NAME, Call, Calls, Record
from sonde.runtime.work import Work

MAX_SESSION_CHARS = 200
"""A session names itself in the address; it is kept in memory."""


class AsyncCalls(Calls):
    """Runs verbs in worker threads of an event loop, a limited number for each user."""

    def __init__(self, record: Record | None = None) -> None:
        super().__init__(record)
        self._turns: dict[str, anyio.CapacityLimiter] = {}  # of each user

    async def run_work(
        self, verb: Callable[[Work], Any], work: Work, what: Call | None = None
    ) -> Any:
        """Run a verb in a worker thread; cancelled with the task."""
        run = partial(self.run, verb, work, what)
        return await self.run_in_turn(run, work.caller.user, work.cancel)

    async def run_in_turn(
        self, run: Callable[[], Any], user: str, cancel: Callable[[], None]
    ) -> Any:
        """Run anything in a worker thread; `cancel` is called if the task is cancelled."""
        if user not in self._turns:
            self._turns[user] = anyio.CapacityLimiter(CALLS_PER_USER)
        try:
            async with self._turns[user]:
                return await anyio.to_thread.run_sync(run, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            cancel()
            raise


def read_session_name(request: HTTPConnection) -> str:
    """The session that a request names in its address or a header, or that its socket is."""
    named = request.query_params.get(SESSION_NAME) or request.scope.get(SCOPE_SESSION)
    return str(named or request.headers.get(SESSION_NAME, ""))[:MAX_SESSION_CHARS]
