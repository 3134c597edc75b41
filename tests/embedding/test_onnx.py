from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.waiting import wait_until

from sonde.embedding.onnx import OnnxEmbedder, plan_batches

TEXTS = [
    "def read_file(path):\n    with open(path) as file:\n        return file.read()",
    "class HttpClient:\n    def sendRequest(self, url): ...",
    "The quick brown fox jumps over the lazy dog.",
    "",
    "SELECT name FROM users WHERE id = ?",
]


@pytest.fixture(scope="module")
def deep() -> OnnxEmbedder:
    return OnnxEmbedder(threads=1)


def test_rows_are_unit_vectors_in_order_and_empty_text_is_zero(deep: OnnxEmbedder) -> None:
    vectors = deep.embed(TEXTS, "passage")
    assert vectors.shape == (len(TEXTS), deep.dimensions)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 0, 1], atol=1e-4)
    alone = np.concatenate([deep.embed([text], "passage") for text in TEXTS])
    assert (vectors * alone).sum(1)[[0, 1, 2, 4]].min() > 0.98


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("load the contents of a file from disk", 0),
        ("make a web request", 1),
        ("an animal leaps", 2),
        ("query the database for a person", 4),
    ],
)
def test_a_question_is_nearest_to_its_answer(
    deep: OnnxEmbedder, question: str, answer: int
) -> None:
    scores = deep.embed(TEXTS, "passage") @ deep.embed([question], "query")[0]
    assert int(scores.argmax()) == answer


def test_no_text_gives_no_row(deep: OnnxEmbedder) -> None:
    assert deep.embed([], "query").shape == (0, deep.dimensions)


def test_a_very_long_text_is_cut_not_refused(deep: OnnxEmbedder) -> None:
    long = "open the file and read every line of it " * 5_000
    vectors = deep.embed([long, long[:20_000]], "query")
    np.testing.assert_array_equal(vectors[0], vectors[1])


def test_several_threads_get_the_same_vectors() -> None:
    deep = OnnxEmbedder(threads=1)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: deep.embed(TEXTS, "passage"), range(4)))
    for result in results:
        np.testing.assert_array_equal(result, results[0])


def test_a_closed_model_loads_again() -> None:
    deep = OnnxEmbedder(threads=1)
    before = deep.embed(TEXTS[:1], "query")
    deep.close()
    np.testing.assert_array_equal(before, deep.embed(TEXTS[:1], "query"))


def test_the_runtime_is_imported_on_first_use_only() -> None:
    code = (
        "import sys; from sonde.embedding.providers import load_provider; load_provider('deep');"
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
@settings(max_examples=100, deadline=None)
def test_batches_hold_every_text_with_pieces_once_within_bounds(lengths: list[int]) -> None:
    batches = list(plan_batches(lengths))
    rows = sorted(row for batch in batches for row in batch)
    assert rows == [row for row, length in enumerate(lengths) if length]
    for batch in batches:
        assert len(batch) <= 32
        assert lengths[batch[-1]] == max(lengths[row] for row in batch)
        assert len(batch) == 1 or len(batch) * (lengths[batch[-1]] + 2) <= 1024


def test_a_model_that_nobody_uses_lets_go_of_its_memory_and_comes_back() -> None:
    embedder = OnnxEmbedder(idle_s=0.2)
    first = embedder.embed(["walrus"], "query")
    wait_until(lambda: not embedder.is_loaded, "its memory is free")
    assert np.array_equal(embedder.embed(["walrus"], "query"), first)
    embedder.close()
