"""How many of the definitions that universal-ctags finds are found here, by language.

    python benchmarks/definitions.py CORPORA... [--only a,b] [--language go] [--misses 20] [--all]

Each folder of CORPORA is a repository. A definition of ctags is found when a symbol of the same
last name covers its line; `scope` is the share of those with a scope whose symbol also agrees in
the last two parts (`Client.send`). `extra` is how many symbols per definition of ctags there are.
ctags is the judge and errs too (`NOISE`); `--misses` shows what it found and we did not. `--all`
compares every kind that ctags knows, also fields, variables and keys.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sonde.chunking.grammars import is_written
from sonde.chunking.parse import parse_source
from sonde.policy.read import decode_text
from sonde.text.languages import language_of
from sonde.types import Symbol

KINDS = frozenset(
    "function method class struct interface trait func type enum module object constructor member "
    "macro subroutine protocol record def defn singletonMethod".split()
)
NO_NAME = re.compile(
    r"^__anon|^anonFunc|^\d+$|^Anonymous\w+[0-9a-f]{8}|_H_*$|_HPP_*$|_INCLUDED_*$|[^\w$.:?!=*-]"
)
NOISE = {
    "bash": r"^(?!\s*function\b|.*\)\s*(?:[{(]|$)|.*\balias\b)|=\(",
    "c": r"^[A-Z_]+_IMPL\(",
    "elixir": r"^(?!\s*(?:@|def|test\b))",
    "haskell": r"^(?:module|class|pattern|import|where|\s*(?:return|where|class|pattern)\b)",
    "javascript": r"^(?!.*(?:class|function|=>|\())",
    "kotlin": r"^(?!.*\b(?:fun|class|object|interface|constructor|typealias|va[lr])\b)",
    "lua": r"^(?!.*(?:\bfunction\s+[\w.:]+|=\s*function\b))",
}
"""Lines that ctags takes for definitions and that are none."""
PARTS = re.compile(r"::|[.:/\\#]")


def read_tags(folder: Path, *, every_kind: bool) -> Iterator[Mapping[str, Any]]:
    """The definitions that ctags finds below a folder."""
    command = "ctags -R --output-format=json --fields=+neslKZ --links=no -f - .".split()
    found = subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout
    for line in found.decode("utf-8", "replace").splitlines():
        tag = json.loads(line)
        if tag.get("_type") != "tag" or "line" not in tag or NO_NAME.search(tag["name"]):
            continue
        fields = tag["kind"] == "member" and not tag["path"].endswith((".py", ".pyi"))
        if every_kind or (tag["kind"] in KINDS and not fields):
            yield tag | {"path": tag["path"].removeprefix("./")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpora", type=Path, nargs="+")
    parser.add_argument("--only", default="")
    parser.add_argument("--language", default="")
    parser.add_argument("--misses", type=int, default=0)
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    missed: list[str] = []
    for folder in sorted(one for place in args.corpora for one in place.iterdir() if one.is_dir()):
        if args.only and folder.name not in args.only.split(","):
            continue
        tags: dict[str, list[Mapping[str, Any]]] = collections.defaultdict(list)
        for tag in read_tags(folder, every_kind=args.all):
            tags[tag["path"]].append(tag)
        for path, defined in tags.items():
            language = language_of(path).name
            data = (folder / path).read_bytes()
            if args.language not in ("", language) or not is_written(data):
                continue
            text = decode_text(data) or ""
            symbols = parse_source(path, text, kind="code").symbols
            lines = text.split("\n")
            noise = re.compile(NOISE.get(language, r"(?!)"))
            spans: dict[str, list[Symbol]] = collections.defaultdict(list)
            for one in symbols:
                spans[one.name.rpartition(".")[2]].append(one)
            count = counts[language]
            count["symbols"] += len(symbols)
            for tag in defined:
                if noise.search("".join(lines[tag["line"] - 1 : tag["line"]])):
                    continue
                name, line = PARTS.split(tag["name"].rstrip("="))[-1], int(tag["line"])
                here = [one for one in spans[name] if one.start_line <= line <= one.end_line]
                scope = PARTS.split(tag.get("scope", ""))[-1]
                scoped = re.match(r"[A-Z]\w\w", scope) and not NO_NAME.search(scope)
                right = any(one.name.split(".")[-2:-1] == [scope] for one in here)
                count["tags"] += 1
                count["found"] += bool(here)
                count["scoped"] += bool(scoped)
                count["right"] += bool(scoped and right)
                if not here or (scoped and not right):
                    what = f"{tag['kind']} {tag.get('scope', '')} . {tag['name']}"
                    kind = "SCOPE" if here else "MISSING"
                    got = " ".join(one.name for one in here)
                    missed.append(f"{kind} {folder.name}/{path}:{line} {what} {got}")
    for language, count in sorted(counts.items(), key=lambda item: -item[1]["tags"]):
        print(
            f"{language:14} {count['tags']:7} found {count['found'] / count['tags']:.4f}"
            f" scope {count['right'] / max(1, count['scoped']):.4f} of {count['scoped']:6}"
            f" extra {count['symbols'] / count['tags']:.2f}",
            flush=True,
        )
    random.Random(1).shuffle(missed)
    print(*missed[: args.misses], sep="\n")


if __name__ == "__main__":
    main()
