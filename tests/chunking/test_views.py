"""Views of a file: documentation, an overview, definitions without bodies, and data."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sonde.chunking.views import VIEW_TYPES, derive_views, has_syntax, read_overview

GO = """// Package auth lets people in.
package auth

import (
\t"context"
\t"errors"
)

// ErrDenied is returned to strangers.
var ErrDenied = errors.New("denied")

const MaxTries = 3

// AuthHandler answers logins.
type AuthHandler struct {
\tTries int
}

// Login lets a user in.
func (h *AuthHandler) Login(ctx context.Context, name string) error {
\tsecretWork(name)
\treturn nil
}
"""

SOURCES = {
    "a.py": ("class Cart:\n    def add(self):\n        work()\nLIMIT = 3\n", "Cart.add"),
    "a.js": ("class Cart {\n  add() { work() }\n}\nconst LIMIT = 3;\n", "Cart.add"),
    "a.ts": ("interface I { id: number }\nclass Cart {\n add(): void { w() }\n}\n", "Cart.add"),
    "a.tsx": ("export const Cart = (p: P) => { work(); return <b/>; };\n", "Cart"),
    "a.go": (GO, "AuthHandler.Login"),
    "a.rs": ("pub struct Cart;\nimpl Cart {\n pub fn add(&self) { work() }\n}\n", "Cart.add"),
    "A.java": ("class Cart {\n  void add() { work(); }\n}\n", "Cart.add"),
    "a.kt": ("class Cart {\n  fun add() { work() }\n}\n", "Cart.add"),
    "a.scala": ("class Cart {\n  def add(): Unit = { work() }\n}\n", "Cart.add"),
    "a.c": ("struct cart { int n; };\nint cart_add(int n) { return work(n); }\n", "cart_add"),
    "a.cpp": ("class Cart {\n public:\n  void add() { work(); }\n};\n", "Cart.add"),
    "a.cs": ("class Cart {\n  void Add() { work(); }\n}\n", "Cart.Add"),
    "a.rb": ("class Cart\n  def add\n    work\n  end\nend\n", "Cart.add"),
    "a.php": ("<?php\nclass Cart {\n  function add() { work(); }\n}\n", "Cart.add"),
    "a.swift": ("class Cart {\n  func add() { work() }\n}\n", "Cart.add"),
    "a.lua": ("function add(n)\n  return work(n)\nend\n", "add"),
    "a.sh": ("add() {\n  work\n}\n", "add"),
    "a.ex": ("defmodule Cart do\n  def add(n) do\n    work(n)\n  end\nend\n", "Cart.add"),
    "A.hs": ("module Cart where\nadd :: Int -> Int\nadd n = n + 1\n", "add"),
    "a.zig": ("pub fn add(n: u8) u8 {\n    return work(n);\n}\n", "add"),
}


def by_type(path: str, text: str, kind: str = "code") -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for view in derive_views(path, text, kind):  # type: ignore[arg-type]
        found.setdefault(view.type, []).append(view.chunk.text)
    return found


@pytest.mark.row("003-C7")
def test_a_source_shows_what_the_document_promises() -> None:
    views = by_type("internal/auth/handler.go", GO)
    (overview,) = views["symbols"]
    assert overview == (
        "Package: auth\n\nImports: 2 packages\n\nTypes:\n"
        "  - AuthHandler (struct) (lines 15-17)\n\n"
        "Functions:\n  - AuthHandler.Login (lines 20-23)"
    )
    assert read_overview(overview) == {
        "package": "auth", "imports_count": 2, "types_count": 1, "functions_count": 1,
    }  # fmt: skip
    struct, login = views["definitions"]
    assert struct.startswith("// AuthHandler answers logins.\ntype AuthHandler struct {\n\tTries")
    assert login.startswith("// Login lets a user in.\nfunc (h *AuthHandler) Login(ctx")
    assert "secretWork" not in login
    (data,) = views["data"]
    assert data.startswith("// ErrDenied is returned to strangers.\nvar ErrDenied = errors")
    assert data.endswith("const MaxTries = 3")


@pytest.mark.parametrize("path", SOURCES)
def test_every_language_gives_an_overview_and_definitions(path: str) -> None:
    text, name = SOURCES[path]
    views = derive_views(path, text, "code")
    assert has_syntax(path)
    assert [view.type for view in views].count("symbols") == 1
    assert name in [view.chunk.symbol for view in views if view.type == "definitions"]
    listed = next(view.chunk.text for view in views if view.type == "symbols")
    assert f"- {name} (" in listed or f"- {name}(" in listed


def test_a_docstring_belongs_to_its_definition() -> None:
    text = 'def f(a):\n    """Says\n    much."""\n    return hidden(a)\n'
    assert by_type("a.py", text)["definitions"] == ['def f(a):\n    """Says\n    much."""']


def test_overloads_are_all_shown() -> None:
    text = "class A {\n  void f(int a) { x(); }\n  void f(long a) { y(); }\n}\n"
    assert len(by_type("A.java", text)["definitions"]) == 3


def test_enums_and_configuration_are_data() -> None:
    views = by_type("a.ts", "export enum Color { Red, Green }\n")
    assert views["data"] == ["export enum Color { Red, Green }"]
    for path, text in {
        "app.yml": "db:\n  host: localhost\n",
        "Dockerfile": "FROM scratch\nEXPOSE 80\n",
        "Makefile": "build:\n\tgo build\n",
        "schema.sql": "CREATE TABLE t (id INT);\n",
        ".github/workflows/ci.yml": "on: push\n",
        "pyproject.toml": "[project]\nname = 'x'\n",
    }.items():
        assert by_type(path, text)["data"] == [text], path


def test_samples_of_secret_settings_show_only_names() -> None:
    (text,) = by_type(".env.example", "DB_PASSWORD=hunter2\nexport API_KEY = abc\n# why\n")["data"]
    assert "hunter2" not in text
    assert "abc" not in text
    assert "DB_PASSWORD=" in text
    assert "API_KEY =" in text


def test_prose_is_documentation_wherever_it_stands() -> None:
    assert by_type("a.md", "# A\n\nText.\n", "docs") == {"documentation": ["# A\n\nText.\n"]}
    assert by_type("a.rst", "Title\n=====\n\nText.\n")["documentation"]
    cells = '{"cells": [{"cell_type": "markdown", "source": ["# Plan\\n", "why"]}, {"cell_type": "code", "source": ["x"]}]}'  # noqa: E501
    assert by_type("a.ipynb", cells) == {"documentation": ["# Plan\nwhy"]}
    opening = '"""' + "What this module is for. " * 30 + '"""\nx = 1\n'
    assert "What this module" in by_type("a.py", opening)["documentation"][0]


def test_a_language_without_a_grammar_is_shown_as_it_is() -> None:
    text = "sub add { return 1 }\n"
    assert by_type("a.pl", text) == {"definitions": [text]}
    assert not has_syntax("a.pl")


@pytest.mark.parametrize("path", ["a.py", "a.ts", "a.go", "a.rs", "A.hs", "a.cpp"])
@pytest.mark.parametrize(
    "text",
    [
        "<<<<<<< HEAD\ndef a(:\n=======\nclass {\n>>>>>>> other\nint f( { ",
        "x" * 1_000_000,
        "(" * 3_000,
        "fn f() {" * 2_000,
        "def f(\n" + "  '''",
        "\ud800 def f(): pass\n",
    ],
    ids=["conflict", "long line", "deep", "deep blocks", "cut off", "surrogate"],
)
def test_broken_sources_never_fail(path: str, text: str) -> None:
    for view in derive_views(path, text, "code"):
        assert view.type in VIEW_TYPES


@given(st.sampled_from(sorted(SOURCES)), st.integers(0, 400), st.text(max_size=30))
@example("a.sh", 0, "{1..{\U0010ffffB\n")
def test_any_cut_of_a_source_gives_views_inside_it(path: str, cut: int, extra: str) -> None:
    text = SOURCES[path][0][:cut] + extra
    size = len(text.encode("utf-8", "surrogatepass"))
    for view in derive_views(path, text, "code"):
        span = view.chunk.span
        assert 0 <= span.start_byte <= span.end_byte <= size
        assert 1 <= span.start_line <= span.end_line


PIECES = (
    "class E { constructor(a) { this.a = a } get() { return 1 } }",
    "enum A { X, Y }",
    "const B = 1, C = 2;",
    "export interface I { id: number }",
    "function f() { return () => g() }",
    "/**" + "\n * A long comment." * 40 + "\n */",
    "// short",
)


@pytest.mark.row("003-C21")
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6), st.sampled_from([" ", "\n"]))
def test_no_two_views_of_a_type_have_the_same_place(pieces: list[str], between: str) -> None:
    views = derive_views("src/e.ts", between.join(pieces) + "\n", "code")
    places = [(view.type, view.chunk.span.start_byte) for view in views]
    assert len(places) == len(set(places))
    assert all(view.chunk.text for view in views)


@pytest.mark.row("003-C21")
def test_a_class_and_its_constructor_on_one_line_are_told_apart() -> None:
    views = derive_views("src/e.ts", f"{PIECES[0]}\n", "code")
    found = [(one.chunk.symbol, one.chunk.text) for one in views if one.type == "definitions"]
    assert [name for name, _ in found] == ["E", "E.constructor", "E.get"]
    assert found[1][1].startswith("constructor(a)")


@pytest.mark.row("003-C21")
def test_a_long_opening_comment_is_documentation_once() -> None:
    views = derive_views("src/e.ts", f"{PIECES[5]}\n{PIECES[0]}\n", "code")
    assert sum("A long comment" in v.chunk.text for v in views if v.type == "documentation") == 1
