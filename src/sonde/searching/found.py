"""What every search mode takes and gives."""

from __future__ import annotations

from dataclasses import dataclass

from sonde.stores.base import ChunkStore, Vectors
from sonde.types import Chunk, Filter

_POOL = 100
"""Chunks taken from each retriever; on labelled repositories 60 already hold 99 % of targets."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The query as one model sees it."""

    model: str
    vector: Vectors


@dataclass(frozen=True, slots=True)
class Search:
    """One store, and how deep to look into it."""

    store: ChunkStore
    where: Filter
    limit: int
    probe: Probe | None = None

    @property
    def pool(self) -> int:
        """How many chunks to take from each retriever."""
        return max(_POOL, 2 * self.limit)


@dataclass(frozen=True, slots=True)
class Found:
    """One ranked chunk; `why` lists what made it rank, strongest first."""

    chunk: Chunk
    score: float
    score_type: str
    why: tuple[tuple[str, float], ...] = ()


def order_found(found: list[Found]) -> list[Found]:
    """The total order of every ranking: score, path, line."""
    return sorted(found, key=lambda f: (-f.score, f.chunk.path, f.chunk.span.start_line))
