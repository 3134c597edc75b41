"""Notes asked for in other words, through the real server.

    python benchmarks/notes.py [--set data/notes.jsonl] [--among FILE] [--docs] [--show N]
        [--model FOLDER] [--joined N]

Each line of the set is a note; 218 have a question that shares no word with its note, the others
only distract, as do the notes of another set (`--set data/notes_everyday.jsonl --among
data/notes.jsonl`). The notes are brought in by `sonde knowledge import`, or with `--docs` indexed
as a project's documents. Asked three times: with the static model alone; as right after an import,
when the deep model has read nothing but reads the best candidates of each question (in this
process, so that nothing is embedded in the background); and once it has read everything. The
questions were written before anything was fitted. `--model` asks once, of a model of your own.
`--joined` writes N notes into each file, one a line, as a diary has them, and prints in how many
answers the snippet of the right file shows the right note.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from at_once import forget_read, opened
from client import Client

from sonde.knowledge.editing import import_knowledge
from sonde.runtime.work import Work
from sonde.tools.code import search_docs
from sonde.tools.index import create_index
from sonde.tools.knowledge import knowledge_search

DEPTHS = (1, 3, 10)
WAIT_S = 900.0  # for the deep vectors of some hundred notes, on a busy machine


Asked = tuple[str, str, str]
"""A question, the name of its note's file, and the note."""
Found = tuple[int, bool]
"""The place of the file among the results, from 1, 0 if it is not there; the note is shown."""


def write_notes(path: Path, folder: Path, prefix: str = "note", joined: int = 1) -> list[Asked]:
    """One file a note, or for several. Returns the questions."""
    asked = []
    for at, line in enumerate(path.read_text("utf-8").splitlines()):
        row = json.loads(line)
        name = f"{prefix}-{at // joined:03}"
        with (folder / f"{name}.md").open("a", encoding="utf-8") as file:
            file.write(row["note"] + "\n")
        if question := row.get("question"):
            asked.append((question, name, row["note"]))
    return asked


def find_note(rows: list[dict[str, Any]], name: str, note: str) -> Found:
    for at, row in enumerate(rows, 1):
        if name in str(row.get("title") or row.get("path") or row.get("file") or ""):
            return at, note in str(row.get("snippet") or row.get("text"))
    return 0, False


def ask_all(
    questions: list[Asked], folder: Path, home: Path, embedding: str, *, docs: bool
) -> list[Found]:
    """The place of each question's note, with the models of one stage."""
    env = dict(os.environ, SONDE_HOME=str(home), SONDE_EMBEDDING=embedding, SONDE_ASSUME_YES="1")
    if embedding not in ("static", "auto"):
        env |= {"SONDE_EMBEDDING": "model", "SONDE_EMBEDDING_MODEL": embedding}
    command = [str(Path(sys.executable).with_name("sonde"))]
    if docs:
        step = [*command, "index", ".", *(["--deep"] if embedding != "static" else [])]
    else:
        step = [*command, "knowledge", "import", str(folder)]
    subprocess.run(step, env=env, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with Client([*command, "mcp"], env, folder) as client:
        client.initialize()

        def ask(question: str) -> dict[str, Any]:
            if docs:
                return client.call("search_docs", {"query": question, "top_k": 10})
            return client.call(
                "knowledge_search", {"query": question, "limit": 10, "dedupe": False}
            )

        wait_for_vectors(lambda: ask("ready"))
        return [find_note(ask(each[0])["results"], *each[1:]) for each in questions]


def ask_at_once(questions: list[Asked], folder: Path, home: Path, *, docs: bool) -> list[Found]:
    """The same while the deep model has read nothing of the notes, whatever was asked before."""
    with opened(folder, home) as app:
        if docs:
            create_index(app, str(folder), work=Work())
        else:
            import_knowledge(app.knowledge, str(folder), work=Work())
        found = []
        for question, name, note in questions:
            forget_read(app)
            if docs:
                answer: Any = search_docs(app, question, work=Work())
            else:
                answer = knowledge_search(app, question, limit=10, dedupe=False, work=Work())
            found.append(find_note(answer["results"], name, note))
    return found


def wait_for_vectors(ask: Callable[[], dict[str, Any]]) -> None:
    """Ask until answers no longer say that the deep model is still reading."""
    until = time.monotonic() + WAIT_S
    while "deep model has read" in ask().get("note", "") and time.monotonic() < until:
        time.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).parent / "data" / "notes.jsonl"
    parser.add_argument("--set", type=Path, default=default)
    parser.add_argument("--among", type=Path)
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--joined", type=int, default=1, metavar="N")
    parser.add_argument("--model", type=Path, help="a folder, as `embeddingModel` takes it")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="list the N worst")
    args = parser.parse_args()
    named = [str(args.model.resolve())] if args.model else ["static", "at once", "auto"]
    for embedding in named:
        with tempfile.TemporaryDirectory() as place:
            folder, home = Path(place) / "notes", Path(place) / "home"
            folder.mkdir()
            asked = write_notes(args.set, folder, joined=args.joined)
            if args.among:
                write_notes(args.among, folder, "other", args.joined)
            if embedding == "at once":
                found = ask_at_once(asked, folder, home, docs=args.docs)
            else:
                found = ask_all(asked, folder, home, embedding, docs=args.docs)
        ranks = [rank for rank, _ in found]
        shares = [sum(0 < rank <= depth for rank in ranks) / len(ranks) for depth in DEPTHS]
        line = "  ".join(f"hit@{d} {s:.3f}" for d, s in zip(DEPTHS, shares, strict=True))
        if args.joined > 1:
            shown = [is_shown for rank, is_shown in found if rank]
            line += f"  shown {sum(shown) / len(shown):.3f}"
        print(f"{embedding:7} {len(ranks)} questions  {line}", flush=True)
        worst = sorted(zip(ranks, asked, strict=True), key=lambda each: each[0] or 99)
        for rank, (question, name, _) in worst[::-1][: args.show]:
            print(f"  {rank or '-':>3} {name} {question}")


if __name__ == "__main__":
    main()
