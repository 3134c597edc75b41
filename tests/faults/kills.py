"""Kills a process at random instants of whatever it does to an index, and looks at what is left.

    python tests/faults/kills.py [--runs 400] [--store sqlite] [--seed 1]

After every kill the index must open, hold everything that was committed before, and be equal to a
new one after a single check. Prints how often each kind of work was hit; ends with 1 on any loss.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from sonde.app import App
from sonde.chunking.parse import parse_source
from sonde.projects.maintenance import check_project
from sonde.projects.update import update_project
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.stores.records import load_fingerprints, load_metadata, save_fingerprints, save_metadata
from sonde.tools.index import create_index
from sonde.wiring import build_app

SCENARIOS = ("index", "update", "compact", "vectors", "check", "json")
_FILES = 40
_LONGEST_S = {"sqlite": 0.25, "lance": 1.5}


def make_app(home: Path, root: Path, store: str = "", **others: Any) -> App:
    """The app over a storage; without a store, over the one that its index is in."""
    named = {"store": store} if store else {}
    settings = load_settings({}, home=home, assume_yes=True, embedding="static", **named)
    return build_app(settings, start=root, **others)


def edit(root: Path, pick: random.Random, turn: int) -> set[str]:
    """Change, add and remove a few files; returns their names."""
    touched = set()
    for _ in range(pick.randint(3, 12)):
        name = f"m{pick.randrange(_FILES)}.{pick.choice(['py', 'py', 'md'])}"
        path = root / name
        touched.add(name)
        if path.exists() and pick.random() < 0.2:
            path.unlink()
            continue
        parts = pick.randint(1, 8)
        path.write_text(
            f"# Turn {turn}\n\n"
            + "".join(
                f"def function_{turn}_{part}(value):\n    '''{'words of a text ' * 40}'''\n"
                f"    return value + {part}\n\n\n"
                for part in range(parts)
            )
        )
    return touched


def expect(root: Path) -> dict[str, Any]:
    """What a new index of these files would hold."""
    expected = {}
    for path in sorted(root.glob("*.*")):
        kind: Any = "docs" if path.suffix == ".md" else "code"
        parsed = parse_source(path.name, path.read_text(), kind=kind)
        expected[f"{kind}:{path.name}"] = (
            [(c.text, c.span, c.header, c.symbol) for c in parsed.chunks],
            list(parsed.symbols),
        )
    return expected


def read(app: App, root: Path) -> dict[str, Any]:
    known = {}
    for kind, store in app.workspace.projects.get(root).stores().items():
        broken = store.verify()
        assert broken == [], broken
        for path in store.files():
            chunks = [(c.text, c.span, c.header, c.symbol) for c in store.chunks_of(path)]
            known[f"{kind}:{path}"] = (chunks, list(store.symbols_of([path]).get(path, [])))
    return known


def work_until_killed(app: App, root: Path, scenario: str, touched: set[str], ready: int) -> None:
    """What the victim does, over and over."""
    project = app.workspace.projects.get(root)
    stores = project.stores()
    os.write(ready, b"x")
    turn = 0
    while True:
        turn += 1
        if scenario == "index":
            create_index(app, work=Work())
            update_project(app.workspace, project, Work(), force=True)
        elif scenario == "update":
            update_project(app.workspace, project, Work(), paths=touched, force=True)
        elif scenario == "compact":
            for store in stores.values():
                update_project(app.workspace, project, Work(), paths=touched, force=True)
                store.compact()
        elif scenario == "vectors":
            for store in stores.values():
                chunks = store.missing(f"m{turn % 3}", 64)
                rows = np.eye(len(chunks), 384, dtype=np.float32)
                with project.lock.held():
                    store.put_vectors(f"m{turn % 3}", [c.digest for c in chunks], rows)
                    store.drop_broken()
        elif scenario == "check":
            check_project(app.workspace, project, Work(), thorough=True)
        else:
            metadata = load_metadata(project.folder)
            assert metadata
            save_metadata(project.folder, metadata)
            for kind, store in stores.items():
                save_fingerprints(project.folder, kind, store.files())


def run_and_kill(
    home: Path, root: Path, store: str, scenario: str, touched: set[str], delay: float
) -> None:
    """Let another process work for a moment, then kill it."""
    readable, writable = os.pipe()
    os.set_inheritable(writable, True)  # noqa: FBT003
    arguments = [str(home), str(root), store, scenario, json.dumps(sorted(touched)), str(writable)]
    # a fork spares the imports; what LanceDB has running does not survive one
    child = (
        os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, __file__, *arguments])
        if store == "lance"
        else os.fork()
    )
    if child == 0:
        be_victim(*arguments)
    os.close(writable)
    os.read(readable, 1)
    os.close(readable)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"the victim of {scenario} ended by itself: {status}"


def be_victim(home: str, root: str, store: str, scenario: str, touched: str, ready: str) -> None:
    """Work until killed; to end in any other way is an error."""
    try:
        app = make_app(Path(home), Path(root), store)
        work_until_killed(app, Path(root), scenario, set(json.loads(touched)), int(ready))
    except Exception:  # noqa: BLE001 - whatever it is, it is told
        traceback.print_exc()
    finally:
        os._exit(3)


def look(home: Path, root: Path, store: str, before: dict[str, Any], scenario: str) -> None:
    """What must hold after a kill."""
    for path in home.glob("indexes/*/*.json"):
        json.loads(path.read_text())
    app = make_app(home, root, store)
    try:
        expected = expect(root)
        found = read_left(app, root)
        lost = {n for n, rows in before.items() if expected.get(n) == rows and n not in found}
        assert not lost, f"{scenario}: lost {lost}"
        if not app.workspace.projects.get(root).is_indexed():
            assert not before  # the first index was not begun yet
            create_index(app, work=Work())
        check_project(app.workspace, app.workspace.projects.get(root), Work(), thorough=True)
        assert read(app, root) == expected, f"{scenario}: not equal to a new index after a check"
        assert (
            check_project(
                app.workspace, app.workspace.projects.get(root), Work(), thorough=True
            ).drift
            == 0
        )
        metadata = load_metadata(app.workspace.projects.get(root).folder)
        assert metadata
        assert metadata.total_files == len(expected)
        assert metadata.last_full_index
        prints = {
            f"{kind}:{path}"
            for kind in app.workspace.projects.get(root).stores()
            for path in load_fingerprints(app.workspace.projects.get(root).folder, kind)
        }
        assert prints == set(expected)
    finally:
        app.close()


def read_left(app: App, root: Path) -> set[str]:
    """The files that are indexed; what SQLite itself says of its files must be good."""
    known = set()
    for kind, store in app.workspace.projects.get(root).stores().items():
        broken = [each for each in store.verify() if "counted wrongly" not in each]
        assert broken == [], broken
        known |= {f"{kind}:{path}" for path in store.files()}
    return known


def main() -> int:
    if (
        len(sys.argv) == len(inspect.signature(be_victim).parameters) + 1
        and "--" not in sys.argv[1]
    ):
        be_victim(*sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--store", default="sqlite", choices=("sqlite", "lance"))
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    pick = random.Random(args.seed)
    hit: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as work:
        root, home = Path(work) / "project", Path(work) / "home"
        root.mkdir()
        (root / "pyproject.toml").write_text("")
        edit(root, pick, 0)
        for turn in range(1, args.runs + 1):
            scenario = SCENARIOS[turn % len(SCENARIOS)]
            if turn % 50 == 0:
                shutil.rmtree(home, ignore_errors=True)  # a first index is killed, too
            before: dict[str, Any] = {}
            if home.exists():
                app = make_app(home, root, args.store)
                before = read(app, root)
                app.close()
            else:
                scenario = "index"
            touched = edit(root, pick, turn)
            delay = pick.uniform(0, _LONGEST_S[args.store])
            run_and_kill(home, root, args.store, scenario, touched, delay)
            look(home, root, args.store, before, scenario)
            hit[scenario] += 1
    print(f"{sum(hit.values())} kills, nothing lost: {dict(hit)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
