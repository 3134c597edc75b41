"""The moving picture of the README is a recording of commands that work."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "session.svg"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("recording")


def lines_of(picture: str) -> list[str]:
    root = ET.fromstring(picture)
    return ["".join(line.itertext()) for line in root.iter(f"{SVG}text")]


def test_what_a_command_prints_is_drawn_in_its_colours(
    recording: ModuleType, tmp_path: Path
) -> None:
    command = r"printf '\033[31mred\033[0m plain\nsecond <&>\n' && printf 'gone\rhere\033[K\n'"
    picture = recording.draw(recording.record([command, "echo done"], tmp_path, tmp_path))
    assert lines_of(picture) == [
        f"$ {command}", "red plain", "second <&>", "here", "$ echo done", "done",
    ]  # fmt: skip
    assert '<tspan fill="#e06c75">red</tspan><tspan> plain</tspan>' in picture


def test_a_command_that_fails_is_no_recording(recording: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="nowhere"):
        recording.record(["ls nowhere"], tmp_path, tmp_path)


def test_the_picture_shows_our_commands_and_files_that_exist(recording: ModuleType) -> None:
    text = PICTURE.read_text("utf-8")
    lines = lines_of(text)
    assert [line[2:] for line in lines if line.startswith("$ ")] == list(recording.SCENES)
    places = [found[1] for line in lines if (found := re.match(r"([\w/.]+):\d+", line))]
    assert len(places) >= 3
    assert all((ROOT / place).exists() for place in places)
    assert not re.search(r"<script|href|url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text)
    assert "prefers-reduced-motion" in text
