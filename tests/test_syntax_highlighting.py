"""Source code as coloured tokens: nothing is lost, and the usual languages look as they should."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.text.languages import NAMES
from sonde.text.syntax_highlighting import highlight_code


def kinds(text: str, language: str) -> dict[str, str]:
    """Each coloured piece with its kind."""
    return {piece: kind for line in highlight_code(text, language) for kind, piece in line if kind}


@given(st.text(), st.sampled_from(sorted(NAMES)))
def test_the_tokens_are_the_text(text, language):
    lines = highlight_code(text, language)
    assert "\n".join("".join(piece for _, piece in line) for line in lines) == text


@given(st.text(alphabet="\"'`/*\\\n -#<!>{}[]rf:=x", max_size=200), st.sampled_from(sorted(NAMES)))
def test_so_they_are_for_texts_made_of_delimiters(text, language):
    lines = highlight_code(text, language)
    assert "\n".join("".join(piece for _, piece in line) for line in lines) == text


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("python", "@cached\nasync def load(self, n=3):\n    return None  # why",
         {"@cached": "attribute", "def": "keyword", "load": "definition", "self": "constant",
          "3": "number", "None": "constant", "# why": "comment"}),
        ("python", 'x = f"""a\nb""" + call(MAX_SIZE, Name)',
         {'f"""a': "string", 'b"""': "string", "call": "function", "MAX_SIZE": "constant",
          "Name": "type"}),
        ("rust", "#[test]\nfn f() -> u8 { let x = 'a'; 0x1F } // end",
         {"#[test]": "attribute", "f": "definition", "'a'": "string", "0x1F": "number",
          "// end": "comment"}),
        ("typescript", "const a: string = `x${1}`; const r = /ab+[/]/g;",
         {"const": "keyword", "`x${1}`": "string", " /ab+[/]/g": "string"}),
        ("go", "func Serve(w io.Writer) error { /* no */ }",
         {"func": "keyword", "Serve": "definition", "/* no */": "comment"}),
        ("json", '{"a": "b", "c": true}',
         {'"a"': "key", '"b"': "string", '"c"': "key", "true": "constant"}),
        ("yaml", "jobs:\n  on: true # x", {"jobs": "key", "  on": "key", "true": "constant",
                                          "# x": "comment"}),
        ("toml", '[tool.x]\nname = "y"', {"[tool.x]": "heading", "name": "key", '"y"': "string"}),
        ("html", '<a href="x">y</a>', {"<a": "tag", "href": "attribute", '"x"': "string"}),
        ("sql", "select a from b -- c", {"select": "keyword", "-- c": "comment"}),
        ("bash", 'if [ "$x" ]; then echo $HOME; fi', {"if": "keyword", "$HOME": "attribute"}),
        ("markdown", "# Title\n\n`code`", {"# Title": "heading", "`code`": "string"}),
    ],
)  # fmt: skip
def test_the_usual_languages(language, text, expected):
    found = kinds(text, language)
    assert {piece: found.get(piece) for piece in expected} == expected


def test_a_fragment_that_is_cut_inside_a_comment_or_docstring():
    assert kinds('"""Say what\nit does', "python")["it does"] == "string"
    assert "x" not in kinds('ends here."""\nx = 1', "python")
    assert kinds(" * of a block\nint x;", "java")[" * of a block"] == "comment"


@pytest.mark.parametrize("language", ["python", "rust", "typescript", "lua", "html", "ocaml"])
def test_openings_without_an_end_take_linear_time(language):
    began = time.process_time()
    for unit in ('"""', "'''", "`", "/*", "{-", "[[", '"', "<!--", "{#", 'r#"', "(*"):
        highlight_code(f"{unit} \\\n" * 10_000, language)
    assert time.process_time() - began < 5  # quadratic time would be minutes


def test_minified_and_huge_texts_stay_plain():
    assert kinds("def f(): pass;" * 1000, "python") == {}
    assert kinds("def f(): pass\n" * 100_000, "python") == {}
