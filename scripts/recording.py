"""The moving picture of the README: a real terminal session, recorded and drawn as an SVG.

    python scripts/recording.py [FILE]       (docs/session.svg by default; Linux or macOS)

Each command of `SCENES` is run in a copy of this repository, in a pseudo-terminal of `COLUMNS` by
`ROWS`. What it prints becomes text in its colours (the copy is called `~/src/sonde`);
CSS types the commands and turns the scenes. The picture holds no script and loads nothing.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fcntl import ioctl
from html import escape
from pathlib import Path
from termios import TIOCSWINSZ

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 96, 14
SCENES = (
    "sonde index",
    'sonde search "what keeps secrets out of the index" -n 1',
    "sonde search decode_cursor -n 1",
    "sonde related src/sonde/policy/secrets.py:91 -n 1",
    r"sonde grep 'class \w+\(CatalogError' src --limit 5",
)
CELL, LINE, LEFT, TOP = 8.43, 19, 18, 54
"""Width of a character and height of a line in pixels; where the text begins."""
TYPING_S, PAUSE_S, READING_S, READING_LINE_S, LONGEST_RUN_S = 0.04, 0.3, 1.2, 0.2, 1.2
"""Per character typed; before Enter; to read an answer, and each line of it; a run that took longer
is shortened."""
ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\]8;[^\x1b\x07]*(?:\x1b\\|\x07)")
COLOURS = {
    30: "#5c6370", 31: "#e06c75", 32: "#98c379", 33: "#e5c07b", 34: "#61afef", 35: "#c678dd",
    36: "#56b6c2", 37: "#dcdfe4", 90: "#7f848e", 91: "#e06c75", 92: "#98c379", 93: "#e5c07b",
    94: "#61afef", 95: "#c678dd", 96: "#56b6c2", 97: "#ffffff",
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A command as it was typed, what the screen showed at its end, and how long it took."""

    command: str
    lines: tuple[tuple[tuple[str, str], ...], ...]
    seconds: float


@dataclass
class Screen:
    """The lines of a terminal that scrolls: text in its style, `\\r` and erasing understood."""

    lines: list[list[tuple[str, str]]] = field(default_factory=lambda: [[]])
    column: int = 0
    style: str = ""

    def feed(self, text: str) -> None:
        at = 0
        for found in ESCAPE.finditer(text):
            self._print(text[at : found.start()])
            at = found.end()
            if found[2] == "m":
                self.style = apply_style(self.style, found[1])
            elif found[2] == "K":
                del self.lines[-1][self.column :]
        self._print(text[at:])

    def _print(self, text: str) -> None:
        for character in text:
            if character == "\n":
                self.lines.append([])
                self.column = 0
            elif character == "\r":
                self.column = 0
            else:
                line = self.lines[-1]
                line += [(" ", "")] * (self.column - len(line))
                line[self.column : self.column + 1] = [(character, self.style)]
                self.column += 1

    def spans(self) -> Iterator[tuple[tuple[str, str], ...]]:
        """Each line as stretches of one style; empty lines at the end are left out."""
        lines = list(self.lines)
        while lines and not "".join(character for character, _ in lines[-1]).strip():
            lines.pop()
        for line in lines:
            spans: list[tuple[str, str]] = []
            for character, style in line:
                if spans and spans[-1][1] == style:
                    spans[-1] = (spans[-1][0] + character, style)
                else:
                    spans.append((character, style))
            yield tuple(spans)


def apply_style(style: str, codes: str) -> str:
    """The style after `ESC [ codes m`, as attributes of a tspan."""
    parts = dict(part.split("=", 1) for part in style.split())
    for code in (int(text or 0) for text in codes.split(";")):
        if code == 0:
            parts.clear()
        elif code == 1:
            parts["font-weight"] = '"bold"'
        elif code == 2:
            parts["fill"] = '"#7f848e"'
        elif code == 39:
            parts.pop("fill", None)
        elif code in COLOURS:
            parts["fill"] = f'"{COLOURS[code]}"'
    return " ".join(f"{name}={value}" for name, value in parts.items())


