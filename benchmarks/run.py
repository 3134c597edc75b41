"""Measure sonde beside its peers; one command, which prepares all it needs under .bench/.

    python benchmarks/run.py [--only start,index,search,edit,regex,memory,disk]
                             [--corpus PATH] [--rounds 3] [--small] [--keep] [--write]

Figures go to .bench/results.json; a partial run replaces only its own. `--write` renders
docs/benchmarks.md from them. benchmarks/embedding.py and benchmarks/stores.py measure the models
and the stores on their own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import measures
from contestants import (
    RIPGREP,
    Contestant,
    install_ripgrep,
    install_semble,
    install_sonde,
    program_version,
)
from corpora import Corpus, prepare_database, prepare_django, prepare_many, use_folder
from report import render_page

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".bench"
PAGE = ROOT / "docs" / "benchmarks.md"
GROUPS = ("disk", "start", "index", "search", "edit", "regex", "memory")


def plan_groups(
    bench: measures.Bench, main: Corpus, many: Corpus | None, small: Corpus | None
) -> dict[str, list[Callable[[], list[measures.Row]]]]:
    """What each group measures, on which corpus."""
    corpora = [main, *([many] if many else [])]
    deep = [lambda: measures.measure_deep_search(bench, small)] if small else []
    return {
        "disk": [lambda: measures.measure_disk(bench)],
        "start": [lambda: measures.measure_start(bench, main)],
        "index": [
            *(lambda c=c: measures.measure_index(bench, c) for c in corpora),
            lambda: measures.measure_stage_two(bench, main),
        ],
        "search": [*(lambda c=c: measures.measure_search(bench, c) for c in corpora), *deep],
        "edit": [lambda: measures.measure_edit(bench, main)],
        "regex": [lambda: measures.measure_regex(bench, main)],
        "memory": [*(lambda c=c: measures.measure_memory(bench, c) for c in corpora)],
    }


def describe_machine() -> dict[str, Any]:
    """What the figures depend on, and nothing that names the machine."""
    processor = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
    }


def run_groups(chosen: list[str], args: argparse.Namespace) -> dict[str, Any]:
    """Prepare, measure, and merge with what was measured before."""
    store = WORK / "results.json"
    results: dict[str, Any] = json.loads(store.read_text()) if store.exists() else {}
    main = use_folder(args.corpus) if args.corpus else prepare_django(WORK)
    whole = not (args.corpus or args.small)
    many = prepare_many(WORK) if whole and {"index", "search", "memory"} & {*chosen} else None
    small = prepare_database(WORK) if not args.corpus and "search" in chosen else None
    sonde = WORK / "venvs" / "sonde" / "bin" / "python"
    bench = measures.Bench(
        WORK,
        Contestant("sonde", sonde) if args.keep else install_sonde(WORK, ROOT),
        install_semble(WORK),
        install_ripgrep(WORK) if "regex" in chosen else {},
        args.rounds,
    )
    if not args.keep:
        shutil.rmtree(WORK / "homes", ignore_errors=True)  # what another version indexed
    results["machine"] = describe_machine()
    results["versions"] = {
        "sonde": bench.sonde.version(),
        "semble": bench.semble.version(),
        "ripgrep": RIPGREP.partition("==")[2],
        **({"grep": program_version("grep")} if shutil.which("grep") else {}),
    }
    known = results.setdefault("corpora", {})
    known.update({c.name: c.about for c in (main, many, small) if c})
    plan = plan_groups(bench, main, many, small)
    for group in chosen:
        began, load = time.monotonic(), os.getloadavg()[0]
        rows = []
        for measure in plan[group]:
            for row in measure():
                rows.append(row)
                print(group, json.dumps(row), flush=True)
        results.setdefault("groups", {})[group] = {
            "date": datetime.now(UTC).date().isoformat(),
            "rounds": args.rounds,
            "load": [round(load, 1), round(os.getloadavg()[0], 1)],
            "seconds": round(time.monotonic() - began),
            "rows": rows,
        }
        store.write_text(json.dumps(results, indent=1))
    return results


def main() -> None:
    """Read the arguments, measure, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help=f"comma-separated; of {', '.join(GROUPS)}")
    parser.add_argument("--corpus", type=Path, help="measure on this folder instead of Django")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each (median is taken)")
    parser.add_argument("--small", action="store_true", help="leave out the 10,000-file tree")
    parser.add_argument("--keep", action="store_true", help="do not install sonde and index anew")
    parser.add_argument("--write", action="store_true", help="render docs/benchmarks.md")
    args = parser.parse_args()
    chosen = args.only.split(",") if args.only else list(GROUPS)
    if unknown := set(chosen) - set(GROUPS):
        parser.error(f"no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    WORK.mkdir(exist_ok=True)
    results = run_groups([group for group in GROUPS if group in chosen], args)
    page = render_page(results)
    print(page)
    if args.write:
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
