"""A tracer sees every file that is opened; none of those that are denied is among them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DENIED = (
    ".env", ".ENV", "conf/.env.production", "certs/server.pem", "certs/a.key", "id_rsa",
    ".e\u200bnv", "node_modules/x/index.js", ".git/config", "vendor/lib.go", "dist/app.js",
    "debug.log", "yarn.lock", ".aws/credentials", "link.txt", "linked/outside.txt", "photo.png",
)  # fmt: skip
ADMITTED = ("src/a.py", "README.md", "src/deep/b.ts", ".gitignore")
WALK_AND_READ = """
import sys
from pathlib import Path
from sonde.policy.admit import Rules, Source
from sonde.policy.read import FileReader
from sonde.policy.walk import check_path, walk_files
from sonde.types import ListedFile
root = Path(sys.argv[1])
reader = FileReader(Source("", root, Rules()))
for found in walk_files(root, Rules()):
    reader.read(found.path)
for path in sys.argv[2:]:
    check_path(root, path, Rules())
    reader.read(path)
"""


def make_tree(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir(parents=True)
    (outside / "outside.txt").write_text("outside")
    for path in (*DENIED, *ADMITTED):
        place = root / path
        if path.startswith("link"):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("a = 1\n")
    (root / "link.txt").symlink_to(outside / "outside.txt")
    (root / "linked").symlink_to(outside)


def list_opened(command: list[str], folder: Path) -> set[str]:
    """Full paths of everything that the command and its children opened below `folder`."""
    log = folder.parent / "trace.log"
    calls = "trace=open,openat,openat2"
    tracer = ["strace", "--seccomp-bpf", "-f", "-y", "-s", "4096", "-e", calls, "-o", log]
    done = subprocess.run([*tracer, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # With -y the call ends in "= 3</full/path>", so relative opens are told apart too.
    opened = re.findall(r"= \d+<(.*)>$", log.read_text(), re.MULTILINE)
    paths = {path.encode("latin-1", "ignore").decode("unicode_escape") for path in opened}
    paths = {path.encode("latin-1", "ignore").decode("utf-8", "replace") for path in paths}
    return {path for path in paths if path.startswith(f"{folder.resolve()}{os.sep}")}


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    """A tree to be traced over, where there is a tracer."""
    if not sys.platform.startswith("linux"):
        pytest.skip("strace is Linux only")
    if shutil.which("strace") is None:
        assert not os.environ.get("CI"), "this test needs strace: apt-get install strace"
        pytest.skip("strace is not installed")
    root = tmp_path / "home" / "proj"
    root.mkdir(parents=True)
    make_tree(root)
    return root


def test_walking_and_reading_open_nothing_that_is_denied(traced: Path) -> None:
    command = [sys.executable, "-c", WALK_AND_READ, str(traced), *DENIED]
    opened = list_opened(command, traced.parent)
    root = traced.resolve()
    files = {path for path in opened if Path(path).is_file()}
    assert files == {str(root / path) for path in ADMITTED}
    folders = {os.path.relpath(path, root) for path in opened if Path(path).is_dir()}
    assert folders <= {".", "src", "src/deep", "certs", "conf"}


def test_the_tracer_would_see_a_denied_file(traced: Path) -> None:
    peek = "import os, sys; os.chdir(sys.argv[1]); [open(p).close() for p in sys.argv[2:]]"
    command = [sys.executable, "-c", peek, str(traced), ".env", ".e\u200bnv"]
    opened = list_opened(command, traced)
    assert opened == {str(traced.resolve() / name) for name in (".env", ".e\u200bnv")}
