"""How personal knowledge scales: import rate, size on disk, and what a question costs.

    python benchmarks/knowledge_scale.py fill AT --texts FOLDER... [--pieces 1000000]
    python benchmarks/knowledge_scale.py ask AT --texts FOLDER... [--questions 200] [--exact]

AT is a folder (SQLite) or the address of a PostgreSQL database. Documents of ten pieces are made of
passages of real texts, each document's from one text, so that words keep company as they do in the
world; questions are one to five words that follow each other in a text. `fill` goes on where it was
stopped. CPU times of PostgreSQL are those of its own processes, when they run on this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import quantiles

from sonde.embedding.static import StaticEmbedder
from sonde.knowledge.ranking import KnowledgeSearch, read_knowledge_query
from sonde.knowledge.vectors import KnowledgeModels, embed_missing
from sonde.stores.knowledge.base import ANYTHING, Conditions, Entry, KnowledgeStore, Piece
from sonde.stores.knowledge.sqlite import SqliteKnowledge

_PIECES, _PASSAGES, _PASSAGE_CHARS = 10, 3, 320
_AT_ONCE = 200
_WORD = re.compile(r"\b[A-Za-z][a-z]+\b")
_KINDS = ("pdf", "html", "txt")


def open_store(at: str) -> KnowledgeStore:
    """The store in a folder or behind an address."""
    if at.startswith("postgres"):
        from sonde.stores.knowledge.postgres import PostgresKnowledge
        from sonde.stores.knowledge.postgres.database import PostgresDatabase

        return PostgresKnowledge(PostgresDatabase(at), "scale")
    return SqliteKnowledge(Path(at))


def read_texts(folders: list[Path]) -> list[str]:
    """Every text of some length below these folders, each once."""
    texts: dict[int, str] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".md", ".rst", ".txt") and path.is_file():
                text = " ".join(path.read_text("utf-8", "ignore").split())
                if len(text) > 5 * _PASSAGE_CHARS:
                    texts.setdefault(hash(text), text)
    return list(texts.values())


def make_entries(texts: list[str], chance: random.Random, count: int) -> Iterator[Entry]:
    """So many documents, each of passages of one text; longer texts are taken more often."""
    for text in chance.choices(texts, [len(text) for text in texts], k=count):
        pieces, start = [], 0
        for place in range(_PIECES):
            body = " … ".join(cut_passage(text, chance) for _ in range(_PASSAGES))
            pieces.append(Piece(body, place, start))
            start += len(body)
        stamp = chance.randrange(10**12)
        yield Entry(
            "media",
            cut_passage(text, chance)[:40],
            tuple(pieces),
            media_type=chance.choice(_KINDS),
            created_at=stamp,
            last_modified=stamp,
        )


def cut_passage(text: str, chance: random.Random) -> str:
    """Some words that follow each other."""
    at = chance.randrange(len(text) - _PASSAGE_CHARS)
    return text[at : at + _PASSAGE_CHARS].partition(" ")[2].rpartition(" ")[0]


def fill(store: KnowledgeStore, texts: list[str], pieces: int) -> None:
    """Bring a store to so many pieces, and give every piece a vector."""
    have = store.count("media")[1]
    chance = random.Random(have)
    began, spent, first = time.perf_counter(), time.process_time(), have
    while have < pieces:
        have += _PIECES * len(store.put("media", list(make_entries(texts, chance, _AT_ONCE))))
        if have % 50_000 < _PIECES * _AT_ONCE:
            cpu, wall = time.process_time() - spent, time.perf_counter() - began
            print(f"{have} pieces, {cpu:.0f} s CPU, {wall:.0f} s, {have - first} new", flush=True)
    began, spent = time.perf_counter(), time.process_time()
    count = embed_missing(store, "media", StaticEmbedder(), 1 << 40)
    cpu, wall = time.process_time() - spent, time.perf_counter() - began
    print(f"{count} vectors, {cpu:.0f} s CPU, {wall:.0f} s")


def ask(store: KnowledgeStore, texts: list[str], count: int, read_cpu: Callable[[], float]) -> None:
    """What questions cost: by words, fused with vectors, and among a third of all documents."""
    questions = make_questions(texts, count)
    static = StaticEmbedder()
    ways: dict[str, tuple[KnowledgeModels, Conditions]] = {
        "words": (KnowledgeModels(), ANYTHING),
        "fused": (KnowledgeModels(static), ANYTHING),
        "filtered": (KnowledgeModels(static), Conditions(media_types=("pdf",))),
    }
    for name, (models, where) in ways.items():
        KnowledgeSearch(store, read_knowledge_query("warm up"), models).rank("media", where)
        walls, cpus = [], []
        for text in questions:
            spent, began = read_cpu(), time.perf_counter()
            KnowledgeSearch(store, read_knowledge_query(text), models).rank("media", where)
            walls.append(1e3 * (time.perf_counter() - began))
            cpus.append(1e3 * (read_cpu() - spent))
        print(f"{name}: {show(walls)} ms, CPU {show(cpus)} ms, {count} questions", flush=True)
        slow = sorted(zip(cpus, questions, strict=True), reverse=True)[:5]
        print("   slowest:", "; ".join(f"{text!r} {cpu:.0f}" for cpu, text in slow))


def compare_exact(store: SqliteKnowledge, texts: list[str], count: int) -> None:
    """How much of the exact ranking by words is among what is found (SQLite)."""
    exhaustive = SqliteKnowledge(store.folder, postings=1 << 60)
    shares: dict[int, list[float]] = {10: [], 50: [], 200: []}
    for text in make_questions(texts, count):
        terms = read_knowledge_query(text).terms
        found = store.rank("media", terms, 600)
        exact = exhaustive.rank("media", terms, 600)
        for depth, kept in shares.items():
            least = exact[:depth][-1].score if exact else 0.0
            good = {one.id for one in exact if one.score >= least}  # equals are as good
            hits = sum(one.id in good for one in found[:depth])
            kept.append(hits / min(depth, len(exact)) if exact else 1.0)
    for depth, kept in shares.items():
        whole = sum(share == 1.0 for share in kept)
        print(f"exact top {depth}: {sum(kept) / len(kept):.4f} found; {whole} of {count} whole")


def make_questions(texts: list[str], count: int) -> list[str]:
    """Words that follow each other somewhere, one to five of them."""
    chance = random.Random(7)
    chosen = chance.choices(texts, [len(text) for text in texts], k=count)
    passages = (_WORD.findall(cut_passage(text, chance)) or ["nothing"] for text in chosen)
    return [" ".join(words[: chance.randint(1, 5)]) for words in passages]


def show(values: list[float]) -> str:
    """The middle and the tail."""
    cuts = quantiles(values, n=100)
    return f"p50 {cuts[49]:.0f} p95 {cuts[94]:.0f} p99 {cuts[98]:.0f}"


def choose_clock(at: str) -> Callable[[], float]:
    """Reads the CPU seconds of this process, and of PostgreSQL's processes where that is asked."""
    if not at.startswith("postgres"):
        return time.process_time

    def read() -> float:
        spent = 0
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if line.read_bytes().startswith(b"postgres: "):
                    spent += int((line.parent / "schedstat").read_text().split()[0])
        return spent / 1e9 + time.process_time()

    return read


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("phase", choices=("fill", "ask"))
    parser.add_argument("at")
    parser.add_argument("--texts", type=Path, nargs="+", required=True)
    parser.add_argument("--pieces", type=int, default=1_000_000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--exact", action="store_true")
    args = parser.parse_args()
    texts = read_texts(args.texts)
    print(f"{len(texts)} texts, {sum(map(len, texts)) / 1e6:.0f} million characters", flush=True)
    store = open_store(args.at)
    if args.phase == "fill":
        fill(store, texts, args.pieces)
    elif args.exact:
        assert isinstance(store, SqliteKnowledge)
        compare_exact(store, texts, args.questions)
    else:
        ask(store, texts, args.questions, choose_clock(args.at))
    entries, pieces = store.count("media")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    size = store.measure_bytes() / 1e6
    print(f"{entries} documents, {pieces} pieces, {size:.0f} MB, {most} MB of memory at most")
    store.close()


if __name__ == "__main__":
    main()
