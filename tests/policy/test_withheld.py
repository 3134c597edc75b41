"""Source and documents are read without the lines of their secrets, and nothing shows those."""

from __future__ import annotations

import base64
import json
import random
import string
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.policy.secret_kinds import list_variants
from tests.policy.test_secrets import SECRETS, make_key, make_random

from sonde.app import App
from sonde.policy.secrets import secret_in, withhold_secrets
from sonde.projects.index import read_current_text
from sonde.runtime.work import Work
from sonde.tools.code import search_code, search_docs
from sonde.tools.index import create_index, get_index_status
from sonde.tools.pages import regex_search

BEFORE, AFTER = "how walruses are fed\n", "\nwhere walruses sleep\n"


def withhold(secret: str, path: str) -> str | None:
    kept, found = withhold_secrets(f"{BEFORE}{secret}{AFTER}", path)
    assert (kept is None) <= bool(found)
    return kept


@pytest.mark.parametrize("path", ["docs/guide.md", "src/main.go", "docs/page.rst", "test_a.py"])
@pytest.mark.parametrize("name", SECRETS)
def test_no_line_of_a_secret_is_kept_and_every_other_line_is(name: str, path: str) -> None:
    secret = SECRETS[name]
    kept = withhold(secret, path)
    if kept is None:
        return
    assert kept.startswith(BEFORE)
    assert kept.endswith(AFTER)
    assert kept.count("\n") == f"{BEFORE}{secret}{AFTER}".count("\n")
    assert secret_in(kept, path) is None
    for word in secret.split():
        assert len(word) < 16 or word not in kept


def test_of_each_kind_that_is_found_nothing_is_kept() -> None:
    checked = 0
    for variant in list_variants():
        for path in ("a.md", "a.py", variant.path):
            if variant.value and secret_in(variant.text, path):
                kept = withhold(variant.text, path)
                assert kept is None or variant.value not in kept, (variant.kind, path)
                checked += kept is not None
    assert checked > 1_500


@pytest.mark.parametrize(
    "path", ["a.yml", "a.json", "a.toml", "a.ini", "a.conf", "a.xml", "a.csv", "a.txt", "a.ipynb",
             "README", "a", "a.properties", ".npmrc"],
)  # fmt: skip
def test_settings_data_and_notes_stay_out_as_a_whole(path: str) -> None:
    assert withhold(SECRETS["GitHub token"], path) is None


def test_what_may_go_on_beyond_its_lines_stays_out_as_a_whole() -> None:
    key = make_key("RSA PRIVATE KEY")
    encoded = base64.b64encode(key.encode()).decode()
    vault = "$ANSIBLE_VAULT;1.1;AES256\n" + make_random(80, "0123456789abcdef")
    calls = "\n".join(f'add("{line}");' for line in key.splitlines())
    for secret in (key.rpartition("-----END")[0], encoded, vault, key[:-40]):
        assert withhold(secret, "a.md") is None
    assert SECRETS["AWS access key"].split()[-1] not in (withhold(calls, "a.go") or "")


def test_a_value_that_was_split_is_left_out_with_all_its_parts() -> None:
    parts = [make_random(40) for _ in range(4)]
    joined = " \\\n    ".join(parts).replace(" \\", "\\")
    quoted = "'\n  + '".join(parts)
    for secret in (f"TOKEN={joined}", f"token = '{quoted}'", "api_key: " + "\n".join(parts)):
        kept = withhold(secret, "a.md")
        assert kept is None or not any(part in kept for part in parts), kept


def test_a_value_is_left_out_wherever_it_is_repeated() -> None:
    value = make_random(40)
    kept = withhold(f"API_SECRET = '{value}'\n\nsee {value} above, or x{value}y", "a.md")
    assert kept is not None
    assert value not in kept


@pytest.mark.parametrize(
    "weak", ["password = 'summer2019'", "db_password: Hunter22", "PASSWORD=abc123", "pwd: 'q1w2e3'"]
)
def test_next_to_a_secret_a_weak_one_is_left_out_as_well(weak: str) -> None:
    assert secret_in(weak) is None
    kept = withhold(f"{SECRETS['GitHub token']}\n\n{weak}\n", "settings.py")
    assert kept is not None
    assert weak.rsplit(maxsplit=1)[-1] not in kept


def test_next_to_a_secret_prose_and_code_about_passwords_stay() -> None:
    prose = "The password: required. A token is sent.\npassword = get_password()\ntoken: str,"
    kept = withhold(f"{prose}\n\n{SECRETS['GitHub token']}", "a.py")
    assert kept is not None
    assert prose in kept


def test_a_list_of_secrets_stays_out_and_takes_no_time() -> None:
    lines = "\n".join(f"key {at}: " + "AKIA" + make_random(16, "QWRTZPSDFGHJKLYXCVBNM234567")
                      for at in range(20_000))  # fmt: skip
    started = time.process_time()
    assert withhold(lines, "a.md") is None
    assert time.process_time() - started < 2.0


def test_no_surface_shows_what_was_left_out(open_app: Callable[..., App], tmp_path: Path) -> None:
    value = "".join(random.Random(5).choices(string.ascii_letters + string.digits, k=40))
    root = tmp_path / "shop"
    text = f"Walruses\n========\n\nSettings of walruses::\n\n    WALRUS_SECRET='{value}'\n\nFish.\n"
    for name in ("docs/walrus.rst", "walrus.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "pyproject.toml").write_text("")
    app = open_app(start=root)

    def show(question: str) -> str:
        def ask(verb: Callable[..., Any]) -> str:
            return json.dumps(verb(app, question, work=Work()))

        return "".join(map(ask, (search_code, search_docs, regex_search)))

    unindexed = show(value[:20]) + show("WALRUS_SECRET.*") + show("walruses")
    create_index(app, work=Work())
    status = json.dumps(get_index_status(app, work=Work()))
    answers = (
        show(value[:20]) + show("Settings of walruses") + show("Fish") + show("^.*left out.*$")
    )
    assert "docs/walrus.rst" in answers
    assert "walrus.py" in answers
    assert "secret on line 6" in status
    read = read_current_text(app.workspace, str(root), "docs/walrus.rst")
    assert "[secret left out]" in read
    stored = b"".join(p.read_bytes() for p in app.workspace.home.rglob("*") if p.is_file())
    for shown in (unindexed, status, answers, read):
        assert value[20:] not in shown
    assert value.encode() not in stored
