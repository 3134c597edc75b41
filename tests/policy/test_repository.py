"""Where a repository's HEAD stands, whatever lies in the place of git's files."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from sonde.policy.changes import find_repository, read_commit

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="named pipes")


@pytest.mark.parametrize("pipe", [".git", ".git/HEAD", ".git/commondir", ".git/refs/heads/main"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path, pipe: str) -> None:
    if pipe != ".git":
        (tmp_path / ".git/refs/heads").mkdir(parents=True)
        (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
        (tmp_path / pipe).unlink(missing_ok=True)
    os.mkfifo(tmp_path / pipe)
    told: list[str] = []

    def look() -> None:
        found = find_repository(tmp_path)
        told.append(read_commit(found) if found else "none")

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(30)
    assert told == ["none" if pipe in (".git", ".git/HEAD") else "refs/heads/main "]
