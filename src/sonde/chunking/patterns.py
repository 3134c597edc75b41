"""Names by patterns, for languages without a grammar and where a tree has gaps.

One table: per language the lines that define something. The lines of a definition end where the
indentation falls back to its own (with the closing line), or, in flat languages, at the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

from sonde.chunking.symbols import find_lead as find_lead_by
from sonde.chunking.symbols import index_lines
from sonde.types import Symbol

SymbolKind = Literal["type", "function", "value", "key"]
_KINDS: dict[str, SymbolKind] = {"t": "type", "f": "function", "v": "value", "k": "key"}
_PARTS = {
    " ": r"[ \t]+",
    "~": r"[ \t]*",
    "<n>": r"([A-Za-z_$\x80-\xff][\w$\x80-\xff]*)",
    "<d>": r"([A-Za-z_$\x80-\xff][\w$.\x80-\xff-]*)",
    "<lisp>": r"(?:\^\S+\s+)*([^\s()\[\]{}\"';]+)",
    "<words>": r"(?:[a-z@]+[ \t]+){0,5}",
    "<type>": r"(?:[\w$.<>?,\[\]*&:]+[ \t]+)",
    "<body>": r"[ \t]*\([^;{}\n]*(?:\{|=>|\)[ \t]*\r?$|,[ \t]*\r?$|\([ \t]*\r?$)",
    "<call>": r"(?!(?:return|else|new|throw|await|case|delete|if|for|while|switch|typedef)\b)",
    "<create>": r"(?i:CREATE\s+(?:(?:OR|REPLACE|GLOBAL|LOCAL|TEMP|TEMPORARY|UNLOGGED|UNIQUE)\s+)*)",
    "<table>": r"\s+(?i:IF\s+NOT\s+EXISTS\s+)?[`\"\[]?(?:\w+[`\"\]]?\.[`\"\[]?)?(\w+)",
    "<column>": r"(?i:(?:big|small|tiny)?int(?:eger)?|(?:big)?serial|text|n?(?:var)?char"
    r"|bool(?:ean)?|date(?:time)?|time(?:stamp)?(?:tz)?|numeric|decimal|float|double|real|jsonb?|uuid|blob)\b",
    "<end>": r"[ \t]*\r?$",
}
"""What stands for what in the table: blanks, names, the parts of a signature."""
_TABLE = r"""
ada: t (?i:package(?: body)?|type|task) <d> ;; f (?i:procedure|function) <n>
assembly: f! <d>:(?!:) ;; v! \.?(?:equ|set|define) <n> ;; f! <n> (?i:proc|macro)\b
awk: f func(?:tion)? <n>
batch: f! :<n><end>
bazel starlark: f def <n> ;; v <n>~=[^=] ;; k name~=~["']([^"'\n]+)
clojure: t+ \(ns <lisp> ;; t \((?:defprotocol|defrecord|deftype|definterface) <lisp>
  f \((?:[\w.]+/)?(?:defn-?|defmacro|defmulti|defmethod) <lisp> ;; v \((?:def|defonce) <lisp>
cmake: f (?i:function|macro)~\(~<d> ;; v (?i:set|option)~\(~<d>
  k (?i:add_(?:library|executable|custom_target)|project)~\(~<d>
coffeescript: t class <n> ;; f <n>~[:=]~(?:\([^)\n]*\)~)?[-=]>
common-lisp: t \((?i:defclass|defstruct|deftype|defpackage|define-condition) \(?<lisp>
  f \((?i:defun|defmacro|defgeneric|defmethod) <lisp>
  v \((?i:defvar|defparameter|defconstant) <lisp>
crystal: t <words>(?:class|module|struct|enum|lib) <n>
  f <words>(?:def|macro|fun) (?:self\.)?(\w+[?!]?)
css scss less sass stylus: v (--[\w-]+|[$@][\w-]+)~: ;; f @(?:mixin|function) ([\w-]+)
  k ((?:[.#:*&\[>+]|[a-z@])(?:[^{};\n]*[^{};\s])?)~(?:\{|,<end>)
dart: t (?:\w+ ){0,3}(?:class|enum|mixin|extension|typedef) <n> ;; f <type>*get <n>~(?:=>|\{)
  f <call><type>*<n><body>
  v (?:static|const|final|late)(?: [\w<>?,.]+){0,3} <n>~[=;]
dockerfile: k! (?i:FROM)[ \t][^\n]*[ \t](?i:AS) <d> ;; v (?i:ARG|ENV) <n>
elm: t (?:port )?(?:type(?: alias)?|module) <d> ;; f <n>~:(?=\s)
emacs-lisp: f \((?:cl-)?(?:defun|defmacro|defsubst|defmethod|defgeneric) <lisp>
  v \((?:defvar|defcustom|defconst|defvar-local|defface|defgroup) <lisp>
  t \((?:cl-defstruct|define-(?:minor|derived)-mode) \(?<lisp>
erlang: f! ([a-z]\w*)\([^;)\n]*\)[^;\n]*-> ;; t+ -module\(([\w']+) ;; t! -record\(([\w']+)
  v! -define\((\w+) ;; t! -type (\w+)
fish: f function <d> ;; v set (?:-\w+ )*<n>
fortran: f (?i:(?:(?!end)[\w()=*,]+ ){0,4}(?:subroutine|function)) <n>~(?:\(|\r?$)
  t+ (?i:module|program) <n><end> ;; t (?i:type)(?:[^\n(]*::)?~<n><end>
fsharp: t (?:type|module|namespace|exception) (?:\w+ )?<d>
  f (?:let|static member|member|override|abstract)(?: (?:rec|inline|private))* (?:\w+\.)?<n>
gdscript: t class(?:_name)? <n> ;; f (?:static )?func <n>
  v (?:@\w+ )?(?:var|const|signal|enum) <n>
gherkin: t! Feature:~(\S(?:[^\n]*\S)?)
  f! (?:Scenario(?: Outline)?|Example):~(\S(?:[^\n]*\S)?)
gleam: t (?:pub )?(?:opaque )?type <n> ;; f (?:pub )?fn <n> ;; v (?:pub )?const <n>
glsl hlsl: t struct <n> ;; f <call><type>+[*&]*<n><body> ;; v (?:#define|(?:uniform|in|out) \w+) <n>
gradle: k (?:task |tasks\.register\(["'])<d> ;; f def <n>~\( ;; k <n>~\{
graphql: t (?:extend )?(?:type|interface|input|enum|union|scalar|directive) @?<n>
  f (?:query|mutation|subscription|fragment) <n> ;; v <n>(?:\([^)\n]*\))?~:~\[?[A-Z]
groovy: t <words>(?:class|interface|enum|trait) <n> ;; f <call><type>+[*&]*<n><body> ;; k <n>~\{
haxe: t <words>(?:class|interface|enum|typedef|abstract) <n> ;; f <words>function <n>
hcl: k (?:resource|data) "([^"\n]+)" "([^"\n]+)"~\{ ;; k <n>~(?:\{|=[^=])
  k (?:variable|output|module|provider|job|group|task) "([^"\n]+)"~\{
html vue svelte astro template razor handlebars: k [^\n<]*<[^>\n]*\bid=["']([^"'\s<>{}]+)["']
  k [^\n<]*<h[1-6][^>\n]*>\s*([^<>{}\s](?:[^<>{}\n]*[^<>{}\s])?)\s*</h[1-6]>
  f \{%-?~(?:macro|block) (\w+)
jinja: f \{%-?~(?:macro|block) (\w+)
julia: t+ (?:bare)?module <n> ;; t (?:mutable )?(?:struct|abstract type|primitive type) <n>
  f (?:function|macro) (?:\w+\.)*<n> ;; f <n>\([^=\n]*\)(?:::[^\s=]{1,200}+)?~=[^=] ;; v const <n>~=
just: f @?<d>(?:[ \t][^:=\n]*)?:(?!=) ;; v (?:export )?<d>~:=
make: v! (?:export |override )?([A-Za-z_][\w.-]*)~(?::{0,3}|\?|\+|!)= ;; f define ([\w.-]+)
  f! (\.?[^\s:#=$%.][^\s:#=$%]*+)(?:[ \t][^\n:=#]*+)?::?(?![=:])
meson: v <n>~=[^=] ;; k (?:executable|library|project|test|option|custom_target)\(~'([^'\n]+)
nim: f (?:proc|func|method|iterator|template|macro|converter) `?([^\s`(*\[]+)
  t <n>\*?(?:~\[[^\]\n]*\])?(?:~\{\.[^}\n]*\.\})?~=~(?:ref )?(?:object|enum)
nix: k <d>~=[^=]
objective-c: t+ @(?:interface|implementation|protocol) <n> ;; f [-+]~\([^)\n]*\)~<n>
  v @property[^;\n]*[ \t*]<n>~; ;; v #define <n> ;; f <call><type>+[*&]*<n><body>
  t (?:typedef )?(?:struct|enum|union) <n> ;; t typedef [^;{}\n]*\b(?:NS_ENUM|NS_OPTIONS)\(\w+,~<n>
ocaml: t (?:and|type|module(?: type)?|class|exception) (?:rec )?(?:'\w+ |\([^)\n]*\) )?<n>
  f (?:let|and|val|method|external)(?: (?:rec|inline|private))* <n>
pascal: f (?i:procedure|function|constructor|destructor) (?:\w+\.)?<n> ;; t (?i:unit|program) <n>
  t <n>~=~(?i:class|record|interface|object)\b
perl: f sub ([\w:]+) ;; t+ package ([\w:]+) ;; v (?:our|use constant) [$@%{]?~(\w+)
plsql: f <create>?(?i:FUNCTION|PROCEDURE)<table>
  t <create>(?i:PACKAGE(?: BODY)?|TYPE|TABLE|VIEW|TRIGGER)<table>
powershell: f (?i:function|filter|workflow) (?:\w+:)?<d> ;; t (?i:class|enum) <n>
prisma: t (?:model|enum|type|view|datasource|generator) <n>
protobuf: t (?:message|enum|service|oneof|extend) <d> ;; f rpc <n> ;; v <n>~=~-?\d+~[;\[]
  v (?:[\w.]+ )?(?:[\w.]+|map~<[^>\n]*>) <n>~=~\d+~[;\[]
purescript: t (?:data|newtype|type|class|module) <d> ;; f <n>~::(?=\s)
qml: v (?:readonly )?property [\w<>.]+ <n> ;; f function <n> ;; k id:~<n>
r: f `?<d>`?~(?:<-|=)~function\b ;; v! <d>~<-(?!~function)
  t set(?:Class|RefClass|Generic|Method)\(~["']([\w.]+)
racket scheme: f \(define(?:-syntax(?:-rule)?|/contract|\*)? \(+<lisp> ;; v \(define <lisp>
  t \((?:struct|define-record-type) <lisp>
solidity: t (?:abstract )?(?:contract|interface|library|struct|enum) <n>
  f (?:function|modifier|event|error) <n> ;; f (constructor)~\(
sql: f! <create>(?i:FUNCTION|PROCEDURE|AGGREGATE)<table> ;; v [`"\[]?([a-z_]\w*)[`"\]]? <column>
  v <create>(?i:INDEX(?: CONCURRENTLY)?)<table>
  t <create>(?i:(?:MATERIALIZED )?(?:TABLE|VIEW|TYPE|SCHEMA|TRIGGER|SEQUENCE|DOMAIN|ROLE))<table>
standard-ml: f (?:fun|and) <n> ;; v val (?:rec )?<n>
  t (?:structure|signature|functor|datatype|type) <n>
systemverilog verilog: t (?:virtual )?(?:module|interface|class|package|program) <n>
  f (?:virtual )?(?:function|task) (?:[\w\[\]:]+ )*<n>~[(;] ;; v `define <n>
tcl: f proc ([\w:]+) ;; t namespace eval ([\w:]+)
thrift: t (?:struct|service|enum|exception|union|typedef \S+) <n>
  v (?:const \S+|\d+:~(?:\w+ )?[\w<>,.]+) <n>
vhdl: t (?i:entity|architecture|package(?: body)?|component) <n> ;; f (?i:procedure|function) <n>
vim: f fu(?:n|nc|nction)?!? (?:[sgl]:)?([\w#.]+) ;; v let [gs]:(\w+)~=
  f com(?:mand)?!? (?:-\S+ )*([A-Z]\w*)
visual-basic: t (?i:(?:(?!end)\w+ ){0,3}(?:class|module|structure|enum|interface)) <n><end>
  f (?i:(?:(?:public|private|friend|shared|static|protected) )*(?:sub|function|property)) <n>
xml: k [^\n<]*<[\w:.-]++[^>\n]*\b(?:name|id|key|x:Key|x:Name)=["']([^"'\s<>{}]+)
yacc: f! <n>\s*:(?!:) ;; v! %token[^\n]*?[ \t]<n>
c cpp: t <words>(?:struct|union|enum|class) <n>\s*[:{] ;; f (?<![ \t])<call><type>+[*&]*<n><body>
  v #~define <n> ;; t typedef [^;{}\n]*[ *]<n>; ;; t @(?:interface|protocol) <n>
csharp java: t <words>(?:class|interface|enum|record|struct) <n>
  f (?:(?:public|private|protected|internal|static|unsafe|async|override|final) )+<type><n>~[<(]
d vala apex hack: t <words>(?:class|struct|enum|union|interface|trait) <n>
  f <call><type>+[*&]*<n><body>
kotlin: t (?:\w+ ){0,4}(?:class|interface|object) <n>
  f (?:[\w@]+ ){0,5}fun (?:[^\n(=]*[ \t.>])?<n>~\(
  v (?:(?:private|internal|const|override|lateinit|protected|public) )+va[lr] <n>
swift: t (?:[\w@]+ ){0,4}(?:class|struct|enum|protocol|actor|extension) <n>
  f (?:[\w@]+ ){0,4}func <n>
typescript tsx javascript: f (?:export )?(?:default )?(?:declare )?(?:async )?function\*? <n>
  t (?:export )?(?:default )?(?:declare )?(?:abstract )?(?:class|interface|enum|namespace) <n>
  t (?:export )?(?:declare )?type <n>[<=\s]
  f (?:export )?(?:const|let|var) <n>~=~(?:async~)?(?:\([^()\n]*\)|\w+)~=>
"""
"""Per language, or several: kind (t, f, v, k) and what follows the indentation. After the kind, `!`
ends the lines at the next definition, `+` makes it hold all up to the next such."""
_TOKEN = re.compile(r"\[[^\]]*\]|\\.|<[a-z]+>|[ ~]")
_CLOSING = re.compile(rb"[ \t]*(?:[}\])]|(?i:end\w*)\b|</|#\}|esac\b|done\b|fi\b)")
_OPENING = re.compile(
    rb"[ \t]*\{|.*(?:[{(\[=:,]|\b(?:do|then|begin|is|as))[ \t\r]*$", re.IGNORECASE
)
_LEADS = re.compile(
    rb"[ \t]*(?://|/\*|\*[ \t/]|#(?![ \t]*(?:if|el|end|include|define))[ \t#!\r\n]|--[ \t-]|;"
    rb"|%[ \t%]|\(\*|<!--|\"[ \t]|@(?!end\b)\w+(?:\([^\n]*\))?[ \t\r]*$)"
)
"""Lines above a definition that belong to it: comments and annotations."""
find_lead = partial(find_lead_by, leading=_LEADS)
_MAX_NAME = 300  # characters; it stands in the names of all that it encloses
MAX_SYMBOLS = 5000  # of a file; generated ones can define hundreds of thousands


@dataclass(slots=True)
class Found:
    """A name at an offset, before it has its lines."""

    at: int  # the start of its line
    indent: int
    name: str
    kind: SymbolKind
    named: int
    flat: bool
    end: int = 0


@cache
def _read_table() -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    names: list[str] = []
    for line in _TABLE.strip().split("\n"):
        if not line.startswith(" "):
            heading, _, line = line.partition(":")
            names = heading.split()
        for name in names:
            table.setdefault(name, []).extend(row.strip() for row in line.split(";;"))
    return table


@cache
def _patterns_for(language: str) -> tuple[tuple[SymbolKind, str, re.Pattern[bytes]], ...]:
    rows = []
    for row in _read_table()[language]:
        mark, _, pattern = row.partition(" ")
        source = _TOKEN.sub(lambda token: _PARTS.get(token[0], token[0]), pattern)
        compiled = re.compile(b"^(?P<indent>[ \\t]*+)" + source.encode(), re.MULTILINE)
        rows.append((_KINDS[mark[0]], mark[1:], compiled))
    return tuple(rows)


def has_patterns(language: str) -> bool:
    """Whether names of that language are found by patterns."""
    return language in _read_table()


@cache
def _dedent(indent: int) -> re.Pattern[bytes]:
    return re.compile(rb"\n(?=[ \t]{0,%d}[^\s])" % indent)


def _find_end(data: bytes, one: Found) -> int:
    """The offset where the lines of a definition end."""
    pattern, at = _dedent(one.indent), one.named
    while match := pattern.search(data, at):
        line = data[match.end() : data.find(b"\n", match.end()) % (len(data) + 1)]
        if _CLOSING.match(line) and len(line) - len(line.lstrip()) == one.indent:
            if not _OPENING.match(line):
                return match.end() + len(line)
        elif not line.lstrip().startswith(b"{"):
            return match.start()
        at = match.end() + len(line)
    return len(data)


def find_named(data: bytes, language: str) -> tuple[Symbol, ...]:
    """What the patterns of a language find, in order, with lines and qualified names."""
    found: dict[int, Found] = {}
    for kind, mark, pattern in _patterns_for(language):
        for match in pattern.finditer(data):
            named = match.start(match.lastindex or 1)
            parts = filter(None, match.groups()[1:])
            name = b".".join(parts).replace(b"::", b".").decode("utf-8", "replace")[:_MAX_NAME]
            at = data.rfind(b"\n", 0, named) + 1
            indent = -1 if mark == "+" else len(match["indent"])
            found.setdefault(at, Found(at, indent, name, kind, named, flat=mark != ""))
    return place_names(data, sorted(found.values(), key=lambda one: one.at)[:MAX_SYMBOLS])


def place_names(data: bytes, found: Sequence[Found]) -> tuple[Symbol, ...]:
    """Symbols of the names in a text: their lines, and whatever encloses them."""
    following: list[Found] = []
    for one in reversed(found):
        while following and following[-1].indent > one.indent:
            following.pop()
        if not one.end:
            limit = find_lead(data, following[-1].at) if following else len(data)
            one.end = limit if one.flat else min(_find_end(data, one), limit)
        following.append(one)
    return tuple(_qualify(data, found))


def _qualify(data: bytes, found: Sequence[Found]) -> Iterator[Symbol]:
    line_at = index_lines(data)
    stack: list[tuple[Found, str]] = []
    for one in found:
        while stack and (stack[-1][0].end <= one.at or stack[-1][0].indent >= one.indent):
            stack.pop()
        name = f"{stack[-1][1]}.{one.name}" if stack else one.name
        stack.append((one, name))
        stop = max(one.named, one.at + len(data[one.at : one.end].rstrip()) - 1)
        lead = find_lead(data, one.at)
        first, line, last = map(line_at, (lead, one.named, stop))
        yield Symbol(name, one.kind, line, min(first, line), max(line, last))


def fill_gaps(symbols: tuple[Symbol, ...], data: bytes, language: str) -> tuple[Symbol, ...]:
    """Symbols of a tree with errors, and those of its language's patterns that it lacks."""
    if not has_patterns(language):
        return symbols
    known = set(map(_last_and_line, symbols))
    more = [one for one in find_named(data, language) if _last_and_line(one) not in known]
    if not more:
        return symbols
    types = [one for one in more if one.kind == "type"]
    found = [*(_qualify_by(one, types) for one in symbols), *more]
    return tuple(sorted(found, key=lambda one: (one.start_line, -one.end_line)))


def _qualify_by(one: Symbol, types: Sequence[Symbol]) -> Symbol:
    """A symbol that lost its type in the tree, with the innermost type that holds its lines."""
    held = [t for t in types if t.start_line < one.start_line and one.end_line <= t.end_line]
    return one._replace(name=f"{held[-1].name}.{one.name}") if held and "." not in one.name else one


def _last_and_line(one: Symbol) -> tuple[str, int]:
    return one.name.rpartition(".")[2], one.line
