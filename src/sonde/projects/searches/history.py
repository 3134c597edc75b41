"""The commits of a project as a store of their own, brought up to date before each search.

Each commit is a file of the store, named by its id: its date and author, its message, and the
paths it touches. A commit that may not be shown is kept without text, so that it is not read again.
"""

from __future__ import annotations

import hashlib
import zlib
from datetime import UTC, datetime

from sonde.indexing.preparing import embed_batch
from sonde.policy.admit import Rules
from sonde.policy.changes import read_commit
from sonde.policy.commits import Commit, find_history, list_commit_ids, read_commits
from sonde.projects.project import Project, ProjectPart, Workspace
from sonde.ranking.question import Question
from sonde.runtime.work import Work, WriterLock
from sonde.searching.modes import rank_related
from sonde.searching.search import QueryVectors, Search
from sonde.stores.chunks.base import ChunkStore
from sonde.types import Chunk, FileState, Filter, Hit, ParsedFile, Progress, Span

_FOLDER = "history-1"
_MOST_COMMITS = 20_000
"""The newest are searched: ten years of a busy project, and half a minute to read them once."""
_BATCH = 500  # commits that are read and written at a time
_LONGEST_SUBJECT = 200  # characters; git's own advice is 50


class History(ProjectPart):
    """The store of a project's commits, and the commit it is up to date with."""

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self._head = ""
        self.left_out = ""  # which commits are not searched, in words

    def store(self) -> ChunkStore:
        """The store, opened on first use."""
        with self._guard:
            if self._store is None:
                self._store = self.project.open_part(_FOLDER)
            return self._store

    def close(self) -> None:
        """Close the store; it opens again on the next use."""
        with self._guard:
            self._head = ""
            super().close()

    def update(self, workspace: Workspace, work: Work) -> None:
        """Read the commits that are new, and forget those that are gone or were rewritten."""
        root, rules = self.project.root, self.project.tree.sources[0].rules
        repository = find_history(root)
        head = f"{read_commit(repository)} {_recipe(rules)}"
        if head == self._head:
            return
        with WriterLock(self.project.folder, "history.lock").held(work):
            store, recipe = self.store(), _recipe(rules)
            ids = list_commit_ids(root, _MOST_COMMITS)
            self.left_out = ""
            if len(ids) == _MOST_COMMITS:
                self.left_out = f"only the newest {_MOST_COMMITS:,} commits are searched"
            elif (repository.shared / "shallow").exists():
                self.left_out = "the clone is shallow, older commits are not in it"
            known = {path for path, state in store.files().items() if state.stamp == recipe}
            store.remove(store.files().keys() - set(ids))
            missing = [one for one in ids if one not in known]
            for at in range(0, len(missing), _BATCH):
                work.check()
                work.report(Progress("reading commits", at, len(missing)))
                found = read_commits(root, missing[at : at + _BATCH], rules)
                batch = [_write_commit(commit, recipe) for commit in found]
                if embedder := workspace.static.get("code") or workspace.deep:
                    embed_batch(store, embedder, batch)
                store.replace(batch)
        self._head = head


def _recipe(rules: Rules) -> int:
    """Changes with the rules that decide which commits may be shown."""
    return zlib.crc32(repr(rules).encode()) | 1


def _write_commit(commit: Commit, recipe: int) -> ParsedFile:
    day = datetime.fromtimestamp(commit.time_s, UTC).date().isoformat()
    text = "\n".join([f"{day}  {commit.author}", commit.message, "", *commit.paths]).strip() + "\n"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    state = FileState(
        commit.id, digest, len(text), commit.time_s * 1_000_000_000, "git", "docs", recipe
    )
    if not commit.is_admitted:
        return ParsedFile(state, ())
    span = Span(1, text.count("\n"), 0, len(text.encode("utf-8", "surrogatepass")))
    subject = commit.message.partition("\n")[0][:_LONGEST_SUBJECT]
    return ParsedFile(state, (Chunk(commit.id, text, span, symbol=subject),))


def rank_commits(
    workspace: Workspace, project: Project, question: Question, limit: int, under: str, work: Work
) -> tuple[list[Hit], str]:
    """The commits nearest to a question that touch what is `under`, and which were left out."""
    history = project.part(History)
    history.update(workspace, work)
    store = history.store()
    touching = list_commit_ids(project.root, _MOST_COMMITS, under) if under else None
    where = Filter(None if touching is None else frozenset(touching))
    vectors = QueryVectors(question, workspace.static, workspace.deep)
    search = Search(store, where, limit, vectors.probe(store))
    hits = [
        Hit(
            project.key, "docs", found.chunk.path, found.chunk.span, found.chunk.text,
            found.score, found.score_type, "git", found.chunk.symbol,
        )
        for found in rank_related(search, question)
    ]  # fmt: skip
    return hits, history.left_out
