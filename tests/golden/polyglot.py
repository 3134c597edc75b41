"""A small project in many languages, written anew for each test: path -> contents."""

from __future__ import annotations

FILES = {
    "python/cart.py": '''"""A cart."""

import os
from decimal import Decimal

LIMIT = 12


class Cart:
    """What somebody is about to buy."""

    def __init__(self, owner: str) -> None:
        self.owner = owner

    @property
    def total(self) -> Decimal:
        return Decimal(0)


async def load_cart(owner: str) -> Cart:
    return Cart(os.path.basename(owner))
''',
    "web/cart.ts": """import { money } from "./money";

export interface Item { name: string; cents: number }

export class Cart<T extends Item> {
  constructor(private readonly items: T[]) {}
  total(): string { return money(this.items.reduce((sum, item) => sum + item.cents, 0)); }
}

export const emptyCart = () => new Cart<Item>([]);
""",
    "web/app.js": """const http = require("http");

function startServer(port) {
  return http.createServer((request, response) => response.end("ok")).listen(port);
}

module.exports = { startServer };
""",
    "web/page.html": "<!doctype html>\n<title>Shop</title>\n<h1 id='top'>Welcome</h1>\n",
    "web/style.css": ".cart { color: red; }\n.cart > li { margin: 0 1em; }\n",
    "go/pool.go": """package pool

import "sync"

// Pool lends out connections.
type Pool struct {
	mu   sync.Mutex
	free []int
}

// Acquire takes one.
func (p *Pool) Acquire() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free[0]
}
""",
    "rust/lib.rs": """use std::collections::HashMap;

/// Counts words.
pub struct Counter { counts: HashMap<String, usize> }

impl Counter {
    pub fn add(&mut self, word: &str) { *self.counts.entry(word.into()).or_insert(0) += 1; }
}

macro_rules! square { ($x:expr) => { $x * $x }; }
""",
    "java/Order.java": """package shop;

import java.util.List;

public class Order {
    private final List<String> lines;

    public Order(List<String> lines) { this.lines = lines; }

    /** How many lines there are. */
    public int countLines() { return lines.size(); }
}
""",
    "c/ring.h": "#ifndef RING_H\n#define RING_H\nint ring_push(int value);\n#endif\n",
    "c/ring.c": '#include "ring.h"\n\nstatic int held[8];\n\nint ring_push(int value) {\n'
    "  held[value % 8] = value;\n  return value;\n}\n",
    "cpp/shape.cpp": """#include <vector>

namespace shapes {
class Circle {
 public:
  explicit Circle(double radius) : radius_(radius) {}
  double Area() const { return 3.14 * radius_ * radius_; }

 private:
  double radius_;
};
}  // namespace shapes
""",
    "csharp/User.cs": """using System;

namespace Shop
{
    public record User(string Name);

    public static class Users
    {
        public static User Find(string name) => new User(name);
    }
}
""",
    "ruby/mail.rb": 'require "net/smtp"\n\nmodule Mail\n  class Sender\n'
    "    def deliver(letter)\n      puts letter\n    end\n  end\nend\n",
    "php/index.php": "<?php\nnamespace Shop;\n\nclass Page {\n"
    "    public function render(string $title): string { return $title; }\n}\n",
    "kotlin/Main.kt": "package shop\n\ndata class Price(val cents: Int)\n\n"
    "fun format(price: Price): String = price.cents.toString()\n",
    "swift/View.swift": "import Foundation\n\nstruct View {\n    let title: String\n"
    "    func draw() -> String { title.uppercased() }\n}\n",
    "scala/Tree.scala": "package shop\n\nsealed trait Tree\n"
    "case class Leaf(value: Int) extends Tree\nobject Tree { def leaf(n: Int): Tree = Leaf(n) }\n",
    "elixir/queue.ex": "defmodule Shop.Queue do\n  @moduledoc false\n"
    "  def push(queue, item), do: [item | queue]\nend\n",
    "haskell/Sum.hs": "module Sum (total) where\n\n-- | Adds up.\n"
    "total :: [Int] -> Int\ntotal = foldr (+) 0\n",
    "lua/greet.lua": "local M = {}\n\nfunction M.greet(name)\n  return 'hello ' .. name\nend\n\n"
    "return M\n",
    "shell/deploy.sh": "#!/bin/bash\nset -e\n\nbackup() {\n"
    '  tar czf backup.tgz "$1"\n}\n\nbackup .\n',
    "zig/main.zig": 'const std = @import("std");\n\npub fn add(a: i32, b: i32) i32 {\n'
    "    return a + b;\n}\n",
    "sql/schema.sql": "CREATE TABLE orders (\n"
    "  id INTEGER PRIMARY KEY,\n  owner TEXT NOT NULL\n);\n",
    "data/config.json": '{"name": "shop", "ports": [80, 443], "nested": {"debug": false}}\n',
    "data/deploy.yaml": "services:\n  web:\n    image: shop:1\n    ports: ['80:80']\n",
    "data/settings.toml": '[server]\nhost = "localhost"\nport = 80\n',
    "docs/guide.md": "# Guide\n\nHow to begin.\n\n## Install\n\n```sh\nmake install\n```\n\n"
    "## Use\n\nSee [the cart](../python/cart.py). #howto\n",
    "docs/notes.txt": "Plain notes.\n\nA second paragraph about parcels.\n",
    "docs/手引き.md": "# 手引き\n\n東京の倉庫から荷物を送る方法。\n\n"
    "## 返品\n\n返品は三十日以内に受け付けます。\n",
    "docs/说明.md": "# 说明\n\n购物车保存用户选择的商品，结账时计算总价。\n",
    "유니코드/가격.py": "def 가격_계산(수량):\n"
    '    """수량에 따라 가격을 계산한다."""\n    return 수량 * 3\n',
    "python/naïve_größe.py": "def größe(länge: int) -> int:\n    # straße, œuvre, Ελλάδα, 🙂\n"
    "    return länge * 2\n",
    "python/empty.py": "",
    "python/crlf.py": "def first():\r\n    return 1\r\n\r\n\r\ndef second():\r\n    return 2\r\n",
    "python/broken.py": "def half(\n    return (((\nclass Odd:\n  def x(self: pass\n",
    "python/long.py": "".join(
        f'def step_{number}(value):\n    """Step {number} of many."""\n'
        f"    return value * {number} + {number % 7}\n\n\n"
        for number in range(120)
    ),
    "docs/long.md": "".join(
        f"## Part {number}\n\n{'A sentence that says little. ' * 12}\n\n" for number in range(30)
    ),
}
