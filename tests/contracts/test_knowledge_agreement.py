"""Two stores, one ranking: whoever moves from SQLite to PostgreSQL finds the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.stores.knowledge.base import ANYTHING, Conditions, Entry, KnowledgeStore, Piece
from sonde.stores.knowledge.words import MAX_FORMS
from sonde.text.words import query_terms, read_words
from sonde.types import Scored

from .postgres import needs_postgres, open_knowledge

pytestmark = needs_postgres
WORDS = "walrus otter ice sea salt getWalrus walrusses 黒猫 🎉 it's Größe a b".split()
TEXT = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
ENTRY = st.builds(
    lambda title, texts, kind, tags, stamp: Entry(
        "media",
        title,
        tuple(Piece(text, place) for place, text in enumerate(texts)),
        media_type=kind,
        tags=tuple(tags),
        created_at=stamp,
    ),
    TEXT,
    st.lists(TEXT, max_size=3),
    st.sampled_from(["pdf", "html"]),
    st.lists(st.sampled_from(["Sea", "ice"]), max_size=2, unique=True),
    st.integers(0, 9),
)
WHERE = st.sampled_from(
    [ANYTHING, Conditions(media_types=("pdf",)), Conditions(tags=("sea",)), Conditions(since=5)]
)


@pytest.fixture(scope="module")
def pair(
    database: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sequence[KnowledgeStore]]:
    folder = tmp_path_factory.mktemp("pair")
    stores = [open_knowledge(name, folder, "pair", database) for name in ("sqlite", "postgres")]
    yield stores
    for store in stores:
        store.close()


def describe(store: KnowledgeStore, found: Sequence[Scored]) -> dict[tuple[str, int], float]:
    """What was found and how good it is, whatever the store's own numbers."""
    places = store.locate("media", [one.id for one in found])
    return {(places[one.id].entry.path, places[one.id].piece.place): one.score for one in found}


def agree(one: dict[tuple[str, int], float], two: dict[tuple[str, int], float]) -> None:
    assert one.keys() == two.keys()
    assert [one[key] for key in one] == pytest.approx([two[key] for key in one], rel=1e-5, abs=1e-9)
    assert list(two.values()) == sorted(two.values(), reverse=True)


def ask(text: str) -> list[str]:
    return [term for word in read_words(text) for term in query_terms(text[word.start : word.end])]


def refill(stores: Sequence[KnowledgeStore], entries: Sequence[Entry], gone: set[int]) -> None:
    """Both hold the same, some of it removed again."""
    for store in stores:
        store.remove("media", [entry.id for entry in store.list_entries("media")])
        named = [
            Entry(**{name: getattr(entry, name) for name in Entry.__slots__} | {"path": f"p{at}"})
            for at, entry in enumerate(entries)
        ]
        ids = store.put("media", named)
        store.remove("media", [each for at, each in enumerate(ids) if at in gone])


@pytest.mark.row("004-57", "004-125")
@settings(max_examples=40)
@given(
    st.lists(ENTRY, min_size=1, max_size=12),
    st.sets(st.integers(0, 11), max_size=4),
    TEXT | st.sampled_from(["wal", "lrus", "猫", "nothing like it"]),
    WHERE,
)
def test_both_find_the_same_and_score_it_alike(pair, entries, gone, query, where):
    refill(pair, entries, gone)
    one, two = (describe(store, store.rank("media", ask(query), 100, where)) for store in pair)
    agree(one, two)


@settings(max_examples=25)
@given(st.lists(ENTRY, min_size=3, max_size=12), st.integers(0, 99), WHERE)
def test_both_know_the_same_neighbours(pair, entries, seed, where):
    refill(pair, entries, set())
    chance = np.random.default_rng(seed)
    vectors = chance.normal(size=(100, 16)).astype(np.float32)
    found = []
    for store in pair:
        bare = store.list_bare("media", "m", 100)
        numbers = [each.piece.number for each in bare]
        store.put_vectors("media", "m", numbers, vectors[: len(numbers)])
        near = store.nearest("media", "m", vectors[99], 5, where)
        found.append(describe(store, near))
    agree(*found)


@pytest.fixture
def thrifty_pair(database: Any, tmp_path: Path) -> Iterator[Sequence[KnowledgeStore]]:
    stores = [
        open_knowledge(name, tmp_path, "thrifty", database, postings=30)
        for name in ("sqlite", "postgres")
    ]
    yield stores
    for store in stores:
        store.close()


def test_common_words_count_where_rare_ones_lead(thrifty_pair):
    """What the work is spared for changes neither store's best answers."""
    texts = ["file " * 3, "file system", "file system driver", "walrus file", "system"] * 20
    entries = [Entry("media", "", (Piece(text),)) for text in texts]
    refill(
        thrifty_pair, [*entries, Entry("media", "", (Piece("walrus file system driver"),))], set()
    )
    for query in ("walrus driver", "walrus file system driver", "file system", "file"):
        best = []
        for store in thrifty_pair:
            found = describe(store, store.rank("media", ask(query), 5))
            best.append(sorted(found.values(), reverse=True))
            if query.startswith("walrus"):
                assert next(iter(found))[0] == "p100"
        assert best[0] == pytest.approx(best[1], rel=1e-5)
    only = Conditions(tags=("no such",))
    assert [store.rank("media", ask("file system"), 5, only) for store in thrifty_pair] == [[], []]


def test_a_beginning_stands_for_the_same_words(pair):
    names = [f"prex{chr(97 + at // 8)}{chr(107 + at % 8)}k" for at in range(60)]
    texts = [f"{name} " * (at % 3 + 1) for at, name in enumerate(names)]
    entries = [Entry("media", "", (Piece(text),)) for text in texts]
    refill(pair, entries, set())
    one, two = (describe(store, store.rank("media", ["prex"], 100)) for store in pair)
    assert len(one) == MAX_FORMS
    agree(one, two)
