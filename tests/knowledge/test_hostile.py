"""Files made to hurt a parser: long lines, deep nesting; each is read or refused in good time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sonde.knowledge.formats.reading import File, Refused
from sonde.knowledge.worker import Parsers

SIZE = 100_000
PARTS = (
    "[", "[[", "![", "![[a", "[[a|", "#", "#a", "#1", "`", "```\n", "~~~a\n", "<", "<v ", "<v.a ",
    "<b>", "<!--", "</", "&", "{\\", "1", "1:", "1:2", "00:00", "-->", "0,0 -->", "a:: b\n", "- ",
    "---\n", " ", "\t", "\n", "\r", "a", "é", "\u202e", "😀", "(", "](", ",", ";", "From ",
    "From a\n", "a: b\n", "[1/1/24, 1:1] ", "Subject: x\n", "\\", '"', "{", "{}", "%", "\x1b[",
)  # fmt: skip
NAMES = (
    "a.md", "a.txt", "a.srt", "a.vtt", "a.html", "a.eml", "a.mbox", "a.csv", "a.yaml", "a.json",
    "a.jsonl", "a.enex", "a",
)  # fmt: skip
LIMIT_S = 10.0


@pytest.fixture(scope="module")
def parsers() -> Iterator[Parsers]:
    made = Parsers(seconds=LIMIT_S)
    yield made
    made.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_line_of_anything_is_read_or_refused_in_good_time(parsers, name):
    problems = []
    for part in PARTS:
        text = part * (SIZE // len(part))
        if name == "a.srt":
            text = f"1\n00:00:01,000 --> 00:00:02,000\n{text}\n"
        began = time.monotonic()
        try:
            parsers.parse(File(name, text.encode(), 1))
        except Refused as error:
            problems += [(part, error.reason)] * (error.reason in ("too_slow", "crashed"))
        if time.monotonic() - began > LIMIT_S / 2:
            problems.append((part, "slow"))
    assert not problems
