"""Searches with pages: PAGE's shape, true spans, filters, and pages that add up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.app import App
from sonde.errors import EmptyQuery, InvalidPattern, InvalidRequest, OutsideRoots
from sonde.runtime.work import Work
from sonde.tools.index import create_index
from sonde.tools.pages import hybrid_search, lexical_search, regex_search, semantic_search

RANKED = (semantic_search, lexical_search, hybrid_search)
ALL_FOUR = (*RANKED, regex_search)
EXAMPLE: dict[str, Any] = {
    "search": {"query": "original query/pattern", "mode": "semantic", "parameters": {}},
    "results": {
        "matches": [
            {
                "file": {"path": "path/to/file.rs", "language": "rust"},
                "match": {
                    "span": {
                        "byte_start": 1234,
                        "byte_end": 1290,
                        "line_start": 45,
                        "line_end": 47,
                    },
                    "content": "code snippet...",
                    "score": 0.89,
                    "line_number": 45,
                },
                "type": "semantic_match",
            }
        ],
        "count": 25,
        "total_count": 127,
        "has_more": True,
        "truncated": False,
    },
    "pagination": {"next_cursor": "opaque", "page_size": 50, "current_page": 1},
    "metadata": {"search_time_ms": 234, "index_stats": {"total_files": 1234, "total_chunks": 5678}},
}
"""The document's example."""


def write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    write_file(folder / "pyproject.toml", "[project]\n")
    for number in range(60):
        text = f"# größer\n\n\ndef walrus_{number}(sea):\n    return sea.walrus[{number}]\n"
        write_file(folder / "src" / f"w{number:02}.py", text)
    write_file(folder / "web" / "walrus.ts", "export const walrus = 1\n")
    write_file(folder / "guide.md", "# Walrus\n\nWhere the walrus lives.\n")
    return folder


def matches_of(page: Any) -> list[dict[str, Any]]:
    return list(page["results"]["matches"])


def places_of(page: Any) -> list[tuple[str, int]]:
    return [(m["file"]["path"], m["match"]["span"]["line_start"]) for m in matches_of(page)]


def walk(app: App, verb: Callable[..., Any], page: Any, **options: Any) -> Iterator[Any]:
    while True:
        yield page
        cursor = page["pagination"]["next_cursor"]
        assert page["results"]["has_more"] == (cursor is not None)
        if cursor is None:
            return
        page = verb(app, cursor=cursor, work=Work(), **options)


def assert_like(example: Any, value: Any, where: str = "", absent: tuple[str, ...] = ()) -> None:
    """Every key of the example is there with a value of its type."""
    if isinstance(example, dict):
        assert isinstance(value, dict), where
        for key, inner in example.items():
            if key not in absent:
                assert key in value, f"{where}.{key}"
                assert_like(inner, value[key], f"{where}.{key}", absent)
    elif isinstance(example, list):
        assert value, where
        for item in value:
            assert_like(example[0], item, where, absent)
    else:
        assert type(value) is type(example), (where, value)


@pytest.mark.row("000-P1", "000-P3", "000-P8", "000-P9", "000-P10", "000-P13", "000-P14", "000-P15")
@pytest.mark.row("000-P16", "000-P17", "000-P21", "000-P22", "000-P24", "000-P25", "000-P34")
@pytest.mark.parametrize("verb", ALL_FOUR)
@pytest.mark.row("001-166")
def test_an_answer_has_every_field_of_the_document(app: App, verb: Callable[..., Any]) -> None:
    page = verb(app, "walrus", page_size=25, work=Work())
    is_regex = verb is regex_search
    assert_like(EXAMPLE, page, absent=("score" if is_regex else "line_number",))
    assert list(page) == list(EXAMPLE)
    mode = verb.__name__.removesuffix("_search")
    assert page["search"] == {"query": "walrus", "mode": mode, "parameters": {"page_size": 25}}
    for match in matches_of(page):
        assert match["type"] == f"{mode}_match"
        assert ("score" in match["match"]) != is_regex
        assert ("line_number" in match["match"]) == is_regex
    assert page["results"]["count"] == 25
    assert page["metadata"]["index_stats"]["total_files"] == 63
    assert len(json.dumps(verb(app, "walrus", work=Work()), ensure_ascii=False)) <= 10_000


