"""The index of a project: building, deleting and describing it, and its files by path."""

from __future__ import annotations

import logging
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from io import StringIO
from itertools import islice

from sonde import errors
from sonde.indexing.diff import compare_tree, coverage_of
from sonde.policy.admit import REASONS
from sonde.policy.changes import remove_hook
from sonde.policy.deny_list import can_allow
from sonde.policy.roots import detect_root, resolve_inside
from sonde.projects import find
from sonde.projects.deep_vectors import (
    begin_background_work,
    model_mismatch_note,
    start_deep_embedding,
)
from sonde.projects.project import Project, Workspace
from sonde.projects.update import (
    describe_freshness,
    follow_project,
    index_job,
    repairing_corruption,
    update_project,
)
from sonde.runtime.jobs import Job
from sonde.runtime.system import find_pause
from sonde.runtime.work import Work, WriterLock
from sonde.stores.database import translate_errors
from sonde.stores.files import measure_folder
from sonde.stores.records import (
    Metadata,
    describe_checks,
    load_leader,
    load_metadata,
    project_folder,
)
from sonde.text.formats import format_bytes
from sonde.text.languages import language_of
from sonde.types import LOCAL, Chunk, IndexReport, Json, ListedFile, Progress, Skipped

INDEX_QUESTION = "Index "
"""Start of the question that naming a detected project answers with yes."""
FIRST_INDEX_WAIT_S = 2.0  # as long as a person waits for a first answer; a small project takes less
PLAIN_LANGUAGES_SHOWN = 10  # the commonest without a grammar; the rest is a long tail
MOST_SKIPPED = 100
"""Files left out that a status names, about 2,500 tokens; metadata.json names up to 1,000."""
log = logging.getLogger(__name__)
_LINES = re.compile(r"([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?")


def confirm_creation(
    workspace: Workspace, project: Project, work: Work, confirm: str | None
) -> None:
    """Require consent to index a project for the first time.

    The setting `autoIndex` is consent for the project that a server was started in, unless that
    is very large.
    """
    project.require_writable()
    if project.is_indexed() or workspace.assume_yes:
        return
    question: str | errors.FileLimitWarning = f"{INDEX_QUESTION}{project.root} for searching?"
    detected = False
    with suppress(errors.SondeError):
        detected = detect_root(project.root) == project.root
    if not detected:
        question = f"{project.root} has no marker of a project, such as .git. Index it?"
    count = len(compare_tree(project.tree, {"code": {}, "docs": {}}, {}, work).changed)
    is_here = detected and workspace.start.resolve().is_relative_to(project.root)
    agreed = workspace.auto_index and workspace.reach.user == LOCAL and is_here
    if count <= project.settings.max_files and agreed:
        return
    if count > project.settings.max_files:
        question = errors.FileLimitWarning(
            f"{count} files exceeds soft limit of {project.settings.max_files:,}",
            count=f"{count:,}",
        )
    find.require_consent(workspace, work, "create_index", project, question, confirm)


def index_at_start(workspace: Workspace) -> None:
    """Start indexing the project that a server was started in, if `autoIndex` consents to it.

    Waits a moment, so that the first search of a small project finds everything.
    """
    if not workspace.auto_index:
        return
    try:
        project = find.find_project(workspace)
        if not project.is_indexed():
            confirm_creation(workspace, project, Work(), None)
            start_indexing(workspace, project).wait(timeout_s=FIRST_INDEX_WAIT_S)
    except errors.SondeError as error:
        log.warning("the project is not indexed by itself: %s", error)


def confirm_rebuild(
    workspace: Workspace, project: Project, work: Work, confirm: str | None
) -> None:
    """Require consent to rebuild an index."""
    question = "This will rebuild the entire index. Continue?"
    find.require_consent(workspace, work, "reindex_project", project, question, confirm)


def build_index(
    workspace: Workspace, project: Project, work: Work, *, force: bool = False
) -> IndexReport:
    """Index in a job and wait for it; cancelling the caller cancels the job."""
    workspace.jobs.cancel(f"refine:{project.key}")
    if force and (running := workspace.jobs.find(f"index:{project.key}")):
        running.wait(work)  # joining it would rebuild nothing
    report: IndexReport = index_job(workspace, project, force=force).join(work)
    begin_background_work(workspace, project)
    return report


