"""Retrieval quality over labelled repositories, asked through the real server.

    python benchmarks/quality.py CORPORA QUERIES [--tool sonde|semble] [--stage first|complete]
                                 [--only a,b] [--out FILE]

CORPORA holds one folder per repository; QUERIES is a JSON list of {name, language, queries:
[{query, relevant, secondary, category}]}. README.md says how each figure is defined. The ranking's
constants were fitted on part of such a set: training/ reports cross-validated figures, this
command those of the product as shipped.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from client import Client
from contestants import Contestant, install_semble

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".bench"
DEPTH = 10
SHOWN = 20
BUDGETS = (500, 1000, 2000)
MISS = 4000
"""Tokens charged to a question none of whose targets is found."""
INDEX_S = 3600


@dataclass(frozen=True)
class Hit:
    """One result: the file it is in, the lines shown, and what it costs to read."""

    path: str
    tokens: int
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class Outcome:
    """How one question went."""

    query: str
    category: str
    language: str
    repository: str
    ndcg: float
    strict: float
    """NDCG where a label that names lines wants one of them shown."""
    hit1: float
    tokens: int
    recall: tuple[float, ...]
    seconds: float
    files: tuple[str, ...]
    targets: tuple[str, ...]


def read_hits(answer: Mapping[str, Any]) -> list[Hit]:
    """The results of an answer in order, whichever tool gave it."""
    return [
        Hit(
            row.get("path") or row["file_path"],
            math.ceil(len(json.dumps(row, ensure_ascii=False, separators=(",", ":"))) / 4),
            row.get("startLine") or row.get("start_line", 0),
            row.get("endLine") or row.get("end_line", 0),
        )
        for row in answer.get("results", [])
    ]


def rank_files(hits: Iterable[Hit], targets: Iterable[str]) -> list[str]:
    """Distinct files in order; a label may leave out the folders above the corpus."""
    return list(dict.fromkeys(name_target(hit.path, targets) for hit in hits))


def name_target(path: str, targets: Iterable[str]) -> str:
    """The label of a target, or the path itself when it is none."""
    for target in targets:
        if path == target or path.endswith(f"/{target}") or target.endswith(f"/{path}"):
            return target
    return path


def score_ndcg(files: Sequence[str], targets: frozenset[str]) -> float:
    """Binary gain, logarithmic discount, the best possible order as 1."""
    gain = sum(1 / math.log2(at + 2) for at, path in enumerate(files[:DEPTH]) if path in targets)
    best = sum(1 / math.log2(at + 2) for at in range(min(DEPTH, len(targets))))
    return gain / best if best else 0.0


def drop_beside(hits: Iterable[Hit], spans: Mapping[str, tuple[int, int]]) -> list[Hit]:
    """The hits, those renamed that show other lines of a file than its label wants."""
    kept = []
    for hit in hits:
        first, last = spans.get(name_target(hit.path, spans), (0, hit.last))
        shows = hit.first <= last and hit.last >= first
        kept.append(hit if shows else replace(hit, path=f"{hit.path} (other lines)"))
    return kept


def count_tokens(hits: Sequence[Hit], targets: frozenset[str]) -> int:
    """What is read up to and with the first right hit."""
    read = 0
    for hit in hits:
        read += hit.tokens
        if name_target(hit.path, targets) in targets:
            return read
    return MISS


def score_recall(hits: Sequence[Hit], targets: frozenset[str], budget: int) -> float:
    """Share of the targets shown before the budget is spent."""
    found, read = set(), 0
    for hit in hits:
        read += hit.tokens
        if read > budget:
            break
        found.add(name_target(hit.path, targets))
    return len(found & targets) / len(targets)


def ask_question(
    server: Client, who: Contestant, folder: Path, question: Mapping[str, Any]
) -> tuple[list[Hit], list[Hit], float]:
    """The first answer, then all that can be had by its cursor, and how long the first took."""
    began = time.perf_counter()
    answer = server.call(*who.ask(folder, question["query"], top_k=SHOWN))
    seconds = time.perf_counter() - began
    first = read_hits(answer)
    hits = list(first)
    while (cursor := answer.get("nextCursor")) and sum(h.tokens for h in hits) < MISS:
        answer = server.call("search_code", {"cursor": cursor})
        hits += read_hits(answer)
    return first, hits, seconds


def judge(
    question: Mapping[str, Any],
    labelled: Mapping[str, Any],
    first: Sequence[Hit],
    hits: Sequence[Hit],
    seconds: float,
) -> Outcome:
    """Score one answer: `first` is its first page, `hits` all that was read."""
    named = [*question["relevant"], *question.get("secondary", [])]
    targets = frozenset(t if isinstance(t, str) else t["path"] for t in named)
    spans = {
        t["path"]: (t["start_line"], t["end_line"])
        for t in named
        if not isinstance(t, str) and t.get("start_line")
    }
    files = rank_files(first, targets)
    return Outcome(
        question["query"],
        question.get("category") or "",
        labelled["language"],
        labelled["name"],
        score_ndcg(files, targets),
        score_ndcg(rank_files(drop_beside(first, spans), targets), targets),
        float(bool(files) and files[0] in targets),
        count_tokens(hits, targets),
        tuple(score_recall(hits, targets, budget) for budget in BUDGETS),
        seconds,
        tuple(files[:DEPTH]),
        tuple(sorted(targets)),
    )


def measure_repository(
    who: Contestant, folder: Path, labelled: Mapping[str, Any], stage: str
) -> Iterator[Outcome]:
    """Index one repository in a storage root of its own and ask all its questions."""
    variables = {"SONDE_EMBEDDING": "static"} if stage == "first" else {}
    with tempfile.TemporaryDirectory() as home:
        env = who.environment(Path(home), **variables)
        with Client(who.server(), env, folder) as server:
            server.initialize()
            if who.name == "sonde":
                wanted = {"project": str(folder), "deep": stage == "complete"}
                server.call("create_index", wanted, INDEX_S)
            for question in labelled["queries"]:
                yield judge(question, labelled, *ask_question(server, who, folder, question))


def summarize(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """The figures of a set of questions; NDCG as the mean of the repositories' means."""
    names = sorted({o.repository for o in outcomes})
    means = [statistics.fmean(o.ndcg for o in outcomes if o.repository == n) for n in names]
    times = sorted(o.seconds for o in outcomes)
    return {
        "repositories": len(names),
        "questions": len(outcomes),
        "NDCG@10": statistics.fmean(means),
        "lines too": statistics.fmean(
            statistics.fmean(o.strict for o in outcomes if o.repository == n) for n in names
        ),
        "hit@1": statistics.fmean(o.hit1 for o in outcomes),
        "tokens to first hit": statistics.fmean(o.tokens for o in outcomes),
        **{
            f"recall in {budget:,}": statistics.fmean(o.recall[at] for o in outcomes)
            for at, budget in enumerate(BUDGETS)
        },
        "p50 ms": 1000 * statistics.median(times),
        "p95 ms": 1000 * times[min(len(times) - 1, round(0.95 * len(times)))],
    }


