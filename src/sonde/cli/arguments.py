"""Parsing of command lines: options and words in any order, and errors that list the choices.

Everything derives from the table of commands in `parse`. Imports nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

Words = Literal["", "file", "folder", "language", "project", "agent", "command"]
"""The kind of values to complete when an argument has no fixed choices."""


class Arguments(SimpleNamespace):
    """The values of one command line, by option name."""


class UsageError(Exception):
    """A command line that cannot be understood: what is wrong, and what to type instead."""

    def __init__(self, message: str, action: str) -> None:
        super().__init__(message)
        self.action = action


@dataclass(frozen=True, slots=True)
class Option:
    """One argument: an option if its names begin with a dash, else a positional word."""

    names: tuple[str, ...]
    about: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    words: Words = ""
    takes: Literal["one", "flag", "many", "count"] = "one"
    """How many values: a `many` word takes all that are left, a `many` option may be repeated."""
    needed: bool = False
    default: Any = None
    dest: str = ""
    value: Any = True
    """What a flag stores."""
    read: Callable[[str], Any] = str
    """Converts the text to the value. Raises `ValueError` with a message for the user."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Its names, if it is an option."""
        return self.names if self.names[0].startswith("-") else ()

    @property
    def key(self) -> str:
        """Its name among the values."""
        return self.dest or self.names[-1].lstrip("-").replace("-", "_")

    @property
    def is_flag(self) -> bool:
        """Whether it takes no value."""
        return self.takes in ("flag", "count")

    @property
    def label(self) -> str:
        """The placeholder of its value in help texts."""
        return self.metavar or ("|".join(self.choices) if self.choices else self.key.upper())

    @property
    def empty(self) -> Any:
        """Its value when it is not given."""
        if self.default is not None or self.takes == "one":
            return self.default
        if self.takes == "many":
            return None if self.flags else []
        return 0 if self.takes == "count" else None if self.dest else False


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its purpose, its arguments, and the `module:function` that runs it."""

    name: str
    about: str
    run: str
    options: tuple[Option, ...] = ()
    example: str = ""
    models: bool = True
    """Whether it needs embedding models; commands without them start faster."""

    @property
    def usage(self) -> str:
        """The command with its words; options are listed by the help."""
        places = []
        for option in self.options:
            if not option.flags:
                label = f"{option.label} ..." if option.takes == "many" else option.label
                places.append(label if option.needed else f"[{label}]")
        return " ".join(["sonde", self.name, *places, "[options]"])


def read_command_line(
    command: Command, argv: Sequence[str], everywhere: Sequence[Option]
) -> Arguments:
    """The values of a command line; options and words may come in any order."""
    options = (*command.options, *everywhere)
    values: dict[str, Any] = {option.key: option.empty for option in options}
    # a command's own option has the name rather than one of everywhere
    named = {name: option for option in reversed(options) for name in option.flags}
    words: list[str] = []
    for option, text in _split(command, argv, named):
        if option is None:
            words.append(text)
        elif option.takes == "count":
            values[option.key] += 1
        elif option.takes == "flag":
            values[option.key] = option.value
        elif option.takes == "many":
            values[option.key] = [*(values[option.key] or ()), _read_value(command, option, text)]
        else:
            values[option.key] = _read_value(command, option, text)
    _place_words(command, words, values)
    return Arguments(command=command.name, **values)


def _split(
    command: Command, argv: Sequence[str], named: dict[str, Option]
) -> Iterator[tuple[Option | None, str]]:
    """Options with their values, and words (None), in the order typed; after `--` all are words."""
    rest = iter(argv)
    for typed in rest:
        if typed == "--":
            yield from ((None, word) for word in rest)
        elif typed == "-" or not typed.startswith("-"):
            yield None, typed
        elif typed.startswith("--"):
            name, equals, text = typed.partition("=")
            option = _find(command, name, named)
            if option.is_flag and equals:
                raise _wrong(command, f"{name} takes no value")
            yield option, text if equals or option.is_flag else _take(command, option, name, rest)
        else:
            letters = typed[1:]
            while letters:
                name, letters = f"-{letters[0]}", letters[1:]
                option = _find(command, name, named, typed)
                if option.is_flag:
                    yield option, ""
                    continue
                yield option, letters.removeprefix("=") or _take(command, option, name, rest)
                break


def _find(command: Command, name: str, named: dict[str, Option], token: str = "") -> Option:
    if option := named.get(name):
        return option
    import difflib

    shown = f"{name} (in {token})" if token and token != name else name
    near = difflib.get_close_matches(name, named, 1, 0.7) if name.startswith("--") else []
    hint = f"; did you mean {near[0]}?" if near else ""
    raise _wrong(command, f"there is no option {shown}{hint}")


def _take(command: Command, option: Option, name: str, rest: Iterator[str]) -> str:
    text = next(rest, None)
    if text is None:
        raise _wrong(command, f"{name} needs a value: {option.label}")
    return text


def _read_value(command: Command, option: Option, text: str) -> Any:
    label = option.flags[-1] if option.flags else option.label
    if option.choices and text not in option.choices:
        what = f"{label}: there is no" if option.flags else f"there is no {option.key}"
        raise _wrong(command, f"{what} '{text}'; {suggest(text, option.choices)}")
    try:
        return option.read(text)
    except ValueError as error:
        raise _wrong(command, f"{label}: {error}") from error


def suggest(text: str, choices: Sequence[str]) -> str:
    """The closest choice, or all of them."""
    import difflib

    near = difflib.get_close_matches(text, choices, 1)
    return f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(choices)}"


def _place_words(command: Command, words: list[str], values: dict[str, Any]) -> None:
    left = list(words)
    for option in command.options:
        if option.flags:
            continue
        if option.takes == "many":
            values[option.key] = [_read_value(command, option, word) for word in left]
            left = []
            if option.needed and not values[option.key]:
                raise _missing(command, option)
        elif left:
            values[option.key] = _read_value(command, option, left.pop(0))
        elif option.needed:
            raise _missing(command, option)
    if left:
        raise _wrong(command, f"unexpected argument '{left[0]}'")


def _missing(command: Command, option: Option) -> UsageError:
    choices = f"; choose from {', '.join(option.choices)}" if option.choices else ""
    return _wrong(command, f"{option.label} is missing{choices}")


def _wrong(command: Command, message: str) -> UsageError:
    action = f"usage: {command.usage}; see `sonde help {command.name}`"
    return UsageError(f"{command.name}: {message}", action)


def number_reader(least: int) -> Callable[[str], int]:
    """A parser of integers that are at least `least`."""

    def read(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", text):
            raise ValueError(f"'{text}' is not a whole number")
        if int(text) < least:
            raise ValueError(f"must be at least {least}")
        return int(text)

    return read
