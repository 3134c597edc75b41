"""Changes the source in one small place at a time and counts how many changes the tests notice.

    mutants.py record [TESTS ...]       # which tests run which lines: half an hour
    mutants.py try [--count 100] [--seed 14] [--seconds 60] [--out FILE] [--again]

Both work in a copy of the tree with an environment of its own (`.mutants/`), so that child
processes run the changed source as well. Each mutant is tried with the tests that run the changed
line, those that run the fewest other lines first, up to `--seconds` of them; where no test is known
to run it, with the test files nearest to its module by imports; then with the golden answers. A
test that fails is run again on the unchanged source: if it fails there too, it does not count.
Mutants that change no behaviour are left out: `equivalent_mutants.json` has a reason for each.
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
import venv
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from gate import list_files
from structure import Module, Structure
from which_tests import LINES, NOW, TIMES

ROOT = Path(__file__).resolve().parent.parent
Key = tuple[str, int, str]
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
EQUIVALENT = ROOT / "scripts" / "equivalent_mutants.json"
GOLDEN = "tests/golden"
LEFT_OUT = (
    "tests/faults", "tests/packaging", "tests/quality",
    "tests/web/test_browser.py", "tests/cli/test_demo.py",
)  # fmt: skip
"""Tests that no record is made of: minutes each, or of other things than the source."""
NEAREST = 8
"""Test files that are tried where no test is known to run a line."""
PATIENCE = 4
"""How many times longer than when recorded the tests may take, before it is a timeout."""
STARTING_S = 60
"""For starting pytest and collecting, on a loaded machine."""


@dataclass(frozen=True)
class Mutant:
    """One change of the source, and what became of it."""

    module: str
    line: int
    before: str
    after: str
    lines: tuple[int, ...] = ()
    """Those of its statement."""
    text: str = ""
    outcome: str = ""
    noticed_by: str = ""
    tests: int = 0

    @property
    def key(self) -> Key:
        """Which change it is."""
        return self.module, self.line, self.after


def list_changes(tree: ast.Module) -> Iterator[tuple[ast.AST, Callable[[], None]]]:
    """Nodes that can be changed, each with what changes it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            yield node, lambda node=node: node.ops.__setitem__(0, SWAPS[type(node.ops[0])]())
        elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
            yield node, lambda node=node: setattr(node, "op", SWAPS[type(node.op)]())
        elif isinstance(node, ast.If):
            yield node, lambda node=node: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
            value = not node.value if isinstance(node.value, bool) else node.value + 1
            yield node, lambda node=node, value=value: setattr(node, "value", value)
        elif isinstance(node, ast.Return) and node.value and not is_none(node.value):
            yield node, lambda node=node: setattr(node, "value", ast.Constant(None))


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def make_mutant(module: Module, chance: random.Random) -> Mutant | None:
    """A random change of a module inside one of its functions."""
    tree = ast.parse(module.text)
    statements = {
        child: statement
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for outer in function.body
        for statement in ast.walk(outer)
        if isinstance(statement, ast.stmt)
        for child in ast.walk(statement)
    }
    changes = [(node, change) for node, change in list_changes(tree) if node in statements]
    if not changes:
        return None
    node, change = chance.choice(changes)
    before = module.text.splitlines()[node.lineno - 1].strip()
    lines = list_lines(statements[node])
    change()
    ast.fix_missing_locations(tree)
    after = ast.unparse(node).split("\n")[0][:120]
    return Mutant(module.name, node.lineno, before, after, lines, ast.unparse(tree))


def list_lines(statement: ast.stmt) -> tuple[int, ...]:
    """The lines of a statement, without those of the statements in it."""
    inner = [node.lineno for node in ast.walk(statement) if isinstance(node, ast.stmt)]
    last = min((line - 1 for line in inner if line > statement.lineno), default=None)
    return tuple(range(statement.lineno, (last or statement.end_lineno or 0) + 1))


def draw_mutants(house: Structure, count: int, seed: int) -> list[Mutant]:
    """Different mutants, none of them equivalent; a module is drawn as often as it has lines."""
    same = {
        (one["module"], one["before"], one["after"]) for one in json.loads(EQUIVALENT.read_text())
    }
    chance, drawn = random.Random(seed), {}
    modules = list(house.modules.values())
    weights = [module.lines for module in modules]
    while len(drawn) < count:
        (module,) = chance.choices(modules, weights)
        mutant = make_mutant(module, chance)
        if mutant and (mutant.module, mutant.before, mutant.after) not in same:
            drawn.setdefault(mutant.key, mutant)
    return list(drawn.values())


