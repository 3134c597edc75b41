"""Python wheels -> pairs (docstring -> code, module docstring -> module, README prose).

python training/mine_wheels.py download NAMES.txt training/data/wheels
python training/mine_wheels.py mine training/data/wheels OUT.jsonl.gz --benchmark DIR...
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from pairs import (
    PASSAGE_LENGTH,
    Pair,
    first_paragraph,
    is_description,
    mine_prose,
    read_benchmark,
    write_pairs,
)

# Packages of the benchmarks; their vendored copies are found by content.
EXCLUDED = {
    "aiohttp", "click", "fastapi", "flask", "httpx", "model2vec", "pydantic", "requests",
    "starlette",
}  # fmt: skip
MOST_OF_ONE = 4000
_SKIPPED = ("/tests/", "/test/", "_pb2", "vendor", "/testing/", "conftest")


def download(names: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names.read_text().split():
        if name not in EXCLUDED:
            command = ["pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", folder]
            subprocess.run([sys.executable, "-m", *map(str, command), name], check=False)


def mine_module(source: str, path: str) -> Iterator[Pair]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    lines = source.split("\n")

    def describe(node: ast.AST, start: int, end: int, scope: str) -> Iterator[Pair]:
        doc = ast.get_docstring(node)  # type: ignore[arg-type]
        if not doc:
            return
        query = first_paragraph(doc)
        literal = node.body[0]  # type: ignore[attr-defined]
        code = "\n".join(lines[start : literal.lineno - 1] + lines[literal.end_lineno : end])
        passage = (f"class {scope}\n" if scope else "") + code.strip("\n")
        if is_description(query) and len(code.strip()) >= 60:
            yield Pair(query, passage[:PASSAGE_LENGTH], path, "python")
        rest = doc[doc.find("\n\n") :].strip() if "\n\n" in doc else ""
        if (
            len(rest) > 400
            and is_description(query)
            and sum(w.isalpha() for w in rest.split()) > 60
        ):
            yield Pair(query, rest[:PASSAGE_LENGTH], path, "docstring")

    def walk(node: ast.AST, scope: str) -> Iterator[Pair]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from describe(child, child.lineno - 1, child.end_lineno or 0, scope)
                yield from walk(child, child.name if isinstance(child, ast.ClassDef) else scope)

    if tree.body:
        yield from describe(tree, 0, len(lines), "")
    yield from walk(tree, "")


def mine_wheel(wheel: Path) -> list[Pair]:
    found: list[Pair] = []
    try:
        archive = zipfile.ZipFile(wheel)
    except zipfile.BadZipFile:
        return found
    for info in archive.infolist():
        path = info.filename
        if info.file_size > 400_000 or any(part in path.lower() for part in _SKIPPED):
            continue
        if not path.endswith((".py", ".md", ".rst", "METADATA")):
            continue
        text = archive.read(info).decode("utf-8", errors="replace")
        if path.endswith(".py"):
            found.extend(mine_module(text, path))
        else:
            found.extend(
                mine_prose(text.split("\n\n", 1)[-1] if "METADATA" in path else text, path)
            )
    step = max(1, len(found) // MOST_OF_ONE)
    return found[::step]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("download")
    fetch.add_argument("names", type=Path)
    fetch.add_argument("folder", type=Path)
    mine = commands.add_parser("mine")
    mine.add_argument("folder", type=Path)
    mine.add_argument("out", type=Path)
    mine.add_argument("--benchmark", type=Path, nargs="+", required=True)
    options = parser.parse_args()
    if options.command == "download":
        download(options.names, options.folder)
        return
    wheels = [
        wheel
        for wheel in sorted(options.folder.glob("*.whl"))
        if wheel.name.split("-")[0].lower() not in EXCLUDED
    ]
    with ProcessPoolExecutor(2) as pool:
        names = (wheel.name.split("-")[0].lower() for wheel in wheels)
        packages = zip(names, pool.map(mine_wheel, wheels), strict=True)
        counts = write_pairs(packages, options.out, read_benchmark(options.benchmark))
    print(len(wheels), "wheels", counts)


if __name__ == "__main__":
    main()
