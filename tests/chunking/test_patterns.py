"""Names in files without a grammar: definitions by patterns, keys, scripts in pages."""

from __future__ import annotations

import time
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.chunking.parse import parse_source
from sonde.chunking.patterns import find_named, has_patterns
from sonde.text.languages import list_languages


class Row(NamedTuple):
    path: str
    text: str
    expected: str
    """Per symbol: kind, name, line, all its lines."""


EXPECTED = [
    Row(
        "ci.yml",
        "# CI\nname: ci\non:\n  push:\n    branches: [main]\njobs:\n  build:\n"
        "    runs-on: ubuntu\n    steps:\n    - uses: a\n    - name: Run tests\n      run: |\n"
        "        key: no\n        b\n  deploy:\n    needs: build\n",
        "k name 2 1-2, k on 3 3-5, k on.push 4 4-5, k on.push.branches 5 5-5, k jobs 6 6-16, "
        "k jobs.build 7 7-14, k jobs.build.runs-on 8 8-8, k jobs.build.steps 9 9-14, "
        "k jobs.build.steps.Run tests 11 11-14, k jobs.deploy 15 15-16, "
        "k jobs.deploy.needs 16 16-16",
    ),
    Row(
        "package.json",
        '{\n  "name": "x",\n  "scripts": {\n    "build": "tsc",\n'
        '    "test": "jest"\n  },\n  "files": [\n    "a"\n  ]\n}\n',
        "k name 2 2-2, k scripts 3 3-6, k scripts.build 4 4-4, k scripts.test 5 5-5, k files 7 7-9",
    ),
    Row(
        "a.toml",
        'title = "x"\n# deps\n[tool.ruff]\nline-length = 100\n\n[[bin]]\nname = "a"\n',
        "k title 1 1-1, k tool.ruff 3 2-4, k tool.ruff.line-length 4 4-4, k bin 6 6-7, "
        "k bin.name 7 7-7",
    ),
    Row(
        "a.ini",
        "[core]\nkey = 1\n; c\nother: 2\n[two]\na=1\n",
        "k core 1 1-4, k core.key 2 2-2, k core.other 4 3-4, k two 5 5-6, k two.a 6 6-6",
    ),
    Row(
        "Makefile",
        "CC := gcc\n.PHONY: all\nall: build test\n\t$(CC) x\n\n# builds\nbuild:\n\tgo build\n",
        "v CC 1 1-1, f .PHONY 2 2-2, f all 3 3-4, f build 7 6-8",
    ),
    Row(
        "CMakeLists.txt",
        "project(foo)\nset(X 1)\nadd_library(bar a.c)\nfunction(my_fn a)\n  foo()\nendfunction()\n",
        "k foo 1 1-1, v X 2 2-2, k bar 3 3-3, f my_fn 4 4-6",
    ),
    Row(
        "a.sql",
        "-- users\nCREATE TABLE IF NOT EXISTS users (\n  id BIGINT PRIMARY KEY,\n"
        "  name varchar(10)\n);\ncreate or replace function foo.bar(x int) returns int as $$\n"
        "begin\n  return 1;\nend;\n$$ language plpgsql;\nCREATE INDEX idx_a ON users(name);\n",
        "t users 2 1-5, v users.id 3 3-3, v users.name 4 4-4, f bar 6 6-10, v idx_a 11 11-11",
    ),
    Row(
        "a.proto",
        "// hi\nmessage Foo {\n  string name = 1;\n  repeated Bar bars = 2;\n  enum K { \n"
        "    A = 0;\n  }\n}\nservice S {\n  rpc Get(Foo) returns (Foo);\n}\n",
        "t Foo 2 1-8, v Foo.name 3 3-3, v Foo.bars 4 4-4, t Foo.K 5 5-7, v Foo.K.A 6 6-6, "
        "t S 9 9-11, f S.Get 10 10-10",
    ),
    Row(
        "a.graphql",
        "type User {\n  id: ID!\n  posts(first: Int): [Post]\n}\nquery GetUser {\n"
        "  user { id }\n}\n",
        "t User 1 1-4, v User.id 2 2-2, v User.posts 3 3-3, f GetUser 5 5-7",
    ),
    Row(
        "a.tf",
        'resource "aws_instance" "web" {\n  ami = "x"\n  tags {\n    a = 1\n  }\n}\n'
        'variable "region" {\n  default = "eu"\n}\n',
        "k aws_instance.web 1 1-6, k aws_instance.web.ami 2 2-2, "
        "k aws_instance.web.tags 3 3-5, k aws_instance.web.tags.a 4 4-4, k region 7 7-9, "
        "k region.default 8 8-8",
    ),
    Row(
        "a.css",
        ".btn, .b {\n  color: red;\n}\n#id > a:hover {\n}\n:root {\n  --main: 1px;\n}\n"
        "@media (max-width: 3px) {\n  .x { a: b }\n}\n",
        "k .btn, .b 1 1-3, k #id > a:hover 4 4-5, k :root 6 6-8, v :root.--main 7 7-7, "
        "k @media (max-width: 3px) 9 9-11, k @media (max-width: 3px)..x 10 10-10",
    ),
    Row(
        "a.html",
        '<html>\n<h1>Title here</h1>\n<div class="a" id="main">\n</div>\n<script>\n'
        "function go() {\n  return 1\n}\n</script>\n</html>\n",
        "k Title here 2 2-2, k main 3 3-4, f go 6 6-8",
    ),
    Row(
        "a.vue",
        '<template>\n <div id="app"/>\n</template>\n<script lang="ts">\nexport default {\n'
        "  methods: {\n    save(x: number) { return x },\n  },\n}\nconst helper = () => 1\n"
        "</script>\n",
        "k app 2 2-2, f save 7 7-7, f helper 10 10-10",
    ),
    Row(
        "Dockerfile",
        "FROM a AS builder\nARG X=1\nRUN a\nFROM b\nENV Y=2\n",
        "k builder 1 1-1, v X 2 2-2, v Y 5 5-5",
    ),
    Row(
        "a.dart",
        "/// Doc\nclass Foo extends Bar {\n  final int x;\n  Foo(this.x);\n  @override\n"
        "  Widget build(BuildContext context) {\n    return x;\n  }\n  int get y => 1;\n}\n"
        "void main() {\n  run();\n}\n",
        "t Foo 2 1-10, v Foo.x 3 3-3, f Foo.build 6 5-8, f Foo.y 9 9-9, f main 11 11-13",
    ),
    Row(
        "a.r",
        "# adds\nadd <- function(x, y) {\n  x + y\n}\nLIMIT <- 10\n",
        "f add 2 1-4, v LIMIT 5 5-5",
    ),
    Row(
        "a.jl",
        "module M\nstruct P\n  x\nend\nfunction f(x)\n  x\nend\ng(x) = x + 1\nend\n",
        "t M 1 1-9, t M.P 2 2-4, f M.f 5 5-7, f M.g 8 8-9",
    ),
    Row(
        "a.ml",
        "(* doc *)\nlet rec fact n =\n  n\n\ntype t = A | B\nmodule M = struct\n  let x = 1\nend\n",
        "f fact 2 1-3, t t 5 5-5, t M 6 6-8, f M.x 7 7-7",
    ),
    Row(
        "a.pl",
        "package Foo::Bar;\n# doc\nsub new {\n  my $x = 1;\n}\n1;\n",
        "t Foo.Bar 1 1-6, f Foo.Bar.new 3 2-5",
    ),
    Row(
        "a.clj",
        "(ns foo.bar)\n(defn add [x y]\n  (+ x y))\n(def ^:dynamic *x* 1)\n",
        "t foo.bar 1 1-4, f foo.bar.add 2 2-3, v foo.bar.*x* 4 4-4",
    ),
    Row(
        "a.erl",
        "-module(foo).\n-record(st, {a}).\n% doc\nstart(X) ->\n  X.\n\nstop(X) when X > 1 ->\n"
        "  ok;\nstop(_) -> ok.\n",
        "t foo 1 1-9, t foo.st 2 2-2, f foo.start 4 3-5, f foo.stop 7 7-8, f foo.stop 9 9-9",
    ),
    Row(
        "a.nix",
        "{ pkgs }:\n{\n  foo = 1;\n  services.x = {\n    enable = true;\n  };\n}\n",
        "k foo 3 3-3, k services.x 4 4-6, k services.x.enable 5 5-5",
    ),
    Row(
        "a.m",
        "@interface Foo : NSObject\n@property (nonatomic) NSString *name;\n"
        "- (void)run:(int)x;\n@end\n@implementation Foo\n// doc\n- (void)run:(int)x {\n"
        "  return;\n}\n@end\n",
        "t Foo 1 1-4, v Foo.name 2 2-2, f Foo.run 3 3-3, t Foo 5 5-10, f Foo.run 7 6-9",
    ),
    Row(
        "a.f90",
        "module m\ncontains\nsubroutine foo(x)\n  integer :: x\nend subroutine foo\n"
        "real function bar(y)\n  bar = y\nend function\nend module\n",
        "t m 1 1-9, f m.foo 3 3-5, f m.bar 6 6-8",
    ),
    Row("a.groovy", "class A {\n  def run(x) {\n    x\n  }\n}\n", "t A 1 1-5, f A.run 2 2-4"),
    Row("a.ps1", "function Get-Thing {\n  param($x)\n}\n", "f Get-Thing 1 1-3"),
    Row(
        "a.vim",
        "function! s:Go(x) abort\n  return 1\nendfunction\nlet g:foo_bar = 1\n"
        "command! -nargs=1 Foo call x\n",
        "f Go 1 1-3, v foo_bar 4 4-4, f Foo 5 5-5",
    ),
    Row(
        "a.asm",
        "section .text\nmain:\n  mov eax, 1\nloop1:\n  ret\n",
        "f main 2 2-3, f loop1 4 4-5",
    ),
    Row(
        "a.el",
        ';;; doc\n(defun foo-bar (x)\n  "doc"\n  x)\n(defvar foo-x 1)\n',
        "f foo-bar 2 1-4, v foo-x 5 5-5",
    ),
    Row("a.sol", "contract A {\n  function f(uint x) public {\n  }\n}\n", "t A 1 1-4, f A.f 2 2-3"),
    Row(
        "x.gradle",
        "task hello {\n  doLast { }\n}\ndependencies {\n}\n",
        "k hello 1 1-3, k hello.doLast 2 2-2, k dependencies 4 4-5",
    ),
]


