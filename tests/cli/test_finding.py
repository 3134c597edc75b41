import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .conftest import SONDE, Shell
from .like_rg import RG, compare
from .test_picker import open_terminal

SEED = 3
CASES = int(os.environ.get("SONDE_GREP_CASES", "100"))


def test_a_search_prints_places_and_lines(indexed: Shell) -> None:
    done = indexed.run("search", "total", "price", "of", "the", "cart")
    assert done.returncode == 0
    first = done.stdout.splitlines()[0]
    assert first.startswith("src/cart.py:")
    assert "compute_total_price" in done.stdout
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stderr


def test_line_numbers_are_those_of_the_file(indexed: Shell) -> None:
    done = indexed.run("search", "send invoice", "--full")
    lines = (indexed.folder / "src/mail/send.py").read_text("utf-8").splitlines()
    shown = [line.split("│", 1) for line in done.stdout.splitlines() if "│" in line]
    checked = 0
    for number, text in shown:
        if "smtp" in text or "send_invoice" in text:
            assert lines[int(number) - 1] == text[1:]
            checked += 1
    assert checked >= 2


@pytest.mark.row("000-P47")
def test_json_is_the_verbs_answer(indexed: Shell) -> None:
    done = indexed.run("search", "send invoice", "--json", "--limit", "1")
    answer = json.loads(done.stdout)
    (result,) = answer["results"]
    assert result["path"] == "src/mail/send.py"
    assert {"path", "text", "score", "startLine", "endLine"} <= result.keys()
    assert {"totalResults", "searchTimeMs", "metadata"} <= answer.keys()
    assert done.stderr == ""


def test_what_a_query_names_or_spells_is_shown_first(indexed: Shell) -> None:
    def ask(query: str) -> tuple[int, dict[str, Any]]:
        done = indexed.run("search", "--json", query)
        return done.returncode, json.loads(done.stdout)

    code, answer = ask('File "src/mail/send.py", line 3, in send_invoice')
    first = answer["results"][0]
    assert (code, first["path"]) == (0, "src/mail/send.py")
    assert first["startLine"] <= 3 <= first["endLine"]

    code, answer = ask(r"def \w+_price\(")
    assert [row["startLine"] for row in answer["results"]] == [7]
    assert "regular expression" in answer["metadata"]["note"]

    code, answer = ask("docs/*.md")
    assert [row["path"] for row in answer["results"]] == ["docs/café.md", "docs/shipping.md"]

    code, answer = ask("compute_totl_prise")
    assert (code, answer["results"]) == (1, [])
    assert "Names like it: Cart.compute_total_price." in answer["metadata"]["note"]


def test_a_listed_path_is_printed_without_lines(indexed: Shell) -> None:
    done = indexed.run("search", "src/mail/*.py")
    assert done.stdout.splitlines() == ["src/mail/send.py:1"]
    assert "Read as a glob: 1 file." in done.stderr


def test_a_terminal_gets_colour_and_cut_lines(indexed: Shell) -> None:
    code, screen = indexed.type("search", "send invoice")
    assert code == 0
    assert "\x1b[1;31minvoice\x1b[0m" in screen
    assert "src/mail/send.py" in screen
    assert "result" in screen


def test_docs_are_searched_apart(indexed: Shell) -> None:
    done = indexed.run("search", "when do parcels leave", "--docs")
    assert done.stdout.startswith("docs/shipping.md")
    assert "src/" not in done.stdout


def test_the_path_is_read_from_where_one_stands(indexed: Shell) -> None:
    done = indexed.run("search", "invoice cart", "--path", ".", cwd=indexed.folder / "src/mail")
    places = [line for line in done.stdout.splitlines() if line and line[0] != " "]
    assert places
    assert all(place.startswith("send.py:") for place in places)


def test_a_path_outside_the_project_is_refused(indexed: Shell) -> None:
    done = indexed.run("search", "x", "--path", "..")
    assert done.returncode == 2
    assert "outside the project" in done.stderr


def test_scores_and_reasons_come_on_demand(indexed: Shell) -> None:
    plain = indexed.run("search", "invoice").stdout
    explained = indexed.run("search", "invoice", "--scores", "--explain").stdout
    assert len(explained) > len(plain)
    assert "defines a name that fits" in explained
    assert "_f1" not in explained


def test_what_is_not_held_is_said_before_a_few_doubtful_hits(indexed: Shell) -> None:
    done = indexed.run("search", "quantum walrus telescopes")
    places = [line for line in done.stdout.splitlines() if line and line[0] != " "]
    assert done.stderr.startswith("No exact match for: quantum, walrus, telescopes.")
    assert 0 < len(places) <= 3
    _, screen = indexed.type("search", "quantum walrus telescopes", "--color", "never")
    assert screen.index("No exact match") < screen.index("│")


def test_pages_follow_each_other_and_all_is_all_of_them(indexed: Shell) -> None:
    def rows(*args: str) -> list[dict[str, Any]]:
        done = indexed.run("search", "the", *args, "--json-lines")
        return [json.loads(line) for line in done.stdout.splitlines()]

    whole = rows("--all")
    assert len(whole) > 1
    assert rows("-n", "1") == whole[:1]
    assert rows("-n", "1", "--cursor", "1") == whole[1:2]


