"""Commits of a project's repository: messages and paths, as far as policy admits them.

git itself reads them, in an environment where nothing that a repository configures is run: no
hook, pager, external diff, text converter, signature check, monitor, or transport. A repository
is read only if it is the project's own: its folder lies in the project, or is one of a worktree
that the repository knows.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sonde.errors import NoHistory
from sonde.policy.admit import Rules, compile_rules, find_denied
from sonde.policy.changes import Repository, find_repository, read_small
from sonde.policy.secrets import redact_secrets

_TIMEOUT_S = 60  # a hundred thousand commits are listed in a few seconds
_MOST_PATHS = 30  # of a commit that are kept: what it is about shows in fewer
_MOST_CHARS = 4_000  # of a message: longer ones are pasted logs
_SAFE = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.pager=cat", "core.askPass=",
    "core.sshCommand=false", "core.quotePath=false", "core.attributesFile=/dev/null",
    "credential.helper=", "protocol.allow=never", "log.showSignature=false", "log.mailmap=false",
    "log.showRoot=true", "diff.external=", "gpg.program=false",
)  # fmt: skip
_LINKS = ("HEAD", "config", "objects", "objects/pack", "objects/info", "refs", "packed-refs")


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, with those of its paths that policy admits."""

    id: str
    author: str
    time_s: int
    message: str
    paths: tuple[str, ...]
    hidden: bool = False
    """Whether paths were left out."""

    @property
    def is_admitted(self) -> bool:
        """Whether it may be shown: it touches something that may, or nothing at all."""
        return bool(self.paths) or not self.hidden


def find_history(root: Path) -> Repository:
    """The project's own repository; raises `NoHistory`."""
    repository = find_repository(root)
    if repository is None:
        raise NoHistory(f"{root} is not the root of a git repository")
    try:
        git, shared = repository.git.resolve(), repository.shared.resolve()
        known = read_small(git / "gitdir").strip()
        is_known = bool(known) and Path(known).resolve() == (root / ".git").resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a NUL in a name
        raise NoHistory(f"{repository.git} names no folder: {error}") from error
    is_own = shared.is_relative_to(root.resolve()) and not (root / ".git").is_symlink()
    if not (is_own or is_known):
        raise NoHistory(f"{shared} is outside {root} and knows no worktree there")
    if any((folder / name).is_symlink() for folder in (git, shared) for name in _LINKS):
        raise NoHistory(f"{shared} consists of links")
    if read_small(shared / "objects" / "info" / "alternates").strip():
        raise NoHistory(f"{shared} borrows objects of another repository")
    return repository


def list_commit_ids(root: Path, most: int, under: str = "") -> list[str]:
    """The newest commits, from the one that is checked out back; `under` names a folder or file."""
    asked = ("rev-list", f"--max-count={most}", "HEAD", "--", *([under] if under else ["."]))
    return _run_git(root, asked).decode().split()


def read_commits(root: Path, ids: Sequence[str], rules: Rules) -> Iterator[Commit]:
    """These commits, without the paths that policy leaves out and without secrets in messages."""
    gate, mark = compile_rules(rules), secrets.token_hex(16)

    def admits(path: str) -> bool:
        folders = [path[:at] for at, character in enumerate(path) if character == "/"]
        return not (
            find_denied(path, rules)
            or gate.excludes(path, folder=False)
            or any(gate.excludes(folder, folder=True) for folder in folders)
        ) and gate.includes(path)

    form = f"--format={mark}%x00%H%x00%an%x00%at%x00%B%x00"
    asked = ("log", "--stdin", "--no-walk=unsorted", "-z", "--name-only", "--no-renames",
             "--diff-merges=first-parent", "--relative", "--no-ext-diff", "--no-textconv",
             "--encoding=UTF-8", form)  # fmt: skip
    found = _run_git(root, asked, "\n".join(ids).encode())
    for part in found.decode("utf-8", "replace").split(mark)[1:]:
        _, name, author, time_s, message, *rest = part.split("\0")
        paths = [path.lstrip("\n") for path in rest if path.strip("\n")]
        shown = [path for path in paths if admits(path)]
        text = redact_secrets(message.strip()[:_MOST_CHARS])[0]
        hidden = len(shown) < len(paths)
        yield Commit(name, author, int(time_s or 0), text, tuple(shown[:_MOST_PATHS]), hidden)


