"""Reading many files in a row gives what reading each alone gives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.trees import write_files

from sonde.errors import OutsideRoots
from sonde.policy.admit import Rules, Source
from sonde.policy.read import FileReader
from sonde.types import FileContent, FileText, Skipped

SECRET = "key = 'AKIAIOSFODNN7ZZQWERT'\n"
FILES: dict[str, bytes] = {
    "a/b/c.py": b"x = 1\n",
    "a/b/d.txt": "größer 海\r\n".encode(),
    "a/e.txt": b"\xef\xbb\xbfmarked\n",
    "a/f.txt": "sixteen".encode("utf-16"),
    "a/g.txt": "na\u00efve".encode("cp1252"),
    "a/h.dat": b"\0\1\2",
    "a/i.dat": b"x" * 9000 + b"\0tail",
    "a/j.txt": b"y" * 20_000,
    "b/empty": b"",
    "b/leak.py": SECRET.encode(),
    "b/.env": b"A=1",
    "b/node_modules/x.js": b"x",
    "b/picture.png": b"text",
    "c/1/2/3/4/deep.py": b"z",
}
RULES = Rules(max_file_bytes=10_000, max_depth=4)


def read_alone(root: Path, path: str) -> FileContent | Skipped:
    with FileReader(Source("", root, RULES)) as reader:
        return reader.read(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_files(tmp_path, FILES)
    (tmp_path / "a" / "link.py").symlink_to("e.txt")
    (tmp_path / "linked").symlink_to("a")
    os.link(tmp_path / "a/b/c.py", tmp_path / "twin.py")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def test_each_file_reads_the_same(root: Path) -> None:
    names = [*FILES, "a/link.py", "linked/e.txt", "twin.py", "pipe", "a", "gone.py", "a/b/gone/x"]
    with FileReader(Source("", root, RULES)) as reader:
        for name in [*sorted(names), *sorted(names, reverse=True)]:
            one, bare = read_alone(root, name), reader.read_utf8(name)
            assert reader.read(name) == one
            if isinstance(one, Skipped):
                assert bare == one
            else:
                assert bare == FileText(name, one.text.encode(), one.size, one.mtime_ns, one.stamp)


def test_a_path_is_taken_as_by_reading_alone(root: Path) -> None:
    with FileReader(Source("", root, RULES)) as reader:
        for path in ("./a/b/c.py", "a//b/d.txt", str(root / "a/e.txt")):
            assert reader.read(path) == read_alone(root, path), path
        assert reader.read("") == Skipped("", "folder")
        for path in ("../x", "a/../../x", "/etc/passwd", "a\0b", "a/\ud800"):
            with pytest.raises(OutsideRoots):
                reader.read(path)


def test_only_a_raw_text_may_contain_secrets(root: Path) -> None:
    (root / "b/leak.json").write_bytes((root / "b/leak.py").read_bytes())
    with FileReader(Source("p/", root, RULES)) as reader:
        raw, shown = reader.read_utf8("b/leak.py", raw=True), reader.read_utf8("b/leak.py")
        assert isinstance(raw, FileText)
        assert raw.path == "p/b/leak.py"
        assert raw.data == (root / "b/leak.py").read_bytes()
        assert isinstance(shown, FileText)
        assert b"left out]" in shown.data
        assert (shown.size, shown.stamp) == (raw.size, raw.stamp)
        refused = reader.read_utf8("b/leak.json")
        assert isinstance(refused, Skipped)
        assert refused.reason == "secret_content"


def test_a_file_that_grows_while_it_is_read_is_read_to_its_end(root: Path) -> None:
    def grow(descriptor: int, size: int) -> bytes:
        if os.fstat(descriptor).st_size == len("x = 1\n"):
            with (root / "a/b/c.py").open("ab") as file:
                file.write(b"more = 2\n")
        return os.read(descriptor, size)

    (root / "twin.py").unlink()
    with FileReader(Source("", root, RULES), read=grow) as reader:
        content = reader.read("a/b/c.py")
    assert isinstance(content, FileContent)
    assert content.text == "x = 1\nmore = 2\n"
