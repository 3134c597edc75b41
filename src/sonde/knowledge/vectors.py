"""Vectors of knowledge: static ones with an import, deep ones in the background, newest first."""

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
from sonde.text.words import is_telling
from sonde.types import Progress

EMBEDDING_BATCH = 1_024  # pieces embedded and stored at once, with a report of progress after each
DEEP_BATCH = 64  # the deep model takes some seconds for so many: little is lost when it is stopped
_BEFORE_CHARS = 200  # of the message before, which often says what a reply is about
_LEASE_S = 120.0  # for which one server embeds for all; renewed with every batch

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KnowledgeModels:
    """The models that embed knowledge, and what making deep vectors needs."""

    static: Embedder | None = None
    deep: Embedder | None = None
    """The deeper model, or the provider that was named in its place."""
    background: Callable[[Callable[[], None]], Embedder] | None = None
    """Opens the deep model in a process of its own; it calls what it is given while it works."""
    folder: Path | None = None
    """Where the lock of the process that embeds lies."""
    find_pause: Callable[[], str] = find_pause
    """Why work in the background waits; empty if it does not."""
    in_background: bool = False
    """Whether this process stays, so that it makes what is missing."""

    def list_all(self) -> list[Embedder]:
        """The models there are, the static one first."""
        return [model for model in (self.static, self.deep) if model]


def embed_missing(
    store: KnowledgeStore, source: Source, embedder: Embedder | None, limit: int = 1 << 40,
    work: Work | None = None, batch: int = EMBEDDING_BATCH,
) -> int:  # fmt: skip
    """Embed pieces that have no vector yet, all or at most `limit`. Returns their number."""
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
    """Give these pieces their vectors."""
    rows = embedder.embed(_write_passages(store, source, pieces), "passage")
    store.put_vectors(source, embedder.name, [found.piece.number for found in pieces], rows)


def _write_passages(
    store: KnowledgeStore, source: Source, bare: Sequence[RankedPiece]
) -> list[str]:
    """What a model reads of each piece: a message with its speaker and what was said before."""
    if source != "chats":
        return [_write_passage(found.entry.title, found.piece.text) for found in bare]
    texts = []
    here = {(found.entry.id, found.piece.place): found.piece for found in bare}
    for entry, piece in ((found.entry, found.piece) for found in bare):
        said = f"{piece.sender}: {piece.text}" if piece.sender else piece.text
        at = piece.place - 1
        known = [here[entry.id, at]] if (entry.id, at) in here else None  # most are in the batch
        before = (known or store.read_pieces(source, entry.id, at, 1)) if at >= 0 else []
        context = before[0].text[-_BEFORE_CHARS:] if before else ""
        texts.append(piece.text if piece.field == TITLE else f"{said}\n{context}".strip())
    return texts


def _write_passage(title: str, text: str) -> str:
    return f"{title}\n{text}" if is_telling(title) else text


def start_deep_vectors(
    models: KnowledgeModels, jobs: Jobs, store: KnowledgeStore, user: str
) -> Job | None:
    """Make missing deep vectors as a job, in a process that stays; None if none are missing."""
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
    """Give every piece its deep vector, then drop those of models that are no longer used."""
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
    """Embed some pieces, unless another server of this store does."""
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
    """How many pieces of all sources have deep vectors, and how many pieces there are."""
    if models.deep is None:
        return 0, 0
    counts = [store.coverage(source, models.deep.name) for source in SOURCES]
    return sum(have for have, _ in counts), sum(total for _, total in counts)


def list_limits(models: KnowledgeModels, covered: tuple[int, int], question: str) -> list[str]:
    """What an answer does not cover: texts that no deep model has read yet, other languages."""
    notes, (have, total) = [], covered
    if have < total:
        paused = models.find_pause() if models.in_background else ""
        waits = f"; it waits, because {paused}" if paused else ""
        notes.append(f"the deep model has read {have:,} of {total:,} texts so far{waits}")
    if note := describe_language(models.deep, question):
        notes.append(note)
    return notes
