"""The terminal: colour, width, safe characters, questions, the progress line, the editor."""

from __future__ import annotations

import os
import re
import time
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, TextIO

from sonde.text.formats import format_seconds
from sonde.text.highlight import TextSpan
from sonde.types import Progress

ColorChoice = Literal["auto", "always", "never"]

_STYLES = {
    "path": "35", "line": "32", "match": "1;31", "dim": "2", "bold": "1", "good": "32",
    "bad": "31", "warn": "33", "bar": "36",
}  # fmt: skip
# C0 and C1 controls, and the marks that reorder text: shown, never obeyed.
_UNSAFE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_TAB_COLUMNS = 4  # as most editors show code
_MIN_COLUMNS = 20  # narrower terminals wrap: a line cut shorter than this says nothing
_USUAL_COLUMNS = 80  # of a terminal that does not tell its width


@dataclass(frozen=True, slots=True)
class Screen:
    """One output stream: whether it is a terminal, takes colour, and how wide it is."""

    color: bool = False
    tty: bool = False
    width: int | None = None
    """None: lines are not cut."""
    links: bool = False
    """Whether paths are links that a click opens."""
    here: str = ""
    """The folder that relative paths start from; empty for that of the process."""

    def link(self, path: str, shown: str) -> str:
        """The shown text as a link to a file, where the screen takes links."""
        if not self.links:
            return shown
        return f"\x1b]8;;{Path(self.here, path).absolute().as_uri()}\x1b\\{shown}\x1b]8;;\x1b\\"

    def paint(self, style: str, text: str) -> str:
        """The text in the colour of a style, if colour is on."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.color and text else text

    def mark(self, text: str, spans: Iterable[TextSpan]) -> str:
        """The text with the character ranges in `spans` painted."""
        if not self.color:
            return text
        parts: list[str] = []
        end = 0
        for start, stop in sorted(spans):
            start, stop = max(start, end), min(stop, len(text))
            if start < stop:
                parts += [text[end:start], self.paint("match", text[start:stop])]
                end = stop
        return "".join([*parts, text[end:]])


def run_program(command: list[str], text: bytes | None, environ: Mapping[str, str]) -> int:
    """Run a program at this terminal until it ends, with a text as its input. Returns its code."""
    import subprocess

    more: dict[str, Any] = {} if text is None else {"input": text}
    environ = {**os.environ, **environ}
    return subprocess.run(command, env=environ, check=False, **more).returncode


@dataclass(frozen=True, slots=True)
class Console:
    """The terminal of a command: its streams, environment and working directory."""

    stdin: TextIO | None
    stdout: TextIO
    stderr: TextIO
    environ: Mapping[str, str]
    here: Path | None = None
    """The working directory, if it is not that of this process."""
    run: Callable[[list[str], bytes | None, Mapping[str, str]], int] = run_program
    """Runs a program at its terminal, as `run_program` does."""
    asks: bool = True
    """Whether questions can be asked; else a question raises `OwnTerminalNeeded`."""

    def is_interactive(self) -> bool:
        """Whether a user can see a question on stderr and answer it on stdin."""
        return self.stdin is not None and self.stdin.isatty() and self.stderr.isatty()

    def ask_yes(self, question: str) -> bool:
        """Whether the answer is yes; anything else is no."""
        return self.ask_line(f"{question} [y/N] ").lower() in ("y", "yes")

    def ask_line(self, question: str) -> str:
        """The line typed in answer; empty at end of input."""
        if not self.asks:
            raise OwnTerminalNeeded(question)
        self.stderr.write(question)
        self.stderr.flush()
        return self.stdin.readline().strip() if self.stdin else ""


class OwnTerminalNeeded(BaseException):
    """Raised by a question in a process without a terminal of its own."""


def open_screen(stream: TextIO, color: ColorChoice, environ: Mapping[str, str]) -> Screen:
    """The screen of a stream: colour as chosen or as NO_COLOR and TERM allow, width of COLUMNS."""
    tty = stream.isatty()
    wanted = tty and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    columns = environ.get("COLUMNS", "")
    width: int | None = None
    if re.fullmatch("[1-9][0-9]{0,5}", columns):
        width = max(_MIN_COLUMNS, int(columns))
    elif tty:
        width = _USUAL_COLUMNS
        with suppress(OSError):
            width = os.get_terminal_size(stream.fileno()).columns or _USUAL_COLUMNS
        width = max(_MIN_COLUMNS, width)
    links = tty and wanted and color != "never"
    return Screen(color == "always" or (color == "auto" and wanted), tty, width, links)


def escape_controls(text: str) -> str:
    """The text with control characters written out, so that no file can drive the terminal."""
    return _UNSAFE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def prepare_line(text: str, spans: Iterable[TextSpan] = ()) -> tuple[str, list[TextSpan]]:
    """Tabs widened and controls escaped; spans move along."""
    position = [0]
    shown: list[str] = []
    column = 0
    for char in text:
        piece = (
            " " * (_TAB_COLUMNS - column % _TAB_COLUMNS) if char == "\t" else escape_controls(char)
        )
        shown.append(piece)
        column += len(piece)
        position.append(column)
    last = len(text)
    return "".join(shown), [(position[min(a, last)], position[min(b, last)]) for a, b in spans]


def display_width(text: str) -> int:
    """The columns that a text without controls takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def cut_line(text: str, width: int | None) -> str:
    """At most `width` columns, with an ellipsis where something is missing."""
    if width is None or display_width(text) <= width:
        return text
    used = list(accumulate(map(_columns, text)))
    return text[: bisect_right(used, width - 1)] + "…"


