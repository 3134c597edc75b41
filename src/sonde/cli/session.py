"""One run of the command line: arguments, settings, screens and, once needed, the app."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from sonde.cli.arguments import Arguments
from sonde.cli.parse import FAILED, FOUND, NOTHING
from sonde.cli.terminal import (
    Console,
    ProgressLine,
    Screen,
    edit_command,
    escape_controls,
    find_editor,
    open_screen,
)
from sonde.errors import InvalidRequest, OutsideRoots, ProjectNotDetected, SondeError
from sonde.policy.roots import exists_below
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
"""Advice for people, where the error's own advice is for callers of tools."""
_PRINT_WARNINGS = ("doctor", "config")
"""Commands whose own output includes the warnings."""
_MAX_PARENTS = 3  # with more `..` at its start, the absolute path reads better


class Session:
    """The context of a command. In the background process, `lend_app` returns apps that share what
    is already open, and `serve_client` serves an agent over a connection."""

    def __init__(
        self,
        args: Arguments,
        console: Console,
        open_app: Callable[[Session], App],
        lend_app: Callable[[Settings, Path], App] | None = None,
        serve_client: Callable[..., None] | None = None,
    ) -> None:
        self.args = args
        self.console, self.environ = console, console.environ
        streams = (console.stdout, console.stderr)
        screens = [open_screen(each, args.color or "auto", console.environ) for each in streams]
        self.out, self.err = (replace(each, here=str(console.here or "")) for each in screens)
        self._line = ProgressLine(console.stderr, Screen() if args.quiet else self.err)
        self.interrupted = False
        self._work: Work | None = None
        self.lend_app, self.serve_client = lend_app, serve_client
        self.chose_root = False
        """Whether the user entered the project's folder when asked."""
        self._open_app = open_app
        self._named: str | None = args.project

    @cached_property
    def settings(self) -> Settings:
        """The settings, without those of a project, which opening the project adds."""
        given = {"shared_index": getattr(self.args, "shared", None)}
        return load_settings(self.environ, assume_yes=True if self.args.yes else None, **given)

    @cached_property
    def here(self) -> Path:
        """The working directory."""
        try:
            return self.console.here or Path.cwd()
        except FileNotFoundError as error:
            raise ProjectNotDetected(
                "the working directory is gone",
                user_message="The current directory does not exist any more.",
                next_action="Change to a folder that does.",
            ) from error

    def at(self, path: str | Path) -> Path:
        """A path as typed, made absolute; links stay visible."""
        return Path(os.path.abspath(self.here / path))  # noqa: PTH100

    @cached_property
    def app(self) -> App:
        """The app, opened on first use."""
        if self.lend_app:
            return self.lend_app(self.settings, self.here)
        return self._open_app(self)

    def choose_project(self, path: str | None) -> None:
        """Work on the project at this path, if there is one, instead of that of --project."""
        self._named = path or self._named

    @cached_property
    def opened(self) -> Project:
        """The project: named, detected or indexed around here, or entered when asked."""
        from sonde.projects.find import find_project

        try:
            project = find_project(self.app.workspace, self._named)
        except ProjectNotDetected:
            if self.args.command == "index" and self.settings.assume_yes:
                project = find_project(self.app.workspace, None, Work())
            elif self.args.json or not self.console.is_interactive():
                raise
            else:
                root = ask_root(self.console, self.here)
                self.chose_root = True
                project = find_project(self.app.workspace, str(root))
        if self.args.command not in _PRINT_WARNINGS:
            for warning in project.settings.warnings:
                self.note(escape_controls(warning), "warn")
        return project

    @property
    def caller(self) -> Caller:
        """The user whose data the command works on: the operator, or the one it names."""
        return Caller(getattr(self.args, "user", None) or LOCAL)

    @property
    def project(self) -> str:
        """The root of the project, as verbs take it."""
        return str(self.opened.root)

    def is_inside_project(self) -> bool:
        """Whether a project is named or detected around the working directory. Never asks."""
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
        """Long work with a progress line and questions; the first Ctrl-C cancels it cleanly. A
        question for which `agreed` is true is answered yes without being asked."""

        def ask(question: str) -> bool | None:
            self._line.clear()
            if self.settings.assume_yes or agreed(question):
                return True
            return self.console.ask_yes(question) if self.console.is_interactive() else None

        work = Work(report=self._line.show, ask=ask, caller=self.caller)

        def stop(_number: int, _frame: FrameType | None) -> None:
            signal.signal(signal.SIGINT, before)
            self.interrupt()

        self._work = work
        if self.interrupted:
            work.cancel()
        is_own = self.lend_app is None  # else the front gets the signal
        before = signal.signal(signal.SIGINT, stop) if is_own else None
        try:
            yield work
        finally:
            self._line.clear()
            self._work = None
            if is_own:
                signal.signal(signal.SIGINT, before)

    def interrupt(self) -> None:
        """Cancel the running work; called from a signal handler or another thread."""
        self.interrupted = True
        if work := self._work:
            work.cancel()

    def show_path(self, path: str, project: str | None = None) -> str:
        """A path of the project, relative to the working directory."""
        if project is None and self.args.command == "search" and self.args.all_projects:
            return path
        opened = self.app.workspace.projects.get(Path(project)) if project else self.opened
        place = opened.tree.find_path(path)
        relative = os.path.relpath(place, self.here)
        climb = os.path.join(*[os.pardir] * (_MAX_PARENTS + 1))  # noqa: PTH118 - a prefix, not a path
        return str(place) if relative.startswith(climb) else relative

    def inside(self, path: str) -> str:
        """A typed path, relative to here or to the project, as a path relative to the project."""
        given, named = self.at(path), self.at(self.opened.root / path)
        for place in (given, given.parent.resolve() / given.name, named):
            for source in self.opened.tree.sources:
                if place.is_relative_to(source.root) and exists_below(source.root, str(place)):
                    below = place.relative_to(source.root).as_posix()
                    return (source.prefix + ("" if below == "." else below)).rstrip("/")
        if os.path.lexists(given):
            raise OutsideRoots(f"{given} is in none of the project's folders")
        raise InvalidRequest(
            f"{given} does not exist",
            user_message=f"There is no file or folder '{path}'.",
            next_action="Name one of the project, relative to here or to its root.",
        )

    def note(self, text: str, style: str = "dim") -> None:
        """Print a remark on the answer, on stderr."""
        self._line.clear()
        if not self.args.quiet:
            self.console.stderr.write(self.err.paint(style, text) + "\n")

    def show_error(self, error: SondeError) -> None:
        """Print an error and what to do about it: as JSON with --json, else on stderr."""
        if self.args.json:
            self.print_lines([json.dumps(error.as_dict(), ensure_ascii=False)])
            return
        action = error.next_action
        if error.code in _NEED_YES:
            action = "Repeat the command with --yes, or set SONDE_ASSUME_YES=1."
        elif action == type(error).next_action:
            action = _ACTIONS.get(error.code, action)
        paint = self.err.paint
        message = error.user_message.removesuffix(" Would you like to index it now?")
        lines = [f"{paint('bad', 'sonde:')} {escape_controls(message)}"]
        # who has just said no needs no advice on how to say yes
        if not error.facts.get("declined"):
            lines.append(f"  {paint('dim', '→')} {escape_controls(action)}")
        if self.args.verbose or "developer message" in action:
            lines.append(paint("dim", f"  {escape_controls(error.developer_message)}"))
        self.console.stderr.write("".join(f"{line}\n" for line in lines))

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print text for people, on stdout."""
        self._line.clear()
        for line in lines:
            self.console.stdout.write(f"{line}\n")

    def page_lines(self, lines: Sequence[str], count: int) -> None:
        """Print text for people; if it is longer than the terminal, in their pager."""
        import shlex
        import shutil

        rows = 0
        with suppress(OSError, ValueError):
            rows = os.get_terminal_size(self.console.stdout.fileno()).lines if self.out.tty else 0
        pager = shlex.split(self.environ.get("PAGER", "less"))
        is_long = rows and count > rows and self.console.is_interactive() and not self.args.quiet
        if is_long and pager and shutil.which(pager[0], path=self.environ.get("PATH")):
            text = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
            with suppress(OSError, BrokenPipeError):
                self.console.run(pager, text, {"LESS": self.environ.get("LESS", "FRX")})
                return
        self.print_lines(lines[len(lines) - count :])

    def print_answer(
        self, answer: object, lines: Iterable[str], note: str = "", *, found: bool = True
    ) -> int:
        """Print an answer, as JSON with --json, else as text with a note. Returns the exit code."""
        if self.args.json:
            self.print_json(answer)
        else:
            self.print_lines(lines)
            if note:
                self.note(escape_controls(note))
        return FOUND if found else NOTHING

    def print_done(self, answer: object, line: str, *, found: bool = True) -> int:
        """Print the answer of a command that succeeded."""
        lines = [f"{self.out.paint('good', '✓')} {escape_controls(line)}"]
        return self.print_answer(answer, lines, found=found)

    def open_place(self, path: str, line: int) -> int:
        """Open a file at a line in the editor, or print the place. Returns the exit code."""
        if editor := find_editor(self.environ):
            with suppress(OSError):
                command = edit_command(editor, path, line)
                return FAILED if self.console.run(command, None, {}) else FOUND
        self.print_lines([f"{path}:{line}"])
        self.note("set EDITOR to open it there")
        return FOUND

    def print_json(self, answer: object) -> None:
        """Print the answer as JSON, on stdout."""
        indent = 2 if self.out.tty else None
        self.console.stdout.write(json.dumps(answer, ensure_ascii=False, indent=indent) + "\n")


def ask_root(console: Console, here: Path) -> Path:
    """Ask for the project's folder, in the words of the RFC."""
    choice = console.ask_line(
        "Could not detect project root.\n"
        f" [1] Use current directory: {here}\n"
        " [2] Enter a custom path\n"
        " Choice: "
    )
    if choice.lower() in ("1", "y", "yes"):
        return here
    typed = console.ask_line("Path: ") if choice == "2" else ""
    if not typed:
        raise ProjectNotDetected("no folder was chosen", cwd=str(here))
    return Path(typed).expanduser()
