"""The two bundled models, each loaded once for a module of tests."""

from collections.abc import Iterator

import pytest

from sonde.embedding.onnx import OnnxEmbedder
from sonde.embedding.static import StaticEmbedder


@pytest.fixture(scope="module")
def static() -> StaticEmbedder:
    return StaticEmbedder()


@pytest.fixture(scope="module")
def deep() -> Iterator[OnnxEmbedder]:
    model = OnnxEmbedder(threads=1, idle_s=3600)
    yield model
    model.close()
