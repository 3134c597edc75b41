"""What only the embedded store does: large vector sets, several processes, its own file."""

from __future__ import annotations

from dataclasses import replace

import apsw
import numpy as np
import pytest

from sonde.errors import IndexTooNew
from sonde.stores.chunks.base import ChunkLimits, place_digest
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.stores.vectors import VectorFile
from sonde.types import Chunk, FileState, Filter, ParsedFile, Span

DIMENSIONS = 64


def make_files(count, chunks_each=50):
    files = []
    for number in range(count):
        path = f"d{number % 7}/f{number}.py"
        chunks = tuple(
            Chunk(path, f"text {number} {n}\n", Span(n + 1, n + 1, n * 20, n * 20 + 20))
            for n in range(chunks_each)
        )
        files.append(
            ParsedFile(FileState(path, "0" * 64, chunks_each * 20, 1, "python", "code"), chunks)
        )
    return files


def make_rows(count, seed=1):
    pick = np.random.default_rng(seed)
    centres = pick.standard_normal((400, DIMENSIONS))
    rows = centres[pick.integers(400, size=count)] + 0.7 * pick.standard_normal((count, DIMENSIONS))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def store(tmp_path):
    opened = SqliteChunkStore(tmp_path, "code")
    yield opened
    opened.close()


@pytest.fixture
def full_store(store):
    files = make_files(500)
    store.replace(files)
    digests = [chunk.digest for file in files for chunk in file.chunks]
    store.put_vectors("m", digests, make_rows(len(digests)))
    return store


def read_everything(store):
    ids = [chunk.id for path in sorted(store.files()) for chunk in store.chunks_of(path)]
    vectors = store.vectors("m", ids)
    return np.array(ids), np.stack([vectors[key] for key in ids])


def test_candidates_by_sign_bits_find_nearly_all_true_neighbours(full_store):
    ids, rows = read_everything(full_store)
    found = wanted = 0
    for query in make_rows(20, seed=2):
        exact = set(ids[np.argsort(-(rows @ query))[:10]].tolist())
        found += len(exact & {each.id for each in full_store.dense("m", query, 10)})
        wanted += 10
    assert found / wanted > 0.97


def test_a_filter_among_many_vectors_is_exact(full_store):
    chosen = frozenset(path for path in full_store.files() if path.startswith("d3/"))
    query = make_rows(1, seed=3)[0]
    ids, rows = read_everything(full_store)
    inside = np.isin(ids, [chunk.id for path in chosen for chunk in full_store.chunks_of(path)])
    exact = ids[inside][np.argsort(-(rows[inside] @ query), kind="stable")[:20]]
    found = [each.id for each in full_store.dense("m", query, 20, Filter(chosen))]
    assert found == exact.tolist()


def test_another_process_sees_every_change_of_words_and_vectors(tmp_path, store):
    other = SqliteChunkStore(tmp_path, "code")
    query = np.eye(1, DIMENSIONS, dtype=np.float32)[0]
    for turn in range(3):
        files = make_files(3 + turn, chunks_each=2)
        store.replace(files)
        digests = [chunk.digest for file in files for chunk in file.chunks]
        store.put_vectors("m", digests, np.repeat(query[None, :], len(digests), axis=0))
        assert other.generation() == store.generation()
        assert len(other.dense("m", query, 100)) == len(digests)
        assert other.lexical(["text"], 100) == store.lexical(["text"], 100)
        store.remove([files[0].state.path])
        assert len(other.dense("m", query, 100)) == len(digests) - 2
        store.compact()
        assert len(other.dense("m", query, 100)) == len(digests) - 2
    store.clear()
    assert other.dense("m", query, 100) == []
    other.close()


def test_compacting_gives_the_space_of_dead_vectors_back(full_store):
    before = full_store.counts().bytes
    full_store.remove(list(full_store.files())[20:])
    full_store.compact()
    assert full_store.counts().bytes < before / 3
    assert full_store.coverage("m") == (1_000, 1_000)
    assert full_store.verify() == []


def test_a_damaged_vector_file_is_noticed_and_costs_only_what_it_held(full_store, tmp_path):
    (path,) = (tmp_path / "index.vectors").glob("*.i8")
    assert len(full_store.dense("m", make_rows(1)[0], 50)) == 50
    path.write_bytes(path.read_bytes()[:1000])
    assert full_store.verify() == ["damaged vectors of m: 24986"]
    fresh = SqliteChunkStore(tmp_path, "code")
    for store in (full_store, fresh):  # one that has it mapped, and one that opens it anew
        assert len(store.dense("m", make_rows(1)[0], 50)) == 14
        assert store.coverage("m") == (14, 25_000)
        assert len(store.lexical(["text"], 5)) == 5
    lacking = fresh.missing("m", 30_000)
    fresh.put_vectors("m", [chunk.digest for chunk in lacking], make_rows(len(lacking)))
    assert fresh.verify() == full_store.verify() == []
    assert full_store.coverage("m") == (25_000, 25_000)
    fresh.close()


