"""The tools, prompts and resources that the conformance suite calls, by its names.

What sonde has too (text, errors, progress) is declared as sonde's own tools are; the rest speaks
to the SDK.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, TypedDict

import mcp_types as types
from mcp.shared.exceptions import MCPError

from sonde.errors import FileMissing
from sonde.mcp.server import Context
from sonde.runtime.work import Work
from sonde.tools.tool import Param, Tool
from sonde.types import Progress

Answer = dict[str, Any]


def make_png() -> str:
    """One red pixel."""

    def piece(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0\xff\0\0")
    parts = (piece(b"IHDR", header), piece(b"IDAT", pixels), piece(b"IEND", b""))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()


def make_wav() -> str:
    """One silent sample."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16)
    data = b"data" + struct.pack("<I", 2) + b"\0\0"
    body = b"WAVE" + form + data
    return base64.b64encode(b"RIFF" + struct.pack("<I", len(body)) + body).decode()


IMAGE = {"type": "image", "data": make_png(), "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": make_wav(), "mimeType": "audio/wav"}


def text(words: str) -> Answer:
    return {"type": "text", "text": words}


def resource(uri: str, words: str, mime: str = "text/plain") -> Answer:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": words}}


def answer(*content: Answer) -> Answer:
    return {"resultType": "complete", "content": list(content)}


# What sonde has: declared as its own tools are.


class Said(TypedDict):
    """Words."""

    text: str


def say_text(app: object, *, work: Work) -> Said:
    return {"text": "This is a simple text response for testing."}


def fail(app: object, *, work: Work) -> Said:
    raise FileMissing("This tool intentionally returns an error for testing", path="none")


def count(app: object, *, work: Work) -> Said:
    for done in (0, 50, 100):
        work.report(Progress("count", done, 100, f"Completed step {done} of 100"))
        if done == 50:
            work.report(Progress("rest", 1, 50))
    return {"text": "done"}


def read_region(
    app: object,
    region: Annotated[str, Param("Also sent as the header Mcp-Param-Region")] = "none",
    *,
    work: Work,
) -> Said:
    return {"text": region}


OWN = (
    Tool("test_simple_text", say_text, "code", "Text", "Says something."),
    Tool("test_error_handling", fail, "code", "Error", "Fails."),
    Tool("test_tool_with_progress", count, "code", "Progress", "Counts."),
    Tool("test_x_mcp_header", read_region, "code", "Header", "Repeats a header."),
)


# What sonde does not have: straight to the SDK.


async def give(content: list[Answer], _ctx: Context, _params: Any) -> Answer:
    return answer(*content)


async def log(ctx: Context, _params: Any) -> Answer:
    for words in ("started", "processing", "completed"):
        await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)
    return answer(text("logged"))


async def sample(ctx: Context, params: types.CallToolRequestParams) -> Answer:
    words = types.TextContent(type="text", text=(params.arguments or {})["prompt"])
    result = await ctx.session.create_message(
        [types.SamplingMessage(role="user", content=words)],
        max_tokens=100,
        related_request_id=ctx.request_id,
    )
    return answer(text(f"LLM response: {getattr(result.content, 'text', '')}"))


async def elicit(schema: Answer, ctx: Context, params: types.CallToolRequestParams) -> Answer:
    message = (params.arguments or {}).get("message", "Please fill this in")
    result = await ctx.session.elicit_form(message, schema, ctx.request_id)
    return answer(text(f"action={result.action}, content={json.dumps(result.content)}"))


async def need_sampling(ctx: Context, _params: Any) -> Answer:
    declared = ctx.session.client_capabilities
    if declared is None or declared.sampling is None:
        needed = {"requiredCapabilities": {"sampling": {}}}
        code = types.MISSING_REQUIRED_CLIENT_CAPABILITY
        raise MCPError(code, "This tool needs sampling", needed)
    return answer(text("sampling is there"))


def form(message: str, field: str, kind: str = "string") -> types.ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(message=message, requested_schema=schema)
    )


def prompt_model(words: str) -> types.CreateMessageRequest:
    content = types.TextContent(type="text", text=words)
    message = types.SamplingMessage(role="user", content=content)
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=50)
    )


