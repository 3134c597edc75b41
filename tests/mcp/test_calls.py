"""What a real client sees, over every transport, in both eras of the protocol."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

HANDSHAKE = ["stdio-legacy", "http-legacy", "ws-legacy"]


def test_tools_come_with_schemas_and_annotations(connect):
    async def check() -> None:
        async with connect() as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            said = tools["say"]
            assert said.description == "Says it. Nothing else does."
            assert said.input_schema["required"] == ["query"]
            assert said.output_schema == {"type": "object"}
            assert said.annotations.read_only_hint is True
            assert said.meta == {"anthropic/alwaysLoad": True}
            assert tools["remove"].annotations.destructive_hint is True
            assert tools["count_up"].title == "Count"
            assert len(client.instructions) < 2000

    anyio.run(check)


def test_an_answer_is_one_object_twice(connect):
    async def check() -> None:
        async with connect() as client:
            result = await client.call_tool("say", {"query": "é“", "times": 2.0})
            assert result.structured_content == {"said": "é“", "times": 2}
            assert [block.text for block in result.content] == ['{"said":"é“","times":2}']
            assert not result.is_error

    anyio.run(check)


def test_documented_spellings_and_unlisted_tools_can_be_called(connect):
    async def check() -> None:
        async with connect() as client:
            for name in ("count_up", "count-up", "count.up", "Count-Up", "chatter"):
                result = await client.call_tool(name)
                assert result.structured_content == {"done": True}

    anyio.run(check)


def test_a_malformed_call_is_a_protocol_error_that_says_how_to_correct_it(connect):
    async def check() -> None:
        async with connect() as client:
            for name, arguments, code, hint in (
                ("sya", {}, "UNKNOWN_ARGUMENT", "say"),
                ("say", {"qery": "x"}, "UNKNOWN_ARGUMENT", "query"),
                ("say", {"query": " "}, "EMPTY_QUERY", "query"),
                ("say", {}, "INVALID_REQUEST", "query"),
                ("say", {"query": "x", "times": 9}, "INVALID_REQUEST", "1 to 5"),
            ):
                with pytest.raises(MCPError) as caught:
                    await client.call_tool(name, arguments)
                assert caught.value.code == -32602
                assert caught.value.data["code"] == code
                assert hint in caught.value.message

    anyio.run(check)


@pytest.mark.row("001-113")
def test_a_catalogued_error_is_a_result_that_the_model_can_read(connect):
    async def check() -> None:
        async with connect() as client:
            result = await client.call_tool("fail")
            assert result.is_error
            shown = result.structured_content
            assert set(shown) == {"code", "userMessage", "developerMessage", "nextAction"}
            assert shown["code"] == "INDEX_NOT_FOUND"
            assert json.loads(result.content[0].text) == shown

    anyio.run(check)


def test_a_failure_is_an_internal_error_and_a_defect_keeps_its_details_to_itself(connect):
    async def check() -> None:
        async with connect() as client:
            with pytest.raises(MCPError) as failure:
                await client.call_tool("fail", {"kind": "internal"})
            assert failure.value.code == -32603
            assert failure.value.data["code"] == "EMBEDDING_FAILED"
            with pytest.raises(MCPError) as defect:
                await client.call_tool("fail", {"kind": "defect"})
            assert defect.value.code == -32603
            assert "secret" not in str(defect.value.error)

    anyio.run(check)


def test_progress_of_several_stages_only_grows(connect):
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async def check() -> None:
        async with connect() as client:
            await client.call_tool("count_up", {"to": 400}, progress_callback=note)

    anyio.run(check)
    values = [value for value, _, _ in seen]
    assert values == sorted(set(values))
    assert (seen[-1][0], seen[-1][2]) == (800, "write")
    assert 2 <= len(seen) < 100, "the start and the end of each stage, and not every step"


def test_a_client_that_gives_up_stops_the_work(connect, diary):
    async def check() -> None:
        async with connect() as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "wait")
                await anyio.to_thread.run_sync(diary.wait_for, "waiting")
                group.cancel_scope.cancel()
            await anyio.to_thread.run_sync(diary.wait_for, "stopped")
            assert "closed" not in diary.events

    anyio.run(check)


@pytest.mark.parametrize("surface", HANDSHAKE, indirect=True)
def test_a_client_that_gives_up_is_not_asked_any_longer(connect, diary):
    async def ponder(_context: Any, _params: Any) -> ElicitResult:
        await anyio.sleep_forever()
        raise AssertionError

    async def check() -> None:
        async with connect(elicitation_callback=ponder) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "remove")
                await anyio.to_thread.run_sync(diary.wait_for, "asking")
                group.cancel_scope.cancel()
            await anyio.to_thread.run_sync(diary.wait_for, "gave up asking")

    anyio.run(check)


def test_consent_is_what_the_user_said(connect, diary):
    yes = ElicitResult(action="accept", content={"confirm": True})
    noes = [
        ElicitResult(action="accept", content={"confirm": False}),
        ElicitResult(action="accept"),
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
    ]
    questions: list[str] = []
    reply = yes

    async def answer(_context: Any, params: Any) -> ElicitResult:
        questions.append(params.message)
        assert params.requested_schema["properties"]["confirm"]["type"] == "boolean"
        return reply

    async def check() -> None:
        nonlocal reply
        async with connect(elicitation_callback=answer) as client:
            for reply in (yes, *noes):
                result = await client.call_tool("remove")
                assert result.structured_content == {"done": reply is yes}

    anyio.run(check)
    said = [line for line in diary.events if line.startswith("consent")]
    assert said == ["consent True True", *["consent False None"] * len(noes)]
    assert questions == ["Really remove {it}?", "Sure?", *["Really remove {it}?"] * len(noes)]


def test_a_client_that_cannot_ask_gets_a_token_instead(connect, diary):
    async def check() -> None:
        async with connect() as client:
            result = await client.call_tool("remove")
            assert result.is_error
            assert result.structured_content["code"] == "CONFIRMATION_REQUIRED"
            assert "t1" in result.structured_content["nextAction"]

    anyio.run(check)
    assert not any(event.startswith("consent") for event in diary.events)


@pytest.mark.parametrize("surface", HANDSHAKE, indirect=True)
def test_a_client_that_fails_to_ask_gets_a_token_instead(connect):
    async def answer(_context: Any, _params: Any) -> ElicitResult:
        raise MCPError(-32000, "no user here")

    async def check() -> None:
        async with connect(elicitation_callback=answer) as client:
            result = await client.call_tool("remove")
            assert result.structured_content["code"] == "CONFIRMATION_REQUIRED"

    anyio.run(check)
