"""Sizes, counts, durations and ages as text."""

from datetime import UTC, datetime

import pytest

from sonde.text.formats import (
    SizeStyle,
    count_of,
    format_age,
    format_bytes,
    format_moment,
    format_seconds,
    read_time,
    show_time,
)


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("words", ["0 bytes", "1023 bytes", "1.5 KB", "200 KB", "5.0 GB", "1.0 TB"]),
        ("compact", ["0B", "1023B", "1.5KB", "200KB", "5.0GB", "1024GB"]),
        ("iec", ["0 B", "1023 B", "1.5 KiB", "200 KiB", "5.0 GiB", "1.0 TiB"]),
        ("si", ["0 B", "1.0 kB", "1.5 kB", "205 kB", "5.4 GB", "1.1 TB"]),
    ],
)
def test_a_size_is_in_the_largest_unit_it_fills(style: SizeStyle, expected: list[str]) -> None:
    sizes = (0, 1023, 1536, 200 * 1024, 5 * 1024**3, 1024**4)
    assert [format_bytes(size, style) for size in sizes] == expected


def test_a_size_beyond_the_last_unit_stays_in_it() -> None:
    assert format_bytes(5 * 1024**7, "iec") == "5120 EiB"


def test_a_count_has_its_noun_in_singular_or_plural() -> None:
    assert [count_of(n, "file") for n in (0, 1, 2000)] == ["0 files", "1 file", "2,000 files"]
    assert [count_of(n, "entry") for n in (1, 2)] == ["1 entry", "2 entries"]
    assert count_of(2, "day") == "2 days"


@pytest.mark.parametrize(
    "text",
    ["20240301", "202403010000", "20240301000000", "20240301T000000Z", "2024-03-01", "1709251200",
     "1709251200000"],
)  # fmt: skip
def test_times_are_read_in_many_formats(text: str) -> None:
    assert show_time(read_time(text)) == "2024-03-01T00:00:00Z"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0s"),
        (1.26, "1.3s"),
        (9.97, "10s"),
        (59.7, "1m00s"),
        (185, "3m05s"),
        (7800, "2h10m"),
    ],
)
def test_a_duration_is_in_hours_minutes_and_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_a_duration_can_be_in_seconds_only() -> None:
    assert [format_seconds(s, minutes=False) for s in (0.4, 185)] == ["0.4s", "185s"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "just now"),
        (9, "just now"),
        (45, "45 s ago"),
        (300, "5 min ago"),
        (7200, "2 h ago"),
        (3 * 86_400, "3 d ago"),
        (90 * 86_400, "3 mo ago"),
        (720 * 86_400, "2 y ago"),
    ],
)
def test_an_age_is_in_its_largest_unit(seconds: float, text: str) -> None:
    assert format_age(seconds) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-01-10T12:00:00Z", "just now"),
        ("2026-01-10T11:58:00Z", "2 minutes ago"),
        ("2026-01-10T11:00:00Z", "1 hour ago"),
        ("2026-01-03T12:00:00Z", "1 week ago"),
        ("2025-01-01T12:00:00Z", "1 year ago"),
        ("2026-01-11T00:00:00Z", "in 12 hours"),
        (None, "never"),
        ("soon", "soon"),
    ],
)
def test_moments_are_said_as_people_say_them(text: str | None, shown: str) -> None:
    now = datetime(2026, 1, 10, 12, tzinfo=UTC).timestamp()
    assert format_moment(text, now) == shown
