"""Run by the crash test: writes batches for ever and says which of them are acknowledged."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np

from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.types import Chunk, FileState, ParsedFile, Span

FILES = 5


def make_file(number: int, turn: int) -> ParsedFile:
    """File `number` as it is in a turn: some chunks stay the same, one is new."""
    path = f"f{number}.py"
    texts = ["the same in every turn\n", f"turn {turn} word{turn}\n"]
    chunks, place = [], 0
    for line, text in enumerate(texts, 1):
        chunks.append(Chunk(path, text, Span(line, line, place, place + len(text)), path))
        place += len(text)
    return ParsedFile(FileState(path, f"{turn:064x}", place, turn, "python", "code"), tuple(chunks))


def main() -> None:
    store = SqliteChunkStore(Path(sys.argv[1]), "code")
    for turn in itertools.count(int(sys.argv[2])):
        batch = [make_file(number, turn) for number in range(FILES)]
        store.replace(batch)
        print("replaced", turn, flush=True)
        digests = [chunk.digest for file in batch for chunk in file.chunks]
        rows = np.random.default_rng(turn).standard_normal((len(digests), 32)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        store.put_vectors("m", digests, rows)
        print("embedded", turn, flush=True)
        if turn % 5 == 4:
            store.compact()


if __name__ == "__main__":
    main()
