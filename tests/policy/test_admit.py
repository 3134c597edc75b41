"""The deny list: complete, in any disguise, and shown to users as it is."""

from __future__ import annotations

import pytest

from sonde.policy.admit import DENY_LIST, Rules, compile_rules, has_binary_suffix, public_deny_list

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
        ".env", ".env.local", ".env.example", "server.pem", "a.key", "a.p12", "a.pfx", "x.log",
        "Cargo.lock", "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "Gemfile.lock",
        "poetry.lock", ".DS_Store", "a.swp", ".a.py.swo", ".git", "id_rsa", "id_ed25519", ".netrc",
        ".npmrc", "credentials", "debug.keystore",
    ],
)  # fmt: skip
@pytest.mark.row("001-64", "001-65")
def test_these_files_are_denied(name: str) -> None:
    assert SENSITIVE.find_denial(name, folder=False)


@pytest.mark.parametrize(
    "name",
    [
        "env.py", ".envrc", "keys.py", "pem.md", "monkey", "a.keys", "dist", "build", "id_rsa.pub",
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
        "a.\u2066key", ".env ", ".env.", "a.pem. .", ".E\u200dNV",
    ],
)  # fmt: skip
@pytest.mark.row("001-80", "001-82")
def test_no_disguise_hides_a_secret(name: str) -> None:
    assert "secrets" in (SENSITIVE.find_denial(name, folder=False) or "")


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
