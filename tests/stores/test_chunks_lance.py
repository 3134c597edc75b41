"""What only the LanceDB store does: the RFC's databases, open to everyone."""

from __future__ import annotations

import subprocess
import sys
import uuid

import numpy as np
import pytest

from sonde.stores.chunks.base import ChunkLimits
from sonde.types import Chunk, FileState, ParsedFile, Span

lancedb = pytest.importorskip("lancedb", reason="needs sonde[lance]")
RFC_COLUMNS = ["id", "path", "text", "vector", "start_line", "end_line", "content_hash"]


def make_file(path, *texts, file_hash="ab" * 32):
    chunks = tuple(
        Chunk(path, text, Span(n + 1, n + 1, n * 10, n * 10 + 10)) for n, text in enumerate(texts)
    )
    return ParsedFile(FileState(path, file_hash, 10 * len(texts), 1, "python", "code"), chunks)


@pytest.fixture
def open_store(tmp_path):
    from sonde.stores.chunks.lance import LanceChunkStore

    opened = []

    def open_one(kind="code", **options):
        opened.append(LanceChunkStore(tmp_path, kind, **options))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def read_table(tmp_path, database="index.lancedb", table="project_docs"):
    return lancedb.connect(str(tmp_path / database)).open_table(table).to_arrow()


@pytest.mark.parametrize(
    ("kind", "database", "table"),
    [("code", "index.lancedb", "project_docs"), ("docs", "docs.lancedb", "project_docs_prose")],
)
@pytest.mark.row("001-14", "001-15", "001-17", "001-18", "001-48", "001-88")
def test_any_client_finds_the_documented_table(tmp_path, open_store, kind, database, table):
    open_store(kind).replace([make_file("src/a.py", "one\n", "two\n")])
    shown = read_table(tmp_path, database, table)
    assert shown.schema.names[:7] == RFC_COLUMNS
    assert str(shown.schema.field("vector").type) == "fixed_size_list<item: float>[384]"
    rows = sorted(shown.to_pylist(), key=lambda row: row["start_line"])
    assert [(r["path"], r["text"], r["start_line"], r["end_line"]) for r in rows] == [
        ("src/a.py", "one\n", 1, 1),
        ("src/a.py", "two\n", 2, 2),
    ]
    assert {row["content_hash"] for row in rows} == {"ab" * 32}
    assert {uuid.UUID(row["id"]).version for row in rows} == {4}


@pytest.mark.row("001-16")
def test_the_documented_vector_is_zero_until_the_deep_one_is_there_and_survives(
    tmp_path, open_store
):
    store = open_store()
    store.replace([make_file("a.py", "one\n", "two\n")])
    assert not np.any(read_table(tmp_path)["vector"].to_pylist())
    one, _ = store.chunks_of("a.py")
    deep = np.eye(1, 384, 7, np.float32)
    store.put_vectors("static", [one.digest], np.eye(1, 256, 3, np.float32))
    store.put_vectors("deep", [one.digest], deep)

    def show_vector():
        rows = read_table(tmp_path).to_pylist()
        return [row["vector"] for row in rows if row["text"] == "one\n"]

    assert show_vector() == deep.tolist()
    store.replace([make_file("a.py", "one\n", "changed\n")])
    assert show_vector() == deep.tolist()
    assert read_table(tmp_path).num_rows == 2


def test_rows_that_a_crash_left_are_never_shown_and_go_with_the_next_write(tmp_path, open_store):
    store = open_store()
    store.replace([make_file("a.py", "one\n")])
    table = lancedb.connect(str(tmp_path / "index.lancedb")).open_table("project_docs")
    stray = table.to_arrow()
    at = stray.schema.get_field_index("chunk")
    stray = stray.set_column(at, stray.schema.field("chunk"), [[2]])
    table.add(stray)
    reopened = open_store()
    assert reopened.counts().chunks == 1
    reopened.replace([make_file("b.py", "two\n")])
    assert [chunk.text for chunk in reopened.chunks_of("b.py")] == ["two\n"]
    assert reopened.verify() == []
    assert read_table(tmp_path).num_rows == 2


