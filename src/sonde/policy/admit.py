"""Which names are admitted: the fixed deny list, the user's rules, and ignore files.

The deny list is matched against every name on the way to a file, as spelled and as displayed (see
`globs.clean_path`), so that no invisible character lets one through. Secrets are matched in any
letter case everywhere, the rest where the file system folds case. Nothing overrides the list.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from sonde.errors import InvalidPattern
from sonde.policy.git import GitRules, Tracked
from sonde.text.globs import (
    Glob,
    clean_path,
    compile_glob,
    compile_regex,
    compose,
    translate_wildcards,
)

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
    respect_gitignore: bool = True
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


@dataclass(frozen=True, slots=True)
class Denial:
    """A row of the deny list. A pattern is `name`, `*.suffix` or `prefix*`; `name/` is a folder."""

    category: str
    patterns: tuple[str, ...]
    secret: bool = False
    files_only: bool = False
    """Whether patterns without a slash match files only."""


DENY_LIST = (
    Denial("dependencies", (
        "node_modules/", "jspm_packages/", "bower_components/", "vendor/", ".venv/", "venv/")),
    Denial("version control", (".git/", ".hg/", ".svn/", ".git")),
    Denial("build artifacts", (
        "dist/", "build/", "out/", "target/", "__pycache__/", ".next/", ".nuxt/")),
    Denial("secrets", (".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx"), secret=True),
    Denial("logs/locks", (
        "*.log", "*.lock", "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "Gemfile.lock",
        "poetry.lock"), files_only=True),
    Denial("IDE config", (".idea/", ".vscode/", ".DS_Store", "*.swp", "*.swo")),
    Denial("test coverage", ("coverage/", ".nyc_output/", ".pytest_cache/")),
    # Beyond the specification: other customary places of credentials.
    Denial("more secrets", (
        ".ssh/", ".gnupg/", ".aws/", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.ppk",
        "*.jks", "*.keystore", "*.kdbx", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass",
        ".htpasswd", ".git-credentials", "credentials", "credentials.json", "*.tfstate"),
        secret=True, files_only=True),
)  # fmt: skip

# Extensions of files that are never text, to save opening them. Content decides the rest.
_BINARY_SUFFIXES = frozenset((
    "png", "jpg", "jpeg", "gif", "bmp", "ico", "icns", "webp", "avif", "heic", "tif", "tiff",
    "psd", "xcf", "mp3", "mp4", "m4a", "m4v", "mov", "avi", "mkv", "webm", "wav", "flac", "ogg",
    "opus", "aac", "wma", "wmv", "zip", "gz", "tgz", "bz2", "xz", "zst", "7z", "rar", "tar",
    "jar", "war", "ear", "whl", "egg", "deb", "rpm", "apk", "dmg", "iso", "exe", "dll", "so",
    "dylib", "a", "o", "pdb", "class", "pyc", "pyo", "pyd", "wasm", "node", "bin", "db", "sqlite",
    "sqlite3", "mdb", "parquet", "arrow", "feather", "npy", "npz", "h5", "hdf5", "pkl", "pickle",
    "pt", "pth", "onnx", "safetensors", "gguf", "tflite", "pdf", "docx", "xls", "xlsx", "ppt",
    "pptx", "odt", "ods", "odp", "epub", "mobi", "ttf", "otf", "woff", "woff2", "eot", "blend",
    "fbx", "glb", "swf",
))  # fmt: skip


class _Names:
    """Patterns of the deny list, indexed to look a name up."""

    def __init__(self, *, secret: bool, folder: bool, fold: bool = True) -> None:
        self._whole: dict[str, str] = {}
        self._suffixes: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}
        for row in DENY_LIST:
            for pattern in row.patterns if row.secret == secret else ():
                if not (folder if pattern.endswith("/") else not (folder and row.files_only)):
                    continue
                why = f"{pattern} ({row.category})"
                key = pattern.rstrip("/").casefold() if fold else pattern.rstrip("/")
                if key.startswith("*"):
                    self._suffixes.setdefault(key[1:], why)
                elif key.endswith("*"):
                    self._prefixes.setdefault(key[:-1], why)
                else:
                    self._whole.setdefault(key, why)
        self._tails, self._heads = tuple(self._suffixes), tuple(self._prefixes)

    def find(self, name: str) -> str | None:
        if name in self._whole:
            return self._whole[name]
        # one test for all of them, as nearly every name matches none
        if name.endswith(self._tails):
            return next(why for suffix, why in self._suffixes.items() if name.endswith(suffix))
        if name.startswith(self._heads):
            return next(why for prefix, why in self._prefixes.items() if name.startswith(prefix))
        return None


class Gate:
    """Compiled rules that decide about many names."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        fold = rules.folds_case
        kinds = (False, True)
        self._secret = {kind: _Names(secret=True, folder=kind) for kind in kinds}
        self._plain = {kind: _Names(secret=False, folder=kind, fold=fold) for kind in kinds}
        self._exclude: list[Glob] = [
            compile_glob(compose(p), fold_case=fold) for p in rules.exclude
        ]
        everything = "**/*" in rules.include or "**" in rules.include or not rules.include
        self._include: list[Glob] | None = (
            None
            if everything
            else [compile_glob(compose(p), fold_case=fold) for p in rules.include]
        )

    def find_denial(self, name: str, *, folder: bool, secrets_only: bool = False) -> str | None:
        """The row of the deny list that matches a name ("*.pem (secrets)")."""
        spellings = [name]
        if not name.isascii() or name[-1:] in (" ", "."):
            # Windows drops trailing dots and spaces when it opens a file.
            spellings.append(clean_path(name).rstrip(" ."))
        for spelling in spellings:
            folded = spelling.casefold()
            found = self._secret[folder].find(folded)
            if not found and not secrets_only:
                found = self._plain[folder].find(folded if self.rules.folds_case else spelling)
            if found:
                return found
        return None

    def excludes(self, path: str, *, folder: bool) -> bool:
        """Whether `exclude` matches this file, this folder, or everything in it."""
        return any(
            glob.matches(path) or (folder and glob.matches(f"{path}/")) for glob in self._exclude
        )

    def includes(self, path: str) -> bool:
        """Whether `include` matches this file."""
        return self._include is None or any(glob.matches(path) for glob in self._include)


