"""ARCHITECTURE.md names files that exist, and every module."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "sonde"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()


def test_every_file_it_names_exists():
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", PAGE))
    assert len(named) > 30
    missing = {name for name in named if not any((root / name).exists() for root in (SOURCE, ROOT))}
    assert missing == set()


def test_every_module_has_a_row():
    rows = set(re.findall(r"(?m)^\| `([a-z0-9_]+\.py)` \| \S", PAGE))
    modules = {path.name for path in SOURCE.rglob("*.py")} - {"__init__.py"}
    assert modules - rows == set()
