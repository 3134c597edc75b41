"""Queries that are no questions: how often a question is read as one, and what they find.

    python benchmarks/asking.py CORPORA QUESTIONS... [--files 6] [--messages 10] [--seed 5]

CORPORA holds one folder per repository. Each of QUESTIONS is a JSON file with questions and names:
any object with `query` or `issue`, at any depth. Places are random lines of random files; messages
are strings that a line raises, throws or panics with, asked with values of their own.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sonde.app import App
from sonde.runtime.work import Work
from sonde.searching.readings import read_literally
from sonde.settings import load_settings
from sonde.tools.code import search_code
from sonde.tools.index import create_index
from sonde.wiring import build_app

MESSAGE = re.compile(
    r"(?:raise\s+[\w.]*\(|throw\s+(?:new\s+)?[\w.]*\(|errors\.New\(|fmt\.Errorf\(|panic!?\()"
    r"\s*f?([\"'])((?:(?!\1)[^\\\n]){20,160})\1"
)
HOLE = re.compile(r"\$?\{[^{}]*\}|%[-#+0-9.]*[a-zA-Z]")
VALUES = ("'foo'", "42", "bar", "/tmp/x.txt")
LEAST_WORDS = 4  # of a message: shorter ones are on many lines


def list_questions(value: Any) -> Iterator[str]:
    """Every question in a JSON value."""
    if isinstance(value, dict):
        yield from (value[key] for key in ("query", "issue") if isinstance(value.get(key), str))
        value = list(value.values())
    for one in value if isinstance(value, list) else ():
        yield from list_questions(one)


def count_readings(files: list[Path]) -> None:
    """How questions are read; certain readings are those that never fall back in silence."""
    asked = [q for file in files for q in list_questions(json.loads(file.read_text()))]
    began = time.perf_counter()
    readings = [reading for query in asked if (reading := read_literally(query))]
    took = time.perf_counter() - began
    counted = Counter((one.kind, "certain" if one.is_certain else "if found") for one in readings)
    print(
        f"{len(asked)} questions, {1000 * took / max(len(asked), 1):.3f} ms each: {dict(counted)}"
    )


def draw_queries(root: Path, paths: list[str], args: argparse.Namespace) -> Iterator[Any]:
    """Queries with the kind, the file and the line each of them is about."""
    for path in random.sample(paths, min(args.files, len(paths))):
        lines = (root / path).read_text(errors="replace").splitlines()
        written = [number for number, line in enumerate(lines, 1) if line.strip()]
        line = random.choice(written or [1])
        yield "path:line", f"{path}:{line}", path, line
        yield "Python frame", f'File "/srv/app/{path}", line {line}, in run', path, line
        windows = path.replace("/", "\\")
        yield "JavaScript frame", rf"    at run (C:\srv\{windows}:{line}:3)", path, line
    raised = [
        (path, number, found[2])
        for path in paths
        if "test" not in path.lower()
        for number, line in enumerate((root / path).read_text(errors="replace").split("\n"), 1)
        if (found := MESSAGE.search(line)) and len(found[2].split()) >= LEAST_WORDS
    ]
    counted = Counter(text for _, _, text in raised)
    once = [one for one in raised if counted[one[2]] == 1]
    for path, line, text in random.sample(once, min(args.messages, len(once))):
        yield "message", f"Error: {HOLE.sub(lambda _: random.choice(VALUES), text)}", path, line
        if not HOLE.search(text):
            yield "quoted text", f'"{text}"', path, line


def ask(app: App, query: str, path: str, line: int) -> bool:
    """Whether the first result shows the line."""
    rows = search_code(app, query, work=Work())["results"]
    return (
        bool(rows)
        and rows[0]["path"] == path
        and (rows[0]["startLine"] <= line <= rows[0]["endLine"])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("questions", type=Path, nargs="*")
    parser.add_argument("--files", type=int, default=6)
    parser.add_argument("--messages", type=int, default=10)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    random.seed(args.seed)
    count_readings(args.questions)
    asked: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for root in sorted(args.corpora.iterdir()):
        with tempfile.TemporaryDirectory() as home:
            settings = load_settings({}, home=Path(home), assume_yes=True, embedding="static")
            app = build_app(settings, start=root.resolve())
            create_index(app, work=Work())
            project = app.workspace.projects.get(root.resolve())
            paths = sorted(project.stores()["code"].files())
            for kind, query, path, line in draw_queries(root, paths, args):
                asked[kind] += 1
                right[kind] += ask(app, query, path, line)
            app.close()
    for kind, count in asked.items():
        print(f"{kind:18} {count:5}  first result shows the line: {right[kind] / count:.3f}")


if __name__ == "__main__":
    main()
