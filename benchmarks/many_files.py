"""100,000 tiny files: how long an index takes, how much memory, and how fast it answers.

python benchmarks/many_files.py [count]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PER_FOLDER = 200


def make_files(root: Path, count: int) -> None:
    (root / ".git").mkdir(parents=True)
    for folder in range(count // PER_FOLDER):
        place = root / f"d{folder}"
        place.mkdir()
        for number in range(PER_FOLDER):
            (place / f"f{number}.py").write_text(f"def f_{folder}_{number}(): return {number}\n")


def measure(root: Path, home: Path, *args: str) -> dict[str, object]:
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "sonde.cli.main", *args, "--json"],
        cwd=root,
        env={**os.environ, "SONDE_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    answer = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.communicate()
    return {
        "command": args[0],
        "seconds": round(time.monotonic() - began, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mb": usage.ru_maxrss // 1024,
        "answer": answer.get("code") or answer.get("filesIndexed") or answer.get("totalResults"),
    }


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as place:
        root, home = Path(place, "project"), Path(place, "home")
        make_files(root, count)
        for args in (("index",), ("index", "--yes"), ("index",), ("search", "f_42_137")):
            print(json.dumps(measure(root, home, *args)))


if __name__ == "__main__":
    main()
