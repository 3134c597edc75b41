"""Knowledge that an older version of sonde wrote is there after the update, and found."""

from __future__ import annotations

from pathlib import Path

import apsw
import numpy as np
import pytest

from sonde.errors import IndexTooNew
from sonde.stores.knowledge.base import Conditions, Entry, KnowledgeStore, Piece
from sonde.stores.knowledge.sqlite import SqliteKnowledge
from sonde.stores.knowledge.sqlite_schema import DATABASES

from .postgres import needs_postgres

TEXTS = ("The walrus slept", "A walrus and otters", "黒猫が好きです")
VECTORS = np.eye(2, 8, dtype=np.float32)


def check(store: KnowledgeStore) -> None:
    """Everything is as it was, can be found, and can be changed."""
    assert store.count("notes") == (3, 3)
    found = store.rank("notes", ["walru"], 9)
    assert {store.locate("notes", [one.id])[one.id].entry.id for one in found} == {"n0", "n1"}
    assert len(store.rank("notes", ["walr"], 9)) == 2
    assert len(store.rank("notes", ["黒猫"], 9, Conditions(tags=("old",)))) == 1
    near = store.nearest("notes", "m", VECTORS[1], 1)
    assert store.locate("notes", [near[0].id])[near[0].id].entry.id == "n1"
    assert [each.entry.id for each in store.list_bare("notes", "m", 9)] == ["n2"]
    store.put("notes", [Entry("notes", "walrus", (Piece("new"),), id="n0")])
    store.remove("notes", ["n1"])
    assert {entry.id for entry in store.list_entries("notes")} == {"n0", "n2"}
    assert len(store.rank("notes", ["walru"], 9)) == 1
    assert store.rank("notes", ["otter"], 9) == []
    store.bury("notes", {("/vault", "a.md"): "1"})
    assert store.list_buried("notes") == {("/vault", "a.md"): "1"}


def test_an_older_sqlite_file_is_brought_up(tmp_path: Path):
    store = SqliteKnowledge(tmp_path)
    entries = [
        Entry("notes", "", (Piece(text),), id=f"n{at}", tags=("Old",))
        for at, text in enumerate(TEXTS)
    ]
    store.put("notes", entries)
    numbers = [each.piece.number for each in store.list_bare("notes", "m", 9)]
    store.put_vectors("notes", "m", sorted(numbers)[:2], VECTORS)
    store.close()
    for name, sources in DATABASES.items():  # back to the first format: terms were not counted
        connection = apsw.Connection(str(tmp_path / f"{name}.db"))
        for source in sources:
            connection.execute(f"DROP TABLE {source}_lexicon")
            # and a piece had one slot
            connection.execute(f"ALTER TABLE {source}_pieces ADD COLUMN slot INTEGER")
            connection.execute(
                f"UPDATE {source}_pieces SET slot = (SELECT slot FROM {source}_vectors AS v"
                f" WHERE v.number = {source}_pieces.number)"
            )
            connection.execute(f"DROP TABLE {source}_vectors")
            for kind in ("bare", "slots"):
                connection.execute(f"CREATE INDEX {source}_{kind} ON {source}_pieces (slot)")
            connection.execute(
                f"CREATE VIRTUAL TABLE {source}_terms USING fts5vocab ({source}_words, 'row')"
            )
        connection.execute("DROP TABLE buried")
        connection.execute(
            "CREATE TABLE models AS SELECT source, name, dimensions, file FROM vector_models"
        )
        connection.execute("DROP TABLE vector_models")
        connection.pragma("user_version", 1)
        connection.close()
    store = SqliteKnowledge(tmp_path)
    check(store)
    store.close()


@needs_postgres
def test_a_newer_database_is_refused(postgres_url: str):
    import psycopg

    from sonde.stores.knowledge.postgres.database import PostgresDatabase

    PostgresDatabase(postgres_url).close()
    with psycopg.connect(postgres_url) as connection:
        (known,) = connection.execute("SELECT version FROM sonde.format").fetchone() or (0,)
        connection.execute("UPDATE sonde.format SET version = 99")
    try:
        with pytest.raises(IndexTooNew):
            PostgresDatabase(postgres_url)
    finally:
        with psycopg.connect(postgres_url) as connection:
            connection.execute("UPDATE sonde.format SET version = %s", [known])
