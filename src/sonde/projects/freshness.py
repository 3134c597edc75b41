"""How much of a project its index covers right now.

"complete" is a promise: every admitted file is indexed as it is on disk. So a search looks at every
file itself and compares its stamp with the index, whichever process keeps that current, and
whatever a process that was killed or ran out of space has left behind. While a watcher is current,
one look counts for a quarter of a second, and an answer that relies on it says `as watched`; one
that finds nothing always looks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sonde.indexing.diff import coverage_of
from sonde.projects.project import Project, ProjectPart, Workspace
from sonde.searching.hits import find_changed
from sonde.searching.lines.candidates import LineCandidates
from sonde.stores.records import load_metadata, load_refused
from sonde.types import FileState, Progress

_TRUSTED_S = 0.25
"""How long a look counts while every change is watched: less than a watcher needs. A look at 7,000
files takes longer than an answer by words."""
_MAX_LOOKED_FILES = 20_000  # a look at more of them takes longer than a search should
_LARGE_S = 10.0  # how long a project that has so many counts as large, without counting again


class KnownFiles(ProjectPart):
    """The state of a project's files that is kept between two looks at them."""

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self.candidates = LineCandidates()
        self.left: tuple[Collection[str], float] = ((), float("-inf"))
        """What an update could not bring in step, and when it is worth trying again."""
        self._now = project.now
        self._in_step_at = float("-inf")
        self.large_until = float("-inf")

    def note(self, found: Coverage) -> None:
        """Remember a look at every file, if it found the index in step."""
        in_step = found.files and not found.differing
        self._in_step_at = self._now() if in_step else float("-inf")

    def is_in_step(self) -> bool:
        """Whether everything was in step moments ago."""
        return self._now() - self._in_step_at < _TRUSTED_S

    def close(self) -> None:
        """Forget the files; the next use looks at them again."""
        self.candidates = LineCandidates()


@dataclass(frozen=True, slots=True)
class Coverage:
    """A project's files compared with its index at one moment."""

    files: int
    """Files that should be indexed."""
    missing: frozenset[str]
    """Those that are not indexed as they are."""
    gone: frozenset[str]
    """Indexed ones that should not be."""

    @property
    def differing(self) -> frozenset[str]:
        """Everything that an update would change."""
        return self.missing | self.gone

    @property
    def progress(self) -> Progress:
        """How far the process that indexes the project is."""
        return Progress("indexing", self.files - len(self.missing), self.files)


def measure_coverage(project: Project) -> Coverage:
    """Look at every file of the project and compare it with the index."""
    candidates = project.part(KnownFiles).candidates
    sight = candidates.look(project.tree.sources)
    stores = project.stores()
    missing, gone, refused = candidates.compare(sight, project.folder, stores.values())
    kind_of = project.tree.kind_of
    unwanted = {path for path in missing if kind_of(path) is None}
    files = len(sight.entries) - refused - len(unwanted)
    return Coverage(files, frozenset(missing - unwanted), gone)


def list_current_paths(project: Project) -> list[str]:
    """The paths of a project's files as they are now, indexed or not; not those refused."""
    if project.is_indexed() and is_too_large(project):
        return [path for store in project.stores().values() for path in store.files()]
    entries = project.part(KnownFiles).candidates.look(project.tree.sources).entries
    refused = load_refused(project.folder) if project.is_indexed() else {}
    return [path for path in entries if path not in refused and project.tree.kind_of(path)]


def is_searchable(project: Project) -> bool:
    """Whether the index may answer: its first run is done, or covers half of the files."""
    if not project.is_indexed():
        return False
    metadata = load_metadata(project.folder)
    if metadata is None or metadata.last_full_index:
        return True
    found = measure_coverage(project)
    return 2 * len(found.missing) <= found.files


def is_too_large(project: Project) -> bool:
    """Whether looking at every file takes longer than a search should."""
    part, now = project.part(KnownFiles), project.now()
    if 0 < part.candidates.seen <= _MAX_LOOKED_FILES:
        return False
    if now >= part.large_until:
        files = sum(store.counts().files for store in project.stores().values())
        part.large_until = now + (_LARGE_S if files > _MAX_LOOKED_FILES else 0)
    return now < part.large_until


def find_stale_files(project: Project, known: Mapping[str, FileState | None]) -> set[str]:
    """The files that differ from their known state, or from the index where that is None."""
    states = {path: state for path, state in known.items() if state}
    unknown = known.keys() - states.keys()
    for store in project.stores().values() if unknown else ():
        states |= store.files(unknown)
    tree = project.tree
    same = project.part(KnownFiles).candidates.confirm(tree.sources, known.keys())
    return find_changed({**same, **tree.check_all(known.keys() - same.keys())}, states)


def describe_deep_vectors(workspace: Workspace, project: Project) -> str:
    """A note on how many chunks have deep vectors; empty if all do."""
    if workspace.deep:
        have, total = coverage_of(project.stores(), workspace.deep.name)
        if 0 < have < total:
            return f"; deeper vectors for {100 * have // total} % of chunks"
    return ""
