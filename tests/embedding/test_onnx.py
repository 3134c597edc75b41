"""The bundled deep model: what the contract of embedders does not say of it."""

from __future__ import annotations

import itertools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.waiting import wait_until

from sonde.embedding.base import plan_batches
from sonde.embedding.onnx import OnnxEmbedder


@pytest.fixture(scope="module")
def deep() -> OnnxEmbedder:
    return OnnxEmbedder(threads=1)


def test_a_very_long_text_is_cut_not_refused(deep: OnnxEmbedder) -> None:
    long = "open the file and read every line of it " * 5_000
    vectors = deep.embed([long, long[:20_000]], "query")
    np.testing.assert_array_equal(vectors[0], vectors[1])


def test_threads_that_load_the_model_at_once_get_the_same_vectors() -> None:
    deep, texts = OnnxEmbedder(threads=1), ["class HttpClient: ...", "A quick brown fox.", ""]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: deep.embed(texts, "passage"), range(4)))
    for result in results:
        np.testing.assert_array_equal(result, results[0])


def test_the_runtime_is_imported_on_first_use_only() -> None:
    code = (
        "import sys; from sonde.embedding.base import load_provider; load_provider('deep');"
        "assert 'onnxruntime' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_closing_gives_the_memory_back() -> None:
    code = (
        "from sonde.embedding.onnx import OnnxEmbedder\n"
        "def megabytes(): return int(open('/proc/self/statm').read().split()[1]) * 4096 / 1e6\n"
        "model = OnnxEmbedder(threads=1)\n"
        "model.embed(['open the file and read every line ' * 40] * 8, 'passage')\n"
        "loaded = megabytes(); model.close(); closed = megabytes()\n"
        "assert loaded < 200, loaded\n"
        "assert closed < loaded - 30, (loaded, closed)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@given(st.lists(st.integers(0, 254), max_size=200))
@settings(max_examples=100)
@pytest.mark.row("001-94")
def test_batches_hold_every_text_with_pieces_once_within_bounds(lengths: list[int]) -> None:
    batches = list(plan_batches(lengths))
    rows = sorted(row for batch in batches for row in batch)
    assert rows == [row for row, length in enumerate(lengths) if length]
    for batch in batches:
        assert len(batch) <= 32
        assert lengths[batch[-1]] == max(lengths[row] for row in batch)
        assert len(batch) == 1 or len(batch) * (lengths[batch[-1]] + 2) <= 1024
    for batch, following in itertools.pairwise(batches):  # and each is as full as it may be
        assert len(batch) == 32 or (len(batch) + 1) * (lengths[following[0]] + 2) > 1024


def test_a_model_that_nobody_uses_lets_go_of_its_memory_and_comes_back() -> None:
    embedder = OnnxEmbedder(idle_s=0.2)
    first = embedder.embed(["walrus"], "query")
    wait_until(lambda: not embedder.is_loaded, "its memory is free")
    assert np.array_equal(embedder.embed(["walrus"], "query"), first)
    embedder.close()