def test_a_compaction_that_was_killed_does_not_spoil_the_next(full_store, tmp_path):
    (path,) = (tmp_path / "index.vectors").glob("*.i8")
    stray = VectorFile(path.with_name(path.stem.replace("-1", "-2")), DIMENSIONS)
    stray.append(make_rows(100, seed=9))
    full_store.remove(list(full_store.files())[20:])
    full_store.compact()
    assert full_store.verify() == []
    assert full_store.coverage("m") == (1_000, 1_000)


@pytest.mark.parametrize("suffix", ["i8", "bits"])
def test_vectors_that_are_no_numbers_are_left_out_and_forgotten(full_store, tmp_path, suffix):
    (path,) = (tmp_path / "index.vectors").glob(f"*.{suffix}")
    data = bytearray(path.read_bytes())
    data[:2000] = b"\xff" * 2000
    path.write_bytes(data)
    assert len(full_store.lexical(["text"], 5)) == 5
    full_store.dense("m", make_rows(1)[0], 50)
    full_store.drop_broken()
    have, total = full_store.coverage("m")
    assert total - 300 < have < total
    assert len(full_store.dense("m", make_rows(1)[0], 50)) == 50
    assert full_store.verify() == []


def test_vectors_of_another_size_are_refused(full_store):
    digest = full_store.chunks_of("d0/f0.py")[0].digest
    with pytest.raises(ValueError, match="64 dimensions, not 8"):
        full_store.put_vectors("m", [digest], np.ones((1, 8), np.float32))


@pytest.mark.row("001-88")
def test_the_file_shows_the_documented_columns(full_store, tmp_path):
    connection = apsw.Connection(str(tmp_path / "index.db"), flags=apsw.SQLITE_OPEN_READONLY)
    cursor = connection.execute("SELECT * FROM project_docs LIMIT 1")
    columns = [name for name, _ in cursor.get_description()]
    assert columns == ["id", "path", "text", "start_line", "end_line", "content_hash"]
    (row,) = cursor.fetchall()
    assert len(row[0]) == 36
    assert row[0][14] == "4"
    connection.close()


@pytest.mark.row("001-48")
def test_code_and_docs_are_kept_apart(tmp_path, store):
    docs = SqliteChunkStore(tmp_path, "docs")
    docs.replace(make_files(2))
    assert store.counts().files == 0
    assert (tmp_path / "docs.db").exists()
    docs.close()


def test_an_index_of_a_newer_version_is_refused(tmp_path, store):
    connection = apsw.Connection(str(tmp_path / "index.db"))
    connection.pragma("user_version", 99)
    connection.close()
    with pytest.raises(IndexTooNew):
        SqliteChunkStore(tmp_path, "code")


def test_a_damaged_definition_costs_its_chunk_which_is_made_again(tmp_path, store):
    first, second = make_files(2, chunks_each=1)
    store.replace([first, second])
    chunks = [*store.chunks_of(first.state.path), *store.chunks_of(second.state.path)]
    named = [place_digest(chunk.digest, 3) for chunk in chunks] + [c.digest for c in chunks]
    store.put_vectors("m", named, np.eye(4, 8, dtype=np.float32))
    (file,) = (tmp_path / "index.vectors").glob("*.i8")
    data = bytearray(file.read_bytes())
    data[5] ^= 64  # of the first definition
    file.write_bytes(data)
    store.rest()
    assert store.verify() == ["damaged vectors of m: 1"]
    store.drop_broken()
    assert [chunk.path for chunk in store.missing("m", 9)] == [first.state.path]
    found = store.definition_vectors("m", [chunk.id for chunk in chunks])
    assert found.keys() == {(chunks[1].id, 3)}
    assert store.verify() == []


def test_a_large_index_is_left_with_one_segment_of_words(tmp_path):
    store = SqliteChunkStore(tmp_path, "code", ChunkLimits(spare_pages=4))
    for turn in range(6):
        files = [
            replace(file, state=replace(file.state, path=f"t{turn}/{file.state.path}"))
            for file in make_files(20)
        ]
        store.replace(files)
    before = store.lexical(["text", "7"], 50)
    assert count_segments(tmp_path) > 1
    store.tidy()
    assert count_segments(tmp_path) == 1
    assert store.lexical(["text", "7"], 50) == before
    assert store.verify() == []
    generation = store.generation()
    store.tidy()  # it is not done again
    assert store.generation() == generation
    store.close()


def count_segments(folder):
    connection = apsw.Connection(str(folder / "index.db"))
    return len(list(connection.execute("SELECT DISTINCT segid FROM lex_idx")))


def test_of_vectors_that_are_equal_by_their_signs_the_nearest_is_found(tmp_path):
    rows = np.abs(make_rows(40_000))
    file = VectorFile(tmp_path / "v", DIMENSIONS)
    file.append(rows)
    for at in (3, 20_000, 39_999):
        (first, *_), _ = file.find(rows[at], np.arange(len(rows)), 1)
        assert first == at
