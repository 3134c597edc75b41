from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece as ReferenceWordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from sonde.embedding.models import BUNDLED, read_vocabulary
from sonde.embedding.wordpiece import _CASE_CHANGE, WordPiece

UNLIMITED = 1_000_000


@cache
def ours() -> WordPiece:
    return WordPiece(read_vocabulary(BUNDLED, "deep-vocab.txt"))


@cache
def reference() -> Tokenizer:
    vocabulary = {piece: i for i, piece in enumerate(read_vocabulary(BUNDLED, "deep-vocab.txt"))}
    tokenizer = Tokenizer(
        ReferenceWordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100)
    )
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def reference_ids(text: str) -> list[int]:
    return reference().encode(_CASE_CHANGE.sub(" ", text), add_special_tokens=False).ids


def is_old(char: str) -> bool:
    """Known to the reference's older Unicode tables, too."""
    return unicodedata.ucd_3_2_0.category(char) == unicodedata.category(char) != "Cn"


SETTLED = st.characters(exclude_categories=("Cs", "Cn")).filter(is_old)


@settings(max_examples=400, deadline=None)
@given(st.text(SETTLED, max_size=80))
def test_any_text_gives_the_ids_of_the_reference(text: str) -> None:
    assert ours().encode(text, UNLIMITED) == reference_ids(text)


def test_every_single_character_gives_the_ids_of_the_reference() -> None:
    points = (*range(0xD800), *range(0xE000, 0x30000))
    for text in (f"a{char}b" for char in map(chr, points) if is_old(char)):
        assert ours().encode(text, UNLIMITED) == reference_ids(text), ascii(text)


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(max_codepoint=127), max_size=200))
def test_any_ascii_text_gives_the_ids_of_the_reference(text: str) -> None:
    assert ours().encode(text, UNLIMITED) == reference_ids(text)


def test_real_code_gives_the_ids_of_the_reference() -> None:
    for path in sorted(Path(__file__).parents[2].glob("src/sonde/**/*.py")):
        text = path.read_text("utf-8")
        assert ours().encode(text, UNLIMITED) == reference_ids(text), path


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60), st.integers(0, 40))
def test_a_limit_keeps_the_beginning(text: str, limit: int) -> None:
    assert ours().encode(text, limit) == ours().encode(text, UNLIMITED)[:limit]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("getHTTPResponse", ["get", "http", "response"]),
        ("Übung", ["u", "##bu", "##ng"]),
        ("[CLS]", ["[", "cl", "##s", "]"]),
        ("x" * 101, ["[UNK]"]),
        ("", []),
    ],
)
def test_examples(text: str, pieces: list[str]) -> None:
    vocabulary = read_vocabulary(BUNDLED, "deep-vocab.txt")
    assert [vocabulary[i] for i in ours().encode(text, UNLIMITED)] == pieces


def test_a_lone_surrogate_is_left_out() -> None:
    assert ours().encode("a \ud800 b", UNLIMITED) == ours().encode("a b", UNLIMITED)
