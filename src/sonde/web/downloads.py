"""File downloads with ranges, and the event stream of a job."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Semaphore
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from sonde.app import App
from sonde.disk.scope import find_node, place_node
from sonde.errors import NodeMissing, TooManyRequests
from sonde.mcp.calls import SCOPE_CALLER
from sonde.mcp.requests import dump_answer
from sonde.policy.read import ShownFile, open_shown
from sonde.runtime.work import Work
from sonde.tools.index import read_job
from sonde.types import Caller, Json
from sonde.web.application import Parts
from sonde.web.rest import EVENTS, DescribedRoute, StreamRoute, shape_error

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
POLL_INTERVAL_S = 0.25
"""How often a job is read for its event stream; fast enough for a progress bar."""
MAX_STREAMS = 32
"""Open event streams of one user: more than a browser and its agents need, few to read often."""
KEEP_ALIVE_S = 15.0
"""A comment is sent after this long without events, below the idle timeout of common proxies."""


def add_file_routes(parts: Parts) -> Sequence[BaseRoute]:
    """The routes of downloads and events."""
    open_events = partial(_open_events, dict[str, Semaphore]())
    return (
        DescribedRoute(
            "/api/indexes/{indexId}/nodes/{nodeId}/download",
            partial(_answer, _open_download, parts),
            "A file, or the bytes of it that `Range` asks for",
            {"*/*": "its bytes, with the type that its name says"},
        ),
        *(
            kind(
                f"/api/jobs/{{jobId}}{end}",
                partial(_answer, open_events, parts),
                "A job whenever it changes, until it has ended",
                {EVENTS: "events `progress` and `end`; the data is the job"},
            )
            for kind, end in ((DescribedRoute, "/events"), (StreamRoute, ""))
        ),
    )


async def _answer(
    open_: Callable[[Parts, Request], Response], parts: Parts, request: Request
) -> Response:
    try:
        return await anyio.to_thread.run_sync(open_, parts, request)
    except Exception as error:  # noqa: BLE001 - becomes a response, as in rest.py
        return shape_error(error)


def _open_download(parts: Parts, request: Request) -> Response:
    caller = request.scope[SCOPE_CALLER]
    app: App = parts.app.get(caller)
    handle = request.path_params["nodeId"]
    index, node = find_node(app.disk, caller, handle, request.path_params["indexId"])
    place = place_node(app.disk, index, node)
    if not place.names:
        raise NodeMissing("a folder has no contents", what="file", path=handle)
    file = open_shown(Path(index.root), place.inner_path)
    etag = f'"{file.mtime_ns:x}-{file.size:x}"'
    name = quote(node.name.encode("utf-8", "surrogateescape"), safe="")
    headers = {
        "etag": etag,
        "accept-ranges": "bytes",
        "cache-control": "private, no-cache",
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox; default-src 'none'",
    }
    if etag in request.headers.get("if-none-match", ""):
        file.close()
        return Response(status_code=304, headers=headers)
    found = _read_range(request, file, etag)
    if found is None:
        file.close()
        return Response(status_code=416, headers={"content-range": f"bytes */{file.size}"})
    start, end = found
    is_part = "range" in request.headers and (start, end) != (0, file.size)
    if is_part:
        headers["content-range"] = f"bytes {start}-{end - 1}/{file.size}"
    headers["content-length"] = str(end - start)
    mime = mimetypes.guess_type(node.name)[0] or "application/octet-stream"
    pieces = file.read(start, end)
    try:
        # The first part is read at once, so that a secret in it is refused; a secret in a later
        # part cuts the response short, which its length reveals.
        body = (b"",) if request.method == "HEAD" else chain((next(pieces, b""),), pieces)
    except BaseException:
        file.close()
        raise
    return _Stream(file.close, body, 206 if is_part else 200, headers, media_type=mime)


def _read_range(request: Request, file: ShownFile, etag: str) -> tuple[int, int] | None:
    """The requested bytes; all if no valid range is given, None if the range is beyond the end."""
    whole = (0, file.size)
    part = _RANGE.fullmatch(request.headers.get("range", ""))
    if part is None or not (part[1] or part[2]) or request.headers.get("if-range", etag) != etag:
        return whole
    if not part[1]:
        length = int(part[2])
        return (max(file.size - length, 0), file.size) if length and file.size else None
    start = int(part[1])
    end = min(int(part[2]) + 1, file.size) if part[2] else file.size
    if part[2] and int(part[2]) < start:
        return whole
    return (start, end) if start < file.size else None


class _Stream(StreamingResponse):
    """A streamed response that releases its resource even if the client disconnects."""

    def __init__(self, close: Callable[[], None], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()


def _open_events(turns: dict[str, Semaphore], parts: Parts, request: Request) -> Response:
    caller = request.scope[SCOPE_CALLER]
    app: App = parts.app.get(caller)
    handle = request.path_params["jobId"]
    _read(app, handle, caller)
    turn = turns.setdefault(caller.user, Semaphore(MAX_STREAMS))
    if not turn.acquire(blocking=False):
        raise TooManyRequests(f"{MAX_STREAMS} event streams of {caller.user}", seconds=1)
    return _Stream(
        turn.release,
        _follow(parts, handle, caller),
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        media_type=EVENTS,
    )


async def _follow(parts: Parts, handle: str, caller: Caller) -> AsyncIterator[str]:
    """An event whenever the job changes, until it or the server ends."""
    shown, quiet = "", 0.0
    while True:
        answer = await anyio.to_thread.run_sync(_read, parts.app.get(caller), handle, caller)
        text = dump_answer(answer)
        ended = answer["status"] != "running"
        if text != shown:
            yield f"event: {'end' if ended else 'progress'}\ndata: {text}\n\n"
            shown, quiet = text, 0.0
        if ended or parts.ending.is_set():
            return
        if quiet >= KEEP_ALIVE_S:
            yield ": still running\n\n"
            quiet = 0.0
        with anyio.move_on_after(POLL_INTERVAL_S):
            await parts.ending.wait()
        quiet += POLL_INTERVAL_S


def _read(app: App, handle: str, caller: Caller) -> Json:
    return read_job(app, handle, work=Work(caller=caller))
