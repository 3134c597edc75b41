"""Requests that run a verb: calls of tools, resources and completions, and their errors.

A request is answered in the thread it comes in, with plain JSON or a `ProtocolError`; sessions
over pipes and the SDK's server over HTTP both answer through here.
"""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from sonde.errors import CatalogError, InvalidRequest, NoSuchAddress, SondeError, TooManyRequests
from sonde.mcp.calls import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    AnswerNeeded,
    Calls,
    Client,
    LazyApp,
    ProtocolError,
    make_work,
)
from sonde.mcp.listing import Listing
from sonde.runtime.work import Work
from sonde.tools.route import find_route
from sonde.tools.tool import bind_arguments, find_tool
from sonde.types import Content, Json

MAX_COMPLETIONS = 100
"""The protocol's limit."""
NOT_FOUND_BEFORE_2026 = -32002
"""The error code for a missing resource in protocol versions before 2026-07-28."""
_log = logging.getLogger("sonde.mcp")

Observe = Callable[[str, str, float], None]
"""Called for every call with the tool, its outcome and its seconds."""


class Requests:
    """The requests of all clients of one app."""

    def __init__(
        self, listing: Listing, app: LazyApp, calls: Calls, observe: Observe = lambda *_: None
    ) -> None:
        self._listing, self._app, self._calls = listing, app, calls
        self._observe = observe

    def call_tool(self, client: Client, params: Json) -> Json:
        """The result of a call of a tool."""
        began, name, outcome = time.perf_counter(), "unknown", "ok"
        try:
            tool = find_tool(self._listing.tools, params["name"])
            name = tool.name
            arguments = bind_arguments(tool, params.get("arguments") or {})
            self._listing.limits.take(name, client.caller.user)

            def run_verb(work: Work) -> Any:
                return tool.call(self._app.get(work.caller), **arguments, work=work)

            work = make_work(client, params)
            return shape_answer(self._calls.run(run_verb, work, (name, arguments)))
        except AnswerNeeded as needed:
            outcome = "asked"
            return needed.result
        except Exception as error:  # noqa: BLE001 - the one place that turns errors into protocol
            outcome = getattr(error, "code", "defect")
            return error_result(error)
        finally:
            if client.cancelled.is_set():
                outcome = "cancelled"
            self._observe(name, outcome, time.perf_counter() - began)

    def read_resource(self, client: Client, params: Json) -> Json:
        """The content at an address."""
        uri = params["uri"]
        try:
            route, texts = find_route(self._listing.routes, uri)
            arguments = route.bind(texts)
            self._listing.limits.take(route.name, client.caller.user)
            answer = self._calls.run(
                lambda work: route.call(self._app.get(work.caller), **arguments, work=work),
                Work(cancelled=client.cancelled, caller=client.caller),
                (route.name, arguments),
            )
        except (CatalogError, NoSuchAddress, TooManyRequests) as error:
            # resources, unlike tools, have no error results
            code = INVALID_PARAMS if client.is_modern else NOT_FOUND_BEFORE_2026
            raise protocol_error(error, code) from error
        except Exception as error:
            raise protocol_error(error) from error
        if not isinstance(answer, Content):
            answer = Content(dump_answer(answer), route.mime)
        body = {"text": answer.body}
        if isinstance(answer.body, bytes):
            body = {"blob": base64.b64encode(answer.body).decode()}
        contents = [{"uri": uri, "mimeType": answer.mime, **body}]
        return {"resultType": "complete", "contents": contents}

    def complete(self, client: Client, params: Json) -> Json:
        """Values that start with what a person has typed."""
        template, typed = params["ref"].get("uri"), params["argument"]
        given = (params.get("context") or {}).get("arguments") or {}
        routes = (route for route in self._listing.routes if route.template == template)
        complete = next((route.complete for route in routes if route.complete), None)
        values: Sequence[str] = ()
        if complete:
            with suppress(CatalogError, InvalidRequest):  # incomplete input is no error
                values = self._calls.run(
                    lambda work: complete(
                        self._app.get(work.caller), typed["name"], typed["value"], given
                    ),
                    Work(cancelled=client.cancelled, caller=client.caller),
                )
        shown = list(values[:MAX_COMPLETIONS])
        completion = {"values": shown, "hasMore": len(values) > len(shown)}
        return {"resultType": "complete", "completion": completion}


def protocol_error(error: Exception, code: int | None = None) -> ProtocolError:
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
    return ProtocolError(code, f"{error.user_message} {error.next_action}", error.as_dict())


def error_result(error: Exception) -> Json:
    """The error result for a catalogued situation; raises a protocol error for anything else."""
    if isinstance(error, CatalogError | TooManyRequests):
        return shape_answer(error.as_dict()) | {"isError": True}
    raise protocol_error(error) from error


def shape_answer(answer: Json) -> Json:
    """A tool result: the object, and the same object as minified JSON text.

    Clients read one or the other, so it is written twice.
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
