"""Services that are slow, busy, broken or nosy."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.embedding_servers import OpenAIServer
from tests.loopback import running

from sonde.embedding.server import EmbeddingServer
from sonde.embedding.services import EndpointEmbedder, OpenAIEmbedder, Patience, is_loopback
from sonde.embedding.static import StaticEmbedder
from sonde.errors import EmbeddingFailed
from sonde.settings import read_key

KEY = "sk-very-secret-0123456789"
QUICK = {"query": Patience(5.0, 2, 0.001), "passage": Patience(5.0, 4, 0.001)}


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with running(OpenAIServer(StaticEmbedder())) as started:
        yield started


def connect(server: OpenAIServer, **options: Any) -> OpenAIEmbedder:
    given = {"model": "m", "patience": QUICK, "read_key": lambda: KEY} | options
    return OpenAIEmbedder(server.address, **given)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_service_is_asked_again(server: OpenAIServer, status: int) -> None:
    server.replies = [(status, {"Retry-After": "0.01"}, {})] * 3
    assert connect(server).embed(["walrus"], "passage")[0].any()
    assert len(server.seen) == 4


@pytest.mark.parametrize(("mode", "tries"), [("query", 2), ("passage", 4)])
def test_patience_ends_sooner_when_somebody_waits(
    server: OpenAIServer, mode: Any, tries: int
) -> None:
    server.replies = [(503, {}, {})] * 9
    with pytest.raises(EmbeddingFailed, match="503"):
        connect(server).embed(["walrus"], mode)
    assert len(server.seen) == tries


@pytest.mark.parametrize("answer", [b"[" * 99_000, b'"error"', b"[]", b'{"error": []}'])
def test_an_error_in_an_odd_shape_is_an_error(server: OpenAIServer, answer: bytes) -> None:
    server.replies = [(400, {}, answer)]
    with pytest.raises(EmbeddingFailed, match="400"):
        connect(server).embed(["walrus"], "passage")


@pytest.mark.parametrize("status", [400, 401, 404])
def test_what_cannot_get_better_is_not_repeated(server: OpenAIServer, status: int) -> None:
    server.replies = [(status, {}, {"error": {"code": "model_not_found"}})]
    with pytest.raises(EmbeddingFailed, match=f"{status} .model_not_found"):
        connect(server).embed(["walrus"], "passage")
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        b"[" * 200_000,
        [],
        {},
        {"data": [{"index": 1, "embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": ["x"]}]},
        {"data": [{"index": 0, "embedding": [float("nan")]}]},
        {"data": []},
        {"data": None},
    ],
)
def test_an_answer_in_another_shape_is_an_error(server: OpenAIServer, answer: Any) -> None:
    server.replies = [(200, {}, answer)]
    with pytest.raises(EmbeddingFailed):
        connect(server).embed(["walrus"], "query")


def test_texts_go_in_bounded_batches_and_dimensions_only_if_asked_for(server: OpenAIServer) -> None:
    connect(server, dimensions=100).embed(["walrus " * 9_000] * 70, "passage")
    bodies = [body for _, _, body in server.seen]
    assert sum(len(body["input"]) for body in bodies) == 70
    assert max(len(body["input"]) for body in bodies) <= 64
    assert max(len(text) for body in bodies for text in body["input"]) <= 16_000
    assert {body["dimensions"] for body in bodies} == {100}
    server.seen.clear()
    connect(server).embed(["walrus"], "query")
    assert "dimensions" not in server.seen[0][2]
    assert server.seen[0][0] == "/v1/embeddings"
    assert server.seen[0][1]["Authorization"] == f"Bearer {KEY}"


def test_a_key_is_in_no_error_and_no_log(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    embedder = connect(server)
    said = {"error": {"code": KEY, "message": f"Incorrect API key provided: {KEY}"}}
    server.replies = [(401, {}, said), (200, {}, KEY.encode())]
    for _ in range(2):
        with pytest.raises(EmbeddingFailed) as caught:
            embedder.embed(["walrus"], "query")
        told = [*caught.value.as_dict().values(), str(caught.value), repr(caught.value)]
        assert KEY not in " ".join(map(str, told))
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
    assert KEY not in caplog.text
    assert KEY not in repr(vars(embedder))


def test_nobody_is_sent_on_to_another_address(server: OpenAIServer) -> None:
    with running(OpenAIServer(StaticEmbedder())) as other:
        for status in (301, 302, 303, 307, 308):
            server.replies = [(status, {"Location": f"{other.address}/embeddings"}, {})]
            with pytest.raises(EmbeddingFailed, match=str(status)):
                connect(server).embed(["walrus"], "query")
        assert other.seen == []


@pytest.mark.row("003-C59")
def test_a_service_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/embed"
        asking = {"query": Patience(0.05, 2, 0.001)}
        with pytest.raises(EmbeddingFailed):
            EndpointEmbedder(address, 3, patience=asking).embed(["walrus"], "query")  # type: ignore[arg-type]


def test_a_service_is_held_to_its_model() -> None:
    with running(EmbeddingServer(StaticEmbedder(), 0)) as plain:
        named = EndpointEmbedder(plain.address, 256, model="another")
        with pytest.raises(EmbeddingFailed, match="another"):
            named.embed(["walrus"], "query")
        with pytest.raises(EmbeddingFailed, match="384"):
            EndpointEmbedder(plain.address, 384).embed(["walrus"], "query")


def test_a_model_that_changes_behind_its_address_changes_the_name(
    server: OpenAIServer, tmp_path: Path
) -> None:
    place = tmp_path / "home" / "services.json"
    embedder = connect(server, place=place)
    embedder.embed(["walrus"], "query")
    before = embedder.name
    assert before.endswith("/m@256")
    assert connect(server, place=place).name == before  # known at the next start, without asking
    for answer in (
        {"data": [{"index": 0, "embedding": [1.0, 2.0]}], "model": "m"},
        {"data": [{"index": 0, "embedding": [1.0] * 256}], "model": "another"},
    ):
        server.replies = [(200, {}, answer)]
        embedder.embed(["walrus"], "query")
        assert embedder.name != before
        assert connect(server, place=place).name == embedder.name
    embedder.embed(["walrus"], "query")
    assert embedder.name == before


def test_a_key_goes_only_where_it_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OTHER", "other")
    assert read_key("", "") == KEY
    assert read_key("", "https://api.openai.com/v1") == KEY
    assert read_key("", "https://elsewhere.example/v1") == ""
    assert read_key("", "https://api.openai.com.example/v1") == ""
    assert read_key("OTHER", "https://elsewhere.example/v1") == "other"
    assert read_key("OTHER", "http://127.0.0.1:8000/v1") == "other"
    with pytest.raises(EmbeddingFailed, match="clear"):
        read_key("OTHER", "http://elsewhere.example/v1")
    monkeypatch.setenv("OTHER", f"{KEY}\nX: y")
    with pytest.raises(EmbeddingFailed) as caught:
        read_key("OTHER", "https://elsewhere.example/v1")
    assert KEY not in str(caught.value.as_dict())
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(EmbeddingFailed, match="OPENAI_API_KEY"):
        read_key("", "")


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("http://127.0.0.1:1/embed", True),
        ("http://localhost/embed", True),
        ("http://[::1]:8121/embed", True),
        ("http://localhost.example/embed", False),
        ("http://10.0.0.1/embed", False),
    ],
)
def test_which_addresses_are_here(address: str, here: bool) -> None:
    assert is_loopback(address) is here
