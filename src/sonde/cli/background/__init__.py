"""One process per user that keeps indexes, watchers and models for agents and the command line."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

QUICK = frozenset(
    ("search", "grep", "related", "history", "files", "status", "projects", "knowledge search")
)
"""Commands that run in the background process: short, asking nothing, changing no setting."""
_TAKING = ("-p", "--project", "--color")  # options before the command that have a value


def find_command(argv: Sequence[str]) -> str:
    """The command in a command line, of `knowledge` with its action; empty if there is none."""
    if "-h" in argv or "--help" in argv:
        return "help"
    words = iter(argv)
    for word in words:
        if not word.startswith("-"):
            return f"{word} {next(words, '')}" if word == "knowledge" else word
        if word in _TAKING:
            next(words, "")
    return ""
