"""Texts that make a careless pattern try every way to read them, or a name grow with its depth."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import pytest

from sonde.chunking.grammars import parse_tree
from sonde.chunking.parse import parse_source
from sonde.chunking.tags import find_tags
from sonde.chunking.views import derive_views

BLANKS = " " * 150_000
LOCKS = "".join(map("LOCK{}{}{}{}".format, *zip(*product("ABCDEFGHIJKL", repeat=4), strict=True)))
VALUES = "".join(f"int a{number};\n" for number in range(3_000))
LINES = "a\n" * 3_000  # with so many lines a file does not look minified
MOST_S = 4.0  # of processor time; each of these took at least three times as long


@pytest.mark.parametrize(
    "text",
    [
        "#a- " * 30 + "!\n",
        "#a " + "<!--" * 50_000,
        "#a " + "`" * 150_000,
        "---\ntags: [a]\ntitle: x" + " " * 19_000 + "y\n---\n" + "#b " + "<!-- " * 50_000,
    ],
)
def test_tags_of_any_text_are_read_in_linear_time(text: str) -> None:
    began = time.process_time()
    find_tags(text, "markdown")
    assert time.process_time() - began < MOST_S


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.yaml", "url" + BLANKS + "\n" + LINES),
        ("a.ini", "[" + BLANKS + "\n" + LINES),
        ("a.html", "<h1>x" + BLANKS + "\n" + LINES),
        ("a.html", "<script>\n" * 60_000),
        ("a.css", ".a" + BLANKS + "\n" + LINES),
        ("a.feature", "Feature: a" + BLANKS + "b" + BLANKS + "\n" + LINES),
        ("a.nim", "a" + " " * 4_000 + "!\n" + LINES),
        ("a.erl", "f(" + ")" * 150_000 + "\n" + LINES),
        ("a.jl", "f(" + ")::a" * 40_000 + "\n" + LINES),
        ("a.xml", "<" + "a" * 150_000 + "\n" + LINES),
        ("a.cpp", "int f( {\n int a " + LOCKS + " (\n" + VALUES),
    ],
)
def test_names_in_any_text_are_found_in_linear_time(path: str, text: str) -> None:
    began = time.process_time()
    parse_source(path, text, kind="code")
    assert time.process_time() - began < MOST_S


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("A.java", "class A {}\n" + "\n" * 150_000),
        (".env.example", "A=1\n" + "\n" * 150_000 + "!\n"),
    ],
)
def test_views_of_any_text_are_derived_in_linear_time(path: str, text: str) -> None:
    began = time.process_time()
    assert derive_views(path, text, "code")
    assert time.process_time() - began < MOST_S


def test_a_receiver_of_any_length_is_read_in_linear_time() -> None:
    name = "".join(f"A{number}" for number in range(30_000))
    text = f"package a\n\nfunc (r {name}.B) Get() {{}}\n\n"
    text += "".join(f"// {number}\n" for number in range(3_000))
    assert parse_tree("go", text.encode())
    began = time.process_time()
    parse_source("a.go", text, kind="code")
    assert time.process_time() - began < MOST_S


@pytest.mark.parametrize(
    ("path", "opening", "member"),
    [
        ("a.md", "# {}\n", "## a{}\n"),
        ("a.feature", "Feature: {}\n", "  Scenario: a{}\n"),
        ("a.jl", "module {}\n", "  struct a{}\n"),
    ],
)
def test_a_long_name_is_not_repeated_whole_in_all_that_it_encloses(
    path: str, opening: str, member: str
) -> None:
    text = opening.format("x" * 100_000) + "".join(map(member.format, range(1_000)))
    kind: Any = "docs" if path.endswith(".md") else "code"
    symbols = parse_source(path, text, kind=kind).symbols
    assert len(symbols) >= 1_000
    assert sum(len(symbol.name) for symbol in symbols) < 1_000_000


def test_patterns_that_read_in_linear_time_find_what_they_found_before() -> None:
    def names(path: str, text: str) -> list[str]:
        return [symbol.name for symbol in parse_source(path, text, kind="code").symbols]

    assert names("a.yaml", "my url : 1\n'b c': 2\n") == ["my url", "b c"]
    assert names("a.ini", "[ a b ]\nkey = 1\n") == ["a b", "a b.key"]
    assert names("a.html", "<h1 class='x'> A title </h1>\n<H2>b</H2>\n") == ["A title"]
    page = (
        "<p>\n<script lang='ts'>\nfunction f(a: string) {}\n</script >\n<script>let x = 1</script>"
    )
    assert names("a.html", page) == ["f", "x"]
    assert names("a.css", ".a,\n.b > c  {\n}\n@media (x) {\n}\n") == [".a", ".b > c", "@media (x)"]
    assert names("a.feature", "Feature: A b \n  Scenario: c\t\n") == ["A b", "A b.c"]
    assert names("a.nim", "type\n  A* = object\n  B*[T] {.pure.} = ref object\n") == ["A", "B"]
    assert names("a.erl", "f(A, g(B)) when A -> ok.\n") == ["f"]
    assert names("a.jl", "f(x)::Union{A,typeof(y)} = 1\ng(x) = 2\n") == ["f", "g"]
    assert names("a.xml", "<x:view x:Name='a'/>\n<b id=\"c\">\n") == ["a", "c"]
