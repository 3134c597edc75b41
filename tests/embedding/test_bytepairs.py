from __future__ import annotations

import re
import unicodedata
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawing import ANY, draw_text
from tokenizers import Tokenizer
from tokenizers.models import BPE

from sonde.embedding.onnx import BytePairs, list_bytes
from sonde.embedding.static import BUNDLED, read_vocabulary

UNLIMITED = 1_000_000
SPACE = "\u0120"


@cache
def ours() -> BytePairs:
    return BytePairs(read_vocabulary(BUNDLED, "deep-vocab.txt"))


@cache
def reference() -> Tokenizer:
    """The public implementation with the merges that the list of pieces stands for."""
    vocabulary = {piece: i for i, piece in enumerate(read_vocabulary(BUNDLED, "deep-vocab.txt"))}
    merges = []
    for piece in vocabulary:
        parts = list(piece) if piece not in ("<s>", "</s>") else []
        while len(parts) > 2:
            ranks = [vocabulary.get(a + b, UNLIMITED) for a, b in pairwise(parts)]
            at = ranks.index(min(ranks))
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2:
            merges.append((parts[0], parts[1]))
    return Tokenizer(BPE(vocabulary, merges))


def reference_ids(text: str) -> list[int]:
    """Words split, lower-cased and without accents by other means than ours."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    plain = "".join(
        c for c in unicodedata.normalize("NFD", parts) if unicodedata.category(c) != "Mn"
    )
    plain = unicodedata.normalize("NFC", plain.lower())
    chars = list_bytes()
    words = re.findall(r"[^\W\d_]+|\d+|[^\w\s]+", plain)
    shown = (SPACE + "".join(chars[byte] for byte in word[:100].encode()) for word in words)
    return [i for word in shown for i in reference().encode(word, add_special_tokens=False).ids]


TEXT = draw_text(st.characters(exclude_categories=("Cs", "Cc")), 80)


@settings(max_examples=400)
@given(TEXT)
def test_any_text_gives_the_ids_of_the_reference(text: str) -> None:
    assert ours().encode(text, UNLIMITED) == reference_ids(text)


def test_real_code_gives_the_ids_of_the_reference() -> None:
    for path in sorted(Path(__file__).parents[2].glob("src/sonde/**/*.py")):
        text = path.read_text("utf-8")
        assert ours().encode(text, UNLIMITED) == reference_ids(text), path


@settings(max_examples=100)
@given(draw_text(ANY, 60), st.integers(0, 40))
def test_a_limit_keeps_the_beginning(text: str, limit: int) -> None:
    assert ours().encode(text, limit) == ours().encode(text, UNLIMITED)[:limit]


def test_where_a_word_stands_makes_no_difference() -> None:
    assert ours().encode("readFile", 9) == ours().encode("read file", 9)
    assert ours().encode("read_file", 9) == ours().encode("READ\n\tFile", 9)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("getHTTPResponse", ["Ġget", "Ġhttp", "Ġresponse"]),
        ("read(file):", ["Ġread", "Ġ(", "Ġfile", "Ġ):"]),
        ("Übung", ["Ġub", "ung"]),
        ("", []),
    ],
)
def test_examples(text: str, pieces: list[str]) -> None:
    vocabulary = read_vocabulary(BUNDLED, "deep-vocab.txt")
    assert [vocabulary[i] for i in ours().encode(text, UNLIMITED)] == pieces


def test_text_that_is_no_unicode_is_encoded_all_the_same() -> None:
    assert ours().encode("a \ud800 b", UNLIMITED)
