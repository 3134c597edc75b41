"""A provider that was named: its vectors are used, its failure is told, its change is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.embedding_servers import OpenAIServer
from tests.loopback import running

from sonde.app import App
from sonde.embedding.server import EmbeddingServer
from sonde.embedding.static import StaticEmbedder
from sonde.errors import EmbeddingFailed, InvalidRequest
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.tools.code import cortex_search, search_code
from sonde.tools.index import create_index, get_index_status
from sonde.wiring import build_app


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / "oven.py").write_text("def bake(bread):\n    '''Bake bread in an oven.'''\n")
    (root / "net.py").write_text("class HttpClient:\n    def send_request(self, url): ...\n")
    return root


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with running(OpenAIServer(StaticEmbedder())) as started:
        yield started


class Apps:
    """Starts the product under settings, one after the other."""

    def __init__(self, project: Path, home: Path) -> None:
        self.project, self.home = project, home
        self.opened: list[App] = []

    def start(self, **settings: Any) -> App:
        for app in self.opened:
            app.close()
        given = load_settings({}, home=self.home, assume_yes=True, **settings)
        self.opened = [build_app(given, start=self.project)]
        return self.opened[0]


@pytest.fixture
def apps(project: Path, tmp_path: Path) -> Iterator[Apps]:
    made = Apps(project, tmp_path / "home")
    yield made
    made.start(embedding="none").close()


def ask(app: App, query: str = "bake", **arguments: Any) -> tuple[list[str], str]:
    answer = search_code(app, query=query, work=Work(), **arguments)
    paths = [row["path"] for row in answer["results"]]
    return paths, str(answer["metadata"].get("note", ""))


def test_a_named_service_embeds_the_index_and_the_question(
    apps: Apps, server: OpenAIServer
) -> None:
    app = apps.start(embedding="openai", embedding_endpoint=server.address, embedding_model="m")
    create_index(app, work=Work())
    status = get_index_status(app, work=Work())
    assert status["details"]["vectors"] == {f"openai:127.0.0.1:{server.server_port}/m@256": "2/2"}
    assert "otherModel" not in status["details"]
    ask(app, "send", mode="semantic")  # what similarities mean is measured once
    before = len(server.seen)
    paths, note = ask(app, "send a web request over the network", mode="semantic")
    assert paths[0] == "net.py"
    assert note == ""
    assert len(server.seen) == before + 1
    assert cortex_search(app, "bake bread", work=Work())["results"]


@pytest.mark.parametrize("mode", ["auto", "semantic"])
def test_a_change_is_noticed_offered_and_made(apps: Apps, server: OpenAIServer, mode: str) -> None:
    create_index(apps.start(embedding="static"), work=Work())
    service = {"embedding": "openai", "embedding_endpoint": server.address}
    app = apps.start(**service, embedding_model="one")
    paths, note = ask(app, mode=mode)
    assert paths == ["oven.py"]
    assert note.startswith("answered by words alone")
    assert "sonde index --deep" in note
    assert server.seen == []  # nothing is embedded unasked
    assert "otherModel" in get_index_status(app, work=Work())["details"]
    create_index(app, deep=True, work=Work())
    assert ask(app, mode=mode)[1] == ""
    for changed in (
        {"embedding_model": "two"},
        {"embedding_model": "one"} | {"embedding_dimensions": 64},
    ):
        app = apps.start(**service, **changed)
        server.seen.clear()
        paths, note = ask(app, mode=mode)
        assert paths == ["oven.py"]
        assert "openai" in note
        assert server.seen == []
    app = apps.start(**service, embedding_model="one")
    assert ask(app, mode=mode)[1] == ""  # its vectors are still there


def test_a_service_that_fails_leaves_words_and_a_note(apps: Apps, server: OpenAIServer) -> None:
    settings = {"embedding": "openai", "embedding_endpoint": server.address}
    app = apps.start(**settings)
    create_index(app, work=Work())
    cortex_search(app, "bake", work=Work())
    server.replies = [(400, {}, {})] * 4
    for mode in ("auto", "semantic"):
        paths, note = ask(app, mode=mode)
        assert paths == ["oven.py"]
        assert note.startswith("answered by words alone")
    assert ask(app, mode="lexical") == (["oven.py"], "")
    with pytest.raises(EmbeddingFailed):
        cortex_search(app, "bake", work=Work())


def test_views_of_another_model_are_embedded_anew(apps: Apps, server: OpenAIServer) -> None:
    app = apps.start(embedding="static")
    create_index(app, work=Work())
    assert cortex_search(app, "bake bread", work=Work())["results"]
    app = apps.start(embedding="openai", embedding_endpoint=server.address)
    assert cortex_search(app, "bake bread", work=Work())["results"]
    assert server.seen


def test_an_http_service_needs_an_address_and_then_serves(apps: Apps) -> None:
    with pytest.raises(InvalidRequest, match="embeddingEndpoint"):
        apps.start(embedding="http")
    with running(EmbeddingServer(StaticEmbedder(), 0)) as plain:
        app = apps.start(
            embedding="http", embedding_endpoint=plain.address, embedding_dimensions=256
        )
        create_index(app, work=Work())
        assert ask(app, "send a web request over the network", mode="semantic")[0][0] == "net.py"


def test_a_project_cannot_have_queries_sent_away(apps: Apps, project: Path) -> None:
    (project / ".cortex").mkdir()
    config = project / ".cortex" / "config.yml"
    config.write_text("embedding:\n  endpoint: https://evil.example/embed\n")
    opened = apps.start(embedding="static").workspace.projects.get(project)
    assert opened.settings.chunk_embedder is None
    assert any("not on this machine" in warning for warning in opened.settings.warnings)
    config.write_text("embedding:\n  endpoint: http://localhost:8121/embed\n")
    assert apps.start(embedding="static").workspace.projects.get(project).settings.chunk_embedder
