"""A writer killed at any instant loses nothing it acknowledged and breaks nothing."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.stores.vectors import VectorFile

WRITER = Path(__file__).with_name("writer.py")
RUNS = 20


def run_and_kill(folder: Path, turn: int, lines: int, spin: int) -> list[list[str]]:
    """Let the writer acknowledge so many steps, kill it a moment later, return what it said."""
    command = [sys.executable, str(WRITER), str(folder), str(turn)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        said = [writer.stdout.readline() for _ in range(lines)]
        # a moment that differs each time, counted instead of slept
        sum(range(spin))
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.readlines()
    return [line.split() for line in said if line.endswith("\n")]


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path):
    pick = random.Random(5)
    turn = 0
    for _ in range(RUNS):
        said = run_and_kill(tmp_path, turn, pick.randint(1, 12), pick.randint(0, 400_000))
        replaced = max(int(n) for what, n in said if what == "replaced")
        embedded = max((int(n) for what, n in said if what == "embedded"), default=-1)
        store = SqliteChunkStore(tmp_path, "code")
        try:
            assert store.verify() == []
            turns = {state.mtime_ns for state in store.files().values()}
            assert len(turns) == 1, "a batch is there as a whole or not at all"
            (newest,) = turns
            assert newest in (replaced, replaced + 1)
            assert len(store.lexical([f"word{newest}"], 10)) == 5
            if newest == embedded:
                assert store.coverage("m") == (10, 10)
            query = np.ones(32, np.float32) / np.float32(32**0.5)
            assert len(store.dense("m", query, 50)) == store.coverage("m")[0]
        finally:
            store.close()
        turn = newest + 1


def test_torn_rows_at_the_end_of_a_vector_file_are_passed_over(tmp_path):
    file = VectorFile(tmp_path / "v", 16)
    rows = np.eye(4, 16, dtype=np.float32)
    assert file.append(rows)[0] == 0
    with file.path.open("ab") as torn:
        torn.write(b"x" * 7)
    assert file.append(rows[:2])[0] == 5
    assert file.read(np.array([0, 3, 5, 6])).tolist() == [
        *rows[[0, 3]].tolist(),
        *rows[:2].tolist(),
    ]


def test_a_map_taken_between_the_two_writes_of_a_row_is_taken_again(tmp_path):
    file, writer = VectorFile(tmp_path / "v", 16), VectorFile(tmp_path / "v", 16)
    rows = np.eye(4, 16, dtype=np.float32)
    writer.append(rows)
    writer.append(rows)
    bits = file.bits_path.read_bytes()
    file.bits_path.write_bytes(bits[: len(bits) // 2])
    assert file.find(rows[0], np.arange(4), 1)[0].tolist() == [0]
    file.bits_path.write_bytes(bits)
    assert file.find(rows[0], np.arange(8), 1)[0].tolist() == [0, 4]


def test_files_that_a_crash_left_go_with_the_next_compaction(tmp_path):
    store = SqliteChunkStore(tmp_path, "code")
    stray = tmp_path / "index.vectors" / "vectors-0123456789ab-99.i8"
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"left behind")
    store.compact()
    assert not stray.exists()
    store.close()
