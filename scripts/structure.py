"""The source as a graph: its modules, what they define and what they import."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGE = "sonde"
FLOORS: tuple[tuple[str, ...], ...] = (
    ("cli",),
    ("web",),
    ("mcp", "api", "agents"),
    ("tools", "wiring"),
    ("everything",),
    ("app",),
    ("disk", "knowledge"),
    ("projects",),
    ("indexing", "searching"),
    ("chunking", "embedding", "stores", "ranking", "paging"),
    ("policy",),
    ("settings",),
    ("runtime",),
    ("text",),
    ("values",),
    ("types",),
    ("errors", "version"),
)
"""The floors of the house, top first; import-linter holds the same order."""
_MODULE_IN_TEXT = re.compile(rf"\b{PACKAGE}(?:\.[a-z_]+)+\b")


@dataclass(frozen=True)
class Module:
    """One file of the source."""

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @property
    def floor(self) -> str:
        """The package or top-level module that it belongs to."""
        return self.name.split(".")[1] if "." in self.name else ""

    @property
    def lines(self) -> int:
        """How many lines it has."""
        return self.text.count("\n")


class Structure:
    """Every module of a package, and the imports between them."""

    def __init__(self, root: Path) -> None:
        source = root / "src" / PACKAGE
        self.modules: dict[str, Module] = {}
        for path in sorted(source.rglob("*.py")):
            parts = (PACKAGE, *path.relative_to(source).with_suffix("").parts)
            name = ".".join(parts).removesuffix(".__init__")
            self.modules[name] = Module(name, path, path.read_text())

    @cached_property
    def imports(self) -> Mapping[str, frozenset[str]]:
        """Module -> modules of the package that it imports, in functions as well."""
        return {name: frozenset(self._imports_of(name)) for name in self.modules}

    def _imports_of(self, name: str) -> Iterator[str]:
        for node in ast.walk(self.modules[name].tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    found = self._resolve(node.module, alias.name)
                    if found and found != name:
                        yield found
            elif isinstance(node, ast.Import):
                yield from (a.name for a in node.names if a.name in self.modules)

    def _resolve(self, module: str, name: str) -> str | None:
        both = (f"{module}.{name}", module)
        return next((known for known in both if known in self.modules), None)

    def longest_chain(self) -> tuple[str, ...]:
        """The longest way down through imports."""
        known: dict[str, tuple[str, ...]] = {}

        def below(name: str) -> tuple[str, ...]:
            if name not in known:
                ways = (below(other) for other in sorted(self.imports[name]))
                known[name] = (name, *max(ways, key=len, default=()))
            return known[name]

        return max((below(name) for name in self.modules), key=len, default=())

    def defined_twice(self) -> dict[str, list[str]]:
        """Public functions and classes that more than one module defines."""
        places: defaultdict[str, list[str]] = defaultdict(list)
        for module in self.modules.values():
            for node in module.tree.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and (
                    not node.name.startswith("_")
                ):
                    places[node.name].append(module.name)
        return {name: found for name, found in sorted(places.items()) if len(found) > 1}

    def folder_sizes(self) -> Counter[str]:
        """How many modules each folder holds, `__init__` aside."""
        names = (m.path.parent for m in self.modules.values() if m.path.name != "__init__.py")
        return Counter(str(folder) for folder in names)

    def named_above(self) -> Iterator[tuple[Module, int, str]]:
        """Modules of a higher floor that a string names: an import the linter cannot see."""
        height = {name: at for at, floor in enumerate(FLOORS) for name in floor}
        for module in self.modules.values():
            for node in ast.walk(module.tree):
                if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                    continue
                for found in _MODULE_IN_TEXT.findall(node.value):
                    above = found.split(".")[1]
                    if (
                        self._is_module(found)
                        and module.floor in height
                        and height.get(above, len(FLOORS)) < height[module.floor]
                    ):
                        yield module, node.lineno, found

    def _is_module(self, text: str) -> bool:
        return text in self.modules or text.rpartition(".")[0] in self.modules

    def foreign_writes(self) -> Iterator[tuple[Module, int, str]]:
        """Assignments to an attribute of an argument whose class another module defines."""
        for module in self.modules.values():
            origin = self._origins(module)
            for function in ast.walk(module.tree):
                if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    continue
                foreign = {
                    argument.arg
                    for argument in (*function.args.args, *function.args.kwonlyargs)
                    if isinstance(argument.annotation, ast.Name)
                    and argument.annotation.id in origin
                }
                for node in ast.walk(function):
                    if (
                        isinstance(node, ast.Attribute)
                        and isinstance(node.ctx, ast.Store)
                        and isinstance(node.value, ast.Name)
                        and node.value.id in foreign
                    ):
                        yield module, node.lineno, ast.unparse(node)

    def _origins(self, module: Module) -> set[str]:
        """Classes that a module imports from others of the package."""
        return {
            alias.asname or alias.name
            for node in ast.walk(module.tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
            for alias in node.names
            if alias.name[:1].isupper()
        }

    def bare_numbers(self) -> Iterator[tuple[Module, int, str]]:
        """Numeric constants of a module that neither a comment nor a docstring explains."""
        for module in self.modules.values():
            lines = module.text.splitlines()
            body = module.tree.body
            for node, following in zip(body, [*body[1:], None], strict=False):
                if not isinstance(node, ast.Assign) or not _is_number(node.value):
                    continue
                explained = (
                    isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
                ) or any("#" in lines[at - 1] for at in range(node.lineno - 1, node.end_lineno + 1))
                if not explained:
                    yield module, node.lineno, ast.unparse(node.targets[0])


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(map(_is_number, node.elts))
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)