@pytest.mark.row("000-P11", "000-P6")
@pytest.mark.parametrize("verb", [hybrid_search, regex_search])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "marked"])
def test_spans_are_the_bytes_of_the_file(
    open_app: Callable[..., App], root: Path, verb: Callable[..., Any], ending: str, mark: str
) -> None:
    text = "# ä🦭\ndef otter():\n    return 'größer otter 海'\n".replace("\n", ending)
    write_file(root / "src" / "otter.py", mark + text * 3)
    app = open_app()
    create_index(app, work=Work())
    page = verb(app, "otter", page_size=200, snippet_length=30, path="src", work=Work())
    found = [m["match"] for m in matches_of(page) if m["file"]["path"] == "src/otter.py"]
    assert found
    data = (root / "src" / "otter.py").read_bytes()
    for match in found:
        span = match["span"]
        whole = data[span["byte_start"] : span["byte_end"]].decode()
        assert (match["content"] != whole) == match.get("clipped", False)
        assert match["content"] in whole
        assert 0 < len(match["content"]) <= 30
        assert data[: span["byte_start"]].count(b"\n") + 1 == span["line_start"]
        assert data[: span["byte_end"]].count(b"\n") + 1 == span["line_end"]


@pytest.mark.row("000-P11")
@pytest.mark.parametrize("verb", [hybrid_search, regex_search])
@pytest.mark.parametrize("coding", ["cp1252", "utf-16", "utf-16-be", "utf-32"])
def test_spans_are_the_bytes_of_a_file_in_another_encoding(
    open_app: Callable[..., App], root: Path, verb: Callable[..., Any], coding: str
) -> None:
    text = "# schöne Bäume\n\n\ndef otter():\n    return 'größer otter'\n"
    mark = "\ufeff" if coding == "utf-16-be" else ""
    data = (mark + text).encode(coding)
    (root / "otter.py").write_bytes(data)
    app = open_app()
    create_index(app, work=Work())
    page = verb(app, "otter", path="otter.py", snippet_length=30, work=Work())
    assert matches_of(page)
    plain = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(coding, coding)
    for match in (row["match"] for row in matches_of(page)):
        span = match["span"]
        whole = data[span["byte_start"] : span["byte_end"]].decode(plain)
        assert (match["content"] != whole) == match.get("clipped", False)
        assert match["content"] in whole


@pytest.mark.row("000-P71", "000-P35")
@pytest.mark.parametrize("verb", [hybrid_search, regex_search])
@pytest.mark.parametrize("max_tokens", [400, 2000])
def test_no_page_is_larger_than_its_budget(
    open_app: Callable[..., App], root: Path, verb: Callable[..., Any], max_tokens: int
) -> None:
    contents = (
        '"\\"' * 400,
        "\x01\x7f" * 400,
        "🦭👩‍👩‍👧" * 300,
        "otter" * 5000,
        "otter \\ \"'\n" * 90,
    )
    for number, content in enumerate(contents):
        write_file(root / f"nasty{number}.py", f"otter = {number}\n{content}\n")
    app = open_app()
    create_index(app, work=Work())
    many = ["**", *(f"{'?' * 90}{number}" for number in range(90))]
    options: dict[str, Any] = {"context_lines": 10, "include": many, "exclude": many[1:]}
    page = verb(app, "otter", max_tokens=max_tokens, snippet_length=2000, work=Work(), **options)
    shown = 0
    for one in walk(app, verb, page):
        text = json.dumps(one, ensure_ascii=False, separators=(",", ":"))
        assert len(text) <= 4 * max_tokens
        text.encode()
        shown += one["results"]["count"]
    assert shown == page["results"]["total_count"] >= 5


@pytest.mark.row("000-P19", "000-P23", "000-P56")
@pytest.mark.parametrize("verb", ALL_FOUR)
def test_pages_rebuild_the_ranking(app: App, verb: Callable[..., Any]) -> None:
    whole = verb(app, "walrus", page_size=200, include_snippet=False, work=Work())
    assert whole["results"]["has_more"] is False
    everything = places_of(whole)
    assert len(everything) == whole["results"]["total_count"] >= 60
    assert len(set(everything)) == len(everything)

    @settings(max_examples=12)
    @given(
        st.one_of(
            st.fixed_dictionaries({"page_size": st.integers(5, 70)}),
            st.fixed_dictionaries({"max_tokens": st.integers(600, 1500)}),
        )
    )
    def check(view: dict[str, int]) -> None:
        pages = list(walk(app, verb, verb(app, "walrus", work=Work(), **view)))
        assert [place for page in pages for place in places_of(page)] == everything
        assert [p["pagination"]["current_page"] for p in pages] == list(range(1, len(pages) + 1))
        for page in pages:
            assert page["results"]["total_count"] == len(everything)
            assert page["search"]["parameters"] == view
            if "max_tokens" in view:
                text = json.dumps(page, ensure_ascii=False, separators=(",", ":"))
                assert len(text) <= 4 * view["max_tokens"]
            else:
                assert page["results"]["count"] <= page["pagination"]["page_size"]
                assert page["results"]["truncated"] is False
        if "max_tokens" in view:
            assert pages[0]["results"]["truncated"] is True

    check()


