"""How well secrets are recognised: generated kinds, benign repositories, and others' rules.

    python benchmarks/secret_files.py FOLDER... [--gitleaks gitleaks.toml]
        [--detect-secrets PYTHON] [--write]

Each FOLDER holds checked-out repositories. PYTHON is an interpreter that has detect-secrets.
Every benign file that is left out is printed, to be looked at; --write rewrites
docs/secrets-found.md. The list of kinds is tests/policy/secret_kinds.py.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.policy.secret_kinds import Variant, list_variants  # noqa: E402

from sonde.policy.admit import Rules, Source, find_denied  # noqa: E402
from sonde.policy.read import FileReader, decode_text  # noqa: E402
from sonde.policy.secrets import secret_in  # noqa: E402
from sonde.policy.walk import walk_files  # noqa: E402
from sonde.types import ListedFile, Skipped  # noqa: E402

PAGE = ROOT / "docs" / "secrets-found.md"
MARKS = ("<!-- figures: benchmarks/secret_files.py -->", "<!-- end of figures -->")
SAMPLE = 3_000  # benign files for the others, which take minutes for all of them
SCAN = """
import json, sys, time
from detect_secrets.core.scan import scan_file
from detect_secrets.settings import default_settings
found, began = [], time.process_time()
with default_settings():
    for path in json.load(sys.stdin):
        found.append(any(True for _ in scan_file(path)))
print(json.dumps([found, time.process_time() - began]))
"""
Judge = Callable[[list[Path]], tuple[list[bool], float]]
"""Files -> whether each is reported, and the CPU seconds it took."""


def judge_by_sonde(files: list[Path]) -> tuple[list[bool], float]:
    texts = [(path, decode_text(path.read_bytes()) or "") for path in files]
    began = time.process_time()
    found = [secret_in(text, path.name) is not None for path, text in texts]
    return found, time.process_time() - began


def judge_by_detect_secrets(python: str) -> Judge:
    def judge(files: list[Path]) -> tuple[list[bool], float]:
        given = json.dumps([str(path) for path in files])
        command = [python, "-c", SCAN]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
        found, seconds = json.loads(done.stdout)
        return found, seconds

    return judge


def judge_by_gitleaks(config: Path, *, generic: bool) -> Judge:
    """Its expressions, keywords and entropies under RE2; without its lists of exceptions."""
    import re2

    options = re2.Options()
    options.log_errors = False
    rules: list[tuple[Any, tuple[str, ...], float]] = []
    for rule in tomllib.loads(config.read_text())["rules"]:
        if "regex" in rule and (generic or rule["id"] != "generic-api-key"):
            regex = re2.compile(rule["regex"], options)
            rules.append((regex, tuple(rule.get("keywords", ())), rule.get("entropy", 0.0)))

    def reports(text: str) -> bool:
        lower = text.lower()
        for regex, keywords, entropy in rules:
            if keywords and not any(word in lower for word in keywords):
                continue
            for match in regex.finditer(text):
                value = next((part for part in match.groups() if part), match.group())
                if measure_entropy(value) >= entropy:
                    return True
        return False

    def judge(files: list[Path]) -> tuple[list[bool], float]:
        texts = [decode_text(path.read_bytes()) or "" for path in files]
        began = time.process_time()
        return [reports(text) for text in texts], time.process_time() - began

    return judge


def measure_entropy(value: str) -> float:
    counts = Counter(value)
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())


def write_variants(folder: Path) -> list[tuple[Variant, Path]]:
    written = []
    for number, variant in enumerate(list_variants()):
        path = folder / str(number) / variant.path
        path.parent.mkdir(parents=True)
        path.write_text(variant.text)
        written.append((variant, path))
    return written


def share(found: Iterable[bool]) -> str:
    verdicts = list(found)
    return f"{100 * sum(verdicts) / len(verdicts):.1f} %" if verdicts else "-"


def measure_recall(judges: dict[str, Judge]) -> list[str]:
    """Rows of the table of recall, by family and by what the rules' author had seen."""
    with tempfile.TemporaryDirectory() as folder:
        written = write_variants(Path(folder))
        variants, paths = [each for each, _ in written], [path for _, path in written]
        verdicts = {name: judge(paths)[0] for name, judge in judges.items()}
    verdicts["sonde"] = [
        found or find_denied(each.path) is not None
        for each, found in zip(variants, verdicts["sonde"], strict=True)
    ]
    rows = ["| | kinds | variants | " + " | ".join(judges) + " |"]
    rows.append("|---|---|---|" + "---|" * len(judges))
    families = dict.fromkeys(each.family for each in variants)
    parts: dict[str, Callable[[Variant], bool]] = {
        family: (lambda each, family=family: each.family == family) for family in families
    }
    parts["all, seen by the author of the rules"] = lambda each: each.seen
    parts["all, not seen"] = lambda each: not each.seen
    parts["**all**"] = lambda _: True
    for name, belongs in parts.items():
        at = [number for number, each in enumerate(variants) if belongs(each)]
        kinds = len({variants[number].kind for number in at})
        cells = [share(verdicts[judge][number] for number in at) for judge in judges]
        rows.append(f"| {name} | {kinds} | {len(at):,} | " + " | ".join(cells) + " |")
    missed = Counter(
        each.kind for each, found in zip(variants, verdicts["sonde"], strict=True) if not found
    )
    rows += ["", "Missed by sonde: " + ", ".join(f"{k} ({n})" for k, n in missed.items()) + "."]
    return rows