class Copy:
    """A copy of the tree, with a Python that imports the package from it."""

    def __init__(self, folder: Path) -> None:
        self.record = folder / "record"
        self.tree = folder / "tree"
        self.python = folder / "venv" / "bin" / "python"

    def refresh(self) -> None:
        """Copy what changed since the last time."""
        wanted = {path.relative_to(ROOT): path for path in list_files(ROOT)}
        for name, path in wanted.items():
            place = self.tree / name
            if not place.exists() or place.read_bytes() != path.read_bytes():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, place)
        for path in [*(self.tree / "src").rglob("*.py"), *(self.tree / "tests").rglob("*.py")]:
            if path.relative_to(self.tree) not in wanted:
                path.unlink()
        self.record.mkdir(exist_ok=True)
        self._make_environment()

    def _make_environment(self) -> None:
        """An environment with the programs and packages of this one, but the source of the copy."""
        if not self.python.exists():
            venv.create(self.python.parents[1])
        for program in Path(sys.executable).parent.iterdir():
            place = self.python.parent / program.name
            if not place.exists() and program.is_file():
                first, newline, rest = program.read_bytes().partition(b"\n")
                own = b"#!" + bytes(self.python) if first.startswith(b"#!") else first
                place.write_bytes(own + newline + rest)
                place.chmod(0o755)
        (site,) = self.python.parents[1].glob("lib/python*/site-packages")
        packages = [path for path in sys.path if path.endswith("site-packages")]
        start = (
            f"import which_tests; which_tests.start_recording({str(self.record)!r}, "
            f"{str(self.tree / 'src')!r})"
        )
        paths = [self.tree / "src", self.tree / "scripts", *packages, start]
        (site / "tree.pth").write_text("".join(f"{path}\n" for path in paths))

    def collect(self, tests: Sequence[str]) -> Tests:
        """Start pytest on files or folders, in a session of its own."""
        left_out = [f"--ignore={path}" for path in LEFT_OUT if path not in tests]
        return Tests(self.python, self.tree, [*left_out, *tests])

    def record_lines(self, tests: Sequence[str]) -> None:
        """Run tests and record the lines that each of them runs."""
        (self.record / NOW).write_text("")
        left_out = [f"--ignore={path}" for path in LEFT_OUT if path not in tests]
        try:
            subprocess.run(
                [self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "which_tests",
                 "-m", "not slow", *left_out, *(tests or ["tests"])],
                cwd=self.tree, env={**os.environ, "WHICH_TESTS_RECORD": str(self.record)},
                check=False,
            )  # fmt: skip
        finally:
            (self.record / NOW).unlink()

    def write(self, module: Module, text: str) -> None:
        """Write a module. Tests take seconds, so that Python sees by its time that it changed."""
        (self.tree / module.path.relative_to(ROOT)).write_text(text)


