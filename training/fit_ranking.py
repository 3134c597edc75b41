"""Fit the weights of `sonde.ranking.weights` on labelled repositories.

    python training/fit_ranking.py CORPORA QUERIES.json [--model static|deep] [--cache FOLDER]
                                   [--drop A,B] [--ablate] [--worst N]

CORPORA holds one folder per repository; QUERIES.json lists per repository the questions with
their relevant files. Every figure printed is from weights that never saw the repository scored:
eight folds, each fitted on the others. The final weights (fitted on all) are printed last, ready
to be rounded into the code.
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from sonde.embedding.base import Embedder
from sonde.embedding.providers import load_provider
from sonde.globs import compile_glob
from sonde.indexing.lock import WriterLock
from sonde.indexing.pipeline import update_index
from sonde.indexing.refine import refine_vectors
from sonde.indexing.sources import Source, Tree
from sonde.policy.admit import Rules
from sonde.ranking.features import FEATURES
from sonde.ranking.weights import CODE
from sonde.ranking.words import read_question
from sonde.searching.evidence import gather_evidence
from sonde.searching.found import Probe, Search
from sonde.stores.chunks_sqlite import SqliteChunkStore
from sonde.types import Filter
from sonde.work import Work

NAMES = list(FEATURES)
FOLDS = 8


def gather_rows(
    folder: Path, queries: list[dict[str, Any]], embedder: Embedder, kept: Path
) -> list[Any]:
    """A repository's queries: (features, labels, paths, number of targets, query, category)."""
    docs = [compile_glob("**/*.md"), compile_glob("**/*.txt")]
    tree = Tree(
        (Source("", folder, Rules()),),
        lambda path: any(glob.matches(path) for glob in docs),
        index_docs=False,
        chunking="syntax",
    )
    kept.mkdir(parents=True, exist_ok=True)
    store, prose = SqliteChunkStore(kept, "code"), SqliteChunkStore(kept, "docs")
    update_index(tree, {"code": store, "docs": prose}, None, Work())
    refine_vectors({"code": store}, embedder, WriterLock(kept), Work())
    rows = []
    for query in queries:
        targets = {
            t if isinstance(t, str) else t["path"]
            for t in query["relevant"] + query.get("secondary", [])
        }
        question = read_question(query["query"])
        probe = Probe(embedder.name, embedder.embed([question.text], "query")[0])
        files = gather_evidence(Search(store, Filter(), 20, probe), question)
        matrix = np.array([[f.features.get(n, 0.0) for n in NAMES] for f in files], np.float64)
        paths = [f.candidate.state.path for f in files]
        labels = np.array([_matches(path, targets) for path in paths])
        rows.append((matrix, labels, paths, len(targets), query["query"], query.get("category")))
    return rows


def _matches(path: str, targets: set[str]) -> bool:
    return any(path == t or path.endswith("/" + t) or t.endswith("/" + path) for t in targets)


def ndcg(order: np.ndarray, labels: np.ndarray, targets: int) -> float:
    gain = sum(1 / math.log2(i + 2) for i, j in enumerate(order[:10]) if labels[j])
    return gain / sum(1 / math.log2(i + 2) for i in range(min(10, targets)))


def fit(rows: list[Any], strength: float, keep: np.ndarray) -> np.ndarray:
    """Listwise softmax with L2 on features scaled by their spread, by gradient descent."""
    rows = [row for row in rows if row[1].any()]
    matrix = np.vstack([row[0] - row[0].mean(0) for row in rows])
    scale = np.where(matrix.std(0) > 1e-9, matrix.std(0), 1.0)
    matrix = matrix / scale * keep
    target = np.concatenate([row[1] / row[1].sum() for row in rows])
    sizes = np.array([len(row[1]) for row in rows])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    weights = np.zeros(len(NAMES))
    momentum = np.zeros_like(weights)
    for step in range(400):
        scores = matrix @ weights
        p = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
        p /= np.repeat(np.add.reduceat(p, starts), sizes)
        gradient = (matrix.T @ (p - target) + strength * weights) / len(rows)
        momentum = 0.9 * momentum + gradient
        weights -= (0.3 if step < 300 else 0.1) * momentum
    return weights / scale * keep


