"""Whatever happens to the files, the index follows by itself and ends equal to a fresh one."""

from __future__ import annotations

import os
import random
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from sonde.indexing.following import Inbox, TreeWatch
from sonde.indexing.sources import Tree
from sonde.policy.changes import WatchFailed, find_silent_file_system
from sonde.projects.follow import Follower
from sonde.runtime.work import Work, WriterLock
from sonde.tools.code import search_code
from sonde.tools.index import create_index


@pytest.mark.row("001-95", "001-96", "001-98", "001-103")
def test_a_saved_file_is_found_and_a_touched_one_is_left_alone(served: Any) -> None:
    assert served.finds("walrus_walks") != ["new.py"]
    served.write("new.py", "def walrus_walks():\n    return 1\n")
    wait_until(lambda: served.finds("walrus_walks")[:1] == ["new.py"], "found")
    store = served.app.workspace.projects.get(served.root).stores()["code"]
    before = [chunk.id for chunk in store.chunks_of("pkg/m3.py")]
    (served.root / "pkg" / "m3.py").touch()
    facts = (served.root / "pkg" / "m3.py").stat()
    wait_until(
        lambda: store.files(["pkg/m3.py"])["pkg/m3.py"].mtime_ns == facts.st_mtime_ns, "touched"
    )
    assert [chunk.id for chunk in store.chunks_of("pkg/m3.py")] == before


def test_docs_follow_as_code_does(served: Any) -> None:
    served.write("docs/guide.md", "# Guide\n\nHow the walrus walks.\n")
    wait_until(lambda: served.holds("docs/guide.md"), "the guide")
    (served.root / "README.md").unlink()
    wait_until(lambda: not served.holds("README.md"), "no read me")


def test_the_other_store_follows_as_well(serve: Callable[..., Any]) -> None:
    pytest.importorskip("lancedb")
    served = serve(files=3, store="lance")
    reader = served.open()
    try:
        served.write("new.py", "def walrus_in_lance():\n    return 1\n")
        for app in (served.app, reader):
            wait_until(lambda a=app: "new.py" in served.finds("walrus_in_lance", a), "found")
        (served.root / "new.py").unlink()
        wait_until(lambda: not served.holds("new.py"), "gone")
    finally:
        reader.close()


@pytest.mark.row("001-96")
def test_editors_that_save_by_renaming_are_followed(served: Any) -> None:
    for number in range(3):
        draft = served.write("pkg/.m5.py.tmp", f"def saved_by_rename_{number}():\n    pass\n")
        draft.replace(served.root / "pkg" / "m5.py")
        word = f"saved_by_rename_{number}"
        wait_until(lambda word=word: served.finds(word)[:1] == ["pkg/m5.py"], word)
    served.wait_equal()


@pytest.mark.row("001-96")
def test_folders_come_go_and_move(served: Any) -> None:
    served.write("a/b/c/deep.py", "def deep():\n    pass\n")
    wait_until(lambda: served.holds("a/b/c/deep.py"), "a file in new folders")
    (served.root / "a").rename(served.root / "z")
    wait_until(lambda: served.holds("z/b/c/deep.py") and not served.holds("a/b/c/deep.py"), "moved")
    served.write("z/b/c/deep.py", "def deeper():\n    pass\n")
    wait_until(lambda: "z/b/c/deep.py" in served.finds("deeper"), "an edit in a moved folder")
    shutil.rmtree(served.root / "pkg")
    served.write("pkg/only.py", "def only():\n    pass\n")
    wait_until(lambda: served.holds("pkg/only.py") and not served.holds("pkg/m1.py"), "re-created")
    served.write("pkg/only.py", "def only_now():\n    pass\n")
    wait_until(lambda: "pkg/only.py" in served.finds("only_now"), "an edit in it")
    served.wait_equal()


def test_ignore_files_hold_from_the_moment_they_are_saved(served: Any) -> None:
    served.write(".gitignore", "pkg/\n")
    wait_until(lambda: not served.holds("pkg/m1.py"), "ignored")
    served.write("pkg/m1.py", "def unseen():\n    pass\n")
    served.write(".sondeignore", "!pkg/\n")
    wait_until(lambda: "pkg/m1.py" in served.finds("unseen"), "brought back")
    (served.root / ".gitignore").unlink()
    (served.root / ".sondeignore").unlink()
    served.write("pkg/m2.py", "def seen_again():\n    pass\n")
    wait_until(lambda: "pkg/m2.py" in served.finds("seen_again"), "watched again")
    served.wait_equal()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a folder costs no watch")
@pytest.mark.row("001-99")
def test_denied_folders_cost_no_watches(served: Any) -> None:
    served.write("node_modules/x/y/index.js", "var a\n")
    served.write("pkg/new/a.py", "a = 1\n")
    wait_until(lambda: served.holds("pkg/new/a.py"), "the other file")
    watch = TreeWatch(served.app.workspace.projects.get(served.root).tree, Inbox())
    try:
        assert str(served.root / "pkg" / "new") in watch.folders
        assert not any("node_modules" in folder for folder in watch.folders)
    finally:
        watch.close()