def _run_git(root: Path, arguments: Sequence[str], given: bytes = b"") -> bytes:
    """Run git in an environment that starts no other program. Returns its output."""
    find_history(root)
    options = [part for setting in _SAFE for part in ("-c", setting)]
    environ = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environ |= {
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "GIT_CEILING_DIRECTORIES":
        str(root.parent), "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    command = ["git", "--no-pager", *options, "-C", str(root), *arguments]
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, check=True, timeout=_TIMEOUT_S, env=environ
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", b"") or b""
        raise NoHistory(f"{error} {said.decode('utf-8', 'replace').strip()}") from error
    return done.stdout


class Checkout(NamedTuple):
    """The checked-out commit, its branch if any, and the remote."""

    commit: str
    branch: str
    default_branch: str
    """The branch that the remote calls its default, as far as this clone knows."""
    remote: str
    """The address of the remote `origin`; empty if there is none."""


def read_checkout(root: Path) -> Checkout:
    """The commit, branch and remote that are checked out in a project."""
    commit = _run_git(root, ("rev-parse", "--verify", "HEAD")).decode().strip()
    branch = _run_git(root, ("rev-parse", "--abbrev-ref", "HEAD")).decode().strip()
    if branch == "HEAD":  # detached, as in CI: the remote's branch at this commit, if just one is
        asked = ("for-each-ref", "--points-at=HEAD", "--format=%(refname:lstrip=3)", "refs/remotes")
        found = set(_run_git(root, asked).decode().split()) - {"HEAD"}
        branch = found.pop() if len(found) == 1 else ""
    named = ("for-each-ref", "--format=%(symref:lstrip=3)", "refs/remotes/origin/HEAD")
    default = _run_git(root, named).decode().strip()
    remote = _run_git(root, ("config", "--default", "", "--get", "remote.origin.url")).decode()
    return Checkout(commit, branch, default, remote.strip())


def list_committed(root: Path) -> dict[str, bool]:
    """The files of the commit that is checked out, and whether each is executable."""
    found: dict[str, bool] = {}
    for entry in _run_git(root, ("ls-tree", "-r", "-z", "HEAD")).split(b"\0"):
        facts, _, name = entry.partition(b"\t")
        if facts.startswith(b"100"):  # a regular file
            found[name.decode("utf-8", "surrogateescape")] = facts.startswith(b"100755")
    return found


def list_uncommitted(root: Path) -> list[str]:
    """Tracked files whose content is not that of the commit, also those that git is set to ignore
    changes of; no filter of the repository is run."""
    parts = _run_git(root, ("diff-index", "--raw", "-z", "--no-renames", "HEAD")).split(b"\0")
    suspects = {
        name: facts.split()[2]
        for facts, name in zip(parts[::2], parts[1::2], strict=False)
        if b"100" in (facts[1:4], facts[8:11])  # links and submodules are never indexed
    }
    for entry in _run_git(root, ("ls-files", "-z", "-v", "--stage")).split(b"\0"):
        facts, _, name = entry.partition(b"\t")
        overlooked = facts[:1] == b"S" or facts[:1].islower()  # skip-worktree, assume-unchanged
        if overlooked and facts[2:5] == b"100" and (root / os.fsdecode(name)).exists():
            suspects.setdefault(name, facts.split()[2])
    here = [n for n in suspects if b"\n" not in n and (root / os.fsdecode(n)).is_file()]
    asked = ("hash-object", "--no-filters", "--stdin-paths")
    hashed = _run_git(root, asked, b"\n".join(here)).split() if here else []
    same = {name for name, now in zip(here, hashed, strict=True) if now == suspects[name]}
    return sorted(os.fsdecode(name) for name in suspects.keys() - same)


def is_ancestor(root: Path, older: str, newer: str) -> bool:
    """Whether one commit leads to another; false where a shallow clone does not know."""
    try:
        _run_git(root, ("merge-base", "--is-ancestor", older, newer))
    except NoHistory:
        return False
    return True
