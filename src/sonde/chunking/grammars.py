"""Grammar name -> parser, each loaded on its first use and kept per thread."""

from __future__ import annotations

import importlib
import threading
from functools import cache
from typing import TYPE_CHECKING

from sonde.runtime.memory import require_memory

if TYPE_CHECKING:
    from tree_sitter import Language, Parser, Tree

_MODULES = {
    "csharp": ("tree_sitter_c_sharp", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}
_LARGEST = 1024 * 1024
_LINE = 400
"""Minified and generated sources have longer lines than this on average."""
_STRIDE, _BLOCK, _PERIOD, _RUN = 512, 64, 16, 600
_PIECE, _TIMES = 128, 100
"""A source is handed to the parser in pieces of so many bytes, each so often at most on average;
what people write needs two or three readings, the worst of 6,000 files seventeen."""
_ROOM, _PER_BYTE = 24 << 20, 100
"""What loading a grammar and a parse may take, all in all and for each byte of a source."""

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


def _repeats(data: bytes) -> bool:
    """Whether a long stretch is one short token over and over.

    Error recovery takes quadratic time and more on such text (8 kB can take a minute), and
    the way to stop a parse, the progress callback of tree-sitter 0.26, crashes the process.
    """
    for at in range(0, len(data) - _BLOCK - _PERIOD, _STRIDE):
        block = data[at : at + _BLOCK]
        for period in range(1, _PERIOD + 1):
            if block == data[at + period : at + period + _BLOCK] and not block.isspace():
                low = max(0, at - _STRIDE)
                window = data[low : at + _RUN + _STRIDE]
                unit = block[:period] * (_RUN // period)
                if unit in window:
                    return True
    return False


def _is_worth(data: bytes) -> bool:
    """Whether a source is worth a syntax tree: not huge, not minified, not one token repeated."""
    if len(data) > min(_LARGEST, _LINE * (data.count(b"\n") + 2)):
        return False
    return not _repeats(data)


def parse_tree(grammar: str, data: bytes) -> Tree | None:
    """The syntax tree of a source, broken or not; None where it is not worth one, or has errors
    from which the parser would not recover in any time. `MemoryError` where there may be no room.
    """
    if not _is_worth(data):
        return None
    require_memory(_ROOM + _PER_BYTE * len(data))
    left = _TIMES * (len(data) // _PIECE + _TIMES)

    def read(offset: int, _: object) -> bytes:
        # how often pieces are read again tells how hard it is, the same on every machine
        nonlocal left
        left -= 1
        if left <= 0:
            return b""  # as if the source ended
        end = offset + _PIECE
        # never within a character: when no more comes after its first half, the parser crashes
        while end < len(data) and data[end] & 0xC0 == 0x80 and end > offset + _PIECE - 3:
            end -= 1
        return data[offset:end]

    tree = _parser_for(grammar).parse(read)
    return tree if left > 0 else None
