"""sonde's HTTP server with what the conformance suite calls put on it.

The suite calls names of its own (`test_image_content`). They stand in front of the real tools and
answer through the same application, server, transports and guard.

Run: python tests/conformance/fixture_server.py PORT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import mcp_types as types
from fixtures import OWN, PROMPTS, RAW, RICH_SCHEMA, STATIC, Answer, form
from mcp.server import Server

from sonde.mcp.listing import Listing
from sonde.mcp.server import Context
from sonde.settings import load_settings
from sonde.tools import ROUTES, TOOLS
from sonde.web.application import build_application, serve_http
from sonde.web.guard import Access
from sonde.wiring import build_app


class Mounted:
    """The suite's names in front of a server's own handlers."""

    def __init__(self, server: Server[Any]) -> None:
        paged = types.PaginatedRequestParams
        methods: dict[str, tuple[Any, Any]] = {
            "tools/list": (paged, self.list_tools),
            "tools/call": (types.CallToolRequestParams, self.call_tool),
            "resources/list": (paged, self.list_resources),
            "resources/templates/list": (paged, self.list_templates),
            "resources/read": (types.ReadResourceRequestParams, self.read),
            "prompts/list": (paged, self.list_prompts),
            "prompts/get": (types.GetPromptRequestParams, self.get_prompt),
            "resources/subscribe": (types.SubscribeRequestParams, self.accept),
            "resources/unsubscribe": (types.UnsubscribeRequestParams, self.accept),
            "logging/setLevel": (types.SetLevelRequestParams, self.accept),
        }
        self._own: dict[str, Any] = {}
        for method, (params, handler) in methods.items():
            entry = server.get_request_handler(method)
            if entry is not None:
                self._own[method] = entry.handler
            server.add_request_handler(method, params, handler)

    async def list_tools(self, ctx: Context, params: Any) -> Answer:
        plain = {"type": "object", "properties": {}}
        raw = [
            {
                "name": name,
                "description": "For the suite.",
                "inputSchema": RICH_SCHEMA if name.startswith("json_") else plain,
            }
            for name in RAW
        ]
        listed = await self._own["tools/list"](ctx, params)
        entries = json.loads(json.dumps(listed["tools"]))
        for entry in entries:
            if entry["name"] == "test_x_mcp_header":
                entry["inputSchema"]["properties"]["region"]["x-mcp-header"] = "Region"
        return {"resultType": "complete", "tools": [*entries, *raw]}

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        return await RAW.get(params.name, self._own["tools/call"])(ctx, params)

    async def list_prompts(self, _ctx: Context, _params: Any) -> Answer:
        rows = [
            {
                "name": name,
                "description": "For the suite.",
                "arguments": [{"name": a, "required": True} for a in arguments],
            }
            for name, (arguments, _) in PROMPTS.items()
        ]
        return {"resultType": "complete", "prompts": rows, "ttlMs": 0, "cacheScope": "public"}

    async def get_prompt(self, _ctx: Context, params: types.GetPromptRequestParams) -> Any:
        if params.name == "test_input_required_result_prompt" and not params.input_responses:
            asked = {"user_context": form("Which context?", "context")}
            return types.InputRequiredResult(input_requests=asked)
        content = PROMPTS[params.name][1](dict(params.arguments or {}))
        messages = [{"role": "user", "content": block} for block in content]
        return {"resultType": "complete", "messages": messages}

    async def list_resources(self, ctx: Context, params: Any) -> Answer:
        listed = await self._own["resources/list"](ctx, params)
        rows = [{"uri": uri, "name": uri.rpartition("/")[2]} for uri in STATIC]
        return {"resultType": "complete", "resources": [*rows, *listed["resources"]]}

    async def list_templates(self, ctx: Context, params: Any) -> Answer:
        listed = await self._own["resources/templates/list"](ctx, params)
        row = {"uriTemplate": "test://template/{id}/data", "name": "template"}
        rows = [row, *listed["resourceTemplates"]]
        return {"resultType": "complete", "resourceTemplates": rows}

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> Any:
        uri = str(params.uri)
        found = STATIC.get(uri)
        if found is None and uri.startswith("test://template/"):
            words = json.dumps({"id": uri.split("/")[3], "templateTest": True})
            found = {"mimeType": "application/json", "text": words}
        if found is None:
            return await self._own["resources/read"](ctx, params)
        return {"resultType": "complete", "contents": [{"uri": uri, **found}]}

    async def accept(self, _ctx: Context, _params: Any) -> types.EmptyResult:
        return types.EmptyResult()


def main() -> None:
    home = Path(mkdtemp())
    settings = load_settings({}, home=home)
    listing = Listing((*OWN, *TOOLS), routes=ROUTES)
    access = Access(port=int(sys.argv[1]), rate_limit=0)
    app = build_application(
        lambda: build_app(settings, start=home, stays=True), listing, access, extend=Mounted
    )
    serve_http(app, access, lambda address: print(address, flush=True))


if __name__ == "__main__":
    main()
