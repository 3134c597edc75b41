"""Which repositories a project's files lie in, and which of them have moved to another commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sonde.indexing.sources import Tree
from sonde.policy.repository import (
    Repository,
    find_repository,
    find_repository_around,
    is_rewriting,
    read_head,
)


class Heads:
    """The HEAD of every repository in a project: its own, and those of submodules."""

    def __init__(self, tree: Tree, known: Mapping[str, str]) -> None:
        self.known = dict(known)
        """Repository -> where it was when its files were last indexed."""
        self._seen: dict[str, str] = {}
        self._repositories: dict[str, Repository] = {}
        self.look_for_repositories(tree)
        for name, repository in self._repositories.items():
            self.known.setdefault(name, read_head(repository))

    def __bool__(self) -> bool:
        return bool(self._repositories)

    def look_for_repositories(self, tree: Tree) -> None:
        """Find them anew, as when folders have come or gone."""
        found = {}
        for source in tree.sources:
            if repository := find_repository_around(source.root):
                found[source.prefix] = repository
        for place in tree.folders():
            repository = find_repository(place)
            name = tree.name_of(str(place))
            if repository and name is not None:
                found[name if not name or name.endswith("/") else f"{name}/"] = repository
        self._repositories = found

    def find_moved(self) -> set[str]:
        """Repositories that stand elsewhere than before, once they have come to rest there."""
        moved = set()
        for name, repository in self._repositories.items():
            head = read_head(repository)
            rests = self._seen.get(name) == head and not is_rewriting(repository)
            self._seen[name] = head
            if rests and head and head != self.known.get(name):
                moved.add(name)
        return moved

    def settle(self, names: Iterable[str]) -> None:
        """Take these repositories as they stand now for indexed."""
        for name in names:
            self.known[name] = self._seen.get(name, "")

    def owner_of(self, path: str) -> str:
        """The repository that a file lies in: the nearest."""
        return max(
            (name for name in self._repositories if path.startswith(name)), key=len, default=""
        )
