"""Vectors that are not as they were written: a search says so, or answers as if nothing were."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faults.conftest import Sonde
from tests.mcp.conftest import RawClient
from tests.waiting import wait_until

from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.stores.vectors import VectorFile

FLIPS = 259
MODEL = "sonde-static-1"
QUESTIONS = ("return a value and add a number to it", "which thing has a size", "module seven")


def flip(path: Path, chance: random.Random) -> None:
    """Change one bit, as a bad disk does."""
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(bytes(data))


def ask(store: SqliteChunkStore, queries: np.ndarray) -> list[list[tuple[int, float]]]:
    return [
        [(found.id, found.score) for found in store.dense(MODEL, query, 10)] for query in queries
    ]


def test_no_flip_of_a_bit_goes_unnoticed(sonde: Sonde) -> None:
    sonde.ask("index", "--yes")
    files = sorted((sonde.folder / "index.vectors").iterdir())
    whole = {path: path.read_bytes() for path in files}
    chance = random.Random(9)
    queries = np.random.default_rng(9).standard_normal((3, 256)).astype(np.float32)
    store = SqliteChunkStore(sonde.folder, "code")
    right = ask(store, queries)
    changed = 0
    for _ in range(FLIPS):
        path = chance.choice(files)
        flip(path, chance)
        answer = ask(store, queries)
        assert store.count_damaged() == 1
        changed += answer != right
        path.write_bytes(whole[path])
        assert ask(store, queries) == right
        assert store.count_damaged() == 0
    assert changed  # the vector that is left out was among the best
    store.close()


@pytest.mark.parametrize("damage", ["flip", "zeros", "swap"])
def test_damage_in_one_block_names_its_rows(tmp_path: Path, damage: str) -> None:
    file = VectorFile(tmp_path / "rows", 70)
    vectors = np.random.default_rng(1).standard_normal((1500, 70)).astype(np.float32)
    _, sums = file.append(vectors)
    slots, known = np.arange(1500), np.array(sums, np.int64)
    assert not file.find_damaged(slots, known).any()
    data = np.memmap(file.path, np.int8, "r+", shape=(1500, 74))
    if damage == "flip":
        data[700, 30] ^= 4
    elif damage == "zeros":
        data[700:702] = 0
    else:
        data[[700, 10]] = data[[10, 700]]
    data.flush()
    expected = {"flip": [700], "zeros": [700, 701], "swap": [10, 700]}[damage]
    assert np.flatnonzero(file.find_damaged(slots, known)).tolist() == expected
    known[700] = -1  # written by a version that kept no sums
    expected.remove(700)
    assert np.flatnonzero(file.find_damaged(slots, known)).tolist() == expected


def test_a_command_makes_damaged_vectors_again_and_answers_right(sonde: Sonde) -> None:
    sonde.ask("index", "--yes")
    right = [sonde.ask("search", question)["results"] for question in QUESTIONS]
    chance = random.Random(4)
    for question, expected in zip(QUESTIONS, right, strict=True):
        for path in (sonde.folder / "index.vectors").glob("*.i8"):
            flip(path, chance)
        assert sonde.ask("search", question)["results"] == expected
        store = SqliteChunkStore(sonde.folder, "code")
        assert store.verify() == []
        assert store.coverage(MODEL)[0] == store.coverage(MODEL)[1]
        store.close()


def test_a_server_says_that_vectors_are_damaged_and_makes_them_again(sonde: Sonde) -> None:
    sonde.ask("index", "--yes")
    client = RawClient(
        *sonde.command("mcp")[1:],
        cwd=sonde.project,
        env=sonde.variables | {"SONDE_EMBEDDING": "static"},
    )
    try:
        client.greet()

        def search() -> dict[str, Any]:
            answer = client.call("search_code", query=QUESTIONS[0])
            found: dict[str, Any] = json.loads(answer["result"]["content"][0]["text"])
            return found

        right = search()["results"]
        for path in (sonde.folder / "index.vectors").glob("*.i8"):
            flip(path, random.Random(4))
        answer = search()
        assert answer["results"] == right or "damaged and were left out" in json.dumps(answer)
        wait_until(lambda: search()["results"] == right)
        wait_until(lambda: not SqliteChunkStore(sonde.folder, "code").verify())
    finally:
        client.finish()
