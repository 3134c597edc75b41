"""The project's JSON files: whole, validated, of a known version."""

from __future__ import annotations

import hashlib
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.errors import IndexTooNew, StorageUnusable
from sonde.stores import records
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.stores.files import read_json, write_json, write_text
from sonde.stores.records import Metadata, load_metadata, project_folder, save_metadata
from sonde.types import FileState, StoreCounts

HASH = "ab" * 32


def make_metadata(**changes):
    return Metadata(project_path="/p", created_at="2024-01-15T10:00:00Z", **changes)


class TestProjectFolder:
    def test_it_is_named_after_the_real_path(self, tmp_path):
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        digest = hashlib.sha256(str(tmp_path / "real").encode()).hexdigest()
        expected = tmp_path / "home" / "indexes" / digest[:32]
        assert project_folder(tmp_path / "home", tmp_path / "real") == expected
        assert project_folder(tmp_path / "home", tmp_path / "link") == expected

    @pytest.mark.row("001-9")
    def test_an_old_short_name_is_found_and_kept(self, tmp_path):
        digest = hashlib.sha256(str(tmp_path).encode()).hexdigest()
        legacy = tmp_path / "indexes" / digest[:16]
        legacy.mkdir(parents=True)
        assert project_folder(tmp_path, tmp_path) == legacy
        (tmp_path / "indexes" / digest[:32]).mkdir()
        assert project_folder(tmp_path, tmp_path).name == digest[:32]


class TestMetadata:
    def test_it_has_the_documented_shape(self, tmp_path):
        counts = StoreCounts(files=450, chunks=1205, bytes=47185920)
        docs = StoreCounts(files=12, chunks=45, bytes=1048576)
        times = {"last_full_index": "T1", "last_incremental_update": "T2", "last_docs_index": "T1"}
        save_metadata(tmp_path, make_metadata(code=counts, docs=docs, **times))
        written = json.loads((tmp_path / "metadata.json").read_text())
        assert written["version"] == "1.0.0"
        assert written["projectPath"] == "/p"
        assert written["createdAt"] == "2024-01-15T10:00:00Z"
        assert (written["lastFullIndex"], written["lastIncrementalUpdate"]) == ("T1", "T2")
        assert written["stats"] == {
            "totalFiles": 450,
            "totalChunks": 1205,
            "storageSizeBytes": 47185920,
        }
        assert written["docsStats"] == {
            "totalDocs": 12,
            "totalDocChunks": 45,
            "docsStorageSizeBytes": 1048576,
        }
        assert written["lastDocsIndex"] == "T1"
        assert (written["formatVersion"], written["store"]) == (1, "sqlite")

    def test_what_was_saved_is_loaded(self, tmp_path):
        counts = StoreCounts(1, 2, 3)
        skipped = {
            "skipped": {"binary": 2},
            "skipped_examples": ({"path": "a.png", "reason": "binary", "detail": ""},),
        }
        metadata = make_metadata(
            store="lance", code=counts, docs=counts, last_full_index="T1", **skipped
        )
        save_metadata(tmp_path, metadata)
        assert load_metadata(tmp_path) == metadata
        assert (metadata.total_files, metadata.total_chunks) == (2, 4)

    def test_a_folder_of_an_earlier_format_is_brought_up_and_asks_to_be_indexed(self, tmp_path):
        old = {
            "version": "0.9.2",
            "projectPath": "/old/project",
            "createdAt": "2023-05-01T00:00:00Z",
            "lastFullIndex": "2023-05-01T00:00:00Z",
            "stats": {"totalFiles": 3, "totalChunks": 9, "storageSizeBytes": 1},
        }
        (tmp_path / "metadata.json").write_text(json.dumps(old))
        (tmp_path / "fingerprints.json").write_text(json.dumps({"a.ts": HASH}))
        metadata = load_metadata(tmp_path)
        assert (metadata.project_path, metadata.created_at) == (
            "/old/project",
            "2023-05-01T00:00:00Z",
        )
        assert metadata.last_full_index is None
        assert metadata.total_files == 0
        assert json.loads((tmp_path / "metadata.json").read_text())["formatVersion"] == 1

    @pytest.mark.row("001-9")
    def test_an_old_short_folder_serves_as_the_new_index(self, tmp_path):
        root = tmp_path / "project"
        root.mkdir()
        digest = hashlib.sha256(str(root).encode()).hexdigest()
        legacy = tmp_path / "indexes" / digest[:16]
        legacy.mkdir(parents=True)
        (legacy / "metadata.json").write_text(
            json.dumps({"version": "0.1.0", "projectPath": str(root)})
        )
        (legacy / "fingerprints.json").write_text(json.dumps({"a.ts": HASH}))
        folder = project_folder(tmp_path, root)
        assert load_metadata(folder).last_full_index is None
        store = SqliteChunkStore(folder, "code")
        assert (folder, store.files(), store.verify()) == (legacy, {}, [])
        store.close()

    @pytest.mark.parametrize("newer", [{"formatVersion": 2}, {"version": "2.0.0"}])
    def test_a_newer_format_is_refused_and_left_alone(self, tmp_path, newer):
        text = json.dumps({"version": "1.0.0", "projectPath": "/p", **newer})
        (tmp_path / "metadata.json").write_text(text)
        with pytest.raises(IndexTooNew, match="format 2, this version of sonde reads up to 1"):
            load_metadata(tmp_path)
        assert (tmp_path / "metadata.json").read_text() == text

    @settings(max_examples=50)
    @given(
        value=st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ),
        keys=st.sets(
            st.sampled_from(
                "projectPath createdAt stats docsStats models skipped lastFullIndex store".split()
            )
        ),
    )
    def test_no_content_can_crash_it(self, tmp_path_factory, value, keys):
        folder = tmp_path_factory.mktemp("odd")
        write_json(folder / "metadata.json", {"projectPath": "/p"} | dict.fromkeys(keys, value))
        found = load_metadata(folder)
        assert found is None or isinstance(found.total_files, int)


