"""Entry point: read argv, run one command, turn errors into messages and exit codes.

0: found or done. 1: nothing found. 2: an error. 130: interrupted.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from sonde.cli.parse import COMMANDS, FAILED, FOUND, INTERRUPTED, Command, build_parser
from sonde.runtime.private import hide_files

if TYPE_CHECKING:
    from sonde.cli.session import Session
    from sonde.errors import SondeError

log = logging.getLogger(__name__)

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
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.version:
        from sonde.version import __version__

        print(f"sonde {__version__}")
        return FOUND
    if args.command is None:
        parser.print_help(sys.stderr)
        return FAILED
    if args.command == "completion":
        from sonde.cli.commands.completion import run_completion

        return run_completion(args.shell)

    from sonde.cli.session import Session
    from sonde.runtime.logs import open_logs

    open_logs(None, "debug" if args.verbose else "critical")
    command = next(known for known in COMMANDS if known.name == args.command)
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
        _show_error(session, error)
        return INTERRUPTED if session.interrupted else FAILED
    except BrokenPipeError:
        raise
    except Exception as error:
        log.exception("%s failed", command.name)
        what = f"{type(error).__name__}: {error}"
        action = "Repeat it with --verbose to see where; `sonde doctor` checks the installation."
        _show_error(session, SondeError(what, user_message="{what}", next_action=action, what=what))
        return FAILED
    finally:
        session.close()


def _show_error(session: Session, error: SondeError) -> None:
    from sonde.cli.terminal import escape_controls

    if session.args.json:
        print(json.dumps(error.as_dict(), ensure_ascii=False))
        return
    action = error.next_action
    if error.code in _NEED_YES:
        action = "Repeat the command with --yes, or set SONDE_ASSUME_YES=1."
    elif action == type(error).next_action:
        action = _ACTIONS.get(error.code, action)
    paint = session.err.paint
    lines = [f"{paint('bad', 'sonde:')} {escape_controls(error.user_message)}"]
    # who has just said no needs no advice on how to say yes
    if not error.facts.get("declined"):
        lines.append(f"  {paint('dim', '→')} {escape_controls(action)}")
    if session.args.verbose or "developer message" in action:
        lines.append(paint("dim", f"  {escape_controls(error.developer_message)}"))
    print("\n".join(lines), file=sys.stderr)


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
