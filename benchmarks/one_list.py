"""One `search` over code, docs and notes: how often the right answer leads, wherever it lives.

    python benchmarks/one_list.py REPOSITORIES QUERIES [--same] [--deep | --at-once] [--at FOLDER]

QUERIES are the labelled questions on code (`quality.py`), `data/docs.jsonl` has those on documents,
`data/notes.jsonl` and `data/notes_everyday.jsonl` those on notes. The code of each project that has
questions of the first two kinds is indexed with the documents of the next one, so that only one
source holds the answer (`--same`: with its own, where a page and a class may both answer); all
notes are imported. Each question is asked twice: in the source that has its answer, and in all;
with the static model alone, with all deep vectors, or as right after indexing (`at_once.py`).
REPOSITORIES: as of `docs_search.py`; what is indexed in FOLDER is used again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from at_once import forget_read, opened
from client import Client
from docs_search import check_out, is_document
from notes import wait_for_vectors, write_notes

from sonde.runtime.work import Work
from sonde.tools.research import search

DATA = Path(__file__).parent / "data"
Asked = tuple[str, str, tuple[str, ...]]
"""A source, a question on it, and the ends of the addresses that answer."""


@dataclass
class Project:
    """A repository, and the questions on it."""

    name: str
    commit: str
    docs: list[Asked] = field(default_factory=list)
    code: list[Asked] = field(default_factory=list)


def read_projects(queries: Path) -> list[Project]:
    """The projects with questions on both code and documents."""
    found: dict[str, Project] = {}
    for row in map(json.loads, (DATA / "docs.jsonl").read_text("utf-8").splitlines()):
        project = found.setdefault(row["repository"], Project(row["repository"], row["commit"]))
        project.docs.append(("docs", row["question"], (row["answer"],)))
    for row in json.loads(queries.read_text("utf-8")):
        if project := found.get(row["repository"]):
            for each in row["queries"]:
                named = [one["path"] if isinstance(one, dict) else one for one in each["relevant"]]
                project.code.append(("code", each["query"], tuple(named)))
    return [each for each in found.values() if each.code]


def is_first(rows: list[dict[str, Any]], answers: tuple[str, ...]) -> bool:
    """Whether the first result is one of the answers."""
    first = rows[0] if rows else {}
    place = str(first.get("uri") or "").partition("#L")[0]
    return place.endswith(answers) or str(first.get("title") or "") in answers


def prepare(place: Path, env: dict[str, str], *, deep: bool) -> list[Asked]:
    """Index a project and import the notes, once. Returns the questions on notes."""
    notes = place / "notes"
    is_new = not notes.exists()
    notes.mkdir(exist_ok=True)
    told = write_notes(DATA / "notes.jsonl", notes)
    told += write_notes(DATA / "notes_everyday.jsonl", notes, "everyday")
    if is_new:
        command = str(Path(sys.executable).with_name("sonde"))
        index = [command, "index", ".", *(["--deep"] if deep else [])]
        for step in (index, [command, "knowledge", "import", str(notes)]):
            subprocess.run(step, env=env, cwd=place / "project", check=True, capture_output=True)
    return [("notes", question, (title,)) for question, title in told]


def ask_project(folder: Path, env: dict[str, str], asked: list[Asked]) -> list[tuple[bool, ...]]:
    """Of each question: whether its answer leads in its own source, and in all of them."""
    command = [str(Path(sys.executable).with_name("sonde"))]
    with Client([*command, "mcp"], env, folder) as client:
        client.initialize()

        def ask(question: str, sources: list[str]) -> dict[str, Any]:
            wanted = {"query": question, "limit": 3, "sources": sources, "dedupe": False}
            return client.call("search", wanted)

        wait_for_vectors(lambda: ask("x", []))
        return [
            tuple(is_first(ask(question, where)["results"], answers) for where in ([source], []))
            for source, question, answers in asked
        ]


def ask_at_once(folder: Path, home: Path, asked: list[Asked]) -> list[tuple[bool, ...]]:
    """The same before the deep model has made any vector."""
    with opened(folder, home) as app:

        def is_led(source: str, question: str, answers: tuple[str, ...]) -> bool:
            forget_read(app)
            sources = (source,) if source else ()
            found: Any = search(app, question, 3, sources=sources, dedupe=False, work=Work())
            return is_first(found["results"], answers)

        return [
            (is_led(source, question, answers), is_led("", question, answers))
            for source, question, answers in asked
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repositories", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    stage = parser.add_mutually_exclusive_group()
    stage.add_argument("--deep", action="store_true")
    stage.add_argument("--at-once", action="store_true")
    parser.add_argument("--same", action="store_true")
    parser.add_argument("--at", type=Path)
    parser.add_argument("--show", type=int, default=0, metavar="N")
    args = parser.parse_args()
    projects = [
        each for each in read_projects(args.queries) if each.name in args.only or not args.only
    ]
    found: dict[str, list[tuple[bool, ...]]] = {"code": [], "docs": [], "notes": []}
    for at, of_code in enumerate(projects):
        of_docs = of_code if args.same else projects[(at + 1) % len(projects)]
        with tempfile.TemporaryDirectory() as temporary:
            kind = f"{'same' if args.same else 'apart'}-{'deep' if args.deep else 'static'}"
            place = (args.at or Path(temporary)) / of_code.name.replace("/", "+") / kind
            chosen = ((of_docs, is_document), (of_code, lambda one: not is_document(one)))
            for each, choose in chosen if not place.exists() else ():
                check_out(args.repositories, each.name, each.commit, place / "project", choose)
            env = dict(os.environ, SONDE_HOME=str(place / "home"), SONDE_ASSUME_YES="1")
            env["SONDE_EMBEDDING"] = "auto" if args.deep else "static"
            told = prepare(place, env, deep=args.deep)
            asked = [*of_docs.docs, *of_code.code, *told[at :: len(projects)]]
            if args.at_once:
                first = ask_at_once(place / "project", place / "home", asked)
            else:
                first = ask_project(place / "project", env, asked)
        for (source, _, _), each in zip(asked, first, strict=True):
            found[source].append(each)
        print(
            of_code.name, {source: write_shares(rows) for source, rows in found.items()}, flush=True
        )
        lost = [each for each, (alone, among) in zip(asked, first, strict=True) if alone > among]
        for source, question, answers in lost[: args.show]:
            print(f"    {source}: {question} -> {answers[0]}")


def write_shares(rows: list[tuple[bool, ...]]) -> str:
    alone, among = (sum(each[at] for each in rows) for at in (0, 1))
    return f"{len(rows)}: {among} of {alone}" + (f" = {among / alone:.3f}" if alone else "")


if __name__ == "__main__":
    main()
