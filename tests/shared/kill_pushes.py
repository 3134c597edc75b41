"""Kill pushes at random instants and look whether anything was lost: `python -m … KILLS FOLDER`."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.shared.conftest import FILES, run_git
from tests.trees import write_files

from sonde.runtime.system import now_ms
from sonde.runtime.work import Work
from sonde.shared.cleanup import clean_index
from sonde.shared.index import SharedIndex
from sonde.stores.chunks.sqlite import SqliteChunkStore

_PUSH = """
import sys, lancedb
from pathlib import Path
from sonde.projects.find import find_project
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.shared.push import push_project
from sonde.wiring import build_app
root, home, url = sys.argv[1:]
app = build_app(load_settings({}, home=Path(home), embedding="static"), start=Path(root))
project = find_project(app.workspace, root)
print("ready", flush=True)
print(push_project(app.workspace, project, url, Work()).commit, flush=True)
app.close()
"""
_TWO_DAYS_MS = 2 * 24 * 3600 * 1000


@dataclass
class Outcome:
    """What was seen."""

    killed: int = 0
    finished: int = 0
    lost: list[str] = field(default_factory=list)


class Site:
    """A repository that changes, and the shared index it is pushed to."""

    def __init__(self, folder: Path, url: str = "") -> None:
        self.root = write_files(folder / "shop", FILES)
        self.folder, self.url = folder, url or str(folder / "shared")
        run_git(self.root, "init", "-q", "-b", "main")
        self.change(0)

    def change(self, number: int) -> str:
        """One more commit: files change, come and go."""
        write_files(self.root, {
            f"src/module_{number % 7}.py": f"def f_{number}():\n    return {number}\n" * 20,
            "src/users.py": f"def find_user_{number}():\n    return 1\n",
        })  # fmt: skip
        if number % 3 == 0:
            (self.root / f"src/module_{(number + 3) % 7}.py").unlink(missing_ok=True)
        run_git(self.root, "add", "-A")
        run_git(self.root, "commit", "-qm", str(number))
        return run_git(self.root, "rev-parse", "HEAD")

    def push(self, kill_after_s: float | None = None) -> float | None:
        """Push in a process, which is killed after a while. Returns how long it took if not."""
        command = [sys.executable, "-c", _PUSH, str(self.root), str(self.folder / "home"), self.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            began = time.monotonic()
            try:
                process.wait(kill_after_s)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                return None
            assert process.returncode == 0
            return time.monotonic() - began

    def list_lost(self, pushed: set[str]) -> list[str]:
        """What is wrong with the commits that pushes reported as done, and with the head."""
        try:
            shared = SharedIndex(self.url)
        except Exception as error:  # noqa: BLE001 - reported
            return [f"cannot be opened: {error}"]
        lost = []
        for commit in {*pushed, shared.find_head("shop")}:
            tree = run_git(self.root, "ls-tree", "-r", "--name-only", commit).split()
            facts = shared.read_commit("shop", commit).files
            if facts.keys() != set(tree):
                lost.append(f"{commit}: files differ")
            texts = dict(shared.read_texts(fact.digest for fact in facts.values()))
            for path, fact in facts.items():
                if texts.get(fact.digest, b"").decode() != _show(self.root, commit, path):
                    lost.append(f"{commit}: {path} has another text")
            for rows in (False, True):
                lost += self._compare(shared, commit, set(facts), rows=rows)
        return lost

    def _compare(
        self, shared: SharedIndex, commit: str, paths: set[str], *, rows: bool
    ) -> list[str]:
        target = self.folder / "filled"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        note, held, problems = shared.fill("shop", commit, target, rows=rows).note, set(), []
        for kind in ("code", "docs"):
            store = SqliteChunkStore(target, kind)
            held |= store.files().keys()
            problems += store.verify()
            model = store.models()
            if store.counts().chunks and store.coverage(model[0])[0] < store.counts().chunks:
                problems.append("vectors are missing")
            store.close()
        wrong = [note, *problems, "" if held == paths else "other files"]
        return [f"{commit} from {'rows' if rows else 'blocks'}: {each}" for each in wrong if each]


def _show(root: Path, commit: str, path: str) -> str:
    command = ["git", "-C", str(root), "show", f"{commit}:{path}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def run(
    folder: Path,
    kills: int,
    *,
    seed: int = 0,
    url: str = "",
    tell: Callable[[str], None] = lambda _text: None,
) -> Outcome:
    """Push, kill, look, again and again; in the end push, clean, and look once more."""
    site, outcome, chance = Site(folder, url), Outcome(), random.Random(seed)
    took = site.push()
    assert took
    pushed: set[str] = {run_git(site.root, "rev-parse", "HEAD")}
    for number in range(1, kills + 1):
        commit = site.change(number)
        done = site.push(chance.uniform(0, took))
        if done is None:
            outcome.killed += 1
        else:
            outcome.finished, took, pushed = outcome.finished + 1, done, {commit}
        outcome.lost += site.list_lost(pushed)
        tell(f"{number}: {outcome}")
    site.push()
    pushed.add(run_git(site.root, "rev-parse", "HEAD"))
    outcome.lost += site.list_lost(pushed)
    shared = SharedIndex(site.url)
    clean_index(shared, Work(), now=lambda: now_ms() + _TWO_DAYS_MS)
    outcome.lost += site.list_lost(pushed)
    return outcome


if __name__ == "__main__":
    place = Path(sys.argv[2]).absolute()
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    os.nice(5)
    at = sys.argv[3] if len(sys.argv) > 3 else ""
    found = run(place, int(sys.argv[1]), url=at, tell=partial(print, flush=True))
    print(json.dumps(found.__dict__, indent=1))
    sys.exit(bool(found.lost))
