"""The four ways in which agents talk to a model: what a request says, and how to answer it.

A dialect reads a request into `Heard` and writes a `Reply` as the stream of events that the
agent expects. Nothing here knows what the conversation is about.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = dict[str, Any]
MODEL = "scripted"


@dataclass(frozen=True)
class Result:
    """What came back from one call, as the model gets to read it."""

    call: str
    text: str


@dataclass(frozen=True)
class Heard:
    """One request, in any dialect: the tools on offer and what has happened so far."""

    tools: dict[str, Json]
    """Name -> its definition as it was sent."""
    results: list[Result]
    stream: bool
    raw: Json = field(repr=False)


@dataclass(frozen=True)
class Reply:
    """Some words, or a call of a tool."""

    text: str = ""
    call: str = ""
    tool: str = ""
    arguments: Json = field(default_factory=dict)


class Dialect(Protocol):
    """One API."""

    def hear(self, path: str, body: Json, /) -> Heard: ...

    def say(self, reply: Reply, heard: Heard, /) -> tuple[str, Iterator[bytes]]: ...


def join_text(content: Any) -> str:
    """The text in a message's content, whatever shape it has; other blocks as JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(
            block.get("text", json.dumps(block)) if isinstance(block, dict) else str(block)
            for block in content
        )
    return json.dumps(content, ensure_ascii=False)


def _event(name: str | None, data: Json | str) -> bytes:
    body = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {body}\n\n".encode()


