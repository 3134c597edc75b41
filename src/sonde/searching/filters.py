"""Filters: folders, globs, languages, tags and chunk types turned into sets of paths."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from sonde.chunking.tags import fold_tag, tag_file
from sonde.errors import OutsideRoots
from sonde.searching.query_language import QueryCondition, compile_conditions
from sonde.stores.chunks.base import ChunkStore
from sonde.text.globs import compile_glob, compose
from sonde.text.languages import find_language
from sonde.types import Filter, Kind

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


def narrow_store(
    store: ChunkStore,
    kind: Kind | None,
    *,
    under: str = "",
    include: Collection[str] = (),
    exclude: Collection[str] = (),
    language: str | None = None,
    tags: Collection[str] = (),
    chunk_types: Collection[str] = (),
    conditions: Sequence[QueryCondition] = (),
    held: Collection[str] | None = None,
) -> Filter:
    """The filter for all conditions together; `store` holds views where the search needs them.

    Without a kind, it holds views in any case, and those of every kind pass.
    """
    views = kind is None or wants_views(tags, chunk_types)
    fits = compile_conditions(conditions)
    if held is None and not (
        under or include or exclude or language or tags or chunk_types or conditions
    ):
        return Filter()
    named = store.tags() if tags else {}
    wanted = {fold_tag(tag) for tag in tags}
    spoken = find_language(language) if language else None
    types_of: dict[str, list[str]] = {}
    for path, state in store.files(under="" if views else compose(under).strip("/")).items():
        type_, file = split_view(path) if views else ("", path)
        if (
            (spoken is None or state.language == spoken)
            and (held is None or file in held)
            and (not conditions or fits(file, state.kind))
            and (not views or kind in (None, state.kind))
            and (not chunk_types or type_ in chunk_types)
            and not (
                wanted
                and wanted - {*tag_file(file, kind or state.kind, named.get(path, ())), type_}
            )
        ):
            types_of.setdefault(file, []).append(path)
    where = filter_paths(types_of, under=under, include=include, exclude=exclude)
    kept = types_of if where.paths is None else where.paths
    return Filter(paths=frozenset(path for file in kept for path in types_of[file]))
