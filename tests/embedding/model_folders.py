"""Model folders as sentence-transformers writes them, with a real ONNX graph: tokens -> rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "walrus", "otter", "fish", "sea", "query", ":"]
_FLOAT, _INT64 = 1, 7


def _varint(number: int) -> bytes:
    out = b""
    while True:
        number, low = number >> 7, number & 0x7F
        out += bytes([low | 0x80 if number else low])
        if not number:
            return out


def _field(number: int, value: int | bytes | str) -> bytes:
    """One field of a protocol buffer."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _value(name: str, kind: int, dims: Sequence[int | str]) -> bytes:
    shape = b"".join(_field(1, _field(1 if isinstance(d, int) else 2, d)) for d in dims)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


def write_graph(path: Path, table: NDArray[np.float32]) -> None:
    """An ONNX file whose `last_hidden_state` is the table's row of each token."""
    node = _field(1, "table") + _field(1, "input_ids") + _field(2, "last_hidden_state")
    node += _field(4, "Gather")
    rows, size = table.shape
    tensor = _field(1, rows) + _field(1, size) + _field(2, _FLOAT) + _field(8, "table")
    tensor += _field(9, table.astype("<f4").tobytes())
    graph = _field(1, node) + _field(2, "toy") + _field(5, tensor)
    for name in ("input_ids", "attention_mask"):
        graph += _field(11, _value(name, _INT64, ("batch", "length")))
    graph += _field(12, _value("last_hidden_state", _FLOAT, ("batch", "length", size)))
    model = _field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, 13))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model)


def write_tokenizer(folder: Path, words: Sequence[str], *, framed: bool = True) -> None:
    """A WordPiece tokenizer, with the usual tokens at both ends if framed."""
    ids = {word: at for at, word in enumerate(words)}
    made = Tokenizer(WordPiece(ids, unk_token="[UNK]"))
    made.normalizer = BertNormalizer(lowercase=True)
    made.pre_tokenizer = BertPreTokenizer()
    if framed:
        ends = [(name, ids[name]) for name in ("[CLS]", "[SEP]")]
        made.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))


def write_model(folder: Path, *, cls: bool = False, **files: Any) -> NDArray[np.float32]:
    """A whole small model; further JSON files by name without their ending."""
    table = np.random.default_rng(7).normal(size=(len(WORDS), 8)).astype(np.float32)
    write_graph(folder / "onnx" / "model.onnx", table)
    write_tokenizer(folder, WORDS)
    pooling = {"pooling_mode_cls_token": cls, "pooling_mode_mean_tokens": not cls}
    given = {"config": {"hidden_size": 8}, "1_Pooling/config": pooling} | files
    for name, value in given.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(value))
    return table
