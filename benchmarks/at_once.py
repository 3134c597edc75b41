"""sonde right after an import: the deep model is loaded and has read nothing yet.

In this process, so that nothing is embedded in the background while questions are asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sonde.app import App
from sonde.settings import load_settings
from sonde.wiring import build_app


@contextmanager
def opened(folder: Path, home: Path) -> Iterator[App]:
    """An app in a folder, with the deep model in memory as in a server that stays."""
    app = build_app(load_settings({}, home=home, assume_yes=True), start=folder)
    app.knowledge.models.list_all()[-1].embed(["loaded"], "query")
    try:
        yield app
    finally:
        app.close()


def forget_read(app: App) -> None:
    """Drop what the deep model has read of notes, so that no question helps the next one."""
    app.knowledge.of("local").forget_models("notes", [app.knowledge.models.list_all()[0].name])
