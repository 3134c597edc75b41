"""Embedding of knowledge: static vectors with an import, deep ones in the background."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sonde.embedding.base import Embedder
from sonde.embedding.nearness import describe_language
from sonde.errors import IndexBusy
from sonde.runtime.jobs import Job, Jobs
from sonde.runtime.system import find_pause
from sonde.runtime.work import Work, WriterLock
from sonde.stores.knowledge.base import SOURCES, TITLE, KnowledgeStore, RankedPiece, Source
from sonde.text.words import is_generic
from sonde.types import Progress

EMBEDDING_BATCH = 1_024  # pieces embedded and stored between two reports of progress
DEEP_BATCH = 64  # takes the deep model seconds: little is lost when it is stopped
_BEFORE_CHARS = 200  # of the previous message, which often names the subject of a reply
_LEASE_S = 120.0  # one server embeds for all that long; renewed with every batch

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KnowledgeModels:
    """The models that embed knowledge, and the means to run the deep one in the background."""

    static: Embedder | None = None
    deep: Embedder | None = None
    """The bundled deep model, or the provider that the user chose instead."""
    background: Callable[[Callable[[], None]], Embedder] | None = None
    """Opens the deep model in a separate process, which calls the argument while it works."""
    folder: Path | None = None
    """The folder of the lock that the embedding process holds."""
    find_pause: Callable[[], str] = find_pause
    """The reason for background work to wait; empty if there is none."""
    in_background: bool = False
    """Whether this process lives long enough to make missing deep vectors."""

    def list_all(self) -> list[Embedder]:
        """The available models, the static one first."""
        return [model for model in (self.static, self.deep) if model]


def embed_missing(
    store: KnowledgeStore, source: Source, embedder: Embedder | None, limit: int = 1 << 40,
    work: Work | None = None, batch: int = EMBEDDING_BATCH,
) -> int:  # fmt: skip
    """Embed pieces without a vector, at most `limit`. Returns their number."""
    if embedder is None:
        return 0
    have, total = store.coverage(source, embedder.name)
    done, before = 0, None
    while have < total and done < limit:
        bare = store.list_bare(source, embedder.name, min(batch, limit - done), before)
        if not bare:
            break
        embed_pieces(store, source, embedder, bare)
        done += len(bare)
        before = min(found.piece.number for found in bare)
        if work:
            work.report(Progress("embedding", done, total - have))
    return done


def embed_pieces(
    store: KnowledgeStore, source: Source, embedder: Embedder, pieces: Sequence[RankedPiece]
) -> None:
    """Embed these pieces and store their vectors."""
    rows = embedder.embed(_write_passages(store, source, pieces), "passage")
    store.put_vectors(source, embedder.name, [found.piece.number for found in pieces], rows)


def _write_passages(
    store: KnowledgeStore, source: Source, bare: Sequence[RankedPiece]
) -> list[str]:
    """The text to embed for each piece: messages with their sender and the message before."""
    pairs = [(found.entry, found.piece) for found in bare]
    if source != "chats":  # below their titles, unless those are generic (`note-012`, `Untitled 3`)
        return [piece.text if is_generic(entry.title) else f"{entry.title}\n{piece.text}"
                for entry, piece in pairs]  # fmt: skip
    texts = []
    here = {(found.entry.id, found.piece.place): found.piece for found in bare}
    for entry, piece in pairs:
        said = f"{piece.sender}: {piece.text}" if piece.sender else piece.text
        at = piece.place - 1
        known = [here[entry.id, at]] if (entry.id, at) in here else None  # most are in the batch
        before = (known or store.read_pieces(source, entry.id, at, 1)) if at >= 0 else []
        context = before[0].text[-_BEFORE_CHARS:] if before else ""
        texts.append(piece.text if piece.field == TITLE else f"{said}\n{context}".strip())
    return texts


def start_deep_vectors(
    models: KnowledgeModels, jobs: Jobs, store: KnowledgeStore, user: str
) -> Job | None:
    """Start a job for missing deep vectors; None if none are missing or this process will end."""
    deep = models.deep
    if deep is None or not models.in_background:
        return None
    covered = (store.coverage(source, deep.name) for source in SOURCES)
    if all(have >= total for have, total in covered):
        return None

    def refine(work: Work) -> int:
        if models.background is None:
            return refine_knowledge(models, deep, store, work)
        with closing(models.background(work.check)) as embedder:
            return refine_knowledge(models, embedder, store, work)

    gently = models.background is None
    return jobs.submit(f"refine:knowledge:{user}", "refine", refine, gently=gently, owner=user)


def refine_knowledge(
    models: KnowledgeModels,
    embedder: Embedder,
    store: KnowledgeStore,
    work: Work,
    wait_s: float = 0,
) -> int:
    """Embed every piece with the deep model, then drop the vectors of unused models."""
    done, lease = 0, secrets.token_hex(8)
    try:
        with WriterLock(models.folder or Path(), "refine.lock").held(wait_s=wait_s):
            for source in SOURCES:
                while count := _embed_leased(store, source, embedder, work, lease):
                    done += count
                kept = [model.name for model in models.list_all()]
                have, total = store.coverage(source, embedder.name)
                if have == total:
                    store.forget_models(source, kept)
    except IndexBusy:
        log.info("another process embeds knowledge")
    return done


def _embed_leased(
    store: KnowledgeStore, source: Source, embedder: Embedder, work: Work, lease: str
) -> int:
    """Embed some pieces, unless another server of this store holds the lease."""
    key = "refining"
    if store.recall(key) not in (None, "", lease):
        return 0
    store.remember(key, lease, _LEASE_S)
    try:
        work.check()
        return embed_missing(store, source, embedder, EMBEDDING_BATCH, work, DEEP_BATCH)
    finally:
        store.remember(key, "", -1.0)


def count_deep(models: KnowledgeModels, store: KnowledgeStore) -> tuple[int, int]:
    """The number of pieces with deep vectors, and of all pieces."""
    if models.deep is None:
        return 0, 0
    counts = [store.coverage(source, models.deep.name) for source in SOURCES]
    return sum(have for have, _ in counts), sum(total for _, total in counts)


def list_limits(models: KnowledgeModels, covered: tuple[int, int], question: str) -> list[str]:
    """Notes on what limits an answer: missing deep vectors, a language no model knows."""
    notes, (have, total) = [], covered
    if have < total:
        paused = models.find_pause() if models.in_background else ""
        waits = f"; it waits, because {paused}" if paused else ""
        notes.append(f"the deep model has read {have:,} of {total:,} texts so far{waits}")
    if note := describe_language(models.deep, question):
        notes.append(note)
    return notes
