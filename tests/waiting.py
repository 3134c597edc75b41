"""Waiting for what other threads and processes do, never for time to pass."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

PATIENCE_S = 60.0
_PAUSE_S = 0.02


def wait_until(condition: Callable[[], Any], what: str = "", limit_s: float = PATIENCE_S) -> Any:
    """Wait for something to become true, and give it."""
    end = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(_PAUSE_S)
    return found


async def wait_for_answer(ask: Callable[[], Awaitable[Any]], fits: Callable[[Any], bool]) -> Any:
    """Ask again until the answer fits, and give it."""
    end = time.monotonic() + PATIENCE_S
    while not fits(answer := await ask()):
        assert time.monotonic() < end, answer
        await anyio.sleep(_PAUSE_S)
    return answer
