"""The index of a project: building, deleting and describing it, and its files by path."""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from sonde.errors import (
    DocsIndexNotFound,
    FileLimitWarning,
    FileMissing,
    FileNotAdmitted,
    IndexBusy,
    InvalidRequest,
    SondeError,
)
from sonde.indexing.diff import compare_tree
from sonde.indexing.pipeline import coverage_of
from sonde.policy.admit import REASONS
from sonde.policy.changes import remove_hook
from sonde.policy.roots import resolve_inside
from sonde.projects.deep_vectors import (
    model_mismatch_note,
    schedule_deep_embedding,
    start_deep_embedding,
)
from sonde.projects.find import indexed_project, known_roots, readable_project, require_consent
from sonde.projects.project import HEARTBEAT_FILE, LOST_LEADER_S, Project, Workspace
from sonde.projects.update import (
    describe_freshness,
    follow_project,
    index_job,
    repairing_corruption,
    update_project,
)
from sonde.runtime.jobs import Job
from sonde.runtime.work import Work, WriterLock
from sonde.stores.database import translate_errors
from sonde.stores.files import measure_folder, read_json
from sonde.stores.records import Metadata, describe_checks, load_metadata, project_folder
from sonde.text.languages import language_of
from sonde.types import Chunk, IndexReport, Json, ListedFile, Progress, Skipped, StoreCounts

