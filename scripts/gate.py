"""The rules that no linter knows: structure, sizes, names, words, what a listing may cost."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from structure import Structure

ROOT = Path(__file__).resolve().parent.parent
MOST_LINES = 400
"""Lines of a file: longer ones hold two things."""
MOST_MODULES = 317
MOST_SOURCE_LINES = 66_880
MOST_IN_FOLDER = 15
MOST_IN_CHAIN = 15
MOST_FREE_DICTS = 60
"""Places that may say `dict[str, Any]`: results are values up to the edge."""
DEFINED_TWICE = {
    "grep": "`import sonde` repeats the verbs under their own names",
    "search": "`import sonde` repeats the verbs under their own names",
    "load": "json_edit and toml_edit are two editors with one interface",
    "put": "json_edit and toml_edit are two editors with one interface",
    "drop": "json_edit and toml_edit are two editors with one interface",
}
"""Public names that may be defined in two modules, each with its reason; at most 20."""
NAMED_ABOVE = {"sonde.agents.machine"}
"""Modules that may name a higher floor in a string: what agents are told to run is data."""
MODULES = {"utils", "util", "helpers", "helper", "common", "core", "misc"}
CLASSES = re.compile(
    r"^\s*class (\w+(?:Manager|Factory|Engine|Service|Helper|Processor|Handler))\b"
)
STIFF = re.compile(r"\b(?:told|anew|whoever|nobody's|the like of|mean the like)\b", re.IGNORECASE)
"""Words that nobody uses in this field."""
GENERATED = {"docs/tools.md", "docs/errors.md", "docs/languages.md"}
"""Pages that `make docs` writes: their sentences come from the source, which is checked."""
FENCE = re.compile(r"\s*(```|~~~)")
CODE_SPAN = re.compile(r"`[^`]*`")
MACHINE_PATH = re.compile(r"(?<![\w.:/~$}>-])/(?:home|Users|work|root)/(?P<rest>[\w.-]+)")
EXAMPLES = {"dev", "you", "user", "me"}
"""First folders that stand for any user in an example."""
INSTALL_BY_NAME = re.compile(
    r"(?:pip|pipx|uv|uvx)(?: \w+)*(?: -\S+)* ['\"]?sonde(?:\[|\b(?![-.*]))"
)
SYSTEM_MODULE = "src/sonde/runtime/system.py"
SYSTEM_CALL = re.compile(
    r"^\s*(?:import|from) (?:fcntl|msvcrt|resource|winreg|pwd)\b"
    r"|[\"']/proc/|\bos\.(?:setpriority|sched_\w+|fork|killpg|getloadavg|inotify\w*)\("
)
LISTING_LIMITS = {"default": 10_000, "all": 28_000}


def list_files(root: Path) -> list[Path]:
    """Files that git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout
    paths = [root / name for name in listed.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def check_sizes(root: Path, files: list[Path]) -> Iterator[str]:
    for path in files:
        if path.suffix == ".py" and path.relative_to(root).parts[0] in ("src", "tests"):
            lines = path.read_text().count("\n")
            if lines > MOST_LINES:
                yield f"{path.relative_to(root)}: {lines} lines, at most {MOST_LINES}"


def check_names(root: Path, files: list[Path]) -> Iterator[str]:
    for path in files:
        if path.suffix != ".py":
            continue
        where = path.relative_to(root)
        for part in {*where.parts[:-1], where.stem} & MODULES:
            yield f"{where}: a module named {part!r} says nothing"
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if found := CLASSES.match(line):
                yield f"{where}:{number}: class {found[1]} is named after a role, not a thing"


def check_words(root: Path, files: list[Path]) -> Iterator[str]:
    """Stiff words in the source and in the prose of the documentation."""
    for path in files:
        where = path.relative_to(root)
        if where.parts[0] == "src" and path.suffix == ".py":
            lines = path.read_text().splitlines()
        elif path.suffix == ".md" and where.parts[0] != "tests" and str(where) not in GENERATED:
            lines = prose_lines(path.read_text())
        else:
            continue
        for number, line in enumerate(lines, 1):
            for found in STIFF.finditer(line):
                yield f"{where}:{number}: {found[0]!r}: say it in plain English"


def prose_lines(text: str) -> list[str]:
    """The lines of a Markdown page, with code and quoted output left empty."""
    lines = []
    fence = ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
            lines.append("")
        else:
            lines.append("" if fence else CODE_SPAN.sub("", line))
    return lines


def check_patches(root: Path, files: list[Path]) -> Iterator[str]:
    for path in files:
        where = path.relative_to(root)
        if where.parts[0] != "tests" or path.suffix != ".py":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"\bmonkeypatch\.setattr\(|\bmock\.patch\b", line):
                yield f"{where}:{number}: a patch; pass the clock or the limit in"


