"""`sonde push` and `sonde index --from`, as a person or a pipeline types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import SONDE, Shell
from tests.loopback import running
from tests.shared.conftest import Clone, run_git
from tests.shared.object_store import BUCKET, ObjectStore
from tests.waiting import wait_until
from tests.web.conftest import Server


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


def test_an_audit_log_that_cannot_be_written_is_named(shell: Shell, tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none" / "log", "No such file"), (tmp_path, "a directory")):
        done = shell.run("serve", "--no-browser", "--port", "0", "--audit-log", str(path))
        assert done.returncode == 2
        assert f"The audit log '{path}' cannot be written: " in done.stderr
        assert reason in done.stderr


def test_a_server_starts_before_its_index_but_not_with_wrong_credentials(
    ci: Clone, shell: Shell, tmp_path: Path
) -> None:
    url = f"s3://{BUCKET}/index"
    serve = ("serve", "--no-browser", "--port", "0", "--json", "--from", url, "--cache")
    with running(ObjectStore()) as store:
        shell.extra |= store.environ
        refused = shell.run(*serve, str(tmp_path / "one"), AWS_ACCESS_KEY_ID="wrong")
        assert (refused.returncode, "refused the credentials" in refused.stdout) == (2, True)
        missing = shell.run("push", "s3://other/index")
        assert (missing.returncode, "no bucket" in missing.stderr) == (2, True)
        server = Server([*SONDE, *serve, str(tmp_path / "two")], cwd=ci.root, env=shell.environ)
        try:
            assert server.ask("/readyz")[0] == 503
            assert shell.run("push", url).returncode == 0
            wait_until(lambda: server.ask("/readyz")[0] == 200, "the index is found")
        finally:
            server.process.kill()
            server.process.communicate()
