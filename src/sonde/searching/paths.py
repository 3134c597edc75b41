"""Search by path: files whose name fits a glob."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable
from itertools import islice

from sonde.errors import OutsideRoots
from sonde.globs import compile_glob
from sonde.types import Filter

MOST_MATCHES = 100_000


def match_paths(pattern: str, paths: Iterable[str]) -> list[str]:
    """The paths that fit, sorted; at most the limit that the specification sets."""
    glob = compile_glob(pattern)
    fitting = (path for path in paths if glob.matches(path))
    return sorted(islice(fitting, MOST_MATCHES))


def read_folder(path: str | None) -> str:
    """A folder or file as people write it (`./src/`, `.`) as the index names it (`src`, ``)."""
    normal = posixpath.normpath(path or ".")
    if normal == ".." or normal.startswith("../"):
        raise OutsideRoots(f"'..' in {path!r}")
    return "" if normal == "." else normal


def narrow(
    paths: Collection[str],
    *,
    under: str = "",
    include: Collection[str] = (),
    exclude: Collection[str] = (),
) -> Filter:
    """The filter for a folder (or one file) and globs; no condition means no filter."""
    if not under and not include and not exclude:
        return Filter()
    folder = under.strip("/")
    kept = {path for path in paths if not folder or path == folder or path.startswith(folder + "/")}
    if include:
        globs = [compile_glob(pattern) for pattern in include]
        kept = {path for path in kept if any(glob.matches(path) for glob in globs)}
    for pattern in exclude:
        glob = compile_glob(pattern)
        kept = {path for path in kept if not glob.matches(path)}
    return Filter(paths=frozenset(kept))
