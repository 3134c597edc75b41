"""When changes are indexed: at once, when it is quiet or searched, or with each commit."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from sonde.cli.commands.index import FLUSH_COMMAND
from sonde.errors import InvalidRequest
from sonde.indexing.following import Strategy, make_strategy
from sonde.indexing.sources import Tree
from sonde.policy.changes import find_hook, has_hook, install_hook, remove_hook
from sonde.projects.maintenance import choose_strategy, flush_index
from sonde.runtime.work import Work
from sonde.stores.records import load_dirty
from sonde.tools.code import search_code
from sonde.tools.index import create_index, delete_index

from .agents import run_sonde


def edit(served: Any, word: str, name: str = "pkg/m1.py") -> None:
    served.write(name, f"def {word}():\n    pass\n")


def waits(served: Any, name: str = "pkg/m1.py") -> bool:
    """Whether a file is known to wait."""
    return name in load_dirty(served.folder)


@pytest.mark.parametrize("name", ["realtime", "lazy", "git"])
def test_every_strategy_keeps_the_documented_interface(name: str, tmp_path: Path) -> None:
    tree = Tree((), lambda _: False, index_docs=True, chunking="syntax")

    def make() -> Strategy:
        return make_strategy(name, tmp_path, idle_s=3600, tree=tree)

    strategy = make()
    assert strategy.name == name
    changed = {"a.py", "b/"}
    assert strategy.add(changed) == (changed if name == "realtime" else set())
    assert strategy.tick() == (changed if name == "realtime" else set())
    strategy.save()
    again = make()
    assert again.pending == changed
    again.mark_indexed({"a.py"})
    assert again.pending == load_dirty(tmp_path) == {"b/"}
    again.mark_indexed({"b/"})
    assert again.pending == load_dirty(tmp_path) == set()


@pytest.mark.parametrize("name", ["lazy", "git"])
def test_what_waits_is_due_once_it_is_quiet(name: str, tmp_path: Path) -> None:
    tree = Tree((), lambda _: False, index_docs=True, chunking="syntax")
    now = 100.0
    strategy = make_strategy(name, tmp_path, idle_s=30, tree=tree, clock=lambda: now)
    strategy.add({"a.py"})
    now += 29
    assert strategy.tick() == set()
    strategy.add({"b.py"})
    now += 29
    assert strategy.tick() == set()
    now += 1
    assert strategy.tick() == {"a.py", "b.py"}


@pytest.mark.parametrize("name", ["realtime", "lazy", "git"])
def test_what_could_not_be_indexed_waits(name: str, tmp_path: Path) -> None:
    tree = Tree((), lambda _: False, index_docs=True, chunking="syntax")
    strategy = make_strategy(name, tmp_path, idle_s=0, tree=tree)
    strategy.add({"a.py"})
    assert strategy.tick() == {"a.py"}
    assert strategy.tick() == {"a.py"}  # until it is said to be indexed
    strategy.save()
    assert load_dirty(tmp_path) == {"a.py"}


@pytest.mark.row("001-104")
def test_lazy_waits_for_quiet(serve: Callable[..., Any]) -> None:
    served = serve(indexing_strategy="lazy", lazy_idle_threshold=2)
    before = served.holds("pkg/m1.py")
    edit(served, "lazy_edit")
    began = time.monotonic()
    wait_until(lambda: waits(served), "it waits")
    assert served.holds("pkg/m1.py") == before
    wait_until(lambda: served.holds("pkg/m1.py") != before, "quiet")
    assert time.monotonic() - began >= 2
    wait_until(lambda: not waits(served), "nothing waits")


@pytest.mark.row("001-104")
def test_lazy_indexes_for_a_search(serve: Callable[..., Any]) -> None:
    served = serve(indexing_strategy="lazy", lazy_idle_threshold=3600)
    edit(served, "asked_for")
    wait_until(lambda: waits(served), "it waits")
    wait_until(lambda: "pkg/m1.py" in served.finds("asked_for"), "searched", limit_s=10)
    assert served.following()["strategy"] == "lazy"


@pytest.mark.row("001-108")
def test_what_waits_survives_the_process(serve: Callable[..., Any]) -> None:
    served = serve(indexing_strategy="lazy", lazy_idle_threshold=3600)
    edit(served, "left_behind")
    wait_until(lambda: waits(served), "it waits")
    served.app.close()
    assert waits(served)
    again = serve(indexing_strategy="lazy", lazy_idle_threshold=3600)
    told = wait_until(lambda: t if (t := again.following()).get("pendingFiles") else None)
    assert told["pendingFiles"] == 1
    flush_index(again.app.workspace, work=Work())
    assert not waits(again)
    assert "pkg/m1.py" in again.finds("left_behind")


@pytest.fixture
def committed(serve: Callable[..., Any]) -> Any:
    """A server under the `git` strategy on a repository with one commit."""
    served = serve(begin=False, indexing_strategy="git")
    served.git("init", "-q")
    commit(served, "one")
    served.begin()
    return served


def commit(served: Any, message: str, cwd: Path | None = None) -> None:
    served.git("add", "-A", cwd=cwd)
    served.git("commit", "-qm", message, cwd=cwd)


switch = partial(choose_strategy, flush_command=FLUSH_COMMAND)


def wait_found(served: Any, word: str, name: str = "pkg/m1.py") -> None:
    wait_until(lambda: name in served.finds(word), word)


@pytest.mark.row("001-105")
def test_git_indexes_with_the_commit_and_not_before(committed: Any) -> None:
    before = committed.holds("pkg/m1.py")
    edit(committed, "first_commit")
    wait_until(lambda: waits(committed), "it waits")
    wait_until(lambda: committed.following()["pendingFiles"] == 1, "told")
    answer = search_code(committed.app, "unrelated", mode="lexical", work=Work())
    assert answer["metadata"]["freshness"] == (
        "incomplete; 1 of 22 files are not indexed as they are: "
        "they wait for a commit (strategy git)"
    )
    assert committed.holds("pkg/m1.py") == before
    commit(committed, "two")
    wait_found(committed, "first_commit")
    wait_until(lambda: committed.following()["pendingFiles"] == 0, "nothing waits")


def test_git_follows_merges_rebases_and_a_detached_head(committed: Any) -> None:
    committed.git("checkout", "-qb", "side")
    edit(committed, "on_side")
    commit(committed, "side")
    wait_found(committed, "on_side")
    committed.git("checkout", "-q", "main")
    edit(committed, "on_main", "pkg/m2.py")
    commit(committed, "main")
    wait_found(committed, "on_main", "pkg/m2.py")
    committed.wait_equal("on main again")
    committed.git("merge", "-q", "--no-edit", "side")
    committed.wait_equal("merged")
    committed.git("checkout", "-q", "side")
    committed.git("rebase", "-q", "main")
    committed.wait_equal("rebased")
    committed.git("checkout", "-q", "--detach", "HEAD~1")
    committed.wait_equal("detached")
    committed.git("pack-refs", "--all")
    committed.git("checkout", "-q", "main")
    committed.wait_equal("packed")


def test_git_follows_worktrees_and_submodules(committed: Any, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    committed.git("init", "-q", cwd=library)
    (library / "lib.py").write_text("def library_code():\n    pass\n")
    commit(committed, "library", cwd=library)
    committed.git("submodule", "--quiet", "add", str(library), "sub")
    commit(committed, "with a submodule")
    wait_found(committed, "library_code", "sub/lib.py")
    edit(committed, "in_the_submodule", "sub/lib.py")
    edit(committed, "in_the_project")
    wait_until(lambda: waits(committed) and waits(committed, "sub/lib.py"), "both wait")
    commit(committed, "in the submodule", cwd=committed.root / "sub")
    wait_found(committed, "in_the_submodule", "sub/lib.py")
    assert waits(committed)
    commit(committed, "all")
    wait_found(committed, "in_the_project")


def test_git_in_a_worktree(serve: Callable[..., Any], tmp_path: Path) -> None:
    served = serve(begin=False, indexing_strategy="git")
    served.git("init", "-q")
    commit(served, "one")
    main = served.root.rename(tmp_path / "main")
    served.git("worktree", "add", "-q", str(tmp_path / "project"), "-b", "tree", cwd=main)
    served.begin()
    edit(served, "in_a_worktree")
    wait_until(lambda: waits(served), "it waits")
    commit(served, "in the worktree")
    wait_found(served, "in_a_worktree")


def test_commits_made_while_nobody_watched_are_indexed_later(
    committed: Any, serve: Callable[..., Any]
) -> None:
    wait_until((committed.folder / "dirty-files.json").exists, "heads are kept")
    committed.app.close()
    edit(committed, "nobody_watched")
    commit(committed, "two")
    again = serve(indexing_strategy="git")
    wait_found(again, "nobody_watched")


def test_git_without_a_repository_is_told_and_waits_for_quiet(serve: Callable[..., Any]) -> None:
    served = serve(indexing_strategy="git", lazy_idle_threshold=1)
    edit(served, "no_repository")
    wait_found(served, "no_repository")
    assert "no git repository" in served.following()["strategyNote"]


def test_a_file_indexed_in_the_moment_it_was_written_is_read_once_more_and_not_each_time(
    serve: Callable[..., Any],
) -> None:
    served = serve(begin=False, indexing_strategy="git", watching="polling")
    served.git("init", "-q")
    path = served.root / "pkg" / "m1.py"
    now = int(time.time())
    os.utime(path, (now, now))  # whole seconds: it may change again without a sign of it
    create_index(served.app, work=Work())

    def known_time() -> int:
        store = served.app.workspace.projects.get(served.root).stores()["code"]
        return int(store.files(["pkg/m1.py"])["pkg/m1.py"].mtime_ns)

    if known_time() == 0:  # it was indexed within those two seconds
        os.utime(path, (now - 60, now - 60))
        wait_until(lambda: known_time() == (now - 60) * 10**9, "the time is known now")
    wait_until(lambda: served.following().get("fullComparisons", 0) > 2, "looked at again")
    assert not waits(served)


@pytest.mark.row("001-107")
def test_strategies_are_switched_while_the_server_runs(serve: Callable[..., Any]) -> None:
    served = serve(files=3)
    reader, other = served.open(), served.open(stays=False)
    try:
        wait_until(lambda: served.following(reader).get("current"), "a reader")
        answer = switch(other.workspace, "lazy", work=Work())
        assert (answer["strategy"], answer["hook"]) == ("lazy", False)
        wait_until(lambda: served.following()["strategy"] == "lazy", "switched")
        wait_until(
            lambda: reader.workspace.projects.get(served.root).settings.strategy == "lazy",
            "everywhere",
        )
    finally:
        other.close()
        reader.close()
    before = served.holds("pkg/m1.py")
    edit(served, "while_lazy")
    wait_until(lambda: waits(served), "it waits")
    assert served.holds("pkg/m1.py") == before
    switch(served.app.workspace, "realtime", work=Work())
    wait_until(lambda: served.holds("pkg/m1.py") != before, "indexed after the switch")
    config = json.loads((served.folder / "config.json").read_text())
    assert config["indexingStrategy"] == "realtime"


def test_the_hook_is_installed_with_consent_and_removed_without_a_trace(committed: Any) -> None:
    hook = find_hook(committed.root)
    own = '#!/bin/sh\necho "mine"'
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(own)
    hook.chmod(0o755)
    asked: list[str] = []

    def decline(question: str) -> bool:
        asked.append(question)
        return False

    polite = committed.open(stays=False)
    object.__setattr__(polite.workspace, "assume_yes", False)
    answer = switch(polite.workspace, "git", work=Work(ask=decline))
    assert asked
    assert (answer["hook"], hook.read_text()) == (False, own)
    answer = switch(polite.workspace, "git", work=Work(ask=lambda _: True))
    assert answer["hook"]
    assert hook.read_text().startswith(own)
    committed.app.close()
    edit(committed, "by_the_hook")
    commit(committed, "two")
    wait_until(lambda: "pkg/m1.py" in committed.finds("by_the_hook", polite), "the hook ran")
    switch(polite.workspace, hook=False, work=Work())
    assert hook.read_text().rstrip("\n") == own
    polite.close()


def test_a_hook_of_ours_alone_leaves_no_file(committed: Any) -> None:
    install_hook(committed.root, ["true"])
    install_hook(committed.root, ["true", "again"])
    assert find_hook(committed.root).read_text().count("true") == 1
    assert has_hook(committed.root)
    delete_index(committed.app, work=Work())
    assert not find_hook(committed.root).exists()
    assert not remove_hook(committed.root)


def test_a_hook_in_another_language_is_left_alone(committed: Any) -> None:
    hook = find_hook(committed.root)
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/usr/bin/env python3\nprint()\n")
    with pytest.raises(InvalidRequest) as told:
        install_hook(committed.root, ["sonde", "flush", "/home/{me}"])
    assert "/home/{me}" in told.value.next_action
    with pytest.raises(InvalidRequest):
        install_hook(committed.root, ["true"])
    assert hook.read_text() == "#!/usr/bin/env python3\nprint()\n"


def test_a_pipe_in_the_place_of_a_hook_is_not_waited_for(committed: Any) -> None:
    hook = find_hook(committed.root)
    hook.parent.mkdir(exist_ok=True)
    os.mkfifo(hook)
    assert not has_hook(committed.root)
    assert not remove_hook(committed.root)


@pytest.mark.row("001-106", "001-100")
@pytest.mark.parametrize("strategy", ["lazy", "git"])
def test_the_check_at_the_start_leaves_waiting_files_alone(
    serve: Callable[..., Any], strategy: str
) -> None:
    served = serve(begin=False, indexing_strategy=strategy, lazy_idle_threshold=3600)
    served.git("init", "-q")
    run_sonde(served.root, served.place / "home", "index", "--yes")
    before = served.holds("pkg/m1.py")
    served.write("pkg/m1.py", "def edited(): pass\n")
    served.write("pkg/new.py", "def added(): pass\n")
    (served.root / "pkg/m2.py").unlink()
    overwritten = served.root / "pkg" / "m3.py"
    store = served.app.workspace.projects.get(served.root).stores()["code"]
    # what the index lost without the file changing is repaired all the same
    store.touch([replace(store.files(["pkg/m3.py"])["pkg/m3.py"], hash="0" * 64)])
    served.following()
    wait_until((served.folder / "integrity.json").exists, "checked")
    assert served.holds("pkg/m1.py") == before
    assert served.holds("pkg/new.py") is None
    assert served.holds("pkg/m2.py")
    assert served.holds("pkg/m3.py") == hashlib.sha256(overwritten.read_bytes()).hexdigest()