class TestFingerprints:
    def test_they_map_paths_to_hashes_and_nothing_else(self, tmp_path):
        states = {
            path: FileState(path, HASH, 1, 1, "python", "code") for path in ("b.py", "ü\udcff.py")
        }
        records.save_fingerprints(tmp_path, "code", states)
        assert json.loads((tmp_path / "fingerprints.json").read_text()) == dict.fromkeys(
            states, HASH
        )
        assert records.load_fingerprints(tmp_path, "code") == dict.fromkeys(states, HASH)
        assert records.load_fingerprints(tmp_path, "docs") == {}

    def test_what_is_no_hash_is_left_out(self, tmp_path):
        write_json(
            tmp_path / "docs-fingerprints.json", {"a": HASH, "b": "zz", "c": 5, "": HASH, "d": None}
        )
        assert records.load_fingerprints(tmp_path, "docs") == {"a": HASH}


class TestDirtyFiles:
    def test_they_survive_a_restart(self, tmp_path):
        assert records.load_dirty(tmp_path) == set()
        records.save_dirty(tmp_path, {"b.py", "a.py"})
        assert records.load_dirty(tmp_path) == {"a.py", "b.py"}

    def test_newer_ones_are_refused(self, tmp_path):
        write_json(tmp_path / "dirty-files.json", {"formatVersion": 9, "files": []})
        with pytest.raises(IndexTooNew):
            records.load_dirty(tmp_path)


class TestJson:
    @pytest.mark.parametrize(
        "content",
        [b"", b'{"a": 1', b"\xff\xfe", b"[" * 200_000, b'{"a": ' + b"9" * 5_000 + b"}"],
        ids=["empty", "torn", "not UTF-8", "too deep", "huge number"],
    )
    def test_a_broken_file_reads_as_missing(self, tmp_path, content):
        (tmp_path / "x.json").write_bytes(content)
        assert read_json(tmp_path / "x.json") is None

    def test_a_file_over_the_limit_reads_as_missing(self, tmp_path):
        write_json(tmp_path / "x.json", ["x" * 50])
        assert read_json(tmp_path / "x.json", limit=20) is None
        assert read_json(tmp_path / "x.json") == ["x" * 50]

    def test_what_is_no_file_reads_as_missing(self, tmp_path):
        os.mkfifo(tmp_path / "pipe.json")
        assert read_json(tmp_path / "pipe.json") is None
        assert read_json(tmp_path) is None
        assert read_json(tmp_path / "none.json") is None

    def test_a_failed_write_leaves_the_old_file_and_no_litter(self, tmp_path):
        write_json(tmp_path / "x.json", {"kept": True})
        with pytest.raises(TypeError):
            write_json(tmp_path / "x.json", {"bad": object()})
        with pytest.raises(UnicodeEncodeError):
            write_text(tmp_path / "x.json", "\ud800")
        assert read_json(tmp_path / "x.json") == {"kept": True}
        assert [path.name for path in tmp_path.iterdir()] == ["x.json"]

    def test_a_place_that_cannot_be_written_is_a_clear_error(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(StorageUnusable) as caught:
            write_json(tmp_path / "file" / "x.json", {})
        assert str(tmp_path / "file") in caught.value.developer_message


def test_metadata_that_were_read_before_are_read_again_when_the_file_changes(tmp_path):
    save_metadata(tmp_path, Metadata("/p", "now", generation=1))
    assert load_metadata(tmp_path).generation == load_metadata(tmp_path).generation == 1
    whole = (tmp_path / "metadata.json").read_text()
    for generation in range(2, 9):
        save_metadata(tmp_path, Metadata("/p", "now", generation=generation))
        assert load_metadata(tmp_path).generation == generation
    (tmp_path / "metadata.json").write_text(whole[:20])
    assert load_metadata(tmp_path) is None
    (tmp_path / "metadata.json").unlink()
    assert load_metadata(tmp_path) is None
    (tmp_path / "metadata.json").write_text(whole)
    assert load_metadata(tmp_path).generation == 1
