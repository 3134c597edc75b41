"""Makes every call that writes fail, one after the other, and looks at what is left of an index.

    python tests/faults/failing_writes.py [--every 1] [--from 1] [--kinds full,io,quota,short,kill]

A shim (`failing_writes.c`) counts the calls that write, truncate, sync, rename or remove below the
storage. The n-th fails: with ENOSPC or EDQUOT from then on, once with EIO, by half a write, by
death. After each, the work has ended well or with a clear error; what was committed before is
there, what is claimed to be indexed is, and one check makes the index equal to a new one.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.kills import edit, expect, look, make_app, read

from sonde.errors import SondeError
from sonde.projects.update import update_project
from sonde.runtime.work import Work
from sonde.tools.index import create_index

FAIL, SHORT, KILL = 1, 2, 3  # as in the shim
KINDS = {
    "full": (FAIL, errno.ENOSPC, 1), "io": (FAIL, errno.EIO, 0), "quota": (FAIL, errno.EDQUOT, 1),
    "short": (SHORT, 0, 0), "kill": (KILL, 0, 0),
}  # fmt: skip
OPERATIONS = ("index", "update", "compact")
DONE, REFUSED, BROKEN = 0, 10, 11  # exit codes of a victim


def do_work(home: Path, root: Path, operation: str) -> None:
    """One operation, to its end."""
    app = make_app(home, root, "sqlite")
    project = app.workspace.projects.get(root)
    if operation == "index":
        create_index(app, work=Work())
    elif operation == "update":
        update_project(app.workspace, project, Work())
    else:
        update_project(app.workspace, project, Work())
        for store in project.stores().values():
            store.compact()
    app.close()


def run_victim(home: Path, root: Path, operation: str, kind: str, place: int) -> tuple[int, int]:
    """Work in another process with a fault at a place: its exit code, and the calls it made."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        shim, code = ctypes.CDLL(os.environ["LD_PRELOAD"]), BROKEN
        shim.arm(os.fsencode(home), place, *KINDS[kind])
        try:
            do_work(home, root, operation)
            code = DONE
        except SondeError:
            code = REFUSED
        except BaseException:  # noqa: BLE001 - whatever it is, it is told
            traceback.print_exc()
        os.write(writable, str(shim.count()).encode())
        os._exit(code)
    os.close(writable)
    made = int(os.read(readable, 64) or b"0")
    os.close(readable)
    _, status = os.waitpid(child, 0)
    return (-os.WTERMSIG(status), place) if os.WIFSIGNALED(status) else (
        os.WEXITSTATUS(status), made
    )  # fmt: skip


def judge(home: Path, root: Path, before: dict[str, Any], operation: str, code: int) -> None:
    """What must hold after a fault."""
    assert code != BROKEN, "an error that is not clear"
    if code == DONE:
        app = make_app(home, root, "sqlite")
        try:
            assert read(app, root) == expect(root), "said to be done, and is not"
        finally:
            app.close()
    look(home, root, "sqlite", before, operation)


def try_all(folder: Path, operation: str, kind: str, first: int, every: int) -> Counter[str]:
    """One fault after the other, until an operation has no more calls."""
    root, whole, home = folder / "project", folder / "whole", folder / "home"
    for place in (root, whole, home):
        shutil.rmtree(place, ignore_errors=True)
    root.mkdir()
    (root / "pyproject.toml").write_text("")
    pick = random.Random(10)
    edit(root, pick, 0)
    before: dict[str, Any] = {}
    if operation != "index":
        do_work(whole, root, "index")
        app = make_app(whole, root, "sqlite")
        before = read(app, root)
        app.close()
        edit(root, pick, 1)
    outcomes: Counter[str] = Counter()
    place = first
    while True:
        shutil.rmtree(home, ignore_errors=True)
        if whole.exists():
            # an index knows its project, not its own place
            shutil.copytree(whole, home)
        code, made = run_victim(home, root, operation, kind, place)
        if made < place:
            return outcomes
        try:
            judge(home, root, before, operation, code)
        except Exception:  # noqa: BLE001 - whatever it is, it is told
            print(f"{operation}, {kind} at call {place} (exit {code}):", file=sys.stderr)
            traceback.print_exc()
            outcomes["problems"] += 1
        outcomes["ended well" if code == DONE else "refused" if code == REFUSED else "killed"] += 1
        place += every


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--from", type=int, default=1, dest="first")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    options = parser.parse_args()
    if "failing_writes" not in os.environ.get("LD_PRELOAD", ""):
        with tempfile.TemporaryDirectory() as place:
            shim = str(Path(place) / "failing_writes.so")
            source = str(Path(__file__).with_suffix(".c"))
            subprocess.run(
                ["cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True
            )
            again = [sys.executable, "-m", "tests.faults.failing_writes", *sys.argv[1:]]
            return subprocess.run(
                again, env=os.environ | {"LD_PRELOAD": shim}, check=False
            ).returncode
    problems = 0
    print("| operation | fault | calls tried | ended well | refused | killed | problems |")
    print("|---|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as place:
        for operation in options.operations.split(","):
            for kind in options.kinds.split(","):
                found = try_all(
                    Path(place).resolve(), operation, kind, options.first, options.every
                )
                shown = [found[name] for name in ("ended well", "refused", "killed", "problems")]
                cells = " | ".join(map(str, [sum(shown[:3]), *shown]))
                print(f"| {operation} | {kind} | {cells} |", flush=True)
                problems += found["problems"]
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
