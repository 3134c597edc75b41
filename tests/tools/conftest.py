"""Apps over the folder that a test file makes as its `root`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sonde.app import App
from sonde.runtime.work import Work
from sonde.tools.index import create_index


@pytest.fixture
def open_app(open_app: Callable[..., App], root: Path) -> Callable[..., App]:
    """The same, in `root` unless told."""
    return partial(open_app, start=root)


@pytest.fixture
def app(open_app: Callable[..., App]) -> App:
    """An app whose project is indexed."""
    made = open_app()
    create_index(made, work=Work())
    return made
