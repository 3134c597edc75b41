"""How well personal knowledge is found: LoCoMo and Cranfield, by words, static and deep vectors.

    python benchmarks/knowledge.py --cranfield FOLDER --locomo FOLDER [--postgres URL] [--deep]

FOLDER holds cran_docs.json, cran_queries.json and cran_qrels.json; of LoCoMo: its ten
conversations, one JSON file each. Neither comes with sonde: fetch them from their publishers.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from typing import Any

from sonde.embedding.base import load_provider
from sonde.knowledge.ranking import KnowledgeSearch, find_message_id, read_knowledge_query
from sonde.knowledge.retrieval import cut_pieces
from sonde.knowledge.vectors import KnowledgeModels, embed_missing
from sonde.stores.knowledge.base import Entry, KnowledgeStore, Piece
from sonde.stores.knowledge.sqlite import SqliteKnowledge


def rank_cranfield(folder: Path, store: KnowledgeStore, models: KnowledgeModels) -> float:
    """Mean NDCG@10 over Cranfield's queries; grades as its file gives them (1 is best)."""
    wanted: dict[int, dict[str, int]] = {}
    for row in json.loads((folder / "cran_qrels.json").read_text()):
        grade = max(0, 5 - int(row["position"]))
        wanted.setdefault(int(row["query_num"]), {})[str(row["id"])] = grade
    found = []
    for query in json.loads((folder / "cran_queries.json").read_text()):
        grades = wanted.get(int(query["query number"]), {})
        hits = KnowledgeSearch(store, read_knowledge_query(query["query"]), models).rank("notes")
        gains = [grades.get(hit.entry.id, 0) for hit in hits[:10]]
        found.append(discount(gains) / (discount(sorted(grades.values(), reverse=True)[:10]) or 1))
    return mean(found)


def discount(gains: list[int]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


def fill_cranfield(folder: Path, store: KnowledgeStore) -> None:
    store.put(
        "notes",
        [
            Entry("notes", doc["title"], tuple(cut_pieces(doc["body"])), id=str(doc["id"]))
            for doc in json.loads((folder / "cran_docs.json").read_text())
        ],
    )


def read_sessions(sample: dict[str, Any]) -> list[Entry]:
    """A conversation of LoCoMo: one chat a session, one piece a turn, named as the evidence is."""
    talk = sample.get("conversation", sample)
    return [
        Entry(
            "chats",
            talk.get(f"{name}_date_time", name),
            tuple(
                Piece(
                    f"{turn['speaker']}: {turn['text']} {turn.get('blip_caption', '')}".strip(),
                    place,
                    uuid=turn["dia_id"],
                    sender=turn["speaker"],
                )
                for place, turn in enumerate(turns)
            ),
            id=name,
        )
        for name, turns in talk.items()
        if re.fullmatch(r"session_\d+", name)
    ]


def recall_locomo(
    questions: list[dict[str, Any]], store: KnowledgeStore, models: KnowledgeModels
) -> list[float]:
    """Of each question, the share of its evidence among the ten best turns."""
    found = []
    for question in questions:
        evidence = {part.strip() for each in question["evidence"] for part in each.split(";")}
        if not evidence:
            continue
        asked = read_knowledge_query(question["question"])
        hits = KnowledgeSearch(store, asked, models).rank("chats")
        ten = [name for hit in hits if (name := find_message_id(hit.entry, hit.piece))][:10]
        found.append(len(evidence & set(ten)) / len(evidence))
    return found


@contextmanager
def open_empty(postgres: str | None) -> Iterator[KnowledgeStore]:
    """A store of nobody's: a folder's, or a new owner's in a database."""
    if postgres is None:
        with tempfile.TemporaryDirectory() as folder:
            store = SqliteKnowledge(Path(folder))
            yield store
            store.close()
        return
    from sonde.stores.knowledge.postgres import PostgresKnowledge
    from sonde.stores.knowledge.postgres.database import PostgresDatabase

    database = PostgresDatabase(postgres)
    yield PostgresKnowledge(database, f"benchmark {uuid.uuid4()}")
    database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cranfield", type=Path)
    parser.add_argument("--locomo", type=Path)
    parser.add_argument("--postgres")
    parser.add_argument("--deep", action="store_true", help="with deep vectors, too")
    args = parser.parse_args()
    static, deep = load_provider("everyday"), load_provider("deep") if args.deep else None
    modes = {"words": KnowledgeModels(), "static": KnowledgeModels(static)}
    if deep:
        modes |= {"deep": KnowledgeModels(static, deep)}
    if args.cranfield:
        with open_empty(args.postgres) as store:
            fill_cranfield(args.cranfield, store)
            for model in modes[list(modes)[-1]].list_all():
                embed_missing(store, "notes", model)
            for name, models in modes.items():
                began = time.process_time()
                score = rank_cranfield(args.cranfield, store, models)
                spent = time.process_time() - began
                print(f"Cranfield, {name}: NDCG@10 {score:.4f}, {spent:.1f} s CPU for 225 queries")
    if args.locomo:
        recalls: dict[str, list[float]] = {name: [] for name in modes}
        for path in sorted(args.locomo.rglob("*.json")):
            sample = json.loads(path.read_text())
            with open_empty(args.postgres) as store:
                store.put("chats", read_sessions(sample))
                for model in modes[list(modes)[-1]].list_all():
                    embed_missing(store, "chats", model)
                for name, models in modes.items():
                    recalls[name] += recall_locomo(sample["qa"], store, models)
        for name, found in recalls.items():
            print(f"LoCoMo, {name}: recall@10 {mean(found):.4f} over {len(found)} questions")


if __name__ == "__main__":
    main()
