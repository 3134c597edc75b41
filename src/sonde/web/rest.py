"""REST: every route as an HTTP endpoint, errors as responses, and the OpenAPI document."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import anyio
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match
from starlette.routing import Route as HttpRoute
from starlette.types import Receive, Scope, Send

from sonde import errors
from sonde.mcp.async_calls import AsyncCalls, read_session_name
from sonde.mcp.calls import SCOPE_CALLER, SESSION_NAME, LazyApp
from sonde.mcp.listing import ToolLimits
from sonde.mcp.requests import dump_answer
from sonde.runtime.work import Work
from sonde.tools.route import Route
from sonde.types import Content, Json
from sonde.version import __version__

EVENTS = "text/event-stream"
COMMON_PARAMETERS = ("config", SESSION_NAME)
"""Query parameters of every address: preferences, which the guard reads, and a session name."""
_log = logging.getLogger("sonde.web")


def shape_error(error: Exception) -> JSONResponse:
    """The response for an exception of a verb or the guard."""
    if not isinstance(error, errors.SondeError):
        # Details of a defect stay in the log: they may quote what was being read.
        _log.error("a route failed unexpectedly", exc_info=error)
        error = errors.SondeError(f"unexpected {type(error).__name__}; see the log")
    if error.status == 500:
        _log.error("%s", error.developer_message)
    headers = {"cache-control": "no-store"}
    if isinstance(error, errors.TokenRequired):
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, errors.TooManyRequests):
        headers["retry-after"] = str(error.facts["seconds"])
    return JSONResponse(error.as_dict(), error.status, headers)


class RouteEndpoint:
    """One route as an ASGI application."""

    def __init__(
        self, route: Route, app: LazyApp, calls: AsyncCalls, limits: ToolLimits | None = None
    ) -> None:
        self._route = route
        self._limits = limits or ToolLimits()
        self._app = app
        self._calls = calls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            arguments = self._route.bind(self.read_texts(request), await self.read_object(request))
            self._limits.take(self._route.name, scope[SCOPE_CALLER].user)
            answer = await self._run(arguments, scope, receive)
        except Exception as error:  # noqa: BLE001 - the one place that turns errors into HTTP
            response: Response = self.refuse(error, request)
        else:
            response = _shape_answer(self._route, answer, request)
        await response(scope, receive, send)

    def read_texts(self, request: Request) -> dict[str, list[str]]:
        """The arguments in the path and the query string."""
        texts: dict[str, list[str]] = {}
        for name, value in request.query_params.multi_items():
            if name not in COMMON_PARAMETERS:
                texts.setdefault(name, []).append(value)
        # the path wins over the query string: a repeated name cannot redirect a request
        return texts | {name: [str(value)] for name, value in request.path_params.items()}

    async def read_object(self, request: Request) -> Json:
        """The arguments in the body."""
        body = await request.body()
        if not body:
            return {}
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            value = json.loads(body) if kind == "application/json" else None
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise errors.InvalidRequest(
                f"{kind or 'no content type'}, {len(body)} bytes",
                user_message="The body must be a JSON object, sent as application/json.",
            )
        return value

    def refuse(self, error: Exception, request: Request) -> Response:
        """The response for an exception."""
        return shape_error(error)

    async def _run(self, arguments: Json, scope: Scope, receive: Receive) -> Any:
        session = read_session_name(Request(scope))
        work = Work(caller=replace(scope[SCOPE_CALLER], session=session))

        def run_verb(_work: Work) -> Any:
            return self._route.call(self._app.get(work.caller), **arguments, work=work)

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            work.cancel()

        answer: Any = None
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            try:
                what = (self._route.name, arguments)
                answer = await self._calls.run_work(run_verb, work, what)
            except Exception as error:  # noqa: BLE001 - raised again outside, where no group wraps it
                failure = error
            group.cancel_scope.cancel()
        if failure:
            raise failure
        return answer


def _shape_answer(route: Route, answer: Any, request: Request) -> Response:
    if isinstance(answer, Response):
        return answer
    content = answer if isinstance(answer, Content) else Content(dump_answer(answer), route.mime)
    body = content.body.encode() if isinstance(content.body, str) else content.body
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"etag": etag, "cache-control": "private, no-cache"}
    tags = request.headers.get("if-none-match", "").split(",")
    given = [tag.strip().removeprefix("W/") for tag in tags if tag.strip()]
    if route.method == "GET" and (etag in given or given == ["*"]):
        return Response(status_code=304, headers=headers)
    return Response(body, route.status, headers, content.mime)


_ERROR_FIELDS = ("code", "userMessage", "developerMessage", "nextAction")
_ERROR = {
    "type": "object",
    "required": list(_ERROR_FIELDS),
    "properties": {name: {"type": "string"} for name in _ERROR_FIELDS},
}
_REFUSAL = {
    "description": "What went wrong and what to do",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}


_FILES = {"type": "array", "items": {"type": "string", "format": "binary"}}
_FIELDS = {"file": _FILES, **{name: {"type": "string"} for name in ("source", "into", "restore")}}
_FORM = {"type": "object", "properties": _FIELDS, "required": ["file"]}
_UPLOAD: Json = {
    "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}
}


class DescribedRoute(HttpRoute):
    """A route that is not a verb and describes its own answers: media type -> meaning."""

    def __init__(
        self,
        path: str,
        endpoint: Any,
        summary: str,
        answers: Mapping[str, str],
        *,
        upload: bool = False,
    ) -> None:
        super().__init__(path, endpoint, methods=["POST"] if upload else ["GET"])
        self.summary = summary
        self.answers = answers
        """Empty for an address that only pages use."""
        self.upload = upload
        """Whether files are sent to it, as a form."""

    def describe(self) -> Json:
        """Its part of the OpenAPI document."""
        return (_UPLOAD if self.upload else {}) | {
            "summary": self.summary,
            "parameters": [
                {
                    "name": name,
                    "in": "path",
                    "required": True,
                    "schema": {"type": "string", "minLength": 1, "maxLength": 64},
                }
                for name in self.param_convertors
            ],
            "responses": {
                "202" if self.upload else "200": {
                    "description": self.summary,
                    "content": {
                        kind: {"schema": {"description": about}}
                        for kind, about in self.answers.items()
                    },
                },
                "default": _REFUSAL,
            },
        }


class StreamRoute(DescribedRoute):
    """An event stream at the address of a verb, for clients that accept one."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether it answers this request."""
        match, inner = super().matches(scope)
        wanted = scope["type"] == "http" and EVENTS in Headers(scope=scope).get("accept", "")
        return (match, inner) if wanted else (Match.NONE, {})


