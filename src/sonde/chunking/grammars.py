"""Grammar name -> parser, each loaded on its first use and kept per thread."""

from __future__ import annotations

import importlib
import threading
import time
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Parser, Tree

_MODULES = {
    "csharp": ("tree_sitter_c_sharp", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}
_AT_ONCE = 128 * 1024
_READ = 16 * 1024
_SECONDS = 2.0

_parsers = threading.local()


@cache
def load_language(grammar: str) -> Language:
    """The compiled grammar of that name."""
    from tree_sitter import Language

    module, function = _MODULES.get(grammar, (f"tree_sitter_{grammar}", "language"))
    return Language(getattr(importlib.import_module(module), function)())


def _parser_for(grammar: str) -> Parser:
    known: Parser | None = getattr(_parsers, grammar, None)
    if known is None:
        from tree_sitter import Parser

        known = Parser(load_language(grammar))
        setattr(_parsers, grammar, known)
    return known


def parse_tree(grammar: str, data: bytes) -> Tree:
    """The syntax tree of a source; of a very slow one, only as far as the time allows."""
    parser = _parser_for(grammar)
    if len(data) <= _AT_ONCE:
        return parser.parse(data)
    deadline = time.monotonic() + _SECONDS

    def read(offset: int, _point: object) -> bytes:
        return data[offset : offset + _READ] if time.monotonic() < deadline else b""

    return parser.parse(read)
