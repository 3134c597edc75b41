"""The post-commit hook: a marked block in the repository's own file, put in and taken out whole."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sonde.errors import InvalidRequest, PermissionDenied

_BEGIN, _END = "# >>> sonde", "# <<< sonde"
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "busybox")


def install_hook(root: Path, command: Sequence[str]) -> Path:
    """Make commits run this command, in the background and silently; returns the hook's file."""
    path = find_hook(root)
    text = _read(path)
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
    """Take the block out again; whether there was one."""
    path = find_hook(root)
    text = _read(path)
    kept = _without_block(text)
    if kept == text:
        return False
    if kept.strip() in ("", "#!/bin/sh"):
        path.unlink(missing_ok=True)
    else:
        _write(path, kept)
    return True


def has_hook(root: Path) -> bool:
    """Whether the block is there."""
    return _BEGIN in _read(find_hook(root))


def find_hook(root: Path) -> Path:
    """The post-commit file that git itself would run here, or `InvalidRequest`."""
    command = ["git", "-C", str(root), "rev-parse", "--git-path", "hooks/post-commit"]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=30, env=kept)
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


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape") if path.is_file() else ""
    except OSError:
        return ""


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
