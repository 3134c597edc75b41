import io
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.drawing import ANY, draw_text

from sonde.cli.session import ask_root
from sonde.cli.terminal import (
    Console,
    Screen,
    cut_line,
    display_width,
    escape_controls,
    open_screen,
    prepare_line,
)
from sonde.errors import ProjectNotDetected

TEXT = draw_text(ANY, 120)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def strip_color(text: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", text)


@pytest.mark.parametrize(
    ("stream", "choice", "environ", "expected"),
    [
        (Terminal(), "auto", {}, True),
        (Terminal(), "auto", {"NO_COLOR": "1"}, False),
        (Terminal(), "auto", {"NO_COLOR": ""}, True),
        (Terminal(), "auto", {"TERM": "dumb"}, False),
        (Terminal(), "never", {}, False),
        (Terminal(), "always", {"NO_COLOR": "1"}, True),
        (io.StringIO(), "auto", {}, False),
        (io.StringIO(), "always", {}, True),
    ],
)
def test_colour_is_for_terminals_and_for_those_who_ask(
    stream: io.StringIO, choice: str, environ: dict[str, str], expected: bool
) -> None:
    assert open_screen(stream, choice, environ).color is expected  # type: ignore[arg-type]


def test_the_width_is_that_of_columns_and_a_pipe_has_none() -> None:
    assert open_screen(io.StringIO(), "auto", {}).width is None
    assert open_screen(io.StringIO(), "auto", {"COLUMNS": "77"}).width == 77
    assert open_screen(Terminal(), "auto", {"COLUMNS": "3"}).width == 20
    assert open_screen(Terminal(), "auto", {"COLUMNS": "9" * 5000}).width == 80


@given(TEXT)
def test_no_text_can_drive_the_terminal(text: str) -> None:
    shown = escape_controls(text)
    controls = [char for char in shown if unicodedata.category(char) == "Cc" and char != "\t"]
    assert controls == []
    assert not set("\u202e\u2066\u202a") & set(shown)


def test_control_characters_are_shown_as_what_they_are() -> None:
    assert escape_controls("a\x1b[2Jb\nc") == "a\\x1b[2Jb\\x0ac"


@given(TEXT, st.integers(20, 100))
def test_a_cut_line_fits_and_says_that_it_was_cut(text: str, width: int) -> None:
    cut = cut_line(text, width)
    assert display_width(cut) <= width
    if cut != text:
        assert cut.endswith("…")
        assert text.startswith(cut[:-1])


def test_wide_characters_count_twice_and_accents_not_at_all() -> None:
    assert display_width("检索") == 4
    assert display_width("e\u0301") == 1
    assert cut_line("检索代码", 5) == "检索…"


@given(TEXT, st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=5))
def test_marking_adds_colour_and_nothing_else(text: str, spans: list[tuple[int, int]]) -> None:
    plain = escape_controls(text)
    assert strip_color(Screen(color=True).mark(plain, spans)) == plain
    assert Screen().mark(plain, spans) == plain


def test_marks_follow_their_text_through_tabs_and_escapes() -> None:
    shown, spans = prepare_line("\tfoo\x07bar", [(1, 4), (5, 8)])
    assert [shown[a:b] for a, b in spans] == ["foo", "bar"]
    assert shown == "    foo\\x07bar"


def answer(*lines: str) -> Console:
    """A console at which somebody types these lines."""
    return Console(Terminal("\n".join(lines) + "\n"), Terminal(), Terminal(), {})


@pytest.mark.parametrize(
    ("typed", "agreed"), [("y", True), ("Yes", True), ("", False), ("no", False), ("yess", False)]
)
def test_anything_but_yes_is_no(typed: str, agreed: bool) -> None:
    assert answer(typed).ask_yes("Write this?") is agreed


def test_the_root_is_the_current_folder_or_a_typed_one(tmp_path: Path) -> None:
    assert ask_root(answer("1"), tmp_path) == tmp_path
    assert ask_root(answer("2", "/srv/app"), tmp_path) == Path("/srv/app")
    for console in (answer("3"), answer("2", "")):
        with pytest.raises(ProjectNotDetected):
            ask_root(console, tmp_path)