def test_a_branch_switch_of_many_files_is_one_run(serve: Callable[..., Any]) -> None:
    served = serve(files=1500)
    served.git("init", "-q")
    served.git("add", "-A")
    served.git("commit", "-qm", "one")
    served.git("checkout", "-qb", "two")
    for number in range(1500):
        served.write(f"pkg/m{number}.py", f"def other_{number}():\n    return {number}\n")
    served.git("commit", "-qam", "two")
    served.wait_equal("after the commit")
    before = served.following()["updates"]
    served.git("checkout", "-q", "main")
    served.wait_equal("after the switch")
    assert served.following()["updates"] - before < 20


class Relay:
    """An inbox that changes what a watch reports before it is passed on."""

    def __init__(self, inbox: Inbox, change: Callable[[set[str]], Any]) -> None:
        self._inbox, self._change = inbox, change

    def put(self, arrived: Any) -> None:
        self._inbox.put(self._change(arrived) if isinstance(arrived, set) else arrived)


def follow_again(served: Any, **options: Any) -> None:
    """Follow the project with another watch, or by another clock."""
    project = served.app.workspace.projects.get(served.root)
    project.stop_following()
    project.start_following(lambda: Follower(served.app.workspace, project, **options))
    wait_until(lambda: served.following().get("fullComparisons"), "following again")


def test_events_that_were_lost_are_made_up_for_when_it_is_quiet(served: Any) -> None:
    def lose(places: set[str]) -> set[str]:
        return {place for place in places if not place.endswith("lost.py")}

    def open_watch(tree: Tree, inbox: Any) -> TreeWatch:
        relay: Any = Relay(inbox, lose)
        return TreeWatch(tree, relay)

    follow_again(served, open_watch=open_watch)
    served.write("lost.py", "def lost_event():\n    pass\n")
    served.write("seen.py", "def seen_event():\n    pass\n")
    wait_until(lambda: "lost.py" in served.finds("lost_event"), "the lost one")


def test_a_moved_project_keeps_its_index_until_it_is_back(served: Any) -> None:
    away = served.root.with_name("elsewhere")
    follower = served.app.workspace.projects.get(served.root).following
    served.root.rename(away)
    wait_until(lambda: "not there" in follower.describe().get("note", ""), "told")
    assert not follower.is_current()
    assert served.holds("pkg/m1.py")
    (away / "pkg" / "m1.py").write_text("def came_back():\n    pass\n")
    away.rename(served.root)
    wait_until(lambda: served.following()["current"], "current again")
    wait_until(lambda: "pkg/m1.py" in served.finds("came_back"), "the edit")


def test_another_project_in_the_same_place_takes_its_index_over(served: Any) -> None:
    other = served.root.with_name("other")
    shutil.copytree(served.root, other)
    (other / "pkg" / "m1.py").write_text("def of_another():\n    pass\n")
    served.root.rename(served.root.with_name("old"))
    other.rename(served.root)
    wait_until(lambda: "pkg/m1.py" in served.finds("of_another"), "the other project")
    served.write("pkg/m2.py", "def edited_there():\n    pass\n")
    wait_until(lambda: "pkg/m2.py" in served.finds("edited_there"), "an edit there")


def test_settings_hold_from_the_moment_they_are_saved(served: Any) -> None:
    config = served.folder / "config.json"
    text = config.read_text().replace('"exclude": []', '"exclude": ["pkg/m1*"]')
    config.write_text(text)
    wait_until(lambda: not served.holds("pkg/m1.py"), "excluded")
    assert served.holds("pkg/m2.py")


@pytest.mark.row("001-156")
def test_a_crashed_watcher_is_restarted_and_that_is_told(served: Any) -> None:
    broken = threading.Event()

    def spoil(places: set[str]) -> set[Any]:
        if broken.is_set():
            return places
        broken.set()
        return {None}  # no path: what handles events raises

    def open_watch(tree: Tree, inbox: Any) -> TreeWatch:
        relay: Any = Relay(inbox, spoil)
        return TreeWatch(tree, relay)

    follow_again(served, open_watch=open_watch)
    served.write("new.py", "def after_the_crash():\n    pass\n")
    assert broken.wait(30)
    wait_until(lambda: "new.py" in served.finds("after_the_crash"), "found all the same")
    told = wait_until(lambda: served.following() if served.following()["current"] else None)
    assert told["restarts"] == 1
    assert "NoneType" in told["restartedAfter"]


