"""Changes the source in one small place at a time and counts how many changes the tests notice.

    mutants.py [--count 100] [--seed 1] [--seconds 180] [--nearest 8] [--quick] [--out FILE]

Each mutant is a copy of the source with one operator, comparison, constant or condition changed.
It is tried with the test files nearest to its module by imports, then with the golden answers
(`--quick` leaves those out: what survives then may still be noticed by the whole suite).
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from structure import PACKAGE, Module, Structure

ROOT = Path(__file__).resolve().parent.parent
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of the source."""

    module: str
    line: int
    before: str
    after: str
    text: str


def list_changes(tree: ast.Module) -> Iterator[tuple[ast.AST, Callable[[], None]]]:
    """Nodes that can be changed, each with what changes it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            yield node, lambda node=node: node.ops.__setitem__(0, SWAPS[type(node.ops[0])]())
        elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
            yield node, lambda node=node: setattr(node, "op", SWAPS[type(node.op)]())
        elif isinstance(node, ast.If):
            yield (
                node.test,
                lambda node=node: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test)),
            )
        elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
            value = not node.value if isinstance(node.value, bool) else node.value + 1
            yield node, lambda node=node, value=value: setattr(node, "value", value)
        elif isinstance(node, ast.Return) and node.value is not None:
            yield node, lambda node=node: setattr(node, "value", ast.Constant(None))


def make_mutant(module: Module, chance: random.Random) -> Mutant | None:
    """A random change of a module inside one of its functions."""
    tree = ast.parse(module.text)
    inside = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in node.body
        for child in ast.walk(statement)
    }
    changes = [(node, change) for node, change in list_changes(tree) if node in inside]
    if not changes:
        return None
    node, change = chance.choice(changes)
    line, before = getattr(node, "lineno", 0), module.text.splitlines()[node.lineno - 1].strip()
    change()
    ast.fix_missing_locations(tree)
    text = ast.unparse(tree)
    return Mutant(module.name, line, before, ast.unparse(node)[:120], text)


def nearest_tests(house: Structure, module: str, most: int) -> list[Path]:
    """Test files by how few imports lead from them to the module."""
    importers: dict[str, set[str]] = {}
    for name, others in house.imports.items():
        for other in others:
            importers.setdefault(other, set()).add(name)
    distance, queue = {module: 0}, deque([module])
    while queue:
        name = queue.popleft()
        for upper in importers.get(name, ()):
            if upper not in distance:
                distance[upper] = distance[name] + 1
                queue.append(upper)
    ranked = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        near = [steps for name, steps in distance.items() if f"{name} import" in text]
        if near and "golden" not in path.parts:
            ranked.append((min(near), len(text), path))
    return [path for _, _, path in sorted(ranked)[:most]]


def try_mutant(house: Structure, mutant: Mutant, args: argparse.Namespace) -> str:
    """`killed`, `timeout` or `survived`."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / PACKAGE
        shutil.copytree(ROOT / "src" / PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        place = house.modules[mutant.module].path.relative_to(ROOT / "src" / PACKAGE)
        (copy / place).write_text(mutant.text)
        environ = dict(os.environ, PYTHONPATH=folder, PYTHONDONTWRITEBYTECODE="1")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        golden = [] if args.quick else [ROOT / "tests" / "golden"]
        for tests in (nearest_tests(house, mutant.module, args.nearest), golden):
            if not tests:
                continue
            try:
                code = subprocess.run(
                    [*command, *map(str, tests)],
                    cwd=ROOT, env=environ, capture_output=True, timeout=args.seconds, check=False,
                ).returncode  # fmt: skip
            except subprocess.TimeoutExpired:
                return "timeout"
            if code:
                return "killed"
    return "survived"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=180, help="for each mutant's nearest tests")
    parser.add_argument("--nearest", type=int, default=8, help="test files to try first")
    parser.add_argument("--quick", action="store_true", help="leave the golden answers out")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    house, chance = Structure(ROOT), random.Random(args.seed)
    weights = [module.lines for module in house.modules.values()]
    results: list[dict[str, object]] = []
    while len(results) < args.count:
        (module,) = chance.choices(list(house.modules.values()), weights)
        mutant = make_mutant(module, chance)
        if mutant is None:
            continue
        outcome = try_mutant(house, mutant, args)
        results.append({**asdict(mutant), "text": None, "outcome": outcome})
        print(f"{len(results):3} {outcome:8} {mutant.module}:{mutant.line} {mutant.before[:90]}")
        sys.stdout.flush()
        if args.out:
            args.out.write_text(json.dumps(results, indent=1))
    noticed = sum(one["outcome"] != "survived" for one in results)
    print(f"{noticed} of {len(results)} noticed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
