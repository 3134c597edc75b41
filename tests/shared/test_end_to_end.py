"""From CI to a laptop and a server, by the commands that people type."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.shared.conftest import FILES, run_git
from tests.shared.team import SONDE, Team
from tests.trees import write_files
from tests.users.site import User


def run(place: Path, home: Path, *words: str) -> Any:
    home.mkdir(exist_ok=True)
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "SONDE_EMBEDDING": "static"}
    done = subprocess.run([*SONDE, "--json", *words], cwd=place, env=environ, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_what_ci_pushes_is_found_on_a_laptop_and_on_a_server(tmp_path: Path) -> None:
    ci, laptop, index = tmp_path / "ci", tmp_path / "laptop", tmp_path / "shared-index"
    write_files(ci, FILES)
    run_git(ci, "init", "-q", "-b", "main")
    run_git(ci, "remote", "add", "origin", "https://git.example/acme/shop.git")
    run_git(ci, "add", "-A")
    run_git(ci, "commit", "-qm", "first")
    run(ci, tmp_path / "ci-home", "push", str(index))
    subprocess.run(["git", "clone", "-q", str(ci), str(laptop)], check=True)
    run_git(laptop, "remote", "set-url", "origin", "https://git.example/acme/shop.git")
    write_files(laptop, {"src/local.py": "def only_here():\n    return 'an order'\n"})
    run(laptop, tmp_path / "laptop-home", "index", "--from", str(index), "--yes")
    found = run(laptop, tmp_path / "laptop-home", "search", "order")
    team = Team(tmp_path, index)
    team.access.write_text('all = ["acme/*"]\n')
    anna = User(team.serve("server"), "a" * 24)
    try:
        _, there = anna.ask("/api/search/code?query=order&project=acme/shop")
        paths = [row["path"] for row in there["results"]]
        assert paths[0] == "src/orders.py"
        mine = [row["path"] for row in found["results"]]
        assert [path for path in mine if path != "src/local.py"] == paths
        assert "src/local.py" in mine
    finally:
        team.servers[0].process.kill()
        team.servers[0].process.communicate()
