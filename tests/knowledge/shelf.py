"""Entries to put on the shelf, and callers to ask for them."""

from __future__ import annotations

from typing import Any

from sonde.knowledge.cutting import cut_pieces
from sonde.stores.knowledge_base import Entry
from sonde.types import Caller
from sonde.work import Work

DAY = 86_400_000


def work(user: str = "local", session: str = "") -> Work:
    return Work(caller=Caller(user=user, session=session))


def text_entry(source: Any, title: str, text: str, **facts: Any) -> Entry:
    day = facts.pop("day", 1) * DAY
    return Entry(source, title, tuple(cut_pieces(text)), created_at=day, last_modified=day, **facts)
