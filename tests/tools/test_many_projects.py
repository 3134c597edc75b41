"""One search over more projects than are ranked: the right one is among the few, and leads."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.trees import write_files

from sonde.app import App
from sonde.errors import InvalidRequest
from sonde.runtime.work import Work
from sonde.tools.code import search_code
from sonde.tools.index import create_index
from sonde.tools.pages import hybrid_search

TOPICS = {
    "billing": ("send_invoice", "Send the invoice to the customer by mail."),
    "weather": ("measure_rainfall", "Measure the rainfall of the last hour."),
    "chess": ("castle_king", "Castle the king to the side of the rook."),
    "audio": ("mix_tracks", "Mix several tracks of sound into one."),
    "garden": ("water_plants", "Water the plants while the soil is dry."),
    "travel": ("book_flight", "Book a seat on the next flight."),
    "kitchen": ("knead_dough", "Knead the dough until it is smooth."),
    "stars": ("point_telescope", "Point the telescope at a star."),
}
COMMON = '"""Settings that every project reads."""\n\n\ndef read_settings(path):\n    return path\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def many(open_app: Callable[..., App], tmp_path: Path) -> App:
    app = open_app()
    for name, (function, says) in TOPICS.items():
        text = f'def {function}(what):\n    """{says}"""\n    return what\n'
        files = {"pyproject.toml": f"[project]\nname = '{name}'\n", "settings.py": COMMON}
        write_files(tmp_path / name, files | {f"{name}.py": text})
        create_index(app, project=str(tmp_path / name), work=Work())
    return app


def ask(app: App, query: str, **options: Any) -> list[tuple[str, str]]:
    """The project and the path of each hit."""
    rows = search_code(app, query, project="all", work=Work(), **options)["results"]
    return [(Path(row["project"]).name, row["path"]) for row in rows]


def test_the_project_that_answers_leads(many: App) -> None:
    for name, (function, says) in TOPICS.items():
        assert ask(many, f"where do we {says[:-1].lower()}")[0] == (name, f"{name}.py")
        assert ask(many, function)[0] == (name, f"{name}.py")


def test_what_a_query_names_is_found_in_every_project(many: App) -> None:
    assert {place for place in ask(many, "settings.py", top_k=50) if place[1] == "settings.py"} == {
        (name, "settings.py") for name in TOPICS
    }
    assert {name for name, _ in ask(many, '"Settings that every project"', top_k=50)} == {*TOPICS}


def test_a_name_is_found_in_every_project_that_defines_it(many: App) -> None:
    assert {name for name, _ in ask(many, "read_settings")} == {*TOPICS}
    found: list[Any] = []
    page = hybrid_search(many, "read_settings", project="all", page_size=3, work=Work())
    while cursor := page["pagination"]["next_cursor"]:
        found += page["results"]["matches"]
        page = hybrid_search(many, cursor=cursor, work=Work())
    found += page["results"]["matches"]
    files = [row["file"] for row in found if "def read_settings" in row["match"]["content"]]
    assert {Path(file["project"]).name for file in files} == {*TOPICS}


def test_the_answer_says_which_projects_were_ranked(many: App) -> None:
    def read_note(query: str, project: str = "all") -> str:
        found = search_code(many, query, project=project, work=Work())
        return str(found["metadata"].get("note", ""))

    note = read_note("how is the invoice sent to a customer")
    assert re.fullmatch(r"Ranked [1-3] of 8 projects: .*billing.* search it alone\.", note), note
    assert "Ranked" not in read_note("read_settings")  # all eight
    assert "Ranked" not in read_note('"Settings that every project"')  # lines, wherever they are


def test_a_project_can_be_named_by_its_folder_if_only_one_is(many: App, tmp_path: Path) -> None:
    for place in ("old/archive", "old/twice", "older/twice"):
        made = write_files(tmp_path / place, {"shelf.py": "def put_on_shelf():\n    return 1\n"})
        create_index(many, project=str(made), work=Work())
    answer = search_code(many, "put_on_shelf", project="archive", work=Work())
    assert answer["results"][0]["path"] == "shelf.py"
    for project in ("twice", "physics", "shelf.py"):
        with pytest.raises(InvalidRequest, match=project):
            search_code(many, "put_on_shelf", project=project, work=Work())


def test_filters_hold_before_projects_are_chosen(many: App) -> None:
    assert ask(many, "send the invoice by mail path:stars.py") == [("stars", "stars.py")]
    assert ask(many, "send the invoice by mail path:*.rs") == []


def test_a_broken_project_of_many_is_named(many: App, tmp_path: Path) -> None:
    broken = many.workspace.projects.get(tmp_path / "chess").folder / "index.db"
    many.workspace.projects.forget(tmp_path / "chess")
    broken.write_bytes(b"garbage" * 1000)
    answer = search_code(many, TOPICS["audio"][1], project="all", work=Work())
    assert answer["results"][0]["path"] == "audio.py"
    assert str(tmp_path / "chess") in answer["metadata"]["note"]
