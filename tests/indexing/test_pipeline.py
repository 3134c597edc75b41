"""What an update reads, writes, leaves alone and reports."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sonde.errors import Cancelled
from sonde.indexing.diff import compare_index
from sonde.indexing.pipeline import update_index
from sonde.runtime.work import Work
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.types import Progress, Skipped

SECRET = "-----BEGIN " + "PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ\n"
OLD_NS = 1_600_000_000_000_000_000


def age(path: Path, seconds: int = 0) -> Path:
    """Give a file a time stamp that is not of this moment."""
    os.utime(path, ns=(OLD_NS, OLD_NS + seconds * 1_000_000_000))
    return path


@pytest.fixture
def reads(bench: Any) -> list[str]:
    """The files that were opened, in order."""
    seen: list[str] = bench.tree.reads
    return seen


def test_a_first_index_holds_every_file_with_its_chunks_and_names(bench: Any) -> None:
    bench.write("src/a.py", "def alpha():\n    return 1\n")
    bench.write("guide.md", "# Guide\n\nHow to.\n")
    report = bench.update()
    assert (report.files_indexed, report.files_removed, report.files_unchanged) == (2, 0, 0)
    assert set(bench.stores["code"].files()) == {"src/a.py"}
    assert set(bench.stores["docs"].files()) == {"guide.md"}
    assert [
        symbol.name for symbol in bench.stores["code"].symbols_of(["src/a.py"])["src/a.py"]
    ] == ["alpha"]
    assert report.chunks_created == 2


def test_an_empty_project_gives_an_empty_index(bench: Any) -> None:
    report = bench.update()
    assert report.files_indexed == report.chunks_created == 0
    assert bench.snapshot() == {}


def test_an_empty_file_is_known_and_has_no_chunks(bench: Any) -> None:
    age(bench.write("empty.py", ""))
    bench.update()
    assert bench.files() == {"empty.py"}
    assert bench.stores["code"].chunks_of("empty.py") == []
    assert bench.update().files_unchanged == 1


def test_files_that_did_not_change_are_not_opened_again(bench: Any, reads: list[str]) -> None:
    for name in ("a.py", "b.py", "c.md"):
        age(bench.write(name, f"{name} text\n"))
    bench.update()
    reads.clear()
    assert bench.update().files_unchanged == 3
    assert reads == []


def test_a_touched_file_is_read_but_its_chunks_stay(bench: Any, reads: list[str]) -> None:
    path = bench.write("a.py", "x = 1\n")
    age(path)
    bench.update()
    before = [chunk.id for chunk in bench.stores["code"].chunks_of("a.py")]
    age(path, 60)
    reads.clear()
    report = bench.update()
    assert reads == ["a.py"]
    assert (report.files_indexed, report.chunks_created, report.files_unchanged) == (0, 0, 1)
    assert [chunk.id for chunk in bench.stores["code"].chunks_of("a.py")] == before
    reads.clear()
    bench.update()
    assert reads == []


def test_changed_new_deleted_renamed_and_moved_files_are_followed(bench: Any) -> None:
    for name in ("keep.py", "change.py", "delete.py", "rename.py", "move.py"):
        age(bench.write(name, f"name = '{name}'\n"))
    bench.update()
    bench.write("change.py", "name = 'changed'\n")
    bench.write("new.py", "name = 'new'\n")
    (bench.root / "delete.py").unlink()
    (bench.root / "rename.py").rename(bench.root / "renamed.py")
    (bench.root / "move.py").rename(bench.root / "move.md")
    report = bench.update()
    assert (report.files_indexed, report.files_removed, report.files_unchanged) == (4, 3, 1)
    assert set(bench.stores["code"].files()) == {"keep.py", "change.py", "new.py", "renamed.py"}
    assert set(bench.stores["docs"].files()) == {"move.md"}
    assert bench.stores["code"].chunks_of("change.py")[0].text == "name = 'changed'\n"


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("paths", [None, {"notes.rst"}])
def test_a_file_that_turns_from_code_into_docs_changes_its_index(
    open_bench: Any, tmp_path: Path, force: bool, paths: set[str] | None
) -> None:
    docs: set[str] = set()
    bench = open_bench(is_docs=lambda path: path in docs)
    age(bench.write("notes.rst", "Notes\n"))
    bench.update()
    assert set(bench.stores["code"].files()) == {"notes.rst"}
    docs.add("notes.rst")
    bench.update(force=force, paths=paths)
    assert set(bench.stores["code"].files()) == set()
    assert set(bench.stores["docs"].files()) == {"notes.rst"}


@pytest.mark.parametrize(("content", "reason"), [(b"a\0b", "binary"), (SECRET, "secret_content")])
def test_a_refused_file_is_opened_once_until_it_changes(
    bench: Any, reads: list[str], content: str | bytes, reason: str
) -> None:
    path = bench.write("a.txt", content)
    age(path)
    assert bench.update().skipped == {reason: 1}
    assert bench.update().skipped == {reason: 1}
    assert reads == ["a.txt"]
    path.write_text("plain words\n")
    assert bench.update().files_indexed == 1
    assert bench.refused == {}


@pytest.mark.parametrize("force", [False, True])
def test_a_file_that_becomes_refused_is_forgotten(bench: Any, force: bool) -> None:
    path = bench.write("a.py", "x = 1\n")
    age(path)
    bench.update()
    path.write_text(SECRET)
    bench.update(force=force)
    assert bench.files() == set()


def test_a_refused_file_that_is_deleted_is_not_remembered(bench: Any) -> None:
    path = bench.write("a.txt", b"a\0b")
    age(path)
    bench.update()
    assert set(bench.refused) == {"a.txt"}
    path.unlink()
    bench.update()
    assert bench.refused == {}


def test_a_file_that_could_not_be_read_is_tried_again_though_nothing_else_changed(
    bench: Any,
) -> None:
    age(bench.write("a.py", "x = 1\n"))
    bench.tree.faults["a.py"] = Skipped("a.py", "unreadable")
    assert bench.update().skipped == {"unreadable": 1}
    bench.tree.faults.clear()
    assert bench.update().files_indexed == 1


@pytest.mark.parametrize("stamp", [OLD_NS + 123_456_789, OLD_NS])
@pytest.mark.parametrize(("first", "second"), [("x = 1\n", "x = 2\n"), ("a\0b\n", "abc\n")])
def test_a_change_within_the_same_time_stamp_and_size_is_noticed(
    bench: Any, first: str, second: str, stamp: int
) -> None:
    # the first file is read a millisecond after it was written, the second one much later
    times = iter([stamp + 1_000_000])

    def now_ns() -> int:
        return next(times, stamp + 10_000_000_000)

    path = bench.write("a.py", first)
    os.utime(path, ns=(stamp, stamp))
    bench.write("z.py", "z = 1\n")
    bench.update(now_ns=now_ns)
    path.write_text(second)
    os.utime(path, ns=(stamp, stamp))
    bench.update(now_ns=now_ns)
    assert bench.stores["code"].chunks_of("a.py")[0].text == second


def test_a_file_is_not_trusted_as_written_just_now_though_its_own_time_is_old(bench: Any) -> None:
    # as rsync --times, cp -p and touch -r leave it: only the time of the change itself is new
    path = age(bench.write("a.py", "x = 1\n"))
    read_ns = path.stat().st_ctime_ns + 1_000_000
    bench.update(now_ns=lambda: read_ns)
    assert bench.stores["code"].files()["a.py"].stamp == 0
    bench.update(now_ns=lambda: read_ns + 10_000_000_000)
    assert bench.stores["code"].files()["a.py"].stamp != 0
    assert bench.update().files_unchanged == 1


def test_a_file_that_changes_between_listing_and_reading_is_not_trusted(bench: Any) -> None:
    path = age(bench.write("a.py", "x = 1\n"))
    diff = compare_index(bench.tree, bench.stores, Work())
    path.write_text("x = 2\n")
    age(path)
    later = path.stat().st_ctime_ns + 10_000_000_000
    update_index(bench.tree, bench.stores, {}, Work(), diff, now_ns=lambda: later)
    assert bench.stores["code"].chunks_of("a.py")[0].text == "x = 2\n"
    assert bench.stores["code"].files()["a.py"].stamp == 0


def test_docs_that_are_switched_off_are_not_opened(open_bench: Any) -> None:
    bench = open_bench(index_docs=False)
    bench.write("a.py", "x = 1\n")
    bench.write("guide.md", "# Guide\n")
    bench.update()
    assert bench.files() == {"a.py"}
    assert bench.tree.reads == ["a.py"]


def test_docs_that_are_switched_off_later_are_forgotten(open_bench: Any) -> None:
    bench = open_bench()
    age(bench.write("guide.md", "# Guide\n"))
    bench.update()
    object.__setattr__(bench.tree, "index_docs", False)
    bench.update()
    assert bench.files() == set()


@pytest.mark.row("001-21", "001-87")
def test_recursive_chunking_cuts_by_size_and_covers_the_file(open_bench: Any) -> None:
    bench = open_bench(chunking="recursive")
    text = "".join(f"line_{number} = {number}\n" for number in range(2000))
    bench.write("a.py", text)
    bench.update()
    chunks = bench.stores["code"].chunks_of("a.py")
    assert len(chunks) > 5
    assert all(len(chunk.text) <= 4000 for chunk in chunks)
    lines = text.splitlines(keepends=True)
    for chunk in chunks:
        exact = "".join(lines[chunk.span.start_line - 1 : chunk.span.end_line])
        assert chunk.text.strip() in exact
    covered = {n for c in chunks for n in range(c.span.start_line, c.span.end_line + 1)}
    assert covered == set(range(1, 2001))


def test_the_words_of_code_are_merged_while_documents_are_prepared(
    bench: Any, tmp_path: Path
) -> None:
    seen: list[tuple[str, str]] = []

    class RecordingStore(SqliteChunkStore):
        def replace(self, files: Any, *, more: bool = False) -> None:
            seen.append((files[0].state.kind, "more" if more else "written"))
            super().replace(files, more=more)

        def tidy(self) -> None:
            seen.append(("code", "tidied"))
            super().tidy()

    for kind in ("code", "docs"):
        bench.stores[kind].close()
        bench.stores[kind] = RecordingStore(tmp_path / "recorded", kind)
        for number in range(130):
            bench.write(f"{number}.{'py' if kind == 'code' else 'md'}", f"x = {number}\n")
    bench.update()
    assert seen == [*[("code", "more")] * 2, ("code", "tidied"), *[("docs", "more")] * 2]
    seen.clear()
    bench.write("1.py", "y = 1\n")
    bench.write("1.md", "changed\n")
    bench.update()
    assert seen == [("code", "written"), ("docs", "written")]


def test_writes_are_cut_into_bounded_batches(bench: Any, tmp_path: Path) -> None:
    sizes: list[tuple[int, int]] = []

    class RecordingStore(SqliteChunkStore):
        def replace(self, files: Any, *, more: bool = False) -> None:
            sizes.append((len(files), sum(len(c.text) for f in files for c in f.chunks)))
            super().replace(files, more=more)

    bench.stores["code"].close()
    bench.stores["code"] = RecordingStore(tmp_path / "recorded", "code")
    for number in range(300):
        bench.write(f"small/{number}.py", f"x = {number}\n")
    for number in range(7):
        bench.write(f"large/{number}.py", f"# {number}\n" + "y = 'text of a line'\n" * 9_000)
    bench.update()
    assert sum(count for count, _ in sizes) == 307
    assert all(count <= 128 for count, _ in sizes)
    assert all(chars <= 1_300_000 for _, chars in sizes)
    assert len(sizes) >= 4


@pytest.mark.row("001-93")
def test_progress_only_grows_and_ends_at_the_total(bench: Any) -> None:
    for number in range(300):
        bench.write(f"{number}.py", f"x = {number}\n")
    seen: list[Progress] = []
    bench.update(Work(report=seen.append))
    done = [progress.done for progress in seen if progress.stage == "indexing"]
    assert done == sorted(done)
    assert len(done) >= 2
    assert done[-1] == seen[-1].total == 300


def test_a_cancelled_update_keeps_what_it_wrote_and_goes_on_later(
    bench: Any, open_bench: Any, reads: list[str]
) -> None:
    for number in range(300):
        age(bench.write(f"{number}.py", f"def f{number}():\n    return {number}\n"))
    work = Work(report=lambda _progress: work.cancel())
    with pytest.raises(Cancelled):
        bench.update(work)
    kept = len(bench.files())
    assert 0 < kept < 300
    reads.clear()
    bench.update()
    assert len(reads) == 300 - kept
    fresh = open_bench()
    fresh.update()
    assert bench.snapshot() == fresh.snapshot()


def test_a_file_that_is_read_again_by_force_is_not_unchanged_too(bench: Any) -> None:
    for name in ("a", "b"):
        path = bench.write(f"{name}.py", f"def {name}():\n    pass\n")
        os.utime(path, (1_600_000_000, 1_600_000_000))
    bench.update()
    report = bench.update(paths={"a.py"}, force=True)
    assert (report.files_indexed, report.files_unchanged) == (1, 0)
    assert bench.files() == {"a.py", "b.py"}
    (bench.root / "a.py").unlink()
    report = bench.update(paths={"a.py"}, force=True)
    assert (report.files_indexed, report.files_removed) == (0, 1)
    assert bench.files() == {"b.py"}
