"""Reading: the right bytes as text, nothing else, whatever is put in the way."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.errors import OutsideRoots
from sonde.policy.admit import Rules, Source
from sonde.policy.read import FileReader, decode_text
from sonde.policy.roots import stamp_file
from sonde.policy.walk import check_path
from sonde.types import FileContent, ListedFile, Skipped

RULES = Rules()


def read_file(root: Path, path: str, rules: Rules) -> FileContent | Skipped:
    with FileReader(Source("", root, rules)) as reader:
        return reader.read(path)


def read_reason(root: Path, path: str, rules: Rules = RULES) -> str:
    found = read_file(root, path, rules)
    assert isinstance(found, Skipped), found
    return found.reason


def test_a_file_is_read_with_its_hash_size_and_time(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    place = tmp_path / "src/a.py"
    data = "x = 'é'\r\n".encode()
    place.write_bytes(data)
    assert read_file(tmp_path, "src/a.py", RULES) == FileContent(
        "src/a.py",
        "x = 'é'\r\n",
        hashlib.sha256(data).hexdigest(),
        len(data),
        place.stat().st_mtime_ns,
        stamp_file(place.stat()),
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        ("日本 🙂".encode(), "日本 🙂"),
        (b"\xef\xbb\xbfa", "a"),
        ("aé🙂".encode("utf-16"), "aé🙂"),
        (b"\xfe\xff" + "aé".encode("utf-16-be"), "aé"),
        ("aé🙂".encode("utf-32"), "aé🙂"),
        (b"\x00\x00\xfe\xff" + "a".encode("utf-32-be"), "a"),
        (b"caf\xe9 \x93ok\x94", "café “ok”"),
        (b"odd \x81 byte", "odd \x81 byte"),
        (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        (b"a\0b", None),
        (b"x" * 8191 + b"\0", None),
        (b"x" * 8192 + b"\0", "x" * 8192 + "\0"),
        (b"\xff\xfe\x00", None),
        (bytes(range(1, 256)) * 20, None),
    ],
)
def test_bytes_become_text_or_are_binary(data: bytes, text: str | None) -> None:
    assert decode_text(data) == text


@given(st.text())
def test_any_text_survives_utf8(text: str) -> None:
    data = text.encode()
    if b"\0" not in data:
        assert decode_text(data) == text.removeprefix("\ufeff")


def test_binary_files_are_told_by_name_or_content(tmp_path: Path) -> None:
    (tmp_path / "logo.png").write_text("not even binary")
    (tmp_path / "renamed.py").write_bytes(b"\x7fELF\0\0")
    assert read_reason(tmp_path, "logo.png") == "binary"
    assert read_reason(tmp_path, "renamed.py") == "binary"


def test_a_secret_inside_keeps_the_file_out_without_showing_it(tmp_path: Path) -> None:
    token = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"
    (tmp_path / "config.yml").write_text(f"a: 1\ntoken: '{token}'\n")
    found = read_file(tmp_path, "config.yml", RULES)
    assert found == Skipped("config.yml", "secret_content", "GitHub token on line 2")


def test_source_and_documents_are_read_without_the_lines_of_their_secrets(tmp_path: Path) -> None:
    token = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"
    (tmp_path / "config.py").write_text(f"a = 1\ntoken = '{token}'\nb = 2\n")
    found = read_file(tmp_path, "config.py", RULES)
    assert isinstance(found, FileContent)
    assert found.text == "a = 1\n[GitHub token left out]\nb = 2\n"
    assert found.withheld == "GitHub token on line 2"


def test_the_limit_is_inclusive_and_a_huge_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "full.txt").write_bytes(b"x" * 1024 * 1024)
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(5 * 1024**3)
    assert isinstance(read_file(tmp_path, "full.txt", RULES), FileContent)
    assert read_reason(tmp_path, "huge.txt") == "too_large"


@pytest.mark.skipif(
    not Path("/proc/self/mem").exists(), reason="needs a file that lies on its size"
)
def test_a_file_that_is_longer_than_it_says_is_too_large() -> None:
    # Files in /proc claim to be empty; what counts is what comes when one reads.
    small = Rules(max_file_bytes=10)
    assert read_file(Path("/proc/self"), "status", small) == Skipped(
        "status", "too_large", "grew while it was read"
    )


@pytest.mark.parametrize(
    "path", [".env", "a/.env.local", "node_modules/x/i.js", "k.PEM", ".git/config", ".e\u200bnv"]
)
def test_denied_files_are_refused_by_name_alone(tmp_path: Path, path: str) -> None:
    assert read_reason(tmp_path, path) == "denied"


def test_paths_outside_are_errors_even_beside_the_root(tmp_path: Path) -> None:
    (tmp_path / "proj").mkdir()
    (tmp_path / "proj-evil").mkdir()
    (tmp_path / "proj-evil/a.txt").write_text("x")
    for path in ("../proj-evil/a.txt", str(tmp_path / "proj-evil/a.txt"), "a\0.txt"):
        with pytest.raises(OutsideRoots):
            read_file(tmp_path / "proj", path, RULES)


def test_a_name_that_is_not_utf8_is_shown_readably(tmp_path: Path) -> None:
    found = read_file(tmp_path, os.fsdecode(b"bad\xff.py"), RULES)
    assert found == Skipped("bad\\xff.py", "bad_name")


def test_special_files_neither_hang_nor_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    (tmp_path / "folder").mkdir()
    assert read_reason(tmp_path, "fifo") == "special"
    assert read_reason(tmp_path, "socket") == "special"
    assert read_reason(tmp_path, "folder") == "folder"
    assert read_reason(tmp_path, "gone.py") == "missing"
    assert read_reason(Path("/dev"), "null") == "special"


def test_a_hard_link_is_refused_unless_it_is_the_owners(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("x")
    (tmp_path / "proj").mkdir()
    os.link(tmp_path / "outside.txt", tmp_path / "proj/a.txt")
    assert read_reason(tmp_path / "proj", "a.txt") == "hard_link"
    assert isinstance(read_file(tmp_path / "proj", "a.txt", Rules(owner=os.getuid())), FileContent)


@pytest.fixture
def swapped(tmp_path: Path) -> Path:
    (tmp_path / "outside/src").mkdir(parents=True)
    (tmp_path / "outside/src/a.py").write_text("OUTSIDE")
    (tmp_path / "proj/src").mkdir(parents=True)
    (tmp_path / "proj/src/a.py").write_text("inside")
    return tmp_path


@pytest.mark.parametrize("part", ["src/a.py", "src"])
def test_a_link_swapped_in_after_the_check_is_not_followed(swapped: Path, part: str) -> None:
    root = swapped / "proj"
    assert isinstance(check_path(root, "src/a.py", RULES), ListedFile)
    (root / part).rename(root / "moved")
    (root / part).symlink_to(swapped / "outside" / part)
    assert read_reason(root, "src/a.py") == "symlink"


def test_whoever_keeps_swapping_never_gets_us_to_read_outside(swapped: Path) -> None:
    root = swapped / "proj"
    (root / "evil").symlink_to(swapped / "outside/src")
    stop = threading.Event()

    def keep_swapping() -> None:
        while not stop.is_set():
            for new in ("evil", "good"):
                if new == "good":
                    (root / "src").rename(root / "evil")
                    (root / "good").rename(root / "src")
                else:
                    (root / "src").rename(root / "good")
                    (root / "evil").rename(root / "src")

    swapper = threading.Thread(target=keep_swapping)
    swapper.start()
    try:
        found = [read_file(root, "src/a.py", RULES) for _ in range(3000)]
    finally:
        stop.set()
        swapper.join()
    texts = {one.text for one in found if isinstance(one, FileContent)}
    reasons = {one.reason for one in found if isinstance(one, Skipped)}
    assert "OUTSIDE" not in texts
    assert texts | reasons <= {"inside", "symlink", "missing"}
