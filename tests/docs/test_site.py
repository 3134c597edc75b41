"""The web site holds every page once, and every link on it leads to a page of it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("site_pages")


def list_named(part: Any) -> list[str]:
    if isinstance(part, str):
        return [part]
    values = part.values() if isinstance(part, dict) else part
    return [name for value in values for name in list_named(value)]


def test_every_page_is_in_the_navigation_once(site: ModuleType) -> None:
    named = list_named(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    pages = [name for name in site.list_pages().values() if name.endswith(".md")]
    assert sorted(named) == sorted(pages)


def test_every_link_of_the_site_leads_to_a_page_of_it(site: ModuleType, tmp_path: Path) -> None:
    site.stage(site.list_pages(), tmp_path)
    for page in tmp_path.rglob("*.md"):
        text = re.sub(r"(?ms)^```.*?^```", "", page.read_text("utf-8"))
        for target in re.findall(r"\]\((?!https?:)([^)\s:#]+)", text):
            assert (page.parent / target).exists(), f"{page.relative_to(tmp_path)}: {target}"
    home = (tmp_path / "index.md").read_text("utf-8")
    assert "](tour.md)" in home
    assert "](SECURITY.md)" in home
    assert "](../knowledge.md)" in (tmp_path / "guides" / "notes.md").read_text("utf-8")


def test_what_is_loaded_from_elsewhere_is_noticed(site: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "good.html").write_text('<a href="https://x.org">x</a><img src="a.png">')
    (tmp_path / "bad.html").write_text('<script defer src="https://x.org/a.js"></script>')
    (tmp_path / "bad.css").write_text("@import url(//fonts.example.org/a)")
    assert [found.split(":")[0] for found in site.find_foreign(tmp_path)] == ["bad.css", "bad.html"]


def test_nothing_in_the_settings_names_another_host() -> None:
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "://" not in settings
    assert "font: false" in settings