class Tests:
    """A pytest process that has collected tests, and runs chosen ones as often as is asked."""

    def __init__(self, python: Path, tree: Path, args: Sequence[str]) -> None:
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        self._process = subprocess.Popen(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "which_tests", *args],
            cwd=tree, env={**os.environ, "WHICH_TESTS_SERVE": f"{requests} {answers}"},
            pass_fds=[requests, answers], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(requests)
        os.close(answers)
        self._lines = os.fdopen(self._answers)

    def run(self, tests: Sequence[str], seconds: float, change: Mapping[str, str]) -> str:
        """Run tests up to the first failure; see `which_tests.Server` for what comes back."""
        request = {"tests": list(tests), "seconds": seconds, "change": dict(change)}
        try:
            os.write(self._requests, json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            return "ended"
        return self._lines.readline().strip() or "ended"

    def close(self) -> None:
        """End the process."""
        os.close(self._requests)
        self._lines.close()
        self._process.wait()


class Record:
    """Which tests run which lines."""

    def __init__(self, copy: Copy) -> None:
        import coverage

        self._copy = copy
        seconds = json.loads((copy.record / TIMES).read_text())
        self._seconds = {test: took for test, took in seconds.items() if took is not None}
        merged = coverage.Coverage(copy.record / "merged")
        if parts := [str(path) for path in copy.record.glob(f"{LINES}.*")]:
            merged.load()
            merged.combine(parts)
            merged.save()
        self._data = merged.get_data()
        self._data.read()

    @cached_property
    def _breadth(self) -> Counter[str]:
        """Test -> how many lines it runs."""
        breadth: Counter[str] = Counter()
        for path in self._data.measured_files():
            for contexts in self._data.contexts_by_lineno(path).values():
                breadth.update({split_context(context)[0] for context in contexts})
        return breadth

    def tests_of(self, module: Module, mutant: Mutant, most_s: float) -> list[str]:
        """Tests that run the changed statement, the narrowest first, that fit into a time.

        A fixture of a whole file is set up by its first test: all tests of that file come after.
        """
        path = str(self._copy.tree / module.path.relative_to(ROOT))
        known = self._data.contexts_by_lineno(path)
        lines = [mutant.line] if mutant.line in known else mutant.lines
        contexts = {split_context(text) for line in lines for text in known.get(line, ()) if text}
        running = {test for test, phase in contexts if phase == "call"}
        files = {test.split("::")[0] for test, phase in contexts if phase == "setup"}
        beside = {test for test in self._seconds if test.split("::")[0] in files}
        order = sorted(
            (running | beside) & self._seconds.keys(),
            key=lambda test: (test not in running, self._breadth[test], test),
        )
        golden = [test for test in order if test.startswith(GOLDEN)]
        others = [test for test in order if not test.startswith(GOLDEN)]
        return [*self._fit(others, most_s), *self._fit(golden, most_s)]

    def runs_at_import(self, module: Module, mutant: Mutant) -> bool:
        """Whether the changed statement runs when modules are imported."""
        known = self._data.contexts_by_lineno(str(self._copy.tree / module.path.relative_to(ROOT)))
        return any("" in known.get(line, ()) for line in {mutant.line, *mutant.lines})

    def tests_in(self, files: Sequence[str], most_s: float) -> list[str]:
        """The tests of files, that fit into a time."""
        known = [test for file in files for test in self._seconds if test.split("::")[0] == file]
        return self._fit(known, most_s)

    def _fit(self, tests: Sequence[str], most_s: float) -> list[str]:
        chosen, total = [], 0.0
        for test in tests:
            if total + self._seconds[test] <= most_s:
                chosen.append(test)
                total += self._seconds[test]
        return chosen or list(tests[:1])


def split_context(context: str) -> tuple[str, str]:
    """The test and the phase that a context names."""
    test, _, phase = context.rpartition(" (")
    return test, phase.removesuffix(")")


def nearest_tests(house: Structure, module: str) -> list[str]:
    """Test files in the folder of the module's package, or with few imports to the module.

    Those come first whose names have most words of the module's name.
    """
    importers: dict[str, set[str]] = defaultdict(set)
    for name, others in house.imports.items():
        for other in others:
            importers[other].add(name)
    distance, queue = {module: 0}, deque([module])
    while queue:
        name = queue.popleft()
        for upper in importers[name]:
            if upper not in distance:
                distance[upper] = distance[name] + 1
                queue.append(upper)
    ranked = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text, place = path.read_text(), path.relative_to(ROOT).as_posix()
        near = [steps for name, steps in distance.items() if f"{name} import" in text]
        named = sum(word.rstrip("s") in place for word in module.split(".")[1:])
        if (near or named) and not place.startswith(LEFT_OUT):
            ranked.append((-named, min(near, default=NEAREST), len(text), place))
    return [place for *_, place in sorted(ranked)[:NEAREST]]


class Trial:
    """Tries mutants one after another."""

    def __init__(self, house: Structure, copy: Copy, seconds: float) -> None:
        self._house, self._copy, self._seconds = house, copy, seconds
        self._record = Record(copy)
        self._tests = copy.collect(["tests"])
        self._unreliable: set[str] = set()
        """Tests that fail on the source itself."""

    def attempt(self, mutant: Mutant) -> Mutant:
        """The mutant with its outcome: killed, survived, timeout, or not run (by no known test)."""
        module = self._house.modules[mutant.module]
        running = self._record.tests_of(module, mutant, self._seconds)
        nearest = [] if running else nearest_tests(self._house, mutant.module)
        mutant = replace(mutant, tests=len(running))
        chosen = running or self._record.tests_in(nearest, self._seconds)
        failed = self._run(module, mutant, [one for one in chosen if one not in self._unreliable])
        if failed == "passed":
            return replace(mutant, outcome="survived" if running else "not run")
        outcome = "timeout" if failed == "timeout" else "killed"
        return replace(mutant, outcome=outcome, noticed_by=failed)

    def find_unreliable(self, tests: Sequence[str]) -> set[str]:
        """Those of the tests that fail on the source itself; no mutant is tried with them again."""
        module = next(iter(self._house.modules.values()))
        change = make_change(self._copy, module, module.text)
        for test in tests:
            answer = self._tests.run([test], self._seconds + STARTING_S, change)
            if answer != "passed":
                print(f"does not count: {test} ({answer} on the source itself)")
                self._unreliable.add(test)
        return self._unreliable & set(tests)

    def _run(self, module: Module, mutant: Mutant, tests: Sequence[str]) -> str:
        change = make_change(self._copy, module, mutant.text)
        seconds = self._seconds * PATIENCE + STARTING_S
        self._copy.write(module, mutant.text)
        try:
            at_import = self._record.runs_at_import(module, mutant)
            failed = "" if at_import else self._tests.run(tests, seconds, change)
            if failed in ("", "not changed"):  # then in a process that imports the mutant
                files = list(dict.fromkeys(test.split("::")[0] for test in tests))
                own = self._copy.collect(files)
                failed = own.run(tests, seconds, change | {"after": change["before"]})
                own.close()
        finally:
            self._copy.write(module, module.text)
        return failed


def make_change(copy: Copy, module: Module, after: str) -> dict[str, str]:
    """A change as `which_tests.change_code` takes it."""
    path = str(copy.tree / module.path.relative_to(ROOT))
    before = ast.unparse(ast.parse(module.text))
    after = ast.unparse(ast.parse(after))
    return {"path": path, "source": module.text, "before": before, "after": after}


def try_mutants(args: argparse.Namespace, copy: Copy) -> None:
    house = Structure(ROOT)
    results: dict[Key, Mutant] = {}
    if args.out and args.out.exists():
        rows = [Mutant(**row) for row in json.loads(args.out.read_text())]
        results = {one.key: one for one in rows if one.outcome == "killed" or not args.again}
    drawn = [
        one
        for one in draw_mutants(house, args.count, args.seed)
        if one.module.startswith(args.only) and not one.module.startswith(args.but)
    ]
    trial = Trial(house, copy, args.seconds)
    again = drawn
    while again := [one for one in again if one.key not in results]:
        for mutant in again:
            one = results[mutant.key] = trial.attempt(mutant)
            print(f"{one.outcome:8} {one.module}:{one.line} {one.before[:80]}")
            print(f"    -> {one.after[:80]} [{one.noticed_by or one.tests}]", flush=True)
            write_results(results.values(), args.out)
        killers = {results[one.key].noticed_by for one in again}
        unreliable = trial.find_unreliable(sorted(test for test in killers if "::" in test))
        for mutant in again:
            if results[mutant.key].noticed_by in unreliable:
                del results[mutant.key]
    print(dict(Counter(results[one.key].outcome for one in drawn)))


def write_results(results: Iterable[Mutant], path: Path | None) -> None:
    if path:
        rows = [asdict(replace(one, text="", lines=())) for one in results]
        path.write_text(json.dumps(rows, indent=1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--at", type=Path, default=ROOT / ".mutants", help="where the copy lies")
    verbs = parser.add_subparsers(dest="verb", required=True)
    record = verbs.add_parser("record", help="record which tests run which lines")
    record.add_argument("tests", nargs="*", help="test files or folders; all but the long ones")
    attempt = verbs.add_parser("try", help="try mutants")
    attempt.add_argument("--count", type=int, default=100)
    attempt.add_argument("--seed", type=int, default=14)
    attempt.add_argument("--seconds", type=float, default=60, help="of tests for each mutant")
    attempt.add_argument("--out", type=Path, help="results; mutants that it holds are not repeated")
    attempt.add_argument("--only", default="", help="of the drawn mutants, those of this package")
    attempt.add_argument("--but", default="-", help="leave out those of this package")
    attempt.add_argument("--again", action="store_true", help="repeat those that were not killed")
    args = parser.parse_args()
    copy = Copy(args.at.resolve())
    copy.refresh()
    if args.verb == "record":
        copy.record_lines(args.tests)
        return 0
    try_mutants(args, copy)
    return 0


if __name__ == "__main__":
    sys.exit(main())
