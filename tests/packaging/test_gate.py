"""The project's own rules find what they are meant to find."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module with the rules."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("gate")


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_may_have_400_lines_and_no_more(gate, tmp_path):
    fits = write(tmp_path, "src/fits.py", "x = 1\n" * 400)
    long = write(tmp_path, "tests/long.py", "x = 1\n" * 401)
    assert list(gate.check_sizes(tmp_path, [fits, long])) == [
        "tests/long.py: 401 lines, at most 400"
    ]


def test_names_that_say_nothing_are_refused(gate, tmp_path):
    good = write(tmp_path, "src/paging/cursor.py", "class Cursor:\n    pass\n")
    vague = write(tmp_path, "src/utils.py", "")
    role = write(tmp_path, "src/index.py", "\nclass IndexManager:\n    pass\n")
    problems = list(gate.check_names(tmp_path, [good, vague, role]))
    assert [problem.split(" ")[0] for problem in problems] == ["src/utils.py:", "src/index.py:2:"]


def test_paths_of_one_machine_are_refused(gate, tmp_path):
    folder = "/ho" + "me/alice/code"
    bad = write(tmp_path, "notes.md", f"see {folder}\n")
    fine = write(tmp_path, "fine.md", "see ~/code, src/home/page.ts and https://x.org/work/it\n")
    binary = tmp_path / "model.bin"
    binary.write_bytes(b"\xff\xfe" + folder.encode())
    (problem,) = gate.check_machine_paths(tmp_path, [bad, fine, binary])
    assert problem.startswith("notes.md:1:")


def test_the_readme_must_show_both_commands(gate, tmp_path):
    write(tmp_path, "README.md", "make demo\n")
    assert list(gate.check_readme(tmp_path)) == ["README.md: does not show `make test`"]


def test_advice_to_install_by_name_is_refused(gate, tmp_path):
    name = "son" + "de"
    page = write(
        tmp_path,
        "docs/page.md",
        f"pip install '{name}[lance]'\nuvx {name} mcp\npip install '.[lance]'\n"
        f"pip install ./{name}-0.1.0.whl\npip uninstall -y {name}-x\n",
    )
    problems = list(gate.check_advice(tmp_path, [page]))
    assert [problem.split(": ")[0] for problem in problems] == ["docs/page.md:1", "docs/page.md:2"]


def test_calls_of_one_system_are_in_one_module(gate, tmp_path):
    here = write(tmp_path, gate.SYSTEM_MODULE, "import fcntl\n")
    lock = write(tmp_path, "src/sonde/stores/lock.py", "    import fcntl\n")
    proc = write(tmp_path, "src/sonde/policy/look.py", 'x = open("/proc/self/stat")\n')
    assert [
        problem.split(": ")[0] for problem in gate.check_system(tmp_path, [here, lock, proc])
    ] == ["src/sonde/stores/lock.py:1", "src/sonde/policy/look.py:1"]


def test_stiff_words_in_the_source_are_refused(gate, tmp_path):
    plain = write(tmp_path, "src/plain.py", '"""Rebuild the index."""\n')
    stiff = write(tmp_path, "src/stiff.py", '"""Build the index ane' + 'w."""\n')
    (problem,) = gate.check_words(tmp_path, [plain, stiff])
    assert problem.startswith("src/stiff.py:1:")


def test_stiff_words_in_the_documentation_are_refused(gate, tmp_path):
    stiff = "ane" + "w"
    page = write(
        tmp_path,
        "docs/page.md",
        f"# Page\n\n```console\n$ sonde index\nbuilt {stiff}\n```\n\n"
        f"`built {stiff}` is output.\n\nIt is built {stiff}.\n",
    )
    generated = write(tmp_path, "docs/errors.md", f"Start {stiff}.\n")
    corpus = write(tmp_path, "tests/golden/corpus/page.md", f"Start {stiff}.\n")
    (problem,) = gate.check_words(tmp_path, [page, generated, corpus])
    assert problem.startswith("docs/page.md:10:")


def test_patches_in_tests_are_refused(gate, tmp_path):
    patch = "monkeypatch.set" + "attr"
    bad = write(tmp_path, "tests/test_a.py", f"def test_a(monkeypatch):\n    {patch}(a, 'b', 1)\n")
    (problem,) = gate.check_patches(tmp_path, [bad])
    assert problem.startswith("tests/test_a.py:2:")


def test_the_structure_of_the_source_is_held(gate, tmp_path):
    write(tmp_path, "src/sonde/__init__.py", "")
    write(tmp_path, "src/sonde/cli/main.py", "def run_now(): ...\n")
    write(tmp_path, "src/sonde/stores/rows.py", "class Row: ...\nRUN = 'sonde.cli.main'\n")
    write(
        tmp_path,
        "src/sonde/projects/update.py",
        "from sonde.stores.rows import Row\n\ndef run_now(row: Row):\n    row.seen = True\n",
    )
    problems = sorted(gate.check_structure(tmp_path))
    assert problems == [
        "run_now is defined in sonde.cli.main and sonde.projects.update",
        "src/sonde/projects/update.py:4: writes row.seen, which another module owns",
        "src/sonde/stores/rows.py:2: names sonde.cli.main, a floor above",
    ]


def test_a_folder_and_a_chain_of_imports_have_an_end(gate, tmp_path):
    for at in range(gate.MOST_IN_CHAIN + 1):
        below = f"import sonde.m{at + 1}\n" if at < gate.MOST_IN_CHAIN else ""
        write(tmp_path, f"src/sonde/m{at}.py", below)
    folder, chain = gate.check_structure(tmp_path)
    assert folder == "src/sonde: 16 modules, at most 15"
    assert chain.startswith("16 modules import each other in a row: sonde.m0 -> sonde.m1")


def test_a_tuned_number_has_its_reason_beside_it(gate, tmp_path):
    text = 'BARE = 3\nCOMMENTED = 4  # a link recovers\nDOCUMENTED = 5\n"""Why."""\n'
    write(tmp_path, "src/sonde/numbers.py", text)
    (problem,) = gate.check_structure(tmp_path)
    assert problem == "src/sonde/numbers.py:1: BARE has no reason beside it"
