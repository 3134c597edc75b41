import io
import re
from typing import Any

from sonde.cli.commands.index import render_projects
from sonde.cli.commands.search import Style, describe_search, render_search
from sonde.cli.grep.printing import Form, Part, Printer
from sonde.cli.terminal import Screen, display_width, render_facts
from sonde.searching.lines.grep import ByteLine
from sonde.text.highlight import find_query_words

RESULT: dict[str, Any] = {
    "path": "src/auth/login.py",
    "text": "def login(user):\n    check_password(user)\n    return token\n",
    "score": 0.91666,
    "startLine": 9,
    "endLine": 11,
    "symbol": "login",
}


def answer(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "results": list(results),
        "totalResults": len(results),
        "searchTimeMs": 4,
        "metadata": {},
        **more,
    }


def search(
    screen: Screen, result: dict[str, Any], query: str = "password", **look: Any
) -> list[str]:
    return list(render_search(answer(result), Style(screen, **look), find_query_words(query)))


def test_a_result_is_a_place_and_numbered_lines() -> None:
    assert search(Screen(), RESULT) == [
        "src/auth/login.py:9-11  login",
        "   9 │ def login(user):",
        "  10 │     check_password(user)",
        "  11 │     return token",
    ]


def test_a_heading_is_shown_as_it_reads() -> None:
    badge = "nvm [![Tests](https://ci.example/badge.svg)][3] > [Install](#install) > ``nvm use``\\s"
    assert search(Screen(), {**RESULT, "symbol": badge})[0] == (
        "src/auth/login.py:9-11  nvm > Install > nvm uses"
    )
    assert search(Screen(), {**RESULT, "symbol": r"App\Users.operator[]"})[0].endswith(
        r"  App\Users.operator[]"
    )


def test_a_line_that_the_query_names_is_among_those_shown() -> None:
    text = "".join(f"    step_{number}(password)\n" for number in range(60))
    find, rows = find_query_words("password"), answer({**RESULT, "text": text, "endLine": 68})
    for focus, first in ((9, 9), (40, 38), (68, 59)):
        shown = list(render_search(rows, Style(Screen()), find, focus))
        assert shown[1].startswith(f"  {first:>2} │")
        assert len(shown) == 12


def test_scores_and_reasons_are_shown_on_demand() -> None:
    lines = search(Screen(), {**RESULT, "why": {"lexical": 1.5, "dense": -0.25}}, scores=True)
    assert lines[0].endswith("login  0.917")
    assert [line.strip() for line in lines[-2:]] == [
        "+1.50  has the words of the question",
        "-0.25  is not so close in meaning",
    ]


def test_query_words_are_painted_and_the_paint_comes_off() -> None:
    colored = search(Screen(color=True), RESULT)
    assert "\x1b[1;31mpassword\x1b[0m" in colored[2]
    assert [re.sub("\x1b\\[[0-9;]*m", "", line) for line in colored] == search(Screen(), RESULT)


def test_code_lines_never_pass_the_width_unless_asked_to() -> None:
    long = {**RESULT, "text": "x = '" + "密" * 200 + "'"}
    assert all(display_width(line) <= 60 for line in search(Screen(width=60), long)[1:])
    assert search(Screen(width=60), long)[1].endswith("…")
    assert long["text"] in search(Screen(width=60), long, full=True)[1]
    assert long["text"] in search(Screen(), long)[1]


def test_a_long_snippet_shows_the_lines_that_answer_and_counts_the_rest() -> None:
    text = "\n".join(f"line {n}" for n in range(40)) + "\npassword\n" + "end\n" * 3
    result = {**RESULT, "text": text, "startLine": 1, "endLine": 44}
    lines = search(Screen(), result)
    assert any("password" in line for line in lines)
    assert lines[-1].strip() == "⋮ 34 more lines"
    assert len(lines) == 12
    assert len(search(Screen(), result, full=True)) == 45


def test_a_hostile_file_cannot_drive_the_terminal() -> None:
    hostile = {**RESULT, "path": "a\x1b]0;x\x07.py", "text": "\x1b[2Jgone\r\n", "symbol": "\x9b"}
    shown = "\n".join(search(Screen(tty=True, width=80), hostile))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\x9b" not in shown


def test_notes_tell_what_was_left_out_and_what_goes_on() -> None:
    going_on = {"freshness": "indexing, 3 of 5 files done"}
    notes = describe_search(answer(RESULT, truncated=True, metadata=going_on))
    assert notes[0] == "1 result in 4 ms"
    assert "--max-tokens" in notes[1]
    assert notes[2] == "indexing, 3 of 5 files done"
    assert describe_search(answer()) == ["0 results in 4 ms"]


def test_a_terminal_groups_matches_under_their_file_and_paints_them() -> None:
    out = io.BytesIO()
    printer = Printer(Form(heading=True), Screen(color=True, tty=True, width=80), out)
    line = ByteLine(3, 0, 7, ((0, 3),))
    for path in ("a.py", "b.py"):
        printer.print_file(path, [Part(b"hit \x1b\xc3\xa9", [line])], None)
    assert out.getvalue().decode().splitlines() == [
        "\x1b[35ma.py\x1b[0m",
        "\x1b[32m3\x1b[0m:\x1b[1;31mhit\x1b[0m \\x1bé",
        "",
        "\x1b[35mb.py\x1b[0m",
        "\x1b[32m3\x1b[0m:\x1b[1;31mhit\x1b[0m \\x1bé",
    ]


def test_facts_are_aligned_and_labelled() -> None:
    facts: dict[str, Any] = {"Total files": 12345, "Gone": None, "None": ()}
    facts |= {"Left out": ["a.bin", "\x1b.key"], "model-1": "2/2"}
    assert list(render_facts(facts, Screen())) == [
        "Total files  12,345",
        "Left out     a.bin",
        "             \\x1b.key",
        "model-1      2/2",
    ]


def test_projects_are_a_table() -> None:
    row = {"status": "ready", "totalChunks": 7, "lastUpdated": None, "storageSize": "1MB"}
    rows = [
        {**row, "projectPath": "/a", "totalFiles": 1},
        {**row, "projectPath": "/long/path", "totalFiles": 1200},
    ]
    head, first, second = render_projects({"projects": rows}, Screen(), now_s=0)
    assert head == "PROJECT     STATUS  FILES  CHUNKS  SIZE  UPDATED"
    assert first == "/a          ready       1       7   1MB  never"
    assert second == "/long/path  ready   1,200       7   1MB  never"
    assert list(render_projects({"projects": []}, Screen(), now_s=0)) == []
