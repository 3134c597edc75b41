"""Which projects a call is about, and whether it may change them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import time
from pathlib import Path

from sonde.app import App, Project
from sonde.errors import (
    Cancelled,
    ConfirmationRequired,
    FileLimitWarning,
    IndexNotFound,
    InvalidRequest,
    ProjectNotDetected,
    SondeError,
    StorageUnusable,
)
from sonde.policy.roots import detect_root
from sonde.runtime.work import Work
from sonde.stores.records import load_metadata, project_folder, read_json

ALL = "all"
_CONSENT_S = 120

log = logging.getLogger(__name__)


def find_project(app: App, project: str | None = None, work: Work | None = None) -> Project:
    """The project named, or the one around the place where sonde was started.

    Going up from there, the first folder that has an index or that the markers show to be a root
    is the project. A folder that is named for indexing (`work` is given) is taken at its word;
    one that is not named is taken as it is only once somebody agreed.
    """
    if project is not None:
        folder = _named_folder(app, project)
        return app.projects.get(folder if work else _nearest(app, folder) or folder)
    found = _nearest(app, app.start)
    if found is None and work and _may_use(app, app.start, work):
        found = app.start
    if found is None:
        raise ProjectNotDetected(f"no markers in {app.start} or above", cwd=str(app.start))
    return app.projects.get(found)


def _nearest(app: App, folder: Path) -> Path | None:
    marked = _marked_root(folder)
    for above in (folder, *folder.parents):
        if above == marked or _has_index(app, above):
            return above
    return None


def _marked_root(folder: Path) -> Path | None:
    try:
        return detect_root(folder)
    except ProjectNotDetected:
        return None


def _has_index(app: App, folder: Path) -> bool:
    try:
        return (project_folder(app.home, folder) / "metadata.json").exists()
    except OSError as error:
        raise StorageUnusable(f"{app.home}: {error}") from error


def _named_folder(app: App, project: str) -> Path:
    try:
        return (app.start / Path(project).expanduser()).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidRequest(
            f"project {project!r}: {error}", user_message="There is no folder '{p}'.", p=project
        ) from error


def _may_use(app: App, folder: Path, work: Work) -> bool:
    """Ask whether a folder without markers is the project; a whole home or disk never is."""
    try:
        home = Path.home()
    except RuntimeError:  # nobody's home is known
        home = folder
    if folder in (Path(folder.anchor), home):
        return False
    question = f"Could not detect project root. Use current directory: {folder}?"
    return app.assume_yes or bool(work.ask(question))


def indexed_project(app: App, project: str | None = None) -> Project:
    """The same, or `IndexNotFound`; `IndexTooNew` when a newer version has written it."""
    found = require_index(find_project(app, project))
    load_metadata(found.folder)
    return found


def require_index(project: Project) -> Project:
    """The project if it has an index of any format, or `IndexNotFound`."""
    if not project.is_indexed():
        raise IndexNotFound(f"No index at {project.folder}/")
    return project


def projects_in_scope(app: App, project: str | None) -> list[Project]:
    """One project, or every indexed project of this machine for `all`."""
    if project != ALL:
        return [indexed_project(app, project)]
    found = []
    for root in known_roots(app):
        try:
            found.append(app.projects.get(root))
        except SondeError as error:
            log.warning("%s is left out: %s", root, error)
    if not found:
        raise IndexNotFound(f"No index under {app.home}/indexes/")
    return found


def known_roots(app: App) -> list[Path]:
    """Roots of every project that has an index on this machine and still exists."""
    roots = []
    for metadata in sorted((app.home / "indexes").glob("*/metadata.json")):
        try:
            root = Path((read_json(metadata) or {})["projectPath"])
            if root.is_dir() and project_folder(app.home, root) == metadata.parent:
                roots.append(root)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return roots


def require_consent(
    app: App,
    work: Work,
    action: str,
    project: Project | str,
    question: str | FileLimitWarning,
    confirm: str | None,
) -> None:
    """Go on only with a yes: a setting, a token of an earlier answer, or a person asked now.

    What it is about is a project, or anything else that has a name.
    """
    subject = project if isinstance(project, str) else project.key
    if app.assume_yes or _is_valid(app, action, subject, confirm):
        return
    text = question if isinstance(question, str) else question.user_message
    answer = work.ask(text)
    if answer is None:
        error = ConfirmationRequired(text, question=text, token=_token(app, action, subject))
        if isinstance(question, str):
            raise error
        question.next_action = f"{error.next_action} {question.next_action}"
        question.facts |= error.facts
        raise question
    if not answer:
        raise Cancelled(
            "declined, by a person or by a client that has nobody to ask",
            user_message="Declined. Nothing was changed.",
            next_action="Do not repeat it unasked; a person can do the same with the `sonde` "
            "command. regex_search needs no index.",
            declined=True,
        )


def _token(app: App, action: str, subject: str) -> str:
    expires = int(time.time()) + _CONSENT_S
    return f"{expires:x}.{_seal(app, action, subject, expires)}"


def _is_valid(app: App, action: str, subject: str, token: str | None) -> bool:
    if not token:
        return False
    try:
        stamp, seal = token.split(".")
        expires = int(stamp, 16)
    except ValueError:
        return False
    good = hmac.compare_digest(
        seal.encode("utf-8", "replace"), _seal(app, action, subject, expires).encode()
    )
    return good and time.time() <= expires


def _seal(app: App, action: str, subject: str, expires: int) -> str:
    text = f"{action}\0{subject}\0{expires}".encode("utf-8", "surrogateescape")
    digest = hmac.new(app.key, text, hashlib.sha256).digest()[:12]
    return base64.urlsafe_b64encode(digest).decode()
