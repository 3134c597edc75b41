"""The measures: each takes the contestants, asks them in turn, and returns rows of figures."""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from children import (
    Cost,
    find_background,
    folder_mb,
    forget_pages,
    read_cpu,
    read_memory,
    run_child,
    settle,
)
from client import Client
from contestants import Contestant, count_files
from corpora import Corpus

Row = dict[str, Any]
FIRST_QUESTION = "where is the configuration read"
WARM_UP = (FIRST_QUESTION, "open a connection", "write the result to a file")


@dataclass(frozen=True)
class Bench:
    """What every measure needs."""

    work: Path
    sonde: Contestant
    semble: Contestant
    lines: Mapping[str, str]
    rounds: int

    @property
    def both(self) -> tuple[Contestant, Contestant]:
        """In the order they are asked."""
        return self.sonde, self.semble

    def home(self, name: str, *, fresh: bool = False) -> Path:
        """A storage root; `fresh` empties it."""
        folder = self.work / "homes" / name
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def measure_index(bench: Bench, corpus: Corpus) -> list[Row]:
    """First answer on a fresh project, and the complete (first-stage) index."""
    answers, built = _tables(bench.both), _tables(bench.both)
    counts: dict[str, tuple[int, int]] = {}
    sizes: dict[str, float] = {}
    for _ in range(bench.rounds):
        for who in bench.both:
            home = bench.home(f"{who.name}-first", fresh=True)
            command = who.first_answer(corpus.folder, FIRST_QUESTION)
            answers[who.name].append(run_child(command, who.environment(home), corpus.folder))
            home = bench.home(f"{who.name}-{corpus.folder.name}", fresh=True)
            cost = run_child(who.index(corpus.folder), who.environment(home), corpus.folder)
            built[who.name].append(cost)
            counts[who.name] = count_files(who.name, cost.output)
            sizes[who.name] = folder_mb(home)
    everything = _index_everything(bench, corpus)
    rows = [
        _cost_row("first answer on a fresh project", corpus, answers),
        _cost_row("complete index (sonde: first stage)", corpus, built),
        _row("files indexed", corpus, "files", {n: c[0] for n, c in counts.items()}),
        _row("chunks indexed", corpus, "chunks", {n: c[1] for n, c in counts.items()}),
    ]
    rates = {n: [counts[n][0] / c.cpu_s for c in costs] for n, costs in built.items()}
    walls = {n: [counts[n][0] / c.wall_s for c in costs] for n, costs in built.items()}
    peaks = {n: max(c.peak_mb for c in costs) for n, costs in built.items()}
    return [
        *rows,
        _row("files per CPU second", corpus, "files/s", _medians(rates), better="more"),
        _row("files per second", corpus, "files/s", _medians(walls), better="more"),
        *everything,
        _row("peak memory while indexing", corpus, "MB", peaks),
        _row("index on disk", corpus, "MB", sizes),
    ]


def _index_everything(bench: Bench, corpus: Corpus) -> list[Row]:
    """semble leaves documents and data out unless told; sonde never does: once like for like."""
    home = bench.home("semble-all", fresh=True)
    who = bench.semble
    cost = run_child(
        who.index(corpus.folder, everything=True), who.environment(home), corpus.folder
    )
    files, _ = count_files(who.name, cost.output)
    rate = files / cost.cpu_s
    label = f"files per CPU second, documents and data included ({files:,} files)"
    return [_row(label, corpus, "files/s", {"semble": rate}, better="more")]


def measure_stage_two(bench: Bench, corpus: Corpus, seconds: float = 150.0) -> list[Row]:
    """Deep vectors per second, while nothing else runs."""
    home = _indexed(bench, bench.sonde, corpus)
    script = str(Path(__file__).with_name("stage_two.py"))
    command = [str(bench.sonde.python), script, str(corpus.folder), str(seconds)]
    said = json.loads(run_child(command, bench.sonde.environment(home), corpus.folder).output)
    rates = {"per second": said["wall_s"], "per CPU second": said["cpu_s"]}
    return [
        _row(f"second stage, chunks {name}", corpus, "chunks/s",
             {"sonde": said["chunks"] / used}, better="more")
        for name, used in rates.items()
    ]  # fmt: skip


