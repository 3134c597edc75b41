"""Writes the parts of ARCHITECTURE.md that come from the source: docs/floors.svg and the modules.

The picture has the floors and the real imports between them; the list has the first line of every
module's docstring. `--check` only says whether both are up to date.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from html import escape
from pathlib import Path

from structure import FLOORS, Structure

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "floors.svg"
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- modules: written by `make docs` -->", "<!-- end of modules -->"
WIDTH, ROW, GAP, LEFT, BOX = 920, 34, 20, 16, 26
STYLE = """
text { font: 12px ui-monospace, monospace; fill: #1f2328 }
.count { fill: #59636e; font-size: 10px }
rect { fill: #eef3fb; stroke: #6b8fc9; rx: 5 }
path { fill: none; stroke: #6b8fc9; opacity: .35 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .count { fill: #9198a1 }
  rect { fill: #14233b; stroke: #4b76b8 } path { stroke: #7fa6e0 }
}
"""


def count_imports(house: Structure) -> Counter[tuple[str, str]]:
    """How many imports lead from one package to another."""
    found: Counter[tuple[str, str]] = Counter()
    for name, others in house.imports.items():
        upper = house.modules[name].floor
        for other in others:
            lower = house.modules[other].floor
            if upper and lower and upper != lower:
                found[upper, lower] += 1
    return found


def draw(house: Structure) -> str:
    """The whole picture."""
    present = {module.floor for module in house.modules.values()}
    floors = [names for floor in FLOORS if (names := [n for n in floor if n in present])]
    boxes: dict[str, tuple[float, float, float]] = {}
    y = 12.0
    for floor in floors:
        width = (WIDTH - 2 * LEFT - GAP * (len(floor) - 1)) / len(floor)
        for at, name in enumerate(floor):
            boxes[name] = (LEFT + at * (width + GAP), y, width)
        y += ROW + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" role="img">',
        "<title>The floors of sonde and the imports between them</title>",
        f"<style>{STYLE}</style>",
    ]
    for (upper, lower), count in sorted(count_imports(house).items()):
        if upper not in boxes or lower not in boxes:
            continue
        x1, y1, w1 = boxes[upper]
        x2, y2, w2 = boxes[lower]
        shift = (hash_of(upper + lower) - 0.5) * 0.8
        a, b = x1 + w1 * (0.5 + shift), x2 + w2 * (0.5 + shift)
        half = (y1 + BOX + y2) / 2
        line = f"M{a:.0f} {y1 + BOX:.0f}C{a:.0f} {half:.0f} {b:.0f} {half:.0f} {b:.0f} {y2:.0f}"
        parts.append(f'<path d="{line}" stroke-width="{1 + (count > 4) + (count > 19)}"/>')
    sizes = Counter(module.floor for module in house.modules.values())
    for name, (x, top, width) in boxes.items():
        note = f"{sizes[name]} files" if sizes[name] > 1 else ""
        parts.append(f'<rect x="{x:.0f}" y="{top:.0f}" width="{width:.0f}" height="{BOX}"/>')
        parts.append(f'<text x="{x + 8:.0f}" y="{top + 17:.0f}">{escape(name)}</text>')
        parts.append(
            f'<text class="count" text-anchor="end" x="{x + width - 8:.0f}"'
            f' y="{top + 17:.0f}">{note}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def hash_of(text: str) -> float:
    """A steady number from 0 to 1 that spreads lines over a box."""
    return sum(ord(letter) * (at + 7) for at, letter in enumerate(text)) % 97 / 97


def list_modules(house: Structure) -> str:
    """A table per package: its modules and what belongs in each."""
    packages: defaultdict[Path, list[tuple[str, str]]] = defaultdict(list)
    titles: dict[Path, str] = {}
    for module in house.modules.values():
        says = (ast.get_docstring(module.tree) or "").split("\n")[0]
        folder = module.path.parent.relative_to(ROOT / "src" / "sonde")
        if module.path.name == "__init__.py":
            titles[folder] = says
        else:
            packages[folder].append((module.path.name, says))
    order = {name: at for at, floor in enumerate(FLOORS) for name in floor}
    lines = []
    for folder in sorted(packages, key=lambda f: (order.get(f.parts[0], 0) if f.parts else -1, f)):
        name = f"{folder.as_posix()}/" if folder.parts else "sonde/"
        lines += [
            f"\n**`{name}`** {titles.get(folder, '')}\n",
            "| file | what is in it |",
            "|---|---|",
        ]
        lines += [f"| `{file}` | {says} |" for file, says in packages[folder]]
    return "\n".join(lines) + "\n"


def write_page(text: str, modules: str) -> str:
    """The page with its list of modules brought up to date."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{modules}\n{END}{tail}"


def main() -> int:
    house = Structure(ROOT)
    wanted = {PICTURE: draw(house), PAGE: write_page(PAGE.read_text(), list_modules(house))}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date; run `make docs`")
        return 1 if stale else 0
    for path in stale:
        path.write_text(wanted[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
