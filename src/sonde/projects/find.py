"""Finding the projects of a call, and asking for consent to change them."""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from sonde import errors
from sonde.indexing.pipeline import find_moved_index, recipe_of
from sonde.paging.cursor import BrokenSealError, seal, unseal
from sonde.policy.reach import is_too_wide
from sonde.policy.roots import detect_root
from sonde.projects.project import Project, Workspace
from sonde.runtime.jobs import JobRecord
from sonde.runtime.work import Work, WriterLock
from sonde.searching.query_language import QueryCondition, fits_project
from sonde.stores.records import (
    has_index,
    list_recorded,
    load_metadata,
    project_folder,
    save_metadata,
)

ALL = "all"
_CONSENT_S = 120  # time to ask a person, too short to be kept for another occasion
_COMMANDS = {
    "create_index": "sonde index",
    "reindex_project": "sonde reindex -p",
    "delete_index": "sonde delete -p",
}
"""By action, how a person does the same."""
_FIRST_WAIT_S = 10.0  # how long a search of all repositories waits for those that are not here yet
_FETCHING = "The repositories are still being fetched."
_ASK_A_PERSON = "A person must agree: ask the user to run `{command}` once."

log = logging.getLogger(__name__)


def find_project(
    workspace: Workspace, project: str | None = None, work: Work | None = None
) -> Project:
    """The project named, or the one around the place where sonde was started.

    Going up from there, the first folder that has an index or that the markers show to be a root
    is the project. A folder that is named for indexing (`work` is given) is taken at its word;
    one that is not named is only used after a confirmation. A server of a shared index has only
    the repositories in it.
    """
    if workspace.mirrors:
        root = workspace.mirrors.find(project, workspace.reach.admits, work or Work())
        return workspace.projects.get(root)
    if project is not None:
        folder = _named_folder(workspace, project)
        return _open(workspace, folder if work else _nearest(workspace, folder) or folder)
    found = _nearest(workspace, workspace.start)
    if found is None and work and _may_use(workspace, workspace.start, work):
        found = workspace.start
    if found is None:
        raise errors.ProjectNotDetected(
            f"No markers found in path hierarchy of {workspace.start}", cwd=str(workspace.start)
        )
    return _open(workspace, found)


def _open(workspace: Workspace, root: Path) -> Project:
    """The project at a root. One that was moved here takes its index along."""
    project = workspace.projects.get(root)
    if project.is_indexed() or not project.is_first_use():
        return project
    store, recipe = project.settings.store_name, recipe_of(project.tree)
    try:
        moved = find_moved_index(
            project.folder, project.tree, store=store, recipe=recipe, admits=workspace.reach.admits
        )
        metadata = load_metadata(moved) if moved else None
        if moved is None or metadata is None:
            return project
        with WriterLock(moved).held(wait_s=0):
            moved.rename(project.folder)
            save_metadata(project.folder, replace(metadata, project_path=str(root)))
    except (OSError, errors.SondeError) as error:
        # in use, or not to be moved: a new one will be made
        log.info("%s has no index yet: %s", root, error)
        return project
    workspace.projects.forget(root)
    return workspace.projects.get(root)


def _nearest(workspace: Workspace, folder: Path) -> Path | None:
    marked = None
    with suppress(errors.ProjectNotDetected):
        marked = detect_root(folder)
    for above in (folder, *folder.parents):
        try:
            known = above == marked or has_index(workspace.home, above)
            if known and workspace.reach.admits(above):
                return above
        except OSError as error:
            raise errors.StorageUnusable(f"{workspace.home}: {error}") from error
    return None


def _named_folder(workspace: Workspace, project: str) -> Path:
    """The folder at a path, or the only indexed project whose folder has this name."""
    try:
        folder = (workspace.start / Path(project).expanduser()).resolve()
        workspace.reach.require(folder, way_down=True)
        return folder.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        named = [root for root in known_roots(workspace) if root.name == project]
        if len(named) == 1:
            return named[0]
        raise errors.InvalidRequest(
            f"project {project!r}: {error}",
            user_message=f"There is no folder '{project}'.",
            next_action="Check the name. list_projects (`sonde projects`) lists what is indexed.",
        ) from error


