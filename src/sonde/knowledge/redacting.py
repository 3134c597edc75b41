"""Leaves secrets out of what is brought in: it will be shown to programs that talk to others.

The file itself is not touched, and what a person writes here by hand stays as it was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from sonde.knowledge.cutting import cut_pieces
from sonde.policy.secrets import redact_secrets
from sonde.stores.knowledge_base import Entry, Piece


def redact_entry(entry: Entry) -> tuple[Entry, int]:
    """An entry without the secrets in it, and how many there were."""
    title, count = redact_secrets(entry.title)
    facts, more = _redact_value(dict(entry.facts))
    pieces: list[Piece] = []
    for field, group in groupby(entry.pieces, key=lambda piece: piece.field):
        parts = list(group)
        made, found = _redact_pieces(field, parts, len(pieces))
        pieces += made
        count += found
    if not count + more:
        return entry, 0
    return replace(entry, title=title, facts=facts, pieces=tuple(pieces)), count + more


def _redact_pieces(field: str, parts: list[Piece], place: int) -> tuple[list[Piece], int]:
    # a message or a spoken line stands alone; cut text may be cut in the middle of a key
    if any(part.uuid or part.sender or part.begins is not None for part in parts):
        made = [(part, *redact_secrets(part.text)) for part in parts]
        return [replace(part, text=text) for part, text, _ in made], sum(n for _, _, n in made)
    text, count = redact_secrets("".join(part.text for part in parts))
    return (list(cut_pieces(text, field, place)), count) if count else (parts, 0)


def _redact_value(value: Any) -> tuple[Any, int]:
    if isinstance(value, str):
        return redact_secrets(value)
    if isinstance(value, Mapping):
        made = {key: _redact_value(each) for key, each in value.items()}
        return {key: each for key, (each, _) in made.items()}, sum(n for _, n in made.values())
    if isinstance(value, list | tuple):
        rows = [_redact_value(each) for each in value]
        return [each for each, _ in rows], sum(n for _, n in rows)
    return value, 0
