"""Grammar name -> parser, loaded on first use and cached per thread."""

from __future__ import annotations

import importlib
import threading
from functools import cache
from typing import TYPE_CHECKING

from sonde.runtime.processes import require_memory

if TYPE_CHECKING:
    from tree_sitter import Language, Parser, Tree

_MODULES = {
    "csharp": ("tree_sitter_c_sharp", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}
_MAX_BYTES = 1024 * 1024
_MEAN_LINE_BYTES = 400
"""Minified and generated sources have longer lines than this on average."""
_STRIDE, _BLOCK, _PERIOD, _RUN = 512, 64, 16, 600
_READ_BYTES, _MAX_READS = 128, 100
"""The parser reads a source in pieces of this size, each at most this often on average; code
usually needs two or three reads, the worst of 6,000 files seventeen."""
_BASE_MEMORY, _MEMORY_PER_BYTE = 24 << 20, 100
"""Upper bound of the memory for a grammar and a parse, in total and per byte of the source."""

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
    """Whether a long stretch repeats one short token.

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


def _is_parsable(data: bytes) -> bool:
    """Whether a source is worth parsing: not huge, not minified, not one token repeated."""
    if len(data) > min(_MAX_BYTES, _MEAN_LINE_BYTES * (data.count(b"\n") + 2)):
        return False
    return not _repeats(data)


def parse_tree(grammar: str, data: bytes) -> Tree | None:
    """The syntax tree of a source, with or without errors; None where parsing is not worth it or
    would take too long. Raises `MemoryError` where memory may not suffice.
    """
    if not _is_parsable(data):
        return None
    require_memory(_BASE_MEMORY + _MEMORY_PER_BYTE * len(data))
    left = _MAX_READS * (len(data) // _READ_BYTES + _MAX_READS)

    def read(offset: int, _: object) -> bytes:
        # the number of reads measures the effort, equally on every machine
        nonlocal left
        left -= 1
        if left <= 0:
            return b""  # as if the source ended
        end = offset + _READ_BYTES
        # never inside a character: the parser crashes if the source ends after its first half
        while end < len(data) and data[end] & 0xC0 == 0x80 and end > offset + _READ_BYTES - 3:
            end -= 1
        return data[offset:end]

    tree = _parser_for(grammar).parse(read)
    return tree if left > 0 else None
