"""Which names are admitted: the fixed deny list, the user's rules, and ignore files.

The deny list is matched against every name on the way to a file, as spelled and as displayed (see
`globs.clean_path`), so that no invisible character lets one through. Secrets are matched in any
letter case everywhere, the rest where the file system folds case. Copies and backups of a secret
(`.env~`, `Copy of id_rsa`) are that secret; samples (`.env.example`) are judged by their content.
`Rules.allow` overrides what the list has beyond the specification, and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from sonde.errors import InvalidPattern
from sonde.policy.deny_list import DeniedNames, can_allow
from sonde.text.globs import Glob, clean_path, compile_glob, compile_regex, translate_wildcards

REASONS: Mapping[str, str] = {
    "denied": "it is on the fixed deny list",
    "excluded": "it matches `exclude` in config.json",
    "not_included": "it matches nothing in `include` in config.json",
    "ignored": "an ignore file (.gitignore or .sondeignore) leaves it out",
    "symlink": "it is a symbolic link",
    "hard_link": "it has another name, which may be outside the project",
    "special": "it is not a regular file",
    "folder": "it is a folder",
    "mount": "it is on another file system; `roots` in config.json can name it",
    "too_deep": "it is too many folders deep",
    "too_large": "it is larger than `maxFileSize`",
    "unreadable": "the operating system refuses to read it",
    "missing": "it does not exist",
    "bad_name": "its name is not valid UTF-8",
    "binary": "it is a binary file",
    "secret_content": "it contains a secret",
    "cut_short": "it is indexed only up to its first 1,000 chunks",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of a project that choose its files."""

    include: tuple[str, ...] = ("**/*",)
    exclude: tuple[str, ...] = ()
    """Skips a file, or a folder with everything below it."""
    allow: tuple[str, ...] = ()
    """Admits files that look like secrets, and vendored folders (`vendor/`)."""
    respect_gitignore: bool = True
    max_file_bytes: int = 1024 * 1024
    max_depth: int = 20
    """The most folders between the root and a file."""
    folds_case: bool = sys.platform in ("win32", "darwin")
    hard_links: bool = False
    """Whether to read files with several hard links. Another name of such a file may be outside
    the project, which cannot be checked cheaply; trees made with `cp -al` need this on."""


class Source(NamedTuple):
    """One folder of a project; its files are named `prefix` + their path below `root`."""

    prefix: str
    root: Path
    rules: Rules


class Gate:
    """Compiled rules that decide about many names."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        fold = rules.folds_case
        kinds = (False, True)
        self._secret = {kind: DeniedNames(secret=True, folder=kind) for kind in kinds}
        self._plain = {kind: DeniedNames(secret=False, folder=kind, fold=fold) for kind in kinds}
        self._exclude: list[Glob] = [compile_glob(p, fold_case=fold) for p in rules.exclude]
        self._allow: list[Glob] = [compile_glob(p, fold_case=fold) for p in rules.allow]
        everything = "**/*" in rules.include or "**" in rules.include or not rules.include
        self._include: list[Glob] | None = (
            None if everything else [compile_glob(p, fold_case=fold) for p in rules.include]
        )

    def find_denial(
        self, name: str, *, folder: bool, path: str = "", secrets_only: bool = False
    ) -> str | None:
        """The row of the deny list that matches a name ("*.pem (secrets)").

        `path` is where it is in the project, for what `allow` names.
        """
        spellings = [name]
        if not (name.isascii() and name.isprintable()) or name[-1:] in (" ", "."):
            # Windows drops trailing dots and spaces when it opens a file.
            spellings.append(clean_path(name).strip().rstrip(" ."))
        for spelling in spellings:
            folded = spelling.casefold()
            secret = self._secret[folder]
            found = secret.find(folded) if folder else secret.find_copied(folded)
            if not found and not secrets_only:
                found = self._plain[folder].find(folded if self.rules.folds_case else spelling)
            if found and not (can_allow("denied", found) and self.allows(path, folder=folder)):
                return found
        return None

    def allows(self, path: str, *, folder: bool = False) -> bool:
        """Whether `allow` names this file, or this folder."""
        return _matches_any(self._allow, path, folder=folder)

    def excludes(self, path: str, *, folder: bool) -> bool:
        """Whether `exclude` matches this file, this folder, or everything in it."""
        return _matches_any(self._exclude, path, folder=folder)

    def includes(self, path: str) -> bool:
        """Whether `include` matches this file."""
        return self._include is None or any(glob.matches(path) for glob in self._include)


def _matches_any(globs: list[Glob], path: str, *, folder: bool) -> bool:
    return any(glob.matches(path) or (folder and glob.matches(f"{path}/")) for glob in globs)


@lru_cache(maxsize=64)
def compile_rules(rules: Rules) -> Gate:
    """The gate of these rules."""
    return Gate(rules)


def find_denied(path: str, rules: Rules | None = None, *, secrets_only: bool = False) -> str | None:
    """The row of the deny list that matches any name of a path."""
    gate = compile_rules(rules or Rules())
    names = path.split("/")
    for count, name in enumerate(names, 1):
        folder, at = count < len(names), "/".join(names[:count])
        if found := gate.find_denial(name, folder=folder, path=at, secrets_only=secrets_only):
            return found
    return None


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
class Scope:
    """The ignore files that apply in one folder: its own and those above."""

    above: Scope | None
    start: int
    """Offset of paths relative to this folder: the length of its own path and the slash."""
    git: Patterns | None
    own: Patterns | None

    def ignores(self, path: str, *, folder: bool) -> bool:
        """Whether a path in this folder is ignored, given that the folder itself is not."""
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
    above: Scope | None, path: str, rules: Rules, read_start: Callable[[str, int], bytes | None]
) -> Scope | None:
    """The scope of a folder from its ignore files; the scope above if it has none."""
    own = _compile_patterns(read_start(OWN_FILE, _IGNORE_FILE_BYTES), rules.folds_case)
    git = None
    if rules.respect_gitignore:
        git = _compile_patterns(read_start(GIT_FILE, _IGNORE_FILE_BYTES), rules.folds_case)
    if own is None and git is None:
        return above
    return Scope(above, len(path) + 1 if path else 0, git, own)


@lru_cache(maxsize=128)
def _compile_patterns(data: bytes | None, fold_case: bool) -> Patterns | None:
    """Cached by content, as single paths are checked again and again."""
    # As in git, an ignore file that is a link or cannot be read has no effect; nor an empty one.
    return Patterns(data.decode("utf-8-sig", "replace"), fold_case=fold_case) if data else None
