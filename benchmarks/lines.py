"""Regular expressions and words side by side: a running sonde server, `sonde grep`, and `rg`.

    python benchmarks/lines.py FOLDER ... [--home FOLDER] [--rounds 7] [--write] [--pattern PATTERN]

The folders are indexed first (kept under --home). Each pattern is asked of the server over MCP, of
`sonde grep` (through the background process, whose CPU counts) and of `rg` in turn. Medians. `rg`
runs with `--hidden --max-filesize 1M --no-heading -n`, which comes closest to the files that
sonde admits; both counts are shown.
`--write` puts the tables into lines.md, which docs/benchmarks.md includes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from children import Cost, find_background, read_cpu, read_cpu_ns, run_child, settle
from client import Client
from contestants import program_version

BIN = Path(sys.executable).parent
RG = [str(BIN / "rg"), "--no-config", "--hidden", "--max-filesize", "1M", "--no-heading", "-n"]
PATTERNS = {
    "literal that is nowhere": "no_such_name_anywhere",
    "rare literal": "_prefetched_objects_cache",
    "regex with a literal": r"class \w+Middleware\b",
    "two literals": r"def get_.*\(self, using",
    "alternation": "prefetch_related_objects|select_for_update_of",
    "letter case ignored": "(?i)querysetmixin|abstractbaseuser",
    "common literal": "ValueError",
    "no literal": r"\b\d{4}-\d{2}-\d{2}\b",
    "two sets": r"[A-Z]{6,}_[A-Z]{5,}",
    "word of two letters": r"\bqz\b",
    "set, case ignored": r"(?i)\b[a-f0-9]{32}\b",
    "long lines": ".{200,}",
    "very common word": "return",
}
WORDS = (
    "migration autodetector", "csrf token rotation", "prefetch related objects", "session expiry",
    "template loader cache", "http date header", "inline formset", "lookup registration",
    "database router", "password hasher upgrade", "smtp connection", "reverse namespace",
    "manifest storage", "signal receiver", "aware datetime", "json serializer", "count distinct",
    "savepoint rollback", "upload handler", "plural translation", "redis cache client",
    "cookie jar domain", "connection pool timeout", "websocket handshake", "log formatter",
)  # fmt: skip


class Asked(NamedTuple):
    """What one way of asking took, and how many lines it found."""

    wall_ms: float
    cpu_ms: float
    lines: str


def main() -> None:
    """Index, ask everyone in turn, print; one table per folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--pattern", action="append")
    parser.add_argument("--home", type=Path, default=Path(".bench/lines"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    home = args.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    env = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "TMPDIR")} | {
        "HOME": str(home), "SONDE_HOME": str(home / "sonde"), "SONDE_ASSUME_YES": "1",
        "SONDE_EMBEDDING": "static",
    }  # fmt: skip
    patterns = {p: p for p in args.pattern or ()} or PATTERNS
    text = "\n".join(
        line for folder in args.folders for line in _measure(folder.resolve(), env, patterns, args)
    )
    print(text)
    if args.write:
        Path(__file__).with_name("lines.md").write_text(text)


def _measure(
    folder: Path, env: dict[str, str], patterns: dict[str, str], args: argparse.Namespace
) -> list[str]:
    """What is printed of one folder."""
    sonde = str(BIN / "sonde")
    run_child([sonde, "index", str(folder), "--yes"], env, folder)
    command = [sonde, "mcp", "--project", str(folder)]
    with Client(command, env | {"SONDE_DAEMON": "off"}, folder) as server:
        server.initialize()
        server.call("regex_search", {"pattern": "warm up the server"})
        settle(server.pid, 240)  # a server checks its index when it starts
        page = [_describe(folder), "", *_compare_lines(server, patterns, env, folder, args.rounds)]
        return [*page, "", *_time_words(server, args.rounds), ""]


