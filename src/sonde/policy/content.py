"""Files that a user names to show, compare or import, of any kind and size.

The rules differ from those of indexing: a named file may be binary, large or in a folder of
dependencies. The protection is the same: never a secret of the deny list, never through a link,
never a file with several hard links, never text that contains a secret.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sonde.errors import FileMissing, FileNotAdmitted
from sonde.policy.admit import DENY_LIST, REASONS, Rules, compile_rules
from sonde.policy.read import MARKS, SNIFFED_BYTES, decode_text
from sonde.policy.roots import (
    Folder,
    open_below,
    open_root,
    show_path,
    skip_reason,
    skip_unreadable,
    split_inside,
)
from sonde.policy.secrets import secret_in
from sonde.policy.walk import ListedFile
from sonde.types import Skipped

_PART_BYTES = 1 << 20
_OVERLAP_BYTES = 1 << 14
"""Longer than any known secret, so that none is missed where two parts meet."""
_MAX_VERDICTS = 1_000
_VERDICTS: dict[tuple[int, int, int, int], bool] = {}
"""Device, inode, size and time of a file -> whether it contains a secret."""
_SECRET_ROWS = tuple(f"({row.category})" for row in DENY_LIST if row.secret)


@dataclass(frozen=True, slots=True)
class ShownFile:
    """An open file; close it after use."""

    descriptor: int
    size: int
    mtime_ns: int

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """Its bytes from `start` to before `end`."""
        os.lseek(self.descriptor, start, os.SEEK_SET)
        while start < end:
            part = os.read(self.descriptor, min(_PART_BYTES, end - start))
            if not part:
                return
            start += len(part)
            yield part

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


def may_show(names: Sequence[str]) -> bool:
    """Whether no name on the way to a file is in the deny list's rows of secrets."""
    gate = compile_rules(Rules())
    for left, name in zip(range(len(names) - 1, -1, -1), names, strict=True):
        denial = gate.find_denial(name, folder=left > 0)
        if denial and denial.endswith(_SECRET_ROWS):
            return False
    return True


def open_shown(root: Path, path: str, *, look_inside: bool = True) -> ShownFile:
    """Open a file below a root; raises `FileMissing`, or `FileNotAdmitted` if it may not be shown.

    `look_inside` also refuses text that contains a secret.
    """
    names = split_inside(root, path)
    shown = show_path("/".join(names))
    if not names or not may_show(names):
        raise _refuse(shown, "denied" if names else "folder")
    try:
        descriptor, facts = open_below(root, names)
    except OSError as error:
        reason = skip_reason(error)
        if reason == "missing":
            raise FileMissing(f"{shown}: {error.strerror}", path=shown) from error
        raise _refuse(shown, reason) from error
    file = ShownFile(descriptor, facts.st_size, facts.st_mtime_ns)
    try:
        if facts.st_nlink > 1:
            raise _refuse(shown, "hard_link")
        identity = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
        if look_inside and _contains_secret(file, identity):
            raise _refuse(shown, "secret_content")
    except BaseException:
        file.close()
        raise
    return file


def digest_file(root: Path, path: str, check: Callable[[], None]) -> tuple[bytes, int, int]:
    """SHA-256, size and time in ms of a file; `check` is called after every part."""
    file = open_shown(root, path, look_inside=False)
    try:
        digest = hashlib.sha256()
        for part in file.read(0, file.size):
            digest.update(part)
            check()
        return digest.digest(), file.size, file.mtime_ns // 1_000_000
    finally:
        file.close()


def _contains_secret(file: ShownFile, identity: tuple[int, int, int, int]) -> bool:
    """Whether a text contains a secret; cached for as long as the file is the same."""
    known = _VERDICTS.get(identity)
    if known is None:
        known = _find_secret(file)
        while len(_VERDICTS) >= _MAX_VERDICTS:
            _VERDICTS.pop(next(iter(_VERDICTS)), None)
        _VERDICTS[identity] = known
    return known


def _find_secret(file: ShownFile) -> bool:
    tail, encoding = b"", ""
    for number, part in enumerate(file.read(0, file.size)):
        if number == 0:
            encoding = next((named for mark, named in MARKS if part.startswith(mark)), "")
            if not encoding and decode_text(part[:SNIFFED_BYTES]) is None:
                return False
        data = tail + part
        # a character that is cut in the middle hides nothing else
        text = data.decode(encoding, "replace") if encoding else decode_text(data)
        if text is None:
            text = data.decode("latin-1")
        if secret_in(text) is not None:
            return True
        tail = part[-_OVERLAP_BYTES:]
    return False


def _refuse(path: str, reason: str) -> FileNotAdmitted:
    return FileNotAdmitted(
        f"{path}: {reason}",
        user_message="'{path}' is not shown: {reason}.",
        next_action="Secrets, links and files with several hard links are never opened.",
        path=path,
        reason=REASONS[reason],
    )


_MAX_DOCUMENT_DEPTH = 40
_RULES = Rules()


def walk_documents(root: Path, most_bytes: int) -> Iterator[ListedFile | Skipped]:
    """Every file below a folder in the order of names, or why it is skipped; or one file."""
    gate = compile_rules(_RULES)
    is_file = root.is_file()
    # a folder that the user names may be called `build`, never `.ssh`
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
        return skip_unreadable(path, error)
    return data if len(data) <= most_bytes else Skipped(path, "too_large", "grew while read")


def _walk(
    folder: Folder, prefix: str, most_bytes: int, depth: int
) -> Iterator[ListedFile | Skipped]:
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
            if entry.name.startswith(".") or depth >= _MAX_DOCUMENT_DEPTH:
                continue
            try:
                with folder.enter(entry.name) as inner:
                    yield from _walk(inner, f"{path}/", most_bytes, depth + 1)
            except OSError as error:
                yield skip_unreadable(path, error)
        else:
            try:
                yield _judge(path, entry.stat(follow_symlinks=False), most_bytes)
            except OSError as error:
                yield skip_unreadable(path, error)


def _judge(path: str, facts: os.stat_result, most_bytes: int) -> ListedFile | Skipped:
    if not stat.S_ISREG(facts.st_mode):
        return Skipped(path, "special")
    if facts.st_size > most_bytes:
        return Skipped(path, "too_large", f"{facts.st_size} bytes")
    return ListedFile(path, facts.st_size, facts.st_mtime_ns)
