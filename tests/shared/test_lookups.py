"""The tables of a shared index answer as a local store does: words, names, trigrams, vectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.shared.conftest import Clone
from tests.shared.lookups import SharedLookups

from sonde.shared.index import SharedIndex
from sonde.shared.tables import INDEXES
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.types import AllOf, AnyOf

WORDS = ["order", "refund", "parse", "cache", "socket", "thread", "vector", "index"]


def write_module(number: int) -> str:
    """A module whose words differ from those of others."""
    one, two = WORDS[number % 8], WORDS[number // 8 % 8]
    lines = [f"import m{number // 2}", "", f"class {one.title()}{number}:"]
    for place in range(12):
        lines += [
            f"    def {two}_{place}(self, {one}):",
            f"        return {one} * {number + place}",
        ]
    return "\n".join(lines) + "\n"


@pytest.fixture(params=[False, True], ids=["scanned", "indexed"])
def both(
    request: pytest.FixtureRequest, ci: Clone, tmp_path: Path
) -> Iterator[tuple[SharedLookups, SqliteChunkStore]]:
    """The tables, with and without their indexes, and a local store of the same commit."""
    ci.commit({f"pkg/m{number}.py": write_module(number) for number in range(64)})
    commit = ci.push(tmp_path / "shared").commit
    shared = SharedIndex(str(tmp_path / "shared"))
    if request.param:
        for name in sorted(shared.tables.list_names()):
            shared.tables.maintain(
                name, least=dict.fromkeys(("key", "words"), 1) | {"vector": 10**9}
            )
        made = shared.tables.open("chunks").list_indices()
        assert {index.columns[0] for index in made} == INDEXES["chunks"].keys()
    folder = tmp_path / "filled"
    folder.mkdir()
    shared.fill("shop", commit, folder)
    store = SqliteChunkStore(folder, "code")
    yield SharedLookups(shared, "shop", commit), store
    store.close()


def test_the_tables_answer_as_a_local_store_does(
    both: tuple[SharedLookups, SqliteChunkStore],
) -> None:
    tables, store = both
    for words in (["order"], ["refund", "cache"], ["socket7"], ["nothing", "here"], []):
        found = tables.lexical(words, 10_000)
        known = store.chunks([hit.id for hit in store.lexical(words, 10_000)])
        code = {(p.path, p.start_line) for p in found if not p.path.endswith(".md")}
        assert code == {(chunk.path, chunk.span.start_line) for chunk in known}
        assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)
    for names in (["Order8"], ["refund_3"], ["m12", "Order"], ["absent"]):
        assert tables.paths_named(names) == store.paths_named(names)
    for needs in (
        "class Order",
        "refund_11(self, cache)",
        AllOf(("socket", "import m3")),
        AnyOf(("class Thread", "zzzzzz")),
        "absent from all",
        "ab",
    ):
        code = {path for path in tables.trigram_candidates(needs) if not path.endswith(".md")}
        assert code == store.trigram_candidates(needs)


def test_the_nearest_vectors_are_those_of_a_local_store(
    both: tuple[SharedLookups, SqliteChunkStore],
) -> None:
    tables, store = both
    (model,) = store.models()
    ids = [hit.id for hit in store.lexical(["socket"], 3)]
    for key, vector in store.vectors(model, ids).items():
        found = tables.dense(model, vector, 5)
        (chunk,) = store.chunks([key])
        same = {(chunk.path, chunk.span.start_line)}
        assert same <= {(place.path, place.start_line) for place in found}
        known = store.dense(model, vector, 5)
        assert [p.score for p in found] == pytest.approx([k.score for k in known], abs=0.02)


def test_other_commits_are_not_found(ci: Clone, tmp_path: Path) -> None:
    first = ci.push(tmp_path / "shared").commit
    second = ci.commit({"src/zebra.py": "def zebra():\n    pass\n"}, "src/users.py")
    ci.push(tmp_path / "shared")
    shared = SharedIndex(str(tmp_path / "shared"))
    before, after = (SharedLookups(shared, "shop", commit) for commit in (first, second))
    assert before.lexical(["zebra"], 5) == []
    assert [place.path for place in after.lexical(["zebra"], 5)] == ["src/zebra.py"]
    assert before.paths_named(["find_user"]) == {"src/users.py"}
    assert after.paths_named(["find_user"]) == set()