def _may_use(workspace: Workspace, folder: Path, work: Work) -> bool:
    """Ask whether a folder without markers is the project; a whole home or disk never is."""
    if is_too_wide(folder):
        return False
    question = f"Could not detect project root. Use current directory: {folder}?"
    return workspace.assume_yes or bool(work.ask(question))


def indexed_project(workspace: Workspace, project: str | None = None) -> Project:
    """The project, which must have an index. Raises `IndexNotFound` or `IndexTooNew`."""
    found = require_index(find_project(workspace, project))
    load_metadata(found.folder)
    return found


def require_index(project: Project) -> Project:
    """The project if it has an index of any format, or `IndexNotFound`."""
    if not project.is_indexed():
        raise errors.IndexNotFound(f"No index at {project.folder}/")
    return project


def readable_project(workspace: Workspace, project: str | None) -> Project:
    """The current project, or an indexed one: naming another folder does not open it."""
    found = find_project(workspace, project)
    if not found.is_indexed() and project is not None and found.root != workspace.start:
        try:
            here: Project | None = find_project(workspace)
        except errors.ProjectNotDetected:
            here = None
        if here is None or here.root != found.root:
            raise errors.IndexNotFound(f"No index at {found.folder}/")
    load_metadata(found.folder)
    return found


def name_scope(workspace: Workspace, project: str | None) -> str | None:
    """The scope of a search: without a name, everything on a server of a shared index."""
    return ALL if project is None and workspace.mirrors else project


def projects_in_scope(workspace: Workspace, project: str | None) -> list[Project]:
    """One project, indexed or the current one, or every indexed project within reach for `all`."""
    if workspace.mirrors and project and project.startswith("@"):
        return projects_asked(workspace, None, [QueryCondition("branch", project[1:])])
    if project != ALL:
        return [readable_project(workspace, project)]
    found = []
    wanted = 0
    if workspace.mirrors:
        roots, wanted = workspace.mirrors.list_defaults(workspace.reach.admits, _FIRST_WAIT_S)
    else:
        roots = known_roots(workspace)
    for root in roots:
        try:
            found.append(workspace.projects.get(root))
        except errors.SondeError as error:
            log.warning("%s is left out: %s", root, error)
    if not found and wanted:
        raise errors.IndexBusy(
            f"{wanted} repositories", user_message=_FETCHING,
            next_action="Try again in a moment, or name one repository as `project`.",
        )  # fmt: skip
    if not found:
        raise errors.IndexNotFound(f"No index under {workspace.home}/indexes/")
    return found


def projects_asked(
    workspace: Workspace, project: str | None, conditions: Sequence[QueryCondition]
) -> list[Project]:
    """The projects that the conditions of a query name (`repo:`), else those in scope."""
    asked = [one for one in conditions if one.field in ("repo", "branch")]
    named = [str(one) for one in asked]
    if not named:
        return projects_in_scope(workspace, project)
    if workspace.mirrors:
        fits, branches = partial(fits_project, conditions), any("@" in text for text in named)
        branches |= any(one.field == "branch" for one in asked)
        names = workspace.mirrors.find_fitting(fits, workspace.reach.admits, branches=branches)
        known = [find_project(workspace, name) for name in names]
    else:
        known = projects_in_scope(workspace, ALL)
    found = [one for one in known if fits_project(conditions, one.key)]
    if not found:
        raise errors.InvalidRequest(
            f"{named} of {len(known)} projects",
            user_message=f"No indexed project fits {' '.join(named)}.",
            next_action="`sonde projects` lists those that are indexed.",
        )
    return found


def projects_to_read(
    workspace: Workspace, project: str | None, conditions: Sequence[QueryCondition]
) -> list[Project]:
    """As `projects_asked`, for searches that need no index: a single project may lack one."""
    branches = workspace.mirrors and project and project.startswith("@")
    if project == ALL or branches or any(one.field in ("repo", "branch") for one in conditions):
        return projects_asked(workspace, project, conditions)
    return [find_project(workspace, project)]


