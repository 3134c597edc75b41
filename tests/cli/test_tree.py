import json

from .conftest import Shell


def test_tree_shows_what_takes_the_space(shell: Shell) -> None:
    big = shell.folder / "big"
    (big / "inner").mkdir(parents=True)
    (big / "inner" / "blob").write_bytes(b"x" * 300_000)
    shown = shell.run("tree", "-d", "3")
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0].split()[:2] == ["294", "KB"]
    assert lines[0].endswith("7 files")
    assert [line.split()[2] for line in lines[1:4]] == ["big/", "inner/", "blob"]
    assert "7 files" in shown.stderr
    assert "added" not in shown.stderr  # at first, everything is new
    again = shell.run("tree", "--json")
    told = json.loads(again.stdout)
    assert told["report"]["added"] == 0
    assert told["entries"][1]["name"] == "big"
    assert told["entries"][1]["sizeOnDisk"] >= 300_000


def test_tree_of_the_last_scan_and_of_nothing(shell: Shell) -> None:
    shell.run("tree")
    (shell.folder / "new").write_text("x")
    assert "new" not in shell.run("tree", "--no-scan", "-n", "50").stdout
    assert "new" in shell.run("tree", "-n", "50").stdout
    missing = shell.run("tree", "nowhere")
    assert missing.returncode == 2
    assert "no folder" in missing.stderr


def test_tree_finds_by_filter_and_reports(shell: Shell) -> None:
    (shell.folder / "copy.md").write_text((shell.folder / "docs" / "shipping.md").read_text())
    found = shell.run("tree", "--where", "ext:md not name:caf*")
    assert found.returncode == 0, found.stderr
    assert {line.split()[-1] for line in found.stdout.splitlines()} == {
        "copy.md", "docs/shipping.md",
    }  # fmt: skip
    assert "2 found" in found.stderr
    large = shell.run("tree", "--no-scan", "--where", "size>100").stdout.splitlines()
    assert {line.split()[-1] for line in large} == {"src/cart.py", "src/mail/send.py"}
    folders = shell.run("tree", "--no-scan", "--where", "size>100 kind:directory").stdout
    assert "src/mail/" in folders
    assert shell.run("tree", "--no-scan", "--where", "size>1GB").returncode == 1
    wrong = shell.run("tree", "--no-scan", "--where", "size>")
    assert wrong.returncode == 2
    assert "position 5" in wrong.stderr
    copies = shell.run("tree", "--report", "duplicates").stdout
    assert "2 x " in copies
    assert "docs/shipping.md" in copies
    assert ".md" in shell.run("tree", "--report", "by-extension").stdout
    assert json.loads(shell.run("tree", "--report", "largest", "-n", "2", "--json").stdout)["rows"]
    (shell.folder / "copy.md").write_text("x" * 50_000)
    grown = shell.run("tree", "--report", "growth", "--since", "0d")
    assert "+48.8 KB  copy.md" in grown.stdout
    newest = shell.run("tree", "--no-scan", "--report", "newest").stdout.splitlines()
    assert newest[0].endswith("copy.md")
    oldest = shell.run("tree", "--no-scan", "--report", "oldest").stdout.splitlines()
    assert oldest[-1].endswith("copy.md")
    by_age = shell.run("tree", "--no-scan", "--report", "by-age").stdout.splitlines()
    assert by_age[0].endswith("7 files  under a day")
    none = shell.run("tree", "--no-scan", "--report", "empty-folders")
    assert (none.returncode, none.stdout) == (1, "")


def test_a_terminal_sees_the_scan(shell: Shell) -> None:
    code, screen = shell.type("tree")
    assert code == 0
    assert "files" in screen
