"""Reading files: those of a project to index or search them, and those that a user names.

A file on the deny list is never opened, not even to look at its first bytes. Each folder on the way
and the file itself are opened without following links, so that what was checked is what is read.
A file with several hard links is read only if it belongs to the owner of the project's folder: its
other names may be anywhere, but then nobody linked another user's file into the project. What it
contains is checked like any other text.

A file that is named to be shown, compared or imported may be binary, large or in a folder of
dependencies, but the protection is the same: never a secret of the deny list, never through a link,
never a file with several hard links, never text that contains a secret.
"""

from __future__ import annotations

import hashlib
import os
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sonde.errors import FileMissing, FileNotAdmitted
from sonde.policy.admit import REASONS, Source, compile_rules, find_denied
from sonde.policy.deny_list import has_binary_suffix
from sonde.policy.roots import (
    OpenPath,
    clamp_mtime,
    open_below,
    show_path,
    skip_unreadable,
    split_inside,
    stamp_file,
)
from sonde.policy.secrets import secret_in_bytes, withhold_secrets
from sonde.text.encodings import decode_legacy
from sonde.types import FileContent, FileText, Skipped

_PART_BYTES = 1 << 20  # large enough for the disk, small enough for memory
_OVERLAP_BYTES = 1 << 14
"""Overlap of parts: longer than any known secret, so that none is missed between two."""
_LOOK_BYTES = 1 << 23
"""Bytes scanned for secrets before anything is shown (30 ms); the rest is scanned when read."""
SNIFFED_BYTES = 8192
"""A NUL among this many first bytes means that a file is binary, as in git."""
# UTF-32 first: its little-endian mark begins with that of UTF-16.
MARKS = (
    (BOM_UTF8, "utf-8"),
    (BOM_UTF32_LE, "utf-32-le"),
    (BOM_UTF32_BE, "utf-32-be"),
    (BOM_UTF16_LE, "utf-16-le"),
    (BOM_UTF16_BE, "utf-16-be"),
)
_MARKED = tuple(mark for mark, _ in MARKS)
_PRINTED = bytes(set(range(256)) - set(range(32)) - {127} | set(b"\t\n\v\f\r\x1b"))


