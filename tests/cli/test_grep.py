"""`sonde grep` on what is piped in, and in folders that are no project."""

import os
import re
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
        (("-n", "-m", "1", "-A", "1"), "1:needle\n2:needle\n"),
        (("-n", "-m", "2", "-C", "1", "-o"), "1:needle\n2:needle\n3:needle\n"),
        (("--heading", "-H", "-m", "1"), "<stdin>\nneedle\n"),
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


@pytest.mark.parametrize(
    "options",
    [
        ("-n", "-C", "2"),
        ("-n", "-A", "700", "-m", "5"),
        ("-B", "900", "-v", "hay"),
        ("-n", "--heading", "-o"),
        ("--json", "-C", "1"),
        ("--json", "-m", "7"),
        ("--stats",),
        ("--files-without-match", "nowhere"),
        ("-n", "-U", r"é\s+last .* 7"),
    ],
    ids=" ".join,
)
def test_what_is_piped_in_is_printed_as_a_file_is(
    shell: Shell, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """In pieces that end within lines, between matches and before their context."""
    lines = [f"{'needle' if n % 1013 < 3 else 'hay'} {n} {'é' * (n % 90)}" for n in range(9_000)]
    (tmp_path / "<stdin>").write_text("\n".join([*lines, "last needle 7"]))
    pattern = () if options[-1] in ("hay", "nowhere") or "-U" in options else ("needle",)
    named = shell.run("grep", "-uu", *options, *pattern, "<stdin>", cwd=tmp_path)
    with (tmp_path / "<stdin>").open() as source:
        piped = subprocess.run(
            [*SONDE, "grep", *options, *pattern, "-"], stdin=source, capture_output=True,
            text=True, cwd=shell.folder, env=shell.environ, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    shown, expected = (_leave_out_times(each.stdout) for each in (piped, named))
    assert shown == expected != ""
    assert (piped.returncode, named.returncode) == (0, 0)


@pytest.mark.parametrize("options", [("-n",), ("-n", "-U")], ids=" ".join)
def test_an_empty_file_has_no_line_that_matches(
    shell: Shell, tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "empty.txt").touch()
    done = shell.run("grep", "-uu", *options, r"^\s*$", "empty.txt", cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("", 1)


def _leave_out_times(text: str) -> str:
    text = re.sub(r'"elapsed\w*":\{[^}]*\}|[\d.]+ seconds', "", text)
    return re.sub(r'("bytes_searched":|(?=\d+ bytes searched))\d+', "", text)


def test_what_is_held_of_what_is_piped_in_is_bounded(shell: Shell) -> None:
    """A line that never ends, and what -U has to see as a whole."""
    for options in (("needle",), ("-U", "needle\\n")):
        with subprocess.Popen(
            ["yes" if "-U" in options else "cat", "/dev/zero"], stdout=subprocess.PIPE
        ) as writer:
            done = subprocess.run(
                [*SONDE, "grep", *options], stdin=writer.stdout, capture_output=True,
                text=True, cwd=shell.folder, env=shell.environ, timeout=PATIENCE_S, check=False,
            )  # fmt: skip
            writer.kill()
        assert done.returncode == 2
        assert "256 MB" in done.stderr


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
