"""Which names are admitted: the fixed deny list and the user's rules.

The deny list is matched against every name on the way to a file, as spelled and as displayed (see
`globs.clean_path`), so that no invisible character lets one through. Secrets are matched in any
letter case everywhere, the rest where the file system folds case. Copies and backups of a secret
(`.env~`, `Copy of id_rsa`) are that secret; samples (`.env.example`) are judged by their content.
`Rules.allow` overrides what the list has beyond the specification, and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from sonde.policy.deny_list import HASHES, TEST_PATH, DeniedNames, can_allow
from sonde.text.globs import Glob, clean_path, compile_glob, compose

REASONS: Mapping[str, str] = {
    "denied": "it is on the fixed deny list",
    "excluded": "it matches `exclude` in config.json",
    "not_included": "it matches nothing in `include` in config.json",
    "ignored": "an ignore file (.gitignore or .sondeignore) leaves it out",
    "symlink": "it is a symbolic link",
    "hard_link": "it has another name (hard link) and belongs to another user than the folder",
    "same_name": "another file has the same name, spelled with other code points",
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
    "secret_lines": "it is indexed without the lines of its secrets",
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
    protect_only: bool = False
    """Leave out only secrets and `.git`, for searches of what an index leaves out; without
        `respect_gitignore`, ignore files do not count either."""
    max_file_bytes: int = 1024 * 1024
    max_depth: int = 20
    """The most folders between the root and a file."""
    folds_case: bool = sys.platform in ("win32", "darwin")
    owner: int | None = None
    """The user id of the project's folder. A file with several hard links, whose other names may
    be anywhere, is read only if it belongs to the same user; of nobody if this is None."""


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

        def compile_all(patterns: Iterable[str]) -> list[Glob]:
            return [compile_glob(compose(each), fold_case=fold) for each in patterns]

        kinds = (False, True)
        self._secret = {kind: DeniedNames(secret=True, folder=kind) for kind in kinds}
        self._plain = {kind: DeniedNames(secret=False, folder=kind, fold=fold) for kind in kinds}
        self._exclude, self._allow = compile_all(rules.exclude), compile_all(rules.allow)
        everything = "**/*" in rules.include or "**" in rules.include or not rules.include
        self._include = None if everything else compile_all(rules.include)

    def find_denial(
        self, name: str, *, folder: bool, path: str = "", secrets_only: bool = False
    ) -> str | None:
        """The row of the deny list that matches a name ("*.pem (secrets)"). `path` is where it is
        in the project, for what `allow` names."""
        spellings = [name]
        if not (name.isascii() and name.isprintable()) or name[-1:] in (" ", "."):
            # Windows drops trailing dots and spaces when it opens a file.
            spellings.append(clean_path(name).strip().rstrip(" ."))
        for spelling in spellings:
            folded = spelling.casefold()
            secret = self._secret[folder]
            found = secret.find(folded) if folder else secret.find_copied(folded)
            if found == HASHES and TEST_PATH.search(path):
                found = None
            if not found and not secrets_only:
                found = self._plain[folder].find(folded if self.rules.folds_case else spelling)
                if found and self.rules.protect_only and not found.endswith("(version control)"):
                    found = None
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
