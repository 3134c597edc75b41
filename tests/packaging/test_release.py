"""A release says what is in it: bounds that hold, a lock with hashes, an SBOM, a signature."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import sonde

ROOT = Path(__file__).resolve().parents[2]


def run_script(name: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / name), *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_dependency_has_bounds_and_is_locked_within_them() -> None:
    done = run_script("lock.py", "--check")
    assert done.returncode == 0, done.stderr


def test_what_is_tested_lies_within_the_bounds() -> None:
    lowest = run_script("lock.py", "--lowest").stdout.split()
    assert len(lowest) > 40
    for text in lowest:
        name, _, least = text.partition("==")
        if name != "tokenizers":
            assert version(name) in Requirement(f"{name}>={least}").specifier


def test_the_model_card_names_the_files_that_are_bundled_by_their_hashes() -> None:
    folder = ROOT / "src" / "sonde" / "embedding" / "models"
    text = (folder / "MODEL_CARD.md").read_text()
    card = dict(re.findall(r"\| `([\w.-]+)` \| `([0-9a-f]{64})` \|", text))
    files = [path for path in folder.iterdir() if path.suffix != ".md"]
    assert card == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    done = run_script("release.py", str(folder / "dist"), "--key", str(key))
    assert done.returncode == 0, done.stderr
    return folder


needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")


@needs_ssh
@pytest.mark.slow
def test_the_signature_covers_every_file_of_the_release(release: Path) -> None:
    dist = release / "dist"
    (release / "allowed").write_text(f"sonde {(release / 'key.pub').read_text()}")
    verify = ["ssh-keygen", "-Y", "verify", "-f", str(release / "allowed"), "-I", "sonde"]
    verify += ["-n", "sonde-release", "-s", str(dist / "SHA256SUMS.sig")]
    sums = (dist / "SHA256SUMS").read_bytes()
    assert subprocess.run(verify, input=sums, capture_output=True).returncode == 0
    assert subprocess.run(verify, input=sums + b"x", capture_output=True).returncode != 0
    named = dict(reversed(line.split("  ")) for line in sums.decode().splitlines())
    made = {path.name for path in dist.iterdir() if not path.name.startswith("SHA256SUMS")}
    assert set(named) == made
    assert {"sonde.cdx.json", "licences.md", "sonde.mcpb", "server.json"} < made
    assert {"Containerfile", "compose.yaml"} < made
    for name, digest in named.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest


@needs_ssh
@pytest.mark.slow
def test_the_sbom_names_what_an_install_brings_and_what_is_bundled(release: Path) -> None:
    sbom: dict[str, Any] = json.loads((release / "dist" / "sonde.cdx.json").read_text())
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.5")
    parts = {each["name"]: each for each in sbom["components"]}
    assert parts["cryptography"]["scope"] == "required"
    assert parts["lancedb"]["scope"] == "optional"
    assert "pytest" not in parts
    assert all(each["hashes"] and each["licenses"] for each in parts.values())
    models = {name for name, each in parts.items() if each["type"] == "machine-learning-model"}
    folder = ROOT / "src" / "sonde" / "embedding" / "models"
    assert models == {path.name for path in folder.iterdir() if path.suffix != ".md"}
    deep = hashlib.sha256((folder / "deep.onnx").read_bytes()).hexdigest()
    assert parts["deep.onnx"]["hashes"] == [{"alg": "SHA-256", "content": deep}]


@pytest.mark.row("001-150")
def test_the_version_is_semantic_and_heads_the_changelog() -> None:
    number = r"(0|[1-9]\d*)"
    assert re.fullmatch(rf"{number}\.{number}\.{number}", sonde.__version__)
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert next(one for one in headings if one != "Unreleased") == sonde.__version__
