"""What looks like a secret is listed with how to allow it, and what is allowed is indexed."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from pathlib import Path

import pytest

from sonde.app import App
from sonde.runtime.work import Work
from sonde.tools.code import cortex_search, search_code
from sonde.tools.index import create_index, get_index_status

SECRET = "".join(random.Random(3).choices(string.ascii_letters + string.digits, k=40))


def make_project(root: Path) -> Path:
    files = {
        "pyproject.toml": "",
        "main.py": "def open_shop():\n    return 1\n",
        "settings.ini": f'walrus = 1\nAPI_SECRET = "{SECRET}"\n',
        "vendor/lib/walrus.py": "def walrus_vendored():\n    return 2\n",
        "prod.env": "WALRUS=1\n",
        ".env": "WALRUS=1\n",
        ".env.example": "WALRUS=\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def index(app: App) -> dict[str, dict[str, str]]:
    """Index the project; the files that the status says were left out."""
    create_index(app, work=Work())
    details = get_index_status(app, work=Work())["details"]
    return {each["path"]: each for each in details.get("skippedExamples", [])}


def find(app: App) -> set[str]:
    return {hit["path"] for hit in search_code(app, "walrus", work=Work())["results"]}


def test_everything_left_out_is_named_with_how_to_allow_it(
    open_app: Callable[..., App], tmp_path: Path
) -> None:
    app = open_app(start=make_project(tmp_path / "shop"))
    left_out = index(app)
    assert set(left_out) == {"settings.ini", "vendor", "prod.env", ".env"}
    assert left_out["settings.ini"]["detail"] == "secret on line 2"
    assert '"vendor/" to `allow`' in left_out["vendor"]["next"]
    assert '"prod.env" to `allow`' in left_out["prod.env"]["next"]
    assert "next" not in left_out[".env"]
    assert not any(SECRET in text for each in left_out.values() for text in each.values())
    assert {"main.py", ".env.example"} <= find(app) <= {"main.py", ".env.example", "pyproject.toml"}
    # compared again without being read, it says the same
    assert index(app) == left_out


def test_what_is_allowed_is_indexed_and_left_out_again_when_it_is_not(
    open_app: Callable[..., App], tmp_path: Path
) -> None:
    root = make_project(tmp_path / "shop")
    app = open_app(start=root)
    index(app)
    config = Path(get_index_status(app, work=Work())["details"]["config"])
    before = config.read_text()
    value = json.loads(before) | {"allow": ["vendor/", "settings.ini", "prod.env", ".env"]}
    config.write_text(json.dumps(value))
    again = open_app(start=root)
    assert set(index(again)) == {".env"}
    assert {"settings.ini", "prod.env", "vendor/lib/walrus.py"} <= find(again)
    config.write_text(before)
    last = open_app(start=root)
    assert set(index(last)) == {"settings.ini", "vendor", "prod.env", ".env"}
    assert not {"settings.ini", "prod.env", "vendor/lib/walrus.py"} & find(last)


@pytest.mark.row("003-C70")
def test_a_sample_of_settings_is_data_by_its_names_and_a_secret_in_it_keeps_it_out(
    open_app: Callable[..., App], tmp_path: Path
) -> None:
    root = make_project(tmp_path / "shop")
    (root / ".env.example").write_text("WALRUS_URL=http://walrus.test\n")
    (root / ".env.sample").write_text(f"WALRUS_TOKEN={SECRET}\n")
    app = open_app(start=root)
    assert ".env.sample" in index(app)
    found = cortex_search(app, "WALRUS", chunk_types=("data",), work=Work())["results"]
    chunk = found[0]["chunk"]
    assert (chunk["chunk_type"], chunk["title"]) == ("data", ".env.example")
    assert "WALRUS_URL" in chunk["text"]
    assert "http" not in chunk["text"]
