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


FRAGMENTS = [
    ("python", 'f(self):\n    """Begin\n    goes on', "", '"""Begin|    goes on'),
    ("javascript", " * of it\n */\nexport const a; // end", "export const", " * of it| */|// end"),
    ("typescript", 'interface A { b: "d" } /* open', "interface", '"d"|/* open'),
    (
        "java",
        " * size\n */\npublic int n() { return s; } // n",
        "public return",
        " * size| */|// n",
    ),
    ("go", 'func (s *A) Run() error {\n\treturn "bad" // why', "func return", '"bad"|// why'),
    ("rust", '/// Docs\npub fn run() { let s = "x y"; // n', "pub fn let", '/// Docs|"x y"|// n'),
    ("c", 'static int f(void) { return g("a"); } /* b', "static int return", '"a"|/* b'),
    ("cpp", 'class A : public B { // n\n  char* s = "q";', "class public", '// n|"q"'),
    ("csharp", 'public async Task<int> Run() {\n  var s = "x"; // n', "public async", '"x"|// n'),
    ("ruby", '  def total\n    @sum ||= "a" # n\n  end', "def end", '"a"|# n'),
    ("php", 'public function f($a) {\n  return "s"; // n', "public function return", '"s"|// n'),
    ("bash", "if [ -n $x ]; then  # note\n  echo 'it'\nfi", "if then fi", "# note|'it'"),
    ("kotlin", 'override fun f(a: Int) {\n  val s = "x" // n', "override fun val", '"x"|// n'),
    ("swift", 'public func f(a: Int) {\n  let s = "x" // n', "public func let", '"x"|// n'),
    ("scala", 'override def f(a: Int) = {\n  val s = "x" // n', "override def val", '"x"|// n'),
    ("lua", 'local function f(a)\n  return "x" -- n', "local function return", '"x"|-- n'),
    (
        "haskell",
        'module A where\nf x = case x of -- n\n  _ -> "s"',
        "module where case",
        '"s"|-- n',
    ),
    ("elixir", '  def f(a) do\n    "x" # n\n  end', "def do end", '"x"|# n'),
    ("zig", 'pub fn f() void {\n  const s = "x"; // n', "pub fn const", '"x"|// n'),
    ("sql", "SELECT a from b where c = 'x' -- n", "SELECT from where", "'x'|-- n"),
    ("css", 'a { color: "x"; } /* n', "", '"x"|/* n'),
]
"""Passages cut anywhere, as results show them: keywords, and strings and comments beside them."""


@pytest.mark.parametrize(("language", "text", "keywords", "rest"), FRAGMENTS)
def test_a_fragment_is_read_without_what_is_before_and_after_it(language, text, keywords, rest):
    found = kinds(text, language)
    assert {word for word, kind in found.items() if kind == "keyword"} >= set(keywords.split())
    assert {found.get(piece) for piece in rest.split("|")} <= {"comment", "string"}


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
