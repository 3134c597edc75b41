"""Members, nested definitions and prototypes, and sources that macros and directives break."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from sonde.chunking.parse import parse_source


class Row(NamedTuple):
    path: str
    text: str
    expected: str
    """Per symbol: kind, name, line."""


EXPECTED = [
    Row(
        "a.ts",
        "class C { private x = 1; static y; get z() { return 1 } \n"
        "  constructor(private readonly w: string) { const q = 1 } }\n"
        "export const obj = { m() {}, p: () => 1, k: function() {} , v: 3 }\n"
        "interface I { a: string; b(x: number): void }\nenum E { A, B = 1 }\n"
        "function f() { const g = () => 1; class L { m() {} } let no = 1 }\n",
        "t C 1, v C.x 1, v C.y 1, f C.z 1, f C.constructor 2, v C.w 2, v obj 3, f obj.m 3, "
        "f obj.p 3, f obj.k 3, t I 4, v I.a 4, f I.b 4, t E 5, v E.A 5, v E.B 5, f f 6, "
        "f f.g 6, t f.L 6, f f.L.m 6",
    ),
    Row(
        "a.php",
        "<?php\nnamespace A\\B;\nclass C { const K = 1; public ?int $x = 1, $y; \n"
        "  public function __construct(private int $z) { $no = 1; } }\n"
        "enum E: string { case A = 'a'; }\n",
        "t A.B.C 3, v A.B.C.K 3, v A.B.C.x 3, v A.B.C.y 3, f A.B.C.__construct 4, "
        "v A.B.C.z 4, t A.B.E 5, v A.B.E.A 5",
    ),
    Row(
        "a.go",
        "package a\ntype S struct { A, B int; io.Reader }\n"
        "type I interface { M(x int) error; Other }\n"
        "func f() { tests := []struct{ name string }{} }\n",
        "t S 2, v S.A 2, v S.B 2, t I 3, f I.M 3, f f 4",
    ),
    Row(
        "a.rb",
        "class A\n  attr_accessor :x, :y\n  K = 1\n  alias_method :a, :b\n  alias q? r!\n"
        "  define_method(:dm) { }\n  def ok?; end\n  def x=(v); end\n  def self.s; end\nend\n",
        "t A 1, v A.x 2, v A.y 2, v A.K 3, f A.a 4, f A.q? 5, f A.dm 6, f A.ok? 7, f A.x 8, "
        "f A.s 9",
    ),
    Row(
        "a.py",
        "class A:\n    x: int\n    a, b = 1, 2\n    def __init__(self):\n        self.q = 1\n"
        "        no = 2\n        def inner(): pass\n    def other(self):\n        self.no = 1\n",
        "t A 1, v A.x 2, v A.a 3, v A.b 3, f A.__init__ 4, v A.q 5, f A.__init__.inner 7, "
        "f A.other 8",
    ),
    Row(
        "a.kt",
        "enum class E(val x: Int) {\n  A(1),\n  B;\n  fun f() {}\n}\n"
        "class C(val p: Int, q: Int) {\n  companion object {\n    const val K = 1\n  }\n"
        "  var z = 1\n}\n",
        "t E 1, v E.x 1, v E.A 2, v E.B 3, f E.f 4, t C 6, v C.p 6, t C.Companion 7, v C.K 8, "
        "v C.z 10",
    ),
    Row(
        "a.swift",
        "enum E {\n  case a, b(Int)\n  case c = 1\n}\nprotocol P {\n  var x: Int { get }\n"
        "  func f()\n}\nclass C {\n  let z: Int\n  static func s() { let no = 1 }\n}\n",
        "t E 1, v E.a 2, v E.b 2, v E.c 3, t P 5, v P.x 6, f P.f 7, t C 9, v C.z 10, f C.s 11",
    ),
    Row(
        "a.scala",
        "case class C(x: Int, val y: Int) { val z = 1 ; def f: Int = 1; type T = Int }\n"
        "enum E { case A, B; case D(x: Int) }\nsealed trait S { val q: Int; var r: Int }\n",
        "t C 1, v C.x 1, v C.y 1, v C.z 1, f C.f 1, t C.T 1, t E 2, v E.A 2, v E.B 2, "
        "t E.D 2, v E.D.x 2, t S 3, v S.q 3, v S.r 3",
    ),
    Row(
        "a.lua",
        "local M = {}\nM.t = { f = function() end, g = 1 }\n"
        "function M.a.b() local function c() end local no = 1 end\nfunction M:meth() end\n"
        "M.x = function() end\nlocal y = function() end\nreturn { z = function() end }\n",
        "v M 1, v M.t 2, f M.t.f 2, f M.a.b 3, f M.a.b.c 3, f M.meth 4, f M.x 5, f y 6, f z 7",
    ),
    Row(
        "a.zig",
        "pub const S = struct { a: i32 = 1, pub const K = 1; pub fn f() void {} };\n"
        "const E = enum { a, b };\n",
        "t S 1, v S.a 1, v S.K 1, f S.f 1, t E 2, v E.a 2, v E.b 2",
    ),
    Row(
        "a.ex",
        "defmodule A do\n  @type t :: integer\n  @callback run(x) :: y\n  @limit 3\n"
        "  @spec foo(a) :: b\n  def foo(a), do: a\n  defmodule In do\n    def k, do: 1\n  end\n"
        "end\n",
        "t A 1, t A.t 2, f A.run 3, v A.limit 4, f A.foo 6, t A.In 7, f A.In.k 8",
    ),
    Row(
        "a.sh",
        "alias ll='ls -l'\nexport A=1\nf() { local no=1; g() { :; }; }\n",
        "f ll 1, v A 2, f f 3, f f.g 3",
    ),
    Row(
        "a.hpp",
        "namespace a::b {\n"
        "struct S { int x, *y; void m(int) const; enum K { A, B = 1 }; S(); ~S(); };\n"
        "typedef struct node { int q; } node_t;\ntypedef int (*cb)(int);\nint proto(int);\n"
        "extern int v, w[3];\nconst std::string& nm() { int no; return 1; }\n}\n#define X 1\n",
        "t a.b.S 2, v a.b.S.x 2, v a.b.S.y 2, d a.b.S.m 2, t a.b.S.K 2, v a.b.S.K.A 2, "
        "v a.b.S.K.B 2, d a.b.S.S 2, d a.b.S.~S 2, t a.b.node_t 3, t a.b.node 3, "
        "v a.b.node.q 3, t a.b.cb 4, d a.b.proto 5, d a.b.v 6, d a.b.w 6, f a.b.nm 7, v X 9",
    ),
    Row(
        "a.c",
        "TEST_IMPL(starts) {\n  int no;\n  return 0;\n}\nint table[] = {1, 2};\n",
        "f starts 1, v table 5",
    ),
    Row(
        "a.rs",
        "enum E { A, B(i32), C { x: i32 } }\n"
        "impl T for S { fn f(&self) { fn g() {} let no = 1; } }\n",
        "t E 1, v E.A 1, v E.B 1, v E.C 1, v E.C.x 1, f S.f 2, f S.f.g 2",
    ),
    Row(
        "a.cs",
        "namespace A.B;\nenum E { X, Y = 2 }\n"
        "class C { public event Handler Ev; int x, y; public int P => 1; \n"
        "  void M() { void L() { } int no = 1; } }\n",
        "t A.B.E 2, v A.B.E.X 2, v A.B.E.Y 2, t A.B.C 3, v A.B.C.Ev 3, v A.B.C.x 3, "
        "v A.B.C.y 3, f A.B.C.P 3, f A.B.C.M 4, f A.B.C.M.L 4",
    ),
    Row(
        "a.hs",
        "module A.B where\n-- | doc\ndata Foo = Bar Int | Baz { un, deux :: Int }\n"
        "class C a where\n  meth :: a -> Int\nf x = g x where\n  g y = y\n",
        "t Foo 3, v Foo.Bar 3, v Foo.Baz 3, v Foo.Baz.un 3, v Foo.Baz.deux 3, t C 4, "
        "f C.meth 5, f f 6, f f.g 7",
    ),
    Row(
        "a.java",
        "@Anno\nclass A {\n  @Override\n  void Override() { class L { void m() {} } int no; }\n"
        "  enum E { X, Y { void f() {} } }\n  record R(int a) {}\n}\n",
        "t A 2, f A.Override 4, t A.Override.L 4, f A.Override.L.m 4, t A.E 5, v A.E.X 5, "
        "v A.E.Y 5, f A.E.Y.f 5, t A.R 6, v A.R.a 6",
    ),
]


@pytest.mark.parametrize(("path", "text", "expected"), EXPECTED, ids=[row[0] for row in EXPECTED])
def test_everything_that_has_a_name_is_named_but_no_local_variable(
    path: str, text: str, expected: str
) -> None:
    found = parse_source(path, text, kind="code").symbols
    assert ", ".join(f"{s.kind[0]} {s.name} {s.line}" for s in found) == expected


def names_of(path: str, text: str) -> list[str]:
    return [one.name for one in parse_source(path, text, kind="code").symbols]


def test_macros_that_stand_for_syntax_do_not_hide_definitions() -> None:
    text = (
        "#include <x>\nLIB_BEGIN_NAMESPACE\nnamespace detail {\nLIB_CONSTEXPR inline auto f(int n) "
        "-> int { return n; }\n}\nLIB_END_NAMESPACE\nclass LIB_API Foo : public Bar {\n"
        "  int x() const LIB_NOEXCEPT { return 1; }\n};\n"
    )
    assert names_of("a.hpp", text) == ["detail.f", "Foo", "Foo.x"]


def test_directives_inside_a_class_do_not_end_it() -> None:
    text = (
        "namespace N {\n  public class Writer\n#if ASYNC\n    : IAsync\n#endif\n  {\n"
        "    void A() {\n#if X\n      if (a) {\n#else\n      if (b) {\n#endif\n      }\n    }\n"
        "    void B() { }\n  }\n}\n"
    )
    assert names_of("a.cs", text) == ["N.Writer", "N.Writer.A", "N.Writer.B"]


def test_patterns_fill_the_gaps_of_a_broken_tree() -> None:
    text = "class A {\n  fun good() {}\n  fun bad( {\n  }\n  fun also(x: Int) {\n  }\n"
    assert {"good", "also"} <= {name.rpartition(".")[2] for name in names_of("a.kt", text)}


def test_the_lines_of_a_definition_begin_with_its_documentation() -> None:
    text = "class A:\n    def f(self):\n        # says it\n        @wrap\n        def g(): pass\n"
    (inner,) = [s for s in parse_source("a.py", text, kind="code").symbols if s.name == "A.f.g"]
    assert (inner.line, inner.start_line, inner.end_line) == (5, 3, 5)


def test_a_broken_source_may_be_nested_deeper_than_calls_may() -> None:
    opened = "".join(f"if (name_{number} > {number * 7}) {{\n" for number in range(700))
    closed = "".join(f"}} // end of name_{number}\n" for number in range(700))
    text = f"\nLIB_BEGIN\nint f() {{\n{opened}int x = 1 2;\n{closed}}}\n"
    assert "f" in names_of("a.cpp", text)