@lru_cache(maxsize=64)
def compile_rules(rules: Rules) -> Gate:
    """The gate of these rules."""
    return Gate(rules)


def find_denied(path: str, rules: Rules | None = None, *, secrets_only: bool = False) -> str | None:
    """The row of the deny list that matches any name of a path."""
    gate = compile_rules(rules or Rules())
    names = path.split("/")
    for left, name in zip(range(len(names) - 1, -1, -1), names, strict=True):
        if found := gate.find_denial(name, folder=left > 0, secrets_only=secrets_only):
            return found
    return None


def has_binary_suffix(name: str) -> bool:
    """Whether the name alone shows that the file is not text."""
    _, dot, suffix = name.rpartition(".")
    return bool(dot) and suffix.lower() in _BINARY_SUFFIXES


def public_deny_list() -> list[str]:
    """The deny list as the generated config.json shows it."""
    return [
        "// These patterns are ALWAYS excluded and cannot be overridden:",
        *(f"// - {', '.join(dict.fromkeys(row.patterns))}  ({row.category})" for row in DENY_LIST),
        "// - Binary files (images, videos, etc.) are auto-detected and skipped",
    ]


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
        verdict = self._decide("own", path, folder=folder)
        if verdict is not None:
            return verdict
        if not (self.ignored or self._decide("git", path, folder=folder)):
            return False
        return self.tracked is None or not self.tracked.holds(path, folder=folder)

    def enter(self, path: str) -> Scope:
        """The scope in a folder of this one that has no ignore files of its own."""
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
    rules: Rules,
    read_start: Callable[[str, int], bytes | None],
    repository: GitRules | None = None,
) -> Scope | None:
    """The scope of a folder from its ignore files, and the repository that begins there; the scope
    above if it has none."""
    start = len(path) + 1 if path else 0
    scope = above.enter(path) if above else None
    if repository and rules.respect_gitignore:
        scope = _open_repository(above, start, rules, repository)
    own = _compile_patterns(read_start(OWN_FILE, _IGNORE_FILE_BYTES), rules.folds_case)
    git = None
    if rules.respect_gitignore:
        git = _compile_patterns(read_start(GIT_FILE, _IGNORE_FILE_BYTES), rules.folds_case)
    if own is None and git is None:
        return scope
    tracked, ignored = (scope.tracked, scope.ignored) if scope else (None, False)
    return Scope(scope, start, git, own, tracked=tracked, ignored=ignored)


def _open_repository(above: Scope | None, start: int, rules: Rules, repository: GitRules) -> Scope:
    """The scope of a repository's own rules, without the ignore files in its folders."""
    tracked = replace(repository.tracked, prefix=repository.prefix, start=start)
    plain = scope = Scope(above, start, tracked=tracked)
    for prefix, data in repository.excludes:
        patterns = _compile_patterns(data, rules.folds_case)
        ways = (prefix[:at] for at, letter in enumerate(prefix) if letter == "/")
        if patterns and any(patterns.decide(way, folder=True) for way in ways):
            return plain  # a project in a folder that its repository ignores: a person named it
        scope = Scope(scope, start, patterns, prefix=prefix, tracked=tracked)
    return scope


@lru_cache(maxsize=128)
def _compile_patterns(data: bytes | None, fold_case: bool) -> Patterns | None:
    """Cached by content, as single paths are checked again and again."""
    # As in git, an ignore file that is a link or cannot be read has no effect; nor an empty one.
    return (
        Patterns(compose(data.decode("utf-8-sig", "replace")), fold_case=fold_case)
        if data
        else None
    )