def test_polling_where_events_do_not_come(serve: Callable[..., Any]) -> None:
    served = serve(begin=False, watching="polling")
    create_index(served.app, work=Work())
    told = wait_until(lambda: t if (t := served.following())["watching"] == "polling" else None)
    assert "watching" in told["note"]
    served.write("new.py", "def polled():\n    pass\n")
    wait_until(lambda: served.holds("new.py"), "found by looking")
    (served.root / "pkg" / "m1.py").unlink()
    wait_until(lambda: not served.holds("pkg/m1.py"), "gone")


def test_file_systems_without_events_are_known(served: Any, tmp_path: Path) -> None:
    tree = served.app.workspace.projects.get(served.root).tree
    roots = [source.root for source in tree.sources]
    mounts = tmp_path / "mountinfo"
    line = "36 35 98:0 / {} rw shared:1 - {} source rw\n"
    mounts.write_text(line.format("/", "ext4") + line.format(tmp_path, "nfs4"))
    assert find_silent_file_system(roots, mounts) == "nfs4"
    mounts.write_text(line.format("/", "nfs4") + line.format(tmp_path, "ext4"))
    assert find_silent_file_system(roots, mounts) is None
    assert find_silent_file_system(roots, tmp_path / "missing") is None


def test_a_watch_that_cannot_be_opened_falls_back_and_says_so(served: Any) -> None:
    def refuse(*_: Any) -> TreeWatch:
        raise WatchFailed("the system's limit of file watches is reached")

    follow_again(served, open_watch=refuse)
    served.write("folder/new.py", "def beyond_the_limit():\n    pass\n")
    told = wait_until(lambda: t if (t := served.following())["watching"] == "polling" else None)
    assert "limit" in told["note"]
    served.write("folder/newer.py", "def looked_for():\n    pass\n")
    wait_until(lambda: "folder/newer.py" in served.finds("looked_for"), "found by looking")


@pytest.mark.skipif(sys.platform != "linux", reason="names there are Unicode")
def test_a_name_that_is_no_text_stops_nothing(served: Any) -> None:
    odd = os.fsencode(served.root) + b"/odd-\xff.py"
    with open(odd, "w") as file:  # noqa: PTH123 - the name is bytes
        file.write("def odd():\n    pass\n")
    served.write("new.py", "def beside_the_odd_one():\n    pass\n")
    wait_until(lambda: "new.py" in served.finds("beside_the_odd_one"), "found")
    served.write("new.py", "def and_after_it():\n    pass\n")
    wait_until(lambda: "new.py" in served.finds("and_after_it"), "found again")
    assert served.following()["restarts"] == 0


NAMES = ("a.py", "b.py", "pkg/m1.py", "pkg/c.ts", "x/y/d.py", "doc.md", "x/doc.md", "é 1.py")


@pytest.mark.parametrize("seed", range(3))
def test_any_operations_end_as_a_fresh_index(served: Any, seed: int) -> None:
    chance = random.Random(seed)
    root = served.root
    for count in range(60):
        name = root / chance.choice(NAMES)
        what = chance.randrange(7)
        if what <= 2:
            served.write(str(name.relative_to(root)), f"def f{chance.randrange(5)}(): pass\n")
        elif what == 3:
            name.unlink(missing_ok=True)
        elif what == 4 and name.exists():
            target = root / chance.choice(NAMES)
            target.parent.mkdir(parents=True, exist_ok=True)
            name.replace(target)
        elif what == 5:
            folder = root / chance.choice(("x", "pkg", "x/y"))
            if folder.exists():
                target = root / chance.choice(("moved", "pkg2", "x2"))
                shutil.rmtree(target, ignore_errors=True)
                folder.rename(target)
        elif what == 6:
            lines = chance.choice(("", "x/\n", "*.ts\n", "pkg2/\n", "moved/\n!moved/a.py\n"))
            served.write(".gitignore", lines)
        if count % 20 == 19:
            served.wait_equal(f"seed {seed}, operation {count}")
    if hasattr(os, "mkfifo"):
        os.mkfifo(root / "pipe.py")
    served.wait_equal(f"seed {seed}")


def test_an_answer_neither_compacts_nor_waits_for_whoever_does(serve: Callable[..., Any]) -> None:
    served = serve(begin=False, watching="off")
    workspace = replace(served.app.workspace, fresh_s=(3600, 3600))
    served.app = replace(served.app, workspace=workspace)
    create_index(served.app, work=Work())
    project = served.app.workspace.projects.get(served.root)
    tidied: list[int] = []  # by which threads: work in the background may
    for store in project.stores().values():
        store.tidy = lambda: tidied.append(threading.get_ident())  # type: ignore[method-assign]
    served.write("pkg/m1.py", "def function_1():\n    return 'mended'\n")
    (row,) = search_code(served.app, "function_1", 1, work=Work())["results"]
    assert "mended" in row["text"]
    assert threading.get_ident() not in tidied
    served.write("pkg/m1.py", "def function_1():\n    return 'once more'\n")
    with WriterLock(project.folder).held():
        (row,) = search_code(served.app, "function_1", 1, work=Work())["results"]
    assert row["stale"]
