"""Opens a user's file: the only place that does, besides the ignore files.

What is on the deny list is not opened, not even to look at its first bytes. Each folder on the way
and the file itself are opened without following links, so that what was checked is what is read.

A file with more than one hard link is refused unless `Rules.hard_links` is set: one of its names
may be a file outside the project or a secret's, and the system does not tell which.
"""

from __future__ import annotations

import hashlib
import os
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from dataclasses import dataclass
from pathlib import Path

from sonde.policy.admit import Rules, compile_rules, has_binary_suffix
from sonde.policy.folder import open_below, tell_reason, tell_time
from sonde.policy.roots import show_path, split_inside
from sonde.policy.secrets import secret_in
from sonde.types import Skipped

_SNIFFED = 8192
# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (BOM_UTF8, "utf-8"),
    (BOM_UTF32_LE, "utf-32-le"),
    (BOM_UTF32_BE, "utf-32-be"),
    (BOM_UTF16_LE, "utf-16-le"),
    (BOM_UTF16_BE, "utf-16-be"),
)
_PRINTED = bytes(set(range(256)) - set(range(32)) - {127} | set(b"\t\n\v\f\r\x1b"))


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file as it was when it was read; `hash` is the SHA-256 of its bytes, in hex."""

    path: str
    text: str
    hash: str
    size: int
    mtime_ns: int


def read_file(root: Path, path: str, rules: Rules) -> FileContent | Skipped:
    """The text of an admitted file, or why it is left out.

    Asks all that a name and the file itself can tell. Ignore files, `include` and `exclude` are
    the business of `walk.check_path`: they choose, they do not protect.
    """
    names = split_inside(root, path)
    relative = "/".join(names)
    if show_path(relative) != relative:
        return Skipped(show_path(relative), "bad_name")
    refusal = _refuse_names(names, rules)
    if refusal is not None:
        return Skipped(relative, *refusal)
    try:
        descriptor, facts = open_below(root, names)
    except OSError as error:
        return Skipped(relative, tell_reason(error), error.strerror or "")
    data = read_opened(relative, descriptor, facts, rules)
    if isinstance(data, Skipped):
        return data
    text = decode_text(data)
    if text is None:
        return Skipped(relative, "binary")
    secret = secret_in(text)
    if secret is not None:
        return Skipped(relative, "secret_content", secret)
    digest = hashlib.sha256(data).hexdigest()
    return FileContent(relative, text, digest, len(data), tell_time(facts))


def read_opened(path: str, descriptor: int, facts: os.stat_result, rules: Rules) -> bytes | Skipped:
    """All bytes of a file that was opened, or why they are left out; closes it."""
    try:
        if facts.st_nlink > 1 and not rules.hard_links:
            return Skipped(path, "hard_link")
        if facts.st_size > rules.max_file_bytes:
            return Skipped(path, "too_large", f"{facts.st_size} bytes")
        data = _read_up_to(descriptor, facts.st_size + 1, rules.max_file_bytes + 1)
    except OSError as error:
        return Skipped(path, tell_reason(error), error.strerror or "")
    finally:
        os.close(descriptor)
    if len(data) > rules.max_file_bytes:
        return Skipped(path, "too_large", "grew while it was read")
    return data


def decode_text(data: bytes) -> str | None:
    """The text of a file's bytes, without its byte order mark; None when it is not text."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                break
    if b"\0" in data[:_SNIFFED]:
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


def _refuse_names(names: tuple[str, ...], rules: Rules) -> tuple[str, str] | None:
    gate = compile_rules(rules)
    if not names:
        return "folder", ""
    for left, name in zip(range(len(names) - 1, -1, -1), names, strict=True):
        denial = gate.find_denial(name, folder=left > 0)
        if denial is not None:
            return "denied", denial
    if len(names) - 1 > rules.max_depth:
        return "too_deep", f"more than {rules.max_depth} folders deep"
    return ("binary", "") if has_binary_suffix(names[-1]) else None


def _read_up_to(descriptor: int, expected: int, limit: int) -> bytes:
    data = os.read(descriptor, min(expected, limit))
    if len(data) < expected <= limit:
        return data  # one byte less than asked for: that was all
    parts = [data]
    limit -= len(data)
    while limit > 0 and (part := os.read(descriptor, limit)):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)
