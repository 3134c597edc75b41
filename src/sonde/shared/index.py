"""A shared index as laptops and servers read it: repositories, branches, commits, files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sonde.errors import IndexCorrupt, SharedIndexMissing, SharedIndexUnreachable
from sonde.indexing.sources import Mirror
from sonde.runtime.work import Work
from sonde.shared.manifest import PushedCommit, unpack_manifest
from sonde.shared.rows import fill_from_rows
from sonde.shared.snapshot import Snapshot, load_snapshot
from sonde.shared.tables import SharedTables, quote_text


@dataclass(frozen=True, slots=True)
class Filled:
    """How an index folder was filled."""

    source: str
    """`snapshot` or `rows`."""
    note: str = ""
    """Why it was not the snapshot."""


class SharedIndex:
    """The index at a URL or in a folder. Everything read is verified or addressed by content."""

    def __init__(self, url: str, *, create: bool = False) -> None:
        """Open the index; with `create`, create it if there is none.

        Raises `SharedIndexMissing`, `SharedIndexUnreachable`, `SharedIndexRefused`, `IndexTooNew`.
        """
        self.tables = SharedTables(url, create=create)

    def list_branches(self) -> list[Mirror]:
        """Every branch, by repository and name; each repository has one default branch."""
        columns = ["repository", "branch", "commit", "pushed_ms", "is_default"]
        found = [Mirror(**row) for row in self.tables.read_rows("refs", columns)]
        # the one that the last push declared as such, else the one pushed last
        newest = sorted(found, key=lambda one: (one.is_default, one.pushed_ms))
        defaults = {one.repository: one.branch for one in newest}
        found.sort(key=lambda one: (one.repository, one.branch))
        return [replace(one, is_default=defaults[one.repository] == one.branch) for one in found]

    def find_head(self, repository: str) -> str | None:
        """The commit of a repository's default branch; None if nothing of it was pushed."""
        found = (x for x in self.list_branches() if x.repository == repository and x.is_default)
        return next((one.commit for one in found), None)

    def nearest(self, repository: str, commits: Sequence[str]) -> str | None:
        """The first of these commits that was pushed, such as those of `git log`."""
        where = f"repository = {quote_text(repository)}"
        pushed = self.tables.read_column("commits", "commit", where)
        return next((commit for commit in commits if commit in pushed), None)

    def read_commit(self, repository: str, commit: str) -> PushedCommit:
        """A commit that was pushed; raises `SharedIndexMissing`."""
        columns = ["pushed_ms", "recipe", "models", "manifest", "snapshot"]
        where = f"repository = {quote_text(repository)} AND commit = {quote_text(commit)}"
        rows = list(self.tables.read_rows("commits", columns, where))
        if not rows:
            raise SharedIndexMissing(
                f"no commit {commit} of {repository} at {self.tables.url}",
                user_message=f"The shared index has no commit {commit} of {repository}.",
                next_action="Push it: `sonde push URL`.",
            )
        row = max(rows, key=lambda row: int(row["pushed_ms"]))
        return PushedCommit(
            repository, commit, row["recipe"], tuple(row["models"].splitlines()),
            unpack_manifest(row["manifest"]), row["snapshot"],
        )  # fmt: skip

    def read_texts(self, digests: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """The contents with these digests, as UTF-8, in any order; some may come twice."""
        for row in self.tables.read_among("texts", ["digest", "data"], "digest", digests):
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

        Reads the snapshot, or the rows if the snapshot is damaged or with `rows`. Blocks that
        `seed`, the folder of another commit, holds are not fetched. All files get the stamp 0, so a
        comparison with a checkout reads each file once.
        """
        work = work or Work()
        found = self.read_commit(repository, commit)
        note = ""
        if not rows:
            try:
                load_snapshot(self.tables, Snapshot.unpack(found.snapshot), folder, work, seed)
                return Filled("snapshot")
            except (IndexCorrupt, SharedIndexUnreachable) as error:  # torn, too
                note = f"the snapshot of {commit[:12]} is damaged ({error}); its rows were read"
        fill_from_rows(self.tables, found, folder, work)
        return Filled("rows", note)
