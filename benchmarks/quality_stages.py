"""What an answer is worth while the deep vectors are being made: never less than before.

    python benchmarks/quality_stages.py CORPORA QUERIES CACHE [--budget SECONDS] [--only a,b]

CACHE is what `training/fit_ranking.py --stage complete` left: indexes with all deep vectors. A
share of the files is shown as if it had none yet, and every question is asked at each share with
and without embedding at search time. Weights are those that the other repositories teach, as in
quality_split.py: under weights fitted on the very questions any further evidence disturbs.
"""

import argparse
import json
import statistics
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from quality_split import fit_unseen, use_weights

from quality import name_target, score_ndcg
from sonde.embedding.base import Vectors
from sonde.embedding.onnx import OnnxEmbedder
from sonde.embedding.static import StaticEmbedder
from sonde.ranking.question import read_question
from sonde.searching.modes import rank_hybrid
from sonde.searching.search import EMBEDDING_BUDGET_S, DeepVectors, QueryVector, Search
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.types import Filter

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


class Veiled:
    """A store that shows a share of its files' deep vectors."""

    def __init__(self, store: SqliteChunkStore, model: str, share: float) -> None:
        self._store, self._model, self._share = store, model, share

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def vectors(self, model: str, ids: Sequence[int]) -> Mapping[int, Vectors]:
        """Those of the store; of the deep model only for files that count as seen."""
        found = self._store.vectors(model, ids)
        if model != self._model:
            return found
        paths = {chunk.id: chunk.path for chunk in self._store.chunks(list(found))}
        return {
            id_: vector
            for id_, vector in found.items()
            if zlib.crc32(paths[id_].encode()) % 1000 < 1000 * self._share
        }


def rank_files(
    store: Any, query: str, static: StaticEmbedder, deep: Callable[[str], DeepVectors | None]
) -> tuple[list[str], float]:
    """Files in order, and the seconds it took."""
    question = read_question(query)
    began = time.perf_counter()
    probe = QueryVector(static.name, static.embed(question.asked, "query")[0])
    found = rank_hybrid(Search(store, Filter(), 20, probe, deep(query)), question)
    seconds = time.perf_counter() - began
    return list(dict.fromkeys(one.chunk.path for one in found)), seconds


def main() -> None:
    """Ask everything at every stage, print one row for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--budget", type=float, default=EMBEDDING_BUDGET_S)
    parser.add_argument("--only", help="comma-separated names of repositories")
    args = parser.parse_args()
    unseen = fit_unseen(args.corpora, args.queries, args.cache)
    static, model = StaticEmbedder(), OnnxEmbedder(idle_s=3600)
    only = set(args.only.split(",")) if args.only else None
    stages: dict[str, tuple[float, Callable[[str], DeepVectors | None]]] = {
        "first stage alone": (0.0, lambda _: None)
    }

    def ask(query: str, *, complete: bool, fresh: bool) -> DeepVectors:
        began = time.perf_counter()
        vector = model.embed([query], "query")[0]
        embed = partial(model.embed, mode="passage") if fresh else None
        pace_s = time.perf_counter() - began
        return DeepVectors(model.name, vector, complete, embed, pace_s, args.budget)

    for share in SHARES:
        for fresh in (False, True) if share < 1 else (False,):
            name = f"{share:.0%} of files have deep vectors" + (", the best embedded" * fresh)
            stages[name] = (share, partial(ask, complete=False, fresh=fresh))
    stages["complete"] = (1.0, partial(ask, complete=True, fresh=False))
    scores: dict[str, dict[str, list[float]]] = {name: {} for name in stages}
    times: dict[str, list[float]] = {name: [] for name in stages}
    for labelled in json.loads(args.queries.read_text()):
        folder = args.cache / "stores" / labelled["name"]
        if (only and labelled["name"] not in only) or not folder.is_dir():
            continue
        store = SqliteChunkStore(folder, "code")
        have, total = store.coverage(model.name)
        use_weights(unseen[labelled["name"]])
        for question in labelled["queries"] if have == total else ():
            named = [*question["relevant"], *question.get("secondary", [])]
            targets = frozenset(t if isinstance(t, str) else t["path"] for t in named)
            for name, (share, deep) in stages.items():
                veiled = Veiled(store, model.name, share)
                files, seconds = rank_files(veiled, question["query"], static, deep)
                ranked = list(dict.fromkeys(name_target(path, targets) for path in files))
                own = scores[name].setdefault(labelled["name"], [])
                own.append(score_ndcg(ranked, targets))
                times[name].append(seconds)
        store.close()
    print("| stage | NDCG@10 | p50 ms | p95 ms |\n|---|---:|---:|---:|")
    for name, by_repo in scores.items():
        mean = statistics.fmean(map(statistics.fmean, by_repo.values()))
        took = sorted(times[name])
        worst = took[min(len(took) - 1, round(0.95 * len(took)))]
        print(
            f"| {name} | {mean:.4f} | {1000 * statistics.median(took):.0f} | {1000 * worst:.0f} |"
        )


if __name__ == "__main__":
    main()
