"""While deep vectors are being made, an answer is at least what it was without them."""

import os
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest

from sonde.embedding.base import Vectors
from sonde.embedding.onnx import OnnxEmbedder
from sonde.embedding.static import StaticEmbedder
from sonde.errors import EmbeddingFailed
from sonde.indexing.diff import compare_index
from sonde.indexing.pipeline import update_index
from sonde.indexing.sources import Tree
from sonde.policy.admit import Rules, Source
from sonde.ranking.question import read_question
from sonde.runtime.work import Work
from sonde.searching.modes import rank_hybrid
from sonde.searching.search import EMBEDDING_BUDGET_S, DeepVectors, QueryVector, Search
from sonde.settings import load_settings
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.tools.code import search_code
from sonde.tools.index import create_index
from sonde.types import Filter
from sonde.wiring import build_app

SUBJECTS = ["cookie", "redirect", "header", "proxy", "cache", "timeout", "stream", "upload"]
QUESTION = "what the server told us to remember between requests"


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
    update_index(tree, stores, static, Work(), compare_index(tree, stores, Work()))
    yield code
    code.close()
    docs.close()


def rank(
    store: SqliteChunkStore, static: StaticEmbedder, deep: DeepVectors | None, limit: int = 50
) -> list[str]:
    question = read_question(QUESTION)
    probe = QueryVector(static.name, static.embed(question.asked, "query")[0])
    found = rank_hybrid(Search(store, Filter(), limit, probe, deep), question)
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    return list(dict.fromkeys(one.chunk.path for one in found))


def ask(
    model: OnnxEmbedder,
    embed: Callable[[Sequence[str]], Vectors] | None = None,
    budget_s: float = EMBEDDING_BUDGET_S,
) -> DeepVectors:
    vector = model.embed([QUESTION], "query")[0]
    return DeepVectors(model.name, vector, is_complete=False, embed=embed, budget_s=budget_s)


def cover(store: SqliteChunkStore, model: OnnxEmbedder, paths: Sequence[str]) -> None:
    chunks = [chunk for path in paths for chunk in store.chunks_of(path)]
    vectors = model.embed([chunk.embedded_text for chunk in chunks], "passage")
    store.put_vectors(model.name, [chunk.digest for chunk in chunks], vectors)


def test_without_vectors_and_without_time_nothing_changes(
    store: SqliteChunkStore, static: StaticEmbedder, deep: OnnxEmbedder
) -> None:
    assert rank(store, static, ask(deep)) == rank(store, static, None)


@pytest.mark.parametrize("seed", range(4))
def test_only_files_that_the_model_has_seen_move(
    store: SqliteChunkStore, static: StaticEmbedder, deep: OnnxEmbedder, seed: int
) -> None:
    before = rank(store, static, None)
    seen = random.Random(seed).sample(before, len(before) * 3 // 4)
    cover(store, deep, seen)
    after = rank(store, static, ask(deep))
    run = next(at for at, path in enumerate(before) if path not in seen)
    assert after[run:] == before[run:]
    assert run >= 3 or after == before
    assert sorted(after[:run]) == sorted(before[:run])


def test_a_file_passes_only_those_that_the_model_finds_farther_off(
    store: SqliteChunkStore, static: StaticEmbedder, deep: OnnxEmbedder
) -> None:
    before = rank(store, static, None)
    cover(store, deep, before)
    after = rank(store, static, ask(deep))
    passages = [store.chunks_of(path)[0].embedded_text for path in before]
    nearness = deep.embed(passages, "passage") @ deep.embed([QUESTION], "query")[0]
    near = dict(zip(before, nearness, strict=True))
    passed = [
        (behind, ahead)
        for behind, ahead in combinations(before, 2)
        if after.index(ahead) < after.index(behind)
    ]
    assert passed
    assert all(near[ahead] > near[behind] for behind, ahead in passed)


def test_the_best_passages_are_compared_by_the_model_itself(
    store: SqliteChunkStore, static: StaticEmbedder, deep: OnnxEmbedder
) -> None:
    before = rank(store, static, None)
    texts: list[str] = []

    def embed(given: Sequence[str]) -> Vectors:
        texts.extend(given)
        return deep.embed(given, "passage")

    after = rank(store, static, ask(deep, embed, budget_s=60.0))
    compared = [text.split(" ", 1)[0] for text in texts]
    assert 3 <= len(compared) <= 4
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


def test_when_time_is_up_the_answer_is_as_it_was(
    store: SqliteChunkStore, static: StaticEmbedder, deep: OnnxEmbedder
) -> None:
    embed = partial(deep.embed, mode="passage")
    assert rank(store, static, ask(deep, embed, budget_s=-1.0)) == rank(store, static, None)


def test_a_model_that_fails_leaves_the_answer_as_it_was(
    store: SqliteChunkStore, static: StaticEmbedder, deep: OnnxEmbedder
) -> None:
    def embed(given: Sequence[str]) -> Vectors:
        raise EmbeddingFailed(f"{len(given)} passages")

    assert rank(store, static, ask(deep, embed)) == rank(store, static, None)


def test_one_command_does_not_wait_for_the_deep_model(tmp_path: Path) -> None:
    root = tmp_path / "project"
    write_project(root)
    settings = load_settings(os.environ, home=tmp_path / "home", assume_yes=True)
    app = build_app(settings, start=root)
    try:
        create_index(app, str(root), work=Work())
        assert search_code(app, QUESTION, project=str(root), work=Work())["results"]
        assert app.workspace.deep is not None
        assert not app.workspace.deep.is_loaded  # type: ignore[attr-defined]
    finally:
        app.close()
