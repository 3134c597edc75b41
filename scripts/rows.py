"""Writes docs/documents.md: every statement of the founding documents, with its tests.

The tables are in `tests/documents`; a test names the rows that it covers with
`@pytest.mark.row("002-8")`. A row that has a test is recorded as tested, so that it cannot lose
it unnoticed. `--check` only says whether the page is up to date.
"""

from __future__ import annotations

import ast
import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "tests" / "documents"
PAGE = ROOT / "docs" / "documents.md"
DOCUMENTS = {
    "000": "PAGE: paging, cursors and the size of search answers",
    "001": "RFC: the local index of a project",
    "002": "SHELL: a disk as a shell, with handles and links",
    "003": "TYPES: chunk types, tags, hot reload, embedding providers",
    "004": "KNOW: notes, media, chats, characters and prompts",
}
INTRODUCTION = """\
# Documents and tests

Written by `make docs` from the tables in `tests/documents`; do not edit.

Find the tests that cover a statement of the specifications. sonde began with five documents; \
each row below is one of their statements, with the tests that cover it or the reason why sonde \
differs. A test names its rows with `@pytest.mark.row("002-8")`; a row that has a test may not \
lose it.

"Failed at first" counts the rows that did not hold when all were first tried. Each of them is now \
tested, or says why sonde differs.

| document | statements | failed at first | tested | differ | no test named |
|---|---:|---:|---:|---:|---:|
"""
FAILED_AT_FIRST = {"000": 12, "001": 26, "002": 8, "003": 20, "004": 12}


@dataclass(frozen=True)
class Row:
    """One statement of a document."""

    row: str
    statement: str
    test: str
    """`yes` once a test covers it: from then on it must have one."""
    differs: str
    """Why the product differs from the statement."""


def read_table(path: Path) -> list[Row]:
    """The rows of one document."""
    with path.open(newline="") as file:
        return [Row(**row) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def read_rows(tables: Path = TABLES) -> dict[str, Row]:
    """The rows of all documents by id."""
    return {row.row: row for path in sorted(tables.glob("*.tsv")) for row in read_table(path)}


def read_markers(tests: Path = ROOT / "tests") -> dict[str, list[str]]:
    """By row, the tests that name it (`disk/test_jobs.py::test_...`)."""
    markers: dict[str, list[str]] = {}
    for path in sorted(tests.rglob("*.py")):
        text = path.read_text()
        if "mark.row(" not in text:
            continue
        for node in ast.parse(text).body:
            name = getattr(node, "name", "")
            for row in find_rows(node):
                test = path.relative_to(tests).as_posix() + (f"::{name}" if name else "")
                if test not in markers.setdefault(row, []):
                    markers[row].append(test)
    return markers


def find_rows(node: ast.AST) -> Iterator[str]:
    """The rows that markers in a piece of a module name."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.row":
            yield from (str(ast.literal_eval(argument)) for argument in call.args)


def write_page(rows: Sequence[Row], markers: Mapping[str, Sequence[str]]) -> str:
    """The page as Markdown."""
    lines = [INTRODUCTION.rstrip()]
    parts = {name: [row for row in rows if row.row.startswith(f"{name}-")] for name in DOCUMENTS}
    for name, part in parts.items():
        tested = sum(row.row in markers for row in part)
        differ = sum(row.row not in markers and bool(row.differs) for row in part)
        title = DOCUMENTS[name].partition(":")[0]
        unnamed = len(part) - tested - differ
        counts = f"{len(part)} | {FAILED_AT_FIRST[name]} | {tested} | {differ} | {unnamed}"
        lines.append(f"| {name} {title} | {counts} |")
    for name, part in parts.items():
        lines += [f"\n## {name} {DOCUMENTS[name]}\n", "| row | statement | tests |\n|---|---|---|"]
        for row in part:
            tests = [f"`{test}`" for test in markers.get(row.row, ())]
            shown = "<br>".join([*([row.differs] if row.differs else []), *tests])
            statement = row.statement.replace("|", "\\|")
            lines.append(f"| {row.row} | {statement} | {shown or 'no test named'} |")
    return "\n".join(lines) + "\n"


def record_tests(tables: Path, markers: Mapping[str, Sequence[str]]) -> None:
    """Record in the tables which rows have tests."""
    for path in sorted(tables.glob("*.tsv")):
        rows = [replace(row, test="yes" if row.row in markers else row.test)
                for row in read_table(path)]  # fmt: skip
        lines = ["\t".join(asdict(row).values()) for row in rows]
        path.write_text("\n".join(["\t".join(Row.__annotations__), *lines]) + "\n")


def main(arguments: Sequence[str]) -> int:
    markers = read_markers()
    if "--check" not in arguments:
        record_tests(TABLES, markers)
    page = write_page(list(read_rows().values()), markers)
    if "--check" in arguments:
        if PAGE.read_text() != page:
            print("docs/documents.md is out of date: run `make docs`")
            return 1
        return 0
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
