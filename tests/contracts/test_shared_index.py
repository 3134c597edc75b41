"""A store filled from a shared index, by blocks or by rows, reads as the one that was pushed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sonde.runtime.work import Work
from sonde.shared.index import SharedIndex
from sonde.shared.manifest import pack_manifest
from sonde.shared.rows import RowWriter, facts_of
from sonde.shared.snapshot import Snapshot, save_snapshot
from sonde.stores.chunks.base import ChunkStore
from sonde.stores.chunks.integrity import copy_stores
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.types import AllOf, AnyOf, Filter, ParsedFile

WORDS = ["alpha", "beta", "parsehttp", "parse", "the", "日本", "ubung", "zz"]
MODELS = {"static": 8, "a model / of others": 384}


def make_files(make_file: Callable[..., ParsedFile]) -> list[ParsedFile]:
    """Files with everything that a store keeps."""
    first = make_file(
        "src/parse_http.py", "def parseHttp(a):\n", "    return alpha + 'it''s'\n",
        names=["parseHttp"], symbols=["parseHttp", "Server.start"], imports=["socket", "Ä.mod"],
    )  # fmt: skip
    second = make_file("Ä b.py", "alpha beta 日本 Übung\n", "", "x = '\\0\"'\n", symbols=["the"])
    same = make_file("src/copy.py", "alpha beta 日本 Übung\n", imports=["socket"])
    tagged = ParsedFile(same.state, same.chunks, same.symbols, same.imports, ("tag one", "ü"))
    return [first, second, tagged, make_file("empty.py")]


def push(folder: Path, url: str, files: list[ParsedFile], vectors: dict[str, Any]) -> None:
    """As a push does it, without a repository."""
    shared = SharedIndex(url, create=True)
    writer = RowWriter(shared.tables, "recipe", lambda state: state.path.encode())
    writer.add_files(files)
    for model, held in vectors.items():
        writer.add_vectors(model, list(held), np.stack(list(held.values())))
    writer.flush()
    sealed = folder / "sealed"
    sealed.mkdir()
    SqliteChunkStore(folder, "docs").close()
    copy_stores(folder, sealed, "sqlite")
    snapshot, _ = save_snapshot(shared.tables, sealed, Snapshot(), "pack_1_a", Work())
    manifest = pack_manifest({file.state.path: facts_of(file.state) for file in files})
    row = ("r", "c" * 40, 1, "recipe", "\n".join(vectors), 4, 5, manifest, snapshot.pack())
    shared.tables.put("commits", ("repository", "commit"), row)


def describe(store: ChunkStore) -> dict[str, Any]:
    """Everything that a store answers, without ids and times."""

    def place(hits: Any) -> list[tuple[Any, ...]]:
        found = store.chunks([hit.id for hit in hits])
        pairs = zip(found, hits, strict=True)
        return sorted((c.path, c.span.start_byte, round(hit.score, 2)) for c, hit in pairs)

    paths = sorted(store.files())
    needs = ["alpha", "日本", AllOf(("parse", "(a)")), AnyOf(("absent", "beta")), "zz", "é"]
    queries = {model: np.eye(size, dtype=np.float32)[0] for model, size in MODELS.items()}
    return {
        "files": {p: (s.hash, s.size, s.language, s.kind) for p, s in store.files().items()},
        "chunks": {p: [(c.text, c.header, c.symbol, c.span) for c in store.chunks_of(p)]
                   for p in paths},
        "lines": {p: [line[1:] for line in lines] for p, lines in store.chunk_lines(paths).items()},
        "symbols": {p: list(outline) for p, outline in store.symbols_of(paths).items()},
        "tags": dict(store.tags()),
        "named": {name: store.paths_named([name]) for name in ("parseHttp", "start", "copy", "no")},
        "beginning": [store.paths_beginning(prefix, 9) for prefix in ("pa", "the", "q")],
        "importers": dict(store.importers(["socket", "mod"])),
        "lexical": [place(store.lexical([word], 9)) for word in WORDS],
        "filtered": place(store.lexical(["alpha"], 9, Filter(frozenset(["Ä b.py"])))),
        "terms": dict(store.term_counts(WORDS)),
        "trigrams": [store.trigram_candidates(need) for need in needs],
        "dense": {model: place(store.dense(model, query, 9)) for model, query in queries.items()},
        "coverage": {model: store.coverage(model) for model in MODELS},
        "models": store.models(),
        "missing": {model: len(store.missing(model, 99)) for model in MODELS},
        "counts": (store.counts().files, store.counts().chunks),
        "verified": store.verify(),
    }  # fmt: skip


@pytest.mark.parametrize("rows", [False, True])
def test_a_filled_store_reads_as_the_one_that_was_pushed(
    tmp_path: Path, make_file: Callable[..., ParsedFile], *, rows: bool
) -> None:
    files, url = make_files(make_file), str(tmp_path / "shared")
    pushed = SqliteChunkStore(tmp_path / "pushed", "code")
    chance = np.random.default_rng(3)
    digests = sorted({chunk.digest for file in files for chunk in file.chunks})
    vectors: dict[str, dict[bytes, Any]] = {}
    for model, size in MODELS.items():
        held = chance.standard_normal((len(digests) - 1, size)).astype(np.float32)
        held /= np.linalg.norm(held, axis=1, keepdims=True)
        vectors[model] = dict(zip(digests[1:], held, strict=True))
        pushed.put_vectors(model, digests[1:], held)
    pushed.replace(files)
    push(tmp_path / "pushed", url, files, vectors)
    (tmp_path / "filled").mkdir()
    filled = SharedIndex(url).fill("r", "c" * 40, tmp_path / "filled", rows=rows)
    assert filled.source == ("rows" if rows else "snapshot")
    store = SqliteChunkStore(tmp_path / "filled", "code")
    expected, found = describe(pushed), describe(store)
    for what, value in expected.items():
        assert found[what] == value, what
    pushed.close()
    store.close()