def start_indexing(workspace: Workspace, project: Project, *, force: bool = False) -> Job:
    """Index in a job that outlives the call."""
    key = f"index:{project.key}"
    running = workspace.jobs.find(key)
    if force and running and running.status == "running":
        raise errors.IndexBusy("joining the running job would rebuild nothing")
    workspace.jobs.cancel(f"refine:{project.key}")

    def run(inner: Work) -> IndexReport:
        report = update_project(workspace, project, inner, force=force)
        begin_background_work(workspace, project)
        if not workspace.static:  # a named provider embeds what it has not embedded yet
            start_deep_embedding(workspace, project)
        return report

    return workspace.jobs.submit(key, "index", run, lasting=True)


def embed_index(workspace: Workspace, project: Project, work: Work, *, wait: bool) -> None:
    """Embed with the configured provider; a server does so in the background unless `wait`."""
    named = not workspace.static and workspace.deep is not None
    if wait or (named and not workspace.stays):
        if job := start_deep_embedding(workspace, project, gently=False):
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
            raise errors.FileMissing(f"{relative} not in index", path=relative)
        raise _not_admitted(relative, verdict.reason, verdict.detail)
    report = update_project(workspace, project, work, paths={relative}, force=True)
    for reason in report.skipped:
        raise _not_admitted(relative, reason)
    if project.tree.kind_of(relative) is None:
        raise errors.DocsIndexNotFound(f"No docs index at {project.folder}/")
    return relative, sum(len(store.chunks_of(relative)) for store in project.stores().values())


def _not_admitted(path: str, reason: str, detail: str = "") -> errors.FileNotAdmitted:
    shown = REASONS.get(reason, reason)
    return errors.FileNotAdmitted(f"{path}: {reason} {detail}".strip(), path=path, reason=shown)


def remove_index(workspace: Workspace, project: Project, work: Work) -> None:
    """Delete a project's index; the project's files are not touched."""
    project.stop_following()
    if project.settings.strategy == "git":
        with suppress(errors.SondeError):
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


def describe_index(workspace: Workspace, project: Project) -> Json:
    """The status of an index, as get_index_status answers it; details that do not apply are left
    out. Starts following its project in a server."""
    follow_project(workspace, project)
    with repairing_corruption(workspace, project):
        return _describe(workspace, project)


def _describe(workspace: Workspace, project: Project) -> Json:
    stores = project.stores()
    code, docs = stores["code"].counts(), stores["docs"].counts()
    languages = (language_of(state.path) for state in stores["code"].files().values())
    plain = Counter(one.name for one in languages if one.kind == "code" and not one.grammar)
    metadata = load_metadata(project.folder) or Metadata(project.key, "")
    job, refining = (workspace.jobs.find(f"{kind}:{project.key}") for kind in ("index", "refine"))
    freshness, progress = describe_freshness(workspace, project)
    if job and job.status == "running":
        progress = progress or job.progress
    vectors = {}
    read = [(model, {kind: stores[kind]}) for kind, model in workspace.static.items()]
    for model, own in read + ([(workspace.deep, stores)] if workspace.deep else []):
        have, total = coverage_of(own, model.name)
        vectors[model.name] = f"{have}/{total}"
    is_watched, following = _describe_following(project)
    skipped = [_explain_skipped(one) for one in metadata.skipped_examples]
    config, problem = str(project.folder / "config.json"), job.error if job else None
    extras: Json = {
        "otherModel": model_mismatch_note(workspace, project),
        "deepVectorsWait": find_pause() if refining and refining.status == "running" else "",
        "withoutGrammar": dict(plain.most_common(PLAIN_LANGUAGES_SHOWN)),
        "integrity": describe_checks(project.folder),
        "progress": _show_progress(progress) if progress else {},
        "freshness": freshness,
        "lastError": problem.as_dict() if isinstance(problem, errors.SondeError) else None,
        "skipped": metadata.skipped,
        "skippedExamples": skipped[:MOST_SKIPPED] if metadata.skipped else None,
        "config": config if any("next" in one for one in skipped) else None,
        "warnings": list(project.settings.warnings) or None,
    }
    return {
        "status": "indexing" if progress else "ready" if metadata.last_full_index else "incomplete",
        "projectPath": project.key,
        "totalFiles": code.files + docs.files,
        "totalChunks": code.chunks + docs.chunks,
        "lastUpdated": metadata.last_updated,
        "storageSize": format_bytes(measure_folder(project.folder), "compact"),
        "watcherActive": is_watched,
        "details": {
            "store": project.settings.store_name,
            "docs": {"totalDocs": docs.files, "totalDocChunks": docs.chunks},
            "vectors": vectors,
            **{name: fact for name, fact in extras.items() if fact not in ("", None, {})},
            "following": following
            | {"strategy": following.get("strategy", project.settings.strategy)},
        },
    }


