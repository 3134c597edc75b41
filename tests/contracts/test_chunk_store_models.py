"""Which models an index has vectors of, in every chunk store."""

from __future__ import annotations


def test_models_are_those_of_which_vectors_are_kept(store, make_file, unit):
    assert store.models() == []
    store.replace([make_file("a.py", "one\n")])
    (chunk,) = store.chunks_of("a.py")
    store.put_vectors("m2", [chunk.digest], unit(1).reshape(1, -1))
    store.put_vectors("m1", [chunk.digest], unit(2).reshape(1, -1))
    assert store.models() == ["m1", "m2"]
    store.remove(["a.py"])
    store.compact()
    assert store.models() == []
