"""How well `search_docs` finds the page of a project's documents that answers, through the server.

    python benchmarks/docs_search.py REPOSITORIES [--only owner/name …] [--deep] [--show N]

REPOSITORIES holds git directories, `owner+name/repo` or `owner/name`. Each project is taken at
the commit that `data/docs.jsonl` names (made by `docs_questions.py`, vague ones removed by eye) and
indexed; each of its questions is asked once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import mean

from client import Client
from docs_questions import read_blobs

DEPTHS = (1, 3, 10)


def is_document(name: str) -> bool:
    return name.endswith((".md", ".mdx", ".rst", ".txt", ".adoc"))


def check_out(
    repositories: Path,
    name: str,
    commit: str,
    folder: Path,
    choose: Callable[[str], bool] = is_document,
) -> None:
    """Some files of a commit, without history."""
    choices = (repositories / name.replace("/", "+") / "repo", repositories / name)
    place = next(path for path in choices if path.exists())
    for path, blob in read_blobs(str(place), commit, choose).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(blob)


def ask_project(folder: Path, home: Path, rows: list[dict[str, str]], *, deep: bool) -> list[int]:
    """The place of each answer among the distinct files found; 0 if it is not there."""
    env = dict(os.environ, SONDE_HOME=str(home), SONDE_ASSUME_YES="1")
    env["SONDE_EMBEDDING"] = "auto" if deep else "static"
    command = [str(Path(sys.executable).with_name("sonde"))]
    step = [*command, "index", ".", *(["--deep"] if deep else [])]
    subprocess.run(step, env=env, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    ranks = []
    with Client([*command, "mcp"], env, folder) as client:
        client.initialize()
        for row in rows:
            asked = {"query": row["question"], "top_k": 10, "project": str(folder)}
            found = client.call("search_docs", asked)["results"]
            files = list(dict.fromkeys(str(each.get("path") or each.get("file")) for each in found))
            place = [at for at, path in enumerate(files, 1) if path.endswith(row["answer"])]
            ranks.append(place[0] if place else 0)
    return ranks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repositories", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("--show", type=int, default=0, metavar="N")
    args = parser.parse_args()
    lines = (Path(__file__).parent / "data" / "docs.jsonl").read_text("utf-8").splitlines()
    asked: dict[str, list[dict[str, str]]] = {}
    for row in map(json.loads, lines):
        asked.setdefault(row["repository"], []).append(row)
    every: list[int] = []
    for name, rows in asked.items():
        if args.only and name not in args.only:
            continue
        with tempfile.TemporaryDirectory() as place:
            folder, home = Path(place) / "docs", Path(place) / "home"
            check_out(args.repositories, name, rows[0]["commit"], folder)
            ranks = ask_project(folder, home, rows, deep=args.deep)
        every += ranks
        print(f"{name:28} {write_shares(ranks)}", flush=True)
        missed = [row for row, rank in zip(rows, ranks, strict=True) if rank != 1]
        for row in missed[: args.show]:
            print(f"    {row['question']} -> {row['answer']}")
    print(f"{'all':28} {write_shares(every)}")


def write_shares(ranks: list[int]) -> str:
    shares = [mean(0 < rank <= depth for rank in ranks) for depth in DEPTHS]
    line = "  ".join(f"@{depth} {share:.3f}" for depth, share in zip(DEPTHS, shares, strict=True))
    return f"{len(ranks):4} questions  {line}"


if __name__ == "__main__":
    main()
