"""What only the embedded store does: large vector sets, several processes, its own file."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args, get_type_hints

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.errors import IndexTooNew
from sonde.stores.chunks.base import ChunkLimits, place_digest
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.stores.chunks.tables import CHUNK_FORMAT
from sonde.stores.vectors import VectorFile
from sonde.types import Chunk, FileState, Filter, ParsedFile, Span, Symbol

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


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory):
    opened = SqliteChunkStore(tmp_path_factory.mktemp("shared"), "code")
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
    for turn in range(5):
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


def test_the_words_of_a_first_index_are_merged_once(tmp_path):
    store = SqliteChunkStore(tmp_path, "code", ChunkLimits(spare_pages=4))
    for file in make_files(40):
        store.replace([file], more=True)
    before = store.lexical(["text", "7"], 50)
    assert count_segments(tmp_path) == 40
    store.tidy()
    assert count_segments(tmp_path) == 1
    assert store.lexical(["text", "7"], 50) == before
    for turn in range(40):
        files = make_files(1)
        store.replace([replace(file, state=replace(file.state, size=turn)) for file in files])
    assert count_segments(tmp_path) < 17
    assert store.verify() == []
    store.close()


def test_the_next_change_merges_what_a_killed_first_index_left(tmp_path):
    store = SqliteChunkStore(tmp_path, "code")
    for file in make_files(40):
        store.replace([file], more=True)
    store.close()
    again = SqliteChunkStore(tmp_path, "code")
    again.replace([replace(file, state=replace(file.state, path="z.py")) for file in make_files(1)])
    assert count_segments(tmp_path) < 17
    assert again.verify() == []
    again.close()


def test_an_index_of_an_older_format_begins_anew_with_its_vectors(tmp_path):
    older = apsw.Connection(str(tmp_path / "index.db"))
    for step in CHUNK_FORMAT.steps[:4]:
        older.execute(step)
    older.pragma("application_id", CHUNK_FORMAT.application_id)
    older.pragma("user_version", 4)
    (file,) = make_files(1, chunks_each=3)
    digest = file.chunks[0].digest
    older.execute("UPDATE state SET value = 9 WHERE key IN ('next_chunk', 'generation')")
    older.execute("UPDATE state SET value = 1 WHERE key = 'chunks'")
    older.execute(
        "INSERT INTO files (id, path, hash, size, mtime_ns, language, kind, first_chunk,"
        " chunk_count, symbols) VALUES (1, 'd0/f0.py', '', 1, 1, 'python', 'code', 8, 1, '[]')"
    )
    older.execute(
        "INSERT INTO chunks (id, file_id, start_line, end_line, start_byte, end_byte, digest,"
        " symbol, header, text) VALUES (8, 1, 1, 1, 0, 20, ?, '', '', 'text 0 0')",
        (digest,),
    )
    older.execute("INSERT INTO lex (rowid, path, name, body) VALUES (8, 'd0', '', 'text 0 0')")
    older.execute("INSERT INTO names (rowid, known) VALUES (1, 'f0')")
    older.execute("INSERT INTO grams (rowid, held) VALUES (1, 'abc')")
    older.execute("INSERT INTO models VALUES (1, 'm', 8, 'vectors-m-1')")
    older.execute("INSERT INTO vectors VALUES (1, ?, -1, 0, NULL)", (digest,))
    older.close()
    store = SqliteChunkStore(tmp_path, "code")
    assert (store.files(), store.lexical(["text"], 9), store.verify()) == ({}, [], [])
    assert store.generation() == 10
    assert store.known_digests("m", [digest]) == {digest}
    store.replace([file])
    assert [chunk.id for chunk in store.chunks_of("d0/f0.py")] == [9, 10, 11]
    assert store.coverage("m") == (1, 3)
    store.close()


def test_words_rank_alike_in_any_order_of_their_columns(store):
    texts = {"text": ("", "walrus"), "name": ("walrus", "other"), "both": ("walrus", "walrus")}
    for path, (symbol, text) in {**texts, "walrus": ("", "other")}.items():
        chunk = Chunk(path, f"{text}\n", Span(1, 1, 0, 7), symbol=symbol)
        store.replace([ParsedFile(FileState(path, "0" * 64, 7, 1, "python", "code"), (chunk,))])
    found = store.lexical(["walrus"], 9)
    paths = [store.chunks([one.id])[0].path for one in found]
    assert paths == ["both", "name", "walrus", "text"]


TEXTS = st.text(max_size=12) | st.text("\n/a.\udcff", max_size=12)


@given(path=TEXTS.filter(lambda path: "\0" not in path), header=TEXTS, joined=st.booleans())
def test_every_header_comes_back(shared_store, path, header, joined):
    header = f"{path}\n{header}" if joined else header
    chunk = Chunk(path, "text\n", Span(1, 1, 0, 5), header)
    shared_store.replace([ParsedFile(FileState(path, "0" * 64, 5, 1, "c", "code"), (chunk,))])
    assert [one.header for one in shared_store.chunks_of(path)] == [header]


NAMES = st.text(max_size=9).filter(lambda name: "\n" not in name) | st.just("a.\udcff")
NUMBERS = st.tuples(*[st.integers(1, 10**6)] * 3)
SYMBOLS = st.builds(
    lambda name, kind, lines: Symbol(name, kind, *lines),
    NAMES,
    st.sampled_from(get_args(get_type_hints(Symbol)["kind"])),
    NUMBERS,
)


@given(symbols=st.lists(SYMBOLS, max_size=6))
def test_definitions_come_back(shared_store, symbols):
    state = FileState("a.py", "0" * 64, 0, 1, "python", "code")
    shared_store.replace([ParsedFile(state, (), tuple(symbols))])
    outline = shared_store.symbols_of(["a.py"])["a.py"]
    assert list(outline) == symbols
    assert outline.list_names() == [(one.name, one.kind) for one in symbols]
    assert shared_store.verify() == []
