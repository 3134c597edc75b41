"""Parsing in a child process with limited memory and time.

The child reads requests from its standard input and answers on its standard output: a line with
the length of a JSON head, the head, then the file's bytes. It opens no file of the user's. A crash
costs one file only: the next one gets a new child.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import IO, Any

from sonde.knowledge.formats import File, RefusedFormat
from sonde.knowledge.retrieval import cut_pieces
from sonde.policy.secrets import redact_secrets
from sonde.runtime.processes import end_process, start_module
from sonde.stores.knowledge.base import Entry, Piece, Source
from sonde.types import Skipped


def redact_entry(entry: Entry) -> tuple[Entry, int]:
    """An entry with its secrets removed, and their number."""
    title, count = redact_secrets(entry.title)
    facts, more = _redact_value(dict(entry.facts))
    pieces: list[Piece] = []
    for field, group in groupby(entry.pieces, key=lambda piece: piece.field):
        parts = list(group)
        made, found = _redact_pieces(field, parts, len(pieces))
        pieces += made
        count += found
    if not count + more:
        return entry, 0
    return replace(entry, title=title, facts=facts, pieces=tuple(pieces)), count + more


def _redact_pieces(field: str, parts: list[Piece], place: int) -> tuple[list[Piece], int]:
    # a message or a spoken line stands alone; cut text may be cut in the middle of a key
    if any(part.uuid or part.sender or part.begins is not None for part in parts):
        made = [(part, *redact_secrets(part.text)) for part in parts]
        return [replace(part, text=text) for part, text, _ in made], sum(n for _, _, n in made)
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
"""Enough for the largest honest documents; a bomb fails in the child, not in the server."""
TIMEOUT_S = 60.0
"""For one file."""
FILES_PER_CHILD = 500
"""A child is replaced after this many files, because parsers leak memory."""
MAX_DETAIL_CHARS = 300
"""Of a library's error message."""


@dataclass(frozen=True, slots=True)
class ParseResult:
    """What a file contains."""

    entries: list[Entry]
    redacted: int
    """Secrets that were removed from them."""
    skipped: list[Skipped]
    """Members of an archive that were skipped."""


class Parsers:
    """Parses files in a child process, which is started on first use."""

    def __init__(self, *, memory: int = MEMORY_BYTES, seconds: float = TIMEOUT_S) -> None:
        self._memory = memory
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._done = 0

    def parse(self, file: File, wanted: Source | None = None) -> ParseResult:
        """What a file contains. Raises `RefusedFormat`."""
        if self._child is not None and self._done >= FILES_PER_CHILD:
            self.close()
        child = self._child = self._child or start_module(__name__, str(self._memory))
        head = {"path": file.path, "modified": file.modified, "wanted": wanted}
        head |= {"size": len(file.data), "beside": len(file.beside)}
        deadline = time.monotonic() + self._seconds
        try:
            answer = self._exchange(
                child, json.dumps(head).encode(), file.data + file.beside, deadline
            )
        except TimeoutError as error:
            self.close()
            raise RefusedFormat("too_slow", f"more than {self._seconds:g} seconds") from error
        except (OSError, EOFError, ValueError) as error:
            self.close()
            raise RefusedFormat("crashed", "the parser ended") from error
        self._done += 1
        if "refused" in answer:
            raise RefusedFormat(*answer["refused"])
        entries = [read_row(row) for row in answer["entries"]]
        skipped = [Skipped(*row) for row in answer["skipped"]]
        return ParseResult(entries, answer["redacted"], skipped)

    def close(self) -> None:
        """End the child."""
        child, self._child, self._done = self._child, None, 0
        if child is not None:
            end_process(child)

    def _exchange(
        self, child: subprocess.Popen[bytes], head: bytes, data: bytes, deadline: float
    ) -> Mapping[str, Any]:
        assert child.stdin
        assert child.stdout
        child.stdin.write(b"%d\n" % len(head) + head + data)
        child.stdin.flush()
        length = int(_read_line(child.stdout, deadline))
        answer: Mapping[str, Any] = json.loads(_read_exactly(child.stdout, length, deadline))
        return answer


def _read_line(pipe: IO[bytes], deadline: float) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += _read_some(pipe, 1, deadline)
    return line


def _read_exactly(pipe: IO[bytes], length: int, deadline: float) -> bytes:
    parts: list[bytes] = []
    while length:
        part = _read_some(pipe, min(length, 1 << 16), deadline)
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _read_some(pipe: IO[bytes], most: int, deadline: float) -> bytes:
    left = deadline - time.monotonic()
    # unbuffered: what select sees is all there is
    if left <= 0 or not select.select([pipe.fileno()], [], [], left)[0]:
        raise TimeoutError
    part = os.read(pipe.fileno(), most)
    if not part:
        raise EOFError
    return part


def read_row(row: Mapping[str, Any]) -> Entry:
    """An entry of its fields as JSON; unknown fields are a TypeError."""
    pieces = tuple(Piece(**piece) for piece in row["pieces"])
    return Entry(**{**row, "pieces": pieces, "tags": tuple(row["tags"])})


def _limit_self(memory: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has none; the time limit holds there too
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _answer(request: Mapping[str, Any], data: bytes, beside: bytes) -> Mapping[str, object]:
    from sonde.knowledge.formats.detect import parse_file

    file = File(request["path"], data, request["modified"], beside)
    try:
        left_out: list[Skipped] = []
        found = parse_file(file, request["wanted"], left_out)
        made = [redact_entry(entry) for entry in found]
        return {
            "entries": [asdict(entry) for entry, _ in made],
            "redacted": sum(count for _, count in made),
            "skipped": [(each.path, each.reason, each.detail) for each in left_out],
        }
    except RefusedFormat as error:
        return {"refused": [error.reason, error.detail[:MAX_DETAIL_CHARS]]}
    except MemoryError:
        return {"refused": ["too_large", "more memory than a parser may use"]}
    except RecursionError:
        return {"refused": ["hostile", "nested too deeply"]}
    except Exception as error:  # noqa: BLE001 - a library's defect is a refusal of this file
        return {"refused": ["broken", f"{type(error).__name__}: {error}"[:MAX_DETAIL_CHARS]]}


def run_child(memory: int) -> None:
    """Answer requests until the standard input ends."""
    import logging
    import warnings

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    _limit_self(memory)
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while line := stdin.readline():
        request = json.loads(stdin.read(int(line)))
        data, beside = stdin.read(request["size"]), stdin.read(request["beside"])
        answer = json.dumps(_answer(request, data, beside), default=str).encode()
        stdout.write(b"%d\n" % len(answer) + answer)
        stdout.flush()


if __name__ == "__main__":
    run_child(int(sys.argv[1]))