def check_structure(root: Path) -> Iterator[str]:
    house = Structure(root)
    modules = house.modules.values()
    for what, count, most in (
        ("modules", len(modules), MOST_MODULES),
        ("lines of source", sum(module.lines for module in modules), MOST_SOURCE_LINES),
        (
            "times `dict[str, Any]`",
            sum(module.text.count("dict[str, Any]") for module in modules),
            MOST_FREE_DICTS,
        ),
    ):
        if count > most:
            yield f"src: {count} {what}, at most {most}"
    for folder, count in house.folder_sizes().items():
        if count > MOST_IN_FOLDER:
            yield f"{Path(folder).relative_to(root)}: {count} modules, at most {MOST_IN_FOLDER}"
    chain = house.longest_chain()
    if len(chain) > MOST_IN_CHAIN:
        yield f"{len(chain)} modules import each other in a row: {' -> '.join(chain)}"
    for name, places in house.defined_twice().items():
        if name not in DEFINED_TWICE:
            yield f"{name} is defined in {' and '.join(places)}"
    for module, line, text in house.named_above():
        if module.name not in NAMED_ABOVE:
            yield f"{module.path.relative_to(root)}:{line}: names {text}, a floor above"
    for module, line, name in house.bare_numbers():
        yield f"{module.path.relative_to(root)}:{line}: {name} has no reason beside it"
    for module, line, text in house.foreign_writes():
        yield f"{module.path.relative_to(root)}:{line}: writes {text}, which another module owns"


def check_machine_paths(root: Path, files: list[Path]) -> Iterator[str]:
    for path in files:
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for found in MACHINE_PATH.finditer(line):
                if found["rest"] not in EXAMPLES:
                    yield f"{path.relative_to(root)}:{number}: {found[0]} is on one machine only"


def check_readme(root: Path) -> Iterator[str]:
    text = (root / "README.md").read_text()
    for command in ("make demo", "make test"):
        if command not in text:
            yield f"README.md: does not show `{command}`"


def check_system(root: Path, files: list[Path]) -> Iterator[str]:
    """Calls of one operating system outside the module that has them for all."""
    for path in files:
        where = path.relative_to(root)
        if where.parts[0] != "src" or path.suffix != ".py" or str(where) == SYSTEM_MODULE:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if found := SYSTEM_CALL.search(line):
                yield f"{where}:{number}: {found[0]!r} belongs in {SYSTEM_MODULE}"


def check_advice(root: Path, files: list[Path]) -> Iterator[str]:
    """Advice to install `sonde` by name, which is not on a package index: it could be anybody's."""
    for path in files:
        where = path.relative_to(root)
        if where.parts[0] == "tests" or path.suffix not in (".py", ".md", ".sh", ".toml", ".yml"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if INSTALL_BY_NAME.search(line):
                yield f"{where}:{number}: installs by a name that is not on the index"


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
    files = list_files(ROOT)
    problems = [
        *check_structure(ROOT),
        *check_sizes(ROOT, files),
        *check_names(ROOT, files),
        *check_words(ROOT, files),
        *check_patches(ROOT, files),
        *check_machine_paths(ROOT, files),
        *check_readme(ROOT),
        *check_advice(ROOT, files),
        *check_system(ROOT, files),
        *check_listing(),
    ]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(files)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
