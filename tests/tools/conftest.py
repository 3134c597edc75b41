"""Apps over the folder that a test file makes as its `root`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sonde.app import App
from sonde.settings import load_settings
from sonde.tools.index import create_index
from sonde.wiring import build_app
from sonde.work import Work


@pytest.fixture
def open_app(tmp_path: Path, root: Path) -> Iterator[Callable[..., App]]:
    """Opens an app with a home of that name; all are closed at the end."""
    opened: list[App] = []

    def open_one(home: str = "home", *, stays: bool = False) -> App:
        chosen = load_settings({}, home=tmp_path / home, assume_yes=True, embedding="static")
        opened.append(build_app(chosen, start=root, stays=stays))
        return opened[-1]

    yield open_one
    for app in opened:
        app.close()


@pytest.fixture
def app(open_app: Callable[..., App]) -> App:
    """An app whose project is indexed."""
    made = open_app()
    create_index(made, work=Work())
    return made
