"""One run of the command line: arguments, settings, screens and, once needed, the app."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from sonde.cli.arguments import Arguments
from sonde.cli.terminal import ProgressLine, Prompt, Screen, escape_controls, open_screen
from sonde.errors import InvalidRequest, OutsideRoots, ProjectNotDetected, SondeError
from sonde.policy.roots import exists_below
from sonde.runtime.logs import open_logs
from sonde.runtime.work import Work
from sonde.settings import Settings, load_settings
from sonde.types import LOCAL, Caller

if TYPE_CHECKING:
    from sonde.app import App
    from sonde.projects.project import Project

_NEED_YES = ("CONFIRMATION_REQUIRED", "FILE_LIMIT_WARNING")
_ACTIONS = {
    "INDEX_NOT_FOUND": "Run `sonde index` in the project.",
    "DOCS_INDEX_NOT_FOUND": "Set `indexDocs` to true and run `sonde index`.",
    "PROJECT_NOT_DETECTED": "Go into the project, name it with --project PATH, or make this folder "
    "one: `sonde index .`",
    "EMPTY_QUERY": "Say what to search for.",
    "ENTRY_NOT_FOUND": "Look it up with `sonde knowledge search`, which shows addresses.",
}
"""Advice to people, where that of the error is meant for callers of tools."""
_PRINT_WARNINGS = ("doctor", "config")
"""Commands whose own output includes the warnings."""
_MAX_PARENTS = 3  # with more `..` at its start, the absolute path reads better


class Session:
    """What every command works with; without `models`, the app opens no embedding model."""

    def __init__(self, args: Arguments, environ: Mapping[str, str], *, models: bool = True) -> None:
        self.args = args
        self.environ = environ
        self.prompt = Prompt()
        self.out = open_screen(sys.stdout, args.color or "auto", environ)
        self.err = open_screen(sys.stderr, args.color or "auto", environ)
        self.interrupted = False
        self.chose_root = False
        """Whether a person named the project's folder when asked for it."""
        self._models = models
        self._named: str | None = args.project

    @cached_property
    def settings(self) -> Settings:
        """The settings, without those of a project, which opening the project adds."""
        given = {"shared_index": getattr(self.args, "shared", None)}
        return load_settings(self.environ, assume_yes=True if self.args.yes else None, **given)

    @cached_property
    def app(self) -> App:
        """The app, opened on first use."""
        from sonde.wiring import build_app

        open_logs(self.settings.home, "debug" if self.args.verbose else "critical")
        settings = self.settings
        if not self._models:
            sources = {**settings.sources, "embedding": "argument"}
            settings = replace(settings, embedding="none", sources=sources)
        try:
            here = Path.cwd()
        except FileNotFoundError as error:
            raise ProjectNotDetected(
                "the working directory is gone",
                user_message="The current directory does not exist any more.",
                next_action="Change to a folder that does.",
            ) from error
        return build_app(settings, start=here, tell=self.note)

    def choose_project(self, path: str | None) -> None:
        """Work on the project at this path, if there is one, instead of that of --project."""
        self._named = path or self._named

    @cached_property
    def opened(self) -> Project:
        """The project: as named, as indexed or detected around here, or as typed when asked."""
        from sonde.projects.find import find_project

        try:
            project = find_project(self.app.workspace, self._named)
        except ProjectNotDetected:
            if self.args.command == "index" and self.settings.assume_yes:
                project = find_project(self.app.workspace, None, Work())
            elif self.args.json or not self.prompt.is_interactive():
                raise
            else:
                root = ask_root(self.prompt, Path.cwd())
                self.chose_root = True
                project = find_project(self.app.workspace, str(root))
        if self.args.command not in _PRINT_WARNINGS:
            for warning in project.settings.warnings:
                self.note(escape_controls(warning), "warn")
        return project

    def open_anywhere(self) -> Project:
        """The project around here; where there is none, this folder as it is."""
        if not self.is_inside_project():
            self.choose_project(str(Path.cwd()))
        return self.opened

    @property
    def caller(self) -> Caller:
        """Whose data the command works on: the operator's, or those of the user it names."""
        return Caller(getattr(self.args, "user", None) or LOCAL)

    @property
    def project(self) -> str:
        """The root of the project, as verbs take it."""
        return str(self.opened.root)

    def is_inside_project(self) -> bool:
        """Whether a project is named or detected around the working directory; never asks."""
        from sonde.projects.find import find_project

        try:
            find_project(self.app.workspace, self._named)
        except ProjectNotDetected:
            return False
        return True

    def close(self) -> None:
        """Close what was opened."""
        if opened := self.__dict__.pop("app", None):
            opened.close()

    @contextmanager
    def working(self, agreed: Callable[[str], bool] = lambda _question: False) -> Iterator[Work]:
        """Long work with a progress line and questions; the first Ctrl-C cancels it cleanly.

        A question for which `agreed` is true is answered yes without being asked.
        """
        line = ProgressLine(sys.stderr, Screen() if self.args.quiet else self.err)

        def ask(question: str) -> bool | None:
            line.clear()
            if self.settings.assume_yes or agreed(question):
                return True
            return self.prompt.ask_yes(question) if self.prompt.is_interactive() else None

        work = Work(report=line.show, ask=ask, caller=self.caller)

        def stop(_number: int, _frame: FrameType | None) -> None:
            self.interrupted = True
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
        if project is None and self.args.command == "search" and self.args.all_projects:
            return path
        opened = self.app.workspace.projects.get(Path(project)) if project else self.opened
        sources = opened.tree.sources
        source = next(source for source in sources if path.startswith(source.prefix))
        place = source.root / path.removeprefix(source.prefix)
        relative = os.path.relpath(place)
        climb = os.path.join(*[os.pardir] * (_MAX_PARENTS + 1))  # noqa: PTH118 - a prefix, not a path
        return str(place) if relative.startswith(climb) else relative

    def inside(self, path: str) -> str:
        """A path as typed, relative to here or to the project -> relative to the project."""
        given = Path(os.path.abspath(path))  # noqa: PTH100 - links must stay visible
        named = Path(os.path.abspath(self.opened.root / path))  # noqa: PTH100
        sources = self.opened.tree.sources
        for place in (given, given.parent.resolve() / given.name, named):
            for source in sources:
                if place.is_relative_to(source.root) and exists_below(source.root, str(place)):
                    below = place.relative_to(source.root).as_posix()
                    return (source.prefix + ("" if below == "." else below)).rstrip("/")
        if os.path.lexists(given):
            raise OutsideRoots(f"{given} is in none of the project's folders")
        raise InvalidRequest(
            f"{given} does not exist",
            user_message="There is no file or folder '{path}'.",
            next_action="Name one of the project, relative to here or to its root.",
            path=path,
        )

    def note(self, text: str, style: str = "dim") -> None:
        """Print a remark on the answer, on stderr."""
        if not self.args.quiet:
            sys.stderr.write(self.err.paint(style, text) + "\n")

    def show_error(self, error: SondeError) -> None:
        """Print an error and what to do about it: as JSON with --json, else on stderr."""
        if self.args.json:
            print(json.dumps(error.as_dict(), ensure_ascii=False))
            return
        action = error.next_action
        if error.code in _NEED_YES:
            action = "Repeat the command with --yes, or set SONDE_ASSUME_YES=1."
        elif action == type(error).next_action:
            action = _ACTIONS.get(error.code, action)
        paint = self.err.paint
        lines = [f"{paint('bad', 'sonde:')} {escape_controls(error.user_message)}"]
        # who has just said no needs no advice on how to say yes
        if not error.facts.get("declined"):
            lines.append(f"  {paint('dim', '→')} {escape_controls(action)}")
        if self.args.verbose or "developer message" in action:
            lines.append(paint("dim", f"  {escape_controls(error.developer_message)}"))
        print("\n".join(lines), file=sys.stderr)

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print text for people, on stdout."""
        for line in lines:
            sys.stdout.write(f"{line}\n")

    def page_lines(self, lines: Sequence[str], count: int) -> None:
        """Print text for people; if it is longer than the terminal, in their pager."""
        import shlex
        import shutil
        import subprocess

        rows = 0
        with suppress(OSError, ValueError):
            rows = os.get_terminal_size(sys.stdout.fileno()).lines if self.out.tty else 0
        pager = shlex.split(self.environ.get("PAGER", "less"))
        is_long = rows and count > rows and self.prompt.is_interactive() and not self.args.quiet
        if is_long and pager and shutil.which(pager[0], path=self.environ.get("PATH")):
            environ = {"LESS": "FRX", **self.environ}
            text = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
            with suppress(OSError, BrokenPipeError):
                subprocess.run(pager, input=text, env=environ, check=False)
                return
        self.print_lines(lines[len(lines) - count :])

    def print_answer(self, answer: object, lines: Iterable[str]) -> None:
        """Print an answer: as JSON with --json, else as lines for people."""
        if self.args.json:
            self.print_json(answer)
        else:
            self.print_lines(lines)

    def print_done(self, answer: object, line: str) -> None:
        """Print the answer of a command that succeeded."""
        self.print_answer(answer, [f"{self.out.paint('good', '✓')} {escape_controls(line)}"])

    def print_json(self, answer: object) -> None:
        """Print the answer as JSON, on stdout."""
        indent = 2 if self.out.tty else None
        sys.stdout.write(json.dumps(answer, ensure_ascii=False, indent=indent) + "\n")


def ask_root(prompt: Prompt, here: Path) -> Path:
    """Ask for the project's folder, in the words of the RFC."""
    choice = prompt.ask_line(
        "Could not detect project root.\n"
        f" [1] Use current directory: {here}\n"
        " [2] Enter a custom path\n"
        " Choice: "
    )
    if choice == "1":
        return here
    typed = prompt.ask_line("Path: ") if choice == "2" else ""
    if not typed:
        raise ProjectNotDetected("no folder was chosen", cwd=str(here))
    return Path(typed).expanduser()
