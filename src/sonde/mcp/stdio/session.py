"""One client on a pipe or socket: its requests are read, answered and cancelled here.

The handshake and the listings are answered by the thread that reads, from the first line on. What
needs a verb goes to a few worker threads, as soon as the tools are imported.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from sonde.errors import Cancelled
from sonde.mcp.calls import (
    CALLS_PER_USER,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Calls,
    ClientRefusedError,
    LazyApp,
    ProtocolError,
    begin_soon,
)
from sonde.mcp.manifest import INSTRUCTIONS, LIST_TTL_MS, Lists
from sonde.mcp.stdio.protocol import (
    BATCH_VERSION,
    CAPABILITIES_KEY,
    CONNECTION_CLOSED,
    HANDSHAKE_VERSIONS,
    METHOD_NOT_FOUND,
    MODERN_VERSION,
    SERVER_CAPABILITIES,
    SERVER_INFO,
    VERSION_KEY,
    check_envelope,
    complete_result,
    describe_error,
    is_well_formed,
    malformed,
    read_capabilities,
)
from sonde.mcp.stdio.wire import INVALID_REQUEST, Wire, collect, is_id, parse_line
from sonde.types import Caller, Json

if TYPE_CHECKING:
    from sonde.mcp.calls import Closable
    from sonde.mcp.listing import Listing
    from sonde.mcp.requests import Requests

POLL_S = 1.0
"""Interval of checks whether the client is gone; another process may hold its end of stdin open."""
FINISH_S = 60.0
"""How long calls may go on after the end of input. A client that leaves sends it, and so does a
script that has asked everything; only one that wants no answers also closes its end of stdout, dies
or sends a signal, and then nothing is finished."""
STOP_S = 1.2
"""Time that running verbs have to stop; clients kill a server after about two seconds."""
STATE_S = 600
"""How long the state of a question is valid: a person has to answer it."""
_VERBS = {
    "tools/call": "call_tool",
    "resources/read": "read_resource",
    "completion/complete": "complete",
}
"""Requests that need a verb, and the method of `Requests` that answers them."""
_NO_REPLY = "the client has closed its end"
_log = logging.getLogger("sonde.mcp")

Send = Callable[[Json | None], None]
"""Sends an answer; None stands for one that is not given."""


class PipeRequest:
    """A request that is being answered, as the verb's `Client`."""

    def __init__(self, session: PipeSession, message: Json, send: Send) -> None:
        self.number, self.method = message["id"], message["method"]
        self.params: Json = message.get("params") or {}
        self.caller, self.cancelled = session.caller, threading.Event()
        self.meta: Json = {}
        self.capabilities: Json = {}
        self.is_modern = False
        self._session, self._send = session, send

    def answer(self, reply: Json | None) -> None:
        """Send the answer; None if there is to be none."""
        self._send(reply and {"jsonrpc": "2.0", "id": self.number, **reply})

    def report(self, progress: float, total: float | None, message: str) -> None:
        """Send a progress notification if the client gave a token for them."""
        token = (self.params.get("_meta") or {}).get("progressToken")
        if is_id(token):
            facts = {"progressToken": token, "progress": progress}
            facts |= {} if total is None else {"total": total}
            self._session.notify(self, "notifications/progress", {**facts, "message": message})

    def request(self, method: str, params: Json, timeout_s: float | None = None) -> Json:
        """Ask the client something during the call."""
        return self._session.ask(self, method, params, timeout_s)


