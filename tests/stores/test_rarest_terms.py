"""Ranking by the rarest terms first gives what ranking by all at once gives, to the last bit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.stores.chunks.base import ChunkLimits
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.types import Chunk, FileState, ParsedFile, Span

WORDS = ("rare", "seldom", "some", "many", "most", "every")
SHARES = (0.03, 0.08, 0.2, 0.5, 0.8, 1.0)


def make_file(number: int, words: list[str], symbol: str = "") -> ParsedFile:
    text = " ".join(words) + "\n"
    path = f"d{number % 3}/f{number}.py"
    chunk = Chunk(path, text, Span(1, 1, 0, len(text)), path, symbol)
    state = FileState(path, f"{number:064x}", len(text), 1, "python", "code")
    return ParsedFile(state, (chunk,))


def make_files(seed: int, count: int) -> list[ParsedFile]:
    """Files that hold each word about as often as its share says, some of them many times."""
    chance = random.Random(seed)
    files = []
    for number in range(count):
        words = [
            word
            for word, share in zip(WORDS, SHARES, strict=True)
            if chance.random() < share
            for _ in range(chance.choice((1, 1, 1, 2, 9)))
        ]
        words += ["filler"] * chance.randrange(20)
        chance.shuffle(words)
        symbol = chance.choice(WORDS) if chance.random() < 0.1 else ""
        files.append(make_file(number, words, symbol))
    return files


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteChunkStore]:
    store = SqliteChunkStore(tmp_path, "code")
    yield store
    store.close()


@pytest.fixture
def plain(store: SqliteChunkStore, tmp_path: Path) -> Iterator[SqliteChunkStore]:
    """The same store, which never ranks by the rarest terms first."""
    plain = SqliteChunkStore(tmp_path, "code", ChunkLimits(rare_times=1 << 40))
    yield plain
    plain.close()


def ask_for_all_at_once(store: SqliteChunkStore, terms: list[str], limit: int) -> bool:
    """Whether every chunk that holds any of the terms was ranked."""
    with store._database.tracing() as ran:
        store.lexical(terms, limit)
    every = " OR ".join(f'"{term}"' for term in terms)
    return any(every in values for _, values in ran)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 1 << 30),
    count=st.integers(30, 120),
    questions=st.lists(
        st.tuples(st.sets(st.sampled_from(WORDS), min_size=2), st.integers(1, 4)), min_size=3
    ),
    gone=st.sets(st.integers(0, 119), max_size=60),
)
def test_the_short_way_leads_to_the_same_ranking(
    store: SqliteChunkStore,
    plain: SqliteChunkStore,
    seed: int,
    count: int,
    questions: list[tuple[set[str], int]],
    gone: set[int],
) -> None:
    store.clear()
    files = make_files(seed, count)
    store.replace(files)
    for round_ in range(2):
        for words, limit in questions:
            terms = sorted(words)
            assert store.lexical(terms, limit) == plain.lexical(terms, limit)
        if not round_:  # what was counted before is no longer so
            store.remove([files[at].state.path for at in gone if at < count])


def test_chunks_that_hold_only_common_words_are_not_ranked(
    store: SqliteChunkStore, plain: SqliteChunkStore
) -> None:
    store.replace(
        [make_file(n, ["every", *["rare"] * (n % 40 == 0), *["word"] * 5]) for n in range(400)]
    )
    assert not ask_for_all_at_once(store, ["rare", "every"], 2)
    assert ask_for_all_at_once(store, ["rare", "every"], 9)  # of the ten there are, too many
    best = store.lexical(["rare", "every"], 2)
    assert best == plain.lexical(["rare", "every"], 2)
