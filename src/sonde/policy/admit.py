"""Which names are admitted: the fixed deny list and the user's rules.

The deny list is matched against every name on the way to a file, as spelled and as displayed (see
`globs.clean_path`), so that no invisible character lets one through. Secrets are matched in any
letter case everywhere, the rest where the file system folds case. Nothing overrides the list.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from sonde.text.globs import (
    Glob,
    clean_path,
    compile_glob,
    compose,
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
