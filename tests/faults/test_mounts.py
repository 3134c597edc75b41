"""Indexing stays on the file system of the project; mounts in it are named, not entered."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import Any

import pytest

IN_A_MOUNT = """
set -e
mount -t tmpfs none "$1"
mkdir "$1/deep"
echo 'walrus = 1' > "$1/deep/other.py"
shift
exec "$@"
"""


def can_mount() -> bool:
    """Whether this process may mount in a name space of its own."""
    if not sys.platform.startswith("linux") or shutil.which("unshare") is None:
        return False
    done = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], check=False)
    return done.returncode == 0


@pytest.mark.skipif(not can_mount(), reason="mounting is not allowed here")
def test_a_mount_is_named_and_not_entered_unless_it_is_a_root(sonde: Any) -> None:
    place = sonde.project / "mounted"
    place.mkdir()
    sonde.prefix = ("unshare", "-m", "sh", "-c", IN_A_MOUNT, "sh", str(place))
    answer = sonde.ask("index", "--yes")
    assert answer["skipped"]["mount"] == 1
    examples = sonde.ask("status")["details"]["skippedExamples"]
    assert [(each["path"], each["reason"]) for each in examples] == [("mounted", "mount")]
    assert sonde.run("grep", "walrus").returncode == 1
    listed = sonde.run("grep", "--files").stdout.splitlines()
    assert listed
    assert not [path for path in listed if path.startswith("mounted")]
    assert sonde.ask("search", "walrus")["metadata"]["freshness"] == "complete"
    sonde.environ["SONDE_ROOTS"] = json.dumps([".", "mounted"])
    sonde.ask("index", "--yes")
    paths = [each["path"] for each in sonde.ask("search", "walrus")["results"]]
    assert "mounted/deep/other.py" in paths
