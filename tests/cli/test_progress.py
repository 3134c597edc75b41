import io

import pytest

from sonde.cli.terminal import ProgressLine, Screen, describe_progress, display_width, draw_bar
from sonde.types import Progress


def test_a_line_tells_stage_share_rate_and_time_left() -> None:
    text = describe_progress(Progress("indexing", 450, 1000, rate=1234.4, eta_s=75))
    assert text.split("  ")[0] == "indexing"
    assert " 45%" in text
    assert "450/1,000" in text
    assert "1,234/s" in text
    assert "1m15s left" in text


def test_a_line_without_a_total_counts_only() -> None:
    assert describe_progress(Progress("walking", 1200)) == "walking  1,200"


@pytest.mark.parametrize("share", [0, 0.01, 0.333, 0.5, 0.999, 1])
def test_the_bar_is_always_as_wide_as_itself(share: float) -> None:
    assert display_width(draw_bar(share, 10)) == 12
    assert draw_bar(share, 10).count("█") == int(share * 10 + 0.06)


@pytest.mark.row("000-P51")
def test_a_terminal_sees_one_line_that_goes_away() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream, Screen(tty=True, width=40))
    line.show(Progress("indexing", 1, 1000, message="a very long message " * 5))
    line.show(Progress("indexing", 2, 1000))
    line.show(Progress("indexing", 1000, 1000))
    line.clear()
    drawn = stream.getvalue().split("\r\x1b[K")
    assert drawn[0] == ""
    assert drawn[-1] == ""
    assert len(drawn) == 4  # the second came too soon to be drawn
    assert all(display_width(text) < 40 for text in drawn)
    assert "\n" not in stream.getvalue()


def test_a_pipe_sees_nothing() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream, Screen())
    line.show(Progress("indexing", 1, 10))
    line.clear()
    assert stream.getvalue() == ""
