"""App: the parts that every verb works on; and Grounds, which decides what a caller may reach."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sonde.disk.trees import Disk
from sonde.errors import SondeError
from sonde.indexing.sources import name_mirror
from sonde.knowledge.library import Library
from sonde.policy.reach import Reach, is_below, is_too_wide
from sonde.policy.roots import detect_root
from sonde.projects.project import Workspace
from sonde.runtime.private import mend_storage
from sonde.stores.records import has_index
from sonde.stores.users import EVERYONE, RepositoryAccess, Users
from sonde.types import LOCAL, Caller


@dataclass(frozen=True, slots=True)
class Grounds:
    """The operator's folders, and what each user was given."""

    home: Path
    start: Path
    """Where sonde was started, with links resolved."""
    roots: tuple[Path, ...]
    """Where agents of the operator may index, scan and read."""
    trusted: tuple[Path, ...]
    """Where such an agent's repeated call counts as consent."""
    users: Users
    trees: Path | None = None
    """Below which the projects of a shared index lie, on a server of one."""
    repositories: RepositoryAccess | None = None
    """Which of those users may see; the operator sees all."""

    def find_reach(self, caller: Caller) -> Reach:
        """What a caller may reach now.

        A person who signed in as the operator reaches everything, as on the command line; an
        agent of theirs the roots, and what the person has indexed. Any other user reaches only
        what the operator gave.
        """
        user = caller.user
        if user == LOCAL:
            if caller.is_person:
                return Reach()
            known = self._was_indexed if self.trees is None else self._is_repository
            return Reach(LOCAL, self.roots, self.trusted, known, caller.list_roots)
        roots = tuple(map(Path, self.users.list_given("fileRoots", user)))
        shared = tuple(map(Path, self.users.list_given("projects", user)))
        start = self.start
        if not is_below(start, (*shared, *roots)):
            start = next(iter((*shared, *roots)), Path(start.anchor))

        def sees(root: Path) -> bool:
            return root in shared or self._is_repository(root, caller)

        return Reach(user, roots, roots, sees, start=start)

    def _is_repository(self, root: Path, caller: Caller | None = None) -> bool:
        """Whether a path is the root of a repository of the shared index that a user may see."""
        name = ""
        if self.trees is not None and root.is_relative_to(self.trees):
            name = name_mirror(root.relative_to(self.trees)).partition("@")[0]
        rules = self.repositories
        allowed = caller is None or (rules and rules.allows(caller.user, caller.groups, name))
        return bool(name and allowed)

    def _was_indexed(self, root: Path) -> bool:
        """Whether the operator's projects include this one: it is indexed, and no user's."""
        given = self.users.list_all_given("fileRoots").items()
        others = (tuple(map(Path, each)) for user, each in given if user != EVERYONE)
        return has_index(self.home, root) and not any(is_below(root, each) for each in others)


def open_grounds(home: Path, start: Path, file_roots: Sequence[str]) -> Grounds:
    """The grounds of an installation. Agents of the operator reach `fileRoots`, or else the home
    folder and the start; and always the project that they were started in."""
    given = _resolve_all(map(Path, file_roots))
    trusted = _resolve_all([start])
    with suppress(SondeError):
        trusted = (detect_root(start),)
    trusted = tuple(root for root in trusted if not is_too_wide(root))
    roots = given or _resolve_all([Path("~"), start])
    users = Users(home / "users.json")
    return Grounds(home, start.resolve(), roots + trusted, given + trusted, users)


def _resolve_all(paths: Iterable[Path]) -> tuple[Path, ...]:
    found: list[Path] = []
    for path in paths:
        with suppress(OSError, RuntimeError):
            found.append(path.expanduser().resolve())
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class App:
    """The parts that verbs work on: projects, disks and knowledge."""

    workspace: Workspace
    disk: Disk
    knowledge: Library
    grounds: Grounds
    is_lent: bool = False
    """Whether another app owns its parts and closes them."""

    def lend(self, start: Path, file_roots: Sequence[str], **changes: object) -> App:
        """An app for another start folder that shares models, open projects and jobs; `changes`
        replace fields of its workspace."""
        workspace = replace(self.workspace, start=start, **changes)  # type: ignore[arg-type]
        knowledge = copy(self.knowledge)
        knowledge.start = start
        grounds = open_grounds(workspace.home, start, file_roots)
        return App(workspace, self.disk.seen_by(workspace), knowledge, grounds, is_lent=True)

    def seen_by(self, caller: Caller) -> App:
        """The app for the verbs of one caller: it opens nothing outside the caller's reach, and its
        cursors and confirmations are not valid for other users."""
        reach, whole = self.grounds.find_reach(caller), self.workspace
        key = whole.key
        if reach.user != LOCAL:
            key = hmac.digest(key, reach.user.encode(), "sha256")
        workspace = replace(
            whole,
            start=reach.start or whole.start,
            key=key,
            projects=whole.projects.seen_by(reach),
            results=whole.results.sealed_with(key),
            reach=reach,
        )
        return replace(self, workspace=workspace, disk=self.disk.seen_by(workspace))

    def lets_agents_write(self, user: str) -> bool:
        """Whether agents of a user may add notes: the operator's setting offers it, and any other
        user has agreed on the page."""
        agreed = user == LOCAL or bool(self.grounds.users.list_given("agentNotes", user))
        return self.knowledge.agent_notes and agreed

    def let_agents_write(self, user: str, *, lets: bool) -> None:
        """Record what a user has agreed to."""
        change = partial(self.grounds.users.give, "agentNotes")
        (change if lets else self.grounds.users.withdraw)(user, "yes")

    def close(self) -> None:
        """Stop background work and close every file."""
        if self.is_lent:
            return
        self.workspace.close()
        self.disk.close()
        self.knowledge.close()
        mend_storage(self.workspace.home)
