"""From an issue report to the file that was changed to close it, through `import sonde`.

    python benchmarks/quality_issues.py ISSUES MIRRORS [--embedding static|auto|deep]
                                        [--only owner/name,...] [--out FILE]

ISSUES is a JSON list of {instance_id, repository, commit, issue, files}; MIRRORS holds a git
directory `owner+name/repo` (or `owner+name.git`) for each repository. Every report is asked twice
at the commit it was written for: as a whole, and by its first line alone. Acc@k is the share of
reports with one of their files among the first k distinct files. Nothing in the ranking is fitted
on reports (README.md says what was looked at).
"""

import argparse
import json
import os
import statistics
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORK = Path(__file__).resolve().parent.parent / ".bench" / "issues"
SHOWN = 20
DEPTHS = (1, 5, 10)
FORMS = ("full text", "title")


@dataclass(frozen=True)
class Outcome:
    """How one form of one report went; `rank` counts from 1, 0 means not found."""

    instance: str
    repository: str
    form: str
    rank: int
    seconds: float
    files: tuple[str, ...]
    targets: tuple[str, ...]


def lay_out(mirror: Path, commit: str, folder: Path) -> None:
    """Make the folder hold this commit; files that are the same there stay untouched."""
    folder.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "GIT_INDEX_FILE": str(folder.with_suffix(".git-index"))}
    command = ["git", f"--git-dir={mirror}", f"--work-tree={folder}", "read-tree", "-u", "--reset"]
    subprocess.run([*command, commit], check=True, env=env, cwd=folder)


def find_mirror(mirrors: Path, repository: str) -> Path | None:
    """The git directory of a repository, if it is there."""
    name = repository.replace("/", "+")
    places = (mirrors / name / "repo", mirrors / f"{name}.git", mirrors / name / ".git")
    return next((place for place in places if place.is_dir()), None)


def ask_reports(
    mirror: Path, reports: Sequence[Mapping[str, Any]], work: Path
) -> Iterator[Outcome]:
    """One repository's reports, each at its own commit, both forms of each."""
    import sonde

    folder = work / reports[0]["repository"].replace("/", "+")
    for report in reports:
        lay_out(mirror, report["commit"], folder)
        targets = tuple(report["files"])
        with sonde.open(folder, home=work / "home") as opened:
            opened.index()
            texts = (report["issue"], report["issue"].strip().split("\n")[0])
            for form, text in zip(FORMS, texts, strict=True):
                began = time.perf_counter()
                hits = opened.search(text, limit=SHOWN)
                seconds = time.perf_counter() - began
                files = list(dict.fromkeys(hit.path for hit in hits))
                rank = next((at for at, path in enumerate(files, 1) if path in targets), 0)
                yield Outcome(
                    report["instance_id"], report["repository"], form, rank, seconds,
                    tuple(files[:10]), targets,
                )  # fmt: skip


def render_table(outcomes: Sequence[Outcome]) -> str:
    """Acc@k of each form, over all and by repository."""
    groups = {"all": list(outcomes)}
    for name in sorted({o.repository for o in outcomes}):
        groups[name] = [o for o in outcomes if o.repository == name]
    heads = [f"{form} Acc@{depth}" for form in FORMS for depth in DEPTHS]
    lines = [f"| reports | n | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    for name, found in groups.items():
        cells = []
        for form in FORMS:
            ranks = [o.rank for o in found if o.form == form]
            cells += [f"{statistics.fmean(0 < r <= k for r in ranks):.3f}" for k in DEPTHS]
        lines.append(f"| {name} | {len(ranks)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Ask every report whose repository is there, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("issues", type=Path)
    parser.add_argument("mirrors", type=Path)
    parser.add_argument("--embedding", choices=("static", "auto", "deep"), default="static")
    parser.add_argument("--only", help="comma-separated repositories")
    parser.add_argument("--work", type=Path, default=WORK, help="where trees and indexes are kept")
    parser.add_argument("--out", type=Path, help="every report's outcome, as JSON")
    args = parser.parse_args()
    os.environ["SONDE_EMBEDDING"] = args.embedding
    only = set(args.only.split(",")) if args.only else None
    reports: dict[str, list[Any]] = defaultdict(list)
    for report in json.loads(args.issues.read_text()):
        if only is None or report["repository"] in only:
            reports[report["repository"]].append(report)
    outcomes: list[Outcome] = []
    for repository, found in sorted(reports.items()):
        mirror = find_mirror(args.mirrors, repository)
        if mirror is None:
            print(f"{repository}: no git directory in {args.mirrors}")
            continue
        for outcome in ask_reports(mirror, found, args.work):
            outcomes.append(outcome)
            print(
                f"{outcome.instance:32} {outcome.form:9} {outcome.rank or '-':>3}"
                f" {1000 * outcome.seconds:6.0f} ms",
                flush=True,
            )
    if not outcomes:
        raise SystemExit("none of the repositories is there")
    times = sorted(o.seconds for o in outcomes)
    print(f"\n{render_table(outcomes)}\n")
    print(f"p50 {1000 * times[len(times) // 2]:.0f} ms, worst {1000 * times[-1]:.0f} ms")
    if args.out:
        args.out.write_text(json.dumps([vars(o) for o in outcomes], indent=1))


if __name__ == "__main__":
    main()