@pytest.mark.parametrize(("path", "text", "expected"), EXPECTED, ids=[row[0] for row in EXPECTED])
def test_a_file_without_a_grammar_has_names_with_lines(path: str, text: str, expected: str) -> None:
    found = parse_source(path, text, kind="code").symbols
    shown = [f"{s.kind[0]} {s.name} {s.line} {s.start_line}-{s.end_line}" for s in found]
    assert ", ".join(shown) == expected


def test_every_language_with_patterns_is_a_language() -> None:
    named = [name for name in list_languages() if has_patterns(name)]
    assert len(named) > 60
    for name in named:
        assert find_named(b"", name) == ()


@given(st.text(alphabet="abAZ_ \t\n{}()[]<>=:;,.\"'#*&-$@%~!?|/\\1é"))
def test_patterns_place_every_name_inside_the_text(text: str) -> None:
    data = text.encode()
    lines = data.count(b"\n") + 1
    for name in ("css", "dart", "html", "make", "objective-c", "perl", "sql", "c", "kotlin"):
        assert has_patterns(name)
        for one in find_named(data, name):
            assert 1 <= one.start_line <= one.line <= one.end_line <= lines


@pytest.mark.parametrize("unit", ' |\t|a |* |** a |a(|<a |a, |- a: |"a|a:'.split("|"))
def test_no_line_takes_long_to_read(unit: str) -> None:
    line = unit * (200_000 // len(unit))
    began = time.process_time()
    for name in list_languages():
        if has_patterns(name):
            find_named(line[:20_000].encode(), name)
    assert time.process_time() - began < 20  # quadratic patterns would take minutes


def test_a_list_of_many_records_gives_each_key_once() -> None:
    record = '  {\n    "id": 1,\n    "friends": [\n    ]\n  },\n'
    parsed = parse_source("data.json", f"[\n{record * 500}]\n", kind="code")
    assert [one.name for one in parsed.symbols] == ["id", "friends"]