def _show_progress(progress: Progress) -> Json:
    total = {"total": progress.total} if progress.total else {}
    return {"stage": progress.stage, "done": progress.done, **total}


def _explain_skipped(skipped: Mapping[str, str]) -> Mapping[str, str]:
    """A skipped file, with advice where the user may allow it although it looks like a secret."""
    path, reason, detail = (skipped.get(name, "") for name in ("path", "reason", "detail"))
    if can_allow(reason, detail):
        pattern = f"{path}/" if detail.startswith("vendor/") else path
        return {**skipped, "next": f'to index it, add "{pattern}" to `allow` in config.json'}
    return skipped


def _describe_following(project: Project) -> tuple[bool, dict[str, object]]:
    """Whether this process or another watches the project, and how."""
    if project.following is not None:
        return project.following.is_watched(), project.following.describe()
    with suppress(errors.SondeError):
        if WriterLock(project.folder, "watcher.lock").is_taken():
            return True, {"role": "none", **load_leader(project.folder)}
    return False, {"role": "none", "watching": "off"}


def list_summaries(workspace: Workspace) -> Iterator[Json]:
    """Every indexed project of this machine, as list_projects answers it."""
    for root in find.known_roots(workspace):
        folder = project_folder(workspace.home, root)
        metadata, state = Metadata(str(root), ""), "incomplete"
        try:
            metadata = load_metadata(folder) or metadata
            state = "ready" if metadata.last_full_index else state
        except errors.SondeError as error:
            state = error.code.lower()
        yield {
            "projectPath": find.name_root(workspace, root),
            "status": state,
            "totalFiles": metadata.total_files,
            "totalChunks": metadata.total_chunks,
            "lastUpdated": metadata.last_updated,
            "storageSize": format_bytes(measure_folder(folder), "compact"),
        }


def read_current_text(
    workspace: Workspace, project: str | None, path: str, lines: str | None = None
) -> str:
    """The text of a file, or of lines such as `10-40`, under the policy of searches."""
    found = find.readable_project(workspace, project)
    verdict = found.tree.check(path)
    content = verdict if isinstance(verdict, Skipped) else found.tree.read(path)
    if isinstance(content, Skipped):
        if content.reason in ("missing", "folder"):
            raise errors.FileMissing(f"{path} in {found.key}", path=path)
        raise _not_admitted(path, content.reason)
    if not lines:
        return content.text
    match = _LINES.fullmatch(lines)
    if match is None:
        raise errors.InvalidRequest(
            f"lines={lines!r}", user_message="`lines` is a number or two, such as '10-40'."
        )
    first, last = int(match[1]), int(match[2] or match[1])
    rows = StringIO(content.text)  # `splitlines` also splits at form feeds, and at U+2028
    return "".join(islice(rows, first - 1, last))


def list_chunks(
    workspace: Workspace, project: str | None, path: str, line: int | None = None
) -> tuple[list[Chunk], bool]:
    """The chunks of an indexed file in order, or the one around a line; and whether they are
    stale."""
    found = find.indexed_project(workspace, project)
    with repairing_corruption(workspace, found):
        chunks = [chunk for store in found.stores().values() for chunk in store.chunks_of(path)]
        states = [store.files([path]).get(path) for store in found.stores().values()]
    verdict = found.tree.check(path)
    if not chunks or isinstance(verdict, Skipped):
        raise errors.FileMissing(f"{path} is not in the index of {found.key}", path=path)
    shown = [
        chunk
        for chunk in sorted(chunks, key=lambda chunk: chunk.span.start_byte)
        if line is None or chunk.span.start_line <= line <= chunk.span.end_line
    ]
    return shown, not any(state and state.stamp == verdict.stamp for state in states)


def list_paths(workspace: Workspace, project: str | None, prefix: str, limit: int) -> Sequence[str]:
    """Paths of a project that start with a prefix, in order."""
    found = find.readable_project(workspace, project)
    if found.is_indexed():
        with repairing_corruption(workspace, found):
            paths = [path for store in found.stores().values() for path in store.files()]
        return sorted(path for path in paths if path.startswith(prefix))[:limit]
    walked = (entry.path for entry in found.tree.walk() if isinstance(entry, ListedFile))
    return sorted(islice((path for path in walked if path.startswith(prefix)), limit))
