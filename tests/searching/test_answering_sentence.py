"""What `search_docs` shows of a long document: the sentence that answers."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.trees import write_files

from sonde.app import App
from sonde.runtime.work import Work
from sonde.tools.code import search_docs
from sonde.tools.index import create_index
from sonde.types import HitRow

PAGE = [
    "The server listens on port 8080 unless another one is set.",
    "Invoices are numbered by year and customer.",
    "The kitchen closes at ten, on Sundays at nine.",
    "Whoever breaks a window pays for the glass.",
    "Pictures are made smaller before they are sent to a phone.",
    "Bicycles may be left in the yard behind the house.",
    "A visitor who forgets the password gets a letter with a new one.",
]
ASKED = [
    ("recover a lost login", 6),
    ("where to park my bike", 5),
    ("thumbnails for mobile devices", 4),
]


NOTES = list(
    enumerate(
        [
            "The dentist wants to see me in March because of the crown.",
            "Lent the ladder to our neighbours until Sunday.",
            "Pancakes for two: flour, eggs, milk, a pinch of salt.",
            "The night train to Vienna leaves at ten.",
            "Grandmother told the story of the flood again.",
            *PAGE,
        ]
    )
)
QUESTIONS = [
    "appointment for my teeth",
    "who has borrowed our steps",
    "breakfast recipe",
    "rail journey to Austria",
    "what granny remembers",
]


@pytest.fixture
def ask(tmp_path: Path, open_app: Callable[..., App]) -> Callable[[str, str], HitRow]:
    """The first result for a question, of a project with one document."""

    def ask_one(page: str, question: str) -> HitRow:
        folder = tmp_path / "project"
        folder.mkdir()
        (folder / "house.md").write_text(page, "utf-8")
        app = open_app(start=folder)
        create_index(app, str(folder), work=Work())
        return search_docs(app, question, max_tokens=160, work=Work())["results"][0]

    return ask_one


@pytest.mark.parametrize(("question", "line"), ASKED)
def test_the_lines_around_the_sentence_that_answers_in_other_words_are_shown(
    ask: Callable[[str, str], HitRow], question: str, line: int
) -> None:
    row = ask("\n".join(PAGE), question)
    assert PAGE[line] in row["text"]
    assert row["text"] == "\n".join(PAGE[row["startLine"] - 1 : row["endLine"]])
    assert len(row["text"]) < len("\n".join(PAGE))


@pytest.mark.parametrize(("question", "line"), ASKED)
def test_of_a_line_that_is_too_long_the_part_with_the_answer_is_shown(
    ask: Callable[[str, str], HitRow], question: str, line: int
) -> None:
    text = " ".join(PAGE)
    row = ask(f"{text}\n", question)
    assert PAGE[line] in row["text"]
    assert row["text"] in text
    assert f" {row['text']}" in f" {text}"  # from the beginning of a word
    assert (row["startLine"], row["endLine"]) == (1, 1)


def test_a_sentence_that_runs_over_lines_is_shown_whole(ask: Callable[[str, str], HitRow]) -> None:
    wrapped = [part for line in PAGE for part in (line[:47], line[47:]) if part]
    text = "\n".join(wrapped)
    row = ask(text, "recover a lost login")
    assert "\n".join(wrapped[-2:]) in row["text"]


def test_a_document_in_everyday_words_is_found_in_others(
    tmp_path: Path, open_app: Callable[..., App]
) -> None:
    folder = write_files(tmp_path / "pages", {f"page-{n}.md": f"{text}\n" for n, text in NOTES})
    app = open_app(start=folder)
    create_index(app, str(folder), work=Work())
    for n, question in enumerate(QUESTIONS):
        assert search_docs(app, question, work=Work())["results"][0]["path"] == f"page-{n}.md"