def describe_routes(routes: Iterable[Route], added: Iterable[BaseRoute] = ()) -> Json:
    """The OpenAPI document."""
    paths: dict[str, Json] = {}
    for route in routes:
        path = "/api/" + route.address.replace(":path}", "}")
        paths.setdefault(path, {})[route.method.lower()] = _describe(route)
    for one in added:
        if isinstance(one, StreamRoute):
            answers = one.describe()["responses"]["200"]["content"]
            paths[one.path]["get"]["responses"]["200"]["content"] |= answers
        elif isinstance(one, DescribedRoute) and one.answers:
            paths[one.path] = {"post" if one.upload else "get": one.describe()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "sonde", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _describe(route: Route) -> Json:
    fields = {field.replace("_", "").lower(): field for field in route.fields}
    parameters, properties, required = [], {}, []
    for argument in route.arguments:
        field = fields.get(argument.name.replace("_", ""))
        schema = {k: v for k, v in argument.full_schema.items() if k != "description"}
        if field or route.method in ("GET", "DELETE"):
            parameters.append(
                {
                    "name": field or argument.name,
                    "in": "path" if field else "query",
                    "required": bool(field) or argument.required,
                    "description": argument.param.description,
                    "schema": schema,
                }
            )
            continue
        if argument.nullable:  # in a body, unlike in an address, null can be written
            schema["type"] = [schema["type"], "null"]
            if "enum" in schema:
                schema["enum"] = [*schema["enum"], None]
        properties[argument.name] = schema | {"description": argument.param.description}
        if argument.required:
            required.append(argument.name)
    answer = route.answer if route.mime == "application/json" else {"type": "string"}
    operation: Json = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            str(route.status): {
                "description": route.summary,
                "content": {route.mime: {"schema": answer}},
            },
            "default": _REFUSAL,
        },
    }
    if properties:
        body = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
        content = {"application/json": {"schema": body}}
        operation["requestBody"] = {"required": bool(required), "content": content}
    return operation