def score(rows: list[Any], weights: np.ndarray) -> list[tuple[float, bool]]:
    result = []
    for matrix, labels, paths, targets, *_ in rows:
        if not len(paths):
            result.append((0.0, False))
            continue
        order = np.lexsort((paths, -(matrix @ weights)))
        result.append((ndcg(order, labels, targets), bool(labels[order[0]])))
    return result


def cross_validate(
    by_repo: dict[str, list[Any]], strength: float, keep: np.ndarray
) -> dict[str, Any]:
    names = sorted(by_repo)
    random.Random(0).shuffle(names)
    scored: dict[str, list[tuple[float, bool]]] = {}
    for fold in range(FOLDS):
        held = names[fold::FOLDS]
        weights = fit([r for n in names if n not in held for r in by_repo[n]], strength, keep)
        scored |= {name: score(by_repo[name], weights) for name in held}
    return scored


def summarise(scored: dict[str, list[tuple[float, bool]]]) -> str:
    mean = np.mean([np.mean([v for v, _ in rows]) for rows in scored.values()])
    hit = np.mean([h for rows in scored.values() for _, h in rows])
    return f"NDCG@10 {mean:.4f}  hit@1 {hit:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--model", default="static")
    parser.add_argument("--cache", type=Path, default=Path(".bench"))
    parser.add_argument("--again", action="store_true", help="measure the features anew")
    parser.add_argument("--strength", type=float, default=5.0)
    parser.add_argument("--drop", default="")
    parser.add_argument("--ablate", action="store_true")
    parser.add_argument("--worst", type=int, default=0)
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    cache = args.cache / f"features-{args.model}.pickle"
    if cache.exists() and not args.again:
        by_repo = pickle.loads(cache.read_bytes())
    else:
        embedder = load_provider(args.model)
        by_repo = {}
        for repo in json.loads(args.queries.read_text()):
            folder = (args.corpora / repo["name"]).resolve()
            if folder.is_dir():
                by_repo[repo["name"]] = gather_rows(
                    folder, repo["queries"], embedder, args.cache / "stores" / repo["name"]
                )
                print(repo["name"], len(by_repo[repo["name"]]), flush=True)
        cache.write_bytes(pickle.dumps(by_repo))
    everything = [row for rows in by_repo.values() for row in rows]
    found = np.mean([row[1].sum() / row[3] for row in everything])
    print(f"{len(by_repo)} repositories, {len(everything)} queries, {found:.4f} of targets found")
    current = np.array([CODE.get(name, 0.0) for name in NAMES])
    print("weights in the code:", summarise({n: score(r, current) for n, r in by_repo.items()}))
    keep = np.array([0.0 if n in args.drop.split(",") else 1.0 for n in NAMES])
    scored = cross_validate(by_repo, args.strength, keep)
    print("cross-validated:    ", summarise(scored))
    categories = defaultdict(list)
    for name, rows in by_repo.items():
        for row, (value, _) in zip(rows, scored[name], strict=True):
            categories[row[5]].append(value)
    print({k: round(float(np.mean(v)), 4) for k, v in categories.items()})
    print({n: round(float(np.mean([v for v, _ in r])), 3) for n, r in sorted(scored.items())})
    if args.ablate:
        for i, name in enumerate(NAMES):
            without = keep.copy()
            without[i] = 0
            print(
                f"  without {name:20}", summarise(cross_validate(by_repo, args.strength, without))
            )
    judged = [
        (value, name, row)
        for name, rows in by_repo.items()
        for row, (value, _) in zip(rows, scored[name], strict=True)
    ]
    worst = sorted(judged, key=lambda item: item[0])[: args.worst]
    final = fit(everything, args.strength, keep)
    for value, name, row in worst:
        order = np.argsort(-(row[0] @ final))
        wanted = [path for path, label in zip(row[2], row[1], strict=True) if label]
        print(f"{value:.2f} {name}: {row[4]!r} want {wanted} got {[row[2][j] for j in order[:3]]}")
    print(
        "final:",
        summarise({n: score(r, final) for n, r in by_repo.items()}),
        "(fitted, not to be quoted)",
    )
    for name, weight in zip(NAMES, final, strict=True):
        print(f'    "{name}": {weight:.1f},')


if __name__ == "__main__":
    main()
