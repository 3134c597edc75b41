"""Filters: folders and globs turned into sets of paths, and the names of views."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable
from itertools import islice

from sonde.chunking.tags import fold_tag
from sonde.errors import OutsideRoots
from sonde.text.globs import compile_glob, compose
from sonde.types import Filter

MOST_MATCHES = 100_000
"""Paths of one answer, as specified."""


def match_paths(pattern: str, paths: Iterable[str]) -> list[str]:
    """The paths that match a glob, sorted, at most `MOST_MATCHES`."""
    return sorted(islice(filter(compile_glob(compose(pattern)).matches, paths), MOST_MATCHES))


def read_folder(path: str | None) -> str:
    """A folder or file as people write it (`./src/`, `.`) as the index names it (`src`, ``)."""
    normal = posixpath.normpath(compose(path or "."))
    if normal == ".." or normal.startswith("../"):
        raise OutsideRoots(f"'..' in {path!r}")
    return "" if normal == "." else normal


def filter_paths(
    paths: Collection[str],
    *,
    under: str = "",
    include: Collection[str] = (),
    exclude: Collection[str] = (),
) -> Filter:
    """The filter for a folder (or one file) and globs; no condition means no filter."""
    if not under and not include and not exclude:
        return Filter()
    folder = compose(under).strip("/")
    kept = {path for path in paths if not folder or path == folder or path.startswith(folder + "/")}
    if include:
        globs = [compile_glob(compose(pattern)) for pattern in include]
        kept = {path for path in kept if any(glob.matches(path) for glob in globs)}
    for pattern in exclude:
        glob = compile_glob(compose(pattern))
        kept = {path for path in kept if not glob.matches(path)}
    return Filter(paths=frozenset(kept))


_TYPE_TAGS = frozenset(("symbols", "definitions", "data"))


def wants_views(tags: Collection[str], chunk_types: Collection[str]) -> bool:
    """Whether a search needs views of files: it names a chunk type, perhaps as a tag."""
    return bool(chunk_types) or any(fold_tag(tag) in _TYPE_TAGS for tag in tags)


def split_view(path: str) -> tuple[str, str]:
    """The type of a view and the file it is of."""
    type_, _, file = path.partition("/")
    return type_, file
