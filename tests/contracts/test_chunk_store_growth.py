"""No store grows with the number of updates it has seen."""

from __future__ import annotations

import numpy as np
import pytest

TURNS, FILES = 6, 8


def embed_all(store, model, vector_of):
    chunks = store.missing(model, 1_000)
    rows = np.stack([vector_of(chunk) for chunk in chunks])
    store.put_vectors(model, [chunk.digest for chunk in chunks], rows)


class TestGrowth:
    @pytest.mark.slow
    def test_many_updates_leave_a_store_about_as_large_as_a_new_one(
        self, open_store, open_backend, make_file, unit, tmp_path
    ):
        limits = {"spare_rows": 8, "spare_pages": 8, "kept_versions_s": 0.001}
        body = "some words of a line that is long enough to count for something\n" * 8

        def write(store, number, turn):
            texts = [f"turn {turn} of {number}, part {part}\n{body}" for part in range(5)]
            store.replace([make_file(f"f{number}.py", *texts)])
            embed_all(store, "m", lambda _: unit(number + 1, turn + 1))
            store.tidy()

        def measure(folder):
            return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

        store = open_store(**limits)
        for turn in range(TURNS):
            for number in range(FILES):
                write(store, number, turn)
        assert store.verify() == []
        assert len(store.dense("m", unit(1), 200)) == 5 * FILES
        store.compact()
        store.close()
        used = measure(tmp_path)
        fresh = open_backend(open_store.backend, tmp_path / "fresh", **limits)
        for number in range(FILES):
            write(fresh, number, TURNS - 1)
        fresh.compact()
        fresh.close()
        assert used <= 1.2 * measure(tmp_path / "fresh")

    def test_what_is_not_wasteful_is_left_alone(self, store, make_file, unit):
        store.replace([make_file(f"{n}.py", "text\n") for n in range(5)])
        embed_all(store, "m", lambda _: unit(1))
        generation = store.generation()
        store.tidy()
        assert store.generation() == generation

    def test_new_vectors_leave_the_generation_and_are_found(self, store, make_file, unit):
        files = make_file("a.py", "aaa\n"), make_file("b.py", "bbb\n")
        store.replace(files)
        generation = store.generation()
        for count, file in enumerate(files, 1):
            store.put_vectors("m", [file.chunks[0].digest], unit(count)[None, :])
            assert store.coverage("m") == (count, 2)
            assert len(store.dense("m", unit(1), 10)) == count
        assert store.generation() == generation

    def test_a_store_at_rest_goes_on_as_before(self, store, make_file, unit):
        store.replace([make_file(f"{n}.py", f"text {n}\n") for n in range(5)])
        embed_all(store, "m", lambda chunk: unit(int(chunk.path[0]) + 1))
        before = (store.lexical(["text"], 9), store.dense("m", unit(2), 9), store.files())
        store.rest()
        assert (store.lexical(["text"], 9), store.dense("m", unit(2), 9), store.files()) == before
        store.rest()
        store.replace([make_file("0.py", "other\n")])
        assert len(store.lexical(["text"], 9)) == 4
        assert store.verify() == []
