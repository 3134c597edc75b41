"""All chunk stores, driven with the same random operations, answer alike."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from sonde.types import AllOf, AnyOf, Filter

PATHS = ["a.py", "src/b.py", "src/deep/c_test.py", "Ä.md"]
WORDS = ["alpha", "beta", "parseHttp", "x", "日本", "the", "übung"]
MODELS = {"static": 8, "deep": 384}

paths = st.sampled_from(PATHS)
some_paths = st.sets(paths, max_size=3)
lines = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
needs = st.recursive(
    lines,
    lambda inner: st.builds(
        lambda kind, parts: kind(tuple(parts)),
        st.sampled_from([AllOf, AnyOf]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=4,
)
terms = st.lists(
    st.sampled_from(
        ["alpha", "beta", "parsehttp", "parse", "x", "日本", "the", "ubung", "py", "zz"]
    ),
    min_size=1,
    max_size=4,
)
wheres = st.one_of(st.just(Filter()), some_paths.map(lambda chosen: Filter(frozenset(chosen))))
models = st.sampled_from(sorted(MODELS))


def make_vector(seed: int, dimensions: int) -> np.ndarray:
    """A unit vector, or zeros for some seeds."""
    if seed % 5 == 0:
        return np.zeros(dimensions, np.float32)
    row = np.random.default_rng(seed).standard_normal(dimensions).astype(np.float32)
    return row / np.linalg.norm(row)


class Agreement(RuleBasedStateMachine):
    """Several stores that are told and asked the same; the first is the reference."""

    backends: tuple[str, ...]
    make_file: Any
    open_backend: Any

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.stores = [
            self.open_backend(name, Path(self.folder.name) / name, postings=12)
            for name in self.backends
        ]

    def teardown(self):
        for store in self.stores:
            assert store.verify() == []
            store.close()
        self.folder.cleanup()

    def compare(self, ask, same=lambda mine, theirs: mine == theirs):
        expected = ask(self.stores[0])
        for name, store in zip(self.backends[1:], self.stores[1:], strict=True):
            answer = ask(store)
            assert same(expected, answer), f"{name}: {answer} instead of {expected}"

    def change(self, act):
        for store in self.stores:
            act(store)

    @rule(
        chosen=st.lists(paths, min_size=1, max_size=3),
        texts=st.lists(lines, min_size=0, max_size=4),
        mtime=st.integers(0, 5),
        names=st.lists(st.sampled_from(["Foo.bar", "beta", ""]), max_size=2),
        imports=st.lists(st.sampled_from(["os", "foo_bar"]), max_size=2),
    )
    def replace(self, chosen, texts, mtime, names, imports):
        files = [
            self.make_file(
                path,
                *(f"{text} {path}\n" for text in texts),
                mtime_ns=mtime + at,
                names=names,
                symbols=[name for name in names if name],
                imports=imports,
            )
            for at, path in enumerate(chosen)
        ]
        self.change(lambda store: store.replace(files))

    @rule(chosen=some_paths)
    def remove(self, chosen):
        self.change(lambda store: store.remove(chosen))

    @rule(path=paths, mtime=st.integers(0, 9))
    def touch(self, path, mtime):
        state = self.make_file(path, "whatever", mtime_ns=mtime).state
        self.change(lambda store: store.touch([state]))

    @rule()
    def clear(self):
        self.change(lambda store: store.clear())

    @rule()
    def compact(self):
        self.change(lambda store: store.compact())

    @rule(model=models, limit=st.integers(1, 6), seed=st.integers(0, 50))
    def put_vectors(self, model, limit, seed):
        digests = [chunk.digest for chunk in self.stores[0].missing(model, limit)]
        if digests:
            rows = np.stack([make_vector(seed + n, MODELS[model]) for n in range(len(digests))])
            self.change(lambda store: store.put_vectors(model, digests, rows))

    @rule(asked=terms, limit=st.integers(1, 12), where=wheres)
    def rank_words(self, asked, limit, where):
        self.compare(lambda store: places(store, store.lexical(asked, limit, where)), alike)
        self.compare(lambda store: dict(store.term_counts(asked)))

    @rule(model=models, seed=st.integers(0, 30), limit=st.integers(1, 12), where=wheres)
    def rank_vectors(self, model, seed, limit, where):
        query = make_vector(seed, MODELS[model])
        reference = self.stores[0]
        scores = dict(places(reference, reference.dense(model, query, 500, where)))
        expected = [s.score for s in reference.dense(model, query, limit, where)]
        for store in self.stores[1:]:
            found = places(store, store.dense(model, query, limit, where))
            # rows are kept as bytes, so close neighbours may change places
            assert [score for _, score in found] == pytest.approx(expected, abs=4e-3)
            assert [scores[place] for place, _ in found] == pytest.approx(expected, abs=4e-3)

    @rule(needs=needs, where=wheres)
    def find_trigrams(self, needs, where):
        self.compare(lambda store: store.trigram_candidates(needs, where))

    @rule(model=models, limit=st.integers(1, 9))
    def list_missing(self, model, limit):
        self.compare(lambda store: [describe(c) for c in store.missing(model, limit)])

    @invariant()
    def contents_agree(self):
        self.compare(lambda store: dict(store.files()))
        self.compare(lambda store: (store.counts().files, store.counts().chunks))
        self.compare(lambda store: [store.coverage(model) for model in sorted(MODELS)])

    @rule(path=paths)
    def files_agree(self, path):
        self.compare(lambda store: [describe(chunk) for chunk in store.chunks_of(path)])
        self.compare(lambda store: {p: list(one) for p, one in store.symbols_of(PATHS).items()})
        self.compare(lambda store: dict(store.files([path, "gone.py"])))
        self.compare(lambda store: dict(store.files(under=path.rpartition("/")[0] or path)))
        self.compare(lambda store: store.paths_named(["bar", "foobar", "beta", "b", "ä", "ctest"]))
        self.compare(lambda store: dict(store.importers(["os", "foobar", "nothing"])))


def describe(chunk):
    return (chunk.path, chunk.text, chunk.span, chunk.header, chunk.symbol, chunk.digest)


def places(store, scored):
    """Where each hit is, with its score."""
    found = {chunk.id: chunk for chunk in store.chunks([each.id for each in scored])}
    return [((found[s.id].path, found[s.id].span.start_byte), s.score) for s in scored]


def alike(mine, theirs):
    """The same ranking, with scores equal up to rounding."""
    return [place for place, _ in mine] == [place for place, _ in theirs] and [
        score for _, score in mine
    ] == pytest.approx([score for _, score in theirs], rel=1e-6)


def run(backends, make_file, open_backend, *, examples, steps):
    parts = {
        "backends": backends,
        "make_file": staticmethod(make_file),
        "open_backend": staticmethod(open_backend),
    }
    run_state_machine_as_test(
        type("Agreeing", (Agreement,), parts),
        settings=settings(max_examples=examples, stateful_step_count=steps),
    )


def test_sqlite_agrees_with_memory(make_file, open_backend):
    run(("memory", "sqlite"), make_file, open_backend, examples=40, steps=25)


@pytest.mark.slow
def test_lance_agrees_with_memory_and_sqlite(make_file, open_backend):
    pytest.importorskip("lancedb", reason="needs sonde[lance]")
    run(("memory", "sqlite", "lance"), make_file, open_backend, examples=6, steps=15)
