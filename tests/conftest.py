"""What tests of every part need."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from sonde.app import App
from sonde.runtime.jobs import RECORD_AFTER_S
from sonde.settings import load_settings
from sonde.wiring import build_app

# how long an example takes is the machine's affair, and fixtures are folders that examples share
settings.register_profile(
    "laws",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("laws")


@pytest.fixture(autouse=True, scope="session")
def restore_interrupts() -> None:
    """A non-interactive shell ignores SIGINT in what it runs in the background, children too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def keep_umask() -> Iterator[None]:
    """Commands that run in this process set its umask."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def open_app(tmp_path: Path) -> Iterator[Callable[..., App]]:
    """Opens apps in a folder, which agree to everything and use the small model unless told.

    All of them are closed at the end.
    """
    with ExitStack() as stack:

        def open_one(
            home: str = "home",
            *,
            start: Path,
            stays: bool = False,
            record_after_s: float = RECORD_AFTER_S,
            **explicit: Any,
        ) -> App:
            given = {"assume_yes": True, "embedding": "static"} | explicit
            chosen = load_settings({}, home=tmp_path / home, **given)
            app = build_app(chosen, start=start, stays=stays, record_after_s=record_after_s)
            stack.callback(app.close)
            return app

        yield open_one
