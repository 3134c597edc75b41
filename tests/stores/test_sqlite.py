"""Opening SQLite: versions, errors in our words, many threads and processes."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading

import apsw
import pytest

from sonde.errors import DiskFull, IndexBusy, IndexCorrupt, IndexTooNew, StorageUnusable
from sonde.stores.database import Database, Format, bind_text, read_stored_text, translate_errors


def create_notes(connection):
    connection.execute("CREATE TABLE notes (text TEXT)")


def add_stars(connection):
    connection.execute("ALTER TABLE notes ADD COLUMN stars INTEGER NOT NULL DEFAULT 0")


FIRST = Format(application_id=77, steps=(create_notes,))
SECOND = Format(application_id=77, steps=(create_notes, add_stars))


def write_notes(path, form, *texts):
    database = Database(path, form)
    with database.write() as connection:
        connection.executemany("INSERT INTO notes (text) VALUES (?)", [(t,) for t in texts])
    database.close()


def read_notes(database):
    with database.read() as connection:
        return connection.execute("SELECT * FROM notes").fetchall()


class TestVersions:
    def test_an_older_database_is_brought_up_on_open_with_what_it_holds(self, tmp_path):
        write_notes(tmp_path / "x.db", FIRST, "one", "two")
        database = Database(tmp_path / "x.db", SECOND)
        assert read_notes(database) == [("one", 0), ("two", 0)]
        database.close()
        reopened = Database(tmp_path / "x.db", SECOND)
        assert read_notes(reopened) == [("one", 0), ("two", 0)]
        reopened.close()

    def test_a_newer_database_is_refused_and_left_alone(self, tmp_path):
        write_notes(tmp_path / "x.db", SECOND, "kept")
        with pytest.raises(IndexTooNew, match="format 2, this version of sonde reads up to 1"):
            Database(tmp_path / "x.db", FIRST)
        database = Database(tmp_path / "x.db", SECOND)
        assert read_notes(database) == [("kept", 0)]
        database.close()

    def test_a_step_that_fails_leaves_the_old_version(self, tmp_path):
        def fail(connection):
            add_stars(connection)
            raise RuntimeError("no")

        write_notes(tmp_path / "x.db", FIRST, "kept")
        with pytest.raises(RuntimeError):
            Database(tmp_path / "x.db", Format(77, (create_notes, fail)))
        database = Database(tmp_path / "x.db", FIRST)
        assert read_notes(database) == [("kept",)]
        database.close()

    def test_another_programs_database_is_not_touched(self, tmp_path):
        foreign = apsw.Connection(str(tmp_path / "x.db"))
        foreign.execute("CREATE TABLE theirs (x)")
        foreign.close()
        with pytest.raises(IndexCorrupt, match="another program"):
            Database(tmp_path / "x.db", FIRST)

    def test_processes_that_open_a_new_database_at_once_all_get_it(self, tmp_path):
        code = (
            "import sys; from pathlib import Path;"
            "from sonde.stores.chunks.sqlite import SqliteChunkStore;"
            "s = SqliteChunkStore(Path(sys.argv[1]), 'code'); print(s.counts().files); s.close()"
        )
        command = [sys.executable, "-c", code, str(tmp_path)]
        children = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(4)
        ]
        assert [child.communicate() for child in children] == [("0\n", "")] * 4


class TestErrors:
    def test_rubbish_is_a_corrupt_index(self, tmp_path):
        (tmp_path / "x.db").write_bytes(b"rubbish" * 1_000)
        with pytest.raises(IndexCorrupt):
            Database(tmp_path / "x.db", FIRST)

    def test_damage_inside_is_found_by_check(self, tmp_path):
        path = tmp_path / "x.db"
        write_notes(path, FIRST, *(f"note {n} " * 50 for n in range(500)))
        data = bytearray(path.read_bytes())
        data[8192 : len(data) - 4096] = b"\x5a" * (len(data) - 12288)
        path.write_bytes(data)
        database = Database(path, FIRST)
        assert database.check() != []
        with pytest.raises(IndexCorrupt):
            read_notes(database)
        database.close()

    def test_a_folder_in_the_way_is_unusable_storage(self, tmp_path):
        (tmp_path / "x.db").mkdir()
        with pytest.raises(StorageUnusable):
            Database(tmp_path / "x.db", FIRST)
        (tmp_path / "file").write_text("")
        with pytest.raises(StorageUnusable):
            Database(tmp_path / "file" / "x.db", FIRST)

    def test_a_full_disk_says_how_much_is_needed_and_keeps_what_was_there(self, tmp_path):
        write_notes(tmp_path / "x.db", FIRST, "kept")
        database = Database(tmp_path / "x.db", FIRST)
        with database.write() as connection:
            pages = connection.pragma("page_count")
        database._writer.pragma("max_page_count", pages)
        with pytest.raises(DiskFull) as caught, database.write() as connection:
            connection.executemany("INSERT INTO notes VALUES (?)", [("x" * 4_000,)] * 1_000)
        assert caught.value.facts["needed"] > 0
        assert "ENOSPC - need ~" in caught.value.developer_message
        assert read_notes(database) == [("kept",)]
        database.close()

    def test_a_lock_that_is_never_released_is_a_busy_index(self, tmp_path):
        database = Database(tmp_path / "x.db", FIRST)
        other = apsw.Connection(str(tmp_path / "x.db"))
        other.execute("BEGIN IMMEDIATE")
        database._writer.set_busy_timeout(1)
        with pytest.raises(IndexBusy), database.write():
            pass
        other.close()
        with database.write() as connection:
            connection.execute("INSERT INTO notes VALUES ('works')")
        database.close()

    def test_a_closed_database_says_so(self, tmp_path):
        database = Database(tmp_path / "x.db", FIRST)
        database.close()
        with pytest.raises(StorageUnusable, match="closed"):
            read_notes(database)
        with pytest.raises(StorageUnusable, match="closed"), database.write():
            pass
        database.rest()
        database.close()

    def test_a_disk_too_full_for_the_folder_is_a_full_disk(self, tmp_path):
        with pytest.raises(DiskFull), translate_errors(tmp_path / "no" / "folder" / "x.db"):
            raise OSError(errno.ENOSPC, "No space left on device")

    def test_a_log_that_cannot_be_shared_makes_the_storage_unusable(self, tmp_path):
        """What SQLite says when that file cannot be made, and its tries are used up."""
        with pytest.raises(StorageUnusable), translate_errors(tmp_path / "x.db"):
            raise apsw.ProtocolError("locking protocol")

    def test_reading_without_memory_says_so_and_can_be_tried_again(self, tmp_path):
        write_notes(tmp_path / "x.db", FIRST, "kept")
        database = Database(tmp_path / "x.db", FIRST)

        def read_much():
            with database.read() as connection:
                apsw.hard_heap_limit(apsw.memory_used() + 100_000)
                try:
                    connection.execute(
                        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
                        " LIMIT 99999) SELECT DISTINCT i || text FROM n, notes"
                    ).fetchall()
                finally:
                    apsw.hard_heap_limit(0)

        with pytest.raises(MemoryError):
            read_much()
        assert read_notes(database) == [("kept",)]
        database.close()


class TestThreads:
    def test_writers_take_turns_and_readers_see_whole_writes(self, tmp_path):
        database = Database(tmp_path / "x.db", FIRST)
        odd = []

        def write():
            for _ in range(20):
                with database.write() as connection:
                    connection.execute("INSERT INTO notes VALUES ('a'), ('b')")

        def read():
            counts = [len(read_notes(database)) for _ in range(60)]
            odd.extend(count for count in counts if count % 2)

        threads = [threading.Thread(target=each) for each in (write, write, read, read, read)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert odd == []
        assert len(read_notes(database)) == 80
        database.close()

    def test_a_write_that_fails_leaves_nothing(self, tmp_path):
        database = Database(tmp_path / "x.db", FIRST)
        with pytest.raises(apsw.SQLError), database.write() as connection:
            connection.execute("INSERT INTO notes VALUES ('half'); SELECT * FROM nowhere")
        assert read_notes(database) == []
        database.close()


def test_any_string_is_kept():
    for text in ("plain", "ü", "caf\udce9", "\ud800x", "", "\0"):
        assert read_stored_text(bind_text(text)) == text


def test_stores_without_sqlite_do_not_import_it():
    modules = "sonde.stores.knowledge.postgres, sonde.stores.files, sonde.stores.users"
    code = f"import sys, {modules}; print('apsw' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
