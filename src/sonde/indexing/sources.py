"""Where a project's files come from: one or several folders under one set of names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from sonde.chunking.parse import VERSION
from sonde.errors import OutsideRoots
from sonde.policy.admit import Rules
from sonde.policy.read import FileContent, read_file
from sonde.policy.walk import Entry, check_path, walk_files
from sonde.types import Kind, Skipped


@dataclass(frozen=True, slots=True)
class Source:
    """One folder of a project; its files are named `prefix` + their path below `root`."""

    prefix: str
    root: Path
    rules: Rules


@dataclass(frozen=True, slots=True)
class Tree:
    """All the files of one project, whichever folders they lie in."""

    sources: tuple[Source, ...]
    is_docs: Callable[[str], bool]
    index_docs: bool
    chunking: Literal["syntax", "recursive"]

    @property
    def recipe(self) -> str:
        """Names how files are cut; indexes of two recipes are never mixed."""
        return f"{self.chunking}-{VERSION}"

    def walk(self) -> Iterator[Entry | Skipped]:
        """Every file that may be indexed, and what was left out."""
        for source in self.sources:
            nested = tuple(
                other.prefix
                for other in self.sources
                if other.prefix != source.prefix and other.prefix.startswith(source.prefix)
            )
            for found in walk_files(source.root, source.rules):
                named = _prefixed(found, source.prefix)
                # what lies under a root inside this one comes from there, once
                if not (nested and named.path.startswith(nested)):
                    yield named

    def check(self, path: str) -> Entry | Skipped:
        """The verdict of `walk` on one file, as it is now."""
        source, below = self._locate(path)
        return _prefixed(check_path(source.root, below, source.rules), source.prefix)

    def read(self, path: str) -> FileContent | Skipped:
        """One file's text, if it may be read."""
        source, below = self._locate(path)
        content = read_file(source.root, below, source.rules)
        return replace(content, path=source.prefix + content.path) if source.prefix else content

    def kind_of(self, path: str) -> Kind | None:
        """The index a file belongs to; None for docs when docs are not indexed."""
        if not self.is_docs(path):
            return "code"
        return "docs" if self.index_docs else None

    def _locate(self, path: str) -> tuple[Source, str]:
        for source in self.sources:
            if path.startswith(source.prefix):
                return source, path[len(source.prefix) :]
        raise OutsideRoots(f"{path!r} is in none of the project's folders")


def _prefixed(found: Entry | Skipped, prefix: str) -> Entry | Skipped:
    if not prefix:
        return found
    path = prefix + found.path
    return found._replace(path=path) if isinstance(found, Entry) else replace(found, path=path)
