"""Makes every call that writes fail, one after the other, and looks at what is left.

    python -m tests.faults.failing_writes [--every 1] [--from 1] [--sites]
        [--kinds full,io,quota,short,kill] [--store lance] [--within .lancedb/]
        [--operations index,update,compact,convert,chunks,import,export,restore]

A shim (`failing_writes.c`) counts the calls that create, write, truncate, sync, link, rename or
remove below the storage. The n-th fails: with ENOSPC or EDQUOT from then on, once with EIO, by half
a write, by death. After each, the work has ended well or with a clear error; what was committed
before is there, what is claimed to be done is, and doing it again makes it whole.

With `--every 9`, every ninth call is tried; `--sites` adds the first and the last of each kind of
call on each kind of file.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import importlib
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.operations import (
    BROKEN,
    DONE,
    OPERATIONS,
    REFUSED,
    Place,
    begin_import,
    begin_same,
)

from sonde.errors import IndexCorrupt, SondeError

FAIL, SHORT, KILL = 1, 2, 3  # as in the shim
KINDS = {
    "full": (FAIL, errno.ENOSPC, 1, 0), "io": (FAIL, errno.EIO, 0, 0),
    "quota": (FAIL, errno.EDQUOT, 1, 1), "short": (SHORT, 0, 0, 1), "kill": (KILL, 0, 0, 0),
}  # fmt: skip
"""What happens, with which error, whether from then on, and whether it begins with data only: of
the other calls there is no half, and nobody tells a quota from a full disk but who writes data."""
LONGEST_S = 120  # of one try; more is a hang


def prepare(*, lance: bool) -> None:
    """Import and load once what every try needs, and do nothing with LanceDB: what it has running
    does not survive a fork."""
    if lance:
        importlib.import_module("lancedb")
    with tempfile.TemporaryDirectory() as work:
        root = Path(work) / "project"
        root.mkdir()
        place = Place(Path(work) / "home", root, "sqlite")
        begin_same(place)
        begin_import(place)


def run_apart(function: Callable[[], object]) -> tuple[int, Any]:
    """Run in a fork. Returns its exit code, or minus its signal, and what the function returned."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        code, result = BROKEN, None
        signal.alarm(LONGEST_S)
        try:
            result = function()
            code = DONE
        except SondeError:
            code = REFUSED
        except BaseException:  # noqa: BLE001 - whatever it is, it is told
            traceback.print_exc()
        with os.fdopen(writable, "wb") as pipe:
            pipe.write(pickle.dumps(result))
        os._exit(code)
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        data = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, pickle.loads(data) if data else None


def run_victim(
    place: Place, operation: str, kind: str, at: int, within: str, log: Path
) -> tuple[int, list[str]]:
    """Do the work with a fault at a place, 0 for none: the exit code, and the calls made."""
    shim = ctypes.CDLL(os.environ["LD_PRELOAD"])

    def work() -> None:
        with log.open("wb") as file:
            shim.record(file.fileno())
            do()

    def do() -> None:
        shim.arm(os.fsencode(place.home), within.encode(), at, *KINDS[kind])
        try:
            app = place.open(record_after_s=0.0)  # the same calls, fast or slow
            OPERATIONS[operation].do(app, place)
            app.close()
        except IndexCorrupt as error:
            raise AssertionError("a failed write is called damage") from error
        finally:
            shim.arm(b"/nowhere", b"", 0, 0, 0, 0, 0)

    code, _ = run_apart(work)
    return code, log.read_text("utf-8", "replace").splitlines()


def choose_places(calls: list[str], options: argparse.Namespace) -> list[int]:
    """The numbers of the calls to fail, from 1."""
    places = {*range(options.first, len(calls) + 1, options.every)}
    if options.sites:
        sites = [re.sub(r"[0-9a-f]{6,}|\d+", "0", call) for call in calls]
        first = {site: at for at, site in reversed([*enumerate(sites, 1)])}
        last = {site: at for at, site in enumerate(sites, 1)}
        places |= {*first.values(), *last.values()}
    return sorted(places)


def try_all(folder: Path, operation: str, kind: str, options: argparse.Namespace) -> Counter[str]:
    """One fault after the other, until an operation has no more calls."""
    root, whole = folder / "project", folder / "whole"
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    root.mkdir()
    (root / "pyproject.toml").write_text("")
    code, before = run_apart(lambda: OPERATIONS[operation].begin(Place(whole, root, options.store)))
    assert code == DONE
    place = Place(folder / "home", root, options.store, before)
    outcomes: Counter[str] = Counter()
    places = [0]
    while places:
        at = places.pop(0)
        shutil.rmtree(place.home, ignore_errors=True)
        if whole.exists():
            shutil.copytree(whole, place.home)  # an index knows its project, not its own place
        code, made = run_victim(place, operation, kind, at, options.within, folder / "calls")
        if at == 0:
            assert code == DONE, "fails by itself"
            outcomes["calls"], places = len(made), choose_places(made, options)
            continue
        if len(made) < at:
            continue  # it made fewer this time

        def judge(code: int = code) -> None:
            assert code in (DONE, REFUSED, -signal.SIGKILL), "hung, or an error that is not clear"
            OPERATIONS[operation].judge(place, code, operation)

        if run_apart(judge)[0] != DONE:
            print(f"{operation}, {kind} at call {at} (exit {code})", file=sys.stderr, flush=True)
            outcomes["problems"] += 1
        outcomes["ended well" if code == DONE else "refused" if code == REFUSED else "killed"] += 1
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--from", type=int, default=1, dest="first")
    parser.add_argument("--sites", action="store_true", help="the first and last of each kind too")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--within", default="", help="only calls on paths with this in them")
    parser.add_argument("--store", default="sqlite", choices=("sqlite", "lance"))
    options = parser.parse_args()
    if "failing_writes" not in os.environ.get("LD_PRELOAD", ""):
        with tempfile.TemporaryDirectory() as place:
            shim = str(Path(place) / "failing_writes.so")
            source = str(Path(__file__).with_suffix(".c"))
            build = ["cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"]
            subprocess.run(build, check=True)
            again = [sys.executable, "-m", "tests.faults.failing_writes", *sys.argv[1:]]
            return subprocess.run(
                again, env=os.environ | {"LD_PRELOAD": shim}, check=False
            ).returncode
    prepare(lance=options.store == "lance" or "convert" in options.operations)
    problems = 0
    print("| operation | fault | calls | tried | ended well | refused | killed | problems |")
    print("|---|---|--:|--:|--:|--:|--:|--:|", flush=True)
    with tempfile.TemporaryDirectory() as place:
        for operation in options.operations.split(","):
            for kind in options.kinds.split(","):
                found = try_all(Path(place).resolve(), operation, kind, options)
                shown = [found[name] for name in ("ended well", "refused", "killed", "problems")]
                cells = " | ".join(map(str, [found["calls"], sum(shown[:3]), *shown]))
                print(f"| {operation} | {kind} | {cells} |", flush=True)
                problems += found["problems"]
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
