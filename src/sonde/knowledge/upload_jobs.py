"""Uploads: files are staged in a private folder, imported by a job, and deleted."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from sonde.errors import DiskFull, InvalidRequest, OutsideRoots, TooManyRequests
from sonde.knowledge.importing import ImportReport, import_source
from sonde.knowledge.library import Library
from sonde.policy.roots import lay_open
from sonde.runtime.jobs import Job
from sonde.runtime.work import Work
from sonde.stores.files import make_scratch
from sonde.stores.knowledge.base import Source
from sonde.types import LOCAL, Caller

MAX_UPLOAD_FILES = 1_000  # of one request; a larger folder is sent as a zip
MAX_UPLOADS = 4  # of one user at a time: each starts a parser process
_ORIGIN = "upload"  # of all uploads; the origin of a folder is its absolute path
_LOOKED_JOBS = 100  # newest of all users, among which are those that run
_NAME_BYTES = 200  # of a name; file systems allow 255


def start_upload(
    library: Library, files: Iterable[tuple[str, BinaryIO]], wanted: Source | None = None,
    into: str = "", *, restore: bool = False, work: Work,
) -> Job:  # fmt: skip
    """Import uploaded files, given by name and content, as a job.

    A name that was uploaded before updates its entries. `into` names a collection to add to
    instead of the user's own knowledge.
    """
    owner = _choose_owner(library, into, work.caller)
    mine = (work.caller.user, "import", "running")
    jobs = library.jobs.recent(_LOOKED_JOBS)
    if sum((one.owner, one.kind, one.status) == mine for one in jobs) >= MAX_UPLOADS:
        raise TooManyRequests(
            f"{MAX_UPLOADS} uploads of {work.caller.user}",
            user_message="Several uploads of yours are still being read.",
            seconds=10,
        )
    with ExitStack() as stack:
        folder = stack.enter_context(make_scratch(library.uploads))
        stack.enter_context(lay_open(folder))
        names = _stage(folder, files, work)
        staged = stack.pop_all()

    def run(inner: Work) -> ImportReport:
        with staged:
            staged.callback(library.deepen, owner)
            return import_source(
                library.of(owner), folder, inner, wanted=wanted, embedder=library.models.static,
                restore=restore, origin=_ORIGIN,
            )  # fmt: skip

    subject = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more"
    return library.jobs.submit(
        f"upload:{folder.name}", "import", run, owner=work.caller.user, subject=subject,
        lasting=True,
    )  # fmt: skip


def _choose_owner(library: Library, into: str, caller: Caller) -> str:
    """The user to whose store to add: the caller, or a collection open to them."""
    is_operator = caller.user == LOCAL and caller.is_person
    if into in ("", caller.user) or is_operator or into in library.list_filled(caller.user):
        return into or caller.user
    raise OutsideRoots(
        f"{caller.user} may not fill {into!r}",
        user_message=f"You may not add to the collection '{into}'.",
        next_action="Ask the operator: `sonde users allow NAME --knowledge COLLECTION`.",
    )


def _stage(folder: Path, files: Iterable[tuple[str, BinaryIO]], work: Work) -> list[str]:
    """Write the files below a folder. Returns the names at its top."""
    for name, content in files:
        work.check()
        path = folder.joinpath(*_split_name(name))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as target:
                shutil.copyfileobj(content, target)
        except (FileExistsError, NotADirectoryError) as error:
            raise refuse_upload(
                "'{name}' was sent twice, or is a file and a folder.", name
            ) from error
        except OSError as error:
            raise DiskFull(f"{path}: {error}") from error
    names = sorted(each.name for each in folder.iterdir())
    if not names:
        raise refuse_upload("There is no file in the request.", "")
    return names


def _split_name(name: str) -> list[str]:
    """The parts of an uploaded name; refuses names that lead out of the folder."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    plain = parts and all(
        part != ".." and part.isprintable() and len(part.encode("utf-8", "replace")) <= _NAME_BYTES
        for part in parts
    )
    if not plain:
        raise refuse_upload("'{name}' cannot be the name of a file.", name)
    return parts


def refuse_upload(message: str, name: str) -> InvalidRequest:
    """The error for an upload that cannot be imported."""
    return InvalidRequest(
        f"upload of {name[:200]!r}",
        user_message=message,
        next_action="Send files as multipart/form-data, each as a field `file` with its name.",
        name=name[:200],
    )
