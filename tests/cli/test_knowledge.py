"""`sonde knowledge` from the outside."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path


def test_from_a_folder_of_notes_to_an_answer_and_back(shell, tmp_path: Path):
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "Walrus.md").write_text("# Walrus\n\nThe walrus sleeps on the ice. #arctic\n")
    done = shell.run("knowledge", "import", str(vault))
    assert (done.returncode, done.stdout) == (0, "✓ 1 added\n"), done.stderr
    found = json.loads(shell.run("knowledge", "search", "sleeping", "walruses", "--json").stdout)
    (row,) = found["results"]
    shown = shell.run("knowledge", "search", "walruses").stdout.splitlines()
    assert shown[1:] == ["  The walrus sleeps on the ice. #arctic"], "without its heading"
    assert (row["title"], row["tags"]) == ("Walrus", ["arctic"])
    read = shell.run("knowledge", "get", row["uri"])
    assert "sleeps on the ice" in read.stdout
    backup = tmp_path / "backup.jsonl"
    assert shell.run("knowledge", "export", str(backup)).returncode == 0
    assert shell.run("knowledge", "delete", row["uri"]).returncode == 2
    assert shell.run("knowledge", "delete", row["uri"], "--yes").returncode == 0
    assert shell.run("knowledge", "search", "walrus").returncode == 1
    assert shell.run("knowledge", "restore", str(backup)).returncode == 0
    assert shell.run("knowledge", "search", "walrus").returncode == 0


def test_the_same_text_in_two_files_is_shown_once_with_both_names(shell, tmp_path: Path):
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "walrus.md").write_text("# Ice\n\nThe walrus *sleeps* on the ice.\n")
    (vault / "copy.html").write_text("<h1>Ice</h1><p>The walrus sleeps on the ice.</p>")
    assert shell.run("knowledge", "import", str(vault)).returncode == 0
    shown = shell.run("knowledge", "search", "walrus").stdout
    assert len(shown.splitlines()) == 3, shown
    (row,) = json.loads(shell.run("knowledge", "search", "walrus", "--json").stdout)["results"]
    (other,) = row["duplicates"]
    assert f"also in: {other['file']} ({other['uri']})" in shown
    assert other["file"] in ("walrus.md", "copy.html")


def test_a_watched_folder_stays_in_step(shell, tmp_path: Path):
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "One.md").write_text("first walrus")
    command = [sys.executable, "-m", "sonde.cli.main", "knowledge", "import", str(vault), "--watch"]
    watcher = subprocess.Popen(command, env=shell.environ, stdout=subprocess.PIPE, text=True)
    try:
        assert watcher.stdout
        assert watcher.stdout.readline() == "✓ 1 added\n"
        (vault / "Two.md").write_text("second walrus")
        assert watcher.stdout.readline() == "✓ 1 added, 1 unchanged\n"
        (vault / "One.md").unlink()
        assert watcher.stdout.readline() == "✓ 1 removed, 1 unchanged\n"
        watcher.send_signal(signal.SIGINT)
        watcher.communicate(timeout=30)
        assert watcher.returncode == 0
    finally:
        watcher.kill()
        watcher.communicate()


def test_entries_are_written_and_changed_by_hand(shell):
    added = shell.run(
        "knowledge", "add", "buy fish", "--title", "Shopping", "--tags", "a,b", "--json"
    )
    uri = json.loads(added.stdout)["uri"]
    changed = shell.run("knowledge", "edit", uri, "buy herring", "--json")
    assert json.loads(changed.stdout) == {"status": "changed", "uri": uri, "version": 2}
    assert shell.run("knowledge", "get", uri).stdout == "Shopping\nbuy herring\n"
    missing = shell.run("knowledge", "get", "notes://nope")
    assert (missing.returncode, "There is no note" in missing.stderr) == (2, True)
    assert shell.run("knowledge", "get", "nonsense").returncode == 2
