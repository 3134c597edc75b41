"""How well a provider ranks: CoSQA (question -> function) and labelled repositories.

    python training/evaluate.py static deep --cosqa DIR --queries queries.json --corpora DIR
    python training/evaluate.py static:FOLDER deep:FOLDER ...     (weights that are not bundled)

Questions and code are embedded as by an index.

Dense scores alone: chunks are runs of lines of about 1,500 characters with the path in front,
a file counts by its best chunk. The product ranks with more evidence; this compares models.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np

from sonde.embedding.base import Embedder, Vectors, load_provider
from sonde.embedding.onnx import OnnxEmbedder
from sonde.embedding.static import StaticEmbedder

CHUNK = 1500
SOURCE = frozenset(
    ".py .js .jsx .ts .tsx .mjs .go .rs .rb .php .java .kt .kts .scala .c .h .cc .cpp .hpp .hh .cs"
    " .swift .hs .ex .exs .lua .zig .sh .bash".split()
)


def cut(text: str) -> list[str]:
    chunks, now = [], ""
    for line in text.splitlines(keepends=True):
        if now and len(now) + len(line) > CHUNK:
            chunks.append(now)
            now = ""
        now += line
    return [*chunks, now] if now.strip() else chunks


def read_chunks(root: Path) -> list[tuple[str, str]]:
    chunks = []
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if not path.is_file() or path.is_symlink() or "/.git/" in f"/{name}":
            continue
        if path.suffix not in SOURCE and path.name != "nvm.sh":
            continue
        if path.stat().st_size > 1_000_000:
            continue
        text = path.read_text("utf-8", errors="replace")
        chunks += [(name, chunk) for chunk in cut(text)]
    return chunks


def measure_cosqa(model: Embedder, folder: Path) -> float:
    functions = json.loads((folder / "functions.json").read_text())
    questions = json.loads((folder / "queries.json").read_text())
    asked = model.embed([q["query"] for q in questions], "query")
    scores = asked @ model.embed(functions, "code").T
    right = scores[np.arange(len(questions)), [q["id"] for q in questions]]
    return float((1 / (1 + (scores > right[:, None]).sum(1))).mean())


def ndcg(ranked: list[str], wanted: set[str]) -> float:
    gain = sum(1 / math.log2(i + 2) for i, path in enumerate(ranked[:10]) if path in wanted)
    return gain / sum(1 / math.log2(i + 2) for i in range(min(10, len(wanted))))


def rank_files(scores: Vectors, paths: list[str]) -> list[str]:
    return list(dict.fromkeys(paths[i] for i in np.argsort(-scores)[:400]))


def place(folder: Path, root: str, path: str) -> str:
    """A label as a path of the corpus: some labels count from the benchmark's folder."""
    return path if (folder / path).exists() else f"{root}/{path}"


def open_model(name: str) -> Embedder:
    kind, _, folder = name.partition(":")
    if not folder:
        return load_provider(kind)
    make = {"static": StaticEmbedder, "deep": OnnxEmbedder}[kind]
    return make(folder=Path(folder), name=name)


def measure_repository(model: Embedder, folder: Path, entry: dict) -> list[float]:
    chunks = read_chunks(folder)
    paths = [path for path, _ in chunks]
    passages = [f"{path.replace('/', ' ')}\n{text}" for path, text in chunks]
    vectors = model.embed(passages, "code")
    asked = model.embed([q["query"] for q in entry["queries"]], "query")
    results = []
    for query, scores in zip(entry["queries"], asked @ vectors.T, strict=True):
        wanted = {
            place(folder, entry["root"], target if isinstance(target, str) else target["path"])
            for target in [*query["relevant"], *query.get("secondary", [])]
        }
        results.append(ndcg(rank_files(scores, paths), wanted))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("providers", nargs="*")
    parser.add_argument("--cosqa", type=Path)
    parser.add_argument("--queries", type=Path)
    parser.add_argument("--corpora", type=Path)
    parser.add_argument("--only", nargs="+", help="names of repositories")
    options = parser.parse_args()
    for name in options.providers:
        model = open_model(name)
        started = time.process_time()
        line = name
        if options.cosqa:
            line += f"  CoSQA MRR {measure_cosqa(model, options.cosqa):.4f}"
        if options.corpora:
            entries = json.loads(options.queries.read_text())
            means = {}
            for entry in entries:
                if options.only and entry["name"] not in options.only:
                    continue
                means[entry["name"]] = np.mean(
                    measure_repository(model, options.corpora / entry["name"], entry)
                )
            line += f"  {len(means)} repositories NDCG@10 {np.mean(list(means.values())):.4f}"
            print({k: round(float(v), 2) for k, v in means.items()})
        print(f"{line}  ({time.process_time() - started:.0f} CPU s)")


if __name__ == "__main__":
    main()
