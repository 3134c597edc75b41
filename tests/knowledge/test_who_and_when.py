"""Who said it and when: questions about conversations are read as what they are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from sonde.app import App
from sonde.knowledge.who_and_when import read_who_and_when
from sonde.stores.knowledge.base import Entry, Piece
from sonde.tools.knowledge import chats_search, knowledge_search

from .shelf import work

NOW = datetime(2026, 11, 16, 14, 0, tzinfo=UTC)  # a Monday


def stamp(year: int, month: int, day: int, hour: int = 12) -> int:
    return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("question", "sender", "first", "last", "rest"),
    [
        ("what did Anna say about the roof?", "Anna", None, None, "the roof"),
        ("what did Anna say last week?", "Anna", (2026, 11, 9), (2026, 11, 15), ""),
        ("What did Anna say?", "Anna", None, None, ""),
        ("Did Anna mention the roof?", "Anna", None, None, "the roof"),
        ("plans for the garden in March", "", (2026, 3, 1), (2026, 3, 31), "plans for the garden"),
        ("the budget in December", "", (2025, 12, 1), (2025, 12, 31), "the budget"),
        ("the budget in March 2024", "", (2024, 3, 1), (2024, 3, 31), "the budget"),
        ("photos yesterday", "", (2026, 11, 15), (2026, 11, 15), "photos"),
        ("dinner last Friday", "", (2026, 11, 13), (2026, 11, 13), "dinner"),
        ("trip last year", "", (2025, 1, 1), (2025, 12, 31), "trip"),
        ("trip in 2024", "", (2024, 1, 1), (2024, 12, 31), "trip"),
        ("call two weeks ago", "", (2026, 11, 1), (2026, 11, 3), "call"),
        ("march of the penguins", "", None, None, "march of the penguins"),
        ("how did the deploy say it failed", "", None, None, "how did the deploy say it failed"),
    ],
)
def test_a_question_is_read_for_speaker_and_time(
    question: str, sender: str, first: Any, last: Any, rest: str
) -> None:
    asked = read_who_and_when(question, int(NOW.timestamp() * 1000))
    assert (asked.sender, asked.rest) == (sender, rest)
    if first is None:
        assert asked.since is None
        assert asked.until is None
    else:
        assert asked.since == stamp(*first, 0)
        assert asked.until == stamp(*last, 0) + 86_400_000 - 1


@pytest.mark.parametrize(
    ("question", "first", "rest"),
    [
        ("the budget since March", (2026, 3, 1), "the budget"),
        ("trips since 2024", (2024, 1, 1), "trips"),
        ("calls since yesterday", (2026, 11, 15), "calls"),
        ("notes Since last week?", (2026, 11, 9), "notes"),
    ],
)
def test_since_lasts_until_now(question: str, first: Any, rest: str) -> None:
    now = int(NOW.timestamp() * 1000)
    asked = read_who_and_when(question, now)
    assert (asked.since, asked.until, asked.rest) == (stamp(*first, 0), now, rest)


@pytest.fixture
def talks(open_app: Callable[..., App]) -> App:
    app = open_app(embedding="static")
    app.knowledge.clock = NOW.timestamp
    said = [
        ("Anna Berg", (2026, 3, 3), "The roof needs new tiles before summer."),
        ("Bob", (2026, 3, 4), "I think the roof can wait until next year."),
        ("Anna Berg", (2026, 11, 10), "I booked the roofer for Thursday."),
        ("Bob", (2026, 11, 11), "Great, the tiles are already here."),
    ]
    pieces = tuple(
        Piece(text, at, uuid=f"m{at}", sender=sender, created_at=stamp(*day))
        for at, (sender, day, text) in enumerate(said)
    )
    entry = Entry("chats", "House", pieces, id="house", created_at=stamp(2026, 3, 3))
    app.knowledge.of("local").put("chats", [entry])
    return app


def lead(answer: Any, count: int = 1) -> list[str]:
    return [row["uri"].rpartition("#")[2] for row in answer["results"][:count]]


def test_what_somebody_said_is_found_among_their_messages(talks: App) -> None:
    assert lead(knowledge_search(talks, "what did Anna say about the roof", work=work())) == ["m0"]
    assert lead(knowledge_search(talks, "what did Bob say about the roof", work=work())) == ["m1"]


def test_a_time_leads_to_what_was_said_then(talks: App) -> None:
    assert lead(chats_search(talks, "roof tiles in March", work=work())) == ["m0"]
    assert lead(chats_search(talks, "roof tiles last week", work=work())) == ["m3"]
    assert lead(chats_search(talks, "what did Anna say last week", work=work())) == ["m2"]


def test_what_was_said_at_another_time_still_follows(talks: App) -> None:
    found = lead(chats_search(talks, "roof tiles in March", work=work()), 9)
    assert "m3" in found[1:]
