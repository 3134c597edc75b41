"""Once deep vectors are complete, each definition is compared by its own."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sonde.embedding.base import Vectors
from sonde.embedding.onnx import OnnxEmbedder
from sonde.embedding.static import StaticEmbedder
from sonde.indexing.diff import compare_index
from sonde.indexing.pipeline import refine_vectors, update_index
from sonde.indexing.sources import Tree
from sonde.policy.admit import Rules, Source
from sonde.ranking.evidence import READ_TEXTS
from sonde.ranking.question import read_question
from sonde.ranking.weights import choose_share
from sonde.runtime.work import Work, WriterLock
from sonde.searching.modes import Ranked, rank_hybrid
from sonde.searching.search import DeepVectors, QueryVector, Search
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.types import Filter

PROGRAM = '''\
LIMIT = 10


class Basket:
    """What a customer is about to buy."""

    def total(self):
        return sum(item.price for item in self.items)

    def empty(self):
        self.items.clear()


def greet(person):
    return f"Good morning, {person.name}"


def dispatch(parcel, address):
    label = print_label(parcel, address)
    courier.collect(parcel, label)


def discount(order, percent):
    return order.price * (100 - percent) / 100
'''
QUESTION = "send a package to somebody's home"


@pytest.fixture
def store(tmp_path: Path, static: StaticEmbedder) -> Iterator[SqliteChunkStore]:
    root = tmp_path / "project"
    root.mkdir()
    (root / "shop.py").write_text(PROGRAM)
    (root / "words.py").write_text(
        "def count_words(text):\n    # how long a sentence is\n    return len(text.split())\n"
    )
    code, docs = SqliteChunkStore(tmp_path, "code"), SqliteChunkStore(tmp_path, "docs")
    tree = Tree((Source("", root, Rules()),), lambda _: False, index_docs=False, chunking="syntax")
    stores = {"code": code, "docs": docs}
    update_index(tree, stores, {"code": static}, Work(), compare_index(tree, stores, Work()))
    yield code
    code.close()
    docs.close()


def refine(store: SqliteChunkStore, model: OnnxEmbedder, folder: Path) -> None:
    refine_vectors({"code": store}, {"code": model}, WriterLock(folder), Work(), definitions=True)


def list_places(store: SqliteChunkStore, model: OnnxEmbedder) -> dict[str, list[int]]:
    """The lines of each file that have a vector of their own."""
    found: dict[str, list[int]] = {}
    for path in sorted(store.files()):
        first = {chunk.id: chunk.span.start_line for chunk in store.chunks_of(path)}
        keys = store.definition_vectors(model.name, list(first))
        found[path] = sorted(first[key] + place for key, place in keys)
    return found


def ask(
    store: SqliteChunkStore,
    static: StaticEmbedder,
    deep: OnnxEmbedder,
    *,
    is_complete: bool,
    text: str = QUESTION,
) -> tuple[list[Ranked], list[str]]:
    """The answer, and what was embedded for it."""
    texts: list[str] = []

    def embed(given: Sequence[str]) -> Vectors:
        texts.extend(given)
        return deep.embed(given, "passage")

    question = read_question(text)
    probe = QueryVector(static.name, static.embed(question.asked, "query")[0])
    vector = deep.embed(question.asked, "query")[0]
    seen = DeepVectors(deep.name, vector, is_complete, embed)
    return rank_hybrid(Search(store, Filter(), 9, probe, seen), question), texts


def test_functions_and_types_get_vectors_and_values_do_not(
    store: SqliteChunkStore, deep: OnnxEmbedder, tmp_path: Path
) -> None:
    refine(store, deep, tmp_path)
    assert list_places(store, deep) == {"shop.py": [4, 7, 10, 14, 18, 23], "words.py": [1]}
    have, total = store.coverage(deep.name)
    assert have == total > 0


def test_the_definition_that_means_it_comes_first(
    store: SqliteChunkStore, static: StaticEmbedder, deep: OnnxEmbedder, tmp_path: Path
) -> None:
    refine(store, deep, tmp_path)
    found, texts = ask(store, static, deep, is_complete=True)
    assert found[0].chunk.symbol == "dispatch"
    assert texts == []  # what is stored was compared
    assert all("own_deep" in dict(one.why) for one in found[1:5] if one.chunk.symbol)


def test_where_vectors_are_missing_the_best_are_compared_while_the_caller_waits(
    store: SqliteChunkStore, static: StaticEmbedder, deep: OnnxEmbedder
) -> None:
    _, texts = ask(store, static, deep, is_complete=False)
    assert 4 < len(texts) <= READ_TEXTS


def test_vectors_of_chunks_alone_do_not_stand_for_those_of_definitions(
    store: SqliteChunkStore, static: StaticEmbedder, deep: OnnxEmbedder, tmp_path: Path
) -> None:
    refine_vectors({"code": store}, {"code": deep}, WriterLock(tmp_path), Work())
    assert list_places(store, deep) == {"shop.py": [], "words.py": []}
    _, texts = ask(store, static, deep, is_complete=True)
    assert 4 < len(texts) <= READ_TEXTS


def test_chunks_that_stay_the_same_keep_the_vectors_of_their_definitions(
    store: SqliteChunkStore, static: StaticEmbedder, deep: OnnxEmbedder, tmp_path: Path
) -> None:
    refine(store, deep, tmp_path)
    before = list_places(store, deep)["shop.py"]
    root = tmp_path / "project"
    (root / "words.py").write_text("def other():\n    return 1\n\n\ndef more():\n    return 2\n")
    tree = Tree((Source("", root, Rules()),), lambda _: False, index_docs=False, chunking="syntax")
    docs = SqliteChunkStore(tmp_path, "docs")
    stores = {"code": store, "docs": docs}
    update_index(tree, stores, {"code": static}, Work(), compare_index(tree, stores, Work()))
    assert list_places(store, deep) == {"shop.py": before, "words.py": []}
    refine(store, deep, tmp_path)
    assert list_places(store, deep) == {"shop.py": before, "words.py": [1, 5]}
    store.compact()
    assert list_places(store, deep) == {"shop.py": before, "words.py": [1, 5]}
    docs.close()


def test_a_file_that_is_one_function_is_compared_with_its_comments(
    store: SqliteChunkStore, static: StaticEmbedder, deep: OnnxEmbedder, tmp_path: Path
) -> None:
    refine(store, deep, tmp_path)
    found, _ = ask(store, static, deep, is_complete=True, text="number of pieces of a sentence")
    assert found[0].chunk.path == "words.py"
    # nothing is nearer than the text as a whole, of which the comment is a part
    assert "own_deep" not in dict(found[0].why)


def test_a_description_leads_to_a_definition_and_a_topic_to_a_file() -> None:
    for topic in ("parcels and addresses", "how is the parcel of an address found"):
        assert choose_share(read_question(topic)) < 1
    for described in (
        "the parcel that is on its way to somebody",
        "recursively drop empty parcels",
        "apply stamp rules quickly",
        "Number of addresses that a parcel may have",
    ):
        assert choose_share(read_question(described)) == 1
