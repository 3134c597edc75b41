"""An app with a user's knowledge in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sonde.app import App
from sonde.stores.knowledge.base import Entry, Piece

from .samples import write_samples
from .shelf import DAY, text_entry


@pytest.fixture
def open_app(open_app: Callable[..., App], tmp_path: Path) -> Callable[..., App]:
    """The same, where there is no project, and without vectors unless told."""
    (tmp_path / "start").mkdir()
    return partial(open_app, start=tmp_path / "start", embedding="none")


@pytest.fixture
def app(open_app: Callable[..., App]) -> App:
    return open_app()


@pytest.fixture
def filled(app: App) -> App:
    """A few entries of every source about walruses."""
    store = app.knowledge.of("local")
    store.put(
        "notes",
        [
            text_entry("notes", "Walrus diary", "The walrus slept. " * 5, tags=("sea",), id="n1"),
            text_entry("notes", "Otters", "Otters hold hands.\n\nNo other animal.", id="n2", day=2),
        ],
    )
    long = "\n\n".join(f"Paragraph {at}. " + "Nothing to see here. " * 30 for at in range(40))
    long = long.replace("Paragraph 25.", "Paragraph 25. A walrus appears with tusks.")
    store.put(
        "media",
        [
            text_entry("media", "Sea book", long, media_type="pdf", url="file:///sea.pdf"),
            text_entry("media", "Web page", "walrus walrus", media_type="html", day=9),
        ],
    )
    messages = tuple(
        Piece(text, at, uuid=f"m{at}", sender="Ann" if at % 2 else "Bob", created_at=DAY + at)
        for at, text in enumerate(
            ["Hi", "Seen a walrus?", "Yes, at the beach", "Great", "Bye", "x" * 400]
        )
    )
    store.put("chats", [Entry("chats", "Trip to the sea", messages, id="c1", last_modified=3)])
    fields = (Piece("A grumpy walrus.", 0, 0, "description"), Piece("Harumph!", 1, 0, "first_mes"))
    store.put("characters", [Entry("characters", "Wally", fields, tags=("animal",))])
    store.put(
        "prompts",
        [
            Entry(
                "prompts",
                "Walrus expert",
                (
                    Piece("You know all about walruses.", 0, 0, "system_prompt"),
                    Piece("Tell me about {{animal}}.", 1, 0, "user_prompt"),
                    Piece("zoology", 2, 0, "keywords"),
                ),
            )
        ],
    )
    return app


@pytest.fixture(scope="session")
def fixtures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one file of every format."""
    root = tmp_path_factory.mktemp("samples")
    write_samples(root)
    return root
