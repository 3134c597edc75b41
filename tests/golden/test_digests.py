"""What an index holds, of three projects: files, chunks, words, names, trigrams and vectors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.golden.contents import digest_index, digest_views
from tests.golden.golden import HERE, check, show_json
from tests.golden.polyglot import FILES
from tests.golden.room import Room, age_files
from tests.trees import write_files

PAGES = {
    "pyproject.toml": "[project]\nname = 'pages'\n",
    "src/pages.py": "def list_pages(folder):\n    return sorted(folder.glob('*.md'))\n",
    ".gitignore": "build/\n",
    "build/ignored.py": "NOTHING = 1\n",
}


def lay_out(room: Room, corpus: str) -> Path:
    """One of the projects, written into the room."""
    if corpus == "shop":
        return room.copy_shop()
    root = room.base / corpus
    write_files(root, FILES if corpus == "polyglot" else PAGES)
    if corpus == "pages":
        shutil.copytree(HERE / "corpus", root / "docs")
    (root / ".git").mkdir()
    age_files(root)
    return root


@pytest.mark.parametrize("corpus", ["shop", "pages", "polyglot"])
def test_an_index_holds_what_is_recorded(tmp_path: Path, corpus: str) -> None:
    room = Room.make(tmp_path)
    root = lay_out(room, corpus)
    done = room.run("index", at=root)
    assert done.returncode == 0, done.stderr
    (index,) = (room.home / "indexes").iterdir()
    held = digest_index(index)
    if corpus == "polyglot":
        done = room.run("export", "-o", str(room.base / "views"), at=root)
        assert done.returncode == 0, done.stderr
        held["views"] = digest_views(room.base / "views")
    check(f"digests/{corpus}.json", show_json(held))
