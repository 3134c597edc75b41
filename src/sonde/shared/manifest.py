"""Manifests of pushed commits: files with digests, and the recipe of the index."""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonde.errors import IndexCorrupt
from sonde.types import Kind

_MOST_BYTES = 512 << 20  # of unpacked JSON: a list of some million files
_ADDRESS = re.compile(
    r"(?:\w+::)?(?:[a-z+]+://(?:[^/]*@)?|(?:[^@/]*@)?)[^/:]+(?::\d+/|[:/])(?P<path>.+?)(?:\.git)?/*"
    r"(?:\?.*)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file of a commit; `digest` is the SHA-256 of its bytes, in hex."""

    digest: str
    size: int
    kind: Kind
    language: str
    executable: bool


@dataclass(frozen=True, slots=True)
class PushedCommit:
    """A commit in a shared index."""

    repository: str
    commit: str
    recipe: str
    models: tuple[str, ...]
    files: Mapping[str, FileFacts]
    snapshot: bytes


@contextmanager
def unpacking(data: bytes, what: str) -> Iterator[Any]:
    """The compressed JSON of a row; anything else raises `IndexCorrupt`."""
    try:
        opened = zlib.decompressobj()
        text = opened.decompress(data, _MOST_BYTES)
        if opened.unconsumed_tail:
            raise ValueError(f"more than {_MOST_BYTES:,} bytes")
        yield json.loads(text)
    except (
        zlib.error, ValueError, TypeError, LookupError, AttributeError, ArithmeticError,
        RecursionError,
    ) as error:  # fmt: skip
        raise IndexCorrupt(f"{what} cannot be read: {error}") from error


def pack_manifest(files: Mapping[str, FileFacts]) -> bytes:
    """The files of a commit as its row holds them."""
    rows = [
        [path, fact.digest, fact.size, fact.kind, fact.language, fact.executable]
        for path, fact in sorted(files.items())
    ]
    return zlib.compress(json.dumps(rows).encode("utf-8", "surrogatepass"))


def unpack_manifest(data: bytes) -> dict[str, FileFacts]:
    """The files of a commit; raises `IndexCorrupt`."""
    with unpacking(data, "the list of files of a commit") as rows:
        return {
            str(path): FileFacts(str(digest), int(size), kind, str(language), bool(executable))
            for path, digest, size, kind, language, executable in rows
        }


def name_repository(remote: str, root: Path) -> str:
    """The name of a repository: the path in its remote's address, or else its folder's name.

    Users, passwords and tokens in the address are no part of it.
    """
    match = _ADDRESS.fullmatch(remote)
    return match["path"].strip("/") if match else root.name


def leads_below(path: str) -> bool:
    """Whether an untrusted path stays inside the folder that it is joined to."""
    parts = path.replace(os.sep, "/").split("/")
    plain = all(part not in ("", ".", "..") for part in parts) and "\0" not in path
    return plain and not Path(path).drive


def shorten_recipe(recipe: str) -> str:
    """The recipe without its rules of admission. Rows with the same short recipe are compatible."""
    return " ".join(recipe.split(" ")[:2])


def name_rows(recipe: str, path: str, fact: FileFacts) -> str:
    """The key of a file's rows: the same path and content are chunked in the same way."""
    parts = (shorten_recipe(recipe), fact.kind, path, fact.digest)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]
