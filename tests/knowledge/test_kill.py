"""Nothing that was stored is lost when the process is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sonde.stores.knowledge.sqlite import SqliteKnowledge

WRITER = """
import sys
from pathlib import Path
from sonde.stores.knowledge.base import Entry, Piece
from sonde.stores.knowledge.sqlite import SqliteKnowledge
import numpy as np
store = SqliteKnowledge(Path(sys.argv[1]))
for number in range(100_000):
    (key,) = store.put("notes", [Entry("notes", f"n{number}", (Piece("walrus"), Piece("x", 1)))])
    bare = store.list_bare("notes", "m", 10)
    store.put_vectors("notes", "m", [b.piece.number for b in bare], np.ones((len(bare), 8), "f4"))
    print(key, flush=True)
"""


@pytest.mark.parametrize("after", [1, 7, 23])
def test_every_entry_that_was_acknowledged_is_there(tmp_path: Path, after: int):
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout
    keys = [child.stdout.readline().strip() for _ in range(after)]
    child.send_signal(signal.SIGKILL)
    keys += child.communicate()[0].split()
    store = SqliteKnowledge(tmp_path)
    try:
        whole = [store.get("notes", key) for key in keys]
        assert all(entry is not None and len(entry.pieces) == 2 for entry in whole)
        entries, pieces = store.count("notes")
        assert pieces == 2 * entries >= 2 * len(keys)
        assert len(store.rank("notes", ["walru"], 10_000)) == entries
        assert len(keys) <= entries <= len(keys) + 1
    finally:
        store.close()
