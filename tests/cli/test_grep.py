"""`sonde grep` on what is piped in, and in folders that are no project."""

import os
import subprocess
from pathlib import Path

import pytest

from .conftest import PATIENCE_S, SONDE, Shell


def test_grep_works_in_any_folder_and_on_what_is_piped_in(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.txt").write_text("one\ntwo\n")
    assert shell.run("grep", "-n", "two", cwd=tmp_path / "plain").stdout == "a.txt:2:two\n"
    away = shell.run("grep", "two", str(tmp_path / "plain"))
    assert away.stdout == f"{tmp_path}/plain/a.txt:two\n"
    fed = shell.start("grep", "-n", "t.o").communicate("one\ntwo\n")
    assert fed == ("2:two\n", "")


def test_grep_prints_what_is_piped_in_as_it_comes(shell: Shell) -> None:
    with shell.start("grep", "-n", "needle") as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write("hay\na needle\nand a ")
        process.stdin.flush()
        assert process.stdout.readline() == "2:a needle\n"
        process.stdin.write("needle\nlast needle")
        process.stdin.close()
        assert process.stdout.read() == "3:and a needle\n4:last needle\n"


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("-n", "-m", "2"), "1:needle\n2:needle\n"),
        (("-c", "-m", "3"), "3\n"),
        (("-l",), "<stdin>\n"),
        (("--files-without-match",), ""),
        (("-v", "-m", "1", "hay"), "needle\n"),
    ],
)
def test_grep_reads_no_more_of_what_is_piped_in_than_it_needs(
    shell: Shell, options: tuple[str, ...], shown: str
) -> None:
    """The writer never ends; it has to be enough to stop reading."""
    pattern = () if "hay" in options else ("needle",)
    with subprocess.Popen(["yes", "needle"], stdout=subprocess.PIPE) as writer:
        done = subprocess.run(
            [*SONDE, "grep", *options, *pattern], stdin=writer.stdout, capture_output=True,
            text=True, cwd=shell.folder, env=shell.environ, timeout=PATIENCE_S,
        )  # fmt: skip
        assert writer.stdout
        writer.stdout.close()
    assert (done.stdout, done.returncode) == (shown, 0 if shown else 1)


def test_grep_counts_what_is_piped_in_as_rg_does(shell: Shell) -> None:
    """In pieces that end within lines."""
    text = "one needle, two needles\nhay\n" * 20_000 + "needle"
    for option, count in (("-c", 20_001), ("--count-matches", 40_001), ("-vc", 20_000)):
        assert shell.start("grep", option, "needle").communicate(text) == (f"{count}\n", "")


def test_grep_does_not_take_a_file_elsewhere_for_one_of_the_same_name(
    indexed: Shell, tmp_path: Path
) -> None:
    """The index knows the text of `src/cart.py` in the project, not of another."""
    other = tmp_path / "other" / "src" / "cart.py"
    other.parent.mkdir(parents=True)
    other.write_text("year = 1066\n")
    os.utime(other, (10**9, 10**9))
    os.utime(indexed.folder / "src" / "cart.py", (10**9, 10**9))
    assert indexed.run("index", "--yes").returncode == 0
    done = indexed.run("grep", r"\d{4}", ".", str(tmp_path / "other"))
    assert done.stdout == f"{other}:year = 1066\n"
