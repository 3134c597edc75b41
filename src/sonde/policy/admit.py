"""Which names are admitted: the fixed deny list, the user's rules, and ignore files.

The deny list is matched against every name on the way to a file, as spelled and as displayed (see
`globs.clean_path`), so that no invisible character lets one through. Secrets are matched in any
letter case everywhere, the rest where the file system folds case. Copies and backups of a secret
(`.env~`, `Copy of id_rsa`) are that secret; samples (`.env.example`) are judged by their content.
`Rules.allow` overrides what the list has beyond the specification, and nothing else.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from sonde.errors import InvalidPattern
from sonde.text.globs import Glob, clean_path, compile_glob, compile_regex, translate_wildcards
from sonde.types import Skipped

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


@dataclass(frozen=True, slots=True)
class Denial:
    """A row of the deny list. A pattern is `name`, `*.suffix`, `prefix*` or
    `prefix*suffix`; `name/` is a folder."""

    category: str
    patterns: tuple[str, ...]
    secret: bool = False
    files_only: bool = False
    """Whether patterns without a slash match files only."""
    can_allow: bool = False
    """Whether `Rules.allow` overrides it."""

    def name_pattern(self, pattern: str) -> str:
        """The pattern as verdicts show it: "*.pem (secrets)"."""
        return f"{pattern} ({self.category})"


DENY_LIST = (
    Denial("dependencies", (
        "node_modules/", "jspm_packages/", "bower_components/", ".venv/", "venv/")),
    Denial("vendored code", ("vendor/",), can_allow=True),
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
        ".ssh/", ".gnupg/", ".aws/", ".kube/", ".azure/", ".gcloud/", "id_rsa", "id_dsa",
        "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", "*.p8", "*.ppk", "*.jks",
        "*.bks", "*.keystore", "*.kdbx", "*.keychain", "*.keychain-db", "*.ovpn", "wallet.dat",
        "*.env", ".envrc", ".netrc", "_netrc", ".pypirc", ".pgpass", "pgpass.conf", ".my.cnf",
        ".mylogin.cnf", ".htpasswd", ".git-credentials", ".s3cfg", ".boto", ".dockercfg",
        ".vault-token", ".terraformrc", "*.tfvars", "*.tfvars.json", "*.tfstate", "*.kubeconfig",
        "kubeconfig", "kubeconfig.yaml", "kubeconfig.yml", ".credentials", "credentials",
        "credentials.json", "credentials.toml", "credentials.yml", "credentials.yaml",
        "application_default_credentials.json", "accesstokens.json", "gha-creds-*.json",
        "client_secret*.json", "service-account.json", "service_account.json", ".secrets",
        "secret.json", "secrets.json", "secrets.toml", "secrets.yml", "secrets.yaml",
        "*.secrets.json", ".claude.json", ".*_history"),
        secret=True, files_only=True, can_allow=True),
)  # fmt: skip

_COPY_ENDS = (
    "~", "#", ")", "bak", "backup", "copy", "old", "orig", "save", "swp", "swo", "tmp", "txt",
    *"0123456789",
)  # fmt: skip
_COPY = re.compile(
    r"(?:copy of |\.?#)?(.+?)(?:[#~]|[ ._-](?:bak|backup|copy|old|orig|save|swp|swo|tmp|txt|[0-9]+)"
    r"| ?\([0-9]+\))*"
)
"""What file managers, editors and people add to the name of a copy."""
_SAMPLE = re.compile(
    r"(?:.*\.env|\.envrc|.*\.tfvars|secrets?|credentials)(?:[._-][\w-]+)*"
    r"[._-](?:example|sample|template|dist|tpl|tmpl)(?:\.\w{1,5})?"
    r"|(?:.*[._-])?(?:example|sample|template)\.env"
)
"""Samples of settings, which name the variables and hold no values."""

_CAN_ALLOW = frozenset(
    row.name_pattern(pattern) for row in DENY_LIST if row.can_allow for pattern in row.patterns
)
_REPORTED = _CAN_ALLOW | {
    row.name_pattern(pattern) for row in DENY_LIST if row.secret for pattern in row.patterns
}

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
        self._prefixes: dict[tuple[str, str], str] = {}
        for row in DENY_LIST:
            for pattern in row.patterns if row.secret == secret else ():
                if not (folder if pattern.endswith("/") else not (folder and row.files_only)):
                    continue
                why = row.name_pattern(pattern)
                key = pattern.rstrip("/").casefold() if fold else pattern.rstrip("/")
                if key.startswith("*"):
                    self._suffixes.setdefault(key[1:], why)
                elif "*" in key:
                    head, _, tail = key.partition("*")
                    self._prefixes.setdefault((head, tail), why)
                else:
                    self._whole.setdefault(key, why)
        self._tails = tuple(self._suffixes)
        self._heads = tuple(head for head, _ in self._prefixes)

    def find(self, name: str) -> str | None:
        if name in self._whole:
            return self._whole[name]
        # one test for all of them, as nearly every name matches none
        if name.endswith(self._tails):
            return next(why for suffix, why in self._suffixes.items() if name.endswith(suffix))
        if name.startswith(self._heads):
            pairs = self._prefixes.items()
            return next((w for (a, z), w in pairs if name.startswith(a) and name.endswith(z)), None)
        return None


class Gate:
    """Compiled rules that decide about many names."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        fold = rules.folds_case
        kinds = (False, True)
        self._secret = {kind: _Names(secret=True, folder=kind) for kind in kinds}
        self._plain = {kind: _Names(secret=False, folder=kind, fold=fold) for kind in kinds}
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
            found = self._find_secret(folded, folder=folder)
            if not found and not secrets_only:
                found = self._plain[folder].find(folded if self.rules.folds_case else spelling)
            if found and not (found in _CAN_ALLOW and self.allows(path, folder=folder)):
                return found
        return None

    def _find_secret(self, folded: str, *, folder: bool) -> str | None:
        found = self._secret[folder].find(folded)
        if folder:
            return found
        if not found and (folded.endswith(_COPY_ENDS) or folded.startswith("copy of ")):
            copied = _COPY.fullmatch(folded)
            found = self._secret[folder].find(copied[1]) if copied else None
        return None if found and _SAMPLE.fullmatch(folded) else found

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


def is_reported(skipped: Skipped) -> bool:
    """Whether the status names every such file: secrets, and vendored folders."""
    return skipped.reason == "secret_content" or (
        skipped.reason == "denied" and skipped.detail in _REPORTED
    )


def can_allow(reason: str, detail: str) -> bool:
    """Whether `allow` in config.json admits what is skipped for this reason."""
    return reason == "secret_content" or (reason == "denied" and detail in _CAN_ALLOW)


def has_binary_suffix(name: str) -> bool:
    """Whether the name alone shows that the file is not text."""
    _, dot, suffix = name.rpartition(".")
    return bool(dot) and suffix.lower() in _BINARY_SUFFIXES


def public_deny_list() -> list[str]:
    """The deny list as the generated config.json shows it."""
    return [
        "// These patterns are ALWAYS excluded and cannot be overridden:",
        *_show_rows(can_allow=False),
        "// - Binary files (images, videos, etc.) are auto-detected and skipped",
        "// These are excluded unless `allow` names the file or folder:",
        *_show_rows(can_allow=True),
    ]


def _show_rows(*, can_allow: bool) -> list[str]:
    rows = [row for row in DENY_LIST if row.can_allow == can_allow]
    return [f"// - {', '.join(dict.fromkeys(row.patterns))}  ({row.category})" for row in rows]


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
