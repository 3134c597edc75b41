"""Fit the weights of passages in `sonde.ranking.weights` on definitions of public repositories.

    python training/fit_passages.py CORPORA [--each 25] [--seed 1] [--cache FOLDER] [--free]

CORPORA holds one folder per repository, none of them part of a benchmark. Questions are made from
what universal-ctags finds: the bare name of something defined once, `Scope.name` where the name is
defined more than once, and the first sentence of a function's documentation. The last is asked
twice: with the documentation cut out of the file, and with it in place. Fitted on the first alone
the weights learn that a text which holds the question's words is the wrong one (a sibling that
kept its documentation), and no documented function is found any more: `--free` shows it.

Weights of evidence are therefore never negative. Every figure printed is from weights that never
saw the repository scored: four folds, each fitted on the others.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fit_ranking import open_index

from sonde.embedding.base import Embedder, load_provider
from sonde.indexing.pipeline import refine_vectors
from sonde.ranking.passages import PASSAGE_FEATURES, Passage
from sonde.ranking.question import read_question
from sonde.runtime.work import Work, WriterLock
from sonde.searching.modes import weigh_files
from sonde.searching.passages import gather_passages
from sonde.searching.search import DeepVectors, QueryVector, Search
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.types import Filter

NAMES = [*PASSAGE_FEATURES, "file_score"]
"""What the file's score counts beside them says how much the passage's share should be."""
EVIDENCE = [
    at for at, name in enumerate(NAMES)
    if name.endswith(("_lexical", "_dense", "_rel", "_f1", "_precision", "_named", "_score"))
    or name in ("is_spelled", "is_qualified", "says_all", "own_deep")
]  # fmt: skip
REPEATED = 1.0
"""What a documented function counts beside one whose documentation was cut out."""
GROUPS = {"name": "name", "scoped": "name", "documented": "words", "undocumented": "words"}
FOLDS, STRENGTH, STEPS, PASSAGES = 4, 8.0, 250, 100
KINDS = {"function", "method", "class", "struct", "interface", "trait", "func", "type", "enum"}
TESTS = re.compile(
    r"(^|/)(tests?|specs?|examples?|docs?|vendor|bench\w*)(/|$)|[._-]?(test|spec)s?\.\w+$"
)
DOCSTRING = re.compile(r'\s*[rR]?("""|\'\'\')(.*)$')
COMMENT = re.compile(r"^\s*(?:///?!?|\*+/?|/\*\*?|#+|--+\|?|;;+|%+)\s?")
SHORTEST_SENTENCE, SHORTEST_NAME = 30, 6


Tag = dict[str, Any]
Question = tuple[str, str, Tag]
"""Kind, query, and the definition asked for."""


@dataclass
class Asked:
    """A question, the lines that answer it, and the passages that were weighed."""

    repository: str
    kind: str
    query: str
    path: str
    lines: tuple[int, int]
    features: np.ndarray
    right: np.ndarray
    files: list[str]


def read_tags(folder: Path) -> list[Tag]:
    """Definitions outside tests, as universal-ctags finds them."""
    command = ["ctags", "-R", "--output-format=json", "--fields=+nesKZ", "--links=no", "-f", "-"]
    out = subprocess.run([*command, "."], cwd=folder, capture_output=True, check=True).stdout
    tags = map(json.loads, out.decode("utf-8", "replace").splitlines())
    kept = [tag for tag in tags if tag.get("kind") in KINDS and "line" in tag]
    for tag in kept:
        tag["path"] = tag["path"].removeprefix("./")
        tag["end"] = tag.get("end", tag["line"])
    return sorted(kept, key=lambda tag: (tag["path"], tag["line"]))


