"""The content at a path of a project: the entries of a folder, the text of a file, raw bytes.

Everything passes the project's policy: what searches may not read is neither listed nor shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass

from sonde.chunking.parse import parse_source
from sonde.errors import FileMissing, FileNotAdmitted, SondeError, list_packages
from sonde.knowledge.formats import File, RefusedFormat
from sonde.knowledge.parsing import Parsers
from sonde.policy.metadata import list_live
from sonde.policy.read import open_shown
from sonde.projects.project import Project
from sonde.types import ListedFile, Skipped, Symbol

PICTURES: Mapping[str, str] = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif",
    "webp": "image/webp", "avif": "image/avif", "ico": "image/x-icon", "bmp": "image/bmp",
    "svg": "image/svg+xml",
}  # fmt: skip
"""Endings of pictures that browsers show -> their types."""
PDF = "pdf"
_MAX_SHOWN_BYTES = 32 << 20  # 32 MiB: it is held in memory and sent whole
_MAX_ENTRIES = 1_000  # of a folder; a longer list is searched, not read
_PDF_S = 20.0  # as long as a person waits for a page


@dataclass(frozen=True, slots=True)
class FolderItem:
    """A folder or a file that may be opened."""

    name: str
    path: str
    is_folder: bool
    size: int = 0
    mtime_ms: int = 0


@dataclass(frozen=True, slots=True)
class ProjectFolder:
    """A folder of a project, folders first."""

    path: str
    items: tuple[FolderItem, ...]
    left_out: int = 0
    """Entries beyond those that are listed."""


def ending_of(path: str) -> str:
    """The ending of a file's name in lower case, without its dot."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[2].lower() if "." in name else ""


def is_original(path: str) -> bool:
    """Whether a file is shown from its bytes: a picture, or a PDF."""
    return ending_of(path) in PICTURES or ending_of(path) == PDF


def is_folder(project: Project, path: str) -> bool:
    """Whether a path is a folder that may be listed."""
    if not path.strip("/"):
        return True
    verdict = project.tree.check(path.strip("/"))
    return isinstance(verdict, Skipped) and verdict.reason == "folder"


def list_items(project: Project, path: str) -> ProjectFolder:
    """The entries of a folder that searches may read, and pictures and PDFs."""
    inside = f"{path.strip('/')}/" if path.strip("/") else ""
    source, below = project.tree.locate(inside)
    facts = {inside + each.name: each for each in list_live(source.root, below)}
    items = []
    for found, verdict in project.tree.check_all(facts).items():
        each = facts[found]
        skipped = verdict.reason if isinstance(verdict, Skipped) else ""
        if not skipped or skipped == "folder" or (skipped == "binary" and is_original(found)):
            folder = skipped == "folder"
            items.append(FolderItem(each.name, found, folder, each.size, each.mtime_ms))
    items.sort(key=lambda item: (not item.is_folder, item.name.lower(), item.name))
    return ProjectFolder(
        inside.rstrip("/"), tuple(items[:_MAX_ENTRIES]), max(len(items) - _MAX_ENTRIES, 0)
    )


def read_original(project: Project, path: str) -> tuple[bytes, str]:
    """The bytes of a picture or a PDF, and their type; raises if it may not be shown."""
    verdict = project.tree.check(path)
    shown = isinstance(verdict, ListedFile) or verdict.reason == "binary"
    if not shown or not is_original(path):
        if isinstance(verdict, Skipped) and verdict.reason in ("missing", "folder"):
            raise FileMissing(f"{path} in {project.key}", path=path)
        raise FileNotAdmitted(f"{path} is no picture", path=path, reason="it is not a picture")
    source, below = project.tree.locate(path)
    with closing(open_shown(source.root, below)) as file:
        if file.size > _MAX_SHOWN_BYTES:
            raise FileNotAdmitted(f"{path}: {file.size}", path=path, reason="it is too large")
        data = b"".join(file.read(0, file.size))
    return data, PICTURES.get(ending_of(path), "application/pdf")


def read_pdf_text(project: Project, path: str) -> str:
    """The text of a PDF, read in a child process with limits and without its secrets."""
    data, _ = read_original(project, path)
    with closing(Parsers(seconds=_PDF_S)) as parsers:
        try:
            found = parsers.parse(File(path, data, 0), "media")
        except RefusedFormat as error:
            needs = f"reading it needs pip install {list_packages('documents')}"
            why = needs if error.reason == "missing_extra" else error.detail
            raise FileNotAdmitted(f"{path}: {error.reason}", path=path, reason=why) from error
        return "\n\n".join(
            piece.text for entry in found.read() for piece in entry.pieces if piece.place >= 0
        )


def outline_of(project: Project, path: str, text: str) -> tuple[Symbol, ...]:
    """The definitions of a text, which need not be the one that is indexed."""
    with suppress(SondeError, RecursionError):
        return parse_source(path, text, kind=project.tree.kind_of(path) or "docs").symbols
    return ()
