"""Everything a user has as lines of JSON, and back again without loss."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from sonde.errors import InvalidRequest
from sonde.stores.knowledge.base import SOURCES, Entry, KnowledgeStore, Piece, Place, Source

FORMAT = "sonde-knowledge-1"
_PAGE, _BATCH = 100, 100


def export_lines(store: KnowledgeStore, sources: Iterable[Source] = SOURCES) -> Iterator[str]:
    """One line that says what follows, then one an entry."""
    yield json.dumps({"format": FORMAT})
    for source in sources:
        last = ""
        while page := store.list_entries(source, last, _PAGE):
            for entry in page:
                yield json.dumps(_show(entry))
            last = page[-1].id
        for (origin, path), text in store.list_buried(source).items():
            yield json.dumps({"deleted": source, "origin": origin, "path": path, "hash": text})


def restore_lines(store: KnowledgeStore, lines: Iterable[str]) -> int:
    """Put back what was exported, under its own ids; how many entries.

    What was deleted when it was exported is known as deleted, what is put back no longer is.
    """
    rows = iter(lines)
    try:
        head = json.loads(next(rows, "null"))
    except ValueError:
        head = None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise InvalidRequest(
            f"the first line is not {FORMAT}",
            user_message="This is not an export of sonde's knowledge.",
            next_action="Pass a file written by `sonde knowledge export`.",
        )
    count = 0
    batch: dict[Source, list[Entry]] = {}
    for number, line in enumerate(rows, 2):
        if not line.strip():
            continue
        entry = _read(line, number)
        if isinstance(entry, Deleted):
            store.bury(entry.source, {entry.place: entry.hash})
            continue
        batch.setdefault(entry.source, []).append(entry)
        count += 1
        if count % _BATCH == 0:
            _flush(store, batch)
    _flush(store, batch)
    return count


def _flush(store: KnowledgeStore, batch: dict[Source, list[Entry]]) -> None:
    for source, entries in batch.items():
        store.put(source, entries)
        store.unbury(source, [(entry.origin, entry.path) for entry in entries if entry.origin])
    batch.clear()


def _show(entry: Entry) -> dict[str, Any]:
    row = asdict(replace(entry, number=0, pieces=()))
    del row["number"]
    row["pieces"] = [
        {key: value for key, value in asdict(piece).items() if key != "number"}
        for piece in entry.pieces
    ]
    return row


class Deleted(NamedTuple):
    """A line that says what was deleted."""

    source: Source
    place: Place
    hash: str


def _read(line: str, number: int) -> Entry | Deleted:
    try:
        row = json.loads(line)
        if "deleted" in row:
            if row["deleted"] not in SOURCES:
                raise ValueError("source")
            place = (str(row["origin"]), str(row["path"]))
            return Deleted(row["deleted"], place, str(row["hash"]))
        pieces = tuple(Piece(**piece) for piece in row.pop("pieces"))
        entry = Entry(**(row | {"pieces": pieces, "tags": tuple(row["tags"])}))
        if entry.source not in SOURCES or not entry.id:
            raise ValueError("source and id")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidRequest(
            f"line {number}: {error}",
            user_message="Line {number} of the export cannot be read.",
            number=number,
        ) from error
    return entry
