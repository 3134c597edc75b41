"""What is sent of a file over HTTP is looked through first."""

from __future__ import annotations

import os
from pathlib import Path

from tests.waiting import wait_until

from .test_files_api import KEY, Api, anna, disk, find, server

__all__ = ["anna", "disk", "server"]  # fixtures


def test_what_is_sent_is_looked_through_whatever_its_encoding(anna: Api, disk: Path) -> None:
    folder = disk / "later"
    folder.mkdir()
    (folder / "nul.bin").write_bytes(b"\0" + KEY.encode())
    (folder / "wide.txt").write_bytes(KEY.encode("utf-16-be"))
    with (folder / "huge.txt").open("wb") as file:
        os.pwrite(file.fileno(), b"words and words\n", 0)
        os.pwrite(file.fileno(), KEY.encode(), 20 << 30)
        file.truncate(40 << 30)
    made = anna.read("/api/indexes", "POST", {"root": str(folder)}, 202)
    wait_until(lambda: anna.read(made["statusUrl"])["status"] != "running", "scanned")
    for name in ("nul.bin", "wide.txt"):
        assert anna.ask(find(anna, made["indexId"], name)["downloadUrl"])[0] == 403
    detail = find(anna, made["indexId"], "huge.txt")
    assert anna.ask(detail["previewUrl"])[0] == 200
    assert anna.ask(detail["downloadUrl"], Range=f"bytes={(20 << 30) + 40}-")[0] == 403
    assert anna.ask(detail["downloadUrl"], Range="bytes=0-4")[::2] == (206, b"words")
