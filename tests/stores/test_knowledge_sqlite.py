"""One user's knowledge in SQLite: what becomes of it when its vectors are damaged."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from sonde.stores.knowledge.base import Entry, Piece
from sonde.stores.knowledge.sqlite import SqliteKnowledge

COUNT = 1_200
ROWS = np.random.default_rng(5).normal(size=(COUNT, 8)).astype(np.float32)
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True)


def delete_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def cut_files(folder: Path) -> None:
    for path in folder.iterdir():
        os.truncate(path, path.stat().st_size // 2)


def write_no_numbers(folder: Path) -> None:
    (path,) = folder.glob("*.i8")
    path.write_bytes(b"\xff" * path.stat().st_size)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteKnowledge]:
    made = SqliteKnowledge(tmp_path)
    made.put("notes", [Entry("notes", "", (Piece(f"walrus {at}"),)) for at in range(COUNT)])
    embed(made)
    yield made
    made.close()


def embed(store: SqliteKnowledge) -> list[int]:
    numbers = [found.piece.number for found in store.list_bare("notes", "m", COUNT)]
    store.put_vectors("notes", "m", numbers, ROWS[: len(numbers)])
    return numbers


@pytest.mark.parametrize("damage", [delete_folder, cut_files, write_no_numbers])
def test_damaged_vectors_are_given_up_and_made_anew(
    store: SqliteKnowledge, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    damage(tmp_path / "chacha.vectors")
    assert store.nearest("notes", "m", ROWS[7], COUNT) == []
    store.drop_damaged("notes", "m")
    numbers = embed(store)
    assert len(numbers) == COUNT
    assert store.nearest("notes", "m", ROWS[7], 1)[0].id == numbers[7]
    assert len(list((tmp_path / "chacha.vectors").iterdir())) == 2


def test_damaged_vectors_keep_nothing_from_being_removed(
    store: SqliteKnowledge, tmp_path: Path
) -> None:
    for path in (tmp_path / "chacha.vectors").iterdir():
        os.truncate(path, path.stat().st_size - 8)
    keys = [entry.id for entry in store.list_entries("notes", limit=COUNT)]
    assert store.remove("notes", keys[-700:]) == 700  # the newest have the first slots
    assert store.nearest("notes", "m", ROWS[7], COUNT) == []
    assert len(embed(store)) == COUNT - 700


def test_flipped_bytes_are_left_out_and_made_again(store: SqliteKnowledge, tmp_path: Path) -> None:
    numbers = sorted(found.piece.number for found in store.list_bare("notes", "other", COUNT))
    damaged = flip_bytes(tmp_path / "chacha.vectors", rows=5)
    reopened = SqliteKnowledge(tmp_path)
    found = {one.id for one in reopened.nearest("notes", "m", ROWS[7], COUNT)}
    assert len(found) == COUNT - damaged
    assert reopened.drop_damaged("notes", "m") == damaged
    bare = [one.piece.number for one in reopened.list_bare("notes", "m", COUNT)]
    assert set(bare) == set(numbers) - found
    reopened.put_vectors("notes", "m", bare, ROWS[: len(bare)])
    assert reopened.drop_damaged("notes", "m") == 0
    assert len(reopened.nearest("notes", "m", ROWS[7], COUNT)) == COUNT
    reopened.close()


def test_vectors_written_over_while_open_are_noticed(
    store: SqliteKnowledge, tmp_path: Path
) -> None:
    assert store.drop_damaged("notes", "m") == 0
    flip_bytes(tmp_path / "chacha.vectors", rows=3)
    assert store.drop_damaged("notes", "m") == 3


def flip_bytes(folder: Path, rows: int) -> int:
    """Flip a bit in each of some rows. Returns how many rows that were."""
    (path,) = folder.glob("*.i8")
    data = bytearray(path.read_bytes())
    width = len(data) // COUNT
    for row in range(rows):
        data[row * 7 * width + 9] ^= 0x40
    path.write_bytes(bytes(data))
    return rows
