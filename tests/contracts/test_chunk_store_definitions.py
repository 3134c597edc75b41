"""Vectors of the definitions in a chunk, in every chunk store."""

from __future__ import annotations

import numpy as np
import pytest

from sonde.stores.chunks.base import place_digest


def embed(store, path, unit, places=(0, 2)):
    """Give a file's chunks and a few of their lines a vector; the chunks."""
    chunks = store.chunks_of(path)
    named = [place_digest(chunk.digest, place) for chunk in chunks for place in places]
    named += [chunk.digest for chunk in chunks]
    store.put_vectors("m", named, np.stack([unit(at + 1) for at in range(len(named))]))
    return chunks


def test_definitions_are_found_by_their_chunk_and_place(store, make_file, unit):
    store.replace([make_file("a.py", "one\n", "two\n"), make_file("b.py", "three\n")])
    first, second = embed(store, "a.py", unit)
    (other,) = store.chunks_of("b.py")
    assert store.definition_vectors("m", [first.id]).keys() == {(first.id, 0), (first.id, 2)}
    found = store.definition_vectors("m", [first.id, second.id, other.id])
    assert sorted(found) == sorted((chunk.id, at) for chunk in (first, second) for at in (0, 2))
    assert found[second.id, 2] == pytest.approx(unit(4), abs=0.01)
    assert store.definition_vectors("none", [first.id]) == {}


def test_definitions_are_no_chunks(store, make_file, unit):
    store.replace([make_file("a.py", "one\n", "two\n")])
    chunks = embed(store, "a.py", unit)
    assert store.coverage("m") == (2, 2)
    assert store.missing("m", 9) == []
    assert {one.id for one in store.dense("m", unit(1), 9)} == {chunk.id for chunk in chunks}
    assert store.vectors("m", [chunks[0].id]).keys() == {chunks[0].id}
    assert store.verify() == []


def test_definitions_without_their_chunk_are_still_to_be_made(store, make_file, unit):
    store.replace([make_file("a.py", "one\n")])
    (chunk,) = store.chunks_of("a.py")
    store.put_vectors("m", [place_digest(chunk.digest, 0)], unit(1).reshape(1, -1))
    assert store.coverage("m") == (0, 1)
    assert [one.id for one in store.missing("m", 9)] == [chunk.id]


def test_a_compaction_keeps_the_definitions_of_what_is_left(store, make_file, unit):
    store.replace([make_file("a.py", "one\n"), make_file("b.py", "two\n")])
    (gone,), (kept,) = embed(store, "a.py", unit), embed(store, "b.py", unit)
    store.remove(["a.py"])
    assert store.definition_vectors("m", [gone.id]) == {}
    store.compact()
    found = store.definition_vectors("m", [kept.id])
    assert found[kept.id, 2] == pytest.approx(unit(2), abs=0.01)
    named = [place_digest(gone.digest, 0), place_digest(kept.digest, 0)]
    assert store.known_digests("m", named) == {named[1]}
    store.remove(["b.py"])
    store.compact()
    assert store.models() == []


def test_many_definitions_are_no_waste(open_store, make_file, unit):
    store = open_store(spare_rows=4)
    store.replace([make_file(f"{n}.py", f"text {n}\n") for n in range(5)])
    for n in range(5):
        embed(store, f"{n}.py", unit, places=range(20))
    generation = store.generation()
    store.tidy()
    assert store.generation() == generation
    store.remove([f"{n}.py" for n in range(4)])
    store.tidy()
    (kept,) = store.chunks_of("4.py")
    assert len(store.definition_vectors("m", [kept.id])) == 20
