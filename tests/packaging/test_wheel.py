"""What is published works by itself: built, installed where there is no source tree, and small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 300_000_000

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist, so that the sdist is proven complete as well."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    (sdist,) = folder.glob("sonde-*.tar.gz")
    (built,) = folder.glob("sonde-*-py3-none-any.whl")
    assert sdist.stat().st_size > 0
    return built


@pytest.fixture(scope="module")
def sonde(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a fresh environment with the wheel in it.

    Third-party packages are those of the environment that runs the tests, found through a path
    file. Its own path files are not read that way, so its link to the source tree is not followed.
    """
    folder = tmp_path_factory.mktemp("installed") / "env"
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    install += ["--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    (site,) = folder.rglob("site-packages")
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site / "third-party.pth").write_text("\n".join(sorted(paths)) + "\n")
    where = run_in(folder, python, "-c", "import sonde; print(sonde.__file__)")
    assert Path(where.stdout.strip()).is_relative_to(site)
    return scripts / "sonde"


def run_in(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with a home of its own and nothing inherited that could help."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    environment = {"PATH": os.defpath, "HOME": str(home), "SONDE_ASSUME_YES": "1"}
    environment["SONDE_DAEMON"] = "off"  # it would outlive the test
    run = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run


def test_the_installed_command_knows_its_version(sonde, wheel, tmp_path):
    assert wheel.name.split("-")[1] in run_in(tmp_path, sonde, "--version").stdout


def test_the_installed_command_indexes_and_finds(sonde, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text("[project]\nname = 'tiny'\n")
    (project / "billing.py").write_text(
        "def charge_card(amount):\n    '''Take money from a credit card.'''\n    return amount\n"
    )
    (project / "zoo.py").write_text("def feed_lions(meat):\n    return meat * 2\n")
    run_in(tmp_path, sonde, "index", project)
    found = run_in(tmp_path, sonde, "--project", project, "--json", "search", "charge a card")
    answer = json.loads(found.stdout)
    assert answer["results"][0]["path"] == "billing.py"
    assert answer["results"][0]["startLine"] == 1


def test_the_wheel_holds_the_models_and_the_licence_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert any(name.endswith(".onnx") for name in names)
    assert any(name.endswith("py.typed") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if not name.startswith(("sonde/", "sonde-"))]


def close_over(name: str) -> Iterator[Distribution]:
    """The distributions that installing `name` without extras brings, itself left out."""
    seen: set[str] = {canonicalize_name(name)}
    waiting = [(distribution(name), "")]
    while waiting:
        found, extra = waiting.pop()
        for line in found.requires or []:
            needed = Requirement(line)
            if needed.marker and not needed.marker.evaluate({"extra": extra}):
                continue
            for wanted in ("", *needed.extras):
                key = canonicalize_name(needed.name) + (f"[{wanted}]" if wanted else "")
                if key not in seen:
                    seen.add(key)
                    waiting.append((distribution(needed.name), wanted))
                    if not wanted:
                        yield distribution(needed.name)


def measure(package: Distribution) -> int:
    files = [Path(str(package.locate_file(file))) for file in package.files or []]
    return sum(file.stat().st_size for file in files if file.is_file())


def test_a_default_install_stays_under_300_mb(wheel):
    own = sum(entry.file_size for entry in zipfile.ZipFile(wheel).infolist())
    sizes = {package.name: measure(package) for package in close_over("sonde")}
    assert {"numpy", "mcp", "onnxruntime"} <= sizes.keys()
    assert "lancedb" not in sizes
    total = own + sum(sizes.values())
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:8]
    assert total < MOST_BYTES, f"{total:,} bytes; sonde {own:,}; largest {largest}"
