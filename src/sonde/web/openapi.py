"""ROUTES -> the OpenAPI document: every address, argument, answer and error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.routing import BaseRoute
from starlette.routing import Route as HttpRoute

from sonde.tools.route import Route
from sonde.version import __version__

_ERROR = {
    "type": "object",
    "required": ["code", "userMessage", "developerMessage", "nextAction"],
    "properties": {
        name: {"type": "string"}
        for name in ("code", "userMessage", "developerMessage", "nextAction")
    },
}
_REFUSAL = {
    "description": "What went wrong and what to do",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}


class DescribedRoute(HttpRoute):
    """A route that is no verb and says itself what it answers: media type -> what it is."""

    def __init__(self, path: str, endpoint: Any, summary: str, answers: Mapping[str, str]) -> None:
        super().__init__(path, endpoint)
        self.summary = summary
        self.answers = answers

    def describe(self) -> dict[str, Any]:
        """Its part of the document."""
        return {
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
                "200": {
                    "description": self.summary,
                    "content": {
                        kind: {"schema": {"description": about}}
                        for kind, about in self.answers.items()
                    },
                },
                "default": _REFUSAL,
            },
        }


def describe_routes(routes: Iterable[Route], added: Iterable[BaseRoute] = ()) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = "/api/" + route.address.replace(":path}", "}")
        paths.setdefault(path, {})[route.method.lower()] = _describe(route)
    for one in added:
        if isinstance(one, DescribedRoute):
            paths[one.path] = {"get": one.describe()}
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


def _describe(route: Route) -> dict[str, Any]:
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
    said: dict[str, Any] = {
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
        said["requestBody"] = {"required": bool(required), "content": content}
    return said
