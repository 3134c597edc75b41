"""Try the wheel as a stranger would: in an empty environment of every supported Python found here.

    python scripts/wheels.py [WHEEL]      (needs a package index; builds the wheel if none is given)

Looks for interpreters on PATH and in pyenv. Prints what each step took; fails if one does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MINORS = re.findall(
    r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text()
)


def find_pythons() -> dict[str, str]:
    """Version -> interpreter, for every version that the package says it supports."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {}
    for minor in MINORS:
        here = sorted(pyenv.glob(f"{minor}.*/bin/python"))
        if place := str(here[-1]) if here else shutil.which(f"python{minor}"):
            found[minor] = place
    return found


def try_wheel(python: str, wheel: Path, folder: Path) -> dict[str, float]:
    """Seconds of each step: environment, install, index, search."""
    took: dict[str, float] = {}
    project = folder / "project"
    shutil.copytree(ROOT / "tests" / "quality" / "shop", project)
    bin_ = folder / "env" / "bin"
    environ = {"PATH": f"{bin_}:{os.defpath}", "HOME": str(folder), "SONDE_ASSUME_YES": "1"}

    def run(step: str, *command: str) -> str:
        began = time.monotonic()
        done = subprocess.run(
            command, cwd=project, env=environ, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{python}: {' '.join(command)}\n{done.stdout}{done.stderr}")
        took[step] = time.monotonic() - began
        return done.stdout

    run("environment", python, "-m", "venv", str(folder / "env"))
    pip = ("pip", "--disable-pip-version-check", "install", "--quiet")
    run("install", str(bin_ / "python"), "-m", *pip, str(wheel))
    run("index", str(bin_ / "sonde"), "index", ".")
    answer = run("search", str(bin_ / "sonde"), "search", "how are passwords stored", "--json")
    first = json.loads(answer)["results"][0]["path"]
    if first != "server/auth/passwords.py":
        sys.exit(f"{python}: the first result is {first}")
    return took


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 1:
            wheel = Path(sys.argv[1]).absolute()
        else:
            build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder]
            subprocess.run([*build, str(ROOT)], check=True, stdout=subprocess.DEVNULL)
            (wheel,) = Path(folder).glob("sonde-*.whl")
        pythons = find_pythons()
        for minor in MINORS:
            if minor not in pythons:
                print(f"python {minor}: not on this machine")
                continue
            place = Path(folder) / minor
            place.mkdir()
            took = try_wheel(pythons[minor], wheel, place)
            print(f"python {minor}: " + ", ".join(f"{k} {v:.1f} s" for k, v in took.items()))
            shutil.rmtree(place)


if __name__ == "__main__":
    main()
