"""Which files, or which views of them, a search may find at all."""

from __future__ import annotations

from collections.abc import Collection

from sonde.chunking.tags import fold_tag, tag_file
from sonde.languages import find_language
from sonde.searching.paths import narrow
from sonde.searching.views import split_view
from sonde.stores.base import ChunkStore
from sonde.types import Filter, Kind

_TYPE_TAGS = frozenset(("symbols", "definitions", "data"))


def wants_views(tags: Collection[str], chunk_types: Collection[str]) -> bool:
    """Whether a search is about views of files: a type is asked for, perhaps as a tag."""
    return bool(chunk_types) or any(fold_tag(tag) in _TYPE_TAGS for tag in tags)


def narrow_store(
    store: ChunkStore,
    kind: Kind,
    *,
    under: str = "",
    include: Collection[str] = (),
    exclude: Collection[str] = (),
    language: str | None = None,
    tags: Collection[str] = (),
    chunk_types: Collection[str] = (),
) -> Filter:
    """The filter for all conditions together; `store` holds views where they are asked for."""
    views = wants_views(tags, chunk_types)
    if not (under or include or exclude or language or tags or views):
        return Filter()
    states = store.files()
    named = store.tags() if tags else {}
    wanted = {fold_tag(tag) for tag in tags}
    spoken = find_language(language) if language else None
    types_of: dict[str, list[str]] = {}
    for path, state in states.items():
        type_, file = split_view(path) if views else ("", path)
        if (
            (spoken is None or state.language == spoken)
            and (not views or (state.kind == kind and (not chunk_types or type_ in chunk_types)))
            and (not wanted or wanted <= {*tag_file(file, kind, named.get(path, ())), type_})
        ):
            types_of.setdefault(file, []).append(path)
    where = narrow(types_of, under=under, include=include, exclude=exclude)
    kept = types_of if where.paths is None else where.paths
    return Filter(paths=frozenset(path for file in kept for path in types_of[file]))
