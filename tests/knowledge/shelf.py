"""Entries to put on the shelf, and callers to ask for them."""

from __future__ import annotations

from typing import Any

from sonde.knowledge.retrieval import cut_pieces
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import Entry
from sonde.types import Caller

DAY = 86_400_000


def work(user: str = "local", session: str = "") -> Work:
    return Work(caller=Caller(user=user, session=session))


def text_entry(source: Any, title: str, text: str, **facts: Any) -> Entry:
    day = facts.pop("day", 1) * DAY
    return Entry(source, title, tuple(cut_pieces(text)), created_at=day, last_modified=day, **facts)
