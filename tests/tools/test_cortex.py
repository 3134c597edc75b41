"""`cortex_search`: the document's request, answer, filters and errors, on the project's index."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.trees import write_files

from sonde.app import App
from sonde.errors import EmbeddingFailed, EmptyQuery, InvalidRequest
from sonde.projects.views import export_chunks
from sonde.runtime.work import Work
from sonde.tools import TOOLS
from sonde.tools.code import search_by_path, search_code, search_docs
from sonde.tools.index import create_index, get_index_status
from sonde.tools.pages import hybrid_search, lexical_search, semantic_search
from sonde.tools.tool import bind_arguments, find_tool

HANDLER = """package auth

import (
\t"context"
\t"crypto/subtle"
\t"errors"
\t"net/http"
\t"time"
)

type AuthHandler struct {
\tTimeout time.Duration
}

// Authenticate checks the password of a user.
func (h *AuthHandler) Authenticate(ctx context.Context, name string) error {
\treturn errors.New("no")
}
"""
FILES = {
    "go.mod": "module shop\n",
    "internal/auth/handler.go": HANDLER,
    "internal/db/pool.go": "package db\n\nconst MaxConnections = 20\n\nfunc Open() {}\n",
    "web/errors.ts": "export function handleError(e: Error): void { log(e) }\n",
    "docs/adr/auth.md": "---\ntags: [architecture]\n---\n# Authentication decisions\n\nWhy.\n",
    "docs/setup.md": "# Setup\n\nConnect the database first. #howto\n",
    "config/db.yml": "database:\n  host: localhost\n  connections: 20\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_files(tmp_path / "project", FILES)


@pytest.fixture
def app(open_app: Callable[..., App]) -> App:
    opened = open_app(max_tokens=20_000)
    create_index(opened, work=Work())
    return opened


def call(app: App, **arguments: Any) -> dict[str, Any]:
    tool = find_tool(TOOLS, "cortex_search")
    return dict(tool.call(app, **bind_arguments(tool, arguments), work=Work()))


def places(answer: dict[str, Any]) -> list[tuple[str, str]]:
    chunks = [row["chunk"] for row in answer["results"]]
    return [(chunk["chunk_type"], chunk["metadata"]["file_path"]) for chunk in chunks]


@pytest.mark.row("003-C20", "003-C23", "003-C24", "003-C45", "000-P67")
def test_the_answer_is_that_of_the_document(app: App) -> None:
    answer = call(app, query="auth handler", chunk_types=["symbols"], tags=["auth"])
    (row,) = answer["results"]
    assert list(answer) == ["results", "total", "score_type"]
    assert (answer["total"], answer["score_type"]) == (1, "cosine_and_words")
    assert list(row) == ["chunk", "combined_score"]
    assert -1 <= row["combined_score"] <= 1
    chunk = row["chunk"]
    assert list(chunk) == [
        "id", "chunk_type", "title", "text", "tags", "metadata", "created_at", "updated_at",
    ]  # fmt: skip
    assert chunk["id"] == "code-symbols-internal-auth-handler-go"
    assert chunk["title"] == "internal/auth/handler.go symbols"
    assert chunk["text"].startswith(
        "Package: auth\n\nImports: 5 packages\n\nTypes:\n  - AuthHandler (struct) (lines 11-13)\n"
    )
    assert chunk["tags"] == ["code", "go", "symbols", "internal", "auth"]
    assert chunk["metadata"] == {
        "source": "code",
        "file_path": "internal/auth/handler.go",
        "language": "go",
        "package": "auth",
        "imports_count": 5,
        "types_count": 1,
        "functions_count": 1,
    }
    assert chunk["created_at"].endswith("Z")
    assert "embedding" not in json.dumps(answer)


@pytest.mark.row(
    "003-C7", "003-C9", "003-C17", "003-C25", "003-C26", "003-C27", "003-C28", "003-C29"
)
@pytest.mark.parametrize(
    ("query", "filters", "found"),
    [
        ("authentication design decisions",
         {"chunk_types": ["documentation"], "tags": ["architecture"]},
         {("documentation", "docs/adr/auth.md")}),
        ("database connection settings", {"chunk_types": ["data"]},
         {("data", "config/db.yml"), ("data", "internal/db/pool.go"), ("data", "go.mod")}),
        ("error handling patterns", {"tags": ["typescript", "code"]},
         {("symbols", "web/errors.ts"), ("definitions", "web/errors.ts")}),
        ("errors", {"tags": ["typescript", "definitions"]}, {("definitions", "web/errors.ts")}),
        ("database", {"tags": ["#HowTo"]}, {("documentation", "docs/setup.md")}),
        ("database", {"tags": ["no-such-tag"]}, set()),
        ("database", {"chunk_types": ["no-such-type"]}, set()),
    ],
)  # fmt: skip
def test_the_documents_queries_find_what_it_says(
    app: App, query: str, filters: dict[str, Any], found: set[tuple[str, str]]
) -> None:
    assert set(places(call(app, query=query, **filters))) == found


@pytest.mark.row("003-C8", "003-C46", "003-C62")
def test_without_filters_all_types_are_searched_best_first_and_always_alike(app: App) -> None:
    answer = call(app, query="how does authentication work")
    scores = [row["combined_score"] for row in answer["results"]]
    assert {type_ for type_, _ in places(answer)} == {
        "documentation", "symbols", "definitions", "data",
    }  # fmt: skip
    assert scores == sorted(scores, reverse=True)
    assert call(app, query="how does authentication work") == answer


@pytest.mark.row("003-C4", "003-C5")
@pytest.mark.parametrize(("limit", "count"), [(0, 1), (-5, 1), (2, 2), (1000, 100)])
def test_a_limit_out_of_bounds_is_clamped(app: App, root: Path, limit: int, count: int) -> None:
    many = "".join(f"def compute_{number}():\n    pass\n\n" for number in range(150))
    (root / "many.py").write_text(many)
    create_index(app, work=Work())
    assert len(call(app, query="compute", limit=limit, max_tokens=20_000)["results"]) <= count
    assert call(app, query="compute", limit=limit)["total"] == count


@pytest.mark.row("003-C10", "003-C18")
@pytest.mark.parametrize("filters", [{"tags": ["nope"]}, {"chunk_types": ["nope"]}])
def test_filters_that_nothing_fits_say_so(app: App, filters: dict[str, list[str]]) -> None:
    answer = call(app, query="auth", **filters)
    assert (answer["results"], answer["total"]) == ([], 0)
    assert "nope" in answer["note"]
    assert "note" not in call(app, query="auth")


@pytest.mark.row("003-C3", "003-C58")
def test_malformed_calls_are_refused(app: App) -> None:
    for arguments in ({}, {"query": 5}, {"query": "x", "tags": "go"}, {"query": "x", "nope": 1}):
        with pytest.raises(InvalidRequest):
            call(app, **arguments)
    with pytest.raises(EmptyQuery):
        call(app, query="  ")


@pytest.mark.row("003-C60")
def test_without_an_embedding_model_the_search_fails_as_documented(
    open_app: Callable[..., App],
) -> None:
    bare = open_app(embedding="none")
    create_index(bare, work=Work())
    with pytest.raises(EmbeddingFailed):
        call(bare, query="anything")


@pytest.mark.row("003-C68")
def test_page_two_marks_files_that_have_changed_since(app: App, root: Path) -> None:
    for number in range(30):
        (root / f"note_{number:02}.md").write_text(f"# Note {number}\n\nOtters, {number}.\n")
    create_index(app, work=Work())
    first = call(app, query="otters", limit=30, chunk_types=["documentation"], max_tokens=400)
    shown = {file for _, file in places(first)}
    left = sorted({f"note_{number:02}.md" for number in range(30)} - shown)
    (root / left[0]).unlink()
    (root / left[1]).write_text("# Other\n\nBeavers.\n")
    second = call(app, cursor=first["nextCursor"], max_tokens=20_000)
    stale = [r["chunk"]["metadata"]["file_path"] for r in second["results"] if r.get("stale")]
    assert sorted(stale) == left[:2]
    assert not any("stale" in row for row in first["results"])


@pytest.mark.row("003-C6")
def test_what_does_not_fit_comes_with_the_cursor(app: App) -> None:
    whole = call(app, query="database", limit=10)
    first = call(app, query="database", limit=10, max_tokens=400)
    assert first["truncated"]
    assert first["total"] == whole["total"]
    rows, cursor = first["results"], first["nextCursor"]
    while cursor:
        more = call(app, cursor=cursor, max_tokens=400)
        rows, cursor = rows + more["results"], more.get("nextCursor")
    assert [row["chunk"]["id"] for row in rows] == [r["chunk"]["id"] for r in whole["results"]]


@pytest.mark.row("003-C19", "003-C47")
def test_one_chunk_among_thousands_is_found_by_its_tag(app: App, root: Path) -> None:
    """All others fit the query better: a filter after a top-k would lose it."""
    for number in range(40):
        body = "".join(f"## Part {part}\n\nParcel parcel delivery.\n\n" for part in range(50))
        (root / f"docs/parcels{number}.md").write_text(f"# Parcels\n\n{body * 3}")
    (root / "docs/odd.md").write_text("Nothing of the kind. #needle\n")
    create_index(app, work=Work())
    answer = call(app, query="parcel delivery", tags=["needle"])
    assert places(answer) == [("documentation", "docs/odd.md")]
    assert [r["path"] for r in search_docs(app, "parcel delivery", tags=("needle",), work=Work())[
        "results"]] == ["docs/odd.md"]  # fmt: skip
    for verb in (semantic_search, hybrid_search):
        matches = verb(app, "parcel delivery", tags=("needle",), work=Work())["results"]["matches"]
        assert [match["file"]["path"] for match in matches] == ["docs/odd.md"]


def test_edits_show_in_the_next_search(app: App, root: Path) -> None:
    call(app, query="otter")
    (root / "internal/auth/handler.go").write_text(HANDLER + "\n// Otter swims.\nfunc Otter() {}\n")
    (root / "web/errors.ts").unlink()
    create_index(app, work=Work())
    answer = call(app, query="Otter", chunk_types=["definitions"])
    assert answer["results"][0]["chunk"]["metadata"]["name"] == "Otter"
    assert ("definitions", "web/errors.ts") not in places(answer)


@pytest.mark.row("003-C71")
def test_exported_chunks_answer_and_are_no_part_of_the_project(app: App, root: Path) -> None:
    before = call(app, query="authentication")
    answer = export_chunks(app.workspace, work=Work())
    assert "from now on" in answer["message"]
    (root / "docs/setup.md").write_text("# Changed\n")
    create_index(app, work=Work())
    after = call(app, query="authentication")
    assert [row["chunk"] for row in after["results"]] == [row["chunk"] for row in before["results"]]
    found = hybrid_search(app, "authentication", work=Work())["results"]["matches"]
    assert not any(match["file"]["path"].startswith(".cortex") for match in found)
    assert search_by_path(app, "**/*chunks*", work=Work())["matches"] == []


def test_broken_views_are_made_anew_and_the_index_stays(app: App, tmp_path: Path) -> None:
    before = call(app, query="authentication")
    (views,) = (tmp_path / "home").glob("indexes/*/views-*/index.db")
    generation = app.workspace.projects.get(app.workspace.start).stores()["code"].generation()
    for verb in (call, lambda app, query: search_code(app, query, chunk_types=("data",),
                                                      work=Work())):  # fmt: skip
        app.workspace.projects.forget(app.workspace.start)
        for path in views.parent.glob("index.db*"):
            path.write_bytes(b"garbage" * 1_000)
        assert verb(app, query="authentication")["results"]
    assert call(app, query="authentication") == before
    assert (
        app.workspace.projects.get(app.workspace.start).stores()["code"].generation() == generation
    )


def test_the_status_names_languages_without_a_grammar(app: App, root: Path) -> None:
    (root / "old.pl").write_text("sub add { return 1 }\n")
    create_index(app, work=Work())
    assert get_index_status(app, work=Work())["details"]["withoutGrammar"] == {"perl": 1}
    (row,) = call(app, query="add", tags=["perl"])["results"]
    assert row["chunk"]["metadata"]["parsed"] is False


def test_other_searches_take_types_and_tags(app: App) -> None:
    plain = search_code(app, "authenticate", work=Work())
    assert search_code(app, "authenticate", work=Work(), tags=("go",))["results"][0]["path"] == (
        "internal/auth/handler.go"
    )
    (row, *_) = search_code(app, "authenticate", work=Work(), chunk_types=("definitions",))[
        "results"
    ]
    assert row["path"] == "internal/auth/handler.go"
    assert "Authenticate(ctx" in row["text"]
    assert "errors.New" not in row["text"]
    assert row["startLine"] == 15
    found = lexical_search(app, "timeout", chunk_types=("definitions",), work=Work())
    assert [m["file"]["path"] for m in found["results"]["matches"]] == ["internal/auth/handler.go"]
    assert search_code(app, "authenticate", work=Work(), tags=("zig",))["results"] == []
    again = search_code(app, "authenticate", work=Work())
    assert [row["path"] for row in again["results"]] == [row["path"] for row in plain["results"]]
