"""While deep vectors are being made, an answer is at least what it was without them."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import pytest
from tests.trees import write_files

from sonde.app import App
from sonde.embedding.base import Mode, RecentVectors, Vectors
from sonde.embedding.onnx import OnnxEmbedder
from sonde.embedding.static import StaticEmbedder
from sonde.errors import EmbeddingFailed
from sonde.indexing.diff import compare_index
from sonde.indexing.pipeline import update_index
from sonde.indexing.sources import Tree
from sonde.policy.admit import Rules, Source
from sonde.ranking.evidence import OPENING_CHARS
from sonde.ranking.passages import FILES
from sonde.ranking.question import read_question
from sonde.runtime.work import Work
from sonde.searching.modes import rank_hybrid
from sonde.searching.search import DeepVectors, QueryVector, Search
from sonde.settings import load_settings
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.tools.code import search_code, search_docs
from sonde.tools.index import create_index
from sonde.types import Filter
from sonde.wiring import build_app

SUBJECTS = ["cookie", "redirect", "header", "proxy", "cache", "timeout", "stream", "upload"]
QUESTION = "what the server told us to remember between requests"
TEXT = "decide about the cookie of a request to the server"
"""A question that some functions hold word by word."""


def write_project(root: Path) -> None:
    for subject in SUBJECTS:
        for role in ("store", "policy", "request"):
            text = (
                f"def {role}_{subject}(server, request):\n"
                f'    """Decide about the {subject} of a request to the server."""\n'
                f"    return server.{subject}.{role}(request)\n"
            )
            path = root / subject / f"{role}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


@pytest.fixture
def store(tmp_path: Path, static: StaticEmbedder) -> Iterator[SqliteChunkStore]:
    root = tmp_path / "project"
    write_project(root)
    code, docs = SqliteChunkStore(tmp_path, "code"), SqliteChunkStore(tmp_path, "docs")
    tree = Tree((Source("", root, Rules()),), lambda _: False, index_docs=False, chunking="syntax")
    stores = {"code": code, "docs": docs}
    update_index(tree, stores, {"code": static}, Work(), compare_index(tree, stores, Work()))
    yield code
    code.close()
    docs.close()


def rank(
    store: SqliteChunkStore, static: StaticEmbedder, deep: DeepVectors | None, asked: str = QUESTION
) -> list[str]:
    return list(dict.fromkeys(path for path, _ in rate(store, static, deep, asked)))


def rate(
    store: SqliteChunkStore, static: StaticEmbedder, deep: DeepVectors | None, asked: str
) -> list[tuple[str, float]]:
    question = read_question(asked)
    probe = QueryVector(static.name, static.embed(question.asked, "query")[0])
    found = rank_hybrid(Search(store, Filter(), 50, probe, deep), question)
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    return [(one.chunk.path, one.score) for one in found]


def ask(
    model: OnnxEmbedder, embed: Callable[[Sequence[str]], Vectors] | None = None
) -> DeepVectors:
    vector = model.embed([QUESTION], "query")[0]
    return DeepVectors(model.name, vector, is_complete=False, embed=embed)


def test_a_model_that_may_not_embed_changes_nothing(
    store: SqliteChunkStore, static: StaticEmbedder, deep: OnnxEmbedder
) -> None:
    for asked in (QUESTION, TEXT):
        assert rate(store, static, ask(deep), asked) == rate(store, static, None, asked)


def test_the_best_passages_are_compared_by_the_model_itself(
    store: SqliteChunkStore, static: StaticEmbedder, deep: OnnxEmbedder
) -> None:
    before = rank(store, static, None)
    texts: list[str] = []

    def embed(given: Sequence[str]) -> Vectors:
        texts.extend(given)
        return deep.embed(given, "passage")

    after = rank(store, static, ask(deep, embed))
    compared = [text.split("\n", 1)[0] for text in texts]
    assert len(compared) == FILES
    assert set(compared) <= set(before)
    others = [path for path in before if path not in compared]
    assert [path for path in after if path in others] == others
    nearness = deep.embed(texts, "passage") @ deep.embed([QUESTION], "query")[0]
    near = dict(zip(compared, nearness, strict=True))
    moved = [
        (behind, ahead)
        for behind, ahead in combinations(before, 2)
        if {behind, ahead} <= near.keys() and after.index(ahead) < after.index(behind)
    ]
    assert moved
    assert all(near[ahead] > near[behind] for behind, ahead in moved)


def test_a_model_that_fails_leaves_the_answer_as_it_was(
    store: SqliteChunkStore, static: StaticEmbedder, deep: OnnxEmbedder
) -> None:
    def embed(given: Sequence[str]) -> Vectors:
        raise EmbeddingFailed(f"{len(given)} passages")

    for asked in (QUESTION, TEXT):
        assert rate(store, static, ask(deep, embed), asked) == rate(store, static, None, asked)


def test_a_question_like_the_one_before_embeds_only_what_is_new(deep: OnnxEmbedder) -> None:
    asked: list[list[str]] = []

    class Counting:
        name, dimensions, is_loaded = "counting", deep.dimensions, True

        def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
            asked.append(list(texts))
            return deep.embed(texts, mode)

        def close(self) -> None: ...

    recent, model = RecentVectors(3), Counting()
    first = recent.embed(model, "code", ["one", "two", "one"])
    again = recent.embed(model, "code", ["two", "three"])
    assert asked == [["one", "two"], ["three"]]
    assert (first[0] == first[2]).all()
    assert (again[0] == first[1]).all()
    recent.embed(model, "code", ["four"])
    recent.embed(model, "code", ["one"])  # the oldest was dropped
    assert asked[2:] == [["four"], ["one"]]


def open_project(tmp_path: Path, *, stays: bool) -> App:
    root = tmp_path / "project"
    write_project(root)
    settings = load_settings(os.environ, home=tmp_path / "home", assume_yes=True)
    app = build_app(settings, start=root, stays=stays)
    create_index(app, str(root), work=Work())
    return app


@pytest.mark.parametrize("stays", [False, True])
def test_a_server_loads_the_deep_model_for_a_function_and_one_command_does_not(
    tmp_path: Path, *, stays: bool
) -> None:
    app = open_project(tmp_path, stays=stays)
    deep = app.workspace.deep
    assert deep is not None
    try:
        for query in ("Decide about the cookie of a request", "store_cookie", "cookies of servers"):
            deep.close()
            assert search_code(app, query, work=Work())["results"]
            assert deep.is_loaded == (stays and query.startswith("Decide"))
    finally:
        app.close()


PAGES = {
    "retries.md": "A request that failed is sent again after one second, then two, then four.",
    "cookies.md": "What a site stores is sent back to it until the session ends.",
    "proxies.md": "Traffic can be sent through another host, named by the environment.",
    "limits.md": "At most ten connections are open at once; further ones wait in a queue.",
}
ASKED = {
    "how to keep someone signed in": "cookies.md",
    "too many sockets at the same time": "limits.md",
    "try repeatedly when the network is down": "retries.md",
}


@contextmanager
def open_pages(tmp_path: Path, pages: Mapping[str, str]) -> Iterator[App]:
    """A project of these pages, none of which the deep model has read yet."""
    root = write_files(
        tmp_path / "project",
        {name: f"# {name[:-3].title()}\n\n{text}\n" for name, text in pages.items()},
    )
    settings = load_settings(os.environ, home=tmp_path / "home", assume_yes=True)
    app = build_app(settings, start=root)
    create_index(app, str(root), work=Work())
    deep = app.workspace.deep
    assert deep is not None
    deep.embed(["loaded"], "query")
    try:
        yield app
        docs = app.workspace.projects.get(root).stores()["docs"]
        assert docs.coverage(deep.name) == (0, len(pages))
    finally:
        app.close()


def test_the_best_documents_are_read_before_all_have_their_vectors(tmp_path: Path) -> None:
    with open_pages(tmp_path, PAGES) as app:
        for question, page in ASKED.items():
            assert search_docs(app, question, work=Work())["results"][0]["path"] == page


def test_of_a_long_document_the_deep_model_reads_what_answers(tmp_path: Path) -> None:
    others = ["The kitchen closes at ten, on Sundays at nine.", "Invoices have a number each year."]
    before = " ".join(others * 5)
    assert len(before) > OPENING_CHARS
    pages = {name: f"{before} {text}" for name, text in PAGES.items()}
    asked = {
        "connect from behind a corporate firewall": "proxies.md",
        "parallel downloads are throttled": "limits.md",
    }
    with open_pages(tmp_path, pages) as app:
        for question, page in asked.items():
            assert search_docs(app, question, work=Work())["results"][0]["path"] == page
