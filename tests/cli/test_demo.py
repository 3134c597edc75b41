import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_demo_answers_and_leaves_nothing_behind(tmp_path: Path) -> None:
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "sonde").symlink_to(Path(sys.executable).parent / "sonde")
    done = subprocess.run(
        ["sh", "scripts/demo.sh", str(binaries)],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "src/sonde/paging/cursor.py" in done.stdout
    assert "src/sonde/settings/__init__.py" in done.stdout
    assert "docs/configuration.md" in done.stdout
    assert "class IndexNotFound(CatalogError" in done.stdout
    assert "claude mcp add sonde" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]
