"""Nested ignore files with git's meaning: `.gitignore`, and `.sondeignore` which wins over it.

Both hold for their own folder and all below. Within one kind the deepest file that says anything
about a path decides, in it the last line; nothing below an ignored folder can be brought back.
`.git/info/exclude` and the user's global ignore file are not read: the first lies in a denied
folder, the second outside the project. A path decided by a `.sondeignore` is not asked of any
`.gitignore`, so `!generated/` there indexes what git ignores.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sonde.errors import InvalidPattern
from sonde.globs import compile_regex, translate_wildcards
from sonde.policy.folder import Folder

GIT_FILE = ".gitignore"
OWN_FILE = ".sondeignore"
_MAX_BYTES = 1024 * 1024
_BATCH_LINES = 64
# Keeps an expression within what the engine gives it of memory.
_BATCH_CHARACTERS = 40_000


@dataclass(frozen=True, slots=True)
class _Line:
    regex: str
    negated: bool
    folders_only: bool


class Patterns:
    """The lines of one ignore file."""

    def __init__(self, text: str, *, fold_case: bool = False) -> None:
        self._batches: list[tuple[Any, list[tuple[_Line, Any]]]] = []
        # Last line first, as the last match decides; a batch is asked with one expression.
        lines = [line for raw in reversed(text.split("\n")) if (line := _parse_line(raw))]
        for batch in _cut_batches(lines):
            singles = [(line, compile_regex(line.regex, "", fold_case=fold_case)) for line in batch]
            union = "|".join(line.regex for line in batch)
            self._batches.append((compile_regex(union, "", fold_case=fold_case), singles))

    def decide(self, path: str, *, folder: bool) -> bool | None:
        """True: ignored; False: brought back; None: says nothing. `path` is below the file."""
        for union, singles in self._batches:
            if union.fullmatch(path) is None:
                continue
            for line, regex in singles:
                if (folder or not line.folders_only) and regex.fullmatch(path) is not None:
                    return not line.negated
        return None


def _cut_batches(lines: list[_Line]) -> Iterator[list[_Line]]:
    batch: list[_Line] = []
    for line in lines:
        size = sum(len(other.regex) for other in batch) + len(line.regex)
        if batch and (len(batch) == _BATCH_LINES or size > _BATCH_CHARACTERS):
            yield batch
            batch = []
        batch.append(line)
    if batch:
        yield batch


def _parse_line(raw: str) -> _Line | None:
    text = _strip_spaces(raw.removesuffix("\r"))
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[negated:]
    folders_only = text.endswith("/")
    text = text[: len(text) - folders_only]
    by_name = "/" not in text
    text = text.removeprefix("/")
    try:
        regex = translate_wildcards(text)
    except InvalidPattern:
        return None
    return _Line(f"(?:.*/)?{regex}" if by_name else regex, negated, folders_only)


def _strip_spaces(text: str) -> str:
    """Without trailing spaces, unless a backslash holds them."""
    end = at = 0
    while at < len(text):
        step = 2 if text[at] == "\\" else 1
        if text[at] != " ":
            end = min(at + step, len(text))
        at += step
    return text[:end]


@dataclass(frozen=True, slots=True)
class Scope:
    """The ignore files that hold in one folder, its own and those above."""

    above: Scope | None
    start: int
    """Where paths below this folder begin: the length of its own path and the slash."""
    git: Patterns | None
    own: Patterns | None

    def ignores(self, path: str, *, folder: bool) -> bool:
        """Whether a path in this folder is left out, given that the folder itself is not."""
        for kind in ("own", "git"):
            scope: Scope | None = self
            while scope is not None:
                patterns: Patterns | None = getattr(scope, kind)
                if patterns is not None:
                    verdict = patterns.decide(path[scope.start :], folder=folder)
                    if verdict is not None:
                        return verdict
                scope = scope.above
        return False


def open_scope(
    above: Scope | None, folder: Folder, path: str, *, git: bool, fold_case: bool
) -> Scope | None:
    """The scope of a folder, from its ignore files; the scope above when it has none."""
    own_patterns = _load_patterns(folder, OWN_FILE, fold_case=fold_case)
    git_patterns = _load_patterns(folder, GIT_FILE, fold_case=fold_case) if git else None
    if own_patterns is None and git_patterns is None:
        return above
    return Scope(above, len(path) + 1 if path else 0, git_patterns, own_patterns)


def _load_patterns(folder: Folder, name: str, *, fold_case: bool) -> Patterns | None:
    try:
        descriptor, _ = folder.open_file(name)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(_MAX_BYTES)
    except OSError:
        # As git does: an ignore file that is a link or cannot be read says nothing.
        return None
    return _compile_patterns(data, fold_case=fold_case)


@lru_cache(maxsize=128)
def _compile_patterns(data: bytes, *, fold_case: bool) -> Patterns:
    """Kept by content, as single paths are asked for again and again."""
    return Patterns(data.decode("utf-8-sig", "replace"), fold_case=fold_case)
