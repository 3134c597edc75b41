"""What may be shown or compared: any file but secrets, links and files of several names."""

from __future__ import annotations

import base64
import hashlib
import os
import random
import time
from pathlib import Path

import pytest

from sonde.errors import FileMissing, FileNotAdmitted, OutsideRoots
from sonde.policy.read import digest_file, may_show, open_shown

MATERIAL = base64.b64encode(random.Random(3).randbytes(900)).decode()
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{MATERIAL}\n-----END RSA PRIVATE KEY-----\n"


def read(root: Path, path: str) -> bytes:
    file = open_shown(root, path)
    try:
        return b"".join(file.read(0, file.size))
    finally:
        file.close()


def test_what_indexing_leaves_out_can_be_shown(tmp_path: Path) -> None:
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "a.js").write_text("1")
    (tmp_path / "film.mp4").write_bytes(b"\0" * 3_000_000)
    assert read(tmp_path, "node_modules/a.js") == b"1"
    assert len(read(tmp_path, "film.mp4")) == 3_000_000
    file = open_shown(tmp_path, "film.mp4")
    assert b"".join(file.read(5, 9)) == b"\0" * 4
    file.close()


@pytest.mark.parametrize(
    "name", [".env", ".env.local", "server.pem", "ID_RSA", ".ssh/config", ".aws/x", "a/prod.env"]
)
def test_secrets_are_not_opened_by_any_name(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.parent.mkdir(exist_ok=True)
    place.write_text("x")
    assert not may_show(Path(name).parts)
    with pytest.raises(FileNotAdmitted):
        open_shown(tmp_path, name)
    with pytest.raises(FileNotAdmitted):
        digest_file(tmp_path, name, lambda: None)


def test_a_secret_is_found_wherever_it_stands_in_a_text(tmp_path: Path) -> None:
    filler = "words and words\n" * 66_000
    for name, text in (
        ("start.txt", KEY),
        ("middle.txt", filler + KEY + filler),
        ("edge.txt", filler[: (1 << 20) - 300] + KEY),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(FileNotAdmitted, match="secret_content"):
            open_shown(tmp_path, name)
        with pytest.raises(FileNotAdmitted):
            open_shown(tmp_path, name)
        (tmp_path / name).write_text(filler)
        assert read(tmp_path, name) == filler.encode()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("before", ["words and words\n" * 90_000, "xx" + "\U0001f40b" * 3_000])
def test_a_secret_is_found_in_whichever_unicode(tmp_path: Path, encoding: str, before: str) -> None:
    (tmp_path / "a.txt").write_bytes((before + KEY).encode(encoding))
    with pytest.raises(FileNotAdmitted, match="secret_content"):
        open_shown(tmp_path, "a.txt")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "latin-1"])
@pytest.mark.parametrize("before", ["", "\0", "words \0 and\n"])
def test_a_secret_is_found_without_a_mark_and_among_nulls(
    tmp_path: Path, encoding: str, before: str
) -> None:
    (tmp_path / "a.bin").write_bytes((before + KEY).encode(encoding))
    with pytest.raises(FileNotAdmitted, match="secret_content"):
        open_shown(tmp_path, "a.bin")


def test_what_is_read_of_a_huge_file_is_looked_through_and_no_more(tmp_path: Path) -> None:
    huge, middle = 40 << 30, 20 << 30
    with (tmp_path / "huge.txt").open("wb") as file:
        file.write(b"words and words\n")
        file.seek(middle)
        file.write(KEY.encode())
        file.truncate(huge)
    began = time.process_time()
    file = open_shown(tmp_path, "huge.txt")
    try:
        assert b"".join(file.read(0, 5)) == b"words"
        assert b"".join(file.read(middle + (1 << 20), middle + (1 << 20) + 3)) == b"\0\0\0"
        # neither the key, nor a part of it, nor what is before and after it
        for start, end in (
            (middle, middle + 9),
            (middle + 400, middle + 410),
            (middle - 9, middle),
        ):
            with pytest.raises(FileNotAdmitted, match="secret_content"):
                list(file.read(start, end))
    finally:
        file.close()
    assert time.process_time() - began < 2


def test_links_and_second_names_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").write_text("x")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "folder").symlink_to(tmp_path)
    os.link(tmp_path / "outside", root / "second")
    os.mkfifo(root / "pipe")
    for name in ("link", "folder/outside", "second", "pipe", "."):
        with pytest.raises((FileNotAdmitted, FileMissing)):
            open_shown(root, name)
    with pytest.raises(OutsideRoots):
        open_shown(root, "../outside")
    with pytest.raises(FileMissing):
        open_shown(root, "nothing")


def test_a_digest_is_that_of_the_contents(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(2_500_000)
    (tmp_path / "file").write_bytes(data)
    ticks: list[int] = []
    digest, size, mtime_ms = digest_file(tmp_path, "file", lambda: ticks.append(1))
    assert digest == hashlib.sha256(data).digest()
    assert size == len(data)
    assert mtime_ms == (tmp_path / "file").stat().st_mtime_ns // 1_000_000
    assert len(ticks) == 3