def test_regex_needs_no_index_and_says_the_same_with_one(open_app: Callable[..., App]) -> None:
    app = open_app()
    options = {"page_size": 200, "exclude": ["*.md"], "work": Work()}
    before = regex_search(app, r"walrus\w*", **options)
    assert before["metadata"]["index_stats"] == {"total_files": 0, "total_chunks": 0}
    create_index(app, work=Work())
    after = regex_search(app, query=r"walrus\w*", **options)
    assert matches_of(after) == matches_of(before)
    assert places_of(before) == sorted(places_of(before))
    assert before["results"]["total_count"] == 121


def test_regex_options_and_columns(app: App) -> None:
    def count(pattern: str, **options: Any) -> int:
        page = regex_search(app, pattern, include=["*.md"], work=Work(), **options)
        return int(page["results"]["total_count"])

    assert count("walrus") == 1
    assert count("walrus", ignore_case=True) == 2
    assert count("walru", ignore_case=True, whole_word=True) == 0
    assert count("w.lrus") == 1
    assert count("w.lrus", fixed_string=True) == 0
    (match,) = matches_of(regex_search(app, "l[ai]", include=["*.md"], work=Work()))
    assert match["match"]["content"] == "Where the walrus lives."
    assert match["match"]["columns"] == [[17, 19]]
    with pytest.raises(InvalidPattern):
        regex_search(app, "(", work=Work())
    for verb in ALL_FOUR:
        with pytest.raises(EmptyQuery) as refused:
            verb(app, "  ", work=Work())
        wanted = "pattern" if verb is regex_search else "query"
        assert f"`{wanted}`" in refused.value.next_action


@pytest.mark.parametrize("context", [0, 1])
def test_a_carriage_return_is_matched_as_by_ripgrep_and_not_shown(
    app: App, root: Path, context: int
) -> None:
    (root / "old.txt").write_bytes(b"seal\r\nseal\nseal pup\r\n")

    def rows(pattern: str) -> list[Any]:
        page = regex_search(app, pattern, path="old.txt", context_lines=context, work=Work())
        found = (row["match"] for row in matches_of(page))
        return [
            (m["line_number"], m["content"], m["columns"], m["span"]["byte_end"]) for m in found
        ]

    assert rows("seal$") == [(2, "seal", [[0, 4]], 10)]
    assert rows(r"l\s*$") == [(1, "seal", [[3, 4]], 4), (2, "seal", [[3, 4]], 10)]
    assert rows(r"^.{8,9}$") == [(3, "seal pup", [[0, 8]], 19)]


@pytest.mark.row("000-P18", "000-P20", "000-P46")
def test_a_set_of_lines_is_capped_and_says_so(app: App) -> None:
    page = regex_search(app, "walrus", top_k=7, work=Work())
    found = page["results"]
    assert (found["total_count"], found["capped_at"], found["truncated"]) == (None, 7, True)
    assert found["has_more"] is False
    exact = regex_search(app, "walrus", work=Work())["results"]
    assert exact["total_count"] > 7
    assert "capped_at" not in exact


@pytest.mark.row("000-P7")
@pytest.mark.parametrize("verb", ALL_FOUR)
def test_context_lines_are_those_around_the_match(
    app: App, root: Path, verb: Callable[..., Any]
) -> None:
    page = verb(app, "walrus_7", path="src/w07.py", context_lines=2, snippet_length=20, work=Work())
    lines = (root / "src" / "w07.py").read_text().splitlines()
    for match in (row["match"] for row in matches_of(page)):
        span = match["span"]
        first, last = match.get("content_lines", (span["line_start"], span["line_end"]))
        assert match["before"] == [line[:20] for line in lines[max(0, first - 3) : first - 1]]
        assert match["after"] == [line[:20] for line in lines[last : last + 2]]
    plain = verb(app, "walrus_7", path="src/w07.py", work=Work())
    assert "before" not in matches_of(plain)[0]["match"]


