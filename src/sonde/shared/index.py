"""A shared index as laptops and servers read it: repositories, branches, commits, files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sonde.errors import IndexCorrupt, SharedIndexMissing, SharedIndexUnreachable
from sonde.runtime.work import Work
from sonde.shared.manifest import FileFacts, PushedCommit, unpack_manifest
from sonde.shared.rows import fill_from_rows
from sonde.shared.snapshot import Snapshot, load_snapshot
from sonde.shared.tables import SharedTables, quote_text

_SHORT = re.compile(r"[0-9a-f]{6,64}")
_NAMED = 8  # names in a message that says what there is


@dataclass(frozen=True, slots=True)
class Head:
    """The commit that a branch is at, and when it was pushed."""

    commit: str
    pushed_ms: int


@dataclass(frozen=True, slots=True)
class SharedRepository:
    """A repository of a shared index."""

    name: str
    heads: Mapping[str, Head]
    """Branch -> its commit."""
    default: str
    """The default branch; if none is known, the one pushed last."""


@dataclass(frozen=True, slots=True)
class Filled:
    """How an index folder was filled."""

    source: str
    """`snapshot` or `rows`."""
    bytes_read: int
    note: str = ""
    """Why it was not the snapshot."""


class SharedIndex:
    """The index at one address. Everything it reads is checked or addressed by content."""

    def __init__(self, tables: SharedTables) -> None:
        self.tables = tables

    @classmethod
    def open(cls, url: str, *, create: bool = False) -> Self:
        """The index at a URL or in a folder; `create` makes it if there is none.

        Raises `SharedIndexMissing`, `SharedIndexUnreachable`, `SharedIndexRefused`, `IndexTooNew`.
        """
        return cls(SharedTables(url, create=create))

    def repositories(self) -> list[SharedRepository]:
        """Every repository with its branches, by name."""
        heads: dict[str, dict[str, Head]] = {}
        defaults: dict[str, str] = {}
        columns = ["repository", "branch", "commit", "pushed_ms", "is_default"]
        for row in self.tables.read_rows("refs", columns):
            name, branch = row["repository"], row["branch"]
            heads.setdefault(name, {})[branch] = Head(row["commit"], row["pushed_ms"])
            if row["is_default"]:
                defaults[name] = branch
        return [
            SharedRepository(name, found, defaults.get(name) or _find_newest(found))
            for name, found in sorted(heads.items())
        ]

    def resolve(self, repository: str, ref: str = "") -> str:
        """The commit that a branch or the beginning of a commit names; no ref: the default branch.

        Raises `SharedIndexMissing`, which says what there is.
        """
        known = {each.name: each for each in self.repositories()}
        found = known.get(repository)
        if found is None:
            raise self._missing(f"repository '{repository}'", known)
        head = found.heads.get(ref or found.default)
        if head:
            return head.commit
        commits = self._list_commits(repository)
        matching = [each for each in commits if _SHORT.fullmatch(ref) and each.startswith(ref)]
        if len(matching) != 1:
            what = f"branch or commit '{ref}' in {repository}"
            raise self._missing(what if not matching else f"one {what}", found.heads)
        return matching[0]

    def nearest(self, repository: str, commits: Sequence[str]) -> str | None:
        """The first of these commits that was pushed, such as those of `git log`."""
        pushed = self._list_commits(repository)
        return next((commit for commit in commits if commit in pushed), None)

    def read_commit(self, repository: str, commit: str) -> PushedCommit:
        """A commit that was pushed; raises `SharedIndexMissing`."""
        columns = ["pushed_ms", "recipe", "models", "manifest", "snapshot"]
        where = f"repository = {quote_text(repository)} AND commit = {quote_text(commit)}"
        rows = list(self.tables.read_rows("commits", columns, where))
        if not rows:
            raise self._missing(f"commit {commit} of {repository}", ())
        row = max(rows, key=lambda row: int(row["pushed_ms"]))
        return PushedCommit(
            repository, commit, row["pushed_ms"], row["recipe"],
            tuple(row["models"].splitlines()), unpack_manifest(row["manifest"]), row["snapshot"],
        )  # fmt: skip

    def list_files(self, repository: str, commit: str) -> Mapping[str, FileFacts]:
        """The files of a commit by path."""
        return self.read_commit(repository, commit).files

    def read_texts(self, digests: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """The contents with these digests, in any order, as UTF-8; unknown ones are left out."""
        seen: set[str] = set()
        for row in self.tables.read_among("texts", ["digest", "data"], "digest", set(digests)):
            if row["digest"] not in seen:
                seen.add(row["digest"])
                yield row["digest"], row["data"]

    def fill(
        self,
        repository: str,
        commit: str,
        folder: Path,
        *,
        seed: Path | None = None,
        work: Work | None = None,
        rows: bool = False,
    ) -> Filled:
        """Write the index of a commit into a folder: databases and vectors of the SQLite store.

        From the snapshot, or from the rows if that is damaged, or if `rows`. What `seed`, the
        folder of another commit, has already is not fetched. The stamps of all files are 0: where
        there is a checkout, comparing reads each file once.
        """
        work = work or Work()
        found = self.read_commit(repository, commit)
        note = ""
        if not rows:
            try:
                snapshot = Snapshot.unpack(found.snapshot)
                return Filled("snapshot", load_snapshot(self.tables, snapshot, folder, work, seed))
            except (IndexCorrupt, SharedIndexUnreachable) as error:  # torn, too
                note = f"the snapshot of {commit[:12]} is damaged ({error}); its rows were read"
        return Filled("rows", fill_from_rows(self.tables, found, folder, work), note)

    def _list_commits(self, repository: str) -> set[str]:
        where = f"repository = {quote_text(repository)}"
        return self.tables.read_column("commits", "commit", where)

    def _missing(self, what: str, known: Iterable[str]) -> SharedIndexMissing:
        names = sorted(known)
        listed = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
        return SharedIndexMissing(
            f"no {what} at {self.tables.url}",
            user_message=f"The shared index has no {what}.",
            next_action=f"There is: {listed}." if names else "Push it: `sonde push URL`.",
        )


def _find_newest(heads: Mapping[str, Head]) -> str:
    return max(heads, key=lambda branch: heads[branch].pushed_ms)