def find_documentation(lines: list[str], tag: Tag) -> tuple[range, str]:
    """The lines of a definition's documentation, and its first sentence."""
    end = tag["line"] - 1
    start = end
    while start and COMMENT.match(lines[start - 1]):
        start -= 1
    kept = [COMMENT.sub("", line) for line in lines[start:end]]
    if tag["path"].endswith(".py"):
        body = range(tag["line"], tag["end"])
        first = next((at for at in body if lines[at - 1].rstrip().endswith(":")), tag["end"])
        opened = DOCSTRING.match(lines[first]) if first < tag["end"] else None
        quote = opened[1] if opened else ""
        closed = (at for at in range(first, tag["end"]) if lines[at].rstrip().endswith(quote))
        start = first
        end = next((at for at in closed if at > first or lines[at].count(quote) > 1), first - 1) + 1
        end = end if opened else start
        kept = [line.replace(quote, "") for line in lines[start:end]]
    text = " ".join(line.strip() for line in kept)
    return range(start, end), re.split(r"(?<=[.!?])\s", text.strip())[0].strip(" .")


def make_questions(folder: Path, chance: random.Random, each: int) -> Iterator[Question]:
    """Kind, query and tag of the questions of a repository; cuts documentation out of it."""
    tags = read_tags(folder)
    named = defaultdict(list)
    for tag in tags:
        named[tag["name"]].append(tag)
    source = [tag for tag in tags if not TESTS.search(tag["path"])]
    chance.shuffle(source)
    alone = [tag for tag in source if len(named[tag["name"]]) == 1]
    names = [("name", tag["name"], tag) for tag in alone if len(tag["name"]) >= SHORTEST_NAME]
    scoped = [
        ("scoped", f"{re.split(r'::|[./]', tag['scope'])[-1]}.{tag['name']}", tag)
        for tag in source
        if tag.get("scope") and len(named[tag["name"]]) > 1
    ]
    yield from names[:each]
    yield from scoped[:each]
    left = each
    for tag in alone:
        path = folder / tag["path"]
        lines = path.read_text(errors="replace").split("\n")
        where, sentence = find_documentation(lines, tag)
        if left and tag["end"] > tag["line"] and len(sentence) >= SHORTEST_SENTENCE:
            left -= 1
            yield "documented", sentence, tag
            yield "undocumented", sentence, tag
            for at in where:
                lines[at] = ""
            path.write_text("\n".join(lines))


def ask(
    store: SqliteChunkStore,
    static: Embedder,
    deep: Embedder | None,
    repository: str,
    asked: Question,
) -> Asked:
    """Ask one question, of the first stage where there is no deep model; keep what was weighed."""
    kind, query, tag = asked
    question = read_question(query)
    vector = static.embed([question.text], "query")[0]
    probe = QueryVector(static.name, vector, None, lambda texts: static.embed(texts, "passage"))
    seen = None
    if deep:
        seen = DeepVectors(deep.name, deep.embed([question.text], "query")[0], is_complete=True)
    search = Search(store, Filter(), 20, probe, seen)
    found = gather_passages(search, question, weigh_files(search, question), PASSAGES)
    for one in found:
        one.features["file_score"] = one.file.score
    features = np.array([[one.features.get(name, 0.0) for name in NAMES] for one in found])
    right = np.array([answers(one, tag) for one in found], bool)
    paths = [one.file.state.path for one in found]
    lines = tag["line"], tag["end"]
    return Asked(repository, kind, query, tag["path"], lines, features, right, paths)


def answers(one: Passage, tag: Tag) -> bool:
    """Whether a passage is the definition, or the smallest stretch around it."""
    here = one.file.state.path == tag["path"] and one.start_line <= tag["line"] <= one.end_line
    return here and (not one.symbol or one.name.rpartition(".")[2] == tag["name"])