def render_tables(outcomes: Sequence[Outcome]) -> str:
    """All, by category, by language."""
    groups: dict[str, list[Outcome]] = {"all": list(outcomes)}
    for kind in ("category", "language"):
        for name in sorted({getattr(o, kind) for o in outcomes}):
            groups[f"{kind} {name}"] = [o for o in outcomes if getattr(o, kind) == name]
    rows = {name: summarize(found) for name, found in groups.items()}
    heads = list(rows["all"])
    lines = [f"| questions | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name, row in rows.items():
        cells = [f"{v:,.0f}" if v >= 10 or v == int(v) else f"{v:.3f}" for v in row.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure every repository that is there, print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--tool", choices=("sonde", "semble"), default="sonde")
    parser.add_argument("--stage", choices=("first", "complete"), default="first")
    parser.add_argument("--only", help="comma-separated names of repositories")
    parser.add_argument("--out", type=Path, help="every question's outcome, as JSON")
    args = parser.parse_args()
    here = Contestant("sonde", Path(sys.executable))
    who = here if args.tool == "sonde" else install_semble(WORK)
    only = set(args.only.split(",")) if args.only else None
    outcomes: list[Outcome] = []
    for labelled in json.loads(args.queries.read_text()):
        folder = (args.corpora / labelled["name"]).resolve()
        if (only is not None and labelled["name"] not in only) or not folder.is_dir():
            continue
        found = list(measure_repository(who, folder, labelled, args.stage))
        outcomes += found
        print(f"{labelled['name']:24} NDCG@10 {summarize(found)['NDCG@10']:.4f}", flush=True)
    if not outcomes:
        raise SystemExit("none of the repositories is there")
    print(f"\n{args.tool}, stage: {args.stage}\n\n{render_tables(outcomes)}")
    if args.out:
        args.out.write_text(json.dumps([vars(o) for o in outcomes], indent=1))


if __name__ == "__main__":
    main()
