"""The statements of the founding documents, and the tests that name them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that reads tables and markers."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("rows")


def test_every_marker_names_a_row(rows):
    unknown = {
        row: tests for row, tests in rows.read_markers().items() if row not in rows.read_rows()
    }
    assert unknown == {}


def test_no_row_has_lost_its_tests(rows):
    tested = {row.row for row in rows.read_rows().values() if row.test}
    assert tested - set(rows.read_markers()) == set()


def test_the_tables_are_whole(rows):
    for name in rows.DOCUMENTS:
        found = rows.read_table(rows.TABLES / f"{name}.tsv")
        assert len(found) > 70
        assert len({row.row for row in found}) == len(found)
        for row in found:
            assert re.fullmatch(name + r"-[A-Z]?\d+", row.row)
            assert row.statement
            assert row.test in ("", "yes")
            assert not row.differs or row.differs.endswith(".")


def test_markers_are_found_wherever_they_stand(rows, tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        '@pytest.mark.row("000-P1", "000-P2")\n'
        '@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.row("000-P3"))])\n'
        "async def test_one(n): ...\n"
        "class TestMore:\n"
        '    @pytest.mark.row("000-P1")\n'
        "    def test_two(self): ...\n"
    )
    assert rows.read_markers(tmp_path) == {
        "000-P1": ["test_it.py::test_one", "test_it.py::TestMore"],
        "000-P2": ["test_it.py::test_one"],
        "000-P3": ["test_it.py::test_one"],
    }


def test_the_page_shows_tests_reasons_and_gaps(rows):
    found = [
        rows.Row("000-P1", "pages", "yes", ""),
        rows.Row("000-P2", "streams", "", "Pages serve the same purpose."),
        rows.Row("000-P3", "a | b", "", ""),
    ]
    page = rows.write_page(found, {"000-P1": ["test_it.py::test_one"]})
    assert "| 000 PAGE | 3 | 12 | 1 | 1 | 1 |" in page
    assert "| 000-P1 | pages | `test_it.py::test_one` |" in page
    assert "| 000-P2 | streams | Pages serve the same purpose. |" in page
    assert "| 000-P3 | a \\| b | no test named |" in page


def test_what_is_recorded_stays_recorded(rows, tmp_path):
    table = tmp_path / "000.tsv"
    head = "row\tstatement\ttest\tdiffers\n"
    table.write_text(f'{head}000-P1\ta "quoted" one\t\t\n000-P2\ttwo\tyes\t\n')
    rows.record_tests(tmp_path, {"000-P1": ["t"]})
    assert table.read_text() == f'{head}000-P1\ta "quoted" one\tyes\t\n000-P2\ttwo\tyes\t\n'
