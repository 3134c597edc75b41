"""The rules that no linter knows: sizes, names, paths of a machine, what a listing may cost."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_LINES = 400
MODULES = {"utils", "util", "helpers", "helper", "common", "core", "misc"}
CLASSES = re.compile(
    r"^\s*class (\w+(?:Manager|Factory|Engine|Service|Helper|Processor|Handler))\b"
)
MACHINE_PATH = re.compile(r"(?<![\w.:/~$}-])/(?:home|Users|work|root)/(?P<rest>[\w.-]+)")
EXAMPLES = {"dev", "you", "user", "me"}
"""First folders that stand for any user in an example."""
LISTING_LIMITS = {"default": 10_000, "all": 28_000}


def list_files() -> list[Path]:
    """Files that git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    paths = [ROOT / name for name in listed.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def check_sizes(files: list[Path]) -> Iterator[str]:
    for path in files:
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in ("src", "tests"):
            lines = path.read_text().count("\n")
            if lines > MOST_LINES:
                yield f"{path.relative_to(ROOT)}: {lines} lines, at most {MOST_LINES}"


def check_names(files: list[Path]) -> Iterator[str]:
    for path in files:
        if path.suffix != ".py":
            continue
        where = path.relative_to(ROOT)
        for part in {*where.parts[:-1], where.stem} & MODULES:
            yield f"{where}: a module named {part!r} says nothing"
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if found := CLASSES.match(line):
                yield f"{where}:{number}: class {found[1]} is named after a role, not a thing"


def check_machine_paths(files: list[Path]) -> Iterator[str]:
    for path in files:
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for found in MACHINE_PATH.finditer(line):
                if found["rest"] not in EXAMPLES:
                    yield f"{path.relative_to(ROOT)}:{number}: {found[0]} is on one machine only"


def check_readme() -> Iterator[str]:
    text = (ROOT / "README.md").read_text()
    for command in ("make demo", "make test"):
        if command not in text:
            yield f"README.md: does not show `{command}`"


def check_listing() -> Iterator[str]:
    from sonde.mcp.listing import DEFAULT_TOOLSETS, Listing
    from sonde.tools import TOOLS

    for name, toolsets in (("default", DEFAULT_TOOLSETS), ("all", ("all",))):
        listing = Listing(TOOLS, toolsets, enhanced=True)
        cost = len(json.dumps(listing.entries, ensure_ascii=False, separators=(",", ":")))
        if cost > LISTING_LIMITS[name]:
            yield f"the {name} listing costs {cost} characters, at most {LISTING_LIMITS[name]}"
    for tool in TOOLS:
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", tool.name):
            yield f"{tool.name}: not a portable name"


def main() -> int:
    files = list_files()
    problems = [
        *check_sizes(files),
        *check_names(files),
        *check_machine_paths(files),
        *check_readme(),
        *check_listing(),
    ]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(files)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
