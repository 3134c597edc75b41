"""Reading the files of a project to index or search them.

A file on the deny list is never opened, not even to look at its first bytes. Each folder on the way
and the file itself are opened without following links, so that what was checked is what is read.

A file with more than one hard link is refused unless `Rules.hard_links` is set: another of its
names may be outside the project or that of a secret, and the system does not say which.
"""

from __future__ import annotations

import hashlib
import os
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from sonde.policy.admit import Source, compile_rules, has_binary_suffix
from sonde.policy.roots import (
    Folder,
    clamp_mtime,
    open_root,
    show_path,
    skip_unreadable,
    split_inside,
)
from sonde.policy.secrets import secret_in
from sonde.types import Skipped

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
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    # Old Western text has next to no control characters, binary data about one byte in ten.
    if len(data.translate(None, _PRINTED)) * 500 > len(data):
        return None
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def encode_text(data: bytes) -> bytes | None:
    """The text of a file's bytes as UTF-8, mostly unchanged; None if it is not text."""
    if not data.startswith(_MARKED) and b"\0" not in data[:SNIFFED_BYTES]:
        if data.isascii():
            return data
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            pass
        else:
            return data
    text = decode_text(data)
    return None if text is None else text.encode("utf-8", "surrogatepass")


_SPECIAL_NAMES = frozenset(("", ".", ".."))
"""Names that need `split_inside`; a path without them is just its names."""


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file as it was when it was read; `hash` is the SHA-256 of its bytes, in hex."""

    path: str
    text: str
    hash: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class FileText:
    """A file's text as UTF-8, without a byte order mark, and the file's own size and time."""

    path: str
    data: bytes
    size: int
    mtime_ns: int


class FileReader:
    """Reads files of one source, best in the order of their paths: folders stay open for the next
    file. Use it in a `with`, and only for a moment.

    Applies every rule that protects. Ignore files, `include` and `exclude` only choose files; they
    are left to `walk.check_path`.
    """

    def __init__(self, source: Source, *, read: Callable[[int, int], bytes] = os.read) -> None:
        self._read_bytes = read
        self._source = source
        self._gate = compile_rules(source.rules)
        self._names: list[str] = []
        """Names on the way to the innermost open folder."""
        self._open: list[Folder] = []

    def read(self, path: str) -> FileContent | Skipped:
        """The text of the file at this path below the source, or why it is skipped."""
        taken = self._take(path)
        if isinstance(taken, Skipped):
            return taken
        named, data, facts = taken
        text = decode_text(data)
        if text is None:
            return Skipped(named, "binary")
        if secret := secret_in(text):
            return Skipped(named, "secret_content", secret)
        digest = hashlib.sha256(data).hexdigest()
        return FileContent(named, text, digest, len(data), clamp_mtime(facts))

    def read_utf8(self, path: str, *, vouched: tuple[int, int] | None = None) -> FileText | Skipped:
        """The file as UTF-8 and without a hash, to search its bytes.

        `vouched` is the size and time of a state whose content was admitted before: a file that an
        index has read, unchanged since, is not searched for secrets again.
        """
        taken = self._take(path)
        if isinstance(taken, Skipped):
            return taken
        named, data, facts = taken
        text = encode_text(data)
        if text is None:
            return Skipped(named, "binary")
        if vouched != (len(data), facts.st_mtime_ns) and (
            secret := secret_in(text.decode("utf-8", "surrogatepass"))
        ):
            return Skipped(named, "secret_content", secret)
        return FileText(named, text, len(data), facts.st_mtime_ns)

    def close(self) -> None:
        """Close every folder; the next read opens them again."""
        self._names.clear()
        while self._open:
            self._open.pop().close()

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
        self._leave(names)
        refusal = self._refuse(names)
        if refusal is not None:
            return Skipped(named, *refusal)
        try:
            descriptor, facts = self._enter(names[:-1]).open_file(names[-1])
        except OSError as error:
            return skip_unreadable(named, error)
        data = self._read_opened(named, descriptor, facts)
        return data if isinstance(data, Skipped) else (named, data, facts)

    def _leave(self, names: list[str]) -> None:
        """Close folders that are not on the way to these names."""
        shared = 0
        for one, other in zip(self._names, names[:-1], strict=False):
            if one != other:
                break
            shared += 1
        del self._names[shared:]
        while len(self._open) > shared + 1:
            self._open.pop().close()

    def _refuse(self, names: list[str]) -> tuple[str, str] | None:
        """Why the names are refused; those of open folders have passed."""
        for index in range(len(self._names), len(names)):
            denial = self._gate.find_denial(names[index], folder=index < len(names) - 1)
            if denial is not None:
                return "denied", denial
        depth = self._source.rules.max_depth
        if len(names) - 1 > depth:
            return "too_deep", f"more than {depth} folders deep"
        return ("binary", "") if has_binary_suffix(names[-1]) else None

    def _enter(self, folders: list[str]) -> Folder:
        if not self._open:
            self._open.append(open_root(self._source.root))
        for name in folders[len(self._names) :]:
            self._open.append(self._open[-1].enter(name))
            self._names.append(name)
        return self._open[-1]

    def _read_opened(self, path: str, descriptor: int, facts: os.stat_result) -> bytes | Skipped:
        """All bytes of an open file, or why it is skipped; closes it."""
        rules = self._source.rules
        try:
            if facts.st_nlink > 1 and not rules.hard_links:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
