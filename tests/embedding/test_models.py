from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sonde.embedding.onnx import OnnxEmbedder
from sonde.embedding.static import BUNDLED, map_array, read_vocabulary

MEGABYTE = 1_000_000
REFERENCE_TEXTS = [
    "def read_file(path):\n    with open(path) as file:\n        return file.read()",
    "how to find all occurrences of an element in a list",
    "public final class HttpClientBuilder { private int timeoutMillis = 30_000; }",
    "The cache is invalidated when any of its files changes on disk. Übung 漢字",
    "fn main() -> Result<(), Box<dyn Error>> { let n: u64 = args().len(); Ok(()) }" * 12,
]


@pytest.mark.parametrize(
    ("prefix", "most"),
    [("static-", 10 * MEGABYTE), ("everyday-", 10 * MEGABYTE), ("deep", 32 * MEGABYTE)],
)
def test_a_bundled_model_stays_within_its_size(prefix: str, most: int) -> None:
    sizes = [len(f.read_bytes()) for f in BUNDLED.iterdir() if f.name.startswith(prefix)]
    assert 0 < sum(sizes) <= most


@pytest.mark.parametrize("table", ["static", "everyday"])
def test_a_table_has_a_row_and_a_scale_for_every_piece_and_stays_in_its_file(table: str) -> None:
    pieces = read_vocabulary(BUNDLED, "static-vocab.txt")
    assert len(set(pieces)) == len(pieces)
    rows = map_array(BUNDLED, f"{table}-rows.npy")
    assert rows.shape == (len(pieces), 256)
    assert isinstance(rows, np.memmap)
    assert map_array(BUNDLED, f"{table}-scales.npy").shape == (len(pieces),)


def test_quantised_vectors_stay_near_those_of_the_full_precision_model() -> None:
    """The reference comes from the same weights exported with `export_onnx.py --fp32`."""
    reference = np.load(Path(__file__).with_name("deep_reference.npy")).astype(np.float32)
    vectors = OnnxEmbedder(threads=1).embed(REFERENCE_TEXTS, "passage")
    assert (vectors * reference).sum(1).min() > 0.985


CODE = [REFERENCE_TEXTS[0], REFERENCE_TEXTS[2], REFERENCE_TEXTS[4], "SELECT name FROM users;"]


def test_passages_of_code_lie_near_where_the_whole_model_puts_them() -> None:
    deep = OnnxEmbedder(threads=1)
    code, passages = deep.embed(CODE, "code"), deep.embed(CODE, "passage")
    assert (code * passages).sum(1).min() > 0.9
    assert (code != passages).any(1).all()
    np.testing.assert_array_equal(deep.embed(CODE, "code"), code)
    assert int((code @ deep.embed(["load the contents of a file"], "query")[0]).argmax()) == 0