@pytest.mark.row("000-P5")
@pytest.mark.parametrize("verb", ALL_FOUR)
def test_without_snippets_there_is_no_text(app: App, verb: Callable[..., Any]) -> None:
    page = verb(app, "walrus", include_snippet=False, context_lines=2, work=Work())
    for match in (row["match"] for row in matches_of(page)):
        assert not {"content", "before", "after"} & match.keys()
        assert match["span"]["byte_end"] > match["span"]["byte_start"]


@pytest.mark.parametrize("verb", ALL_FOUR)
def test_filters_act_inside_retrieval(app: App, root: Path, verb: Callable[..., Any]) -> None:
    def paths(**options: Any) -> set[str]:
        page = verb(app, "walrus", top_k=1, work=Work(), **options)
        return {match["file"]["path"] for match in matches_of(page)}

    for name in ("TypeScript", "ts", ".tsx", "mts"):
        assert paths(language=name) == {"web/walrus.ts"}
    assert paths(include=["*.md"]) == {"guide.md"}
    assert paths(include=["src/w5?.py"], exclude=["w5[0-8].py"]) == {"src/w59.py"}
    assert paths(path="./web/") == paths(path=str(root / "web")) == {"web/walrus.ts"}
    assert paths(path="web", language="python") == paths(language="klingon") == set()
    for outside in ("../elsewhere", str(root.parent)):
        with pytest.raises(OutsideRoots):
            paths(path=outside, project=str(root))
    with pytest.raises(InvalidPattern):
        paths(include=["["])


@pytest.mark.row("000-P18")
@pytest.mark.parametrize("verb", RANKED)
def test_a_ranking_cut_at_top_k_says_so(app: App, verb: Callable[..., Any]) -> None:
    cut = verb(app, "walrus", top_k=7, work=Work())["results"]
    assert (cut["total_count"], cut["capped_at"], cut["has_more"]) == (None, 7, False)
    assert cut["truncated"] is True
    whole = verb(app, "walrus", top_k=1000, page_size=200, work=Work())["results"]
    assert whole["truncated"] is False


@pytest.mark.row("000-P56")
def test_a_hybrid_ranking_goes_on_beyond_the_files_that_are_weighed(
    open_app: Callable[..., App], root: Path
) -> None:
    for number in range(400):
        write_file(root / "many" / f"m{number:03}.py", f"def otter_{number}(fish):\n    pass\n")
    app = open_app()
    create_index(app, work=Work())
    options: dict[str, Any] = {"page_size": 200, "include_snippet": False, "work": Work()}
    page = hybrid_search(app, "otter fish", top_k=1000, path="many", **options)
    rows = [row for each in walk(app, hybrid_search, page) for row in matches_of(each)]
    assert {row["file"]["path"] for row in rows} == {f"many/m{n:03}.py" for n in range(400)}
    scores = [row["match"]["score"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert page["results"]["total_count"] == len(rows) == 400


@pytest.mark.parametrize("verb", RANKED)
def test_a_threshold_keeps_the_head_of_the_ranking(app: App, verb: Callable[..., Any]) -> None:
    options = {"page_size": 200, "work": Work()}
    whole = matches_of(verb(app, "walrus guide", **options))
    least = whole[len(whole) // 2]["match"]["score"]
    page = verb(app, "walrus guide", threshold=least, **options)
    assert matches_of(page) == [row for row in whole if row["match"]["score"] >= least]
    assert page["results"]["total_count"] == page["results"]["count"]
    assert matches_of(verb(app, "walrus guide", threshold=1e9, **options)) == []


@pytest.mark.row("000-P36")
def test_a_page_over_a_megabyte_is_refused_with_a_way_on(
    open_app: Callable[..., App], root: Path
) -> None:
    for number in range(200):
        write_file(root / "long" / f"n{number:03}.md", f"narwhal {'海' * 1950}\n")
    app, verb = open_app(), regex_search
    options: dict[str, Any] = {"page_size": 200, "path": "long", "work": Work()}
    with pytest.raises(InvalidRequest) as refused:
        verb(app, "narwhal", snippet_length=2000, **options)
    assert "page_size" in refused.value.next_action
    assert "include_snippet=false" in refused.value.next_action
    assert verb(app, "narwhal", include_snippet=False, **options)["results"]["count"] == 200
    options["page_size"] = 50
    assert verb(app, "narwhal", snippet_length=2000, **options)["results"]["count"] == 50
