"""What an index and a search cost by size: the same tree, more and more of it.

    python benchmarks/sizes.py FOLDER [--sizes 1000,10000,100000] [--draw docs/sizes.svg]

Takes files evenly from all of FOLDER, so that every size has the same mix of languages, indexes
each size (first stage) into a storage root of its own under .bench/sizes/, and asks one server 60
questions, then the same by keyword. Prints a table; `--draw` also writes the plots. A size beyond
the files that FOLDER has is that of all its files.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from children import folder_mb, read_cpu, read_memory, settle
from client import Client
from corpora import DJANGO_QUESTIONS

WORK = Path(__file__).resolve().parent.parent / ".bench" / "sizes"
FIRST_QUESTION = "where is the configuration read"
COLUMNS = {
    "files": "files",
    "chunks": "chunks",
    "index": "first stage, s",
    "index_cpu": "first stage, CPU s",
    "disk": "on disk, MB",
    "first": "first search, CPU s",
    "p50": "search p50, ms",
    "p95": "p95",
    "cpu": "CPU each",
    "word_p50": "keyword p50, ms",
    "word_p95": "p95",
    "memory": "server, MB",
}
PLOTS = (("p50", "p95", "word_p50", "word_p95"), ("index", "index_cpu", "disk"))
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")


def lay_out(folder: Path, target: Path, size: int) -> None:
    """Copy so many files of a folder into another, evenly from all of it.

    No links: a file with two names may change under the other one, so each search looks at it."""
    shutil.rmtree(target, ignore_errors=True)
    found = sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    found = [path for path in found if ".git" not in path.relative_to(folder).parts]
    for at in range(min(size, len(found))):
        path = found[at * len(found) // min(size, len(found))]
        place = target / path.relative_to(folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    (target / ".git").mkdir(exist_ok=True)


def measure(project: Path, home: Path) -> dict[str, float]:
    """One row of the table."""
    shutil.rmtree(home, ignore_errors=True)
    env = dict(os.environ, SONDE_HOME=str(home), SONDE_DAEMON="off", SONDE_EMBEDDING="static")
    env["SONDE_ASSUME_YES"] = "1"
    program = [sys.executable, "-m", "sonde.cli.main"]
    began, before = time.perf_counter(), _read_children()
    subprocess.run([*program, "index", str(project)], env=env, check=True, capture_output=True)
    row = {"index": time.perf_counter() - began, "index_cpu": _read_children() - before}
    row["disk"] = folder_mb(home)
    with Client([*program, "mcp"], env, project) as server:
        server.initialize()
        cpu = read_cpu(server.pid)
        _ask(server, project, FIRST_QUESTION)
        row["first"] = read_cpu(server.pid) - cpu
        told = server.call("get_index_status", {"project": str(project)})
        row |= {"files": told["totalFiles"], "chunks": told["totalChunks"]}
        settle(server.pid, 60.0)  # a follower compares every file after the first search
        cpu = read_cpu(server.pid)
        times = sorted(_ask(server, project, question) for question in DJANGO_QUESTIONS)
        row["cpu"] = 1000 * (read_cpu(server.pid) - cpu) / len(times)
        words = sorted(_ask(server, project, q, mode="lexical") for q in DJANGO_QUESTIONS)
        for name, values in (("", times), ("word_", words)):
            row[f"{name}p50"] = statistics.median(values)
            row[f"{name}p95"] = values[round(0.95 * len(values))]
        row["memory"] = read_memory(server.pid)["rss_mb"]
    return row


def _ask(server: Client, project: Path, question: str, **more: str) -> float:
    began = time.perf_counter()
    server.call("search_code", {"query": question, "project": str(project), "top_k": 10, **more})
    return 1000 * (time.perf_counter() - began)


def _read_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def render(rows: list[dict[str, float]]) -> str:
    """The table as Markdown."""
    lines = [f"| {' | '.join(COLUMNS.values())} |", f"|{' ---: |' * len(COLUMNS)}"]
    for row in rows:
        cells = [f"{row[k]:,.0f}" if row[k] >= 100 else f"{row[k]:.3g}" for k in COLUMNS]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(rows: list[dict[str, float]]) -> str:
    """Two plots by chunks, both axes logarithmic."""
    width, height, left = 360, 240, 50
    size = f'width="{2 * width + 200}" height="{height + 60}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    xs = [math.log10(row["chunks"]) for row in rows]
    for at, names in enumerate(PLOTS):
        values = [math.log10(max(row[name], 0.1)) for row in rows for name in names]
        low, high = math.floor(min(values)), math.ceil(max(values))
        x0 = left + at * (width + 80)
        across = (width - left) / (max(xs) - min(xs) or 1.0)
        up = height / (high - low)

        def place(
            x: float,
            y: float,
            x0: float = x0,
            low: int = low,
            across: float = across,
            up: float = up,
        ) -> str:
            return f"{x0 + (x - min(xs)) * across:.1f},{20 + height - (y - low) * up:.1f}"

        for power in range(low, high + 1):
            x, y = place(min(xs), power).split(",")
            parts.append(f'<path d="M{x},{y}h{width - left}" stroke="#ddd"/>')
            parts.append(_write(float(x) - 8, y, f"{10.0**power:g}", 'text-anchor="end"'))
        for row, value in zip(rows, xs, strict=True):
            x = place(value, low).split(",")[0]
            parts.append(
                _write(x, height + 40, f"{row['chunks'] / 1000:,.0f}k", 'text-anchor="middle"')
            )
        for name, colour in zip(names, COLOURS, strict=False):
            ys = [math.log10(max(row[name], 0.1)) for row in rows]
            points = [place(x, y) for x, y in zip(xs, ys, strict=True)]
            line = f'points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"'
            parts.append(f"<polyline {line}/>")
            x, y = points[-1].split(",")
            label = COLUMNS[name.replace("p95", "p50")].replace("p50", name[-3:])
            parts.append(_write(float(x) + 5, y, label, f'fill="{colour}"'))
    parts.append(_write(left, height + 56, "chunks", ""))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _write(x: float | str, y: float | str, text: str, how: str) -> str:
    return f'<text x="{x}" y="{y}" {how}>{text}</text>'


def main() -> None:
    """Measure every size, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--draw", type=Path)
    options = parser.parse_args()
    rows = []
    for size in map(int, options.sizes.split(",")):
        project = WORK / f"files-{size}"
        lay_out(options.folder.resolve(), project, size)
        rows.append(measure(project, WORK / f"home-{size}"))
        print(render(rows[-1:]).splitlines()[-1], flush=True)
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"\nLoad {load}.\n\n{render(rows)}")
    if options.draw:
        options.draw.write_text(draw(rows))


if __name__ == "__main__":
    main()
