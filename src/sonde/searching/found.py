"""What every search mode takes and gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sonde.stores.base import ChunkStore, Vectors
from sonde.types import Chunk, Filter, Span

_POOL = 100
"""Chunks taken from each retriever; on labelled repositories 60 already hold 99 % of targets."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The query as one model sees it."""

    model: str
    vector: Vectors
    told: Vectors | None = None
    """A report's sentences, where the query is one."""


@dataclass(frozen=True, slots=True)
class Deep:
    """The query as the deeper model sees it, over whatever vectors that model has made so far."""

    model: str
    vector: Vectors
    is_complete: bool
    """Every chunk has its vector; otherwise some have, or none."""
    embed: Callable[[Sequence[str]], Vectors] | None = None
    """Embeds passages now; None when that would take too long."""
    pace_s: float = 0.0
    """How long embedding the query took just now."""


@dataclass(frozen=True, slots=True)
class Search:
    """One store, and how deep to look into it."""

    store: ChunkStore
    where: Filter
    limit: int
    probe: Probe | None = None
    deep: Deep | None = None

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


def merge_neighbours(found: list[Found]) -> list[Found]:
    """Chunks that touch or overlap a better one of their file become part of it."""
    kept: list[Found] = []
    of_file: dict[str, list[int]] = {}
    for one in found:
        places = of_file.setdefault(one.chunk.path, [])
        span = one.chunk.span
        for place in places:
            near = kept[place].chunk.span
            if span.start_byte > near.end_byte or near.start_byte > span.end_byte:
                continue  # far more often than not
            joined = _join(kept[place].chunk, one.chunk)
            if joined:
                kept[place] = replace(kept[place], chunk=joined)
                break
        else:
            places.append(len(kept))
            kept.append(one)
    return kept


def _join(better: Chunk, other: Chunk) -> Chunk | None:
    """Both as one piece of the file, named after the better; None if a gap lies between."""
    first, last = sorted((better, other), key=lambda c: (c.span.start_byte, c.span.end_byte))
    shared = first.span.end_byte - last.span.start_byte
    if shared < 0:
        return None
    if last.span.end_byte <= first.span.end_byte:
        return replace(first, symbol=better.symbol, id=better.id)
    rest = last.text.encode("utf-8", "surrogatepass")[shared:].decode("utf-8", "surrogatepass")
    span = Span(
        first.span.start_line, last.span.end_line, first.span.start_byte, last.span.end_byte
    )
    return replace(better, text=first.text + rest, span=span)
