"""Fit the weights of `sonde.ranking.weights` on labelled repositories.

    python training/fit_ranking.py CORPORA QUERIES.json [--stage first|complete] [--cache FOLDER]
                                   [--largest N] [--drop A,B] [--ablate] [--groups] [--worst N]

CORPORA holds one folder per repository; QUERIES.json lists per repository the questions with
their relevant files. Stage `first` has words and static vectors, `complete` the deep model's as
well (`--largest` leaves out repositories of more chunks, which take long to embed). Indexes,
vectors and features are kept in the cache; vectors by model, so that another deep model needs only
the command again. Every figure printed is from weights that never saw the repository scored:
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

from sonde.embedding.base import Embedder, load_provider
from sonde.indexing.diff import compare_index
from sonde.indexing.pipeline import refine_vectors, update_index
from sonde.indexing.sources import Source, Tree
from sonde.policy.admit import Rules
from sonde.ranking.features import FEATURES
from sonde.ranking.question import read_question
from sonde.ranking.weights import CODE, DEEP
from sonde.runtime.work import Work, WriterLock
from sonde.searching.search import DeepVectors, QueryVector, Search, gather_files, read_names
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.text.globs import compile_glob
from sonde.types import Filter

NAMES = list(FEATURES)
FOLDS = 8
STRENGTH = 15.0
"""Of the regularisation: 10 to 20 are alike, 5 and less follow the noise."""
GROUPS = {
    "words (BM25)": "lexical_",
    "meaning, static": "dense_",
    "meaning, deep": "deep_",
    "file name": "stem_f1 stem_f1_rel stem_precision stem_length stem_joined stem_said name_parts",
    "folders": "folder_ path_recall depth",
    "definitions": "definition_f1 definitions_recall",
    "symbol asked for": "defines_symbol stem_is_symbol holds_name",
    "tests, examples, legacy": "is_test test_ is_example example_ is_legacy legacy_ is_old",
    "data files": "is_data",
    "headers": "is_shadowed",
    "size": "length",
    "importers": "importers",
}


def open_index(folder: Path, kept: Path) -> SqliteChunkStore:
    """A repository's code index, brought up to date."""
    docs = [compile_glob("**/*.md"), compile_glob("**/*.txt")]
    tree = Tree(
        (Source("", folder, Rules()),),
        lambda path: any(glob.matches(path) for glob in docs),
        index_docs=False,
        chunking="syntax",
    )
    kept.mkdir(parents=True, exist_ok=True)
    store, prose = SqliteChunkStore(kept, "code"), SqliteChunkStore(kept, "docs")
    stores = {"code": store, "docs": prose}
    update_index(tree, stores, {}, Work(), compare_index(tree, stores, Work()))
    return store


def gather_rows(
    store: SqliteChunkStore, queries: list[dict[str, Any]], static: Embedder, deep: Embedder | None
) -> list[Any]:
    """A repository's queries: (features, labels, paths, number of targets, query, category)."""
    rows = []
    for query in queries:
        targets = {
            t if isinstance(t, str) else t["path"]
            for t in query["relevant"] + query.get("secondary", [])
        }
        question = read_question(query["query"])
        probe = QueryVector(static.name, static.embed([question.text], "query")[0])
        more = deep and DeepVectors(
            deep.name, deep.embed([question.text], "query")[0], is_complete=True
        )
        search = Search(store, Filter(), 20, probe, more)
        files = gather_files(search, question)
        read_names(search, question, files)
        matrix = np.array([[f.features.get(n, 0.0) for n in NAMES] for f in files], np.float64)
        paths = [f.state.path for f in files]
        labels = np.array([_matches(path, targets) for path in paths])
        rows.append((matrix, labels, paths, len(targets), query["query"], query.get("category")))
    return rows


def gather_all(
    corpora: Path, queries: Path, cache: Path, stage: str, largest: int, *, again: bool
) -> dict[str, list[Any]]:
    """Rows of every repository that is there, small ones first."""
    static = load_provider("static")
    deep = load_provider("deep") if stage == "complete" else None
    name = f"{stage}-{deep.name if deep else static.name}-{largest}.pickle"
    kept = cache / name
    if kept.exists() and not again:
        return pickle.loads(kept.read_bytes())
    opened = {
        repo["name"]: (open_index(folder, cache / "stores" / repo["name"]), repo["queries"])
        for repo in json.loads(queries.read_text())
        if (folder := (corpora / repo["name"]).resolve()).is_dir()
    }
    by_repo = {}
    for repo, (store, asked) in sorted(opened.items(), key=lambda item: item[1][0].counts().chunks):
        if not largest or store.counts().chunks <= largest:
            for embedder in filter(None, (static, deep)):
                lock = WriterLock(cache / "stores" / repo)
                refine_vectors({"code": store}, {"code": embedder}, lock, Work())
            by_repo[repo] = gather_rows(store, asked, static, deep)
            print(repo, len(asked), flush=True)
        store.close()
    kept.write_bytes(pickle.dumps(by_repo))
    return by_repo


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


