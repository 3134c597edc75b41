"""How well `search_docs` finds the page of a project's documents that answers, through the server.

    python benchmarks/docs_search.py REPOSITORIES [--only NAME …] [--deep | --at-once] [--show N]

REPOSITORIES holds git directories, `owner+name/repo` or `owner/name`. Each project is taken at
the commit that `data/docs.jsonl` names (made by `docs_questions.py`, vague ones removed by eye) and
indexed; each of its questions is asked once, with the static model alone, with all deep vectors, or
as right after indexing, when the deep model reads the best candidates of each question.
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
from typing import Any

from at_once import opened
from client import Client
from docs_questions import read_blobs

from sonde.runtime.work import Work
from sonde.tools.code import search_docs
from sonde.tools.index import create_index

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
    with Client([*command, "mcp"], env, folder) as client:
        client.initialize()
        asked = {"top_k": 10, "project": str(folder)}
        return [
            find_rank(
                client.call("search_docs", {"query": row["question"], **asked}), row["answer"]
            )
            for row in rows
        ]


def ask_at_once(folder: Path, home: Path, rows: list[dict[str, str]]) -> list[int]:
    """The same before the deep model has made any vector."""
    with opened(folder, home) as app:
        create_index(app, str(folder), work=Work())
        return [
            find_rank(search_docs(app, row["question"], work=Work()), row["answer"]) for row in rows
        ]


def find_rank(answer: Any, wanted: str) -> int:
    files = list(
        dict.fromkeys(str(row.get("path") or row.get("file")) for row in answer["results"])
    )
    return next((at for at, path in enumerate(files, 1) if path.endswith(wanted)), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repositories", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    stage = parser.add_mutually_exclusive_group()
    stage.add_argument("--deep", action="store_true")
    stage.add_argument("--at-once", action="store_true")
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
            if args.at_once:
                ranks = ask_at_once(folder, home, rows)
            else:
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
