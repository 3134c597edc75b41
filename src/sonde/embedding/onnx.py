"""The deep model: an int8 encoder with six layers, three for code, run by onnxruntime."""

from __future__ import annotations

import os
import re
import threading
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import as_file
from importlib.resources.abc import Traversable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.embedding.base import DEEP_DIMENSIONS, DEEP_NAME, Mode, Vectors, plan_batches
from sonde.embedding.static import BUNDLED, read_vocabulary
from sonde.errors import EmbeddingFailed
from sonde.runtime.processes import trim_heap

OPENING, CLOSING = "<s>", "</s>"
_SPACE = "\u0120"
_CASE_CHANGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ASCII_TOKEN = re.compile(r"[A-Za-z]+|[0-9]+|[^\sA-Za-z0-9_]+")
_TOKEN = re.compile(r"[^\W\d_]+|\d+|[^\w\s]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MAX_WORD_CHARS = 100  # longer words are data; merging takes quadratic time
_CACHED_WORDS = 50_000  # some 10 MB at most


def list_bytes() -> list[str]:
    """The printable character that stands for each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    chars = {byte: chr(byte) for byte in printable}
    chars |= {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [chars[byte] for byte in range(256)]


_CHARS = list_bytes()


class BytePairs:
    """Byte pair encoding: merges the pair that is first in the vocabulary; words are cached."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self._ids: Mapping[str, int] = {piece: i for i, piece in enumerate(vocabulary)}
        self._cache: dict[str, tuple[int, ...]] = {}

    def id_of(self, piece: str) -> int:
        """The number of one piece of the vocabulary."""
        return self._ids[piece]

    def encode(self, text: str, limit: int) -> list[int]:
        """The ids of the first `limit` pieces of a text, without special tokens."""
        ids: list[int] = []
        for word in _find_tokens(text):
            known = self._cache.get(word)
            ids.extend(self._remember(word) if known is None else known)
            if len(ids) >= limit:
                return ids[:limit]
        return ids

    def split_word(self, word: str) -> tuple[int, ...]:
        """The pieces of one lower-case word and the space before it."""
        text = word[:_MAX_WORD_CHARS].encode("utf-8", "replace")
        pieces = [_SPACE, *(_CHARS[byte] for byte in text)]
        last = len(self._ids)
        while len(pieces) > 1:
            ranks = [self._ids.get(a + b, last) for a, b in pairwise(pieces)]
            best = min(ranks)
            if best == last:
                break
            at = ranks.index(best)
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        return tuple(self._ids[piece] for piece in pieces)

    def _remember(self, word: str) -> tuple[int, ...]:
        if len(self._cache) > _CACHED_WORDS:
            self._cache = {}
        parts = _CASE_CHANGE.sub(" ", word).lower().split(" ") if word.isascii() else [word]
        ids = tuple(piece for part in parts for piece in self.split_word(part))
        if len(word) <= _MAX_WORD_CHARS:
            self._cache[word] = ids
        return ids


def _find_tokens(text: str) -> Iterator[str]:
    """Words, numbers and runs of marks; ASCII words as written, which are split via the cache."""
    if text.isascii() and not _CONTROL.search(text):
        return (match.group() for match in _ASCII_TOKEN.finditer(text))
    apart = unicodedata.normalize("NFD", _CASE_CHANGE.sub(" ", _CONTROL.sub("", text)))
    bare = "".join(char for char in apart if unicodedata.category(char) != "Mn")
    return (match.group() for match in _TOKEN.finditer(unicodedata.normalize("NFC", bare.lower())))


_TOKENS = 256  # of a text; the rest is ignored
_IDLE_S = 60.0  # the model is unloaded after this long without a text
_NO_MEMORY = ("bad_alloc", "Failed to allocate memory")


class OnnxEmbedder:
    """Loads on first use and unloads when idle; queries do not wait for other threads' passages."""

    def __init__(
        self,
        threads: int | None = None,
        folder: Traversable = BUNDLED,
        name: str = DEEP_NAME,
        idle_s: float = _IDLE_S,
    ) -> None:
        self._folder, self._name = folder, name
        self._threads = threads or min(2, os.cpu_count() or 1)
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None
        self._used_at = 0.0
        self._closed = threading.Event()

    @property
    def is_loaded(self) -> bool:
        return self._loaded is not None

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimensions(self) -> int:
        return DEEP_DIMENSIONS

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
        session, pieces = self._load()
        opening, closing = pieces.id_of(OPENING), pieces.id_of(CLOSING)
        encoded = [pieces.encode(text, _TOKENS - 2) for text in texts]
        is_code = np.array(mode == "code")
        vectors = np.zeros((len(texts), DEEP_DIMENSIONS), np.float32)
        for rows in plan_batches([len(ids) for ids in encoded]):
            ids, mask = pad_rows([[opening, *encoded[row], closing] for row in rows])
            (vectors[rows],) = run_session(session, {"ids": ids, "mask": mask, "code": is_code})
        return vectors

    def close(self) -> None:
        with self._lock:
            self._loaded = None
            self._closed.set()
        trim_heap()

    def _watch(self, closed: threading.Event) -> None:
        """Unload the model when it is idle, to keep a waiting server small."""
        while not closed.wait(max(self._used_at + self._idle_s - time.monotonic(), 0.0)):
            if time.monotonic() >= self._used_at + self._idle_s:
                self.close()

    def _open(self) -> tuple[Any, Any]:
        """The session and the tokenizer."""
        vocabulary = read_vocabulary(self._folder, "deep-vocab.txt")
        with as_file(self._folder / "deep.onnx") as path:
            return open_session(path, self._threads), BytePairs(vocabulary)

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._open()
                self._closed = threading.Event()
                watch = threading.Thread(target=self._watch, args=(self._closed,), daemon=True)
                self._used_at = time.monotonic()
                watch.start()
            self._used_at = time.monotonic()
            return self._loaded


def pad_rows(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The tokens of all rows padded to the longest, and a mask of the real ones."""
    shape = (len(rows), max(map(len, rows)))
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = row
        mask[at, : len(row)] = 1
    return ids, mask


def open_session(path: Path, threads: int) -> Any:
    """A graph ready to run on the CPU, without logging and with little memory."""
    # read when the library is loaded; the switch below comes after it has made its device id
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime
    except ImportError as error:
        raise EmbeddingFailed(
            f"onnxruntime cannot be imported: {error}",
            next_action="Reinstall sonde, or choose the provider `static`.",
        ) from error
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Memory goes back after every batch, and waiting threads leave the processor to others.
    options.enable_cpu_mem_arena = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except _runtime_errors() as error:
        raise EmbeddingFailed(f"the model cannot be loaded: {error}") from error


def run_session(session: Any, inputs: Mapping[str, NDArray[Any]]) -> list[Vectors]:
    """Run the graph; raises `MemoryError` when the inputs are too many at once."""
    try:
        outputs: list[Vectors] = session.run(None, inputs)
    except _runtime_errors() as error:
        if any(sign in str(error) for sign in _NO_MEMORY):
            raise MemoryError(str(error)) from error
        raise EmbeddingFailed(f"the model failed: {error}") from error
    return outputs


def _runtime_errors() -> tuple[type[Exception], ...]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    graph = (state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf, state.NoSuchFile)
    return (OSError, state.Fail, state.RuntimeException, *graph)
