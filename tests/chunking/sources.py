"""A small source per language, with what it defines and imports."""

from __future__ import annotations

from typing import NamedTuple


class Source(NamedTuple):
    path: str
    text: str
    symbols: str
    """`name:kind`, in order; t(ype), f(unction), v(alue), d(eclaration), k(ey)."""
    imports: str


SOURCES = {
    source.path: source
    for source in [
        Source(
            "a.sh",
            'source ./lib/text-tools.sh\n. "bar.sh"\nLIMIT=1\n# Runs.\nrun() {\n  echo\n}\n'
            "function other { :; }\n",
            "LIMIT:v run:f other:f",
            "texttools bar",
        ),
        Source(
            "a.c",
            '#include <stdio.h>\n#include "net/sock_et.h"\n#define MAX 10\n'
            "#define SQ(x) ((x)*(x))\n"
            "struct later;\nint proto(void);\nstatic int count = 3;\n"
            "typedef struct node { int x; } node_t;\nenum color { RED };\n"
            "#ifdef X\nchar *dup(const char *s)\n{\n    return 0;\n}\n#endif\n",
            "MAX:v SQ:f proto:d count:v node_t:t node:t node.x:v color:t color.RED:v dup:f",
            "stdio socket",
        ),
        Source(
            "a.hpp",
            '#include "foo/bar.h"\nnamespace a { namespace b {\n'
            "template <typename T> class Foo : public Bar<T> {\n public:\n"
            "  int run(int x) const { return x; }\n  void decl();\n};\n"
            "template <class T> void Foo<T>::go() {}\nusing V = int;\n}}\n",
            "a.b.Foo:t a.b.Foo.run:f a.b.Foo.decl:d a.b.Foo.go:f a.b.V:t",
            "bar",
        ),
        Source(
            "a.cs",
            "using System.Text;\nusing X = A.Client;\nnamespace N.M {\n"
            "  /// <summary>x</summary>\n  [Attr]\n  public class A : B {\n    const int K = 1;\n"
            "    public A() {}\n    public int P { get; set; }\n    void Run<T>(int x) {}\n"
            "    interface I { void Q(); }\n  }\n  record R(int X);\n}\n",
            "N.M.A:t N.M.A.K:v N.M.A.A:f N.M.A.P:v N.M.A.Run:f N.M.A.I:t N.M.A.I.Q:f N.M.R:t "
            "N.M.R.X:v",
            "text client",
        ),
        Source(
            "a.ex",
            "defmodule A.B do\n  use Foo.Bar\n  alias X.{Yes, No}\n  @doc 'd'\n"
            "  @spec run(a) :: b\n"
            "  def run(x) when x > 1 do\n    1\n  end\n  defp priv(x), do: 1\nend\n"
            "defimpl P, for: Integer do\n  def q(x), do: x\nend\n",
            "A.B:t A.B.run:f A.B.priv:f P.q:f",
            "bar x yes no",
        ),
        Source(
            "a.go",
            'package main\nimport (\n\t"net/http"\n\tx "a/chi/v5"\n)\ntype Foo struct { A int }\n'
            "type (\n\tBar interface { M() }\n\tBaz = int\n)\n// Run runs.\n"
            "func (f *Foo[T]) Run(x int) error { return nil }\nfunc Map[T any](x T) {}\n"
            "const (\n\tA = 1\n)\nvar V int\n",
            "Foo:t Foo.A:v Bar:t Bar.M:f Baz:t Foo.Run:f Map:f A:v V:v",
            "http chi",
        ),
        Source(
            "a.hs",
            "module A.B (foo) where\nimport qualified Data.Map as M\nimport Text.Parse (p)\n"
            "data Foo = Bar Int | Baz\nnewtype N = N { un :: Int }\nclass C a where\n"
            "  meth :: a -> Int\n  meth _ = 1\nfoo :: Int -> Int\nfoo 0 = 1\nfoo n = n\nval = 1\n",
            "Foo:t Foo.Bar:v Foo.Baz:v N:t N.N:v N.N.un:v C:t C.meth:f foo:f val:v",
            "map parse",
        ),
        Source(
            "a.java",
            "package a.b;\nimport java.util.List;\nimport static a.b.Checks.notNull;\n/** Doc. */\n"
            "@Foo\npublic class A<T> extends B {\n  static final int K = 1;\n  A() {}\n"
            "  public <T> void run(int x) {}\n  enum E { X; void q() {} }\n}\n",
            "A:t A.K:v A.A:f A.run:f A.E:t A.E.X:v A.E.q:f",
            "list checks",
        ),
        Source(
            "a.js",
            "import a from './core/api.js';\nconst fs = require('node:fs');\n"
            "export const foo = (x) => { return 1 };\n"
            "export default class Foo extends B { bar() {} get baz() { return 1 } }\n"
            "exports.create = function create(a) { };\nvar X = 1;\n"
            "Foo.prototype.late = function () {};\nexport * from '../x/y-z';\n",
            "foo:f Foo:t Foo.bar:f Foo.baz:f create:f create.create:f X:v Foo.late:f",
            "api fs yz",
        ),
        Source(
            "a.kt",
            "package a.b\nimport x.y.Zed\nclass A(val x: Int) : B() {\n  fun run() {}\n"
            "  companion object {\n    const val K = 1\n  }\n}\nobject O\n"
            "fun String.ext(): Int = 1\nval top = 1\n",
            "A:t A.x:v A.run:f A.Companion:t A.K:v O:t ext:f top:v",
            "zed",
        ),
        Source(
            "a.lua",
            'local x = require("foo.bar")\nlocal M = {}\n--- Doc.\nfunction M.run(a) end\n'
            "function M:meth() end\nlocal function loc() end\nM.asg = function() end\nreturn M\n",
            "M:v M.run:f M.meth:f loc:f M.asg:f",
            "bar",
        ),
        Source(
            "a.php",
            "<?php\nnamespace A\\B;\nuse C\\D\\{Eve, Fay as G};\nuse H\\Ivy;\n"
            "require 'x/late.php';\n"
            "const K = 1;\nabstract class X extends Y {\n  const Q = 1;\n"
            "  #[At]\n  public function run(int $x) {}\n}\ntrait T { function t() {} }\n"
            "function top() {}\n",
            "A.B.K:v A.B.X:t A.B.X.Q:v A.B.X.run:f A.B.T:t A.B.T.t:f A.B.top:f",
            "d eve fay ivy late",
        ),
        Source(
            "a.py",
            "import os.path\nfrom a.b_c import (\n    d as e,  # why\n    F,\n)\nLIMIT: int = 1\n"
            "if X:\n    from . import z\n    def early(): pass\nclass A(B):\n    x = 1\n"
            "    @property\n    async def run(self): pass\ntype T = int\n",
            "LIMIT:v early:f A:t A.x:v A.run:f T:t",
            "path bc d f z",
        ),
        Source(
            "a.rb",
            "require 'foo/bar'\nrequire_relative \"baz\"\nmodule A::B\n  K = 1\n  # Doc.\n"
            "  class C < D\n    def run(x) = 1\n    def self.make; end\n    class << self\n"
            "      def sing; end\n    end\n  end\nend\n",
            "A.B:t A.B.K:v A.B.C:t A.B.C.run:f A.B.C.make:f A.B.C.sing:f",
            "bar baz",
        ),
        Source(
            "a.rs",
            "use crate::x::{yes, no as w};\nuse std::fmt;\nmod other_one;\n/// Doc.\n"
            "#[derive(Debug)]\n"
            "pub struct Foo<T> { a: T }\nimpl<T> fmt::Display for Foo<T> { fn fmt(&self) {} }\n"
            "pub trait Tr { fn a(&self); }\nmacro_rules! mac { () => {} }\nconst K: u8 = 1;\n",
            "other_one:t Foo:t Foo.a:v Foo.fmt:f Tr:t Tr.a:f mac:f K:v",
            "x yes no fmt otherone",
        ),
        Source(
            "a.scala",
            "package a.b\nimport x.y.{Zed, W => V}\nclass A(x: Int) extends B {\n"
            "  def run(y: Int): Int = 1\n  val k = 1\n}\nobject O { type T = Int }\n"
            "trait Tr[F[_]]\n",
            "A:t A.x:v A.run:f A.k:v O:t O.T:t Tr:t",
            "y zed w",
        ),
        Source(
            "a.swift",
            "import Foundation\n@testable import App.Model\npublic class A: B {\n  init() {}\n"
            "  func run(_ y: Int) {}\n}\nextension A {\n  func ex() {}\n}\nprotocol P {\n"
            "  func z()\n}\nlet top = 1\nfunc f() {}\n",
            "A:t A.init:f A.run:f A.ex:f P:t P.z:f top:v f:f",
            "foundation model",
        ),
        Source(
            "a.ts",
            "import type { Q } from './q.types';\nexport interface A<T> { x: number }\n"
            "export type B = string;\nexport enum C { X }\nnamespace N { export const q = 1 }\n"
            "abstract class D { abstract foo(): void; constructor(private x: number) {} }\n"
            "export const make = <T>(x: T) => x;\n",
            "A:t A.x:v B:t C:t C.X:v N:t D:t D.foo:f D.constructor:f D.x:v make:f",
            "q",
        ),
        Source(
            "a.tsx",
            "import React from 'react';\nexport function App() { return <div>x</div>; }\n",
            "App:f",
            "react",
        ),
        Source(
            "a.zig",
            'const std = @import("std");\nconst p = @import("sub/my_parse.zig");\n'
            "pub const Foo = struct {\n    a: u8,\n    pub fn init() void {}\n};\n"
            "pub fn main() !void {}\nvar x: u8 = 1;\n",
            "Foo:t Foo.a:v Foo.init:f main:f x:v",
            "std myparse",
        ),
    ]
}
