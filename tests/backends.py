"""The stores that tests run on, where they are installed."""

from __future__ import annotations

import importlib.util

import pytest

needs_lance = pytest.mark.skipif(
    importlib.util.find_spec("lancedb") is None, reason="needs sonde[lance]"
)
STORES = ["sqlite", pytest.param("lance", marks=needs_lance)]
