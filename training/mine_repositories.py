"""Public repositories -> pairs (first sentence of a documentation -> definition as indexed).

    python training/mine_repositories.py MIRRORS training/repositories.txt OUT.jsonl.gz
        [--benchmark DIR...]

MIRRORS holds bare clones (`owner+name/repo`) of the repositories listed. Files are cut as the
product cuts them, so a definition is what an index holds: path, qualified name, and the opening
without comments (`text`); `c` is the definition with its documentation. Of a large repository some
folders are read, drawn by its name.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath

from fit_passages import find_documentation
from pairs import is_description, read_benchmark

from sonde.chunking.parse import parse_source
from sonde.indexing.definitions import list_texts
from sonde.stores.chunks.base import place_digest

FILES, MOST_OF_ONE, LARGEST = 700, 3000, 150_000
FAMILIES = {
    ".py": "python", ".js": "js", ".mjs": "js", ".jsx": "js", ".ts": "js", ".tsx": "js",
    ".cs": "cs", ".swift": "swift", ".kt": "kt", ".kts": "kt", ".rs": "rs", ".go": "go",
    ".php": "php", ".rb": "rb", ".scala": "scala", ".zig": "zig", ".hs": "hs", ".lua": "lua",
    ".java": "java", ".sh": "sh", ".bash": "sh",
    **dict.fromkeys((".c", ".h", ".cc", ".hh", ".cpp", ".hpp", ".cxx"), "c"),
}  # fmt: skip
LEFT_OUT = re.compile(
    r"(^|/)(tests?|specs?|testing|__tests__|examples?|bench(marks?)?|docs?|vendor|third[_-]party"
    r"|fixtures|dist|build|node_modules|deps|external|locales?|i18n)(/|$)"
    r"|\.min\.|\.d\.ts$|[_.](test|spec)\.|_pb2|\.pb\.|generated|zz_",
    re.IGNORECASE,
)
_TAGS = re.compile(r"<[^>\n]{1,40}>|[`*]")
_END = re.compile(r"\s[@\\:](?:param|return|throws|example|see|since|type|private|api)")


def read_files(clone: Path, name: str) -> Iterator[tuple[str, str]]:
    """Path and text of the source files, at most FILES, whole folders at a time."""
    git = ["git", f"--git-dir={clone}"]
    listed = subprocess.run([*git, "ls-tree", "-r", "-l", "HEAD"], capture_output=True, check=True)
    folders: dict[str, list[tuple[str, str]]] = {}
    for row in listed.stdout.decode("utf-8", "replace").splitlines():
        about, path = row.split("\t", 1)
        digest, size = about.split()[2:]
        fits = size.isdigit() and 400 < int(size) < LARGEST and not about.startswith("120000")
        if fits and PurePosixPath(path).suffix.lower() in FAMILIES and not LEFT_OUT.search(path):
            folders.setdefault(str(PurePosixPath(path).parent), []).append((path, digest))
    chosen: list[tuple[str, str]] = []
    for folder in random.Random(name).sample(sorted(folders), len(folders)):
        if len(chosen) < FILES:
            chosen += folders[folder][:120]
    for path, digest in sorted(chosen):
        blob = subprocess.run([*git, "cat-file", "blob", digest], capture_output=True, check=False)
        try:
            yield path, blob.stdout.decode()
        except UnicodeDecodeError:
            continue


def mine_file(path: str, text: str) -> Iterator[dict[str, str]]:
    parsed = parse_source(path, text, kind="code")
    lines = text.split("\n")
    for chunk in parsed.chunks:
        texts = list_texts(chunk, parsed.symbols)
        first = chunk.span.start_line
        for symbol in sorted(parsed.symbols, key=lambda one: (one.start_line, -one.end_line)):
            if not first <= symbol.start_line <= chunk.span.end_line:
                continue
            found = texts.pop(place_digest(chunk.digest, symbol.start_line - first), None)
            if found is None or symbol.end_line < symbol.line + 2:
                continue
            tag = {"path": path, "line": symbol.line, "end": symbol.end_line}
            sentence = find_documentation(lines, tag)[1]
            query = " ".join(_TAGS.sub(" ", _END.split(sentence)[0]).split())
            if is_description(query) and query.isascii() and len(query) < 300:
                yield {
                    "q": query, "text": found, "n": symbol.name, "p": path,
                    "c": "\n".join(lines[symbol.start_line - 1 : symbol.end_line])[:1500],
                    "k": FAMILIES[PurePosixPath(path).suffix.lower()],
                }  # fmt: skip


def mine(mirrors: Path, name: str) -> list[dict[str, str]]:
    clone = mirrors / name.replace("/", "+") / "repo"
    found = [row for path, text in read_files(clone, name) for row in mine_file(path, text)]
    start = random.Random(name).randrange(max(1, len(found) - MOST_OF_ONE + 1))
    return [row | {"g": name} for row in found[start : start + MOST_OF_ONE]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("mirrors", "list", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--benchmark", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    benchmark = read_benchmark(options.benchmark)
    names = [row for row in options.list.read_text("utf-8").split("\n") if row and row[0] != "#"]
    with ProcessPoolExecutor() as pool, gzip.open(options.out, "wt", encoding="utf-8") as out:
        for name, rows in zip(names, pool.map(partial(mine, options.mirrors), names), strict=True):
            kept = [row for row in rows if not benchmark.holds(row["c"])]
            out.writelines(json.dumps(row) + "\n" for row in kept)
            print(f"{name}: {len(kept)}", flush=True)


if __name__ == "__main__":
    main()
