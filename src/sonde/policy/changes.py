"""Detection of changes: events of watched folders, and commits of git repositories.

Events are hints. They may be late, coalesced or lost, so the receiver compares files.

A commit is read from a few small files; nothing else in `.git` is opened. In a worktree or a
submodule, `.git` is a file that names the folder. Our post-commit hook reports commits at once.
"""

from __future__ import annotations

import logging
import os
import shlex
import stat
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from sonde.errors import InvalidRequest, PermissionDenied
from sonde.runtime.system import PROC

_POLL_DELAY_MS = 500  # between two looks where the system cannot watch folders
_SILENT_FILE_SYSTEMS = (
    "nfs", "cifs", "smb", "9p", "fuse", "virtiofs", "vboxsf", "vmhgfs", "drvfs", "afs", "ncpfs",
    "prl_fs", "ceph", "glusterfs", "lustre", "beegfs",
)  # fmt: skip


class WatchFailed(Exception):
    """The system refuses to watch; the text says why."""


class FolderWatch:
    """An open watch. `take` gets touched places, or what broke the watch, in a thread of its own.

    Places gathered within `gather_ms`, or until nothing happens for `step_ms`, come together.
    Raises `FileNotFoundError`, `PermissionError` or `WatchFailed` if it cannot be opened.
    """

    def __init__(
        self,
        places: Iterable[str],
        take: Callable[[set[str] | Exception], None],
        *,
        recursive: bool,
        step_ms: int,
        gather_ms: int,
        polling: bool = False,
    ) -> None:
        self._take = take
        self._places = list(places)
        self._recursive, self._polling = recursive, polling
        self._step_ms, self._gather_ms = step_ms, gather_ms
        self._closing = threading.Event()
        self._opened = threading.Event()
        self._refused: list[Exception] = []
        self._thread = threading.Thread(target=self._listen, name="sonde-events", daemon=True)
        self._thread.start()
        self._opened.wait()
        for error in self._refused:
            raise error

    def close(self) -> None:
        """Stop listening."""
        self._closing.set()
        if self._thread is not threading.current_thread():
            self._thread.join(2.0)

    def is_set(self) -> bool:
        """Whether to stop; watchfiles asks at each step, the first time right after opening."""
        self._opened.set()
        return self._closing.is_set()

    def _listen(self) -> None:
        from watchfiles import watch

        # its INFO lines count the changes of every save
        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        try:
            for changes in watch(
                *self._places,
                watch_filter=None,
                debounce=self._gather_ms,
                step=self._step_ms,
                stop_event=self,
                rust_timeout=0,
                debug=False,
                raise_interrupt=False,
                force_polling=self._polling,
                poll_delay_ms=_POLL_DELAY_MS,
                recursive=self._recursive,
                ignore_permission_denied=False,
            ):
                self._take({place for _, place in changes})
        except Exception as error:  # noqa: BLE001 - passed to the caller, or to the taker
            if not self._opened.is_set():
                missing = isinstance(error, FileNotFoundError | PermissionError)
                self._refused.append(error if missing else WatchFailed(_explain(str(error))))
            elif not self._closing.is_set():
                self._take(error)
        finally:
            self._opened.set()


def _explain(text: str) -> str:
    if "limit" in text.lower() or "os error 28" in text or "os error 24" in text.lower():
        return "the system's limit of file watches is reached (fs.inotify.max_user_watches)"
    return text


def find_silent_file_system(
    roots: Iterable[Path], mounts: Path = PROC / "self" / "mountinfo"
) -> str | None:
    """The kind of file system, if one of the roots lies on one that reports no events."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    kinds: dict[str, str] = {}
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) > 4 and after:
            kinds[fields[4].replace("\\040", " ")] = after.split()[0]
    for root in roots:
        above = next((place for place in (root, *root.parents) if str(place) in kinds), None)
        kind = kinds[str(above)] if above else ""
        if kind.startswith(_SILENT_FILE_SYSTEMS):
            return kind
    return None


_MAX_FILE_BYTES = 4096  # the longest path, in a file that holds one name
_MAX_PACKED_REFS_BYTES = 16 * 1024 * 1024  # some 200,000 branches and tags
_GIT_TIMEOUT_S = 30  # it reads two files; longer means a disk that does not answer
_REWRITE_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")


class Repository(NamedTuple):
    """A working tree; `git` is its own folder, `shared` the one that all worktrees share."""

    place: Path
    git: Path
    shared: Path


class GitRules(NamedTuple):
    """The rules of one repository for a folder in it; `policy.git` reads them."""

    prefix: str
    """The folder's path in the working tree, with a slash at the end."""
    excludes: tuple[tuple[str, bytes], ...]
    """Exclude files, the weakest first, each with the folder's path relative to its base."""
    files: frozenset[str]
    """The tracked files."""
    folders: frozenset[str]
    """The folders that hold a tracked file, and submodules."""


