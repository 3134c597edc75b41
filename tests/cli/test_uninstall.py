"""`sonde uninstall`, and what an older and a newer version do to each other's indexes."""

import json
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from .conftest import Shell


def list_home(shell: Shell) -> set[Path]:
    return {path for path in shell.home.rglob("*") if ".cache" not in path.parts}


@pytest.fixture
def furnished(shell: Shell) -> Shell:
    """An index, an agent with entry, skill and guide, a hook, a note, and a stranger's file."""
    (shell.home / ".codex").mkdir(parents=True)
    (shell.home / ".codex/config.toml").write_text('model = "x"  # mine\n')
    shell.extra["SONDE_EMBEDDING"] = "none"
    subprocess.run(["git", "init", "-q"], cwd=shell.folder, check=True)
    for args in (
        ("index", "--yes"),
        ("setup", "codex", "--guide", "--yes"),
        ("strategy", "git", "--hook"),
        ("knowledge", "add", "--title", "T", "remember the milk"),
    ):
        done = shell.run(*args)
        assert done.returncode == 0, (args, done.stderr)
    (shell.home / ".mcp/search/mine.txt").write_text("not sonde's")
    return shell


def test_everything_is_listed_and_only_then_removed(furnished: Shell) -> None:
    storage, hook = furnished.home / ".mcp/search", furnished.folder / ".git/hooks/post-commit"
    before = list_home(furnished)
    done = furnished.run("uninstall", "--dry-run")
    assert done.returncode == 0
    for text in ("config.toml", "SKILL.md", "AGENTS.md", f"index of {furnished.folder}"):
        assert text in done.stdout
    assert "post-commit hook" in done.stdout
    assert "--all deletes it too" in done.stdout
    refused = furnished.run("uninstall")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    code, _ = furnished.type("uninstall", answers=(("Go on?", "n"),))
    assert code == 2
    assert list_home(furnished) == before
    assert hook.exists()

    done = furnished.run("uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    assert "the tool that installed it" in done.stderr
    assert (furnished.home / ".codex/config.toml").read_text() == 'model = "x"  # mine\n'
    assert not (furnished.home / ".agents").exists()
    assert not (furnished.home / ".codex/AGENTS.md").exists()
    assert not hook.exists()
    assert {path.name for path in storage.iterdir()} == {"mine.txt", "knowledge"}

    done = furnished.run("uninstall", "--yes", "--all", "--json")
    assert [Path(row["file"]).name for row in json.loads(done.stdout)["removed"]] == ["knowledge"]
    assert {path.name for path in storage.iterdir()} == {"mine.txt"}
    assert furnished.run("uninstall", "--yes").returncode == 1


def test_an_index_in_use_is_not_pulled_away(shell: Shell) -> None:
    shell.extra["SONDE_EMBEDDING"] = "none"
    assert shell.run("index", "--yes").returncode == 0
    (folder,) = (shell.home / ".mcp/search/indexes").iterdir()
    hold = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(folder / "writer.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        done = shell.run("uninstall", "--yes")
        assert (done.returncode, "sonde is running" in done.stderr) == (2, True)
        assert (folder / "index.db").exists()
        holder.communicate()
    assert shell.run("uninstall", "--yes").returncode == 0
    assert not folder.exists()


def change_format(folder: Path, change: int, statement: str = "SELECT 1") -> int:
    """The format of an index, changed as another version would have written it."""
    db = apsw.Connection(str(folder / "index.db"))
    found: int = db.pragma("user_version")
    db.execute(statement)
    db.pragma("user_version", found + change)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return found


def test_an_older_version_leaves_a_newer_index_alone(shell: Shell) -> None:
    shell.extra["SONDE_EMBEDDING"] = "none"
    assert shell.run("index", "--yes").returncode == 0
    (folder,) = (shell.home / ".mcp/search/indexes").iterdir()
    current = change_format(folder, +1)
    for args in (("search", "invoice"), ("index", "--yes")):
        done = shell.run(*args)
        assert done.returncode == 2
        assert "newer version" in done.stderr
    assert change_format(folder, 0) == current + 1
    assert shell.run("grep", "-l", "invoice").stdout == "src/mail/send.py\n"


def test_a_newer_version_upgrades_an_older_index_in_place(shell: Shell) -> None:
    shell.extra["SONDE_EMBEDDING"] = "none"
    assert shell.run("index", "--yes").returncode == 0
    (folder,) = (shell.home / ".mcp/search/indexes").iterdir()
    current = change_format(folder, -3, "ALTER TABLE files DROP COLUMN stamp")
    done = shell.run("search", "invoice", "--json")
    assert json.loads(done.stdout)["results"][0]["path"] == "src/mail/send.py"
    assert change_format(folder, 0) == current
