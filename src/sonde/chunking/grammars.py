"""Grammars and syntax trees. Parsers are loaded on first use and cached per thread."""

from __future__ import annotations

import importlib
import re
import threading
from functools import cache
from typing import TYPE_CHECKING

from sonde.runtime.processes import require_memory

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser, Tree

_MODULES = {
    "csharp": ("tree_sitter_c_sharp", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}
_MAX_PARSED_BYTES = 1024 * 1024  # larger sources are nearly always generated
_MEAN_LINE_BYTES = 400  # minified and generated sources have longer lines than this on average
_STRIDE, _BLOCK, _PERIOD, _RUN = 512, 64, 16, 600  # bytes: step, sample, longest token, run
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


def is_written(data: bytes) -> bool:
    """Whether a source is neither huge nor minified, so most likely not generated."""
    return len(data) <= min(_MAX_PARSED_BYTES, _MEAN_LINE_BYTES * (data.count(b"\n") + 2))


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


_CALLED = rb"[A-Z][A-Z0-9_]{2,}[A-Z0-9_](?:\([^()\n]*\))?"
_MACROS = re.compile(
    rb"(?m)(?<!,)(?<!,\r)\n[ \t]*(?P<line>[A-Z][A-Z0-9_]{3,})(?=[ \t]*\r?$)(?!\s*[,(={}])"
    rb"|\b(?:class|struct|union|enum)[ \t]+(?P<type>%b)(?=[ \t]+(?!final)[A-Za-z_])"
    rb"|\)\s*(?:const\s+)?(?P<end>%b)(?=\s*[{;])"
    rb"|\w[ \t]+(?P<guard>(?=[A-Z_]*(?:GUARD|LOCK|REQUIRE|ATTR))[A-Z_]++"
    rb"(?:\([^()\n]*\))?)(?=\s*[;=])"
    rb"|^[ \t]*(?P<start>(?:%b[ \t]+)+)(?=(?:inline|static|constexpr|const|auto|void|int|bool|char"
    rb"|unsigned|class|struct|template|explicit|virtual|friend|extern|long|double|size_t)\b)"
    % (_CALLED, _CALLED, _CALLED)
)
_DIRECTIVES = re.compile(
    rb"(?ms)(?P<other>^[ \t]*#[ \t]*(?:else|elif)\b(?:(?!^[ \t]*#[ \t]*(?:if|endif)\b).)*)"
    rb"|(?P<line>^[ \t]*#[ \t]*\w+[^\n]*)|\b(?P<modifier>ref)(?=\s+partial\s+struct\b)"
)
_MASKS = {"c": _MACROS, "cpp": _MACROS, "csharp": _DIRECTIVES}
"""What a grammar cannot read: macros that stand for syntax, and directives that cut it."""
NOT_BREAKS = re.compile(rb"[^\r\n]")
_ASCII = bytes(each if each < 128 else ord("_") for each in range(256))
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
"""Half of a pair, as texts of Windows and JSON hold it. No other bytes of a text are no UTF-8."""


def _mask(data: bytes, pattern: re.Pattern[bytes]) -> bytes:
    """The source with what the pattern names turned into blanks; offsets and lines stay."""

    def blank(match: re.Match[bytes]) -> bytes:
        start, end = (each - match.start() for each in match.span(match.lastgroup or 0))
        whole = match[0]
        return whole[:start] + NOT_BREAKS.sub(b" ", whole[start:end]) + whole[end:]

    return pattern.sub(blank, data)


def _count_errors(root: Node) -> int:
    """How many parts of a tree could not be read."""
    count, stack = 0, [root]
    while stack:
        node = stack.pop()
        if node.has_error:
            count += node.type == "ERROR" or node.is_missing
            stack += node.children
    return count


def parse_tree(grammar: str, data: bytes) -> Tree | None:
    """The syntax tree of a source; where macros or directives break it, of the source without."""
    tree = _parse(grammar, data)
    pattern = _MASKS.get(grammar)
    if tree is None or pattern is None or not tree.root_node.has_error:
        return tree
    masked = _mask(data, pattern)
    other = _parse(grammar, masked) if masked != data else None
    better = other and _count_errors(other.root_node) < _count_errors(tree.root_node)
    return other if better else tree


def _parse(grammar: str, data: bytes) -> Tree | None:
    """The syntax tree of a source, with or without errors; None for a source that is huge, minified
    or one token repeated, or would take too long. Raises `MemoryError` where it may not suffice.
    """
    if not is_written(data) or _repeats(data):
        return None
    require_memory(_BASE_MEMORY + _MEMORY_PER_BYTE * len(data))
    data = _SURROGATE.sub(b"???", data)  # what is no UTF-8 is read again, and crashes at the limit
    if grammar == "bash":  # its scanner looks up every character in a table of 256, and crashes
        data = data.translate(_ASCII)
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
