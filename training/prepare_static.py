"""Pairs -> everything `train_static.py` needs, in one folder of plain arrays.

    python training/prepare_static.py training/data/static PAIRS.jsonl.gz...

Chooses the vocabulary (the encoder's word pieces that occur in the pairs, plus the words of code
that those pieces would cut up), gives every piece its first vector (the deep model's, in its
256 leading directions, rarer pieces longer: a model in its own right), and turns the pairs into
rows of the table.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sonde.embedding.onnx import OnnxEmbedder
from sonde.embedding.static import DIMENSIONS, Pieces
from sonde.text.words import find_words, split_identifier

ROWS = 36_000
RAREST_WORD = 12
_RESERVED = re.compile(r"\[.+\]$")
_WORD = re.compile(r"[a-z]{3,24}$")


def read_pairs(files: list[Path]) -> list[dict[str, str]]:
    pairs = []
    for path in files:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            pairs += [json.loads(line) for line in file]
    random.Random(0).shuffle(pairs)
    return pairs


def count_documents(texts: Iterator[str]) -> Counter[str]:
    """Word part -> how many texts hold it."""
    parts_of: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for text in texts:
        distinct = set()
        for word in set(find_words(text)):
            if word not in parts_of:
                parts_of[word] = split_identifier(word)
            distinct.update(parts_of[word])
        counts.update(distinct)
    return counts


def _stays(piece: str) -> bool:
    """Single characters, so that nothing is unknown, and English words that documents may use."""
    return len(piece.removeprefix("##")) == 1 or _WORD.match(piece) is not None


def choose_vocabulary(base: tuple[str, ...], words: Counter[str]) -> list[str]:
    pieces = Pieces(base)
    used: Counter[int] = Counter()
    whole: list[tuple[int, str]] = []
    for word, count in words.items():
        ids = pieces[word]
        used.update(dict.fromkeys(ids, count))
        if len(ids) > 1 and count >= RAREST_WORD and _WORD.match(word):
            whole.append((count, word))
    kept = [
        piece
        for i, piece in enumerate(base)
        if piece == "[UNK]" or (not _RESERVED.match(piece) and (used[i] >= 2 or _stays(piece)))
    ]
    room = ROWS - len(kept)
    print(f"{len(kept)} pieces kept, {min(room, len(whole))} of {len(whole)} words added")
    return kept + [word for _, word in sorted(whole, reverse=True)[:room]]


def place_vocabulary(vocabulary: list[str], frequency: NDArray) -> NDArray[np.float32]:
    """The deep model's vector of each piece, in fewer dimensions, rare pieces weighing more."""
    vectors = OnnxEmbedder().embed([piece.removeprefix("##") for piece in vocabulary], "passage")
    vectors -= vectors.mean(0)
    _, _, directions = np.linalg.svd(vectors, full_matrices=False)
    vectors = vectors @ directions[:DIMENSIONS].T
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)
    share = frequency / frequency.sum()
    vectors *= (1e-3 / (1e-3 + share))[:, None]
    vectors[vocabulary.index("[UNK]")] = 0
    return vectors


def flatten(rows: list[list[int]]) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    lengths = [len(row) for row in rows]
    flat = np.fromiter((i for row in rows for i in sorted(row)), np.uint16, sum(lengths))
    return flat, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pieces", type=Path, help="vocab.txt of bert-base-uncased")
    parser.add_argument("pairs", type=Path, nargs="+")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    pairs = read_pairs(options.pairs)
    words = count_documents(text for pair in pairs for text in (pair["q"], pair["c"]))
    vocabulary = choose_vocabulary(options.pieces.read_text("utf-8").splitlines(), words)
    (options.folder / "static-vocab.txt").write_text("".join(f"{p}\n" for p in vocabulary), "utf-8")
    pieces = Pieces(vocabulary)
    queries = [pieces.find_rows(pair["q"]) for pair in pairs]
    # In an index a passage has its path in front; not always, so that neither is relied upon.
    coin = random.Random(1)
    passages = [
        pieces.find_rows(f"{pair['p']}\n{pair['c']}" if coin.random() < 0.6 else pair["c"])
        for pair in pairs
    ]
    kinds = sorted({pair["k"] for pair in pairs})
    frequency = np.ones(len(vocabulary))
    np.add.at(frequency, np.fromiter((i for row in passages for i in row), np.int64), 1)
    query_rows, query_starts = flatten(queries)
    passage_rows, passage_starts = flatten(passages)
    np.savez_compressed(
        options.folder / "pairs.npz",
        query_rows=query_rows,
        query_starts=query_starts,
        passage_rows=passage_rows,
        passage_starts=passage_starts,
        kinds=np.array([kinds.index(pair["k"]) for pair in pairs], np.uint8),
    )
    table = place_vocabulary(vocabulary, frequency)
    scales = np.maximum(np.abs(table).max(1), 1e-9) / 127
    np.save(options.folder / "static-rows.npy", np.round(table / scales[:, None]).astype(np.int8))
    np.save(options.folder / "static-scales.npy", scales.astype(np.float32))
    print(f"{len(pairs)} pairs, {len(passage_rows) / len(pairs):.0f} rows a passage, kinds {kinds}")


if __name__ == "__main__":
    main()
