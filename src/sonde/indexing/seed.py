"""A new index from one that is nearly the same: a second worktree, a copy, a moved project."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from pathlib import Path

from sonde.errors import SondeError
from sonde.indexing.sources import Tree
from sonde.runtime.work import Work
from sonde.stores.files import Metadata, load_fingerprints, load_metadata
from sonde.types import ListedFile, Skipped

_SAMPLE_FILES = 64
"""Files compared to estimate how much of another index can be reused."""
_FIRST_FILES = 8
"""If none of the first files of the sample is the same, the rest is not read."""
_WORTH_COPYING = 0.5
"""The share of equal files from which copying saves more than it costs."""
_MAX_CANDIDATES = 16

log = logging.getLogger(__name__)


def seed_index(folder: Path, tree: Tree, work: Work, *, store: str, recipe: str) -> Path | None:
    """Copy the most similar index of another project, if one is similar; returns its folder.

    The files are still compared one by one, but equal ones are neither chunked nor embedded
    again.
    """
    best, most = None, _WORTH_COPYING
    for candidate in _list_candidates(folder, tree, store, recipe):
        work.check()
        share = _measure_similarity(candidate, tree)
        if share >= most:
            best, most = candidate, share
        if share > 1 - 1 / _SAMPLE_FILES:
            break
    if best is None:
        return None
    from sonde.stores.chunks.integrity import copy_stores  # numpy is slow to import

    try:
        copied = copy_stores(best, folder, store)
    except SondeError as error:
        log.info("%s is not copied: %s", best, error)
        return None
    return best if copied else None


def _list_candidates(folder: Path, tree: Tree, store: str, recipe: str) -> list[Path]:
    """Indexes made in the same way, those of folders of the same name first, then the newest."""
    name = tree.sources[0].root.name
    found: list[tuple[bool, str, Path]] = []
    for other, metadata in _read_others(folder):
        if (metadata.store, metadata.recipe) == (store, recipe) and metadata.total_files:
            alike = Path(metadata.project_path).name == name
            found.append((alike, metadata.last_updated or "", other))
    return [other for _, _, other in sorted(found, reverse=True)[:_MAX_CANDIDATES]]


def _read_others(folder: Path) -> Iterator[tuple[Path, Metadata]]:
    for path in folder.parent.glob("*/metadata.json"):
        if path.parent != folder:
            try:
                metadata = load_metadata(path.parent)
            except SondeError:
                continue
            if metadata:
                yield path.parent, metadata


def _measure_similarity(candidate: Path, tree: Tree) -> float:
    """The share of files that are the same here, by a sample."""
    prints = {
        **load_fingerprints(candidate, "code"),
        **load_fingerprints(candidate, "docs"),
    }
    paths = sorted(prints)
    sample = random.Random(0).sample(paths, min(_SAMPLE_FILES, len(paths)))  # noqa: S311 - no secret
    same = 0
    for count, path in enumerate(sample):
        if count == _FIRST_FILES and not same:
            break
        if isinstance(tree.check(path), ListedFile):
            content = tree.read(path)
            same += not isinstance(content, Skipped) and content.hash == prints[path]
    return same / len(sample) if sample else 0.0
