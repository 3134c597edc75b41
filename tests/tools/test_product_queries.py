"""Any string is a legal query: an answer or one of our errors, never anything else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sonde.app import App
from sonde.errors import EmptyQuery, InvalidPattern, SondeError
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.tools.code import grep, search_by_path, search_code, search_docs
from sonde.tools.index import create_index, get_index_status, reindex_file
from sonde.tools.pages import hybrid_search
from sonde.wiring import build_app


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    base = tmp_path_factory.mktemp("queries")
    root = base / "project"
    root.mkdir()
    (root / "pyproject.toml").write_text("")
    (root / "größe.py").write_text("def größe_messen():\n    return 'AND OR NOT'\n", "utf-8")
    (root / "sea.py").write_text("def find(x): return x * (x - 1)  # 海象 🦭\n", "utf-8")
    (root / "guide.md").write_text("# Guide\n\nquotes \" and 'so' (on)\n")
    made = build_app(load_settings({}, home=base / "home", assume_yes=True), start=root)
    create_index(made, work=Work())
    yield made
    made.close()


# any code point, lone halves of pairs included
anything = st.text(st.characters(exclude_categories=()), max_size=60)
operators = st.lists(
    st.sampled_from(
        ["AND", "OR", "NOT", "NEAR(", '"', "'", "*", "^", "-", "(", ")", ":", "path:", "%", "_",
         "\\", "{", "}", "[", "]", "|", "+", "?", "\0", "\ud800", "海象", "🦭", "größe", "{x}",
         "..", "/", "~", "**", "[[:", "(?=", "\\1", "$", ";--", "\r\n", "\u202e", "é"]
    ),
    max_size=12,
).map(" ".join)  # fmt: skip
queries = st.one_of(anything, operators)
lenient = settings(max_examples=60)


def ask(call: Any, *args: Any, **options: Any) -> Any:
    """The answer as a client would get it, or our error as it would."""
    try:
        answer = call(*args, **options, work=Work())
    except SondeError as error:
        answer = error.as_dict()
        assert answer["userMessage"]
        assert answer["nextAction"]
    json.loads(json.dumps(answer, allow_nan=False))
    return answer


@lenient
@given(query=queries, mode=st.sampled_from(["auto", "lexical", "semantic"]))
@example(query="x" * 100_000, mode="auto")
@example(query="größe_messen( " * 7000, mode="auto")
@example(query="海" * 50_000, mode="auto")
@example(query="../..", mode="auto")
@example(query="half a character \ud800", mode="auto")
@example(query="**/{a,b}/" + "{c,d}" * 20, mode="auto")
@example(query=r"(\w{900}){900}", mode="auto")
@example(query="/{/", mode="auto")
def test_any_query_is_answered(app: App, query: str, mode: str) -> None:
    for verb in (search_code, search_docs):
        answer = ask(verb, app, query, mode=mode)
        assert ("results" in answer) == bool(query.strip()), answer
    answer = ask(hybrid_search, app, query)
    assert ("results" in answer) == bool(query.strip()), answer


@lenient
@given(pattern=queries)
def test_any_glob_is_answered_or_refused_with_a_reason(app: App, pattern: str) -> None:
    answer = ask(search_by_path, app, pattern)
    assert "matches" in answer or answer["code"] == "INVALID_PATTERN"


@lenient
@given(pattern=queries, fixed=st.booleans(), word=st.booleans())
@example(pattern="(" * 5000, fixed=False, word=False)
@example(pattern="(a+)+$" * 500, fixed=False, word=True)
@example(pattern="[a[b]", fixed=False, word=False)
@example(pattern="x{1000}{1000}", fixed=False, word=False)
def test_any_expression_is_answered_or_refused_with_a_reason(
    app: App, pattern: str, fixed: bool, word: bool
) -> None:
    answer = ask(grep, app, pattern, fixed_string=fixed, whole_word=word)
    assert "matches" in answer or answer["code"] == "INVALID_PATTERN"


@lenient
@given(path=queries)
@example(path="a" * 4000)
@example(path="/".join("a" * 1500))
def test_any_path_or_project_is_answered_or_refused_with_a_reason(app: App, path: str) -> None:
    ask(search_code, app, "find", path=path)
    ask(grep, app, "find", paths=(path,))
    ask(reindex_file, app, path)
    ask(get_index_status, app, path)
    ask(search_code, app, "find", project=path)


@lenient
@given(text=queries)
def test_any_cursor_or_token_is_refused_with_a_reason(app: App, text: str) -> None:
    answer = ask(search_code, app, "", cursor=text)
    assert answer["code"] == ("BAD_CURSOR" if text else "EMPTY_QUERY")
    assert ask(create_index, app, confirm=text)["status"] == "success"


@pytest.mark.row("000-P65")
@pytest.mark.parametrize(
    ("pattern", "position"),
    [("ab(", 2), ("ab)", 2), ("*a", 0), ("x{2000}", 1), ("a(?=b)", 1), (r"(a)\1", 3),
     ("[z-a]", 1), ("ok\ud800", 2), (r"\p{Foo}", 0)],
)  # fmt: skip
def test_a_broken_expression_is_told_by_its_position(app: App, pattern: str, position: int) -> None:
    with pytest.raises(InvalidPattern) as told:
        grep(app, pattern, work=Work())
    assert f"at position {position}" in told.value.developer_message


def test_two_letters_of_chinese_and_folded_accents_find_their_text(app: App) -> None:
    assert search_code(app, "海象", work=Work())["results"][0]["path"] == "sea.py"
    assert search_code(app, "grosse grö groesse größe", work=Work())["results"]
    assert search_code(app, "messen groß", work=Work())["results"][0]["path"] == "größe.py"


@pytest.mark.row("000-P64", "003-C58")
def test_blank_queries_are_refused(app: App) -> None:
    for query in ("", " ", "\t\n", "\u3000"):
        with pytest.raises(EmptyQuery):
            search_code(app, query, work=Work())


@pytest.mark.row("000-P39")
def test_results_of_one_question_are_always_in_the_same_order(app: App, tmp_path: Path) -> None:
    first = search_code(app, "find größe guide", work=Work())["results"]
    assert all(search_code(app, "find größe guide", work=Work())["results"] == first for _ in "123")
