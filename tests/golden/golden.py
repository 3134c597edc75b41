"""What sonde does today, written down: the texts under this folder and how they are compared.

`check` compares a text with its file. To accept what changed, run the test once with
SONDE_WRITE_GOLDEN=1 and read the diff like any other change.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
WRITES = os.environ.get("SONDE_WRITE_GOLDEN") == "1"
MOST_SHOWN = 200
"""Lines of a difference."""

_VARYING = (
    (r"\b(?!2023-11-14)\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?", "<time>"),
    (r"(?<=indexes/)[0-9a-f]{32}\b", "<project>"),
    (r'("(?:nextCursor|next_cursor)": )"[^"]+"', r'\1"<cursor>"'),
    (r'("cursor": )"[\w.-]{20,}"', r'\1"<cursor>"'),
    (r"(?<=[?&]cursor=)[\w.-]+", "<cursor>"),
    (r"\b[\w-]{14}\.[\w-]{22}(?=['\"])", "<token>"),
    (r"(?<=127\.0\.0\.1:)\d+", "<port>"),
    (r"\b\d+(\.\d+)?( ?ms|s)\b(?! ago)", "<duration>"),
    (r'("(?:searchTimeMs|seconds|sizeOnDisk|bytes|\w*_ms|\w*DurationMs)": )[\d.]+', r"\1<number>"),
    (r'("storageSize": )"[^"]+"', r'\1"<size>"'),
    (r"(?m)^((?:Size|Bytes) +).+", r"\1<size>"),
    (r"\bjust now\b|\b\d+ (?:second|minute|hour)s? ago\b", "<age>"),
    (r"(?m)^(?:PROJECT|JOB) .*|^.*<age>.*$", lambda found: re.sub("   +", "  ", found[0])),
    (r"\b\d+[KM]B +(?=<age>)", "<size>  "),
)
_HANDLES = (
    ("index", r'(?:"index(?:Id|_id)": "|"node(?:Id|_id)": "|//indexes/)([0-9a-z]{8})\b'),
    ("job", r'(?:"job(?:Id|_id)": "|^|//jobs/)([0-9a-z]{12})\b(?="|  |/)'),
    ("session", r'"session(?:Id|_id)": "([0-9a-z-]{12,})"'),
    ("set", r'(?:"(?:selectionId|selection_id|other)": "|//resource-sets/)([0-9a-z]{12})\b'),
    ("query", r'(?:"query(?:Id|_id)": "|//queries/)([0-9a-z]{12})\b'),
    ("id", r"\b([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b"),
)
"""Random names of things: in answers, in links, in tables of jobs."""


def mask(text: str, places: Mapping[str, str] | None = None) -> str:
    """The text without what differs from run to run: `places`, times, sizes and random names.

    The time that `age_files` gives to files is kept.
    """
    for varying in sorted(places or {}, key=len, reverse=True):
        text = text.replace(varying, f"<{(places or {})[varying]}>")
    for pattern, name in _VARYING:
        text = re.sub(pattern, name, text)
    for name, pattern in _HANDLES:
        found = dict.fromkeys(re.findall(pattern, text, re.MULTILINE))
        for number, one in enumerate(found, 1):
            text = text.replace(one, f"<{name} {number}>")
    return text


def show_json(value: Any) -> str:
    """A value as lines that can be compared."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def check(name: str, text: str) -> None:
    """Fail if the text is not the one in the file of that name."""
    check_all({name: text})


def check_all(texts: Mapping[str, str]) -> None:
    """The same for many at once, so that one run shows all that changed."""
    if WRITES:
        for name, text in texts.items():
            (HERE / name).parent.mkdir(parents=True, exist_ok=True)
            (HERE / name).write_bytes(text.encode())
        return
    lines = [line for name, text in texts.items() for line in _compare(name, text)]
    if lines:
        left = len(lines) - MOST_SHOWN
        more = [f"... {left} more lines"] if left > 0 else []
        told = "\n".join([*lines[:MOST_SHOWN], *more])
        pytest.fail(f"{told}\n\nTo accept it: SONDE_WRITE_GOLDEN=1 pytest {HERE}", pytrace=False)


def check_names(folder: str, names: Iterable[str]) -> None:
    """Fail if a file of the folder belongs to nothing any more."""
    left = {path.name for path in (HERE / folder).iterdir()} - set(names)
    if WRITES:
        for name in left:
            (HERE / folder / name).unlink()
    else:
        assert not left, f"nothing writes these any more: {sorted(left)}"


def _compare(name: str, text: str) -> list[str]:
    path = HERE / name
    recorded = path.read_bytes().decode() if path.exists() else ""
    if text == recorded:
        return []
    return list(
        difflib.unified_diff(
            recorded.splitlines(), text.splitlines(), f"recorded {name}", "now", lineterm=""
        )
    ) or [f"{name}: only the ends of lines differ"]
