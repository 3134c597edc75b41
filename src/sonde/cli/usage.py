"""What a person is told whose command line cannot be read."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """argparse, whose errors are as short as ours."""

    known: Sequence[str] = ()
    """Every option of every command."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, what is near to it, and how it is used."""
        import difflib

        choice = re.search(r"argument (.*): invalid choice: '(.*)' \(choose from (.*)\)", message)
        option = re.search(r"unrecognized arguments: (--[\w-]+)", message)
        if choice:
            near = difflib.get_close_matches(choice[2], re.findall(r"[\w-]+", choice[3]), 1)
            hint = f"did you mean '{near[0]}'?" if near else f"choose from {choice[3]}"
            message = f"there is no {choice[1].lower()} '{choice[2]}'; {hint}"
        elif option:
            near = difflib.get_close_matches(option[1], self.known, 1)
            message += f"; did you mean {near[0]}?" if near else ""
        self.exit(2, f"{self.prog}: {message}\n  → usage: {self._show_usage()}\n")

    def _show_usage(self) -> str:
        """The command with its arguments; the options are in the help."""
        places = []
        for each in self._get_positional_actions():
            name = str(each.metavar or "|".join(each.choices or (each.dest,)))
            more = " ..." if each.nargs in ("*", "+") else ""
            places.append(f"{name}{more}" if each.required else f"[{name}{more}]")
        return " ".join([self.prog, *places, f"[options]; see `{self.prog} --help`"])