def measure_precision(folders: list[Path], judges: dict[str, Judge]) -> list[str]:
    """Rows of the table of benign files; prints each that sonde leaves out."""
    paths: list[tuple[Path, str]] = []
    by_content: list[str] = []
    by_name: list[Skipped] = []
    for repository in sorted(one for folder in folders for one in folder.iterdir()):
        if not repository.is_dir() or repository.name.startswith("."):
            continue
        rules = Rules(respect_gitignore=False)
        with FileReader(Source("", repository, rules)) as reader:
            for found in walk_files(repository, rules):
                if isinstance(found, ListedFile):
                    paths.append((repository / found.path, found.path))
                    read = reader.read(found.path)
                    if isinstance(read, Skipped) and read.reason == "secret_content":
                        by_content.append(f"{repository.name}/{read.path}: {read.detail}")
                elif found.reason == "denied" and "secrets)" in found.detail:
                    by_name.append(found)
                    print(f"name     {repository.name}/{found.path}: {found.detail}")
    print("\n".join(f"content  {each}" for each in by_content))
    ours = sum("more secrets" in each.detail for each in by_name)
    summary = (
        f"{len(paths):,} files of {sum(len(list(f.iterdir())) for f in folders)} public "
        f"repositories: {len(by_content)} left out by content, {ours} by a name that sonde adds, "
        f"{len(by_name) - ours} by a name of the specification."
    )
    rows = [summary, "", "| | files | left out | MB/s |", "|---|---|---|---|"]
    sample = random.Random(1).sample([path for path, _ in paths], min(SAMPLE, len(paths)))
    for name, judge in judges.items():
        files = [path for path, _ in paths] if name == "sonde" else sample
        size = sum(path.stat().st_size for path in files) / 1e6
        found, seconds = judge(files)
        left_out = len(by_content) if name == "sonde" else sum(found)
        rows.append(f"| {name} | {len(files):,} | {left_out} | {size / seconds:,.1f} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--gitleaks", type=Path)
    parser.add_argument("--detect-secrets", metavar="PYTHON")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    judges: dict[str, Judge] = {"sonde": judge_by_sonde}
    if args.gitleaks:
        judges["gitleaks' rules"] = judge_by_gitleaks(args.gitleaks, generic=True)
        judges["without its generic one"] = judge_by_gitleaks(args.gitleaks, generic=False)
    if args.detect_secrets:
        judges["detect-secrets"] = judge_by_detect_secrets(args.detect_secrets)
    rows = measure_recall(judges)
    if args.folders:
        rows += ["", *measure_precision(args.folders, judges)]
    print("\n".join(rows))
    if args.write:
        before, _, rest = PAGE.read_text().partition(MARKS[0])
        after = rest.partition(MARKS[1])[2]
        PAGE.write_text("\n".join([before + MARKS[0], "", *rows, "", MARKS[1] + after]))


if __name__ == "__main__":
    main()
