"""Collects texts of everyday English and of documentation, to teach the models prose.

    python training/collect_prose.py MIRRORS WORDNET OUT.jsonl.gz
        [--pairs PAIRS.jsonl.gz...] [--source FOLDER...]

MIRRORS holds bare clones (`owner+name/repo`) of the public data sets in SOURCES; WORDNET is the
folder of Debian's `wordnet-base`. `--pairs` are mined pairs (mine_wheels.py, mine_debs.py) and
`--source` folders of Python packages and documentation: their questions and texts are technical.
Each line of OUT is `{"t": text, "k": kind}`; a text occurs once.
"""

from __future__ import annotations

import argparse
import ast
import csv
import gzip
import io
import json
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

SOURCES = {
    "google-research-datasets/Taskmaster": r"TM-\d.*\.json$",  # CC BY 4.0: tasks, spoken and typed
    "google-research-datasets/dstc8-schema-guided-dialogue": r"(train|dev)/dialogues.*\.json$",
    "clinc/oos-eval": r"data/data_full\.json$",  # CC BY 3.0: questions to an assistant
    "PolyAI-LDN/task-specific-datasets": r"banking_data/train\.csv$",  # CC BY 4.0
    "xliuhw/NLU-Evaluation-Data": r"AnnotatedData/.*\.csv$",  # CC BY 4.0: requests at home
    "google-research-datasets/query-wellformedness": r"(train|dev)\.tsv$",  # CC BY-SA 4.0
    "sonos/nlu-benchmark": r"train_.*_full\.json$",  # CC0
    "wilburOne/cosmosqa": r"data/valid\.csv$",  # CC BY 4.0: short stories and questions on them
}
MOST_WORDS, LEAST_WORDS = 120, 3
EVERYDAY_TURNS = 420_000  # of the dialogues, which would drown the rest
_SPACE = re.compile(r"\s+")


def read_mirror(folder: Path, pattern: str) -> Iterator[str]:
    """The files of the newest commit whose path matches, as far as the clone holds them."""
    git = folder / ".git" if (folder / ".git").is_dir() else folder
    listing = subprocess.run(
        ["git", f"--git-dir={git}", "ls-tree", "-r", "--name-only", "HEAD"],
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    for path in listing:
        if re.search(pattern, path):
            shown = subprocess.run(
                ["git", f"--git-dir={git}", "show", f"HEAD:{path}"],
                capture_output=True,
                check=False,
            )
            if not shown.returncode:
                yield shown.stdout.decode("utf-8", "replace")


def find_sentences(value: object, keys: frozenset[str]) -> Iterator[str]:
    """Strings under the given keys, anywhere in a JSON value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in keys and isinstance(inner, str):
                yield inner
            else:
                yield from find_sentences(inner, keys)
    elif isinstance(value, list):
        if len(value) == 2 and all(isinstance(part, str) for part in value):
            yield value[0]  # CLINC: [text, intent]
        elif value and all(
            isinstance(part, dict) and set(part) <= {"text", "entity"} for part in value
        ):
            yield "".join(part["text"] for part in value)  # Snips: a sentence in parts
        else:
            for inner in value:
                yield from find_sentences(inner, keys)


def read_set(name: str, text: str) -> Iterator[str]:
    if name.startswith(
        ("google-research-datasets/T", "google-research-datasets/d", "clinc", "sonos")
    ):
        yield from find_sentences(
            json.loads(text), frozenset({"text", "utterance", "instructions"})
        )
    elif name.startswith("google"):
        yield from (line.split("\t")[0] for line in text.splitlines())
    elif name.startswith("xliuhw"):
        yield from (
            row["answer_normalised"] for row in csv.DictReader(io.StringIO(text), delimiter=";")
        )
    elif name.startswith("PolyAI"):
        yield from (row["text"] for row in csv.DictReader(io.StringIO(text)))
    else:
        for row in csv.DictReader(io.StringIO(text)):
            yield row["context"]
            yield row["question"]
            yield row[f"answer{row['label']}"]


def read_wordnet(folder: Path) -> Iterator[str]:
    """Words with their meaning, meanings alone, and example sentences."""
    for path in sorted(folder.glob("data.*")):
        for line in path.read_text("utf-8", "replace").splitlines():
            if line.startswith("  ") or " | " not in line:
                continue
            head, _, gloss = line.partition(" | ")
            fields = head.split()
            words = [fields[4 + 2 * i].replace("_", " ") for i in range(int(fields[3], 16))]
            meaning, *examples = re.split(r'; (?=")', gloss.strip())
            yield meaning
            yield f"{', '.join(words)}: {meaning}"
            yield from (example.strip('" ;') for example in examples)


def read_technical(pairs: list[Path], folders: list[Path]) -> Iterator[str]:
    """Questions and prose of mined pairs, docstrings, and sections of documentation."""
    for file in pairs:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            for pair in map(json.loads, lines):
                yield pair["q"]
                if pair["k"] in {"docstring", "prose"}:
                    yield pair["c"]
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            try:
                tree = ast.parse(path.read_text("utf-8"))
            except (SyntaxError, ValueError, OSError, RecursionError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    yield node.name.replace("_", " ")
                    if said := ast.get_docstring(node):
                        yield said.split("\n\n")[0]
                        yield said
        for path in sorted([*folder.rglob("*.md"), *folder.rglob("*.rst")]):
            for section in re.split(
                r"\n(?=#+ )|\n(?=[^\n]+\n[=~-]{4,}\n)", path.read_text("utf-8", "replace")
            ):
                yield section.split("\n")[0].strip("# ")
                yield section


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mirrors", type=Path)
    parser.add_argument("wordnet", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs", type=Path, nargs="*", default=[])
    parser.add_argument("--source", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    draw, seen, rows = random.Random(0), set(), []

    def keep(texts: Iterator[str], kind: str, most: int | None = None) -> None:
        found = []
        for text in texts:
            words = _SPACE.sub(" ", text).strip().split(" ")
            short = " ".join(words[:MOST_WORDS])
            if len(words) >= LEAST_WORDS and short.lower() not in seen:
                seen.add(short.lower())
                found.append({"t": short, "k": kind})
        if most and len(found) > most:
            found = draw.sample(found, most)
        rows.extend(found)

    for name, pattern in SOURCES.items():
        before = len(rows)
        folder = options.mirrors / name.replace("/", "+") / "repo"
        texts = (text for file in read_mirror(folder, pattern) for text in read_set(name, file))
        keep(texts, "everyday", EVERYDAY_TURNS // 2)
        print(f"{name}: {len(rows) - before:,}", flush=True)
    before = len(rows)
    keep(read_wordnet(options.wordnet), "everyday")
    print(f"WordNet: {len(rows) - before:,}")
    before = len(rows)
    keep(read_technical(options.pairs, options.source), "technical")
    print(f"technical: {len(rows) - before:,}")
    draw.shuffle(rows)
    with gzip.open(options.out, "wt", encoding="utf-8", compresslevel=3) as out:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


if __name__ == "__main__":
    main()
