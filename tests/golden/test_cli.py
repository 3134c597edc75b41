"""What commands print, on a small project that never changes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.golden.golden import check, check_names
from tests.golden.room import NOTES, Room, age_files
from tests.trees import write_files

ASKED = {
    "search": [
        "search hash_password -n 2",
        "search|how are passwords stored?|-n|3",
        "search|refuse clients that send too many requests|-n|3|--scores|--explain",
        "search xyzzyqwerty --mode lexical",
    ],
    "search-more": [
        "search|how do I roll back a release|--docs|-n|2",
        "search|barcode check digit|-n|1|--full",
        "search OutOfStock -n 1 --json",
        "search|discount and tax|--mode|semantic|--json|-n|2|--explain",
        "search retry --all-projects -n 1 -q",
        "search|   ",
    ],
    "grep": [
        "grep password",
        "grep -i -w ORDER server -c",
        "grep -l import -t python",
        "grep -F ( -g *.ts -m 1",
        "grep -C 1 -N raise server/orders",
        "grep|class \\w+View|--vimgrep",
    ],
    "grep-more": [
        "grep nothing_like_this",
        "grep (unclosed",
        "grep -B 1 -A 2 class -g !vendor/** -g *.py --limit 3",
    ],
    "files": ["files **/test_*.py", "files web/**/*.{ts,tsx} --json", "files ** -n 3"],
    "status": ["status", "status --json", "projects", "projects --json", "users list"],
    "config": ["config", "config --json", "config path"],
}
"""Commands that change nothing of the index; `|` stands between words that hold spaces."""

TREE = [
    "tree . -d 2",
    "tree . --json --sort name -n 3",
    "tree|.|--no-scan|--where|ext:py size>600",
    "tree . --no-scan --report by-extension",
    "jobs",
    "jobs --json",
    "jobs --stop nothing",
]

MISTAKES = [
    "",
    "serch password",
    "search",
    "search password --limt 3",
    "search password -n 0",
    "search password --mode wrong",
    "search password",
    "search password --json",
    "status",
    "projects",
    "grep password -p nowhere --json",
    "knowledge get notes://nothing",
    "knowledge get nonsense",
]
OUTSIDE = ["status --verbose", "grep password"]


def split(command: str) -> list[str]:
    return command.split("|") if "|" in command else command.split()


@pytest.fixture(scope="module", params=["", "on"], ids=["alone", "in the background"])
def indexed(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Room]:
    """A room whose project is indexed, without the background process and with it."""
    room = Room.make(tmp_path_factory.mktemp("indexed"), SONDE_DAEMON=request.param)
    done = room.run("index", at=room.copy_shop())
    assert done.returncode == 0, done.stderr
    yield room
    assert room.run("daemon", "stop").returncode == (0 if request.param else 1)


@pytest.mark.parametrize("script", list(ASKED))
def test_answers_are_as_recorded(indexed: Room, script: str) -> None:
    if script == "config" and indexed.extra["SONDE_DAEMON"]:
        pytest.skip("shows the setting itself")
    shown = [indexed.show(*split(each), at=indexed.base / "shop") for each in ASKED[script]]
    check(f"cli/{script}.txt", indexed.mask("".join(shown)))


def test_the_life_of_an_index_is_as_recorded(tmp_path: Path) -> None:
    room = Room.make(tmp_path)
    root = room.copy_shop()
    shown = [room.show("index", at=root)]
    (root / "server" / "config.py").write_text("PORT = 1\n")
    (root / "native" / "barcode.h").unlink()
    os.utime(root / "server" / "config.py", (1_700_000_100, 1_700_000_100))
    commands = ("index --json", "check", "flush", "strategy lazy", "reindex -y", "delete -y")
    shown += [room.show(*split(each), at=root) for each in commands]
    check("cli/index.txt", room.mask("".join(shown)))


def test_a_scanned_folder_is_as_recorded(tmp_path: Path) -> None:
    room = Room.make(tmp_path)
    root = room.copy_shop()
    shown = [room.show(*split(each), at=root) for each in TREE]
    check("cli/tree.txt", room.mask("".join(shown)))


def test_mistakes_are_told_as_recorded(tmp_path: Path) -> None:
    room = Room.make(tmp_path)
    root, outside = room.copy_shop(), room.base / "outside"
    outside.mkdir()
    shown = [room.show(*split(each), at=root) for each in MISTAKES]
    shown += [room.show(*split(each), at=outside) for each in OUTSIDE]
    check("cli/mistakes.txt", room.mask("".join(shown)))


def test_knowledge_is_as_recorded(tmp_path: Path) -> None:
    room = Room.make(tmp_path)
    age_files(write_files(room.base / "vault", NOTES))
    commands = (
        "import vault", "import vault --json", "search walrus", "search|東京の会議|--json",
        "add|buy fish|--title|Shopping|--tags|a,b", "status",
        "export backup.jsonl",
    )  # fmt: skip
    shown = [room.show("knowledge", *split(each)) for each in commands]
    (first, *_) = re.findall(r"notes://[\w-]+", "".join(shown))
    shown.append(room.show("knowledge", "get", first))
    check("cli/knowledge.txt", room.mask("".join(shown)))


def test_setup_is_as_recorded(tmp_path: Path) -> None:
    room = Room.make(tmp_path)
    root = room.copy_shop()
    commands = ("setup claude-code codex --scope project --guide -y", "setup nobody")
    shown = [room.show(*split(each), at=root) for each in commands]
    check("cli/setup.txt", room.mask("".join(shown)))


def test_nothing_else_is_recorded() -> None:
    others = ("index", "tree", "mistakes", "knowledge", "setup")
    check_names("cli", [f"{name}.txt" for name in (*ASKED, *others)])