def _describe(folder: Path) -> str:
    command = [*RG[:5], "--files", str(folder)]
    files = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    lines = sum(Path(file).read_bytes().count(b"\n") for file in files)
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{len(files):,} files with {lines:,} lines; rg {program_version(RG[0])}; "
        f"{os.cpu_count()} cores, load {load}. Ratios above 1 mean "
        "that sonde needs less."
    )


def _compare_lines(
    server: Client, patterns: dict[str, str], env: dict[str, str], folder: Path, rounds: int
) -> list[str]:
    heads = (
        "pattern", "lines (sonde / rg)", "server", "rg", "rg / server", "server CPU", "rg CPU",
        "rg / server, CPU", "`sonde grep` CPU", "rg / `sonde grep`, CPU",
    )  # fmt: skip
    rows = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    grep = [str(BIN / "sonde"), "grep", "-n", "-e"]
    run_child([*grep, "warm up the process"], env, folder, allowed=(0, 1))
    behind = find_background(grep[0], env, folder)
    for name, pattern in patterns.items():
        ours: list[float] = []
        used: list[int] = []
        theirs: list[Cost] = []
        typed: list[Cost] = []
        for _ in range(rounds):
            theirs.append(run_child([*RG, pattern, str(folder)], env, folder, allowed=(0, 1)))
            settle(server.pid, 5)  # its watch sees that rg has opened every file
            began = read_cpu_ns(server.pid)
            wall, answer = _time(lambda p=pattern: server.call("regex_search", {"pattern": p}))
            used.append(read_cpu_ns(server.pid) - began)
            ours.append(wall)
            typed.append(run_child([*grep, pattern], env, folder, allowed=(0, 1), behind=behind))
        found = answer["results"]
        total = found["total_count"]
        count = "10,000+" if total is None else f"{total:,}"  # null: more than are counted
        told = Asked(statistics.median(ours), statistics.median(used) / 1e6, count)
        rg = Asked(
            1000 * statistics.median(cost.wall_s for cost in theirs),
            1000 * statistics.median(cost.cpu_s for cost in theirs),
            f"{theirs[0].output.count(chr(10)):,}",
        )
        front_ms = 1000 * statistics.median(cost.cpu_s for cost in typed)
        shown = pattern.replace("|", "\\|")
        cells = (
            f"{name}: `{shown}`",
            f"{told.lines} / {rg.lines}",
            f"{told.wall_ms:.0f} ms",
            f"{rg.wall_ms:.0f} ms",
            f"{rg.wall_ms / told.wall_ms:.1f}",
            f"{told.cpu_ms:.0f} ms",
            f"{rg.cpu_ms:.0f} ms",
            f"{rg.cpu_ms / max(told.cpu_ms, 1):.1f}",
            f"{front_ms:.0f} ms",
            f"{rg.cpu_ms / front_ms:.1f}",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _time_words(server: Client, rounds: int) -> list[str]:
    """`search_code` by words: wall time of each answer, mean CPU of the server."""
    for words in WORDS[:3]:
        server.call("search_code", {"query": words, "mode": "lexical"})
    settle(server.pid)
    walls: list[float] = []
    began = read_cpu(server.pid)
    for number in range(rounds):
        for words in WORDS:
            # no question twice, so that nothing is answered from a cache
            asked = {"query": f"{words} {number}", "mode": "lexical"}
            walls.append(_time(lambda a=asked: server.call("search_code", a))[0])
    cpu = 1000 * (read_cpu(server.pid) - began) / len(walls)
    walls.sort()
    p50, p95 = (walls[int(len(walls) * share)] for share in (0.5, 0.95))
    said = f"Words (`search_code` with `mode=lexical`, {len(walls)} questions over MCP): "
    figures = f"p50 {p50:.1f} ms, p95 {p95:.1f} ms, CPU of the server {cpu:.1f} ms each."
    return [said + figures]


def _time(ask: Callable[[], dict[str, Any]]) -> tuple[float, dict[str, Any]]:
    began = time.perf_counter()
    answer = ask()
    return 1000 * (time.perf_counter() - began), answer


if __name__ == "__main__":
    main()
