"""The language of queries: what is a condition, what is text; printing is parsing undone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.searching.query_language import (
    FILE_KINDS,
    Query,
    compile_conditions,
    complete_query,
    fits_project,
    fits_symbol,
    parse_query,
)
from sonde.searching.query_language import QueryCondition as Condition

WORDS = st.from_regex(r"[a-z]{3,8}", fullmatch=True)
NAMED = st.one_of(
    st.builds(Condition, st.just("lang"), st.sampled_from(["python", "c++", "go"]), st.booleans()),
    st.builds(Condition, st.just("file"), st.text("ab*/ .\"\\é", min_size=1, max_size=9).filter(
        lambda text: text.strip() and not text.startswith("//")), st.booleans()),
    st.builds(Condition, st.just("repo"), WORDS, st.booleans()),
    st.builds(Condition, st.just("kind"), st.sampled_from(FILE_KINDS), st.booleans()),
    st.builds(Condition, st.just("sym"), st.from_regex(r"[a-zA-Z_.]{1,9}", fullmatch=True)),
    st.builds(Condition, st.just("text"), st.text("ab\"\\ '-", min_size=1, max_size=9)),
    st.builds(Condition, st.just("regex"), st.sampled_from([r"a.*b", r"\w+ x", r"(a|b)\/c"])),
    st.builds(Condition, st.just("word"), WORDS, st.sampled_from([True])),
)  # fmt: skip


@given(st.lists(NAMED, min_size=1, max_size=5), st.lists(WORDS, min_size=1, max_size=3))
def test_a_printed_query_is_parsed_to_the_same(conditions, words):
    asked = {"how", "what", "where", "why", "which", "who", "when", "does", "can", "should", "are"}
    if not asked.isdisjoint(words) or "the" in words:
        return
    query = Query((*conditions, " ".join(words)))
    assert parse_query(str(query)) == query


HOSTILE = st.text('ab:"\\/-* \n\t\0é{[(^\ud800', max_size=60)


@given(st.one_of(st.text(max_size=80), HOSTILE, st.builds("lang:{} {}".format, HOSTILE, HOSTILE)))
def test_any_text_is_a_query_and_stays_the_same_once_printed(text):
    query = parse_query(text)
    assert parse_query(str(query)) == query
    if not query.conditions:
        assert str(query) == text.strip()
    fits = compile_conditions(query.conditions)
    assert fits("src/a.py", "code") in (True, False)
    complete_query(text, lambda _field, _prefix: ["a", "b c"])


@pytest.mark.parametrize(
    ("text", "conditions", "left"),
    [
        ("lang:python retry", [Condition("lang", "python")], "retry"),
        ("language:C++ x", [Condition("lang", "C++")], "x"),
        ("retry -test", [Condition("word", "test", negated=True)], "retry"),
        ('"connection refused" retry', [Condition("text", "connection refused")],
         "retry connection refused"),
        (r"-/TODO.*x/ retry", [Condition("regex", "TODO.*x", negated=True)], "retry"),
        ("sym:get_or_create", [Condition("sym", "get_or_create")], "get_or_create"),
        ('file:"my notes/" x', [Condition("file", "my notes/")], "x"),
        ("kind:tests x", [Condition("kind", "test")], "x"),
        ('lang:go "exact words"', [Condition("lang", "go"), Condition("text", "exact words")],
         '"exact words"'),
        # no conditions
        ("how does lang work", [], "how does lang work"),
        ('where is "retry" -used', [], 'where is "retry" -used'),
        ('"quoted alone"', [], '"quoted alone"'),
        ("git commit -m message", [], "git commit -m message"),
        ("-test", [], "-test"),
        ("http://localhost:8000/a", [], "http://localhost:8000/a"),
        ("file:///etc/hosts", [], "file:///etc/hosts"),
        ("kind:Deployment", [], "kind:Deployment"),
        ("/usr/lib/python", [], "/usr/lib/python"),
        ("std::vector<int>", [], "std::vector<int>"),
        ("lang: python", [], "lang: python"),
        ("first line\nlang:go", [], "first line\nlang:go"),
    ],
)  # fmt: skip
def test_what_is_a_condition_and_what_is_text(text, conditions, left):
    query = parse_query(text)
    assert [*query.conditions] == conditions
    assert query.text == left


@pytest.mark.parametrize(
    ("text", "path", "kind", "fits"),
    [
        ("lang:py x", "src/a.py", "code", True),
        ("lang:py lang:go x", "src/a.go", "code", True),
        ("lang:py file:src/ x", "lib/a.py", "code", False),
        ("-lang:py x", "src/a.py", "code", False),
        ("file:src/ x", "src/a.py", "code", True),
        ("file:web/ x", "src/web/a.py", "code", True),
        ("file:web/ x", "src/webs/a.py", "code", False),
        ("file:/web/ x", "src/web/a.py", "code", False),
        ("file:/src/w x", "src/web/a.py", "code", True),
        ("file:cart x", "src/shop/Cart.py", "code", True),
        ("file:*.toml x", "a/b/pyproject.toml", "code", True),
        ("kind:config x", "a/b/pyproject.toml", "code", True),
        ("kind:code x", "a/b/pyproject.toml", "code", False),
        ("kind:docs x", "README.md", "docs", True),
        ("-kind:test x", "tests/test_a.py", "code", False),
        ("kind:test x", "src/Shop.Tests/Orders/Builder.cs", "code", True),
        ("kind:test x", "Tests/BaseCase.swift", "code", True),
        ("kind:test x", "shop/src/commonTest/kotlin/Util.kt", "code", True),
        ("kind:test x", "t/integration/tasks.py", "code", True),
        ("kind:test x", "doc/messages/t/too-many.py", "code", False),
        ("kind:test x", "src/contest/latest/attest.py", "code", False),
        ("-kind:test -file:vendor/ x", "src/a.py", "code", True),
        ("repo:shop sym:x -word", "src/a.py", "code", True),
    ],
)
def test_which_files_fit(text, path, kind, fits):
    assert compile_conditions(parse_query(text).conditions)(path, kind) is fits


def test_which_projects_and_definitions_fit():
    chosen = parse_query("repo:shop -repo:old/shop sym:Total -sym:test_ x").conditions
    assert fits_project(chosen, "/home/you/shop")
    assert not fits_project(chosen, "/home/you/old/shop")
    assert not fits_project(chosen, "/home/you/workshop")
    assert fits_symbol(chosen, ["Cart.total_price"])
    assert not fits_symbol(chosen, ["Cart.total_price", "test_total"])
    assert not fits_symbol(chosen, [])


def test_a_facet_is_put_into_the_query_and_taken_out_again():
    query = parse_query("retry policy")
    narrowed = query.toggle(Condition("lang", "go"))
    assert str(narrowed) == "retry policy lang:go"
    assert parse_query(str(narrowed)).toggle(Condition("lang", "go")) == query


def test_the_last_word_is_completed():
    def list_values(field: str, prefix: str) -> list[str]:
        return {"lang": ["python", "typescript"], "file": ["src/", "my docs/"]}[field]

    assert [text for text, _ in complete_query("retry la", list_values).items] == ["lang:"]
    assert complete_query("retry -k", list_values).items[0][0] == "-kind:"
    found = complete_query("retry lang:PY", list_values)
    assert (found.start, found.items) == (6, (("lang:python", ""),))
    assert complete_query("file:do", list_values).items == (('file:"my docs/"', ""),)
    assert complete_query("kind:", list_values).items[0][0] == "kind:code"
    for text in ("", "retry ", "zz:x", "lang:python", "retry"):
        assert complete_query(text, list_values).items == ()