def measure_search(bench: Bench, corpus: Corpus) -> list[Row]:
    """A warm search from the command line, and through a server that stays."""
    homes = {who.name: _indexed(bench, who, corpus) for who in bench.both}
    costs = _tables(bench.both)
    for question in corpus.questions[: 2 * bench.rounds + 1]:
        for who in bench.both:
            command = who.search(corpus.folder, question)
            costs[who.name].append(_run_command(who, command, homes[who.name], corpus))
    fast = {"SONDE_EMBEDDING": "static"}
    rows = [
        _cost_row("search, from process start", corpus, costs),
        _cost_row("first search of a server", corpus, _ask_first(bench, corpus, homes, fast)),
    ]
    rows += _ask_servers(bench, corpus, homes, "search in a server (first stage)", fast)
    only = {"sonde": homes["sonde"]}
    before = _count_deep(bench, corpus, homes["sonde"])
    rows += _ask_servers(bench, corpus, only, "search while the second stage runs", {})
    made = _count_deep(bench, corpus, homes["sonde"]) - before
    label = "search while the second stage runs: deep vectors made meanwhile"
    rows.append(_row(label, corpus, "chunks", {"sonde": made}, better="more"))
    rows += _ask_servers(
        bench, corpus, only, "keyword search in a server", fast, {"mode": "lexical"}
    )
    return rows


def _run_command(who: Contestant, command: Sequence[str], home: Path, corpus: Corpus) -> Cost:
    """A command from its start; what sonde's background process does for it counts too."""
    env, behind = who.environment(home), 0
    if command[0] == who.program("sonde"):
        behind = find_background(command[0], env, corpus.folder)
    return run_child(command, env, corpus.folder, allowed=(0, 1), behind=behind)


def _ask_first(
    bench: Bench, corpus: Corpus, homes: Mapping[str, Path], variables: Mapping[str, str]
) -> dict[str, list[Cost]]:
    """From the start of a server to its first answer."""
    costs = _tables(bench.both)
    for _ in range(bench.rounds):
        for who in bench.both:
            env = who.environment(homes[who.name], **variables)
            with Client(who.server(), env, corpus.folder) as server:
                server.initialize()
                server.call(*who.ask(corpus.folder, FIRST_QUESTION))
                wall, cpu = time.perf_counter() - server.began, read_cpu(server.pid)
                costs[who.name].append(Cost(wall, cpu, read_memory(server.pid)["rss_mb"], ""))
    return costs


def _count_deep(bench: Bench, corpus: Corpus, home: Path) -> int:
    """Chunks with a deep vector; shows whether the second stage ran at all under the load."""
    who = bench.sonde
    command = [who.program("sonde"), "status", "--project", str(corpus.folder), "--json"]
    said = json.loads(run_child(command, who.environment(home), corpus.folder).output)
    shares = said["details"]["vectors"]
    return sum(int(text.partition("/")[0]) for name, text in shares.items() if "deep" in name)


def measure_deep_search(bench: Bench, corpus: Corpus) -> list[Row]:
    """A search in a server once the deep vectors are complete; small, as filling takes long."""
    measure_stage_two(bench, corpus, seconds=3600)
    home = {"sonde": bench.home(f"sonde-{corpus.folder.name}")}
    return _ask_servers(bench, corpus, home, "search in a server (deep vectors complete)", {})


def _ask_servers(
    bench: Bench,
    corpus: Corpus,
    homes: Mapping[str, Path],
    label: str,
    variables: Mapping[str, str],
    arguments: Mapping[str, Any] | None = None,
) -> list[Row]:
    """The same questions to every server in turn; a few others warm them up."""
    seats = [who for who in bench.both if who.name in homes]
    servers = {
        who.name: Client(who.server(), who.environment(homes[who.name], **variables), corpus.folder)
        for who in seats
    }
    times: dict[str, list[float]] = {who.name: [] for who in seats}
    cpu: dict[str, float] = {}
    for server in servers.values():
        server.initialize()
    for number, question in enumerate((*WARM_UP, *corpus.questions)):
        for who in seats:
            server = servers[who.name]
            if number == len(WARM_UP):
                settle(server.pid, 3.0)
                cpu[who.name] = read_cpu(server.pid)
            tool, asked = who.ask(corpus.folder, question, **(arguments or {}))
            began = time.perf_counter()
            server.call(tool, asked)
            if number >= len(WARM_UP):
                times[who.name].append(1000 * (time.perf_counter() - began))
    asked_n = len(corpus.questions)
    spent = {n: 1000 * (read_cpu(servers[n].pid) - cpu[n]) / asked_n for n in servers}
    for server in servers.values():
        server.close()
    return [
        _row(f"{label}: p50", corpus, "ms", {n: statistics.median(t) for n, t in times.items()}),
        _row(f"{label}: p95", corpus, "ms", {n: _p95(t) for n, t in times.items()}),
        _row(f"{label}: CPU each", corpus, "ms", spent),
    ]


