"""What every `ContextSearcher` must do, over the same chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.trees import write_files

from sonde.app import App
from sonde.embedding.static import StaticEmbedder
from sonde.projects.views import ProjectSearcher, export_chunks
from sonde.runtime.work import Work
from sonde.searching.chunk_files import ChunkFiles
from sonde.searching.contexts import ContextSearcher, SearchOptions
from sonde.settings import load_settings
from sonde.tools.index import create_index
from sonde.wiring import build_app

FILES = {
    "go.mod": "module shop\n",
    "cart/cart.go": "package cart\n\n// Add adds an item.\nfunc Add(n int) {}\n\nconst Max = 3\n",
    "cart/price.py": "RATE = 7\n\ndef compute_price(items):\n    '''Sum of all.'''\n    return 1\n",
    "docs/ship.md": "---\ntags: [logistics]\n---\n# Shipping\n\nParcels leave at noon. #daily\n",
    "config/app.yml": "server:\n  port: 80\n",
}
QUERIES = ("compute the price", "parcels", "port", "Add", "nothing like it at all", "x" * 5_000)
FILTERS = (
    SearchOptions(min_score=-1),
    SearchOptions(limit=1),
    SearchOptions(chunk_types=("definitions",), min_score=-1),
    SearchOptions(chunk_types=("symbols", "data"), min_score=-1),
    SearchOptions(tags=("go", "code"), min_score=-1),
    SearchOptions(tags=("#Logistics",), min_score=-1),
    SearchOptions(tags=("python", "definitions"), min_score=-1),
    SearchOptions(tags=("daily",), chunk_types=("data",), min_score=-1),
)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    root = write_files(tmp_path_factory.mktemp("project"), FILES)
    home = tmp_path_factory.mktemp("home")
    opened = build_app(load_settings({}, home=home, assume_yes=True), start=root)
    create_index(opened, work=Work())
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def folder(app: App, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("chunks")
    answer = export_chunks(app.workspace, str(made), work=Work())
    assert sorted(answer["files"]) == sorted(path.name for path in made.iterdir())
    return made


@pytest.fixture(params=["index", "chunk files"])
def searcher(request: pytest.FixtureRequest, app: App, folder: Path) -> ContextSearcher:
    if request.param == "index":
        return ProjectSearcher(app.workspace)
    return ChunkFiles(folder, StaticEmbedder())


@pytest.mark.row("003-C16", "003-C46", "003-C48", "003-C49", "003-C61", "003-C62")
@pytest.mark.parametrize("options", FILTERS)
def test_results_are_ordered_filtered_limited_and_always_the_same(
    searcher: ContextSearcher, options: SearchOptions
) -> None:
    for query in QUERIES:
        found = searcher.query(query, options)
        keys = [(-one.combined_score, one.chunk.id) for one in found]
        assert keys == sorted(keys)
        assert len(found) <= options.limit
        assert found == searcher.query(query, options)
        for one in found:
            assert -1 <= one.combined_score <= 1
            assert one.combined_score >= options.min_score
            assert {tag.strip("#").lower() for tag in options.tags} <= set(one.chunk.tags)
            assert not options.chunk_types or one.chunk.chunk_type in options.chunk_types


@pytest.mark.row("003-C10", "003-C18")
def test_unknown_tags_and_types_find_nothing(searcher: ContextSearcher) -> None:
    assert searcher.query("price", SearchOptions(tags=("nobody",), min_score=-1)) == []
    assert searcher.query("price", SearchOptions(chunk_types=("no",), min_score=-1)) == []


def test_the_best_answer_comes_first(searcher: ContextSearcher) -> None:
    (best, *_) = searcher.query("compute the price of items", SearchOptions())
    assert best.chunk.metadata["file_path"] == "cart/price.py"


@pytest.mark.row("003-C71")
@pytest.mark.parametrize("options", FILTERS)
def test_what_was_exported_gives_the_same_answers(
    app: App, folder: Path, options: SearchOptions
) -> None:
    here, there = ProjectSearcher(app.workspace), ChunkFiles(folder, StaticEmbedder())
    for query in QUERIES:
        ours, theirs = here.query(query, options), there.query(query, options)
        assert [one.chunk for one in ours] == [one.chunk for one in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.combined_score == pytest.approx(other.combined_score, abs=1e-4)


def test_exported_files_carry_whole_chunks_with_embeddings(folder: Path) -> None:
    value = json.loads((folder / "code-definitions.json").read_text())
    assert value["_metadata"]["dimensions"] == len(value["chunks"][0]["embedding"])
    assert set(value["chunks"][0]) == {
        "id", "chunk_type", "title", "text", "tags", "metadata", "created_at", "updated_at",
        "embedding",
    }  # fmt: skip
