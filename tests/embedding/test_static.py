from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.embedding.static import StaticEmbedder

TEXTS = [
    "def read_file(path):\n    with open(path) as file:\n        return file.read()",
    "class HttpClient:\n    def sendRequest(self, url): ...",
    "Bake the bread for forty minutes in a hot oven.",
    "SELECT name FROM users WHERE id = ?",
]


@pytest.fixture(scope="module")
def static() -> StaticEmbedder:
    return StaticEmbedder()


@settings(max_examples=200)
@given(texts=st.lists(st.text(max_size=60), max_size=6))
def test_every_row_is_a_unit_vector_or_zero_and_its_own(
    static: StaticEmbedder, texts: list[str]
) -> None:
    vectors = static.embed(texts, "passage")
    assert vectors.shape == (len(texts), static.dimensions)
    assert vectors.dtype == np.float32
    for vector, text in zip(vectors, texts, strict=True):
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5) or not vector.any()
        assert static.embed([text], "query")[0].tobytes() == vector.tobytes()


@settings(max_examples=50)
@given(words=st.lists(st.sampled_from(["file", "readLine", "HTTP", "é", "漢字"]), min_size=1))
def test_order_and_repetition_do_not_matter(static: StaticEmbedder, words: list[str]) -> None:
    one, other = static.embed([" ".join(words), " ".join(reversed(words * 2))], "passage")
    np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("load the contents of a file from disk", 0),
        ("make a web request", 1),
        ("cooking recipe", 2),
        ("database query for a user", 3),
    ],
)
def test_a_question_is_nearest_to_its_answer(
    static: StaticEmbedder, question: str, answer: int
) -> None:
    scores = static.embed(TEXTS, "passage") @ static.embed([question], "query")[0]
    assert int(scores.argmax()) == answer


@pytest.mark.parametrize("text", ["", "   \n\t", "!?…", "\ud800"])
def test_a_text_without_words_gives_a_zero_row(static: StaticEmbedder, text: str) -> None:
    assert not static.embed([text], "passage").any()


@pytest.mark.parametrize("text", ["漢字", "привет мир", "πρόγραμμα"])
def test_other_scripts_have_vectors(static: StaticEmbedder, text: str) -> None:
    assert static.embed([text], "query").any()


def test_identifiers_and_their_words_are_the_same(static: StaticEmbedder) -> None:
    one, other = static.embed(["getHTTPResponse", "get http response"], "query")
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_several_threads_get_the_same_vectors() -> None:
    static = StaticEmbedder()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: static.embed(TEXTS, "passage"), range(8)))
    for result in results:
        np.testing.assert_array_equal(result, results[0])


def test_a_closed_model_loads_again() -> None:
    static = StaticEmbedder()
    before = static.embed(TEXTS, "query")
    static.close()
    np.testing.assert_array_equal(before, static.embed(TEXTS, "query"))


def test_nothing_heavier_than_numpy_is_imported() -> None:
    code = (
        "import sys; from sonde.embedding.base import load_provider;"
        "load_provider('static').embed(['a file'], 'query');"
        "assert not {'onnxruntime', 'tokenizers', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