def run_typed(command: str, folder: Path, environ: dict[str, str]) -> Run:
    """Run a command line in a terminal of its own; fails if the command does."""
    master, slave = pty.openpty()
    ioctl(slave, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    began = time.monotonic()
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=folder, env=environ, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    read = b""
    with suppress(OSError):  # Linux says so when the other end is closed
        while part := os.read(master, 65536):
            read += part
    os.close(master)
    if process.wait() != 0:
        sys.exit(f"{command}: {read.decode()}")
    screen = Screen()
    screen.feed(read.decode().replace(str(folder), "~/src/sonde"))
    lines = tuple(screen.spans())
    return Run(command, lines[: ROWS - 1], time.monotonic() - began)


def record(commands: Sequence[str], folder: Path, home: Path) -> list[Run]:
    """Run the commands one after the other in `folder`."""
    scripts = Path(sys.executable).parent
    environ = {
        "PATH": f"{scripts}:{os.environ['PATH']}", "HOME": str(home), "TERM": "xterm-256color",
        "SONDE_HOME": str(home / ".mcp"), "LANG": "C.UTF-8", "COLUMNS": str(COLUMNS),
    }  # fmt: skip
    return [run_typed(command, folder, environ) for command in commands]


def draw(runs: Sequence[Run]) -> str:
    """The SVG: one group for each scene, shown in turn for ever."""
    width, height = round(2 * LEFT + COLUMNS * CELL), TOP + ROWS * LINE
    lasts = [
        TYPING_S * len(run.command)
        + PAUSE_S
        + min(run.seconds, LONGEST_RUN_S)
        + READING_S
        + READING_LINE_S * len(run.lines)
        for run in runs
    ]
    whole = sum(lasts)
    rules, groups, starts = [], [], 0.0
    for number, (run, last) in enumerate(zip(runs, lasts, strict=True)):
        typed = starts + TYPING_S * len(run.command)
        printed = typed + PAUSE_S + min(run.seconds, LONGEST_RUN_S)
        rules.append(show_rule(f"s{number}", starts, starts + last, whole))
        rules.append(show_rule(f"o{number}", printed, starts + last, whole))
        far = len(run.command) * CELL
        rules.append(
            f"@keyframes t{number}{{0%,{percent(starts, whole)}{{transform:translateX(0);"
            f"animation-timing-function:steps({len(run.command)})}}"
            f"{percent(typed, whole)},100%{{transform:translateX({far:.1f}px)}}}}"
            f"#t{number}{{animation:t{number} {whole:.2f}s infinite}}"
        )
        groups.append(draw_scene(number, run))
        starts += last
    style = "\n".join(rules)
    still = (
        "@media (prefers-reduced-motion:reduce)"
        "{g,rect{animation:none!important}#s1,#o1{opacity:1}#t1{opacity:0}}"
    )
    label = escape("; ".join(run.command for run in runs), quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="A terminal: {label}">\n'
        f"<style>\n{style}\n{still}\n</style>\n"
        f'<rect width="{width}" height="{height}" rx="10" fill="#21252b"/>\n'
        '<circle cx="22" cy="20" r="6" fill="#ff5f56"/><circle cx="42" cy="20" r="6" '
        'fill="#ffbd2e"/><circle cx="62" cy="20" r="6" fill="#27c93f"/>\n'
        '<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace" '
        'font-size="14" fill="#dcdfe4">\n' + "\n".join(groups) + "\n</g>\n</svg>\n"
    )


def show_rule(name: str, begins: float, ends: float, whole: float) -> str:
    """CSS that shows an element from one second of the film to another."""
    first, last = percent(begins, whole), percent(ends, whole)
    after = "" if ends >= whole else f"{last},100%{{opacity:0}}"
    before = "0%" if begins == 0 else f"{first}"
    hidden = "" if begins == 0 else "0%{opacity:0}"
    return (
        f"@keyframes {name}{{{hidden}{before}{{opacity:1}}{after}}}"
        f"#{name}{{opacity:0;animation:{name} {whole:.2f}s step-end infinite}}"
    )


def percent(at: float, whole: float) -> str:
    return f"{100 * at / whole:.3f}%"


def draw_scene(number: int, run: Run) -> str:
    command = draw_line(0, [("$ ", 'fill="#98c379"'), (run.command, "")])
    x, y = LEFT + 2 * CELL, TOP - 15
    cover = (
        f'<g id="t{number}"><rect x="{x:.1f}" y="{y}" width="{COLUMNS * CELL:.0f}" height="{LINE}" '
        f'fill="#21252b"/><rect x="{x:.1f}" y="{y}" width="{CELL}" height="{LINE - 2}" '
        'fill="#7f848e"/></g>'
    )
    lines = "\n".join(draw_line(row, spans) for row, spans in enumerate(run.lines, 1) if spans)
    return f'<g id="s{number}">\n{command}\n{cover}\n<g id="o{number}">\n{lines}\n</g></g>'


def draw_line(row: int, spans: Sequence[tuple[str, str]]) -> str:
    """A line of text; its length is given, so that every font fills the same cells."""
    size = sum(len(text) for text, _ in spans)
    parts = "".join(
        f"<tspan {style}>{escape(text)}</tspan>" if style else f"<tspan>{escape(text)}</tspan>"
        for text, style in spans
    )
    return (
        f'<text x="{LEFT}" y="{TOP + row * LINE}" textLength="{size * CELL:.1f}" '
        f'xml:space="preserve">{parts}</text>'
    )


def copy_project(folder: Path) -> Path:
    """This repository without what is large or no text."""
    kept_out = shutil.ignore_patterns("__pycache__", "models", "*.png", "session.svg")
    for name in ("src", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=kept_out)
    for name in ("pyproject.toml", "README.md", "SECURITY.md"):
        shutil.copy(ROOT / name, folder)
    return folder


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs" / "session.svg")
    with tempfile.TemporaryDirectory() as home:
        project = copy_project(Path(home) / "sonde")
        picture = draw(record(SCENES, project, Path(home)))
    out.write_text(picture, "utf-8")
    print(f"{out}: {len(SCENES)} commands, {len(picture):,} characters")


if __name__ == "__main__":
    main()
