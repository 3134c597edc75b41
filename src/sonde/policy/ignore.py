"""Ignore files, with git's meaning: their patterns, and what applies in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from sonde.errors import InvalidPattern
from sonde.policy.changes import GitRules
from sonde.text.globs import compile_regex, compose, translate_wildcards

GIT_FILE = ".gitignore"
OWN_FILE = ".sondeignore"
_IGNORE_FILE_BYTES = 1024 * 1024  # the rest of a larger ignore file is not read
_BATCH_LINES = 64  # few enough that the search for the line that decides is short
_BATCH_CHARACTERS = 40_000
"""Keeps a combined expression within the memory limit of the engine."""


class _Line(NamedTuple):
    regex: str
    negated: bool
    folders_only: bool


class Patterns:
    """The lines of one ignore file."""

    def __init__(self, text: str, *, fold_case: bool = False) -> None:
        self._batches: list[tuple[Any, list[tuple[_Line, Any]]]] = []
        # Last line first, as the last match decides; one expression tests a whole batch.
        lines = [line for raw in reversed(text.split("\n")) if (line := _parse_line(raw))]
        for batch in _cut_batches(lines):
            singles = [(line, compile_regex(line.regex, "", fold_case=fold_case)) for line in batch]
            union = "|".join(line.regex for line in batch)
            self._batches.append((compile_regex(union, "", fold_case=fold_case), singles))

    def decide(self, path: str, *, folder: bool) -> bool | None:
        """True: ignored, False: included again, None: no match. `path` is relative to the file."""
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
    """The text without trailing spaces, except escaped ones."""
    end = at = 0
    while at < len(text):
        step = 2 if text[at] == "\\" else 1
        if text[at] != " ":
            end = min(at + step, len(text))
        at += step
    return text[:end]


@dataclass(frozen=True, slots=True)
class Tracked:
    """The tracked files of a repository, for paths of a project inside or around it."""

    files: frozenset[str]
    folders: frozenset[str]
    prefix: str
    """The project's path in the working tree, with a slash at the end."""
    start: int
    """Where, in a path of the project, the path in the working tree begins."""

    def holds(self, path: str, *, folder: bool) -> bool:
        """Whether a file is tracked, or any file in a folder."""
        return self.prefix + path[self.start :] in (self.folders if folder else self.files)


@dataclass(frozen=True, slots=True)
class Scope:
    """The ignore files that apply in one folder: its own and those above."""

    above: Scope | None
    start: int
    """Offset of paths relative to this folder: the length of its own path and the slash."""
    git: Patterns | None = None
    own: Patterns | None = None
    prefix: str = ""
    """What precedes those relative paths for patterns of a folder above the project."""
    tracked: Tracked | None = None
    """What git tracks here: those files are not ignored, whatever git's patterns say."""
    ignored: bool = False
    """Whether git's patterns ignore the folder itself: then everything that is not tracked."""

    def ignores(self, path: str, *, folder: bool) -> bool:
        """Whether a path in this folder is ignored, given that the folder is walked."""
        if (verdict := self._decide("own", path, folder=folder)) is not None:
            return verdict
        if not (self.ignored or self._decide("git", path, folder=folder)):
            return False
        return self.tracked is None or not self.tracked.holds(path, folder=folder)

    def enter(self, path: str) -> Scope:
        """The scope of a subfolder without ignore files of its own."""
        if self.tracked and not self.ignored and self._decide("git", path, folder=True):
            return replace(self, ignored=True)
        return self

    def _decide(self, kind: str, path: str, *, folder: bool) -> bool | None:
        scope: Scope | None = self
        while scope is not None:
            patterns: Patterns | None = getattr(scope, kind)
            if patterns is not None:
                verdict = patterns.decide(scope.prefix + path[scope.start :], folder=folder)
                if verdict is not None:
                    return verdict
            scope = scope.above
        return None


def open_scope(
    above: Scope | None,
    path: str,
    read_start: Callable[[str, int], bytes | None],
    repository: GitRules | None = None,
    *,
    fold_case: bool,
    respect_git: bool,
) -> Scope | None:
    """The scope of a folder from its ignore files, and the repository that begins there; the scope
    above if it has none."""
    start = len(path) + 1 if path else 0
    scope = above.enter(path) if above else None
    if repository and respect_git:
        scope = _open_repository(above, start, repository, fold_case)
    own = _compile_patterns(read_start(OWN_FILE, _IGNORE_FILE_BYTES), fold_case)
    git = None
    if respect_git:
        git = _compile_patterns(read_start(GIT_FILE, _IGNORE_FILE_BYTES), fold_case)
    if own is None and git is None:
        return scope
    tracked, ignored = (scope.tracked, scope.ignored) if scope else (None, False)
    return Scope(scope, start, git, own, tracked=tracked, ignored=ignored)


def _open_repository(
    above: Scope | None, start: int, repository: GitRules, fold_case: bool
) -> Scope:
    """The scope of a repository's own rules, without the ignore files in its folders."""
    tracked = Tracked(repository.files, repository.folders, repository.prefix, start)
    plain = scope = Scope(above, start, tracked=tracked)
    for prefix, data in repository.excludes:
        patterns = _compile_patterns(data, fold_case)
        ways = (prefix[:at] for at, letter in enumerate(prefix) if letter == "/")
        if patterns and any(patterns.decide(way, folder=True) for way in ways):
            return plain  # a project in a folder that its repository ignores: a person named it
        scope = Scope(scope, start, patterns, prefix=prefix, tracked=tracked)
    return scope


@lru_cache(maxsize=128)
def _compile_patterns(data: bytes | None, fold_case: bool) -> Patterns | None:
    """Cached by content, as single paths are checked again and again."""
    # As in git, an ignore file that is a link or cannot be read has no effect; nor an empty one.
    if not data:
        return None
    return Patterns(compose(data.decode("utf-8-sig", "replace")), fold_case=fold_case)