def note_missing(workspace: Workspace, project: str | None) -> str:
    """A note on the repositories that a search of all leaves out; empty if none."""
    if workspace.mirrors is None or project != ALL:
        return ""
    here, wanted = workspace.mirrors.list_defaults(workspace.reach.admits)
    left = wanted - len(here)
    return f"incomplete; {left} of {wanted} repositories are being fetched" * bool(left)


def known_roots(workspace: Workspace) -> list[Path]:
    """Roots of every project within reach that has an index and still exists."""
    if workspace.mirrors:
        return workspace.mirrors.list_defaults(workspace.reach.admits)[0]
    roots = []
    for folder, root in list_recorded(workspace.home):
        with suppress(OSError, ValueError):
            is_here = project_folder(workspace.home, root) == folder
            if is_here and workspace.reach.admits(root) and root.is_dir():
                roots.append(root)
    return roots


def name_root(workspace: Workspace, root: Path | str) -> str:
    """How answers name the project at a root, whether it is open or not."""
    return workspace.mirrors.name_root(Path(root)) if workspace.mirrors else str(root)


def list_project_names(workspace: Workspace) -> list[str]:
    """The projects within reach that have an index, as answers name them."""
    return [name_root(workspace, root) for root in known_roots(workspace)]


def find_job(workspace: Workspace, handle: str, *, to_stop: bool = False) -> JobRecord:
    """A job that the caller may see, or stop; raises `HandleUnknown`."""
    record = workspace.jobs.look_up(handle)
    if record is None or not sees_job(workspace, record, to_stop=to_stop):
        raise errors.HandleUnknown(f"job {handle!r}", what="job", handle=handle)
    return record


def sees_job(workspace: Workspace, record: JobRecord, *, to_stop: bool = False) -> bool:
    """Whether a job is the caller's own, or one on a project that it may see, or change."""
    reach = workspace.reach
    may = reach.may_change if to_stop else reach.admits
    root = workspace.projects.roots.get(record.subject, Path(record.subject))
    return record.owner == reach.user or (not record.owner and may(root))


def require_consent(
    workspace: Workspace,
    work: Work,
    action: str,
    project: Project | str,
    question: str | errors.FileLimitWarning,
    confirm: str | None,
) -> None:
    """Go on only with a yes: a setting, a token of an earlier answer, or a person asked now.

    Only where the caller is trusted, a refusal hands over a token with which the call can be
    repeated; elsewhere a person agrees, by the command that is named.
    """
    subject, reach = project if isinstance(project, str) else project.key, workspace.reach
    if isinstance(project, Project):
        project.require_writable()
    if isinstance(project, Project) and not reach.may_change(project.root):
        raise errors.OutsideRoots(
            f"{project.root} is shared with {reach.user}",
            user_message="This project is shared with you, so you cannot change it.",
            next_action="Ask its owner. Searching and reading need no consent.",
        )
    if workspace.assume_yes:
        return
    with suppress(BrokenSealError):
        if confirm and time.time() <= unseal(
            confirm, _name_consent(action, subject), workspace.key
        ):
            return
    text = question if isinstance(question, str) else question.user_message
    answer = work.ask(text)
    if answer is None:
        facts = {"token": issue_consent(workspace, action, subject)}
        if isinstance(project, Project) and not reach.trusts(project.root):
            command = f"{_COMMANDS[action]} {shlex.quote(subject)}"
            facts = {"next_action": _ASK_A_PERSON, "command": command}
        error = errors.ConfirmationRequired(text, question=text, **facts)
        if isinstance(question, str):
            raise error
        question.next_action = f"{error.next_action} {question.next_action}"
        question.facts |= error.facts
        raise question
    if not answer:
        raise errors.Cancelled(
            "declined, by a person or by a client that has nobody to ask",
            user_message="Declined. Nothing was changed.",
            next_action="Do not repeat it unasked; a person can do the same with the `sonde` "
            "command. regex_search needs no index.",
            declined=True,
        )


def issue_consent(
    workspace: Workspace, action: str, subject: str, *, now: float | None = None
) -> str:
    """A token that stands for a yes to one action on one subject for two minutes."""
    expires = int(time.time() if now is None else now) + _CONSENT_S
    return seal(expires, _name_consent(action, subject), workspace.key)


def _name_consent(action: str, subject: str) -> str:
    return f"consent\0{action}\0{subject}"