class PipeSession:
    """One client. Requests are answered as soon as the session is created."""

    def __init__(
        self, wire: Wire, make_listing: Callable[[], Listing], early: Lists | None = None
    ) -> None:
        self._wire, self._make_listing = wire, make_listing
        self._made = None if early else make_listing()
        self._lists = self._made.lists if self._made else early or {}
        self.caller = Caller(session=secrets.token_hex(16))
        self._is_modern: bool | None = None
        """Whether the first request was one of 2026-07-28; later ones must be of its kind."""
        self._greeting: Json | None = None
        """The parameters of the handshake."""
        self._requests: Requests | None = None
        self._is_ready, self._has_left = threading.Event(), threading.Event()
        self._changed = threading.Condition()
        self._open: set[PipeRequest] = set()
        """Requests without an answer."""
        self._asked: dict[str, tuple[PipeRequest, Future[Json]]] = {}
        """Requests of ours, and the answers that verbs wait for."""
        self._last_asked = secrets.randbits(30)
        """Random at first: no late answer to an earlier session matches a request of this one."""
        self._workers = ThreadPoolExecutor(CALLS_PER_USER, "sonde-call")
        self._key = secrets.token_bytes(32)
        threading.Thread(target=self._read, name="sonde-stdin", daemon=True).start()

    def serve(
        self,
        open_app: Callable[[], Closable],
        begin: Callable[[Closable], None] | None = None,
        finish_s: float = FINISH_S,
    ) -> bool:
        """Serve until the client closes its end and has its answers, or is gone. Returns whether
        all its calls have stopped."""
        calls, app = Calls(), LazyApp(open_app)
        beginning = begin_soon(begin, app, self._has_left) if begin else None
        try:
            from sonde.mcp.requests import Requests

            self._requests = Requests(self._made or self._make_listing(), app, calls)
            self._is_ready.set()
            while not (self._has_left.wait(POLL_S) or self._wire.is_dead):
                pass
            deadline = time.monotonic() + finish_s
            with self._changed:
                while self._open and not self._wire.is_dead and time.monotonic() < deadline:
                    self._changed.wait(POLL_S)
        except KeyboardInterrupt:
            _log.info("interrupted")
        finally:
            self._end()
        stopped = calls.stop(STOP_S)
        if beginning:
            beginning.join(STOP_S)  # what it starts now, nobody would stop
        if stopped:
            app.close()
        self._wire.close()
        return stopped

    def notify(self, request: PipeRequest, method: str, params: Json) -> None:
        """Send a notification that belongs to a request, unless it is over."""
        with self._changed:
            if request in self._open:
                self._wire.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, request: PipeRequest, method: str, params: Json, timeout_s: float | None) -> Json:
        """Send a request to the client and wait for its answer."""
        reply: Future[Json] = Future()
        with self._changed:
            if request not in self._open:
                raise Cancelled("the client went away")
            if self._has_left.is_set():
                raise ClientRefusedError(_NO_REPLY)
            self._last_asked += 1
            number = self._last_asked
            self._asked[str(number)] = request, reply
            message = {"jsonrpc": "2.0", "id": number, "method": method}
            self._wire.send(message | ({"params": params} if params else {}))
        try:
            answer = reply.result(timeout_s)
        except (Cancelled, TimeoutError):
            what = {"requestId": number, "reason": "caller cancelled"}
            self._wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": what})
            raise
        finally:
            with self._changed:
                self._asked.pop(str(number), None)
        if "result" not in answer:
            raise ClientRefusedError(str(answer["error"]))
        return dict(answer["result"])

    def _read(self) -> None:
        """Take messages until the client closes its end; runs in its own thread."""
        try:
            for line in self._wire.read_lines():
                self._take_line(line)
        finally:
            with self._changed:
                self._has_left.set()
                while self._asked:
                    self._asked.popitem()[1][1].set_exception(ClientRefusedError(_NO_REPLY))
                self._changed.notify_all()

    def _take_line(self, line: bytes) -> None:
        batches = (self._greeting or {}).get("protocolVersion") == BATCH_VERSION
        messages, refusals, together = parse_line(line, batches=batches)
        if refusals:
            _log.warning("refused a line that is not JSON-RPC (%d bytes)", len(line))
        send: Send = collect(self._wire.send, together) if together else self._wire.send
        for refusal in refusals:
            send(refusal)
        for message in messages:
            self._take_message(message, send)

    def _take_message(self, message: Json, send: Send) -> None:
        if "method" not in message:
            with self._changed:
                _, reply = self._asked.pop(str(message["id"]), (None, None))
                if reply:
                    reply.set_result(message)
        elif "id" in message:
            self._take_request(PipeRequest(self, message, send))
        elif message["method"] == "notifications/cancelled":
            self._cancel((message.get("params") or {}).get("requestId"))

    def _take_request(self, request: PipeRequest) -> None:
        method, params = request.method, request.params
        try:
            if not isinstance(params.get("_meta"), dict | None):
                raise malformed()
            self._identify(request)
            if not is_well_formed(method, params):
                raise malformed()
            if method not in _VERBS:
                result = complete_result(self._answer(request), is_modern=request.is_modern)
                request.answer({"result": result})
                return
            self._unseal(request)
        except ProtocolError as error:
            request.answer({"error": describe_error(error)})
            return
        with self._changed:
            self._open.add(request)
            with suppress(RuntimeError):  # it ends
                self._workers.submit(self._work, request)

    def _identify(self, request: PipeRequest) -> None:
        """Set the client of a request: from the handshake, or from the request itself."""
        meta = request.params.get("_meta") or {}
        is_enveloped = VERSION_KEY in meta and request.method != "initialize"
        if self._is_modern is None:
            self._is_modern = is_enveloped
        request.is_modern = self._is_modern
        if self._is_modern:
            check_envelope(request.method, request.params)
            request.capabilities = read_capabilities(meta[CAPABILITIES_KEY])
        elif is_enveloped:
            raise ProtocolError(
                INVALID_REQUEST,
                "this connection serves the handshake protocol era; "
                "requests carrying the 2026-07-28 envelope are not accepted on it",
            )
        elif self._greeting:
            request.capabilities = read_capabilities(self._greeting["capabilities"])
            request.meta = self._greeting.get("_meta") or {}
        own = ("server/discover",) if self._is_modern else ("initialize", "ping")
        if request.method not in (*own, *_VERBS, *self._lists):
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found", request.method)
        if not (self._is_modern or self._greeting or request.method in own):
            raise ProtocolError(INVALID_PARAMS, "Send `initialize` first", "")

    def _answer(self, request: PipeRequest) -> Json:
        """The result of a request that needs no verb."""
        method, params = request.method, request.params
        if method == "ping":
            return {}
        if method == "initialize":
            self._greeting = params
            version = params["protocolVersion"]
            return {
                "capabilities": SERVER_CAPABILITIES,
                "instructions": INSTRUCTIONS,
                "protocolVersion": version if version in HANDSHAKE_VERSIONS else "2025-11-25",
                "serverInfo": SERVER_INFO,
            }
        found = self._lists.get(method) or {
            "supportedVersions": [MODERN_VERSION],
            "capabilities": SERVER_CAPABILITIES,
            "instructions": INSTRUCTIONS,
        }
        return {"resultType": "complete", "ttlMs": LIST_TTL_MS, "cacheScope": "public", **found}

    def _work(self, request: PipeRequest) -> None:
        """Answer a request that needs a verb, in a worker thread."""
        self._is_ready.wait()
        if not self._requests:
            return  # it ends before it has begun
        self._wire.wait_for_reader()
        reply = self._run(request, getattr(self._requests, _VERBS[request.method]))
        with self._changed:
            if request in self._open:
                self._open.remove(request)
                request.answer(reply)
                self._changed.notify_all()

    def _run(self, request: PipeRequest, answer: Callable[[PipeRequest, Json], Json]) -> Json:
        try:
            result = answer(request, request.params)
        except ProtocolError as error:
            return {"error": describe_error(error)}
        except Exception:  # noqa: BLE001 - a defect costs one request
            _log.exception("%s failed", request.method)
            return {"error": {"code": INTERNAL_ERROR, "message": "Internal server error"}}
        if "requestState" in result:
            result["requestState"] = self._seal(request, result["requestState"])
        if request.method == "resources/read":
            result = {"ttlMs": 0, "cacheScope": "private", **result}
        return {"result": complete_result(result, is_modern=request.is_modern)}

    def _cancel(self, number: object) -> None:
        """Stop working on a request; it is not answered. Some clients cancel 7 as "7"."""
        with self._changed:
            named = [each for each in self._open if str(each.number) == str(number)]
            request = min(named, key=lambda each: each.number != number, default=None)
            if request:
                self._open.remove(request)
                self._stop(request)
                request.answer(None)

    def _stop(self, request: PipeRequest) -> None:
        request.cancelled.set()
        for number, (asking, reply) in [*self._asked.items()]:
            if asking is request:
                del self._asked[number]
                reply.set_exception(Cancelled("the client went away"))

    def _end(self) -> None:
        """Answer what is open, and let all threads end."""
        self._has_left.set()
        error = {"code": CONNECTION_CLOSED, "message": "Connection closed"}
        with self._changed:
            for request in self._open:
                self._stop(request)
                request.answer({"error": error})
            self._open.clear()
        self._workers.shutdown(wait=False, cancel_futures=True)
        self._is_ready.set()

    # The state of a question passes through the client: it is valid for that call only.

    def _seal(self, request: PipeRequest, state: str) -> str:
        from sonde.paging.cursor import seal

        return seal([state, time.time() + STATE_S], _describe_call(request), self._key)

    def _unseal(self, request: PipeRequest) -> None:
        sealed = request.params.get("requestState")
        if sealed is None:
            return
        from sonde.paging.cursor import BrokenSealError, unseal

        try:
            state, until = unseal(sealed, _describe_call(request), self._key)
        except (BrokenSealError, AttributeError, TypeError):
            until = 0.0
        if time.time() > until:
            data = {"reason": "invalid_request_state"}
            raise ProtocolError(INVALID_PARAMS, "Invalid or expired requestState", data)
        request.params = request.params | {"requestState": state}


def _describe_call(request: PipeRequest) -> str:
    params = request.params
    what = [request.method, params.get("name"), params.get("arguments") or {}, params.get("uri")]
    return json.dumps(what, sort_keys=True)
