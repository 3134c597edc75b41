"""Files of a project by path: their text as it is now, their stored chunks, completion of paths."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from sonde.errors import FileMissing, FileNotAdmitted, IndexNotFound, InvalidRequest
from sonde.policy.admit import REASONS
from sonde.projects.find import find_project, indexed_project, known_roots
from sonde.projects.project import Project
from sonde.projects.update import repairing_corruption
from sonde.projects.workspace import Workspace
from sonde.types import Chunk, ListedFile, Skipped

_LINES = re.compile(r"([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?")


def read_current_text(
    workspace: Workspace, project: str | None, path: str, lines: str | None = None
) -> str:
    """The text of a file, or of lines such as `10-40`, under the policy of searches."""
    found = _readable_project(workspace, project)
    verdict = found.tree.check(path)
    content = verdict if isinstance(verdict, Skipped) else found.tree.read(path)
    if isinstance(content, Skipped):
        if content.reason in ("missing", "folder"):
            raise FileMissing(f"{path} in {found.root}", path=path)
        reason = REASONS.get(content.reason, content.reason)
        raise FileNotAdmitted(f"{path}: {content.reason}", path=path, reason=reason)
    return _cut_lines(content.text, lines) if lines else content.text


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
    now = (verdict.size, verdict.mtime_ns)
    return shown, not any(state and (state.size, state.mtime_ns) == now for state in states)


def list_paths(workspace: Workspace, project: str | None, prefix: str, limit: int) -> Sequence[str]:
    """Paths of a project that start with a prefix, in order."""
    found = _readable_project(workspace, project)
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


def _readable_project(workspace: Workspace, project: str | None) -> Project:
    """The current project, or an indexed one: naming another folder does not open it."""
    found = find_project(workspace, project)
    if project is not None and not found.is_indexed():
        here = find_project(workspace)
        if here.root != found.root:
            raise IndexNotFound(f"No index at {found.folder}/")
    return found


def _cut_lines(text: str, lines: str) -> str:
    match = _LINES.fullmatch(lines)
    if match is None:
        raise InvalidRequest(
            f"lines={lines!r}", user_message="`lines` is a number or two, such as '10-40'."
        )
    first = int(match[1])
    last = int(match[2] or match[1])
    return "".join(text.splitlines(keepends=True)[first - 1 : last])
