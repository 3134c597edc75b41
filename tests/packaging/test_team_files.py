"""The files that start a team's servers, parsed and compared with the product. No test runs them:
that takes a container engine or systemd."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sonde.cli.parse import parse_arguments
from sonde.settings.rules import RULES
from sonde.stores.users import ProviderSettings, RepositoryAccess

TEAM = Path(__file__).parents[2] / "packaging" / "team"


@pytest.fixture
def services() -> dict[str, Any]:
    known = yaml.safe_load((TEAM / "compose.yaml").read_text())
    for name, one in known["services"].items():
        for volume in one.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in known["volumes"] or (TEAM / source).exists(), (name, volume)
        assert set(one.get("depends_on", ())) <= set(known["services"]), name
    services: dict[str, Any] = known["services"]
    return services


def test_the_servers_of_the_compose_file_are_started_with_options_that_exist(services: Any) -> None:
    assert {"one", "two", "balancer", "database", "store", "bucket"} == set(services)
    for name in ("one", "two"):
        given = parse_arguments(services[name]["command"])
        assert given.serve_from.startswith("s3://")
        assert f"{name}-cache:{given.cache_folder}" in services[name]["volumes"]
        variables = [each for each in services[name]["environment"] if each.startswith("SONDE_")]
        known = {f"SONDE_{setting.upper()}" for setting in RULES} | {"SONDE_TEAM_SECRET"}
        assert set(variables) <= known
    written = re.findall(r"\$\{(\w+)", (TEAM / "compose.yaml").read_text())
    assert set(written) == set(
        re.findall(r"^(\w+)=", (TEAM / "env.example").read_text(), re.MULTILINE)
    )
    assert not re.search(
        r"^\w+(SECRET|PASSWORD|KEY)=.", (TEAM / "env.example").read_text(), re.MULTILINE
    )


def test_the_balancer_knows_both_servers_and_the_size_of_uploads() -> None:
    text = (TEAM / "nginx.conf").read_text()
    assert re.findall(r"server (\w+):8420", text) == ["one", "two"]
    assert "client_max_body_size 257m;" in text
    assert text.count("{") == text.count("}")


def test_the_example_of_who_sees_what_is_one() -> None:
    rules = RepositoryAccess(TEAM / "access.example.toml")
    assert rules.provider == ProviderSettings(
        "https://login.example.org", "sonde", "SONDE_TEAM_SECRET", "email", "groups"
    )
    assert rules.allows("anna@example.org", (), "acme/infra-dns")
    assert not rules.allows("bert@example.org", (), "acme/infra-dns")
    assert rules.allows("bert@example.org", ("developers",), "acme/infra-dns")
    assert rules.allows("bert@example.org", (), "acme/handbook")


def test_the_unit_starts_a_server_with_options_that_exist() -> None:
    text = (TEAM / "sonde@.service").read_text()
    line = re.search(r"^ExecStart=\S+ (.*)$", text, re.MULTILINE)
    assert line
    given = parse_arguments(shlex.split(line[1].replace("%i", "8421")))
    assert (given.command, given.port, given.serve_from) == ("serve", 8421, "${SONDE_INDEX}")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    units = [shutil.copy(path, tmp_path) for path in TEAM.glob("sonde*.*") if path.suffix != ".md"]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True)
    said = [each for each in done.stderr.splitlines() if "is not executable" not in each]
    assert not [each for each in said if "sonde" in each], done.stderr
