"""What the contract suites share: files to store, and every store to put them in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends import STORES

from sonde.stores.chunks.base import ChunkLimits, ChunkStore
from sonde.stores.knowledge.base import SOURCES
from sonde.types import Chunk, FileState, Kind, ParsedFile, Span, Symbol

from .postgres import run_postgres

BACKENDS = ["memory", *STORES]
DIMENSIONS = 384


def make_file(
    path: str,
    *texts: str,
    mtime_ns: int = 1,
    names: Sequence[str] = (),
    symbols: Sequence[str] = (),
    imports: Sequence[str] = (),
    kind: Kind = "code",
) -> ParsedFile:
    """A file whose chunks are these texts, one after the other; `names` are what they open."""
    chunks, place, line = [], 0, 1
    for index, text in enumerate(texts):
        end, end_line = place + len(text.encode("utf-8", "surrogatepass")), line + text.count("\n")
        symbol = names[index] if index < len(names) else ""
        span = Span(line, end_line, place, end)
        chunks.append(Chunk(path, text, span, f"{path} {symbol}".strip(), symbol))
        place, line = end, end_line
    return ParsedFile(
        FileState(path, f"{abs(hash(texts)):064x}"[:64], place, mtime_ns, "python", kind),
        tuple(chunks),
        tuple(Symbol(name, "function", at, at, at) for at, name in enumerate(symbols, 1)),
        tuple(imports),
    )


def unit(*numbers: float) -> np.ndarray:
    """A unit vector that starts with these numbers."""
    vector = np.zeros(DIMENSIONS, np.float32)
    vector[: len(numbers)] = numbers
    return vector / (np.linalg.norm(vector) or 1.0)


def open_backend(name: str, folder: Path, **options: float) -> ChunkStore:
    """A store of this backend in this folder; options are limits of the store."""
    limits = ChunkLimits(**options)
    if name == "memory":
        from .memory_store import MemoryChunkStore

        return MemoryChunkStore(limits)
    if name == "sqlite":
        from sonde.stores.chunks.sqlite import SqliteChunkStore

        return SqliteChunkStore(folder, "code", limits)
    from sonde.stores.chunks.lance import LanceChunkStore

    return LanceChunkStore(folder, "code", limits)


@pytest.fixture(name="make_file")
def _make_file() -> Callable[..., ParsedFile]:
    return make_file


@pytest.fixture(name="unit")
def _unit() -> Callable[..., np.ndarray]:
    return unit


@pytest.fixture(name="open_backend")
def _open_backend() -> Callable[..., ChunkStore]:
    return open_backend


@pytest.fixture(params=BACKENDS)
def open_store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[..., ChunkStore]]:
    """Opens the store under test; what it opened is closed in the end."""
    opened: list[ChunkStore] = []

    def open_one(**options: float) -> ChunkStore:
        opened.append(open_backend(request.param, tmp_path, **options))
        return opened[-1]

    open_one.backend = request.param
    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., ChunkStore]) -> ChunkStore:
    """An empty store of each backend in turn."""
    return open_store()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL server."""
    with run_postgres() as url:
        yield url


@pytest.fixture(scope="session")
def database(postgres_url: str) -> Iterator[Any]:
    """Its tables, and a pool of connections."""
    from sonde.stores.knowledge.postgres.database import PostgresDatabase

    opened = PostgresDatabase(postgres_url)
    yield opened
    opened.close()


@pytest.fixture
def empty_database(database: Any) -> Any:
    """The same, with nobody's rows."""
    for user in ("ann", "bob"):
        with database.transact(user) as cursor:
            for source in SOURCES:
                cursor.execute(f"DELETE FROM {source}")
                cursor.execute(f"DELETE FROM {source}_terms USING owners WHERE owner = number")
            cursor.execute("DELETE FROM counters")
            cursor.execute("DELETE FROM memory")
            cursor.execute("DELETE FROM buried")
    return database