def test_open_starts_the_editor_at_the_first_result(indexed: Shell, tmp_path: Path) -> None:
    editor = tmp_path / "vim"
    editor.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/edited\n')
    editor.chmod(0o755)
    assert indexed.run("search", "send_invoice", "--open", EDITOR=str(editor)).returncode == 0
    assert (tmp_path / "edited").read_text() == "+1 src/mail/send.py\n"


def test_grep_says_what_it_left_out_and_how_to_search_it(shell: Shell) -> None:
    for name in ("vendor/a.py", "uv.lock", "notes.md"):
        (shell.folder / name).parent.mkdir(exist_ok=True)
        (shell.folder / name).write_text("needle\n")
    (shell.folder / "deploy.key").write_text("needle\n")
    done = shell.run("grep", "-l", "needle")
    assert done.stdout == "notes.md\n"
    assert "not searched: " in done.stderr
    assert "vendor/" in done.stderr
    assert "-u searches them" in done.stderr
    assert "1 file with secrets not read" in done.stderr
    assert shell.run("grep", "-ul", "needle").stdout == "notes.md\nuv.lock\nvendor/a.py\n"
    assert shell.run("grep", "-l", "needle", "vendor").stdout == "vendor/a.py\n"
    assert shell.run("grep", "needle", "-q", "-uu", "deploy.key").returncode == 2


def test_grep_says_it_left_out_what_rg_would_have_searched_with_the_same_options(
    shell: Shell,
) -> None:
    for name in (".venv/a.py", "uv.lock"):
        (shell.folder / name).parent.mkdir(exist_ok=True)
        (shell.folder / name).write_text("needle\n")
    assert ".venv" not in shell.run("grep", "needle").stderr
    assert "1 .venv/" in shell.run("grep", "--hidden", "needle").stderr
    assert ".lock" not in shell.run("grep", "needle", "-t", "python").stderr
    assert ".lock" not in shell.run("grep", "needle", "-g", "!*.lock").stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_grep_names_what_cannot_be_read_and_fails_as_rg_does(shell: Shell) -> None:
    (shell.folder / "shut").mkdir()
    for name in ("open.py", "locked.py", "shut/in.py"):
        (shell.folder / name).write_text("needle\n")
    for name in ("locked.py", "shut"):
        (shell.folder / name).chmod(0)
    done = shell.run("grep", "needle")
    (shell.folder / "shut").chmod(0o700)
    assert (done.returncode, done.stdout) == (2, "open.py:needle\n")
    assert "'locked.py' cannot be read: Permission denied" in done.stderr
    assert "'shut' cannot be read: Permission denied" in done.stderr


