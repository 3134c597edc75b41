"""What the README shows can be typed as it is."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
PLACE = "~/src/your-project"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "your-project"
    root.mkdir()
    (root / ".git").mkdir()
    (root / "session.py").write_text(
        'def refresh_session(token):\n    """Sessions are refreshed here."""\n    return token\n'
    )
    return root


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    scripts = Path(sys.executable).parent
    return {
        "HOME": str(tmp_path),
        "SONDE_HOME": str(tmp_path / "home"),
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
    }


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


@pytest.mark.row("001-1")
def test_the_commands_for_your_own_project_answer(
    project: Path, environment: dict[str, str]
) -> None:
    typed = [line for block in blocks("console") for line in block.splitlines()]
    ours = [line for line in typed if line.startswith("sonde ")]
    assert len(ours) >= 2
    for line in ours:
        done = subprocess.run(
            shlex.split(line), cwd=project, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    assert "session.py" in done.stdout


def test_the_python_example_prints_where_to_look(
    project: Path, environment: dict[str, str]
) -> None:
    (example,) = blocks("python")
    assert PLACE in example
    script = example.replace(PLACE, str(project))
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("session.py 1 ")


def test_the_examples_of_the_python_page_run(project: Path, environment: dict[str, str]) -> None:
    page = README.parent / "docs" / "python.md"
    examples = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    notes = project.parent / "notes"
    notes.mkdir()
    (notes / "sea.md").write_text("# Sea\n\nWalruses like it cold.\n")
    script = "\n".join(examples).replace(PLACE, str(project)).replace("~/Notes", str(notes))
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=project, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "session.py 1 " in done.stdout


def test_every_page_it_links_to_exists() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text("utf-8")):
        assert (README.parent / target).exists(), target
