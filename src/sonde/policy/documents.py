"""Opens what a person brings in by name: documents of any kind, never through a link.

The deny list holds here as it does for projects. Folders whose names begin with a dot are passed
over: they belong to programs, not to people.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from sonde.policy.admit import Rules, compile_rules
from sonde.policy.folder import Folder, open_below, open_root, tell_reason
from sonde.policy.roots import show_path, split_inside
from sonde.policy.walk import Entry
from sonde.types import Skipped

_MOST_DEEP = 40
_RULES = Rules()


def walk_documents(root: Path, most_bytes: int) -> Iterator[Entry | Skipped]:
    """Every file below a folder in the order of names, or why it is left out; or one file."""
    gate = compile_rules(_RULES)
    is_file = root.is_file()
    # a folder that somebody names may be called `build`, never `.ssh`
    denial = gate.find_secret(root.as_posix() + ("" if is_file else "/"))
    if denial := denial or (gate.find_denial(root.name, folder=False) if is_file else None):
        yield Skipped(root.name, "denied", denial)
        return
    if is_file:
        yield _judge(root.name, root.stat(), most_bytes)
        return
    with open_root(root) as folder:
        yield from _walk(folder, "", most_bytes, 0)


def read_document(root: Path, path: str, most_bytes: int) -> bytes | Skipped:
    """The bytes of a file below a folder; `root` may be the file itself."""
    base = root.parent if root.is_file() else root
    names = split_inside(base, path)
    try:
        descriptor, facts = open_below(base, names)
        with os.fdopen(descriptor, "rb") as file:
            if facts.st_size > most_bytes:
                return Skipped(path, "too_large", f"{facts.st_size} bytes")
            data = file.read(most_bytes + 1)
    except OSError as error:
        return Skipped(path, tell_reason(error), error.strerror or "")
    return data if len(data) <= most_bytes else Skipped(path, "too_large", "grew while read")


def _walk(folder: Folder, prefix: str, most_bytes: int, depth: int) -> Iterator[Entry | Skipped]:
    gate = compile_rules(_RULES)
    for entry in folder.scan():
        path = prefix + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if show_path(entry.name) != entry.name:
            yield Skipped(show_path(path), "bad_name")
        elif denial := gate.find_denial(entry.name, folder=is_folder):
            yield Skipped(path, "denied", denial)
        elif entry.is_symlink():
            yield Skipped(path, "symlink")
        elif is_folder:
            if entry.name.startswith(".") or depth >= _MOST_DEEP:
                continue
            try:
                with folder.enter(entry.name) as inner:
                    yield from _walk(inner, f"{path}/", most_bytes, depth + 1)
            except OSError as error:
                yield Skipped(path, tell_reason(error), error.strerror or "")
        else:
            try:
                yield _judge(path, entry.stat(follow_symlinks=False), most_bytes)
            except OSError as error:
                yield Skipped(path, tell_reason(error), error.strerror or "")


def _judge(path: str, facts: os.stat_result, most_bytes: int) -> Entry | Skipped:
    if not stat.S_ISREG(facts.st_mode):
        return Skipped(path, "special")
    if facts.st_size > most_bytes:
        return Skipped(path, "too_large", f"{facts.st_size} bytes")
    return Entry(path, facts.st_size, facts.st_mtime_ns)
