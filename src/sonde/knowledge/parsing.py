"""Parsing of files into entries, in a child process with limited memory and time.

The child reads requests from its standard input: the length of a JSON head in eight bytes, the
head, then the file's bytes. It writes rows of JSON to its standard output, each preceded by its
length: the pieces of an entry in one or more rows, its head, and last a row with the outcome. The
parent collects the rows in a temporary file, so that neither side holds all entries of a large
file. The child opens none of the user's files. A crash costs one file: the next one gets a new
child.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import groupby, islice
from operator import attrgetter
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from sonde.knowledge.formats import (
    MAX_UNPACKED_BYTES,
    File,
    RefusedFormat,
    open_archive,
    read_member,
)
from sonde.knowledge.formats.messengers import PEOPLE
from sonde.knowledge.formats.parsers import PICTURES, find_parser
from sonde.knowledge.formats.pdf import SCAN_SECONDS, has_tesseract
from sonde.knowledge.identity import digest_text
from sonde.knowledge.retrieval import cut_pieces
from sonde.policy.admit import find_denied
from sonde.policy.roots import show_path
from sonde.policy.secrets import redact_secrets
from sonde.runtime.processes import end_process, start_module
from sonde.runtime.system import OUT_OF_TIME, limit_process, limit_time
from sonde.stores.knowledge.base import Entry, Piece, Source
from sonde.text.encodings import to_utf8
from sonde.types import Skipped

MAX_NESTED_ARCHIVES = 1  # Notion exports archives in an archive; deeper nesting is a bomb
_QUOTED = re.compile(r"[!#]")  # separators of the parts of a key
_OWN = re.compile(r"(?:^|/)(?:logseq/(?:bak|\.recycle)|\.obsidian|\.trash)/|(?:^|/)logseq/[^/]+$")
"""Files of note programs that are not notes."""


def parse_file(
    file: File, wanted: Source | None = None, left_out: list[Skipped] | None = None
) -> list[Entry]:
    """The entries of a file; with `wanted`, all under that source.

    Skipped members of an archive are added to `left_out`.
    """
    return list(stream_entries(file, wanted, left_out))


def stream_entries(
    file: File, wanted: Source | None = None, left_out: list[Skipped] | None = None, *,
    is_nested: bool = False,
) -> Iterator[Entry]:  # fmt: skip
    """The entries of `parse_file` one by one. If it raises, the whole file is refused."""
    if file.suffix == "zip":
        left = [] if left_out is None else left_out
        yield from _parse_archive(file, wanted, left, [MAX_UNPACKED_BYTES])
        return
    if not file.data or file.data.isspace():
        raise RefusedFormat("no_text", "the file is empty")
    if _OWN.search(file.path):
        raise RefusedFormat("unknown", "belongs to the program")
    file = replace(file, data=to_utf8(file.data), nested=None if is_nested else _parse_nested)
    try:
        for entry in find_parser(file, wanted)(file):
            if wanted and entry.source != wanted:
                raise RefusedFormat("unknown", f"not among {wanted}")
            path = _QUOTED.sub(lambda found: f"%{ord(found[0]):02X}", entry.path)
            yield replace(entry, path=path)
    except (RefusedFormat, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except RecursionError as error:
        raise RefusedFormat("hostile", "nested too deeply") from error
    except ImportError as error:
        raise RefusedFormat("missing_extra", "documents") from error
    except BaseException as error:  # a panic of calamine is no `Exception`
        raise RefusedFormat("broken", f"{type(error).__name__}: {error}") from error
    if left_out is not None:
        left_out += dict.fromkeys(file.left_out)  # once each, though some files are read twice


def _parse_nested(file: File) -> list[Entry]:
    """The entries of an attachment."""
    if file.suffix == "zip":
        raise RefusedFormat("unknown", "an archive in a file")
    return list(stream_entries(file, is_nested=True))


def _parse_archive(
    file: File, wanted: Source | None, left_out: list[Skipped], room: list[int], depth: int = 0
) -> Iterator[Entry]:
    """The entries of all members in a known format, except pictures.

    Nested archives share `room`, the bytes that may still be unpacked.
    """
    is_known = False
    with open_archive(file.data, room[0]) as archive:
        room[0] -= sum(member.file_size for member in archive.infolist())
        for name in sorted(archive.namelist()):
            inner = File(name, b"", file.modified)
            if name.endswith("/"):
                continue
            try:
                if denial := find_denied(name.replace("\\", "/")):
                    raise RefusedFormat("denied", denial)
                if not inner.suffix or inner.suffix in PICTURES:
                    raise RefusedFormat("unknown", "not read in archives: unpack it")
                if inner.suffix == "zip" and depth >= MAX_NESTED_ARCHIVES:
                    raise RefusedFormat("hostile", "archives in archives in archives")
                people = posixpath.join(posixpath.dirname(posixpath.dirname(name)), PEOPLE)
                known = people in archive.NameToInfo and inner.suffix == "json"
                beside = read_member(archive, people) if known else b""
                place = f"{file.path}/{name}"
                inner = File(place, read_member(archive, name), file.modified, beside)
                if inner.suffix == "zip":
                    found = list(_parse_archive(inner, wanted, left_out, room, depth + 1))
                else:
                    found = parse_file(inner, wanted, left_out)
            except RefusedFormat as error:
                place = show_path(f"{file.path}/{name}")
                left_out.append(Skipped(place, error.reason, error.detail))
                continue
            is_known = is_known or bool(found)
            yield from (replace(each, path=f"{name}!{each.path}") for each in found)
    if not is_known:
        first = [f": {each.path} {each.detail or each.reason}" for each in left_out[:1]]
        raise RefusedFormat("unknown", "nothing known in the archive" + "".join(first))


def redact_entry(entry: Entry) -> tuple[Entry, int]:
    """An entry with its secrets removed, and their number."""
    title, count = redact_secrets(entry.title)
    facts, more = _redact_value(dict(entry.facts))
    pieces: list[Piece] = []
    for field, group in groupby(entry.pieces, key=lambda piece: piece.field):
        made, found = _redact_pieces(field, list(group), len(pieces))
        pieces += made
        count += found
    if not count + more:
        return entry, 0
    return replace(entry, title=title, facts=facts, pieces=tuple(pieces)), count + more


def _redact_pieces(field: str, parts: list[Piece], place: int) -> tuple[list[Piece], int]:
    # messages and spoken lines are whole; a text may be cut in the middle of a secret
    if any(part.uuid or part.sender or part.begins is not None for part in parts):
        made = [(part, *redact_secrets(part.text)) for part in parts]
        count = sum(n for _, _, n in made)
        return [replace(part, text=text) if n else part for part, text, n in made], count
    text, count = redact_secrets("".join(part.text for part in parts))
    return (list(cut_pieces(text, field, place)), count) if count else (parts, 0)


def _redact_value(value: Any) -> tuple[Any, int]:
    if isinstance(value, str):
        return redact_secrets(value)
    if isinstance(value, Mapping):
        made = {key: _redact_value(each) for key, each in value.items()}
        return {key: each for key, (each, _) in made.items()}, sum(n for _, n in made.values())
    if isinstance(value, list | tuple):
        rows = [_redact_value(each) for each in value]
        return [each for each, _ in rows], sum(n for _, n in rows)
    return value, 0


MEMORY_BYTES = 2 << 30
"""Enough for the largest real documents; a bomb fails in the child, not in the server."""
TIMEOUT_S = 60.0  # CPU time for one file
WAIT_FACTOR = 10  # elapsed to CPU time: the machine may be busy with other work
SCANNED = ("pdf", *PICTURES)  # formats that get more time, since tesseract may have to read them
FILES_PER_CHILD = 500  # then the child is replaced, because parsers leak memory
PIECES_PER_ROW = 10_000  # a chat may have a million pieces
MAX_ROWS_IN_MEMORY = 8 << 20  # bytes of entries; more go to a temporary file
_HEAD = tuple(each.name for each in fields(Entry) if each.name != "pieces")
_list_piece = attrgetter(*(each.name for each in fields(Piece)))
MAX_DETAIL_CHARS = 300  # of a library's error message


@dataclass(frozen=True, slots=True)
class ParseResult:
    """The entries of a parsed file."""

    heads: list[Entry]
    """Source, key and digest (`hash`) of each entry."""
    redacted: int
    """The number of secrets removed."""
    skipped: list[Skipped]
    """Skipped members of an archive."""
    rows: IO[bytes]
    """The entries as the child sent them."""

    def read(self) -> Iterator[Entry]:
        """The entries, one at a time."""
        self.rows.seek(0)
        pieces: list[Piece] = []
        while length := self.rows.read(8):
            row = json.loads(self.rows.read(int.from_bytes(length, "big")))
            if isinstance(row, list):
                pieces += (Piece(*each) for each in row)
            else:
                yield Entry(**{**row, "pieces": tuple(pieces), "tags": tuple(row["tags"])})
                pieces = []


class Parsers:
    """Parses files in a child process, which is started on first use."""

    def __init__(self, *, memory: int = MEMORY_BYTES, seconds: float = TIMEOUT_S) -> None:
        self._memory = memory
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._done = 0
        self._rows: SpooledTemporaryFile[bytes] | None = None

    def parse(self, file: File, wanted: Source | None = None) -> ParseResult:
        """Parse a file; read the result before the next call. Raises `RefusedFormat`."""
        if self._child is not None and self._done >= FILES_PER_CHILD:
            self.close()
        limits = str(self._memory), str(self._seconds)
        child = self._child = self._child or start_module(__name__, *limits)
        head = {"path": file.path, "modified": file.modified, "wanted": wanted}
        head |= {"named": file.is_named, "size": len(file.data), "beside": len(file.beside)}
        packed = json.dumps(head).encode()
        scans = SCAN_SECONDS if file.suffix in SCANNED and has_tesseract() else 0.0
        deadline = time.monotonic() + self._seconds * WAIT_FACTOR + scans
        rows = self._rows = self._rows or SpooledTemporaryFile(MAX_ROWS_IN_MEMORY)  # noqa: SIM115
        rows.seek(0)
        rows.truncate()
        assert child.stdin
        assert child.stdout
        try:
            for part in (len(packed).to_bytes(8, "big"), packed, file.data, file.beside):
                child.stdin.write(part)
            child.stdin.flush()
            result = collect_rows(_read_rows(child.stdout.fileno(), deadline), rows)
        except (OSError, EOFError, ValueError) as error:
            self.close()
            if isinstance(error, TimeoutError) or child.returncode == -OUT_OF_TIME:
                raise RefusedFormat("too_slow", f"more than {self._seconds:g} seconds") from error
            raise RefusedFormat("crashed", "the parser ended") from error
        self._done += 1
        if isinstance(result, RefusedFormat):
            raise result
        return result

    def close(self) -> None:
        """End the child."""
        child, self._child, self._done = self._child, None, 0
        rows, self._rows = self._rows, None
        if child is not None:
            end_process(child)
        if rows is not None:
            rows.close()


def collect_rows(rows: Iterable[bytes], kept: IO[bytes]) -> ParseResult | RefusedFormat:
    """The outcome of an answer; the rows of its entries are written to `kept`."""
    heads: list[Entry] = []
    for packed in rows:
        answer = json.loads(packed) if packed.startswith(b"{") else {}
        if "source" in answer:
            names = ("source", "path", "hash")
            heads.append(Entry(title="", **{name: answer[name] for name in names}))
        elif "refused" in answer:
            return RefusedFormat(*answer["refused"])
        elif answer:
            skipped = [Skipped(*row) for row in answer["skipped"]]
            return ParseResult(heads, answer["redacted"], skipped, kept)
        kept.write(len(packed).to_bytes(8, "big") + packed)
    raise EOFError


def _read_rows(descriptor: int, deadline: float) -> Iterator[bytes]:
    """The rows in a pipe, until a deadline."""
    had = bytearray()

    def read(length: int) -> bytes:
        while len(had) < length:
            left = deadline - time.monotonic()
            # read unbuffered, since select does not see what a buffer holds
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise TimeoutError
            part = os.read(descriptor, 1 << 16)
            if not part:
                raise EOFError
            had.extend(part)
        data = bytes(had[:length])
        del had[:length]
        return data

    while True:
        yield read(int.from_bytes(read(8), "big"))


def unpack_entry(row: Mapping[str, Any]) -> Entry:
    """The entry with these fields of JSON. Raises `TypeError` for an unknown field."""
    pieces = tuple(Piece(**piece) for piece in row["pieces"])
    return Entry(**{**row, "pieces": pieces, "tags": tuple(row["tags"])})


def answer_request(request: Mapping[str, Any], data: bytes, beside: bytes) -> Iterator[bytes]:
    """The answer to a request, row by row."""
    file = File(request["path"], data, request["modified"], beside, is_named=request["named"])
    for row in _list_rows(file, request["wanted"]):
        yield json.dumps(row, default=str).encode()


def _list_rows(file: File, wanted: Source | None) -> Iterator[Mapping[str, object] | list[Any]]:
    left_out: list[Skipped] = []
    redacted = 0
    try:
        for found in stream_entries(file, wanted, left_out):
            entry, count = redact_entry(found)
            redacted += count
            pieces = iter(entry.pieces)
            while more := [_list_piece(piece) for piece in islice(pieces, PIECES_PER_ROW)]:
                yield more
            yield {name: getattr(entry, name) for name in _HEAD} | {"hash": digest_text(entry)}
        rows = [(each.path, each.reason, each.detail) for each in left_out]
        yield {"redacted": redacted, "skipped": rows}
    except RefusedFormat as error:
        yield {"refused": [error.reason, error.detail[:MAX_DETAIL_CHARS]]}
    except MemoryError:
        yield {"refused": ["too_large", "more memory than a parser may use"]}
    except Exception as error:  # noqa: BLE001 - a library's defect is a refusal of this file
        yield {"refused": ["broken", f"{type(error).__name__}: {error}"[:MAX_DETAIL_CHARS]]}


def run_child(memory: int, seconds: float) -> None:
    """Answer requests until the standard input ends."""
    import logging
    import warnings

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    limit_process(memory)
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while length := stdin.read(8):
        request = json.loads(stdin.read(int.from_bytes(length, "big")))
        data, beside = stdin.read(request["size"]), stdin.read(request["beside"])
        limit_time(seconds)
        for packed in answer_request(request, data, beside):
            stdout.write(len(packed).to_bytes(8, "big") + packed)
        stdout.flush()


if __name__ == "__main__":
    run_child(int(sys.argv[1]), float(sys.argv[2]))