PLAIN_LANGUAGES_SHOWN = 10  # the commonest without a grammar; the rest is a long tail
_LINES = re.compile(r"([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?")


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """How large, fresh and complete an index is, and what was left out of it."""

    root: str
    state: Literal["ready", "incomplete", "indexing"]
    store: str
    code: StoreCounts
    docs: StoreCounts
    size: int
    """Bytes on disk."""
    last_updated: str | None
    is_watched: bool
    following: Json
    """How changes reach the index, as the leader or follower reports it."""
    coverage: Mapping[str, tuple[int, int]]
    """Model -> chunks that have a vector of it, and chunks in all."""
    model_note: str = ""
    plain_languages: Mapping[str, int] = field(default_factory=dict)
    """Languages chunked without a grammar -> number of files."""
    checks: Json = field(default_factory=dict)
    progress: Progress | None = None
    freshness: str = ""  # how much of the project the index covers
    last_error: Json | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Reason -> number of files."""
    skipped_examples: tuple[Mapping[str, str], ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProjectSummary:
    """One indexed project of this machine, as its metadata describes it."""

    root: str
    state: str
    """`ready`, `incomplete`, or the code of the error that reading it raised."""
    files: int
    chunks: int
    size: int
    """Bytes on disk."""
    last_updated: str | None


def confirm_creation(
    workspace: Workspace, project: Project, work: Work, confirm: str | None
) -> None:
    """Require consent to index a project for the first time."""
    if project.is_indexed() or workspace.assume_yes:
        return
    question: str | FileLimitWarning = f"Index {project.root} for searching?"
    count = len(compare_tree(project.tree, {"code": {}, "docs": {}}, {}, work).changed)
    if count > project.settings.max_files:
        question = FileLimitWarning(
            f"{count} files exceeds soft limit of {project.settings.max_files:,}",
            count=f"{count:,}",
        )
    require_consent(workspace, work, "create_index", project, question, confirm)


def confirm_rebuild(
    workspace: Workspace, project: Project, work: Work, confirm: str | None
) -> None:
    """Require consent to rebuild an index."""
    question = "This will rebuild the entire index. Continue?"
    require_consent(workspace, work, "reindex_project", project, question, confirm)


def build_index(
    workspace: Workspace, project: Project, work: Work, *, force: bool = False
) -> IndexReport:
    """Index in a job and wait for it; cancelling the caller cancels the job."""
    workspace.jobs.cancel(f"refine:{project.key}")
    if force and (running := workspace.jobs.find(f"index:{project.key}")):
        running.wait(work)  # joining it would rebuild nothing
    report: IndexReport = index_job(workspace, project, force=force).join(work)
    follow_project(workspace, project)
    schedule_deep_embedding(workspace, project)
    return report


def start_indexing(workspace: Workspace, project: Project, *, force: bool = False) -> Job:
    """Index in a job that outlives the call."""
    key = f"index:{project.key}"
    running = workspace.jobs.find(key)
    if force and running and running.status == "running":
        raise IndexBusy("joining the running job would rebuild nothing")
    workspace.jobs.cancel(f"refine:{project.key}")

    def run(inner: Work) -> IndexReport:
        report = update_project(workspace, project, inner, force=force)
        follow_project(workspace, project)
        schedule_deep_embedding(workspace, project)
        if workspace.static is None:  # a named provider embeds what it has not embedded yet
            start_deep_embedding(workspace, project)
        return report

    return workspace.jobs.submit(key, "index", run, lasting=True)


def embed_index(workspace: Workspace, project: Project, work: Work, *, wait: bool) -> None:
    """Embed with the configured provider; a server does so in the background unless `wait`."""
    named = workspace.static is None and workspace.deep is not None
    if wait or (named and not workspace.stays):
        job = start_deep_embedding(workspace, project, gently=False)
        if job:
            job.join(work)
    elif named:
        start_deep_embedding(workspace, project)


def refresh_file(workspace: Workspace, project: Project, path: str, work: Work) -> tuple[str, int]:
    """Index one file again. Returns its path in the project and its number of chunks."""
    relative = resolve_inside(project.root, path).relative_to(project.root).as_posix()
    verdict = project.tree.check(relative)
    if isinstance(verdict, Skipped):
        if verdict.reason == "missing":
            update_project(workspace, project, work, paths={relative})
            raise FileMissing(f"{relative} not in index", path=relative)
        raise _not_admitted(relative, verdict.reason, verdict.detail)
    report = update_project(workspace, project, work, paths={relative}, force=True)
    for reason in report.skipped:
        raise _not_admitted(relative, reason)
    if project.tree.kind_of(relative) is None:
        raise DocsIndexNotFound(f"No docs index at {project.folder}/")
    return relative, sum(len(store.chunks_of(relative)) for store in project.stores().values())


def _not_admitted(path: str, reason: str, detail: str = "") -> FileNotAdmitted:
    shown = REASONS.get(reason, reason)
    return FileNotAdmitted(f"{path}: {reason} {detail}".strip(), path=path, reason=shown)


def remove_index(workspace: Workspace, project: Project, work: Work) -> None:
    """Delete a project's index; the project's files are not touched."""
    project.stop_following()
    if project.settings.strategy == "git":
        with suppress(SondeError):
            remove_hook(project.root)
    for kind in ("check", "refine", "views", "index", "flush"):
        workspace.jobs.cancel(f"{kind}:{project.key}")
    with project.lock.held(work):
        workspace.projects.forget(project.root)
        # metadata first: without it the index does not exist, whatever happens next
        with translate_errors(project.folder):
            (project.folder / "metadata.json").unlink(missing_ok=True)
        # the lock last: while its file exists, no other process can start a new index here
        for path in project.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != "writer.lock":
                with suppress(OSError):
                    path.unlink()
        shutil.rmtree(project.folder, ignore_errors=True)


def describe_index(workspace: Workspace, project: Project) -> IndexStatus:
    """The status of an index; starts following its project in a server."""
    follow_project(workspace, project)
    with repairing_corruption(workspace, project):
        return _describe(workspace, project)


def _describe(workspace: Workspace, project: Project) -> IndexStatus:
    stores = project.stores()
    languages = (language_of(state.path) for state in stores["code"].files().values())
    plain = Counter(one.name for one in languages if one.kind == "code" and not one.grammar)
    metadata = load_metadata(project.folder)
    job = workspace.jobs.find(f"index:{project.key}")
    freshness, progress = describe_freshness(workspace, project)
    if job and job.status == "running":
        progress = progress or job.progress
    incomplete = metadata is None or metadata.last_full_index is None
    coverage = {}
    for embedder in filter(None, (workspace.static, workspace.deep)):
        pairs = coverage_of(stores, embedder)
        coverage[embedder.name] = (sum(have for have, _ in pairs), sum(n for _, n in pairs))
    is_watched, following = _describe_following(project)
    return IndexStatus(
        root=str(project.root),
        state="indexing" if progress else "incomplete" if incomplete else "ready",
        store=project.settings.store_name,
        code=stores["code"].counts(),
        docs=stores["docs"].counts(),
        size=measure_folder(project.folder),
        last_updated=metadata.last_updated if metadata else None,
        is_watched=is_watched,
        following=following | {"strategy": following.get("strategy", project.settings.strategy)},
        coverage=coverage,
        model_note=model_mismatch_note(workspace, project),
        plain_languages=dict(plain.most_common(PLAIN_LANGUAGES_SHOWN)),
        checks=describe_checks(project.folder),
        progress=progress,
        freshness=freshness,
        last_error=job.error.as_dict() if job and isinstance(job.error, SondeError) else None,
        skipped=metadata.skipped if metadata else {},
        skipped_examples=metadata.skipped_examples if metadata else (),
        warnings=tuple(project.settings.warnings),
    )


def _describe_following(project: Project) -> tuple[bool, dict[str, object]]:
    """Whether this process or another watches the project, and how."""
    if project.following is not None:
        return project.following.is_watched(), project.following.describe()
    path = project.folder / HEARTBEAT_FILE
    leader = None
    try:
        if abs(time.time() - path.stat().st_mtime) <= LOST_LEADER_S:
            with WriterLock(project.folder, "watcher.lock").held(wait_s=0):
                pass  # the process that held it is gone
    except IndexBusy:
        leader = read_json(path)
    except (OSError, SondeError):
        pass
    facts: dict[str, object] = leader if isinstance(leader, dict) else {}
    return isinstance(leader, dict), {"role": "none", **(facts or {"watching": "off"})}


def list_summaries(workspace: Workspace) -> Iterator[ProjectSummary]:
    """Every indexed project of this machine."""
    for root in known_roots(workspace):
        folder = project_folder(workspace.home, root)
        metadata, state = Metadata(str(root), ""), "incomplete"
        try:
            metadata = load_metadata(folder) or metadata
            state = "ready" if metadata.last_full_index else state
        except SondeError as error:
            state = error.code.lower()
        yield ProjectSummary(
            root=str(root),
            state=state,
            files=metadata.total_files,
            chunks=metadata.total_chunks,
            size=measure_folder(folder),
            last_updated=metadata.last_updated,
        )


def read_current_text(
    workspace: Workspace, project: str | None, path: str, lines: str | None = None
) -> str:
    """The text of a file, or of lines such as `10-40`, under the policy of searches."""
    found = readable_project(workspace, project)
    verdict = found.tree.check(path)
    content = verdict if isinstance(verdict, Skipped) else found.tree.read(path)
    if isinstance(content, Skipped):
        if content.reason in ("missing", "folder"):
            raise FileMissing(f"{path} in {found.root}", path=path)
        raise _not_admitted(path, content.reason)
    if not lines:
        return content.text
    match = _LINES.fullmatch(lines)
    if match is None:
        raise InvalidRequest(
            f"lines={lines!r}", user_message="`lines` is a number or two, such as '10-40'."
        )
    first, last = int(match[1]), int(match[2] or match[1])
    return "".join(content.text.splitlines(keepends=True)[first - 1 : last])


def list_chunks(
    workspace: Workspace, project: str | None, path: str, line: int | None = None
) -> tuple[list[Chunk], bool]:
    """The chunks of an indexed file in order, or the one around a line; and whether they are
    stale."""
    found = indexed_project(workspace, project)
    with repairing_corruption(workspace, found):
        chunks = [chunk for store in found.stores().values() for chunk in store.chunks_of(path)]
        states = [store.files([path]).get(path) for store in found.stores().values()]
    verdict = found.tree.check(path)
    if not chunks or isinstance(verdict, Skipped):
        raise FileMissing(f"{path} is not in the index of {found.root}", path=path)
    shown = [
        chunk
        for chunk in sorted(chunks, key=lambda chunk: chunk.span.start_byte)
        if line is None or chunk.span.start_line <= line <= chunk.span.end_line
    ]
    return shown, not any(state and state.stamp == verdict.stamp for state in states)


def list_paths(workspace: Workspace, project: str | None, prefix: str, limit: int) -> Sequence[str]:
    """Paths of a project that start with a prefix, in order."""
    found = readable_project(workspace, project)
    if found.is_indexed():
        with repairing_corruption(workspace, found):
            paths = [path for store in found.stores().values() for path in store.files()]
        return sorted(path for path in paths if path.startswith(prefix))[:limit]
    walked = (entry.path for entry in found.tree.walk() if isinstance(entry, ListedFile))
    return sorted(islice((path for path in walked if path.startswith(prefix)), limit))


def list_roots(workspace: Workspace, prefix: str, limit: int) -> Sequence[str]:
    """Roots of indexed projects that start with a prefix."""
    roots = (str(root) for root in known_roots(workspace))
    return list(islice((root for root in roots if root.startswith(prefix)), limit))
