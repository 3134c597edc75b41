"""`sonde push` and `sonde index --from`, as a person or a pipeline types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Shell
from tests.shared.conftest import Clone, run_git


@pytest.fixture
def shell(ci: Clone, tmp_path: Path) -> Shell:
    (tmp_path / "user").mkdir()
    return Shell(ci.root, tmp_path / "user", {"SONDE_EMBEDDING": "static"})


def test_from_ci_to_a_laptop(ci: Clone, shell: Shell, tmp_path: Path) -> None:
    run_git(ci.root, "remote", "add", "origin", "git@example.com:acme/shop.git")
    url = str(tmp_path / "shared")
    pushed = shell.run("push", url, "--json")
    assert pushed.returncode == 0, pushed.stderr
    report = json.loads(pushed.stdout)
    assert (report["repository"], report["branch"], report["files"]) == ("acme/shop", "main", 4)
    again = shell.run("push", url)
    assert "acme/shop main" in again.stdout
    assert "new: 0 files, 0 chunks, 0 vectors" in again.stdout
    listed = json.loads(shell.run("push", "--list", "--json", url).stdout)
    (branch,) = listed["branches"]
    assert (branch["repository"], branch["branch"]) == ("acme/shop", "main")
    shown = shell.run("push", "--list", url).stdout
    assert branch["commit"][:12] in shown
    laptop = tmp_path / "laptop"
    run_git(tmp_path, "clone", "-q", str(ci.root), str(laptop))
    run_git(laptop, "remote", "set-url", "origin", "https://example.com/acme/shop")
    (tmp_path / "other").mkdir()
    person = Shell(laptop, tmp_path / "other", shell.extra)
    indexed = person.run("index", "--from", url)
    assert indexed.returncode == 0, indexed.stderr
    assert f"started from acme/shop at {branch['commit'][:12]}" in indexed.stderr
    assert "orders.py" in person.run("search", "order total").stdout
    assert "removed: nothing" in shell.run("push", "--clean", url).stdout


def test_the_address_can_be_a_setting(shell: Shell, tmp_path: Path) -> None:
    assert "Which shared index?" in shell.run("push").stderr
    shell.extra["SONDE_SHARED_INDEX"] = str(tmp_path / "shared")
    assert shell.run("push").returncode == 0
    indexed = shell.run("index")
    assert "started from shop" in indexed.stderr


def test_what_goes_wrong_is_said(ci: Clone, shell: Shell, tmp_path: Path) -> None:
    (ci.root / "src" / "users.py").write_text("changed = 1\n")
    refused = shell.run("push", str(tmp_path / "shared"))
    assert refused.returncode == 2
    assert "src/users.py" in refused.stderr
    missing = shell.run("push", "--list", str(tmp_path / "empty"))
    assert (missing.returncode, "no shared index" in missing.stderr) == (2, True)
    indexed = shell.run("index", "--from", str(tmp_path / "nothing" / "there"))
    assert indexed.returncode == 0
    assert "indexed here, not from" in indexed.stderr
