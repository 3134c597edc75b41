"""Commits are read without running anything of the repository, and only what policy admits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sonde.errors import NoHistory
from sonde.policy.admit import Rules
from sonde.policy.commits import Commit, list_commit_ids, read_commits

GIT = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")  # noqa: E501  # fmt: skip


def run_git(root: Path, *arguments: str) -> None:
    subprocess.run([*GIT, "-C", str(root), *arguments], check=True, capture_output=True)


def commit(root: Path, message: str, **files: str) -> None:
    root.mkdir(parents=True, exist_ok=True)
    if not (root / ".git").exists():
        run_git(root, "init", "-q")
    for name, text in files.items():
        (root / name.replace("__", ".")).write_text(text)
    run_git(root, "add", "--force", ".")
    run_git(root, "commit", "-q", "--no-gpg-sign", "-m", message)


def read_all(root: Path, rules: Rules | None = None) -> list[Commit]:
    return list(read_commits(root, list_commit_ids(root, 100), rules or Rules()))


def test_newest_first_with_messages_authors_and_paths(tmp_path: Path) -> None:
    commit(tmp_path, "First\n\nBecause.", a__py="1")
    commit(tmp_path, "Second", b__py="2")
    second, first = read_all(tmp_path)
    assert (second.message, second.paths, second.author) == ("Second", ("b.py",), "Ada")
    assert (first.message, first.paths) == ("First\n\nBecause.", ("a.py",))
    assert list_commit_ids(tmp_path, 100, "a.py") == [first.id]


def test_nothing_that_the_repository_configures_is_run(tmp_path: Path) -> None:
    root, trace = tmp_path / "repository", tmp_path / "ran"
    commit(root, "First", a__py="1", __gitattributes="*.py diff=spy\n")
    spy = tmp_path / "spy.sh"
    spy.write_text(f'#!/bin/sh\necho "$0 $*" >> {trace}\ncat /dev/null\n')
    spy.chmod(0o755)
    for name in (
        "core.pager", "core.fsmonitor", "core.sshCommand", "core.editor", "diff.external",
        "diff.spy.textconv", "diff.spy.command", "gpg.program", "credential.helper",
        "alias.log", "alias.rev-list", "pager.log",
    ):  # fmt: skip
        run_git(root, "config", name, f"!{spy}" if name.startswith("alias") else str(spy))
    run_git(root, "config", "log.showSignature", "true")
    hooks = root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in (
        "post-checkout",
        "reference-transaction",
        "post-index-change",
        "fsmonitor-watchman",
    ):
        (hooks / hook).symlink_to(spy)
    assert [one.message for one in read_all(root)] == ["First"]
    assert not trace.exists(), trace.read_text()


def test_a_denied_file_leaves_no_trace_and_secrets_in_messages_go(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    commit(tmp_path, "Keep the keys", __env="KEY=1")
    commit(tmp_path, f"Use {token} to fetch", fetch__py="1", id_rsa="x")
    commit(tmp_path, "Build", dist__py="x")
    built, fetched, keys = read_all(tmp_path, Rules(exclude=("dist.py",)))
    assert not keys.is_admitted
    assert keys.paths == ()
    assert not built.is_admitted
    assert fetched.is_admitted
    assert fetched.paths == ("fetch.py",)
    assert token not in fetched.message


def test_a_repository_elsewhere_is_not_this_projects(tmp_path: Path) -> None:
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    commit(theirs, "Private", a__py="1")
    mine.mkdir()
    (mine / ".git").write_text(f"gitdir: {theirs / '.git'}\n")
    with pytest.raises(NoHistory):
        list_commit_ids(mine, 10)
    (mine / ".git").unlink()
    (mine / ".git").symlink_to(theirs / ".git")
    with pytest.raises(NoHistory):
        list_commit_ids(mine, 10)
    (mine / ".git").unlink()
    subprocess.run(["git", "clone", "-q", "--shared", str(theirs), str(mine / "copy")], check=True)
    with pytest.raises(NoHistory):
        list_commit_ids(mine / "copy", 10)
    below = theirs / "part"
    below.mkdir()
    with pytest.raises(NoHistory):
        list_commit_ids(below, 10)


def test_a_worktree_has_the_history_of_its_repository(tmp_path: Path) -> None:
    commit(tmp_path / "main", "First", a__py="1")
    run_git(tmp_path / "main", "worktree", "add", "-q", str(tmp_path / "tree"))
    assert [one.message for one in read_all(tmp_path / "tree")] == ["First"]


def test_no_repository_no_commit_and_no_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoHistory):
        list_commit_ids(tmp_path, 10)
    run_git(tmp_path, "init", "-q")
    with pytest.raises(NoHistory):
        list_commit_ids(tmp_path, 10)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoHistory):
        list_commit_ids(tmp_path, 10)


@pytest.mark.parametrize("name", ["commondir", "gitdir"])
def test_a_repository_that_names_no_possible_path_has_no_history(tmp_path: Path, name: str) -> None:
    commit(tmp_path, "First", a__py="1")
    (tmp_path / ".git" / name).write_bytes(b"a\0b")
    with pytest.raises(NoHistory):
        list_commit_ids(tmp_path, 10)
