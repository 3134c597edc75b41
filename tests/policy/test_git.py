"""What git ignores and tracks is what is left out and walked, by git's own word."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.trees import write_files

from sonde.policy.admit import Rules, Source
from sonde.policy.census import Census
from sonde.policy.walk import check_path, walk_files
from sonde.types import ListedFile

_OPTIONS = (
    "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main",
    "-c", "protocol.file.allow=always",
)  # fmt: skip


def git(root: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", *_OPTIONS, *args],
        cwd=root,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def list_by_git(root: Path) -> set[str]:
    """Tracked files, and those that are neither tracked nor ignored."""
    kinds = ("--cached", "--others", "--exclude-standard", "-z")
    names = git(root, "ls-files", *kinds).split("\0")
    return {name for name in names if name and (root / name).is_file()}


def list_walked(root: Path, rules: Rules = Rules()) -> set[str]:  # noqa: B008 - a value
    """The files of a walk, on which single checks and the census agree."""
    walked = {found.path for found in walk_files(root, rules) if isinstance(found, ListedFile)}
    every = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    names = [name for name in every if ".git" not in name.split("/")]
    assert {
        name for name in names if isinstance(check_path(root, name, rules), ListedFile)
    } == walked
    assert set(Census([Source("", root, rules)]).look()) == walked
    return walked


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = write_files(
        tmp_path / "project",
        {
            ".gitignore": "*.gen.py\ngenerated/\n/local/*\n!/local/keep.py\n",
            "plain.py": "", "made.gen.py": "", "kept.gen.py": "", "aside.py": "", "mine.tmp.py": "",
            "generated/a.py": "", "generated/b.py": "", "generated/deep/c.py": "",
            "local/keep.py": "", "local/drop.py": "", "sub/aside.py": "", "sub/z.py": "",
            "sub/.gitignore": "z.py\n",
        },
    )  # fmt: skip
    git(root, "init", "-q")
    (root / ".git/info").mkdir(exist_ok=True)
    (root / ".git/info/exclude").write_text("/aside.py\n")
    git(root, "add", "-f", "kept.gen.py", "generated/deep/c.py", "plain.py", "sub/z.py")
    return root


@pytest.mark.row("001-72", "001-73")
@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_files_are_those_of_git(root: Path, version: int) -> None:
    git(root, "update-index", "--index-version", str(version))
    if version > 2:
        git(root, "add", "-N", "local/keep.py")  # has flags that version 2 cannot hold
    walked = list_walked(root)
    assert walked == list_by_git(root)
    assert {"kept.gen.py", "generated/deep/c.py", "sub/z.py", "sub/aside.py"} <= walked
    assert not {"aside.py", "made.gen.py", "generated/a.py", "local/drop.py"} & walked


@pytest.mark.row("001-72")
def test_the_ignore_file_that_the_configuration_names_counts(root: Path, tmp_path: Path) -> None:
    (tmp_path / "ignored by me").write_text("*.tmp.py\n!aside.py\n")
    git(root, "config", "core.excludesFile", str(tmp_path / "ignored by me"))
    walked = list_walked(root)
    assert walked == list_by_git(root)
    assert "mine.tmp.py" not in walked


@pytest.mark.row("001-72")
def test_the_ignore_file_of_the_user_counts_and_no_user_needs_a_home(
    root: Path, tmp_path: Path
) -> None:
    listed = (
        "import sys; from pathlib import Path; from sonde.policy.walk import *;"
        "print(*(f.path for f in walk_files(Path(sys.argv[1]), Rules()) if type(f) is ListedFile))"
    )

    def walk(**environ: str) -> list[str]:
        kept = {"PATH": os.environ["PATH"], **environ}
        command = [sys.executable, "-c", listed, str(root)]
        return subprocess.run(
            command, env=kept, check=True, capture_output=True, text=True
        ).stdout.split()

    place = write_files(
        tmp_path / "user",
        {
            ".config/git/ignore": "mine.tmp.py\n",
            ".gitconfig": "[user]\n\tname = t\n",
            "elsewhere/git/config": "[Core]\n\tsafecrlf = no\n\texcludesFile = ~/named\n",
            "named": "plain.py\nlocal/\n",
        },
    )
    assert "mine.tmp.py" not in walk(HOME=str(place))
    named = walk(HOME=str(place), XDG_CONFIG_HOME=str(place / "elsewhere"))
    assert "mine.tmp.py" in named
    assert "local/keep.py" not in named
    assert "plain.py" in named, "it is tracked"
    assert "mine.tmp.py" in walk(HOME="")


@pytest.mark.row("001-73")
def test_worktrees_and_submodules_have_an_index_of_their_own(root: Path, tmp_path: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    other = tmp_path / "other"
    git(root, "worktree", "add", "-q", str(other))
    write_files(other, {"new.gen.py": "", "aside.py": ""})
    assert list_walked(other) == list_by_git(other)
    assert "generated/deep/c.py" in list_walked(other)
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    (outer / ".gitignore").write_text("modules/\n")
    git(outer, "submodule", "add", "-q", "-f", str(root), "modules/inner")
    walked = list_walked(outer)
    assert {"modules/inner/generated/deep/c.py", "modules/inner/plain.py"} <= walked


@pytest.mark.row("001-73")
def test_a_tracked_secret_is_still_denied(root: Path) -> None:
    write_files(root, {".env": "A=1\n", "generated/.env": "A=1\n", "node_modules/x.py": ""})
    git(root, "add", "-f", ".env", "generated/.env", "node_modules/x.py")
    assert not {name for name in list_walked(root) if ".env" in name or "node_modules" in name}


def test_a_folder_of_a_repository_follows_the_rules_of_all_of_it(root: Path) -> None:
    write_files(root, {"sub/new.gen.py": ""})
    assert {f"sub/{name}" for name in list_walked(root / "sub")} == {
        name for name in list_by_git(root) if name.startswith("sub/")
    }
    # a person who names a folder that git ignores means it
    assert list_walked(root / "generated") == {"a.py", "b.py", "deep/c.py"}


def test_without_respect_for_git_only_its_own_ignore_file_counts(root: Path) -> None:
    walked = list_walked(root, Rules(respect_gitignore=False))
    assert {"aside.py", "made.gen.py", "generated/a.py"} <= walked
    (root / ".sondeignore").write_text("kept.gen.py\n")
    assert "kept.gen.py" not in list_walked(root)


@pytest.mark.parametrize("data", [b"", b"DIRC", b"DIRC\0\0\0\2\0\0\0\5short", b"\0" * 99])
def test_a_broken_index_leaves_the_patterns(root: Path, data: bytes) -> None:
    (root / ".git/index").write_bytes(data)
    assert "kept.gen.py" not in list_walked(root)
    assert "plain.py" in list_walked(root)


def test_a_look_notices_what_git_is_told(root: Path) -> None:
    census = Census([Source("", root, Rules())], settle_ns=-1)
    assert "made.gen.py" not in census.look()
    git(root, "add", "-f", "made.gen.py")
    assert "made.gen.py" in census.look()
    (root / ".git/info/exclude").write_text("plain.py\nmine.tmp.py\n")
    assert not {"mine.tmp.py"} & census.look().keys()
    assert {"plain.py", "aside.py"} <= census.look().keys()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".git/config", b"[core]\n\texcludesFile = a\0b\n"),
        (".git/config", b"[core]\n" + b"\n" * 200_000 + b"x"),
        (".git/commondir", b"a\0b"),
        (".git", b"gitdir: a\0b\n"),
    ],
)
def test_a_hostile_repository_does_not_stop_a_walk(
    tmp_path: Path, name: str, content: bytes
) -> None:
    write_files(tmp_path, {"a.py": "x\n"})
    if name != ".git":
        git(tmp_path, "init", "-q")
    (tmp_path / name).write_bytes(content)
    began = time.process_time()
    assert "a.py" in {found.path for found in walk_files(tmp_path, Rules())}
    assert time.process_time() - began < 4  # quadratic patterns took many times as long
