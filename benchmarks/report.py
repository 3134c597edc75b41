"""Results -> docs/benchmarks.md: tables with ratios and targets, and what to make of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

LINES = Path(__file__).with_name("lines.md")
TITLES = {
    "index": "Indexing",
    "search": "Searching",
    "edit": "After an edit",
    "regex": "Regular expressions",
    "start": "Start-up of the server",
    "memory": "Memory of the server",
    "disk": "Installation",
}


class Target(NamedTuple):
    """A promise about the rows whose name it matches, on one corpus or on all."""

    pattern: str
    value: str
    most: float | None = None
    least: float | None = None
    corpus: str = ""
    below: str = ""
    """A peer that must need more."""


TARGETS = (
    Target(r"^files per second", "≥ 100", least=100),
    Target(r"^peak memory while indexing", "< 500 MB", most=500),
    Target(r"^search, from process start", "< 0.5 s", most=0.5),
    Target(r"^keyword search in a server: p\d+", "< 10 ms", most=10),
    Target(r"^search .*: p\d+", "< 200 ms", most=200),
    Target(r"^edit to answer in a server", "< 1,000 ms", most=1000),
    Target(r"^start to list of tools, (warm|cold|no bytecode)[^:]*$", "< 1,000 ms", most=1000),
    Target(r"^start to handshake", "< 2,000 ms", most=2000),
    Target(r"^memory after start", "< 100 MB", most=100),
    Target(r"^installed size", "< 300 MB", most=300),
)
AIMS = (
    Target(r"^search in a server \(first stage\): p50", "15 ms, below semble", 15, below="semble"),
    Target(r"^search in a server \(first stage\): p95", "40 ms, below semble", 40, below="semble"),
    Target(r"^keyword search in a server: p95", "6 ms", 6),
    Target(r"^search, from process start$", "0.15 s", 0.15),
    Target(r"^first search of a server: CPU", "0.3 s", 0.3),
    Target(r"^files per second", "1,000", least=1000, corpus="django"),
    Target(r"^files per second", "600", least=600, corpus="10,000 files"),
    Target(r"^second stage, chunks per second", "100", least=100),
    Target(r"^index on disk", "60 MB", 60, corpus="django"),
    Target(r"^lines matching .*: CPU", "below rg", below="rg"),
)
"""What is still to be reached, beside the targets that must hold."""

INTRO = """\
# Benchmarks

Speed, memory and disk use of sonde, compared with semble, `rg` and `grep`. `make bench`
(`benchmarks/run.py --write`) generates this page; `benchmarks/README.md` describes how each figure
is measured. Ratios are peer / sonde: above 1, sonde needs less (or, for rates, does more). CPU is
the user + system time of the whole process and is least affected by other load. Wall times do not
transfer between machines; ratios mostly do. What was done for speed, and what did not pay, is on a
page of its own: [optimisations](optimisations.md).
"""


def render_page(results: Mapping[str, Any]) -> str:
    """The whole page."""
    machine, versions = results["machine"], results["versions"]
    lines = [INTRO]
    lines.append(
        f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
        f"{machine['system']}, Python {machine['python']}."
    )
    lines.append("Versions: " + ", ".join(f"{n} {v}" for n, v in versions.items()) + ".\n")
    lines += [f"- **{name}**: {about}" for name, about in results["corpora"].items()]
    lines.append("")
    for group, title in TITLES.items():
        if found := results["groups"].get(group):
            lines += _section(title, found)
    if LINES.exists():  # written by lines.py
        lines += ["## Line search in a server", "", LINES.read_text()]
    return "\n".join(lines).rstrip() + "\n"


def _section(title: str, group: Mapping[str, Any]) -> list[str]:
    rows = group["rows"]
    names = list(dict.fromkeys(n for row in rows for n in _columns(row)))
    peers = [name for name in names if not name.startswith("sonde")]
    ratios = [f"{peer} / sonde" for peer in peers]
    heads = ["measure", "on", *names, *ratios, "target"]
    before, after = group["load"]
    said = f"{group['date']}, median of {group['rounds']} or more; load {before} to {after}."
    lines = [f"## {title}", "", said, "", _line(heads), _line("---" for _ in heads)]
    for row in rows:
        for name, values, unit in _split(row):
            shown = [_figure(values.get(column), unit) for column in names]
            compared = [_ratio(values, peer, row["better"]) for peer in peers]
            verdicts = [_verdict(TARGETS, name, row["corpus"], values)]
            if aim := _verdict(AIMS, name, row["corpus"], values):
                verdicts.append(f"aim {aim}")
            verdict = "; ".join(filter(None, verdicts))
            lines.append(_line([name, row["corpus"], *shown, *compared, verdict]))
    return [*lines, ""]


def _columns(row: Mapping[str, Any]) -> list[str]:
    return list(row.get("wall") or row["values"])


def _split(row: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, float], str]]:
    """A row of costs is two lines: wall and CPU."""
    if "wall" not in row:
        return [(row["measure"], row["values"], row["unit"])]
    return [(row["measure"], row["wall"], "s"), (f"{row['measure']}: CPU", row["cpu"], "s")]


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = 0 if value >= 100 or unit in ("files", "chunks") else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def _ratio(values: Mapping[str, float], peer: str, better: str) -> str:
    ours, theirs = values.get("sonde"), values.get(peer)
    if not ours or not theirs:
        return ""
    return f"{theirs / ours if better == 'less' else ours / theirs:.1f}"


def _verdict(targets: Iterable[Target], name: str, corpus: str, values: Mapping[str, float]) -> str:
    value = values.get("sonde")
    for target in targets:
        if value is None or not re.search(target.pattern, name):
            continue
        if target.corpus in ("", corpus):
            met = (
                (target.most is None or value < target.most)
                and (target.least is None or value >= target.least)
                and value < values.get(target.below, float("inf"))
            )
            return f"{target.value} {'✓' if met else '✗'}"
    return ""


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
