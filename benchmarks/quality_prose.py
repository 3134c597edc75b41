"""Questions on prose, asked through the search for documents: the Cranfield collection.

    python benchmarks/quality_prose.py FOLDER [--embedding static|auto|deep] [--work FOLDER]

FOLDER holds cran_docs.json, cran_queries.json and cran_qrels.json (or the same without `cran_`):
1,400 abstracts, 225 questions, judgements from 1 (complete answer) to 4 (of minimum interest).
Every abstract becomes one Markdown document. NDCG@10 with gains from 4 down to 1, and with a gain
of 1 for any judged document. No weight was fitted on these labels.
"""

import argparse
import json
import math
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WORK = Path(__file__).resolve().parent.parent / ".bench" / "prose"
MODES = ("lexical", "semantic", "hybrid")
DEPTH = 10


def load_part(folder: Path, name: str) -> list[dict[str, Any]]:
    """One of the three files, under either name."""
    found = next(p for p in (folder / f"cran_{name}.json", folder / f"{name}.json") if p.exists())
    return json.loads(found.read_text())


def write_documents(documents: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Each abstract as a document of its own, the title as its heading."""
    folder.mkdir(parents=True, exist_ok=True)
    for document in documents:
        title = " ".join(document["title"].split())
        body = " ".join(document["body"].split()).removeprefix(title).strip()
        path = folder / f"{int(document['id']):04}.md"
        text = f"# {title}\n\n{body}\n"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def score_ndcg(ranking: Sequence[str], gains: Mapping[str, float]) -> float:
    """Gain by judgement, logarithmic discount, the best possible order as 1."""
    best = sorted(gains.values(), reverse=True)[:DEPTH]
    ideal = sum(gain / math.log2(at + 2) for at, gain in enumerate(best))
    got = sum(gains.get(name, 0.0) / math.log2(at + 2) for at, name in enumerate(ranking[:DEPTH]))
    return got / ideal if ideal else 0.0


def main() -> None:
    """Index the abstracts, ask every question in every mode."""
    import sonde

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--embedding", choices=("static", "auto", "deep"), default="static")
    parser.add_argument(
        "--work", type=Path, default=WORK, help="where documents and index are kept"
    )
    args = parser.parse_args()
    os.environ["SONDE_EMBEDDING"] = args.embedding
    write_documents(load_part(args.folder, "docs"), args.work / "cranfield")
    judged: dict[int, dict[str, float]] = defaultdict(dict)
    for row in load_part(args.folder, "qrels"):
        if 1 <= row["position"] <= 4:
            judged[int(row["query_num"])][f"{int(row['id']):04}.md"] = 5.0 - row["position"]
    questions = load_part(args.folder, "queries")
    with sonde.open(args.work / "cranfield", home=args.work / "home") as opened:
        print(opened.index())
        print("| mode | NDCG@10, graded | NDCG@10, binary | p50 ms |\n|---|---:|---:|---:|")
        for mode in MODES:
            graded, binary, times = [], [], []
            for number, question in enumerate(questions, 1):
                began = time.perf_counter()
                hits = opened.search(question["query"], docs=True, mode=mode, limit=20)
                times.append(time.perf_counter() - began)
                ranking = list(dict.fromkeys(hit.path for hit in hits))
                graded.append(score_ndcg(ranking, judged[number]))
                binary.append(score_ndcg(ranking, dict.fromkeys(judged[number], 1.0)))
            print(
                f"| {mode} | {statistics.fmean(graded):.4f} | {statistics.fmean(binary):.4f}"
                f" | {1000 * statistics.median(times):.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