def test_compacting_leaves_only_what_is_needed(tmp_path, open_store):
    store = open_store()
    for turn in range(5):
        store.replace([make_file(f"f{n}.py", f"text {n} {turn}\n") for n in range(3)])
        chunks = store.missing("deep", 10)
        store.put_vectors("deep", [c.digest for c in chunks], np.eye(3, 384, dtype=np.float32))
    store.compact()
    (name,) = (
        table
        for table in lancedb.connect(str(tmp_path / "index.lancedb")).list_tables().tables
        if table != "project_docs"
    )
    assert read_table(tmp_path, table=name).num_rows == 3
    assert len(store.dense("deep", np.eye(1, 384, dtype=np.float32)[0], 10)) == 3
    assert store.verify() == []


def test_many_small_writes_are_merged(tmp_path, open_store):
    store = open_store(limits=ChunkLimits(max_fragments=5))
    table = lancedb.connect(str(tmp_path / "index.lancedb")).open_table("project_docs")
    for turn in range(12):
        store.replace([make_file(f"f{turn}.py", f"text {turn}\n")])
        store.tidy()
        assert len(store.lexical(["text"], 50)) == turn + 1
        table.checkout_latest()
        assert table.stats()["fragment_stats"]["num_fragments"] < 5
    assert table.count_rows() == 12


def test_what_a_burst_of_writes_left_goes_when_it_is_over(tmp_path, open_store):
    now = [0.0]
    limits = ChunkLimits(kept_versions_s=0.001)
    store = open_store(limits=limits, clock=lambda: now[0])
    for turn in range(10):
        store.replace([make_file(f"f{turn % 3}.py", f"text {turn}\n")])
    store.tidy()
    versions = tmp_path / "index.lancedb" / "project_docs.lance" / "_versions"
    assert len(list(versions.iterdir())) > 10  # it is not over yet
    now[0] += limits.quiet_s
    store.tidy()
    assert len(list(versions.iterdir())) <= 3
    assert store.verify() == []


def test_a_lost_row_is_noticed(tmp_path, open_store):
    store = open_store()
    store.replace([make_file("a.py", "one\n", "two\n")])
    lancedb.connect(str(tmp_path / "index.lancedb")).open_table("project_docs").delete(
        "text = 'two\n'"
    )
    assert store.verify() == ["chunks without a row in LanceDB: 1"]


def test_without_the_extra_the_error_says_what_to_install(tmp_path):
    code = (
        "import sys; sys.modules['lancedb'] = None\n"
        "from pathlib import Path\n"
        "from sonde.errors import MissingExtra\n"
        "from sonde.stores.chunks.lance import LanceChunkStore\n"
        "try: LanceChunkStore(Path(sys.argv[1]), 'code')\n"
        "except MissingExtra as error: print(error.next_action)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "Install its packages: pip install 'lancedb<1,>=0.30' 'pyarrow<27,>=17'\n"


def test_importing_the_stores_does_not_import_lancedb():
    code = "import sys, sonde.stores.chunks.lance; print('lancedb' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_a_flipped_bit_in_a_vector_is_noticed(tmp_path, open_store):
    file = make_file("a.py", *(f"text {number}" for number in range(300)))
    rows = np.random.default_rng(1).standard_normal((300, 256)).astype(np.float32)
    store = open_store()
    store.replace([file])
    store.put_vectors("m", [chunk.digest for chunk in file.chunks], rows)
    assert store.coverage("m") == (300, 300)
    assert store.count_damaged() == 0
    (path,) = tmp_path.glob("index.lancedb/vectors-*/data/*.lance")
    data = bytearray(path.read_bytes())
    place = data.index(rows[7].tobytes()) + 100
    data[place] ^= 64  # LanceDB itself would not notice
    path.write_bytes(data)
    again = open_store()
    assert again.coverage("m") == (299, 300)
    assert again.count_damaged() == 1
    assert file.chunks[7].digest in {chunk.digest for chunk in again.missing("m", 10)}
