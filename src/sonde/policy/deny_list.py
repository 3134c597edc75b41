"""The deny list: names whose files are never opened, and the names of copies and samples."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sonde.types import Skipped


@dataclass(frozen=True, slots=True)
class Denial:
    """A row of the deny list. A pattern is `name`, `*.suffix`, `prefix*` or
    `prefix*suffix`; `name/` is a folder."""

    category: str
    patterns: tuple[str, ...]
    secret: bool = False
    files_only: bool = False
    """Whether patterns without a slash match files only."""


DENY_LIST = (
    Denial("dependencies", (
        "node_modules/", "jspm_packages/", "bower_components/", ".venv/", "venv/")),
    Denial("vendored code", ("vendor/",)),
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
        secret=True, files_only=True),
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

TEST_PATH = re.compile(
    r"(?:^|/)(?i:(?:[^/]*[._-])?(?:tests?|specs?|testing|fixtures?|testdata|__tests__))/"
    r"|(?:^|/)(?i:test_[^/]*|conftest|(?:[^/]*[._-])?(?:tests?|spec))\.\w+$"
    r"|[a-z0-9](?:Tests?|Spec)(?:\.\w+$|/)"
)
"""Files of tests, where hashes, and random values beside a name, are made up. Keys and tokens
still count."""
HASHES = ".htpasswd (more secrets)"  # of passwords; in the files of tests the content decides
_CAN_ALLOW = ("(vendored code)", "(more secrets)")  # rows beyond the specification

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


class DeniedNames:
    """Patterns of the deny list, indexed to look a name up."""

    def __init__(self, *, secret: bool, folder: bool, fold: bool = True) -> None:
        self._whole: dict[str, str] = {}
        self._suffixes: dict[str, str] = {}
        self._prefixes: dict[tuple[str, str], str] = {}
        for row in DENY_LIST:
            for pattern in row.patterns if row.secret == secret else ():
                if not (folder if pattern.endswith("/") else not (folder and row.files_only)):
                    continue
                why = f"{pattern} ({row.category})"
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
        """The pattern that matches a name, as verdicts show it."""
        if name in self._whole:
            return self._whole[name]
        # one test for all of them, as nearly every name matches none
        if name.endswith(self._tails):
            return next(why for suffix, why in self._suffixes.items() if name.endswith(suffix))
        if name.startswith(self._heads):
            pairs = self._prefixes.items()
            return next((w for (a, z), w in pairs if name.startswith(a) and name.endswith(z)), None)
        return None

    def find_copied(self, name: str) -> str | None:
        """The row that matches a file or what it is a copy of; None for a sample."""
        found = self.find(name)
        if not found and (name.endswith(_COPY_ENDS) or name.startswith("copy of ")):
            copied = _COPY.fullmatch(name)
            found = self.find(copied[1]) if copied else None
        return None if found and _SAMPLE.fullmatch(name) else found


def can_allow(reason: str, detail: str) -> bool:
    """Whether `allow` in config.json admits what is skipped for this reason."""
    return reason in ("secret_content", "secret_lines") or detail.endswith(_CAN_ALLOW)


def is_reported(skipped: Skipped) -> bool:
    """Whether the status names every such file: secrets, and vendored folders."""
    return can_allow(skipped.reason, skipped.detail) or skipped.detail.endswith("(secrets)")


def has_binary_suffix(name: str) -> bool:
    """Whether the name alone shows that the file is not text."""
    _, dot, suffix = name.rpartition(".")
    return bool(dot) and suffix.lower() in _BINARY_SUFFIXES


def public_deny_list() -> list[str]:
    """The deny list as the generated config.json shows it."""
    rows = [f"// - {', '.join(row.patterns)}  ({row.category})" for row in DENY_LIST]
    return [
        "// These patterns are ALWAYS excluded and cannot be overridden:",
        *(row for row in rows if not row.endswith(_CAN_ALLOW)),
        "// - Binary files (images, videos, etc.) are auto-detected and skipped",
        "// These are excluded unless `allow` names the file or folder:",
        *(row for row in rows if row.endswith(_CAN_ALLOW)),
    ]
