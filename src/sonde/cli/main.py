"""Entry point: hand a quick command or an agent to the background process, or run it here.

0: found or done. 1: nothing found. 2: an error. 130: interrupted.

Each path imports only what it needs; most commands need only the front.
"""

from __future__ import annotations

import os
import sys

from sonde.cli.background import QUICK, find_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line, in this process if `argv` is given. Returns its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    command, code = find_command(words), None
    is_agent = command == "mcp" and not os.isatty(0)
    if is_agent or command in QUICK:
        from sonde.cli.background.address import find_address

        address = find_address(os.environ, wanted=argv is None)
        if address and is_agent:
            from sonde.cli.background.relay import relay

            relay(address, words)
        elif address:
            from sonde.cli.background.front import run_command

            code = run_command(address, words)
    if code is not None:
        return code
    from sonde.cli.run import run_here

    return run_here(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