def fit(rows: list[Asked], *, free: bool) -> np.ndarray:
    """Listwise softmax with L2 on scaled features; evidence never counts against a passage."""
    rows = [row for row in rows if row.right.any()]
    if not rows:
        raise SystemExit("too few questions to fit on: give more repositories")
    matrix = np.vstack([row.features - row.features.mean(0) for row in rows])
    scale = np.where(matrix.std(0) > 1e-9, matrix.std(0), 1.0)
    matrix /= scale
    target = np.concatenate([row.right / row.right.sum() for row in rows])
    sizes = np.array([len(row.right) for row in rows])
    counts = np.repeat([REPEATED if row.kind == "documented" else 1.0 for row in rows], sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    weights, momentum = np.zeros(len(NAMES)), np.zeros(len(NAMES))
    for step in range(STEPS):
        scores = matrix @ weights
        p = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
        p /= np.repeat(np.add.reduceat(p, starts), sizes)
        momentum = 0.9 * momentum + (matrix.T @ ((p - target) * counts) + STRENGTH * weights) / len(
            rows
        )
        weights -= (0.3 if step < STEPS * 3 // 4 else 0.1) * momentum
        if not free:
            weights[EVIDENCE] = np.maximum(weights[EVIDENCE], 0.0)
    return weights / scale


def rank_of(row: Asked, weights: np.ndarray) -> int:
    """The place of the first right passage, from 1; 0 if there is none."""
    if not row.right.any():
        return 0
    return 1 + int(np.argmax(row.right[np.argsort(-(row.features @ weights), kind="stable")]))


def gather(corpora: Path, cache: Path, seed: int, each: int, deep: Embedder | None) -> list[Asked]:
    """All questions of all repositories with their passages."""
    static = load_provider("static")
    rows: list[Asked] = []
    for corpus in sorted(path for path in corpora.iterdir() if path.is_dir()):
        whole, cut = cache / corpus.name / "whole", cache / corpus.name / "cut"
        for folder in (whole, cut):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(corpus, folder, symlinks=True)
        asked = list(make_questions(cut, random.Random(f"{seed}/{corpus.name}"), each))
        for folder, kinds in ((whole, {"documented"}), (cut, GROUPS.keys() - {"documented"})):
            store = open_index(folder, cache / corpus.name / f"{folder.name}-index")
            lock = WriterLock(cache / corpus.name)
            refine_vectors({"code": store}, {"code": static}, lock, Work())
            if deep:
                refine_vectors({"code": store}, {"code": deep}, lock, Work(), definitions=True)
            rows += [ask(store, static, deep, corpus.name, one) for one in asked if one[0] in kinds]
            store.close()
        print(corpus.name, len(asked), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--each", type=int, default=25, help="questions of a kind and repository")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=Path(".bench/passages"))
    parser.add_argument("--free", action="store_true", help="let evidence count against a passage")
    parser.add_argument("--deep", action="store_true", help="with deep vectors complete: slow")
    args = parser.parse_args()
    deep = load_provider("deep") if args.deep else None
    rows = gather(args.corpora, args.cache, args.seed, args.each, deep)
    repositories = sorted({row.repository for row in rows})
    random.Random(0).shuffle(repositories)
    places: dict[str, list[int]] = defaultdict(list)
    for fold in range(FOLDS):
        held = set(repositories[fold::FOLDS])
        for group in ("name", "words"):
            own = [row for row in rows if GROUPS[row.kind] == group]
            weights = fit([row for row in own if row.repository not in held], free=args.free)
            for row in own:
                if row.repository in held:
                    places[row.kind].append(rank_of(row, weights))
    for kind, found in places.items():
        first, five = (np.mean([0 < at <= most for at in found]) for most in (1, 5))
        print(f"{kind:14} n {len(found):5}  hit@1 {first:.3f}  hit@5 {five:.3f}")
    for group in ("name", "words"):
        weights = fit([row for row in rows if GROUPS[row.kind] == group], free=args.free)
        print(f"PASSAGE_{group.upper()}:")
        for name, weight in zip(NAMES, weights, strict=True):
            print(f'    "{name}": {weight:.1f},')


if __name__ == "__main__":
    main()
