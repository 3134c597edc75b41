"""The other ways to get sonde: the bundle, its registry entry, and the container."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest
import yaml
from tests.waiting import wait_until

from sonde.cli.parse import parse_arguments
from sonde.version import __version__

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"


@pytest.fixture
def bundles(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("bundle")


@pytest.fixture
def bundle(bundles: ModuleType, tmp_path: Path) -> Path:
    """A bundle around a small wheel, which is enough to look at everything else in it."""
    wheel = tmp_path / f"sonde-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sonde/empty.py", "")
    return Path(bundles.write_bundle(wheel, tmp_path / "sonde.mcpb"))


def check(name: str, value: object) -> None:
    schema = json.loads((PACKAGING / name).read_text())
    validator = jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker())
    assert [error.message for error in validator.iter_errors(value)] == []


def test_the_manifest_fits_its_published_schema(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        names = archive.namelist()
    check("mcpb-manifest-v0.4.schema.json", manifest)
    assert manifest["version"] == __version__
    assert manifest["server"]["entry_point"] in names
    assert {"search_code", "search"} <= {tool["name"] for tool in manifest["tools"]}
    asked = re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(manifest["server"]))
    assert set(asked) == set(manifest["user_config"])


def test_the_same_wheel_makes_the_same_bundle(
    bundles: ModuleType, bundle: Path, tmp_path: Path
) -> None:
    (wheel,) = tmp_path.glob("*.whl")
    again = bundles.write_bundle(wheel, tmp_path / "again.mcpb")
    assert again.read_bytes() == bundle.read_bytes()


def test_the_registry_entry_names_the_bundle_by_its_hash(
    bundles: ModuleType, bundle: Path, tmp_path: Path
) -> None:
    bundles.write_server_entry("https://example.org/sonde", bundle, tmp_path / "server.json")
    entry = json.loads((tmp_path / "server.json").read_text())
    check("server.schema.json", entry)
    assert entry["name"] == "org.example/sonde"
    assert entry["packages"][0]["fileSha256"] == hashlib.sha256(bundle.read_bytes()).hexdigest()


def test_the_server_of_the_bundle_answers(bundle: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(tmp_path / "unpacked")
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                   "clientInfo": {"name": "host", "version": "1"}},
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "server.py", "--project", str(project)],
        cwd=tmp_path / "unpacked",
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        input=json.dumps(hello) + "\n",
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "sonde"


def read_instructions() -> dict[str, str]:
    """Instruction -> its arguments, the last one of each kind."""
    text = (PACKAGING / "Containerfile").read_text().replace("\\\n", " ")
    lines = (line.partition(" ") for line in text.splitlines() if re.match("[A-Z]", line))
    return {name: rest.strip() for name, _, rest in lines}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The command of the container, running here; yields its environment."""
    instructions = read_instructions()
    (tmp_path / "tokens").write_text("0123456789abcdef0123456789abcdef\n")
    environ = dict(pair.split("=") for pair in instructions["ENV"].split())
    environ |= {"SONDE_HOME": str(tmp_path / "data"), "SONDE_FILE_ROOTS": str(tmp_path)}
    environ |= {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SONDE_PORT": "0"}
    arguments = json.loads(instructions["CMD"])
    arguments[arguments.index("--token-file") + 1] = str(tmp_path / "tokens")
    server = subprocess.Popen(
        [sys.executable, "-m", "sonde.cli.main", *arguments],
        cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert server.stdout
        found = re.search(r"http://[\w.]+:(\d+)", server.stdout.readline())
        assert found
        yield environ | {"SONDE_PORT": found[1]}
    finally:
        server.terminate()
        server.communicate()


def test_the_container_serves_everyone_and_is_healthy(served: dict[str, str]) -> None:
    command = read_instructions()["HEALTHCHECK"].partition("CMD ")[2]
    health = [sys.executable, *json.loads(command)[1:]]
    wait_until(lambda: subprocess.run(health, env=served, capture_output=True).returncode == 0)
    sick = served | {"SONDE_PORT": "1"}
    assert subprocess.run(health, env=sick, capture_output=True).returncode != 0


def test_the_container_has_no_rights_and_keeps_its_index() -> None:
    instructions = read_instructions()
    assert instructions["USER"] == "10001"
    assert json.loads(instructions["ENTRYPOINT"]) == ["sonde"]
    parse_arguments(json.loads(instructions["CMD"]))
    service = yaml.safe_load((PACKAGING / "compose.yaml").read_text())["services"]["sonde"]
    assert "index:/data" in service["volumes"]
    assert instructions["VOLUME"] == "/data"
    assert any(volume.endswith(":/srv:ro") for volume in service["volumes"])
    assert service["ports"] == [f"127.0.0.1:{instructions['EXPOSE']}:{instructions['EXPOSE']}"]
    assert service["cap_drop"] == ["ALL"]
