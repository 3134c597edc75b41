"""What an index holds, apart from how it came to hold it: what two of them are compared by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sonde.embedding.static import EVERYDAY_NAME, NAME
from sonde.stores.chunks.base import ChunkStore
from sonde.stores.chunks.sqlite import SqliteChunkStore

STATIC = {"code": NAME, "docs": EVERYDAY_NAME}
"""The static model of each kind."""


def read_contents(stores: Mapping[Any, ChunkStore]) -> dict[str, Any]:
    """Every file with its chunks and names."""
    known: dict[str, Any] = {}
    for kind, store in stores.items():
        for path, state in store.files().items():
            chunks = [(c.text, c.span, c.header, c.symbol) for c in store.chunks_of(path)]
            names = list(store.symbols_of([path]).get(path, []))
            known[f"{kind}:{path}"] = (state.hash, state.size, state.language, chunks, names)
    return known


def read_index(folder: Path) -> dict[str, Any]:
    """The same of the index in a folder."""
    stores = {kind: SqliteChunkStore(folder, kind) for kind in ("code", "docs")}
    try:
        return read_contents(stores)
    finally:
        for store in stores.values():
            store.close()