class Anthropic:
    """Messages API: Claude Code."""

    def hear(self, _path: str, body: Json) -> Heard:
        results = [
            Result(block["tool_use_id"], join_text(block.get("content", "")))
            for message in body.get("messages", [])
            if isinstance(message["content"], list)
            for block in message["content"]
            if block.get("type") == "tool_result"
        ]
        tools = {tool["name"]: tool for tool in body.get("tools", []) if "name" in tool}
        return Heard(tools, results, bool(body.get("stream")), body)

    def say(self, reply: Reply, heard: Heard) -> tuple[str, Iterator[bytes]]:
        block: Json = {"type": "text", "text": reply.text}
        if reply.tool:
            block = {
                "type": "tool_use", "id": reply.call, "name": reply.tool, "input": reply.arguments
            }  # fmt: skip
        stop = "tool_use" if reply.tool else "end_turn"
        usage = {"input_tokens": len(json.dumps(heard.raw)) // 4, "output_tokens": 20}
        message: Json = {
            "id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant",
            "model": heard.raw.get("model", MODEL), "content": [block], "stop_reason": stop,
            "stop_sequence": None, "usage": usage,
        }  # fmt: skip
        if not heard.stream:
            return "application/json", iter([json.dumps(message).encode()])
        return "text/event-stream", self._stream(message, block, stop)

    def _stream(self, message: Json, block: Json, stop: str) -> Iterator[bytes]:
        start = message | {"content": [], "stop_reason": None}
        yield _event("message_start", {"type": "message_start", "message": start})
        if block["type"] == "tool_use":
            empty: Json = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            empty = block | {"text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        for name, data in (
            ("content_block_start", {"index": 0, "content_block": empty}),
            ("content_block_delta", {"index": 0, "delta": delta}),
            ("content_block_stop", {"index": 0}),
            (
                "message_delta",
                {
                    "delta": {"stop_reason": stop, "stop_sequence": None},
                    "usage": {"output_tokens": 20},
                },
            ),
            ("message_stop", {}),
        ):
            yield _event(name, {"type": name, **data})


class Responses:
    """OpenAI's Responses API: Codex. Tools of a server come as one namespace."""

    def hear(self, _path: str, body: Json) -> Heard:
        results = [
            Result(item["call_id"], join_text(item.get("output", "")))
            for item in body.get("input", [])
            if isinstance(item, dict) and item.get("type") == "function_call_output"
        ]
        tools: dict[str, Json] = {}
        for tool in body.get("tools", []):
            if tool.get("type") == "namespace":
                for inner in tool["tools"]:
                    tools[f"{tool['name']}\0{inner['name']}"] = inner
            elif "name" in tool:
                tools[tool["name"]] = tool
        return Heard(tools, results, stream=True, raw=body)

    def say(self, reply: Reply, _heard: Heard) -> tuple[str, Iterator[bytes]]:
        if reply.tool:
            namespace, _, name = reply.tool.rpartition("\0")
            item: Json = {
                "type": "function_call", "id": f"fc_{uuid.uuid4().hex}", "call_id": reply.call,
                "name": name, "arguments": json.dumps(reply.arguments), "status": "completed",
            }  # fmt: skip
            if namespace:
                item["namespace"] = namespace
        else:
            item = {
                "type": "message", "id": f"msg_{uuid.uuid4().hex}", "role": "assistant",
                "status": "completed", "content": [{"type": "output_text", "text": reply.text}],
            }  # fmt: skip
        return "text/event-stream", self._stream(item)

    def _stream(self, item: Json) -> Iterator[bytes]:
        response: Json = {"id": f"resp_{uuid.uuid4().hex}", "object": "response", "output": []}
        usage = {
            "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15,
        }  # fmt: skip
        done = response | {"status": "completed", "output": [item], "usage": usage}
        for name, data in (
            ("response.created", {"response": response | {"status": "in_progress"}}),
            ("response.output_item.added", {"output_index": 0, "item": item}),
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": done}),
        ):
            yield _event(name, {"type": name, **data})


class Chat:
    """Chat Completions: OpenCode, Copilot CLI."""

    def hear(self, _path: str, body: Json) -> Heard:
        results = [
            Result(message["tool_call_id"], join_text(message.get("content", "")))
            for message in body.get("messages", [])
            if message.get("role") == "tool"
        ]
        tools = {tool["function"]["name"]: tool["function"] for tool in body.get("tools") or []}
        return Heard(tools, results, bool(body.get("stream")), body)

    def say(self, reply: Reply, heard: Heard) -> tuple[str, Iterator[bytes]]:
        message: Json = {"role": "assistant", "content": reply.text or None}
        stop = "stop"
        if reply.tool:
            function = {"name": reply.tool, "arguments": json.dumps(reply.arguments)}
            call = {"index": 0, "id": reply.call, "type": "function", "function": function}
            message["tool_calls"], stop = [call], "tool_calls"
        base: Json = {"id": f"c_{uuid.uuid4().hex}", "created": 1, "model": MODEL}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        if not heard.stream:
            choice = {"index": 0, "message": message, "finish_reason": stop}
            whole = base | {"object": "chat.completion", "choices": [choice], "usage": usage}
            return "application/json", iter([json.dumps(whole).encode()])
        chunk = base | {"object": "chat.completion.chunk"}
        first = {"index": 0, "delta": message, "finish_reason": None}
        last: Json = {"index": 0, "delta": {}, "finish_reason": stop}
        return "text/event-stream", iter(
            [
                _event(None, chunk | {"choices": [first]}),
                _event(None, chunk | {"choices": [last]}),
                _event(None, chunk | {"choices": [], "usage": usage}),
                _event(None, "[DONE]"),
            ]
        )


class Gemini:
    """generateContent: Gemini CLI. Results come back in the order of the calls."""

    def hear(self, path: str, body: Json) -> Heard:
        parts = [part for entry in body.get("contents", []) for part in entry.get("parts", [])]
        results = []
        for part in parts:
            if "functionResponse" in part:
                answer = part["functionResponse"]
                response = answer.get("response", {})
                text = response.get("output", response.get("error", response))
                results.append(Result(answer.get("id") or answer["name"], join_text(text)))
        tools = {
            function["name"]: function
            for tool in body.get("tools", [])
            for function in tool.get("functionDeclarations", [])
        }
        return Heard(tools, results, "streamGenerateContent" in path, body)

    def say(self, reply: Reply, heard: Heard) -> tuple[str, Iterator[bytes]]:
        part: Json = {"text": reply.text}
        if reply.tool:
            call = {"id": reply.call, "name": reply.tool, "args": reply.arguments}
            part = {"functionCall": call, "thoughtSignature": "c2lnbmVk"}
        answer = {
            "candidates": [
                {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
            ],
            "usageMetadata": {
                "promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15
            },
            "modelVersion": MODEL,
        }  # fmt: skip
        if heard.stream:
            return "text/event-stream", iter([_event(None, answer)])
        return "application/json", iter([json.dumps(answer).encode()])


def choose_dialect(path: str) -> Dialect | None:
    """The dialect of a path, or None for what is not a question to the model."""
    if path.endswith("/messages"):
        return Anthropic()
    if path.endswith("/responses"):
        return Responses()
    if path.endswith("/chat/completions"):
        return Chat()
    if ":generateContent" in path or ":streamGenerateContent" in path:
        return Gemini()
    return None