ROOTS = types.ListRootsRequest()
ASKED: dict[str, tuple[dict[str, Any], str | None]] = {
    "elicitation": ({"user_name": form("What is your name?", "name")}, None),
    "sampling": ({"capital_question": prompt_model("What is the capital of France?")}, None),
    "list_roots": ({"client_roots": ROOTS}, None),
    "request_state": ({"confirm": form("Please confirm", "ok", "boolean")}, "nonce"),
    "tampered_state": ({"confirm": form("Please confirm", "ok", "boolean")}, "round-1"),
    "multiple_inputs": (
        {
            "user_name": form("What is your name?", "name"),
            "greeting": prompt_model("Generate a greeting"),
            "client_roots": ROOTS,
        },
        "several",
    ),
}
"""What each tool asks for, and the state that must come back with the answers."""


async def require(asked: dict[str, Any], state: str | None, _ctx: Context, params: Any) -> Any:
    given = params.input_responses or {}
    if set(asked) <= set(given) and params.request_state == state:
        return answer(text(f"state-ok: {sorted(given)}"))
    return types.InputRequiredResult(input_requests=asked, request_state=state)


async def require_in_rounds(_ctx: Context, params: Any) -> Any:
    given, state = params.input_responses or {}, params.request_state
    if state == "after-1" and "step1" in given:
        color = {"step2": form("Step 2: What is your favorite color?", "color")}
        return types.InputRequiredResult(input_requests=color, request_state="after-2")
    if state == "after-2" and "step2" in given:
        return answer(text("both steps are done"))
    name = {"step1": form("Step 1: What is your name?", "name")}
    return types.InputRequiredResult(input_requests=name, request_state="after-1")


async def require_what_is_offered(ctx: Context, _params: Any) -> Any:
    offered = ctx.session.client_capabilities
    asked: dict[str, Any] = {}
    if offered and offered.sampling is not None:
        asked["sample"] = prompt_model("Say hello")
    if offered and offered.elicitation is not None:
        asked["ask"] = form("What is your name?", "name")
    return types.InputRequiredResult(input_requests=asked, request_state="gated")


def choose(*names: str, title: str = "") -> list[Answer]:
    return [{"const": name, "title": f"{title}{name}"} for name in names]


DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
}
ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": choose("low", "high", title="Priority ")},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["read", "write"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": choose("bug", "docs", title="A ")}},
        "legacyEnum": {
            "type": "string",
            "enum": ["small", "large"],
            "enumNames": ["Small Size", "Large Size"],
        },
    },
}
REPLY = {"type": "object", "properties": {"response": {"type": "string"}}, "required": ["response"]}
RICH_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

RAW: dict[str, Callable[[Context, Any], Awaitable[Any]]] = {
    "test_image_content": partial(give, [IMAGE]),
    "test_audio_content": partial(give, [AUDIO]),
    "test_embedded_resource": partial(give, [resource("test://embedded-resource", "embedded")]),
    "test_multiple_content_types": partial(
        give,
        [
            text("Several kinds of content:"),
            IMAGE,
            resource("test://mixed-content-resource", '{"test":"data"}', "application/json"),
        ],
    ),
    "test_tool_with_logging": log,
    "test_logging_tool": log,
    "test_sampling": sample,
    "test_elicitation": partial(elicit, REPLY),
    "test_elicitation_sep1034_defaults": partial(elicit, DEFAULTS),
    "test_elicitation_sep1330_enums": partial(elicit, ENUMS),
    "test_missing_capability": need_sampling,
    "test_streaming_elicitation": partial(require, *ASKED["elicitation"]),
    **{
        f"test_input_required_result_{name}": partial(require, *asked)
        for name, asked in ASKED.items()
    },
    "test_input_required_result_multi_round": require_in_rounds,
    "test_input_required_result_capabilities": require_what_is_offered,
    "json_schema_2020_12_tool": partial(give, [text("no more than a schema")]),
}
PROMPTS: dict[str, tuple[tuple[str, ...], Callable[[Answer], list[Answer]]]] = {
    "test_simple_prompt": ((), lambda _: [text("This is a simple prompt for testing.")]),
    "test_prompt_with_arguments": (
        ("arg1", "arg2"),
        lambda given: [text(f"Prompt with arguments: '{given['arg1']}', '{given['arg2']}'")],
    ),
    "test_prompt_with_embedded_resource": (
        ("resourceUri",),
        lambda given: [resource(given["resourceUri"], "embedded"), text("Read this.")],
    ),
    "test_prompt_with_image": ((), lambda _: [IMAGE, text("Look at this.")]),
    "test_input_required_result_prompt": ((), lambda _: [text("With the context given.")]),
}
STATIC: dict[str, Answer] = {
    "test://static-text": {"mimeType": "text/plain", "text": "A text that stays."},
    "test://static-binary": {"mimeType": "image/png", "blob": IMAGE["data"]},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched."},
}
