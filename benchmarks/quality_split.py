"""The table of `docs/quality.md`: every repository ranked by weights that never saw it.

    python benchmarks/quality_split.py CORPORA QUERIES [--stage first|complete] [--cache FOLDER]
                                       [--only a,b] [--write]

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
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.tools.code import search_code
from sonde.tools.index import create_index
from sonde.wiring import build_app

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


def fit_unseen(corpora: Path, queries: Path, cache: Path) -> dict[str, dict[str, float]]:
    """For each repository the weights that the others teach."""
    sys.path.insert(0, str(ROOT / "training"))
    import fit_ranking
    import numpy as np

    cache.mkdir(parents=True, exist_ok=True)
    rows = fit_ranking.gather_all(corpora, queries, cache, "first", 0, again=False)
    keep = np.ones(len(fit_ranking.NAMES))
    fitted = fit_ranking.fold_weights(rows, fit_ranking.STRENGTH, keep)
    return {
        name: dict(zip(fit_ranking.NAMES, found.tolist(), strict=True))
        for name, found in fitted.items()
    }


def use_weights(fitted: dict[str, float]) -> None:
    """Rank code by these from now on; what the deep model adds stays as it is."""
    added = {name: value for name, value in weights.DEEP.items() if name.startswith("deep_")}
    weights.CODE, weights.DEEP = fitted, fitted | added


def main() -> None:
    """Measure every repository that is there, print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--stage", choices=("first", "complete"), default="first")
    parser.add_argument("--cache", type=Path, default=ROOT / ".bench")
    parser.add_argument("--only", help="comma-separated names of repositories")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--out", type=Path, help="every question's outcome, as JSON")
    args = parser.parse_args()
    unseen = fit_unseen(args.corpora, args.queries, args.cache)
    only = set(args.only.split(",")) if args.only else None
    outcomes: list[Outcome] = []
    for labelled in json.loads(args.queries.read_text()):
        name = labelled["name"]
        if name not in unseen or (only is not None and name not in only):
            continue
        use_weights(unseen[name])
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
