"""One run of the command line: its arguments, settings, screens and, once needed, the app."""

from __future__ import annotations

import json
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from sonde.cli.progress import ProgressLine
from sonde.cli.terminal import ColorChoice, Screen, ask_line, ask_yes, is_interactive, open_screen
from sonde.errors import OutsideRoots, ProjectNotDetected
from sonde.policy.roots import detect_root
from sonde.settings import Settings, load_settings
from sonde.work import Work

if TYPE_CHECKING:
    from sonde.app import App

_FARTHEST = 3
"""How many `..` a printed path may start with before the absolute one reads better."""


class Session:
    """What every command works with."""

    def __init__(self, args: Namespace, environ: Mapping[str, str]) -> None:
        self.args = args
        self.environ = environ
        color: ColorChoice = args.color or "auto"
        self.out: Screen = open_screen(sys.stdout, color, environ)
        self.err: Screen = open_screen(sys.stderr, color, environ)

    @cached_property
    def settings(self) -> Settings:
        """Settings without any project's; those are added by whoever opens the project."""
        return load_settings(self.environ, assume_yes=True if self.args.yes else None)

    @cached_property
    def app(self) -> App:
        """The app, opened on first use."""
        from sonde.wiring import build_app

        return build_app(self.settings, start=Path.cwd())

    @cached_property
    def project(self) -> str:
        """The project's folder: as named, as detected, as indexed before, or as the person says."""
        if self.args.project:
            return str(self.args.project)
        here = Path.cwd()
        found = self._find_around(here)
        if found:
            return str(found)
        if self.args.json or not is_interactive():
            raise ProjectNotDetected(f"no marker and no index in {here} or above", cwd=str(here))
        return str(ask_root(here))

    def is_inside_project(self) -> bool:
        """Whether the working directory lies in a project; asks nobody."""
        return "project" in self.__dict__ or self._find_around(Path.cwd()) is not None

    def _find_around(self, here: Path) -> Path | None:
        try:
            return detect_root(here)
        except ProjectNotDetected:
            from sonde.tools.scope import known_roots

            known = set(known_roots(self.app))
            return next((folder for folder in (here, *here.parents) if folder in known), None)

    @cached_property
    def root(self) -> Path:
        """Where the project's paths begin."""
        from sonde.tools.scope import find_project

        return find_project(self.app, self.project).root

    def close(self) -> None:
        """Close what was opened."""
        opened = self.__dict__.pop("app", None)
        if opened:
            opened.close()

    @contextmanager
    def working(self, waved: Callable[[str], bool] = lambda _question: False) -> Iterator[Work]:
        """Long work with a progress line, questions (those that `waved` knows are
        answered yes), and a first Ctrl-C that stops it cleanly."""
        line = ProgressLine(sys.stderr, Screen() if self.args.quiet else self.err)

        def ask(question: str) -> bool | None:
            line.clear()
            if self.settings.assume_yes or waved(question):
                return True
            return ask_yes(question) if is_interactive() else None

        work = Work(report=line.show, ask=ask)

        def stop(_number: int, _frame: FrameType | None) -> None:
            signal.signal(signal.SIGINT, before)
            work.cancel()

        before = signal.signal(signal.SIGINT, stop)
        try:
            with line:
                yield work
        finally:
            signal.signal(signal.SIGINT, before)

    def show_path(self, path: str, project: str | None = None) -> str:
        """A path of the project as seen from the working directory."""
        place = Path(project or self.root, path)
        relative = os.path.relpath(place)
        climb = os.path.join(*[os.pardir] * (_FARTHEST + 1))  # noqa: PTH118 - a prefix, not a path
        return str(place) if relative.startswith(climb) else relative

    def inside(self, path: str) -> str:
        """A path as typed, relative to the working directory -> relative to the project."""
        place = Path(os.path.abspath(path))  # noqa: PTH100 - links must stay visible
        if not place.is_relative_to(self.root):
            place = place.parent.resolve() / place.name
        if not place.is_relative_to(self.root):
            raise OutsideRoots(f"{place} is not below {self.root}")
        return place.relative_to(self.root).as_posix()

    def note(self, text: str, style: str = "dim") -> None:
        """Something beside the answer, on stderr."""
        if not self.args.quiet:
            sys.stderr.write(self.err.paint(style, text) + "\n")

    def print_lines(self, lines: Iterable[str]) -> None:
        """Text for people, on stdout."""
        for line in lines:
            sys.stdout.write(f"{line}\n")

    def print_json(self, answer: Any) -> None:
        """The answer for programs, on stdout."""
        indent = 2 if self.out.tty else None
        sys.stdout.write(json.dumps(answer, ensure_ascii=False, indent=indent) + "\n")


def ask_root(here: Path) -> Path:
    """Ask the person for the project's folder, as the RFC words it."""
    choice = ask_line(
        "Could not detect project root.\n"
        f" [1] Use current directory: {here}\n"
        " [2] Enter a custom path\n"
        " Choice: "
    )
    if choice == "1":
        return here
    typed = ask_line("Path: ") if choice == "2" else ""
    if not typed:
        raise ProjectNotDetected("no folder was chosen", cwd=str(here))
    return Path(typed).expanduser()
