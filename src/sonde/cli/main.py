"""Entry point: read argv, run one command, turn errors into messages and exit codes.

0: found or done. 1: nothing found. 2: an error. 130: interrupted.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from sonde.cli.arguments import Command, UsageError
from sonde.cli.parse import COMMANDS, FAILED, FOUND, INTERRUPTED, parse_arguments
from sonde.runtime.private import hide_files

if TYPE_CHECKING:
    from sonde.cli.session import Session

log = logging.getLogger(__name__)

_LIGHT = {
    "help": ("manual", "run_help"),
    "version": ("manual", "run_version"),
    "completion": ("completion", "run_completion"),
}
"""Commands that need neither settings nor a project."""

_PICKER = Command("", "pick a result and open it", "picker:run_picker")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    _prepare_streams()
    hide_files()
    try:
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader is gone. Point stdout to the null device, or Python complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FOUND
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _run(argv: Sequence[str] | None) -> int:
    try:
        args = parse_arguments(sys.argv[1:] if argv is None else argv)
        if args.command in _LIGHT:
            module, function = _LIGHT[args.command]
            code: int = getattr(import_module(f"sonde.cli.commands.{module}"), function)(args)
            return code
        if not args.command and not (sys.stdin.isatty() and sys.stdout.isatty()):
            from sonde.cli.commands.manual import render_overview

            print("\n".join(render_overview()), file=sys.stderr)
            return FAILED
    except UsageError as error:
        print(f"sonde: {error}\n  → {error.action}", file=sys.stderr)
        return FAILED

    from sonde.cli.session import Session
    from sonde.runtime.logs import open_logs

    open_logs(None, "debug" if args.verbose else "critical")
    command = next((known for known in COMMANDS if known.name == args.command), _PICKER)
    session = Session(args, os.environ, models=command.models)
    if args.json and hasattr(sys.stdout, "reconfigure"):
        # in JSON, a byte that is not UTF-8 is written as the escape of its surrogate
        sys.stdout.reconfigure(errors="backslashreplace")
    return _run_command(command, session)


def _run_command(command: Command, session: Session) -> int:
    from sonde.errors import SondeError

    module, function = command.run.split(":")
    try:
        code: int = getattr(import_module(f"sonde.cli.commands.{module}"), function)(session)
        return code
    except SondeError as error:
        session.show_error(error)
        return INTERRUPTED if session.interrupted else FAILED
    except BrokenPipeError:
        raise
    except Exception as error:
        log.exception("%s failed", command.name)
        what = f"{type(error).__name__}: {error}"
        action = "Repeat it with --verbose to see where; `sonde doctor` checks the installation."
        session.show_error(SondeError(what, user_message="{what}", next_action=action, what=what))
        return FAILED
    finally:
        session.close()


def _prepare_streams() -> None:
    """Make sure that no character and no closed stream stops the output.

    Names that are not UTF-8 leave a pipe as the bytes they are, so that `xargs` finds the file,
    and appear on a terminal as escapes.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
            setattr(sys, name, stream)
        bytes_pass = not stream.isatty() and stream.encoding.lower() == "utf-8"
        stream.reconfigure(errors="surrogateescape" if bytes_pass else "backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