def fold_weights(
    by_repo: dict[str, list[Any]], strength: float, keep: np.ndarray, seed: int = 0
) -> dict[str, np.ndarray]:
    """For each repository, weights that never saw it."""
    names = sorted(by_repo)
    random.Random(seed).shuffle(names)
    weights = {}
    for fold in range(FOLDS):
        held = names[fold::FOLDS]
        fitted = fit([r for n in names if n not in held for r in by_repo[n]], strength, keep)
        weights |= dict.fromkeys(held, fitted)
    return weights


def cross_validate(
    by_repo: dict[str, list[Any]], strength: float, keep: np.ndarray, seed: int = 0
) -> dict[str, Any]:
    weights = fold_weights(by_repo, strength, keep, seed)
    return {name: score(rows, weights[name]) for name, rows in by_repo.items()}


def add_deep(
    by_repo: dict[str, list[Any]], first: dict[str, list[Any]], strength: float, seed: int
) -> tuple[dict[str, Any], np.ndarray]:
    """The deep stage, cross-validated: its few weights on top of the first stage's score.

    The first stage's weights are fitted on all repositories but those of the fold; to fit
    everything anew on the few repositories that have deep vectors would cost more than it gives.
    """
    global NAMES
    every, low = NAMES, [NAMES.index(n) for n in NAMES if n.startswith(("dense_", "deep_"))]
    keep = np.array([float(not name.startswith("deep_")) for name in NAMES])
    under = fold_weights(first, strength, keep, seed)
    small = {
        name: [
            (np.hstack([(row[0] @ under[name])[:, None], row[0][:, low]]), *row[1:]) for row in rows
        ]
        for name, rows in by_repo.items()
    }
    NAMES = ["first stage", *(every[at] for at in low)]
    weights = fold_weights(small, strength / 2, np.ones(len(NAMES)), seed)
    scored = {name: score(rows, weights[name]) for name, rows in small.items()}
    mean = np.mean(list(weights.values()), axis=0)
    print("  ", {n: round(float(w), 2) for n, w in zip(NAMES, mean, strict=True)})
    NAMES = every
    return scored, mean


def summarise(scored: dict[str, list[tuple[float, bool]]]) -> str:
    mean = np.mean([np.mean([v for v, _ in rows]) for rows in scored.values()])
    hit = np.mean([h for rows in scored.values() for _, h in rows])
    return f"NDCG@10 {mean:.4f}  hit@1 {hit:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--stage", choices=("first", "complete"), default="first")
    parser.add_argument("--largest", type=int, default=0, help="most chunks of a repository")
    parser.add_argument("--cache", type=Path, default=Path(".bench"))
    parser.add_argument("--again", action="store_true", help="measure the features anew")
    parser.add_argument("--strength", type=float, default=STRENGTH)
    parser.add_argument("--drop", default="", help="features to leave out")
    parser.add_argument("--ablate", action="store_true", help="each feature left out")
    parser.add_argument("--groups", action="store_true", help="each kind of evidence left out")
    parser.add_argument("--worst", type=int, default=0)
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    by_repo = gather_all(
        args.corpora, args.queries, args.cache, args.stage, args.largest, again=args.again
    )
    everything = [row for rows in by_repo.values() for row in rows]
    found = np.mean([row[1].sum() / row[3] for row in everything])
    print(f"{len(by_repo)} repositories, {len(everything)} queries, {found:.4f} of targets found")
    shipped = DEEP if args.stage == "complete" else CODE
    current = np.array([shipped.get(name, 0.0) for name in NAMES])
    print("weights in the code:", summarise({n: score(r, current) for n, r in by_repo.items()}))
    keep = np.array([0.0 if n in args.drop.split(",") else 1.0 for n in NAMES])
    scored = cross_validate(by_repo, args.strength, keep)
    print("cross-validated:    ", summarise(scored))
    if args.stage == "complete":
        first = gather_all(args.corpora, args.queries, args.cache, "first", 0, again=args.again)
        for seed in (0, 1, 2):
            scored, _ = add_deep(by_repo, first, args.strength, seed)
            print("  added to the first stage:", summarise(scored))
        under = fold_weights(first, args.strength, keep)
        print(
            "  the first stage there:",
            summarise({name: score(first[name], under[name]) for name in by_repo}),
        )
    for seed in (1, 2):
        print("  other folds:      ", summarise(cross_validate(by_repo, args.strength, keep, seed)))
    categories = defaultdict(list)
    for name, rows in by_repo.items():
        for row, (value, _) in zip(rows, scored[name], strict=True):
            categories[row[5]].append(value)
    print({k: round(float(np.mean(v)), 4) for k, v in categories.items()})
    print({n: round(float(np.mean([v for v, _ in r])), 3) for n, r in sorted(scored.items())})
    left_out = {name: [name] for name in NAMES if args.ablate} | {
        title: [n for n in NAMES if n.startswith(tuple(starts.split()))]
        for title, starts in GROUPS.items()
        if args.groups
    }
    for title, names in left_out.items():
        without = keep * np.array([float(name not in names) for name in NAMES])
        if (without != keep).any():
            mean = [cross_validate(by_repo, args.strength, without, seed) for seed in (0, 1, 2)]
            print(f"  without {title:34}", *(summarise(one) for one in mean))
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