def measure_edit(bench: Bench, corpus: Corpus) -> list[Row]:
    """A definition is added to one file: how long until a search finds it."""
    costs = _tables(bench.both)
    path = corpus.folder / corpus.edited
    original = path.read_bytes()
    waits: dict[str, list[float]] = {who.name: [] for who in bench.both}
    homes = {who.name: _indexed(bench, who, corpus) for who in bench.both}
    try:
        for turn in range(bench.rounds):
            for who in bench.both:
                name = f"settle_ledger_{who.name}_{turn}"
                _add_definition(path, original, name)
                command = who.search(corpus.folder, name)
                cost = _run_command(who, command, homes[who.name], corpus)
                costs[who.name].append(cost)
                if f"def {name}" not in cost.output:
                    raise SystemExit(f"{who.name} did not find the edit")
        for who in bench.both:
            waits[who.name] = _wait_in_server(bench, who, corpus, homes[who.name], path, original)
    finally:
        path.write_bytes(original)
    return [
        _cost_row("search after editing one file, from process start", corpus, costs),
        _row("edit to answer in a server, at most", corpus, "ms",
             {n: max(w) for n, w in waits.items() if w}),
    ]  # fmt: skip


def _wait_in_server(
    bench: Bench, who: Contestant, corpus: Corpus, home: Path, path: Path, original: bytes
) -> list[float]:
    """Edit, ask until the answer shows it (two minutes at most)."""
    waits = []
    with Client(who.server(), who.environment(home), corpus.folder) as server:
        server.initialize()
        server.call(*who.ask(corpus.folder, FIRST_QUESTION))
        for turn in range(bench.rounds):
            name = f"reckon_tide_{who.name}_{turn}"
            _add_definition(path, original, name)
            began = time.perf_counter()
            while time.perf_counter() - began < 120:
                if f"def {name}" in json.dumps(server.call(*who.ask(corpus.folder, name))):
                    break
                time.sleep(0.05)
            waits.append(1000 * (time.perf_counter() - began))
    return waits


def _add_definition(path: Path, original: bytes, name: str) -> None:
    """Long enough to be shown on its own, whatever else the answer is cut to."""
    steps = "".join(f"    entries = [entry + {n} for entry in entries]\n" for n in range(40))
    text = f"\n\ndef {name}(entries):\n{steps}    return sum(entries)\n"
    path.write_bytes(original + text.encode())


def measure_regex(bench: Bench, corpus: Corpus) -> list[Row]:
    """Lines that match a regular expression, against the line searchers."""
    home = _indexed(bench, bench.sonde, corpus)
    folder = str(corpus.folder)
    rows = []
    for pattern in corpus.patterns:
        commands = {"sonde": [bench.sonde.program("sonde"), "grep", pattern, "--project", folder]}
        if "rg" in bench.lines:
            commands["rg"] = [bench.lines["rg"], "-n", pattern, folder]
        if "grep" in bench.lines:
            gnu = pattern.replace(r"\w", "[[:alnum:]_]")
            commands["grep"] = [bench.lines["grep"], "-rnIE", gnu, folder]
        costs: dict[str, list[Cost]] = {name: [] for name in commands}
        for _ in range(bench.rounds):
            for name, command in commands.items():
                costs[name].append(_run_command(bench.sonde, command, home, corpus))
        rows.append(_cost_row(f"lines matching `{pattern}`, from process start", corpus, costs))
    return rows


