"""The deny list: complete, in any disguise, and shown to users as it is."""

from __future__ import annotations

import pytest

from sonde.policy.admit import Rules, compile_rules, find_denied
from sonde.policy.deny_list import DENY_LIST, has_binary_suffix, public_deny_list

SENSITIVE = compile_rules(Rules(folds_case=False))
FOLDING = compile_rules(Rules(folds_case=True))


@pytest.mark.parametrize(
    "name",
    [
        "node_modules", "jspm_packages", "bower_components", "vendor", ".venv", "venv", ".git",
        ".hg", ".svn", "dist", "build", "out", "target", "__pycache__", ".next", ".nuxt", ".idea",
        ".vscode", "coverage", ".nyc_output", ".pytest_cache", ".ssh", ".aws", ".env",
    ],
)  # fmt: skip
@pytest.mark.row("001-61", "001-62", "001-63", "001-66", "001-67")
def test_these_folders_are_denied(name: str) -> None:
    assert SENSITIVE.find_denial(name, folder=True)


@pytest.mark.parametrize(
    "name",
    [
        ".env", ".env.local", "server.pem", "a.key", "a.p12", "a.pfx", "x.log",
        "Cargo.lock", "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "Gemfile.lock",
        "poetry.lock", ".DS_Store", "a.swp", ".a.py.swo", ".git", "id_rsa", "id_ed25519", ".netrc",
        "credentials", "debug.keystore", ".envrc", "client_secret_7.json", ".zsh_history",
    ],
)  # fmt: skip
@pytest.mark.row("001-64", "001-65")
def test_these_files_are_denied(name: str) -> None:
    assert SENSITIVE.find_denial(name, folder=False)


@pytest.mark.parametrize(
    "name",
    [
        "env.py", "keys.py", ".npmrc", "client_secret_test.go", "release_history.txt", "notes.txt",
        "pem.md", "monkey", "a.keys", "dist", "build", "id_rsa.pub",
        "locked.py", "vendor", "log", "blog.md", "gitignore", ".gitignore", ".github", "environ",
    ],
)  # fmt: skip
def test_these_files_are_not(name: str) -> None:
    assert SENSITIVE.find_denial(name, folder=False) is None


@pytest.mark.parametrize("name", ["credentials", "src", "builds", "envs", ".github", "logs.log"])
def test_these_folders_are_not(name: str) -> None:
    assert SENSITIVE.find_denial(name, folder=True) is None


@pytest.mark.parametrize(
    "name",
    [
        ".ENV", ".Env.Local", "SERVER.PEM", "ID_RSA", ".e\u200bnv", ".env\u202e", "\ufeff.env",
        "a.\u2066key", ".env ", ".env.", "a.pem. .", ".E\u200dNV", ".env\ufe0f", ".env\U000e0020",
        ".env\u115f", ".env\u3164", ".env\u180b", ".env\x7f", ".env\u00a0", ".en\u2800v",
    ],
)  # fmt: skip
@pytest.mark.row("001-80", "001-82")
def test_no_disguise_hides_a_secret(name: str) -> None:
    assert "secrets" in (SENSITIVE.find_denial(name, folder=False) or "")


@pytest.mark.parametrize(
    "name",
    [
        ".env~", ".env_old", "#.env#", ".#.env", "Copy of .env", "id_rsa.bak", "id_rsa.old",
        "x.pem.bak", "server.key.txt", "prod.env.2024", "credentials (1)", "x.tfstate.17.backup",
    ],
)  # fmt: skip
def test_a_copy_of_a_secret_is_that_secret(name: str) -> None:
    assert "secrets" in (SENSITIVE.find_denial(name, folder=False) or "")


@pytest.mark.row("003-C70")
@pytest.mark.parametrize(
    "name",
    [
        ".env.example", ".env.sample", ".env.local.example", ".env.template", "example.env",
        "prod.sample.env", "secrets.example.yml", "terraform.tfvars.example", ".envrc.dist",
    ],
)  # fmt: skip
def test_a_sample_of_settings_is_admitted_by_name(name: str) -> None:
    assert SENSITIVE.find_denial(name, folder=False) is None


@pytest.mark.parametrize("name", ["example.pem", "sample.key", "example-com.key", "example.p12"])
def test_a_key_is_a_secret_whatever_it_is_a_sample_of(name: str) -> None:
    assert SENSITIVE.find_denial(name, folder=False)


def test_hashes_of_passwords_are_a_secret_except_in_tests() -> None:
    assert find_denied("www/.htpasswd")
    assert find_denied("www/.htpasswd.bak")
    assert find_denied("tests/.env")
    assert find_denied("tests/data/.htpasswd") is None
    assert find_denied("server/test-resources/testdata/.htpasswd") is None


def test_allow_admits_what_the_list_has_beyond_the_specification_and_nothing_else() -> None:
    given = ("vendor/", "prod.env", ".env", "*.pem", "node_modules/")
    gate = compile_rules(Rules(allow=given))
    for name in ("vendor", "prod.env"):
        folder = name == "vendor"
        assert gate.find_denial(name, folder=folder, path=f"a/{name}") is None
        assert SENSITIVE.find_denial(name, folder=folder, path=f"a/{name}")
    assert gate.find_denial("dev.env", folder=False, path="dev.env")
    assert gate.find_denial(".env", folder=False, path=".env")
    assert gate.find_denial("a.pem", folder=False, path="a.pem")
    assert gate.find_denial("node_modules", folder=True, path="node_modules")


def test_other_rows_fold_case_where_the_file_system_does() -> None:
    assert FOLDING.find_denial("Node_Modules", folder=True)
    assert SENSITIVE.find_denial("Node_Modules", folder=True) is None
    assert FOLDING.find_denial("gemfile.LOCK", folder=False)
    assert SENSITIVE.find_denial("Build", folder=True) is None


def test_users_are_shown_every_pattern() -> None:
    shown = "\n".join(public_deny_list())
    assert all(pattern in shown for row in DENY_LIST for pattern in row.patterns)
    assert all(line.startswith("// ") for line in public_deny_list())


@pytest.mark.row("001-75")
def test_only_a_suffix_makes_a_name_binary() -> None:
    assert has_binary_suffix("logo.PNG")
    assert not has_binary_suffix("node")
    assert not has_binary_suffix("png.py")
