"""Mirrors: branches of a shared index as ordinary, read-only projects in a bounded cache on disk.

A mirror is a folder of real files and an index folder, both written from the shared index. Servers
keep nothing else, so any of them can be lost or added. The root is `<cache>/trees/<commit>/<name>`,
where the name is `repository@branch`: a new commit is another project. The old one keeps answering
further pages until it is evicted.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from sonde.errors import IndexBusy, InvalidRequest, ProjectNotDetected, SondeError
from sonde.indexing.sources import Mirror, MirrorsState, name_mirror
from sonde.projects.project import Project, Workspace
from sonde.runtime.jobs import Job
from sonde.runtime.private import make_folder
from sonde.runtime.system import try_lock
from sonde.runtime.work import Work
from sonde.shared.index import SharedIndex
from sonde.shared.manifest import leads_below
from sonde.shared.trees import finish_index, write_tree
from sonde.stores.files import measure_folder, read_json, translate_os_errors, write_json
from sonde.stores.records import Metadata, load_metadata, project_folder, save_metadata, stamp_now

IN_USE_S = 600.0  # a mirror that was used this lately is never evicted: twice as long as pages live
MOST_NAMED = 20  # branches that one search may name: each is fetched whole
_SLOTS = 2  # mirrors that are written at a time
_RECORD = "mirror.json"  # in the index folder, written last: without it the mirror is not whole
_SHOWN_NAMES = 8  # in a message that says what there is

log = logging.getLogger(__name__)


class Mirrors:
    """The branches of one shared index, and the cache of those on this disk."""

    def __init__(
        self,
        shared: SharedIndex,
        cache: Path,
        most_bytes: int,
        workspace: Workspace,
        open_project: Callable[[Path], Project],
        *,
        every_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        make_folder(cache)
        self._shared, self._trees, self._most_bytes = shared, cache.resolve() / "trees", most_bytes
        self._workspace, self._open_project, self._clock = workspace, open_project, clock
        self._heads: dict[Path, Mirror] = {}  # of the last look
        self._ready: dict[Path, Mirror] = {}
        self._filled_at: dict[Path, float] = {}
        self._folders: dict[Path, Path] = {}
        self._whole: dict[Path, int] = {}  # when the record of a usable mirror was written
        self._guard, self._slots = threading.Lock(), threading.Semaphore(_SLOTS)
        self._polled_at, self._problem = float("-inf"), ""
        self._fills = self._evictions = 0
        self._closed, self._every_s = threading.Event(), every_s
        self._lock = os.open(cache / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
        if not try_lock(self._lock):
            os.close(self._lock)
            raise InvalidRequest(
                f"{cache} is in use", user_message="Another server uses this cache.",
                next_action="Give each server a cache of its own: --cache FOLDER.",
            )  # fmt: skip
        self._recall()
        self.poll()

    # looking up

    def poll(self) -> None:
        """Look up the branches; keep the known ones if that fails."""
        try:
            heads = self._shared.list_branches()
        except SondeError as error:
            self._problem = error.user_message
            log.warning("the branches cannot be looked up: %s", error)
            return
        self._heads = {self._trees / one.path: one for one in heads if leads_below(one.path)}
        self._polled_at, self._problem = self._clock(), ""

    def describe(self, admits: Callable[[Path], bool] = lambda _root: True) -> MirrorsState:
        """The state, of the branches that the caller may see."""
        heads = sorted(self._heads.items(), key=lambda pair: pair[1].name)
        ready = self._ready
        rows = [(ready.get(root, one), root in ready) for root, one in heads if admits(root)]
        used = sum(one.bytes for root, one in ready.items() if admits(root))
        facts = (self._clock() - self._polled_at, self._fills, self._evictions, self._problem)
        return MirrorsState(rows, used, self._most_bytes, *facts)

    def _locate(self, name: str | None, admits: Callable[[Path], bool]) -> Path:
        """The root of a branch by its name, or of the default branch by that of its repository.

        The error is the same whether there is no such branch or the caller may not see it.
        """
        wanted = (name or "").strip().strip("/")
        seen = {root: one for root, one in self._heads.items() if admits(root)}
        found = [root for root, one in seen.items() if one.is_default]
        if name:
            spelled = {root: _list_spellings(one) for root, one in seen.items()}
            found = [root for root, names in spelled.items() if wanted in names]
            found = found or [root for root, names in spelled.items()
                              if any(each.endswith(f"/{wanted}") for each in names)]  # fmt: skip
        if len(found) == 1:
            return found[0]
        names = sorted({one.repository for one in seen.values()})
        listed = ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
        known = f"There is: {listed}. A branch is named as {names[0]}@BRANCH." if names else ""
        raise ProjectNotDetected(
            f"{name!r} names {len(found)} of {len(seen)} branches",
            user_message="Which repository? There is no '{name}' that you may see."
            if name else "Which repository? Name one as `project`.",
            next_action=known or "Ask the operator of this server, who decides what you may see.",
            name=name,
        )  # fmt: skip

    def find(self, name: str | None, admits: Callable[[Path], bool], work: Work) -> Path:
        """The root of a branch by its name; fetched if it is not here."""
        root = self._locate(name, admits)
        self._fill_now(root, work)
        return root

    def find_fitting(
        self, fits: Callable[[str], bool], admits: Callable[[Path], bool], *, branches: bool
    ) -> list[str]:
        """The names that fit, of default branches or of all."""
        heads = (pair for pair in self._heads.items() if branches or pair[1].is_default)
        names = sorted(one.name for root, one in heads if admits(root))
        return list(filter(fits, names))[:MOST_NAMED]

    def name_root(self, root: Path) -> str:
        """The name of the branch with this root; any other path unchanged."""
        ours = root.is_relative_to(self._trees)
        return (name_mirror(root.relative_to(self._trees)) if ours else "") or str(root)

    def list_defaults(
        self, admits: Callable[[Path], bool], wait_s: float = 0.0
    ) -> tuple[list[Path], int]:
        """The default branches that are here within `wait_s`, and the number of all of them."""
        heads = sorted(self._heads.items())
        wanted = [root for root, one in heads if one.is_default and admits(root)]
        ready = set(filter(self._is_ready, wanted))
        if wait_s and len(ready) < len(wanted):
            jobs = [self._start_filling(root) for root in wanted if root not in ready]
            deadline = time.monotonic() + wait_s
            for job in jobs:
                job.wait(timeout_s=max(0.0, deadline - time.monotonic()))
            ready = set(filter(self._is_ready, wanted))
        return [root for root in wanted if root in ready], len(wanted)

    def _is_ready(self, root: Path) -> bool:
        """Whether a mirror can be opened."""
        if root not in self._ready:
            return False
        folder, stamp = self._find_folder(root), 0
        with suppress(OSError):
            stamp = (folder / "metadata.json").stat().st_mtime_ns
        if self._whole.get(root) != stamp:  # a search of all asks this for every branch
            metadata = load_metadata(folder)
            if metadata is None or metadata.last_full_index is None:  # damaged
                return False
            self._whole[root] = stamp
        return True

    def _find_folder(self, root: Path) -> Path:
        """The index folder of a mirror; looked up for every branch at each search of all."""
        known = self._folders.get(root)
        return known or self._folders.setdefault(root, project_folder(self._workspace.home, root))

    # filling

    def _fill_now(self, root: Path, work: Work) -> None:
        """Fetch a mirror unless it is here; concurrent calls wait for the same job."""
        if not self._is_ready(root):
            job = self._start_filling(root)
            job.wait(work)
            job.outcome()

    def _start_filling(self, root: Path) -> Job:
        """The job that fetches a mirror; users who may see the project may see the job."""
        one = self._heads.get(root)
        if one is None:
            raise IndexBusy(f"{self.name_root(root)} was superseded just now")
        run = partial(self._fill, root, one)
        return self._workspace.jobs.submit(f"fill:{root}", "fill", run, subject=str(root))

    def _fill(self, root: Path, one: Mirror, work: Work) -> None:
        with self._slots, translate_os_errors(Path(one.name)):
            work.check()
            self._ready.pop(root, None)
            older = self._find_older(one)
            folder = self._find_folder(root)
            seed = self._find_folder(older) if older else None
            self._workspace.projects.forget(root)
            self._remove(root)
            make_folder(folder)
            # found again if this is cut off
            save_metadata(folder, Metadata(str(root), stamp_now()))
            files = self._shared.read_commit(one.repository, one.commit).files
            written = write_tree(self._shared, root, files, one.pushed_ms, older, work)
            self._shared.fill(one.repository, one.commit, folder, seed=seed, work=work)
            with closing(self._open_project(root)) as project:
                finish_index(self._workspace, project, written, work)
            size = measure_folder(folder) + sum(fact.size for fact in files.values())
            done = replace(one, bytes=size)
            write_json(folder / _RECORD, {"root": str(root), **asdict(done)})
            with self._guard:
                self._ready[root], self._filled_at[root] = done, self._clock()
                self._fills += 1
        self.evict()

    def _find_older(self, one: Mirror) -> Path | None:
        """The newest mirror of the same repository, preferably of the same branch."""
        known = self._ready.items()
        mine = [(each, root) for root, each in known if each.repository == one.repository]
        mine.sort(key=lambda pair: (pair[0].branch == one.branch, pair[0].pushed_ms))
        return mine[-1][1] if mine else None

    # the cache

    def start(self) -> None:
        """Keep default branches and those in the cache current, in the background, until closed."""
        threading.Thread(target=self._run, name="sonde-mirrors", daemon=True).start()

    def _run(self) -> None:
        while not self._closed.is_set():
            known = {(each.repository, each.branch) for each in self._ready.values()}
            for root, one in list(self._heads.items()):
                if one.is_default or (one.repository, one.branch) in known:
                    with suppress(SondeError):  # the job says why
                        self._fill_now(root, Work())
                if self._closed.is_set():
                    return
            self.evict()
            self._closed.wait(self._every_s)
            self.poll()

    def close(self) -> None:
        """Stop polling, and release the cache to other servers."""
        if not self._closed.is_set():
            self._closed.set()
            os.close(self._lock)

    def evict(self) -> None:
        """Remove superseded commits, then the least recently used ones, unless they are in use."""

        def unused_s(root: Path) -> float:
            since_fill = self._clock() - self._filled_at.get(root, float("-inf"))
            return min(since_fill, self._workspace.projects.seconds_unused(root))

        with self._guard:
            idle = [root for root in self._ready if unused_s(root) > IN_USE_S]
            for root in sorted(idle, key=lambda root: (root in self._heads, -unused_s(root))):
                used = sum(one.bytes for one in self._ready.values())
                if root in self._heads and used <= self._most_bytes:
                    break
                log.info("%s is removed from the cache", root)
                del self._ready[root]
                self._evictions += 1
                self._workspace.projects.forget(root)
                self._remove(root)

    def _remove(self, root: Path) -> None:
        folder = self._find_folder(root)
        self._folders.pop(root, None)
        self._whole.pop(root, None)
        (folder / _RECORD).unlink(missing_ok=True)
        (folder / "metadata.json").unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)
        for above in root.parents[: len(root.relative_to(self._trees).parts) - 1]:
            with suppress(OSError):  # another branch is at the same commit
                above.rmdir()

    def _recall(self) -> None:
        """Find the mirrors of an earlier run, and remove unfinished ones."""
        for metadata in (self._workspace.home / "indexes").glob("*/metadata.json"):
            with suppress(OSError, ValueError, KeyError, TypeError):
                root = Path(str((read_json(metadata) or {})["projectPath"]))
                if not root.is_relative_to(self._trees):
                    continue
                facts = read_json(metadata.with_name(_RECORD))
                if isinstance(facts, dict) and facts.pop("root") == str(root) and root.is_dir():
                    self._ready[root] = Mirror(**facts)
                else:
                    self._remove(root)
        kept = {str(root) for root in self._ready}
        for commit in self._trees.iterdir() if self._trees.is_dir() else ():
            if not any(each.startswith(f"{commit}/") for each in kept):
                shutil.rmtree(commit, ignore_errors=True)


def _list_spellings(one: Mirror) -> set[str]:
    """The names under which a mirror is found."""
    named = {one.name, f"@{one.branch}"}
    return named | {one.repository} if one.is_default else named