def decode_text(data: bytes) -> str | None:
    """The text of a file's bytes without a byte order mark; None if it is not text."""
    for mark, encoding in MARKS:
        if data.startswith(mark):
            try:
                return data[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                break
    if b"\0" in data[:SNIFFED_BYTES]:
        return None
    with suppress(UnicodeDecodeError):
        return data.decode("utf-8")
    # Old text has next to no control characters, binary data about one byte in ten.
    if len(data.translate(None, _PRINTED)) * 500 > len(data):
        return None
    return decode_legacy(data)


def encode_text(data: bytes) -> bytes | None:
    """The text of a file's bytes as UTF-8, mostly unchanged; None if it is not text."""
    if not data.startswith(_MARKED) and b"\0" not in data[:SNIFFED_BYTES]:
        if data.isascii():
            return data
        with suppress(UnicodeDecodeError):
            data.decode("utf-8")
            return data
    text = decode_text(data)
    return None if text is None else text.encode("utf-8", "surrogatepass")


_SPECIAL_NAMES = frozenset(("", ".", ".."))
"""Names that need `split_inside`; any other path can be split at its slashes."""


class FileReader(OpenPath):
    """Reads files of one source, best in the order of their paths.

    Applies every rule that protects. Ignore files, `include` and `exclude` only choose files; they
    are left to `walk.check_path`.
    """

    def __init__(self, source: Source, *, read: Callable[[int, int], bytes] = os.read) -> None:
        super().__init__(source.root)
        self._read_bytes = read
        self._source = source
        self._gate = compile_rules(source.rules)

    def read(self, path: str) -> FileContent | Skipped:
        """The text of the file at this path below the source, or why it is skipped."""
        taken = self._take(path)
        if isinstance(taken, Skipped):
            return taken
        named, data, facts = taken
        text = decode_text(data)
        if text is None:
            return Skipped(named, "binary")
        shown, secret = self._withhold(text, path)
        if shown is None:
            return Skipped(named, "secret_content", secret)
        digest, mtime_ns = hashlib.sha256(data).hexdigest(), clamp_mtime(facts)
        return FileContent(named, shown, digest, len(data), mtime_ns, stamp_file(facts), secret)

    def read_utf8(self, path: str, *, raw: bool = False) -> FileText | Skipped:
        """The file as UTF-8 and without a hash, to search its bytes. A `raw` text may contain
        secrets: it is only counted, never shown."""
        taken = self._take(path)
        if isinstance(taken, Skipped):
            return taken
        named, data, facts = taken
        text = encode_text(data)
        if text is None:
            return Skipped(named, "binary")
        if not raw:
            shown, secret = self._withhold(text.decode("utf-8", "surrogatepass"), path)
            if shown is None:
                return Skipped(named, "secret_content", secret)
            text = shown.encode("utf-8", "surrogatepass")
        return FileText(named, text, len(data), facts.st_mtime_ns, stamp_file(facts))

    def _withhold(self, text: str, path: str) -> tuple[str | None, str]:
        return (text, "") if self._gate.allows(path) else withhold_secrets(text, path)

    def _take(self, path: str) -> tuple[str, bytes, os.stat_result] | Skipped:
        """The file's name in the project, its bytes and its metadata."""
        names = path.split("/")
        is_plain = path.isascii() and _SPECIAL_NAMES.isdisjoint(names)
        if not is_plain or "\0" in path or "\\" in path:
            names = list(split_inside(self._source.root, path))
        relative = "/".join(names)
        named = self._source.prefix + relative
        if show_path(relative) != relative:
            return Skipped(show_path(named), "bad_name")
        if not names:
            return Skipped(named, "folder")
        self._leave(names[:-1])
        if (refusal := self._refuse(names)) is not None:
            return Skipped(named, *refusal)
        try:
            for name in names[len(self._names) : -1]:
                self._enter(name)
            folder = self._innermost()
            descriptor, facts = folder.open_file(folder.spell(names[-1]))
        except OSError as error:
            return skip_unreadable(named, error)
        data = self._read_opened(named, descriptor, facts)
        return data if isinstance(data, Skipped) else (named, data, facts)

    def _refuse(self, names: list[str]) -> tuple[str, str] | None:
        """Why the names are refused; those of open folders have passed."""
        for index in range(len(self._names), len(names)):
            folder, at = index < len(names) - 1, "/".join(names[: index + 1])
            if (denial := self._gate.find_denial(names[index], folder=folder, path=at)) is not None:
                return "denied", denial
        depth = self._source.rules.max_depth
        if len(names) - 1 > depth:
            return "too_deep", f"more than {depth} folders deep"
        return ("binary", "") if has_binary_suffix(names[-1]) else None

    def _read_opened(self, path: str, descriptor: int, facts: os.stat_result) -> bytes | Skipped:
        """All bytes of an open file, or why it is skipped; closes it."""
        rules = self._source.rules
        try:
            if facts.st_nlink > 1 and facts.st_uid != rules.owner:
                return Skipped(path, "hard_link")
            if facts.st_size > rules.max_file_bytes:
                return Skipped(path, "too_large", f"{facts.st_size} bytes")
            data = self._read_up_to(descriptor, facts.st_size + 1, rules.max_file_bytes + 1)
        except OSError as error:
            return skip_unreadable(path, error)
        finally:
            os.close(descriptor)
        if len(data) > rules.max_file_bytes:
            return Skipped(path, "too_large", "grew while it was read")
        return data

    def _read_up_to(self, descriptor: int, expected: int, limit: int) -> bytes:
        data = self._read_bytes(descriptor, min(expected, limit))
        if len(data) < expected <= limit:
            return data  # one byte less than requested: that was all
        parts = [data]
        limit -= len(data)
        while limit > 0 and (part := self._read_bytes(descriptor, limit)):
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class ShownFile:
    """An open file whose parts are scanned for secrets before they are returned."""

    descriptor: int
    size: int
    mtime_ns: int
    path: str
    unseen_from: int
    """Where the part begins that was not scanned for secrets when the file was opened."""

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """Its bytes from `start` to before `end`; raises `FileNotAdmitted` at a secret. Each part
        is looked through with what is around it, so the work is bounded by what is read."""
        while start < end:
            stop = min(start + _PART_BYTES, end)
            first = start
            if stop > self.unseen_from:
                first = max(start - _OVERLAP_BYTES, 0)
                window = self._read_at(first, min(stop + _OVERLAP_BYTES, self.size))
                if _contains_secret(window, self.path):
                    raise _refuse_shown(self.path, "secret_content")
            else:
                window = self._read_at(start, stop)
            part = window[start - first : stop - first]
            if not part:
                return
            start += len(part)
            yield part

    def _read_at(self, start: int, end: int) -> bytes:
        os.lseek(self.descriptor, start, os.SEEK_SET)
        return os.read(self.descriptor, max(end - start, 0))

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


def may_show(names: Sequence[str]) -> bool:
    """Whether no name on the way to a file is in the deny list's rows of secrets."""
    return find_denied("/".join(names), secrets_only=True) is None


def open_shown(root: Path, path: str, *, look_inside: bool = True) -> ShownFile:
    """Open a file below a root; raises `FileMissing`, or `FileNotAdmitted` if it may not be shown.

    `look_inside` also refuses a file with a secret in its beginning, and reading on stops at one.
    """
    names = split_inside(root, path)
    shown = show_path("/".join(names))
    if not names or not may_show(names):
        raise _refuse_shown(shown, "denied" if names else "folder")
    try:
        descriptor, facts = open_below(root, names)
    except OSError as error:
        reason = skip_unreadable(shown, error).reason
        if reason == "missing":
            raise FileMissing(f"{shown}: {error.strerror}", path=shown) from error
        raise _refuse_shown(shown, reason) from error
    size = facts.st_size
    file = ShownFile(descriptor, size, facts.st_mtime_ns, shown, 0 if look_inside else size)
    try:
        if facts.st_nlink > 1:
            raise _refuse_shown(shown, "hard_link")
        if not look_inside:
            return file
        for _ in file.read(0, min(size, _LOOK_BYTES)):
            pass
        return replace(file, unseen_from=min(size, _LOOK_BYTES))
    except BaseException:
        file.close()
        raise


def digest_file(root: Path, path: str, check: Callable[[], None]) -> tuple[bytes, int, int]:
    """SHA-256, size and time in ms of a file; `check` is called after every part."""
    digest = hashlib.sha256()
    with closing(open_shown(root, path, look_inside=False)) as file:
        for part in file.read(0, file.size):
            digest.update(part)
            check()
        return digest.digest(), file.size, file.mtime_ns // 1_000_000


def _contains_secret(data: bytes, path: str) -> bool:
    """Whether bytes contain a secret in any encoding that writes ASCII as ASCII, with or without
    NULs between (UTF-16, UTF-32, either order of bytes, marked or not)."""
    views = [data, data.replace(b"\0", b"")] if b"\0" in data else [data]
    return any(secret_in_bytes(view, path) is not None for view in views)


def _refuse_shown(path: str, reason: str) -> FileNotAdmitted:
    return FileNotAdmitted(
        f"{path}: {reason}",
        user_message=f"'{path}' is not shown: {REASONS[reason]}.",
        next_action="Secrets, links and files with several hard links are never opened.",
    )


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


def read_document_parts(root: Path, path: str, part_bytes: int) -> Iterator[bytes]:
    """The bytes of a file in parts, if it is too large to read whole. Raises `OSError`."""
    base = root.parent if root.is_file() else root
    descriptor, _ = open_below(base, split_inside(base, path))
    with os.fdopen(descriptor, "rb") as file:
        while part := file.read(part_bytes):
            yield part