def measure_start(bench: Bench, corpus: Corpus) -> list[Row]:
    """From process start to the answered handshake and the list of tools."""
    empty = str(bench.home("no-bytecode"))
    states: dict[str, dict[str, str]] = {
        "warm": {},
        "cold (files not in memory)": {},
        "no bytecode": {"PYTHONPYCACHEPREFIX": empty, "PYTHONDONTWRITEBYTECODE": "1"},
    }
    rows = []
    for state, variables in states.items():
        shaken: dict[str, list[float]] = {who.name: [] for who in bench.both}
        listed: dict[str, list[float]] = {who.name: [] for who in bench.both}
        spent: dict[str, list[float]] = {who.name: [] for who in bench.both}
        for _ in range(bench.rounds + 2):
            for who in bench.both:
                if state.startswith("cold"):
                    forget_pages(who.site_packages)
                env = who.environment(bench.home(f"{who.name}-start"), **variables)
                with Client(who.server(), env, corpus.folder) as server:
                    server.initialize()
                    shaken[who.name].append(1000 * (time.perf_counter() - server.began))
                    server.request("tools/list", {}, 120)
                    listed[who.name].append(1000 * (time.perf_counter() - server.began))
                    spent[who.name].append(1000 * read_cpu(server.pid))
        rows += [
            _row(f"start to handshake, {state}", None, "ms", _medians(shaken)),
            _row(f"start to list of tools, {state}", None, "ms", _medians(listed)),
            _row(f"start to list of tools, {state}: CPU", None, "ms", _medians(spent)),
        ]
    return rows


def measure_memory(bench: Bench, corpus: Corpus) -> list[Row]:
    """What a server holds: after start, after the first search, after a hundred."""
    marks = ("after start", "after the first search", "after 100 searches")
    held: dict[str, dict[str, dict[str, float]]] = {mark: {} for mark in marks}
    runs = [(who, who.name, {"SONDE_EMBEDDING": "static"}) for who in bench.both]
    runs.append((bench.sonde, "sonde, second stage running", {}))
    for who, label, variables in runs:
        home = _indexed(bench, who, corpus)
        env = who.environment(home, **variables)
        with Client(who.server(), env, corpus.folder) as server:
            server.initialize()
            server.request("tools/list", {}, 120)
            settle(server.pid)
            held[marks[0]][label] = read_memory(server.pid)
            server.call(*who.ask(corpus.folder, corpus.questions[0]))
            settle(server.pid)
            held[marks[1]][label] = read_memory(server.pid)
            for number in range(99):
                question = corpus.questions[number % len(corpus.questions)]
                server.call(*who.ask(corpus.folder, f"{question} {number // 50 or ''}"))
            settle(server.pid)
            held[marks[2]][label] = read_memory(server.pid)
    kinds = {"rss_mb": "memory", "anon_mb": "memory without pages of files"}
    return [
        _row(f"{name} {mark}", corpus, "MB", {n: m[kind] for n, m in held[mark].items()})
        for kind, name in kinds.items()
        for mark in marks
    ]


def measure_disk(bench: Bench) -> list[Row]:
    """Installed packages, with bytecode; a downloaded model counts."""
    sizes = {who.name: folder_mb(who.site_packages) + who.extra_mb for who in bench.both}
    return [_row("installed size, model included", None, "MB", sizes)]


def _indexed(bench: Bench, who: Contestant, corpus: Corpus) -> Path:
    """The storage root that holds this corpus's index, built if it is not there."""
    home = bench.home(f"{who.name}-{corpus.folder.name}")
    if not any(home.iterdir()):
        run_child(who.index(corpus.folder), who.environment(home), corpus.folder)
    return home


def _tables(seats: Iterable[Contestant]) -> dict[str, list[Cost]]:
    return {who.name: [] for who in seats}


def _medians(table: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in table.items() if values}


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, round(0.95 * len(values)))]


def _cost_row(measure: str, corpus: Corpus, costs: Mapping[str, Sequence[Cost]]) -> Row:
    pick: dict[str, Callable[[Cost], float]] = {
        "wall": lambda cost: cost.wall_s,
        "cpu": lambda cost: cost.cpu_s,
    }
    row = _row(measure, corpus, "s", {})
    for key, take in pick.items():
        row[key] = _medians({name: [take(c) for c in each] for name, each in costs.items()})
    row["runs"] = {name: len(each) for name, each in costs.items()}
    return row


def _row(
    measure: str,
    corpus: Corpus | None,
    unit: str,
    values: Mapping[str, float],
    *,
    better: str = "less",
) -> Row:
    return {
        "measure": measure,
        "corpus": corpus.name if corpus else "",
        "unit": unit,
        "values": dict(values),
        "better": better,
    }
