"""Entry point: hand a quick command to the background process, or run it here.

0: found or done. 1: nothing found. 2: an error. 130: interrupted.

Nothing but the front is imported at the top: most command lines need no more.
"""

from __future__ import annotations

import os
import sys

from sonde.cli.background.front import ask_background

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; given arguments are run in this process."""
    words = sys.argv[1:] if argv is None else list(argv)
    code = ask_background(words, os.environ, wanted=argv is None)
    if code is not None:
        return code
    from sonde.cli.run import run_here

    return run_here(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
