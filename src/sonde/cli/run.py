"""One command line, run in this process: arguments, command, errors, exit code."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from errno import ENOSPC
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from sonde.cli.arguments import Arguments, Command, UsageError
from sonde.cli.parse import COMMANDS, FAILED, FOUND, INTERRUPTED, parse_arguments
from sonde.runtime.private import hide_files

if TYPE_CHECKING:
    from sonde.app import App
    from sonde.cli.session import Session
    from sonde.cli.terminal import Console
    from sonde.settings import Settings

log = logging.getLogger(__name__)

_LIGHT = ("help", "version", "completion")
"""Commands that need neither settings nor a project."""

_PICKER = Command("", "pick a result and open it", "picker:run_picker")


def run_here(argv: Sequence[str]) -> int:
    """Run one command line in this process, on its own streams."""
    _prepare_streams()
    hide_files()
    try:
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output(sys.stdout)
        return FOUND
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _run(argv: Sequence[str]) -> int:
    try:
        args = parse_arguments(argv)
        if args.command in _LIGHT:
            return _call(_find_command(args).run, args)
        if not args.command and not (sys.stdin.isatty() and sys.stdout.isatty()):
            from sonde.cli.commands.manual import render_overview

            print("\n".join(render_overview()), file=sys.stderr)
            return FAILED
    except UsageError as error:
        print(f"sonde: {error}\n  → {error.action}", file=sys.stderr)
        return FAILED

    from sonde.cli.terminal import Console
    from sonde.runtime.logs import open_logs
    from sonde.runtime.processes import collect_rarely

    collect_rarely()
    open_logs(None, "debug" if args.verbose else "critical")
    console = Console(sys.stdin, sys.stdout, sys.stderr, os.environ)
    return finish_session(make_session(args, console))


def _find_command(args: Arguments) -> Command:
    return next((known for known in COMMANDS if known.name == args.command), _PICKER)


def _call(run: str, given: Arguments | Session) -> int:
    module, function = run.split(":")
    code: int = getattr(import_module(f"sonde.cli.commands.{module}"), function)(given)
    return code


def _open_own_app(session: Session, *, models: bool) -> App:
    """An app of this process; without `models`, it opens no embedding model."""
    from sonde.runtime.logs import open_logs
    from sonde.wiring import build_app

    settings = session.settings
    open_logs(settings.home, "debug" if session.args.verbose else "critical")
    if not models:
        sources = {**settings.sources, "embedding": "argument"}
        settings = replace(settings, embedding="none", sources=sources)
    return build_app(settings, start=session.here, tell=session.note)


def make_session(
    args: Arguments,
    console: Console,
    lend_app: Callable[[Settings, Path], App] | None = None,
    serve_client: Callable[..., None] | None = None,
) -> Session:
    """The session of a command line."""
    from sonde.cli.session import Session

    command = _find_command(args)
    if args.json and hasattr(console.stdout, "reconfigure"):
        # in JSON, a byte that is not UTF-8 is written as the escape of its surrogate
        console.stdout.reconfigure(errors="backslashreplace")
    open_app = partial(_open_own_app, models=command.models)
    return Session(args, console, open_app, lend_app, serve_client)


def finish_session(session: Session) -> int:
    """Run the command of a session; its errors become messages and exit codes."""
    from sonde.errors import SondeError

    try:
        code = _call(_find_command(session.args).run, session)
        session.console.stdout.flush()
        return code
    except SondeError as error:
        session.show_error(error)
        return INTERRUPTED if session.interrupted else FAILED
    except BrokenPipeError:
        raise
    except Exception as error:
        log.exception("%s failed", session.args.command)
        what = f"{type(error).__name__}: {error}"
        action = "Repeat it with --verbose to see where; `sonde doctor` checks the installation."
        if isinstance(error, OSError) and error.errno == ENOSPC:  # stores raise DiskFull themselves
            what = "The output could not be written: no space left on the device."
            action = "Free some space, or write to another disk, and repeat the command."
            _discard_output(session.console.stdout)
        session.show_error(SondeError(what, user_message="{what}", next_action=action, what=what))
        return FAILED
    finally:
        session.close()


def choose_escapes(*, tty: bool, encoding: str) -> str:
    """The error handler for characters that a stream cannot encode, so that none stops the output.
    Names that are not UTF-8 leave a pipe as the bytes they are, so that `xargs` finds the file, and
    appear on a terminal as escapes."""
    return "surrogateescape" if not tty and encoding.lower() == "utf-8" else "backslashreplace"


def _discard_output(stream: TextIO) -> None:
    """Drop what a stream still buffers, which Python would try to write again at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _prepare_streams() -> None:
    """Make sure that neither an unencodable character nor a closed stream stops the output."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
            setattr(sys, name, stream)
        stream.reconfigure(errors=choose_escapes(tty=stream.isatty(), encoding=stream.encoding))
