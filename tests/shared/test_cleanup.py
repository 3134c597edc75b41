"""Cleaning: what no commit needs goes, what one needs stays, also while others push."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.shared.conftest import FILES, Clone

from sonde.runtime.system import now_ms
from sonde.runtime.work import Work
from sonde.shared.cleanup import clean_index
from sonde.shared.index import SharedIndex
from sonde.stores.chunks.sqlite import SqliteChunkStore

DAY_MS = 24 * 3600 * 1000


def clean(shared: SharedIndex, days: int) -> dict[str, int]:
    return clean_index(shared, Work(), now=lambda: now_ms() + days * DAY_MS)


def empty(shared: SharedIndex, name: str) -> None:
    shared.tables.change(name, lambda table: table.delete("true"))


def count(shared: SharedIndex, name: str) -> int:
    return int(shared.tables.open(name).count_rows())


def test_commits_without_a_branch_go_after_a_while(ci: Clone, tmp_path: Path) -> None:
    first = ci.push(tmp_path / "shared").commit
    second = ci.commit({"src/new.py": "def new():\n    pass\n"}, "src/users.py")
    ci.push(tmp_path / "shared")
    shared = SharedIndex(str(tmp_path / "shared"))
    assert not any(clean(shared, days=2).values())
    removed = clean(shared, days=31)
    assert (removed["commits"], removed["files"], removed["texts"]) == (1, 1, 1)
    assert shared.nearest("shop", [first, second]) == second
    for rows in (False, True):
        folder = tmp_path / f"filled-{rows}"
        folder.mkdir()
        assert shared.fill("shop", second, folder, rows=rows).note == ""
        store = SqliteChunkStore(folder, "code")
        assert store.files().keys() == {"src/orders.py", "run.sh", "src/new.py"}
        assert store.coverage(store.models()[0])[0] == len(store.files())
        store.close()
    assert not any(clean(shared, days=31).values())


def test_rows_of_a_push_that_died_are_used_or_removed(ci: Clone, tmp_path: Path) -> None:
    ci.push(tmp_path / "shared")
    shared = SharedIndex(str(tmp_path / "shared"))
    chunks = count(shared, "chunks")
    # as if the push had died before it named its commit
    empty(shared, "commits")
    empty(shared, "refs")
    report = ci.push(tmp_path / "shared")
    assert (report.added.files, report.added.known_files) == (0, len(FILES))
    assert count(shared, "chunks") == chunks
    empty(shared, "commits")
    empty(shared, "refs")
    assert not any(clean(shared, days=0).values())
    removed = clean(shared, days=2)
    assert removed["files"] == removed["texts"] == len(FILES)
    assert removed["packs"] == 2
    assert [count(shared, name) for name in ("files", "chunks", "texts")] == [0, 0, 0]
    assert ci.push(tmp_path / "shared").added.files == len(FILES)


def test_what_a_push_has_just_found_is_not_removed(ci: Clone, tmp_path: Path) -> None:
    ci.push(tmp_path / "shared")
    shared = SharedIndex(str(tmp_path / "shared"))
    empty(shared, "commits")
    keys = shared.tables.read_column("files", "key")
    later = now_ms() + 2 * DAY_MS
    shared.tables.touch("files", "key", keys, later)
    removed = clean(shared, days=2)
    assert (removed["files"], removed["chunks"]) == (0, 0)
    assert count(shared, "chunks") > 0


def test_old_versions_are_kept_for_readers_and_then_forgotten(ci: Clone, tmp_path: Path) -> None:
    ci.push(tmp_path / "shared")
    reader = SharedIndex(str(tmp_path / "shared"))
    before = len(reader.tables.open("refs").list_versions())
    for number in range(3):
        ci.commit({"src/new.py": f"x = {number}\n"})
        ci.push(tmp_path / "shared")
    assert len(reader.tables.open("refs").list_versions()) > before
    clean_index(reader, Work(), grace=timedelta(milliseconds=1))
    assert len(reader.tables.open("refs").list_versions()) <= 2
    assert reader.find_head("shop") == ci.push(tmp_path / "shared").commit


def test_an_index_of_a_table_that_lost_its_files_is_made_again(tmp_path: Path) -> None:
    tables = SharedIndex(str(tmp_path / "shared"), create=True).tables

    def add(first: int) -> None:
        span = (0, 1, 2, 0, 9)
        rows = [(f"f{n}", *span, f"d{n}", "s", "h", "text", "p", "n", f"word{n}", 0)
                for n in range(first, first + 3_000)]  # fmt: skip
        tables.add("chunks", rows)
        tables.maintain("chunks")

    add(0)
    for path in (tmp_path / "shared" / "chunks.lance" / "_indices").rglob("*.lance"):
        path.unlink()
    tables = SharedIndex(str(tmp_path / "shared")).tables
    add(3_000)
    table = tables.open("chunks")
    for word in ("word5", "word5005"):
        found = table.search(word, query_type="fts", fts_columns="words").limit(3).to_list()
        assert [row["file"] for row in found] == [word.replace("word", "f")]
