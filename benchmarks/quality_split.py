"""The table of `docs/quality.md`: every repository ranked by weights that never saw it.

    python benchmarks/quality_split.py CORPORA QUERIES [--stage first|complete] [--cache FOLDER]
                                       [--largest N] [--only a,b] [--write]

The weights in the code were fitted on these repositories, so the product's own figures on them
(`quality.py`) flatter it. Here each repository is indexed by the product and asked through the same
verbs, but under weights fitted on the other folds (`training/fit_ranking.py` makes and caches the
features). `--write` puts the tables into docs/quality.md.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quality import MISS, SHOWN, Hit, Outcome, judge, read_hits, render_tables, summarize
from sonde.app import App
from sonde.ranking import weights
from sonde.settings import load_settings
from sonde.tools.code import search_code
from sonde.tools.index import create_index
from sonde.wiring import build_app
from sonde.work import Work

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "quality.md"
MARKS = ("<!-- figures of benchmarks/quality_split.py -->", "<!-- end of figures -->")


def ask(app: App, folder: Path, query: str) -> tuple[list[Hit], list[Hit], float]:
    """The first answer, then all that can be had by its cursor, and how long the first took."""
    began = time.perf_counter()
    answer = search_code(app, query, SHOWN, str(folder), work=Work())
    seconds = time.perf_counter() - began
    first = read_hits(answer)
    hits = list(first)
    while (cursor := answer.get("nextCursor")) and sum(hit.tokens for hit in hits) < MISS:
        answer = search_code(app, cursor=cursor, work=Work())
        hits += read_hits(answer)
    return first, hits, seconds


def measure(folder: Path, labelled: Mapping[str, Any], stage: str) -> Iterator[Outcome]:
    """Index one repository in a storage root of its own and ask all its questions."""
    embedding = "static" if stage == "first" else "auto"
    with tempfile.TemporaryDirectory() as home:
        settings = load_settings(os.environ, home=home, assume_yes=True, embedding=embedding)
        app = build_app(settings, start=folder)
        try:
            create_index(app, str(folder), deep=stage == "complete", work=Work())
            for question in labelled["queries"]:
                yield judge(question, labelled, *ask(app, folder, question["query"]))
        finally:
            app.close()


def main() -> None:
    """Measure every repository that is there, print the tables."""
    sys.path.insert(0, str(ROOT / "training"))
    import fit_ranking
    import numpy as np

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--stage", choices=("first", "complete"), default="first")
    parser.add_argument("--cache", type=Path, default=ROOT / ".bench")
    parser.add_argument("--largest", type=int, default=0, help="most chunks, for `complete`")
    parser.add_argument("--only", help="comma-separated names of repositories")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--out", type=Path, help="every question's outcome, as JSON")
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    rows = fit_ranking.gather_all(args.corpora, args.queries, args.cache, "first", 0, again=False)
    keep = np.ones(len(fit_ranking.NAMES))
    unseen = fit_ranking.fold_weights(rows, fit_ranking.STRENGTH, keep)
    only = set(args.only.split(",")) if args.only else None
    more = {name: weights.DEEP[name] for name in weights.DEEP if name.startswith("deep_")}
    outcomes: list[Outcome] = []
    for labelled in json.loads(args.queries.read_text()):
        name = labelled["name"]
        if name not in unseen or (only is not None and name not in only):
            continue
        fitted = dict(zip(fit_ranking.NAMES, unseen[name].tolist(), strict=True))
        weights.CODE, weights.DEEP = fitted, fitted | more
        found = list(measure((args.corpora / name).resolve(), labelled, args.stage))
        outcomes += found
        print(f"{name:24} NDCG@10 {summarize(found)['NDCG@10']:.4f}", flush=True)
    if not outcomes:
        raise SystemExit("none of the repositories is there")
    table = render_tables(outcomes)
    print(f"\n{table}")
    if args.out:
        args.out.write_text(json.dumps([vars(o) for o in outcomes], indent=1))
    if args.write:
        head, rest = PAGE.read_text().split(MARKS[0])
        tail = rest.split(MARKS[1])[1]
        PAGE.write_text(f"{head}{MARKS[0]}\n{table}\n{MARKS[1]}{tail}")


if __name__ == "__main__":
    main()
