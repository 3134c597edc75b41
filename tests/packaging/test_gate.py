"""The project's own rules find what they are meant to find."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

GATE = Path(__file__).resolve().parents[2] / "scripts" / "gate.py"


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The gate, looking at an empty project."""
    spec = importlib.util.spec_from_file_location("sonde_gate", GATE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_may_have_400_lines_and_no_more(gate, tmp_path):
    fits = write(tmp_path, "src/fits.py", "x = 1\n" * 400)
    long = write(tmp_path, "tests/long.py", "x = 1\n" * 401)
    assert list(gate.check_sizes([fits, long])) == ["tests/long.py: 401 lines, at most 400"]


def test_names_that_say_nothing_are_refused(gate, tmp_path):
    good = write(tmp_path, "src/paging/cursor.py", "class Cursor:\n    pass\n")
    vague = write(tmp_path, "src/utils.py", "")
    role = write(tmp_path, "src/index.py", "\nclass IndexManager:\n    pass\n")
    problems = list(gate.check_names([good, vague, role]))
    assert [problem.split(" ")[0] for problem in problems] == ["src/utils.py:", "src/index.py:2:"]


def test_paths_of_one_machine_are_refused(gate, tmp_path):
    folder = "/ho" + "me/alice/code"
    bad = write(tmp_path, "notes.md", f"see {folder}\n")
    fine = write(tmp_path, "fine.md", "see ~/code, src/home/page.ts and https://x.org/work/it\n")
    binary = tmp_path / "model.bin"
    binary.write_bytes(b"\xff\xfe" + folder.encode())
    (problem,) = gate.check_machine_paths([bad, fine, binary])
    assert problem.startswith("notes.md:1:")


def test_the_readme_must_show_both_commands(gate, tmp_path):
    write(tmp_path, "README.md", "make demo\n")
    assert list(gate.check_readme()) == ["README.md: does not show `make test`"]