def find_repository(place: Path) -> Repository | None:
    """The repository whose working tree has this folder as its root."""
    git = place / ".git"
    if not os.path.lexists(git):
        return None
    if not git.is_dir():
        key, _, named = _read(git).partition(":")
        if key != "gitdir":
            return None
        git = place / named.strip()
    if not (git / "HEAD").is_file():
        return None
    return Repository(place, git, git / _read(git / "commondir"))


def find_repository_around(place: Path) -> Repository | None:
    """The repository of this folder or of the nearest folder above it."""
    found = (find_repository(folder) for folder in (place, *place.parents))
    return next(filter(None, found), None)


def read_commit(repository: Repository) -> str:
    """The branch and commit that are checked out, as one text; empty if unknown."""
    head = _read(repository.git / "HEAD")
    name = head.removeprefix("ref:").strip()
    if name == head:
        return head  # detached
    if name == "refs/heads/.invalid":  # the reftable format, in which every change renames a table
        return _read(repository.shared / "reftable" / "tables.list")
    if not name.startswith("refs/") or ".." in name:
        return ""
    commit = _read(repository.shared / name)
    if not commit:
        packed = _read(repository.shared / "packed-refs", _MAX_PACKED_REFS_BYTES).splitlines()
        rows = (line.partition(" ") for line in packed)
        commit = next((found for found, _, named in rows if named == name), "")
    return f"{name} {commit}"


def is_rewriting(repository: Repository) -> bool:
    """Whether a rebase or cherry-pick is in progress, so that HEAD is about to move again."""
    return any((repository.git / name).exists() for name in _REWRITE_FOLDERS)


def _read(path: Path, limit: int = _MAX_FILE_BYTES) -> str:
    return read_small(path, limit).strip()


def read_small(path: Path, limit: int = -1) -> str:
    """The text of a regular file; empty if it cannot be read."""
    try:
        if not path.is_file():  # reading a pipe would wait for a writer
            return ""
        with path.open("rb") as file:
            return file.read(limit).decode("utf-8", "surrogateescape")
    except OSError:
        return ""


_BEGIN, _END = "# >>> sonde", "# <<< sonde"
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "busybox")


def install_hook(root: Path, command: Sequence[str]) -> Path:
    """Run this command in the background after every commit; returns the path of the hook."""
    path = find_hook(root)
    text = read_small(path)
    if text and not _is_shell(text):
        raise InvalidRequest(
            f"{path} is not a shell script",
            user_message="The repository has a post-commit hook that is not a shell script.",
            next_action=f"Add to it yourself: {shlex.join(command)}",
        )
    block = f"{_BEGIN}\n({shlex.join(command)} </dev/null >/dev/null 2>&1 &)\n{_END}\n"
    kept = _without_block(text)
    if kept and not kept.endswith("\n"):
        block = f"\n{block}"
    _write(path, f"{kept or '#!/bin/sh' + chr(10)}{block}")
    return path


def remove_hook(root: Path) -> bool:
    """Remove our part of the hook; whether there was one."""
    path = find_hook(root)
    text = read_small(path)
    kept = _without_block(text)
    if kept == text:
        return False
    if kept.strip() in ("", "#!/bin/sh"):
        path.unlink(missing_ok=True)
    else:
        _write(path, kept)
    return True


def has_hook(root: Path) -> bool:
    """Whether our part of the hook is there."""
    return _BEGIN in read_small(find_hook(root))


def find_hook(root: Path) -> Path:
    """The post-commit hook that git runs here; raises `InvalidRequest`."""
    command = ["git", "-C", str(root), "rev-parse", "--git-path", "hooks/post-commit"]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            command, capture_output=True, check=True, timeout=_GIT_TIMEOUT_S, env=kept
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InvalidRequest(
            f"{root}: {error}",
            user_message="This project is not in a git repository, or git is not installed.",
            next_action="Without a hook, a running server still notices every commit.",
        ) from error
    return root / os.fsdecode(done.stdout).rstrip("\n")


def _is_shell(text: str) -> bool:
    first = text.splitlines()[0]
    words = first.removeprefix("#!").replace("/", " ").split()
    return not first.startswith("#!") or any(word in _SHELLS for word in words)


def _without_block(text: str) -> str:
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(f"{_END}\n")
    return f"{before}{after}" if begin and end else text


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.sonde")
        temporary.write_bytes(text.encode("utf-8", "surrogateescape"))
        mode = path.stat().st_mode if path.exists() else 0o755
        temporary.chmod(stat.S_IMODE(mode) | 0o111)
        temporary.replace(path)
    except OSError as error:
        raise PermissionDenied(f"{path}: {error}", path=str(path)) from error
