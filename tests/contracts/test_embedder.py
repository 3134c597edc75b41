"""What every `Embedder` must do, with real servers on loopback and the real bundled models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from tests.contracts.embedding_servers import OpenAIServer
from tests.embedding.model_folders import write_graph, write_tokenizer
from tests.loopback import running

from sonde.embedding import onnx
from sonde.embedding.base import DEEP_NAME, PROVIDERS, BackgroundEmbedder, Embedder, load_provider
from sonde.embedding.model import ModelEmbedder
from sonde.embedding.server import EmbeddingServer
from sonde.embedding.services import EndpointEmbedder, OpenAIEmbedder
from sonde.embedding.static import BUNDLED, map_array, read_vocabulary

TEXTS = [
    "def read_file(path):\n    with open(path) as file:\n        return file.read()",
    "class HttpClient:\n    def sendRequest(self, url): ...",
    "Bake the bread for forty minutes in a hot oven.",
    "",
    "SELECT name FROM users WHERE id = ?",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("embedding")


@pytest.fixture(scope="module")
def deep() -> onnx.OnnxEmbedder:
    return onnx.OnnxEmbedder(threads=1)


def write_own_model(folder: Path) -> None:
    """The bundled static table as a model of the user's: a graph, a tokenizer, no config."""
    rows = map_array(BUNDLED, "static-rows.npy").astype(np.float32)
    scales = map_array(BUNDLED, "static-scales.npy").astype(np.float32)
    write_graph(folder / "model.onnx", rows * scales[:, None])
    write_tokenizer(folder, read_vocabulary(BUNDLED, "static-vocab.txt"), framed=False)


@pytest.fixture(scope="module")
def makers(deep: onnx.OnnxEmbedder, folder: Path) -> Iterator[dict[str, Callable[[], Embedder]]]:
    own = folder / "own"
    write_own_model(own)
    apart = BackgroundEmbedder(lambda: None)
    with (
        running(EmbeddingServer(deep, 0)) as plain,
        running(OpenAIServer(deep)) as openai,
        closing(apart),
    ):
        yield {
            "static": lambda: load_provider("static"),
            "everyday": lambda: load_provider("everyday"),
            "deep": lambda: deep,
            "apart": lambda: apart,
            "http": lambda: EndpointEmbedder(plain.address, 384, "http:it", deep.name),
            "openai": lambda: OpenAIEmbedder(openai.address, "it"),
            "model": lambda: ModelEmbedder("own", folder, path=own, threads=1),
        }


@pytest.fixture(params=[*PROVIDERS, "apart"])
def embedder(request: pytest.FixtureRequest, makers: dict[str, Callable[[], Embedder]]) -> Embedder:
    return makers[request.param]()


@pytest.mark.row("003-C50")
def test_rows_are_unit_vectors_in_order_and_blank_text_is_zero(embedder: Embedder) -> None:
    vectors = embedder.embed(TEXTS, "passage")
    assert vectors.shape == (len(TEXTS), embedder.dimensions)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 0, 1], atol=1e-4)
    alone = np.concatenate([embedder.embed([text], "passage") for text in TEXTS])
    assert (vectors * alone).sum(1)[[0, 1, 2, 4]].min() > 0.98


def test_code_is_read_as_a_passage_or_nearly_so(embedder: Embedder) -> None:
    code, passages = embedder.embed(TEXTS, "code"), embedder.embed(TEXTS, "passage")
    assert code.shape == passages.shape
    np.testing.assert_allclose(np.linalg.norm(code, axis=1), [1, 1, 1, 0, 1], atol=1e-4)
    assert (code * passages).sum(1)[[0, 1, 4]].min() > 0.9


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("load the contents of a file", 0),
        ("make a web request", 1),
        ("cooking recipe", 2),
        ("query the database for a person", 4),
    ],
)
@pytest.mark.row("001-35")
def test_a_question_is_nearest_to_its_answer(
    embedder: Embedder, question: str, answer: int
) -> None:
    scores = embedder.embed(TEXTS, "passage") @ embedder.embed([question], "query")[0]
    assert int(scores.argmax()) == answer


def test_nothing_and_blanks_have_the_right_shape(embedder: Embedder) -> None:
    assert embedder.embed([], "query").shape == (0, embedder.dimensions)
    blank = embedder.embed(["", " \n"], "passage")
    assert blank.shape == (2, embedder.dimensions)
    assert not blank.any()


@pytest.mark.parametrize("text", ["漢字", "a \ud800 b", "x" * 300_000, "\x00\x01 word"])
def test_odd_texts_are_embedded_not_refused(embedder: Embedder, text: str) -> None:
    vectors = embedder.embed([text, TEXTS[0]], "passage")
    assert np.isfinite(vectors).all()
    assert vectors[1].any()


def test_more_texts_than_fit_one_request_come_back_in_order(embedder: Embedder) -> None:
    texts = [f"word{n % 7}" for n in range(150)]
    vectors = embedder.embed(texts, "passage")
    assert vectors.shape == (150, embedder.dimensions)
    for n in range(7, 150):
        assert float(vectors[n] @ vectors[n % 7]) > 0.98


def test_several_threads_get_the_same_vectors(embedder: Embedder) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: embedder.embed(TEXTS, "passage"), range(4)))
    for result in results:
        np.testing.assert_allclose(result, results[0], atol=1e-6)


def test_a_closed_one_answers_again(embedder: Embedder) -> None:
    before = embedder.embed(TEXTS[:1], "query")
    embedder.close()
    assert embedder.is_loaded is False
    np.testing.assert_allclose(before, embedder.embed(TEXTS[:1], "query"), atol=1e-6)


def test_the_same_vectors_have_the_same_name_and_no_others(
    makers: dict[str, Callable[[], Embedder]],
) -> None:
    names = {name: make().name for name, make in makers.items()}
    assert all(names.values())
    assert names["apart"] == names["deep"] == DEEP_NAME
    assert len(set(names.values())) == len(names) - 1


def test_another_process_gives_the_vectors_of_the_model(
    makers: dict[str, Callable[[], Embedder]], deep: onnx.OnnxEmbedder
) -> None:
    ours, theirs = deep.embed(TEXTS, "passage"), makers["apart"]().embed(TEXTS, "passage")
    np.testing.assert_allclose((ours * theirs).sum(1), [1, 1, 1, 0, 1], atol=1e-3)


def test_nobody_is_called_before_the_first_text() -> None:
    unreachable = "http://127.0.0.1:1"
    assert load_provider("openai", address=unreachable, model="m").name == "openai:127.0.0.1:1/m"
    assert load_provider("http", address=unreachable, dimensions=3, name="n").dimensions == 3
