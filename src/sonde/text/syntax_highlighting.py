"""Syntax highlighting: source code as tokens of a few kinds, for pages and terminals.

One regular expression per family of languages, no parser: it reads fragments as well as files,
costs nothing to import, and takes a few milliseconds for a page of results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal, NamedTuple

TokenKind = Literal[
    "", "comment", "string", "number", "keyword", "constant", "type", "function", "definition",
    "attribute", "key", "tag", "heading", "added", "removed",
]  # fmt: skip
"""The kind of a token; empty for names and punctuation."""

MAX_HIGHLIGHTED_CHARS = 1_000_000
"""Longer texts stay plain: they are generated files."""
_MAX_LINE_CHARS = 5_000
"""A text with a longer line stays plain: minified code, and strings that never end."""


class Token(NamedTuple):
    """A piece of one line."""

    kind: TokenKind
    text: str


_NUMBER = (
    r"(?P<number>(?<![\w.])(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)"
    r"[a-zA-Z]{0,3}\b)"
)
_WORD = r"(?P<word>[^\W\d][\w$]*[!?]?(?=\()|[^\W\d][\w$]*|\$[\w$]+)"
_DOUBLE = r'"(?:[^"\\\n]|\\.)*(?:"|$)'
_SINGLE = r"'(?:[^'\\\n]|\\.)*(?:'|$)"
_BACKTICKS = r"`(?:[^`\\]|\\[\s\S])*(?:`|\Z)"
_TRIPLE = (
    r'[rRbBuUfF]{0,2}(?:"""(?:[^\\]|\\[\s\S])*?"""|\'\'\'(?:[^\\]|\\[\s\S])*?\'\'\''
    r'|"""(?=[^\s"])[\s\S]*|\'\'\'(?=[^\s\'])[\s\S]*|"""|\'\'\')'
)
"""Whole, or opened and cut off by the end of a fragment, or the end of one that began before it."""
_SLASHES = r"//[^\n]*"
_BLOCK = r"/\*[\s\S]*?(?:\*/|\Z)|^[ \t]*\*(?=[ /]|$)[^\n]*"
_HASH = r"(?<![\w$&{])#[^\n]*"
_AT = r"(?P<attribute>(?<!\w)@[\w.]+)"


def _comment(*patterns: str) -> str:
    return f"(?P<comment>{'|'.join(patterns)})"


def _string(*patterns: str) -> str:
    return f"(?P<string>{'|'.join(patterns)})"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_C = (
    "auto break case const continue default do else enum extern for goto if inline register return "
    "sizeof static struct switch typedef union volatile while"
)
_JAVA = (
    "abstract assert break case catch class const continue default do else enum extends final "
    "finally for if implements import instanceof interface native new package private protected "
    "public record return sealed static switch synchronized throw throws transient try var void "
    "volatile while yield byte short int long float double char boolean"
)
_KOTLIN = "as by companion data fun in init inner internal is object open override val when where"
_JAVASCRIPT = (
    "abstract any as async await boolean break case catch class const continue declare default "
    "delete do else enum export extends finally for from function get if implements import in "
    "infer instanceof interface keyof let namespace never new number of private protected public "
    "readonly return satisfies set static string switch throw try type typeof unknown var void "
    "while with yield"
)
_PYTHON = (
    "and as assert async await break class continue def del elif else except finally for from "
    "global if import in is lambda nonlocal not or pass raise return try while with yield"
)
_RUBY = (
    "alias and begin break case class def defined? do else elsif end ensure extend for if in "
    "include module next not or redo require rescue retry return super then undef unless until "
    "when while yield attr_accessor attr_reader private protected public raise"
)
_SHELL = (
    "case declare do done elif else esac exit export fi for function if in local readonly return "
    "select set shift source then trap unset until while echo switch begin end foreach param"
)
_ML = (
    "abstract alias and as begin case class data def default defclass defmacro defn defun deriving "
    "do done else end exception exposing external forall foreign fun function functor hiding if "
    "import in include infix infixl infixr inherit instance lambda let match member method module "
    "mutable namespace new newtype object of open override port private qualified raise rec "
    "require return sig static struct then to try type use val virtual when where while with"
)
_KEYWORDS: Mapping[str, frozenset[str]] = {
    name: _words(words)
    for name, words in {
        "c": f"{_C} bool char double float int long short signed unsigned void {_JAVA} {_KOTLIN}",
        "cpp": f"{_C} bool catch char class constexpr delete double explicit final float friend "
        "int long mutable namespace new noexcept operator override private protected public short "
        "signed template throw try typename unsigned using virtual void concept requires co_await",
        "csharp": f"{_JAVA} as async await base bool decimal delegate event foreach get in "
        "internal is lock namespace object out override params partial readonly ref set string "
        "struct using virtual where init",
        "go": "break case chan const continue default defer else fallthrough for func go goto if "
        "import interface map package range return select struct switch type var any string int "
        "int64 byte error bool",
        "java": _JAVA,
        "js": _JAVASCRIPT,
        "rust": "as async await break const continue crate dyn else enum extern fn for if impl in "
        "let loop match mod move mut pub ref return static struct trait type unsafe use where "
        "while",
        "scala": f"{_JAVA} {_KOTLIN} def given implicit lazy match then trait type using with",
        "zig": f"{_C} and catch comptime defer errdefer error fn or orelse pub test try var",
        "swift": f"{_C} as actor associatedtype async await catch class defer deinit extension "
        "func guard import in init inout is let mutating open override private protocol public "
        "repeat rethrows some subscript throw throws try var weak where",
        "php": f"{_JAVASCRIPT} and array echo elseif endif final fn foreach global or print "
        "require require_once trait use xor int bool",
        "python": _PYTHON,
        "ruby": _RUBY,
        "elixir": "after alias and case cond def defimpl defmacro defmodule defp defprotocol "
        "defstruct do else end fn for if import in not or quote raise receive require rescue try "
        "unless unquote use when with",
        "script": f"{_SHELL} and class def end let my or our package sub unless use elsif",
        "bash": _SHELL,
        "dockerfile": "ADD ARG AS CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL ONBUILD "
        "RUN SHELL STOPSIGNAL USER VOLUME WORKDIR",
        "lua": f"{_ML} and break elseif end for function goto local not or repeat return until",
        "ml": _ML,
        "sql": "add all alter and as asc begin between bigint boolean by case check column commit "
        "constraint create cross database date declare default delete desc distinct drop else end "
        "exists foreign from full function grant group having if ilike in index inner insert int "
        "integer into is join key language left like limit not null numeric offset on or order "
        "outer primary procedure recursive references returning returns revoke right rollback "
        "schema select set table text then timestamp transaction trigger union unique update using "
        "values varchar view when where with",
    }.items()
}
"""Keywords by language, and by family for the languages that have no list of their own."""
_CONSTANTS = _words(
    "true false null nil none None True False undefined NaN self this super cls nullptr YES NO iota"
)
_DEFINERS = _words(
    "def class function fn func fun struct enum trait interface type module defmodule defp "
    "defmacro object namespace package record protocol union impl sub proc method newtype "
    "message service contract macro extension"
)

_FAMILIES: Mapping[str, str] = {
    "c": "|".join((
        _comment(_BLOCK, _SLASHES),
        r"(?P<attribute>^[ \t]*#[ \t]*\w+|#!?\[[^\]\n]*\]|(?<!\w)@[\w.]+)",
        _string(_DOUBLE, r"'(?:[^'\\\n]|\\[^\n]){1,8}'", _BACKTICKS, r'r#+"[\s\S]*?(?:"#+|\Z)'),
        _NUMBER, _WORD)),
    "js": "|".join((
        _comment(_BLOCK, _SLASHES), _AT,
        _string(_DOUBLE, _SINGLE, _BACKTICKS,
                r"(?<=[=(,:;!&|?{}\[]) ?/(?![/*])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*"),
        r"(?P<tag></?[A-Za-z][\w.]*(?=[\s/>]))", _NUMBER, _WORD)),
    "php": "|".join((
        _comment(_BLOCK, _SLASHES, r"#(?!\[)[^\n]*"), r"(?P<attribute>#\[[^\]\n]*\]|<\?php|\?>)",
        _string(_DOUBLE, _SINGLE), _NUMBER, _WORD)),
    "python": "|".join((
        _comment(_HASH), _string(_TRIPLE, f"[rRbBuUfF]{{0,2}}(?:{_DOUBLE}|{_SINGLE})"),
        r"(?P<attribute>^[ \t]*@[\w.]+)", _NUMBER, _WORD)),
    "script": "|".join((
        _comment(_HASH), _string(_TRIPLE, _DOUBLE, _SINGLE, r"(?<![\w:]):[a-z_]\w*[?!]?"),
        r"(?P<attribute>@@?\w+|\$\{[^}\n]*\}|\$[\w@*#?!]+)", _NUMBER, _WORD)),
    "lua": "|".join((
        _comment(r"--\[\[[\s\S]*?(?:\]\]|\Z)", r"--[^\n]*", r"\{-[\s\S]*?(?:-\}|\Z)"),
        _string(_DOUBLE, r"'(?:[^'\\\n]|\\.)*'", r"\[\[[\s\S]*?(?:\]\]|\Z)"), _NUMBER, _WORD)),
    "ml": "|".join((
        _comment(r"\(\*[\s\S]*?(?:\*\)|\Z)", _SLASHES, r"(?<!\S);[^\n]*", r"--[^\n]*",
                 r"\{-[\s\S]*?(?:-\}|\Z)", r"%%?[^\n]*"),
        _string(_DOUBLE, r"(?<!\S):[a-z][\w-]*"), _NUMBER, _WORD)),
    "sql": "|".join((
        _comment(_BLOCK, r"--[^\n]*"), _string(_SINGLE, _DOUBLE), _NUMBER, _WORD)),
    "css": "|".join((
        _comment(_BLOCK, _SLASHES), _string(_DOUBLE, _SINGLE),
        r"(?P<keyword>@[\w-]+)|(?P<attribute>(?<!\w)(?:--|\$)[\w-]+)",
        r"(?P<key>[\w-]+(?=[ \t]*:[ \t]))|(?P<type>(?<![\w)])[.#][A-Za-z][\w-]*(?=[^;}\n]*[{,]))",
        r"(?P<number>#[\da-fA-F]{3,8}\b|(?<![\w-])-?\d*\.?\d+(?:%|[a-z]{1,4})?\b)")),
    "markup": "|".join((
        _comment(r"<!--[\s\S]*?(?:-->|\Z)", r"\{#[^\n]*?#\}", r"\{/\*[^\n]*?\*/\}"),
        r"(?P<tag></?[A-Za-z][\w:.-]*|/?>)|(?P<attribute>[\w:@.-]+(?==[\"'{]))",
        _string(_DOUBLE, r"(?<==)'[^'\n]*'"),
        r"(?P<constant>&\w+;)|(?P<keyword>\{%-?\s*\w+|-?%\}|\{\{|\}\})")),
    "json": "|".join((
        _comment(_SLASHES, r"/\*[\s\S]*?(?:\*/|\Z)"), r'(?P<key>"(?:[^"\\\n]|\\.)*"(?=\s*:))',
        _string(_DOUBLE), r"(?P<constant>\b(?:true|false|null)\b)", _NUMBER)),
    "config": "|".join((
        _comment(r"(?<!\S)[#;][^\n]*"), r"(?P<heading>^[ \t]*\[[^\]\n]+\]+)",
        r"(?P<key>^[ \t]*(?:- +)*[\w.\"'/@*<-][\w.\"'/ @*-]*?(?=[ \t]*(?::(?:[ \t]|$)|=)))",
        _string(_TRIPLE, _DOUBLE, _SINGLE),
        r"(?P<constant>\b(?:true|false|null|yes|no|on|off)\b)",
        r"(?P<attribute>[&*!][A-Za-z][\w-]*|\$\{[^}\n]*\})",
        _NUMBER)),
    "prose": "|".join((
        _comment(r"<!--[\s\S]*?(?:-->|\Z)"),
        r"(?P<heading>^\#{1,6} [^\n]*|^={1,6} [^\n]*|^(?:={3,}|-{3,}|~{3,}|\^{3,})$)",
        r"(?P<string>``[^`\n]+``|`[^`\n]+`|^```[\s\S]*?(?:^```|\Z))",
        r"(?P<keyword>^[ \t]*(?:[-*+]|\d+\.) (?=\S)|^\.\. [\w-]+::)|(?P<key>\*\*[^*\n]+\*\*)",
        r"(?P<attribute>\]\([^)\s]+\)|https?://[^\s)>\]]+)")),
    "diff": r"(?P<heading>^(?:diff|index|@@|---|\+\+\+)[^\n]*)"
            r"|(?P<added>^\+[^\n]*)|(?P<removed>^-[^\n]*)",
}  # fmt: skip

_LANGUAGES: Mapping[str, str] = {
    language: family
    for family, languages in {
        "c": "c cpp csharp go java kotlin rust scala swift zig dart d groovy gradle objective-c "
        "glsl hlsl metal wgsl solidity protobuf thrift haxe vala verilog systemverilog hack apex "
        "processing odin move gleam graphql prisma reason mojo cypher",
        "js": "javascript typescript coffeescript qml rescript",
        "php": "php",
        "python": "python starlark bazel gdscript nim",
        "script": "bash ruby elixir perl raku r julia crystal fish tcl awk make cmake dockerfile "
        "powershell batch just nix puppet vim meson hcl matlab smalltalk toit",
        "lua": "lua haskell elm purescript ada vhdl idris",
        "ml": "ocaml fsharp clojure scheme racket common-lisp emacs-lisp standard-ml erlang prolog "
        "assembly llvm pascal forth webassembly fortran cobol",
        "sql": "sql plsql",
        "css": "css scss less sass stylus",
        "markup": "html xml svg vue svelte astro blade jinja handlebars template xslt razor plist "
        "haml slim pug",
        "json": "json jupyter",
        "config": "yaml toml ini cfg dotfile lock requirements gomod gherkin translation",
        "prose": "markdown rst asciidoc org textile wiki latex typst pod",
        "diff": "diff",
    }.items()
    for language in languages.split()
}
"""Languages of `text/languages.py` by the family that reads them; others stay plain."""


@cache
def _compile(family: str) -> re.Pattern[str]:
    return re.compile(_FAMILIES[family], re.MULTILINE)


def highlight_code(text: str, language: str) -> list[list[Token]]:
    """The lines of a text as tokens; joined, they are the text again."""
    family = _LANGUAGES.get(language)
    lines = text.split("\n")
    is_long = len(text) > MAX_HIGHLIGHTED_CHARS or max(map(len, lines)) > _MAX_LINE_CHARS
    if family is None or is_long:
        return [[Token("", line)] if line else [] for line in lines]
    shown: list[list[Token]] = [[]]
    for kind, piece in _read_pieces(text, language, family):
        first, *rest = piece.split("\n")
        if first:
            shown[-1].append(Token(kind, first))
        shown += [[Token(kind, each)] if each else [] for each in rest]
    return shown


def _read_pieces(text: str, language: str, family: str) -> Iterator[tuple[TokenKind, str]]:
    """The whole text in pieces; a piece may span lines."""
    keywords = _KEYWORDS.get(language) or _KEYWORDS.get(family, frozenset())
    folds = family == "sql"  # the one family whose keywords have no case
    at, before = 0, ""
    for found in _compile(family).finditer(text):
        start, end = found.span()
        kind = found.lastgroup
        if kind == "word":
            word = found[0]
            kind = _judge_word(word, before, text[end : end + 1], keywords, folds=folds)
            before = word
        elif kind != "comment":
            before = ""
        if not kind or start == end:
            continue
        if start > at:
            yield "", text[at:start]
        yield kind, text[start:end]  # type: ignore[misc]  # the groups are named after kinds
        at = end
    if at < len(text):
        yield "", text[at:]


def _judge_word(
    word: str, before: str, after: str, keywords: frozenset[str], *, folds: bool
) -> TokenKind:
    """The kind of a name, by its spelling and its neighbours."""
    if word in _CONSTANTS:
        return "constant"
    if (word.lower() if folds else word) in keywords:
        return "keyword"
    if before in _DEFINERS:
        return "definition"
    if after == "(":
        return "function"
    if word[0].isupper() and not folds:
        return "constant" if len(word) > 1 and word.isupper() else "type"
    return "attribute" if word[0] == "$" else ""
