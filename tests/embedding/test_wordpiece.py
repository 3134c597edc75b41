from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from tests.drawing import ANY, draw_text
from tokenizers import Tokenizer
from tokenizers.models import WordPiece as ReferenceWordPiece

from sonde.embedding.static import BUNDLED, WordPiece, read_vocabulary
from sonde.text.words import find_words, split_identifier


@cache
def ours() -> WordPiece:
    return WordPiece(read_vocabulary(BUNDLED, "static-vocab.txt"))


@cache
def reference() -> Tokenizer:
    """Without a pre-tokenizer a text is one word to it."""
    vocabulary = {piece: i for i, piece in enumerate(read_vocabulary(BUNDLED, "static-vocab.txt"))}
    return Tokenizer(
        ReferenceWordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)
    )


def reference_ids(word: str) -> tuple[int, ...]:
    return tuple(reference().encode(word, add_special_tokens=False).ids)


@settings(max_examples=400)
@given(draw_text(ANY, 110, 1))
def test_any_word_gives_the_ids_of_the_reference(word: str) -> None:
    assert ours().split_word(word) == reference_ids(word)


def test_words_of_real_code_give_the_ids_of_the_reference() -> None:
    for path in sorted(Path(__file__).parents[2].glob("src/sonde/**/*.py")):
        for word in set(find_words(path.read_text("utf-8"))):
            for part in split_identifier(word):
                assert ours().split_word(part) == reference_ids(part), part


@pytest.mark.parametrize(
    ("word", "pieces"), [("response", ["response"]), ("x" * 101, ["[UNK]"]), ("", [])]
)
def test_examples(word: str, pieces: list[str]) -> None:
    vocabulary = read_vocabulary(BUNDLED, "static-vocab.txt")
    assert [vocabulary[i] for i in ours().split_word(word)] == pieces
