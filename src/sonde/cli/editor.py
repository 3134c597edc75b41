"""Opening a file in the person's editor, at a line."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_PLUS = (
    "vi",
    "vim",
    "nvim",
    "view",
    "gvim",
    "nano",
    "emacs",
    "emacsclient",
    "kak",
    "joe",
    "mg",
    "ed",
)
_COLON = ("subl", "zed", "hx", "helix", "micro", "sublime_text", "atom", "mate")
_GOTO = ("code", "code-insiders", "codium", "cursor", "windsurf")
_LINE = ("idea", "pycharm", "webstorm", "goland", "clion", "rubymine", "kate", "gedit")
_USUAL = ("sensible-editor", "vi", "nano")


def find_editor(environ: Mapping[str, str]) -> list[str]:
    """The command of the editor: $VISUAL, $EDITOR or the first usual one; empty if none is."""
    chosen = environ.get("VISUAL") or environ.get("EDITOR")
    if chosen:
        return shlex.split(chosen)
    path = environ.get("PATH")
    return next(([name] for name in _USUAL if shutil.which(name, path=path)), [])


def edit_command(editor: list[str], path: str, line: int) -> list[str]:
    """The command that opens a file at a line, in the words of this editor."""
    name = Path(editor[0]).name.removesuffix(".exe")
    if name in _GOTO:
        return [*editor, "-g", f"{path}:{line}"]
    if name in _COLON:
        return [*editor, f"{path}:{line}"]
    if name in _LINE:
        return [*editor, "--line", str(line), path]
    return [*editor, f"+{line}", path] if name in _PLUS or name == _USUAL[0] else [*editor, path]


def open_file(environ: Mapping[str, str], path: str, line: int) -> int | None:
    """Run the editor until it ends; returns its exit code, None if there is no editor."""
    editor = find_editor(environ)
    if not editor:
        return None
    try:
        return subprocess.run(edit_command(editor, path, line), check=False).returncode
    except OSError:
        return None