def test_a_long_answer_goes_through_the_pager(indexed: Shell, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\ncat > {tmp_path}/paged\n")
    pager.chmod(0o755)
    with open_terminal(indexed, "search", "cart", "-n", "5", rows=4, PAGER=str(pager)) as terminal:
        assert terminal.end() == 0
    assert "src/cart.py" in (tmp_path / "paged").read_text()


def test_all_projects_are_searched_from_anywhere(indexed: Shell, tmp_path: Path) -> None:
    done = indexed.run("search", "invoice", "--all-projects", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["results"][0]["path"] == "src/mail/send.py"


@pytest.mark.row("000-P47")
@pytest.mark.skipif(shutil.which("grep") is None, reason="compares with grep")
@pytest.mark.parametrize(
    "flags",
    [
        ["-n", "item"],
        ["-n", "-i", "CART"],
        ["-n", "-w", "item"],
        ["-n", "-F", "(item, quantity)"],
        ["-n", "-A", "1", "def "],
        ["-n", "-B", "2", "append"],
        ["-n", "-C", "1", "quantity"],
        ["-n", "-m", "1", "item"],
        ["-l", "invoice"],
        ["-n", "opens at"],
        ["-n", "no such thing anywhere"],
    ],
)
def test_grep_prints_what_grep_prints(indexed: Shell, flags: list[str]) -> None:
    ours = indexed.run("grep", *flags, "src", "docs")
    theirs = subprocess.run(
        ["grep", "-r", "-E", *flags, "src", "docs"]
        if "-F" not in flags
        else ["grep", "-r", *flags, "src", "docs"],
        cwd=indexed.folder,
        capture_output=True,
        text=True,
    )
    assert ours.returncode == theirs.returncode
    assert sorted(ours.stdout.splitlines()) == sorted(theirs.stdout.splitlines())


def test_grep_needs_no_index_and_reads_only_what_is_admitted(shell: Shell) -> None:
    (shell.folder / ".env").write_text("item=secret\n")
    done = shell.run("grep", "item", "-l")
    assert done.stdout == "src/cart.py\n"


@pytest.mark.skipif(RG is None, reason="compares with rg")
def test_grep_is_rg_in_lines_form_and_exit_code(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    assert list(compare(tmp_path, tmp_path / "home", seed=SEED, cases=CASES)) == []


def test_grep_counts_and_globs(indexed: Shell) -> None:
    assert indexed.run("grep", "-c", "invoice", "-g", "*.py").stdout == "src/mail/send.py:3\n"
    assert indexed.run("grep", "-l", "e", "-g", "!docs/**", "-t", "python").stdout == (
        "src/cart.py\nsrc/mail/send.py\n"
    )


def test_a_terminal_sees_matches_under_the_name_of_their_file(indexed: Shell) -> None:
    code, screen = indexed.type("grep", "append")
    assert code == 0
    assert "src/cart.py\x1b[0m" in screen
    assert f"\x1b]8;;{(indexed.folder / 'src/cart.py').as_uri()}\x1b\\" in screen
    assert "\x1b[1;31mappend\x1b[0m" in screen


def test_a_pattern_that_does_not_compile_is_an_error_with_its_place(indexed: Shell) -> None:
    done = indexed.run("grep", "(open", "--verbose")
    assert done.returncode == 2
    assert "'(open' is invalid" in done.stderr
    assert "INVALID_PATTERN" in done.stderr
    assert "Traceback" not in done.stderr


def test_documents_answer_where_no_code_has_the_words(indexed: Shell) -> None:
    done = indexed.run("search", "parcels", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0
    assert answer["results"][0]["path"] == "docs/shipping.md"
    assert "documents do" in answer["metadata"]["note"]
    code = json.loads(indexed.run("search", "parcels price", "--json").stdout)
    assert code["results"][0]["path"] == "src/cart.py"
    exact = json.loads(indexed.run("search", "parcels", "--json", "--mode", "lexical").stdout)
    assert exact["results"] == []


def test_files_are_found_by_glob_or_by_a_part_of_their_path(indexed: Shell) -> None:
    done = indexed.run("files", "**/*.py")
    assert done.stdout == "src/cart.py\nsrc/mail/send.py\n"
    nothing = indexed.run("files", "*.rs")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "no indexed path matches '*.rs'" in nothing.stderr
    assert indexed.run("files", "mail/se").stdout == "src/mail/send.py\n"
    assert json.loads(indexed.run("files", "docs/*", "--json").stdout)["totalMatches"] == 2


def test_nothing_found_is_one_and_an_error_is_two(indexed: Shell) -> None:
    assert indexed.run("grep", "nothing like this").returncode == 1
    assert indexed.run("search", "   ").returncode == 2
    assert indexed.run("search").returncode == 2


def test_a_reader_that_leaves_early_is_no_error(indexed: Shell) -> None:
    done = subprocess.run(
        [
            "bash",
            "-c",
            'set -o pipefail; "$@" | head -c 1',
            "-",
            *indexed_command("grep", "", "-q"),
        ],
        cwd=indexed.folder,
        env=indexed.environ,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert len(done.stdout) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_output_that_finds_no_space_is_a_clear_error(indexed: Shell) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            indexed_command("search", "invoice"), stdout=full, stderr=subprocess.PIPE, text=True,
            cwd=indexed.folder, env=indexed.environ,
        )  # fmt: skip
    assert done.returncode == 2
    assert "The output could not be written: no space left on the device." in done.stderr


def indexed_command(*args: str) -> list[str]:
    return [*SONDE, *args]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("grep", "invoice", "nosuch"), "There is no file or folder 'nosuch'."),
        (("search", "invoice", "--path", "nosuch"), "There is no file or folder 'nosuch'."),
        (("grep", "invoice", "-t", "klingon"), "There is no language 'klingon'."),
        (("files", "src/["), "never closed, opened at position 4"),
    ],
)
def test_what_is_not_there_is_told_instead_of_finding_nothing(
    indexed: Shell, args: tuple[str, ...], told: str
) -> None:
    done = indexed.run(*args)
    assert done.returncode == 2
    assert told in done.stderr


def test_a_path_may_be_relative_to_a_project_that_lies_elsewhere(
    indexed: Shell, tmp_path: Path
) -> None:
    project = str(indexed.folder)
    done = indexed.run("grep", "-l", "send", "src/mail", "-p", project, cwd=tmp_path)
    assert done.stdout.strip().endswith("src/mail/send.py")


@pytest.mark.row("000-P49")
def test_a_number_of_results_is_that_many_whatever_the_budget(shell: Shell) -> None:
    for number in range(40):
        (shell.folder / f"w{number:02}.py").write_text(
            f"def walrus_{number}():\n" + "    # a long body of a function\n" * 20
        )
    assert shell.run("index", "--yes", SONDE_EMBEDDING="static").returncode == 0
    command = ("--json", "search", "walrus", "-n", "40")
    answer = json.loads(shell.run(*command, SONDE_EMBEDDING="static").stdout)
    assert len(answer["results"]) == answer["totalResults"] == 40
    assert len({row["path"] for row in answer["results"]}) == 40
    assert not answer.keys() & {"nextCursor", "truncated"}
    cut = json.loads(shell.run(*command, "--max-tokens", "1000", SONDE_EMBEDDING="static").stdout)
    assert len(cut["results"]) < 40
    assert cut["truncated"]
