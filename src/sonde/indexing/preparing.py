"""Texts -> everything that a store keeps of them: cut, put into words, embedded.

Pure, so that it comes to the same in this process and in a worker (`workers.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sonde.chunking.parse import parse_text
from sonde.embedding.base import Embedder, Vectors
from sonde.languages import language_of
from sonde.policy.read import FileContent
from sonde.types import FileState, Kind, ParsedFile


@dataclass(frozen=True, slots=True)
class Order:
    """Files of one index to prepare, and which of them to embed."""

    kind: Kind
    method: Literal["syntax", "recursive"]
    contents: tuple[FileContent, ...]
    embedded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Prepared:
    """Files ready to be stored; vectors of the chunks with these digests, where asked for."""

    files: list[ParsedFile]
    cut_short: list[FileState]
    digests: Sequence[bytes] = ()
    vectors: Sequence[Vectors] | Vectors = ()


def prepare_files(order: Order, embedder: Embedder | None = None) -> Prepared:
    """Do what is ordered; without an embedder nothing is embedded."""
    from sonde.stores.lexicon import describe_file  # numpy, which nobody needs who lists tools

    files: list[ParsedFile] = []
    cut_short: list[FileState] = []
    for content in order.contents:
        state = state_of(content, order.kind)
        cut = parse_text(content.path, content.text, kind=order.kind, method=order.method)
        parsed = ParsedFile(state, cut.chunks, cut.symbols, cut.imports, cut.tags)
        files.append(replace(parsed, words=describe_file(parsed)))
        if cut.truncated:
            cut_short.append(state)
    if embedder is None:
        return Prepared(files, cut_short)
    texts = list_texts([file for file in files if file.state.path in order.embedded])
    return Prepared(files, cut_short, list(texts), embedder.embed(list(texts.values()), "passage"))


def list_texts(files: Sequence[ParsedFile]) -> dict[bytes, str]:
    """The different texts of these files by their digests."""
    return {chunk.digest: chunk.embedded_text for file in files for chunk in file.chunks}


def state_of(content: FileContent, kind: Kind) -> FileState:
    """What an index remembers of a file."""
    return FileState(
        path=content.path,
        hash=content.hash,
        size=content.size,
        mtime_ns=content.mtime_ns,
        language=language_of(content.path).name,
        kind=kind,
    )