def _columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


_BAR_COLUMNS = 24  # leaves room for counts and times in 80 columns
_EIGHTHS = " ▏▎▍▌▋▊▉"
_REDRAW_INTERVAL_S = 0.08  # twelve times a second looks smooth and costs the work nothing


class ProgressLine:
    """Draws `Progress` on a terminal; silent elsewhere."""

    def __init__(self, stream: TextIO, screen: Screen) -> None:
        self._stream = stream
        self._screen = screen
        self._drawn_at = 0.0
        self._stage = ""
        self._visible = False

    def show(self, progress: Progress) -> None:
        """Draw, unless the line was drawn a moment ago."""
        now = time.monotonic()
        finished = progress.total is not None and progress.done >= progress.total
        if not self._screen.tty or (
            progress.stage == self._stage
            and not finished
            and now - self._drawn_at < _REDRAW_INTERVAL_S
        ):
            return
        self._drawn_at, self._stage, self._visible = now, progress.stage, True
        text = cut_line(describe_progress(progress), (self._screen.width or _USUAL_COLUMNS) - 1)
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()

    def clear(self) -> None:
        """Erase the line, so that other output starts clean."""
        if self._visible:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._visible = False


def describe_progress(progress: Progress) -> str:
    """One line: stage, bar, counts, rate and time left."""
    parts = [escape_controls(progress.stage)]
    if progress.total:
        share = min(1.0, progress.done / progress.total)
        parts += [draw_bar(share), f"{share:4.0%}", f"{progress.done:,}/{progress.total:,}"]
    elif progress.done:
        parts.append(f"{progress.done:,}")
    if progress.rate:
        parts.append(f"{progress.rate:,.0f}/s")
    if progress.eta_s is not None and progress.total and progress.done < progress.total:
        parts.append(f"{format_seconds(progress.eta_s)} left")
    if progress.message:
        parts.append(escape_controls(progress.message))
    return "  ".join(parts)


def draw_bar(share: float, width: int = _BAR_COLUMNS) -> str:
    """A bar filled to `share`, fine to an eighth of a cell."""
    full, rest = divmod(round(share * width * 8), 8)
    bar = "█" * full + (_EIGHTHS[rest] if rest else "")
    return f"▕{bar:<{width}}▏"


def render_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], screen: Screen
) -> Iterator[str]:
    """Columns under their names; those of numbers are aligned to the right, except for the first,
    which is a name even if it begins with a digit."""
    if not rows:
        return
    columns = list(zip(head, *rows, strict=True))
    widths = [max(map(display_width, column)) for column in columns]
    numbers = [all(cell[:1].isdigit() for cell in column[1:]) for column in columns]
    right = [False, *numbers[1:]]
    for index, row in enumerate((head, *rows)):
        cells = [
            " " * (width - display_width(cell)) * at_right + cell
            + " " * (width - display_width(cell)) * (not at_right)
            for cell, width, at_right in zip(row, widths, right, strict=True)
        ]  # fmt: skip
        line = "  ".join(cells).rstrip()
        yield screen.paint("dim", line) if not index else line


def render_facts(facts: Mapping[str, object], screen: Screen) -> Iterator[str]:
    """Facts as aligned `Label  value` lines; a list has a line for each item."""
    shown = {key: value for key, value in facts.items() if value or isinstance(value, int)}
    width = max(map(len, shown), default=0)
    for key, value in shown.items():
        label = screen.paint("dim", f"{key:<{width}}")
        lines = value if isinstance(value, list | tuple) else [value]
        for item in lines:
            text = f"{item:,}" if isinstance(item, int) else escape_controls(str(item))
            yield f"{label}  {text}"
            label = " " * width


_EDITORS = {
    "vi vim nvim view gvim nano emacs emacsclient kak joe mg ed sensible-editor": "+{line} {path}",
    "subl zed hx helix micro sublime_text atom mate": "{path}:{line}",
    "code code-insiders codium cursor windsurf": "-g {path}:{line}",
    "idea pycharm webstorm goland clion rubymine kate gedit": "--line {line} {path}",
}
"""Editors -> how each opens a file at a line."""
_USUAL = ("sensible-editor", "vi", "nano")


def find_editor(environ: Mapping[str, str]) -> list[str]:
    """The command of the editor: $VISUAL, $EDITOR or the first usual one; empty if none is."""
    chosen = environ.get("VISUAL") or environ.get("EDITOR")
    if chosen:
        import shlex

        return shlex.split(chosen)
    import shutil

    path = environ.get("PATH")
    return next(([name] for name in _USUAL if shutil.which(name, path=path)), [])


def edit_command(editor: list[str], path: str, line: int) -> list[str]:
    """The command that opens a file at a line, in the words of this editor."""
    name = Path(editor[0]).name.removesuffix(".exe")
    form = next((form for names, form in _EDITORS.items() if name in names.split()), "{path}")
    return [*editor, *(word.format(path=path, line=line) for word in form.split())]
