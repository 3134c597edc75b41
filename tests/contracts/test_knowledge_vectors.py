"""Vectors of personal knowledge, of several models, whatever keeps the rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sonde.stores.knowledge.base import Conditions, KnowledgeStore

from .postgres import needs_postgres, open_knowledge
from .test_knowledge_store import ask, note


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KnowledgeStore]:
    postgres = request.param == "postgres"
    database = request.getfixturevalue("empty_database") if postgres else None
    opened = open_knowledge(request.param, tmp_path, "ann", database)
    yield opened
    opened.close()


def test_vectors_find_the_nearest_under_conditions(store):
    store.put("media", [note("a", "A", "media", media_type="txt"), note("b", "B", "media")])
    newest_first = store.list_bare("media", "m", 10)
    assert [found.entry.title for found in newest_first] == ["B", "A"]
    bare = newest_first[::-1]
    rows = np.array([[1, 0, 0, 0], [0, 1, 0, 0]], np.float32)
    store.put_vectors("media", "m", [found.piece.number for found in bare], rows)
    assert store.list_bare("media", "m", 10) == []
    query = np.array([0.2, 1, 0, 0], np.float32)
    near = store.nearest("media", "m", query, 5)
    assert [one.id for one in near] == [bare[1].piece.number, bare[0].piece.number]
    only = store.nearest("media", "m", query, 5, Conditions(media_types=("txt",)))
    assert [one.id for one in only] == [bare[0].piece.number]
    assert store.nearest("media", "other", query, 5) == []
    assert store.nearest("media", "m", np.zeros(4, np.float32), 5) == []


def test_another_model_starts_over(store):
    store.put("notes", [note("a"), note("b")])
    first = [found.piece.number for found in store.list_bare("notes", "m1", 10)]
    store.put_vectors("notes", "m1", first, np.eye(2, 4, dtype=np.float32))
    assert [found.piece.number for found in store.list_bare("notes", "m2", 10)] == first
    store.put_vectors("notes", "m2", first[:1], np.ones((1, 8), np.float32))
    assert [found.piece.number for found in store.list_bare("notes", "m2", 10)] == first[1:]
    assert len(store.nearest("notes", "m2", np.ones(8, np.float32), 5)) == 1


def test_vectors_of_two_models_are_kept_and_counted(store):
    store.put("notes", [note(str(at)) for at in range(3)])
    numbers = sorted(found.piece.number for found in store.list_bare("notes", "small", 10))
    store.put_vectors("notes", "small", numbers, np.eye(3, 4, dtype=np.float32))
    store.put_vectors("notes", "large", numbers[1:], np.eye(2, 8, dtype=np.float32))
    assert store.coverage("notes", "small") == (3, 3)
    assert store.coverage("notes", "large") == (2, 3)
    assert store.coverage("notes", "other") == (0, 3)
    assert store.nearest("notes", "small", np.eye(1, 4, dtype=np.float32)[0], 1)[0].id == numbers[0]
    assert store.nearest("notes", "large", np.eye(1, 8, dtype=np.float32)[0], 1)[0].id == numbers[1]
    near = store.compare("notes", "large", np.eye(1, 8, dtype=np.float32)[0], numbers)
    assert near == {numbers[1]: pytest.approx(1.0), numbers[2]: pytest.approx(0.0)}
    assert [b.piece.number for b in store.list_bare("notes", "large", 9)] == numbers[:1]
    assert store.list_bare("notes", "large", 9, before=numbers[0]) == []
    store.forget_models("notes", ["large"])
    assert store.coverage("notes", "small") == (0, 3)
    assert store.coverage("notes", "large") == (2, 3)
    store.remove("notes", [store.list_entries("notes")[-1].id])
    assert store.coverage("notes", "large") == (1, 2)


def test_the_best_possible_score_bounds_every_score(store):
    store.put("notes", [note("walrus tusk"), note("walrus"), note("otter")])
    best = store.rank("notes", ask("walrus tusk"), 1)[0].score
    assert 0 < best < sum(store.weigh_terms("notes", ask("walrus tusk")).values())
    (known,), (unknown,) = (store.weigh_terms("notes", ask(t)).values() for t in ("walrus", "new"))
    assert known < unknown


@needs_postgres
def test_a_damaged_row_of_postgres_is_left_out_and_made_again(empty_database, tmp_path):
    store = open_knowledge("postgres", tmp_path, "ann", empty_database)
    store.put("notes", [note(str(at)) for at in range(4)])
    numbers = [found.piece.number for found in store.list_bare("notes", "m", 10)]
    store.put_vectors("notes", "m", numbers, np.eye(4, 8, dtype=np.float32))
    with empty_database.transact("ann") as cursor:
        cursor.execute(
            "UPDATE notes_vectors SET vector = set_byte(vector, 6, 99) WHERE number = %s",
            [numbers[2]],
        )
    assert len(store.nearest("notes", "m", np.ones(8, np.float32), 9)) == 3
    assert store.drop_damaged("notes", "m") == 1
    assert [found.piece.number for found in store.list_bare("notes", "m", 10)] == [numbers[2]]
    store.put_vectors("notes", "m", numbers[2:3], np.eye(1, 8, dtype=np.float32))
    assert store.drop_damaged("notes", "m") == 0
    assert len(store.nearest("notes", "m", np.ones(8, np.float32), 9)) == 4
