"""An empty answer says what would help."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trees import write_files

from sonde.app import App
from sonde.runtime.work import Work
from sonde.searching.hits import _slips
from sonde.tools.code import search_code, search_docs
from sonde.tools.index import create_index


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "net/connection.py": "def open_connection(host):\n    return host\n",
        "other.py": "def count():\n    return 1\n",
    }
    return write_files(tmp_path / "project", files)


@pytest.fixture
def app(open_app: Callable[..., App], root: Path) -> App:
    made = open_app(start=root)
    create_index(made, work=Work())
    return made


def note(app: App, query: str, **options: Any) -> str:
    answer = search_code(app, query, mode="lexical", work=Work(), **options)
    assert not answer["results"]
    return str(answer["metadata"]["note"])


def test_the_nearest_words_of_the_index_are_named(app: App) -> None:
    said = note(app, "conection")
    assert "No exact match for: conection" in said
    assert "Similar words in the index: connection" in said


def test_a_filter_that_fits_no_file_is_named(app: App) -> None:
    said = note(app, "connection", path="missing")
    assert "the folder missing" in said
    assert "2 files are indexed" in said


def test_a_filter_that_keeps_the_word_out_is_named(app: App, root: Path) -> None:
    (root / "aside").mkdir()
    (root / "aside" / "plain.py").write_text("x = 1\n")
    create_index(app, work=Work())
    assert "Only 1 of 3 files fit the folder aside." in note(app, "connection", path="aside")


def test_an_empty_index_is_said_to_be_empty(app: App, root: Path) -> None:
    for path in root.rglob("*.py"):
        path.unlink()
    create_index(app, work=Work())
    assert "Nothing is indexed here yet" in note(app, "connection")


def test_an_answer_with_hits_needs_no_advice(app: App) -> None:
    answer = search_code(app, "connection", mode="lexical", work=Work())
    assert answer["results"]
    assert "note" not in answer["metadata"]


def test_hits_that_hold_none_of_the_words_are_said_to_be_near_in_meaning_only(app: App) -> None:
    answer = search_code(app, "conection peer", work=Work())
    assert answer["results"]
    assert answer["metadata"]["note"] == (
        "No exact match for: conection, peer. Similar words in the index: connection. "
        "Showing semantically similar results."
    )
    assert "note" not in search_code(app, "conection count", work=Work())["metadata"]


def test_words_are_named_as_they_were_typed(app: App) -> None:
    answer = search_code(app, "Schlüssel walrus", work=Work())
    assert answer["metadata"]["note"].startswith("No exact match for: Schlüssel, walrus.")
    assert note(app, "ParseFrobnicator").startswith("No exact match for: ParseFrobnicator. ")


@pytest.mark.parametrize(
    "query",
    ["frobnicate", "open_conection", "ParseFrobnicator", "zorblax quuxify", "fnorq blargl wug"],
)
def test_words_that_occur_nowhere_find_nothing(app: App, query: str) -> None:
    for mode in ("auto", "hybrid"):
        answer = search_code(app, query, mode=mode, work=Work())
        assert not answer["results"]
        assert "No exact match for" in answer["metadata"]["note"]
        assert "Mode `semantic`" in answer["metadata"]["note"]
    assert search_code(app, query, mode="semantic", work=Work())["results"]


def test_the_names_nearest_to_it_are_offered(app: App) -> None:
    said = search_code(app, "open_conectoin", work=Work())["metadata"]["note"]
    assert "Names like it: open_connection." in said


def test_of_a_name_half_typed_those_that_begin_so_are_offered(app: App, root: Path) -> None:
    (root / "air.py").write_text("def zeppelin_ride_over_the_lake():\n    return 1\n")
    create_index(app, work=Work())
    said = search_code(app, "zeppel", work=Work())["metadata"]["note"]
    assert "Names like it: zeppelin_ride_over_the_lake." in said


@pytest.mark.parametrize("query", ["connections", "connecting", "counted", "count_hosts"])
def test_a_word_in_another_form_is_still_searched(app: App, query: str) -> None:
    assert search_code(app, query, work=Work())["results"]


def test_a_name_that_is_nowhere_though_its_parts_are_is_said_to_be_nowhere(app: App) -> None:
    answer = search_code(app, "count_connection", work=Work())
    assert answer["results"]
    assert answer["metadata"]["note"] == (
        "No exact match for: count_connection. Showing results for its parts."
    )
    assert "note" not in search_code(app, "openConnection", work=Work())["metadata"]


def test_a_project_without_documentation_is_not_said_to_be_empty(app: App) -> None:
    answer = search_docs(app, "connection", work=Work())
    assert answer["metadata"]["note"] == (
        "No documentation is indexed here; search the code instead."
    )


@given(st.text("abc", min_size=2, max_size=6), st.data())
def test_every_single_slip_is_undone(word: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(word) - 1))
    letter = data.draw(st.sampled_from("abcxyz"))
    for slip in (word[:at] + word[at + 1 :], word[:at] + letter + word[at:]):
        assert word in _slips(slip) or word == slip
