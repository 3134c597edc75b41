import re

import pytest
from hypothesis import given
from tests.drawing import ANY, draw_text

from sonde.ranking.question import overlap_of, read_question, words_match
from sonde.text.words import find_words, fold_name, index_terms, split_identifier


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("getHTTPResponse_2", ["get", "http", "response", "2"]),
        ("snake_case_name", ["snake", "case", "name"]),
        ("XMLParser", ["xml", "parser"]),
        ("Übung", ["ubung"]),
        ("naïveCafé", ["naive", "cafe"]),
    ],
)
def test_identifiers_fall_into_their_parts(word: str, parts: list[str]) -> None:
    assert split_identifier(word) == parts


def test_unspaced_scripts_become_bigrams() -> None:
    assert index_terms("東京都") == ["東京", "京都"]
    assert index_terms("検索") == ["検索"]
    assert "u1f680" in index_terms("launch 🚀")


@given(draw_text(ANY, 300))
def test_any_text_gives_terms_that_pass_a_plain_tokenizer(text: str) -> None:
    for term in index_terms(text):
        assert term
        assert not any(c.isspace() or c == '"' for c in term)


@given(draw_text(ANY, 500))
def test_any_string_is_a_legal_question(text: str) -> None:
    question = read_question(text)
    assert len(question.words) <= 64


@pytest.mark.parametrize(
    ("text", "is_symbol", "names"),
    [
        ("QuerySet", True, {"queryset"}),
        ("Session.send", True, {"send", "sessionsend"}),
        ("typedef struct cart_row", True, {"cartrow"}),
        ("trait Payable", True, {"payable"}),
        ("class method", False, set()),
        ("at Cart.pay (/app/node_modules/shop/cart.js:3:7)", True, {"pay", "cartpay"}),
        ('File "/lib/shop/cart.py", line 3, in pay_all', True, {"payall"}),
        ("at Object.<anonymous> (/app/cart.js:3:7)", False, {"cartjs", "js"}),
        ("how does HttpClient retry", False, {"httpclient"}),
        ("parse_config in the loader", False, {"parseconfig"}),
        ("how are requests retried", False, set()),
    ],
)
def test_questions_show_the_identifiers_they_spell_out(
    text: str, is_symbol: bool, names: set[str]
) -> None:
    question = read_question(text)
    assert question.is_symbol == is_symbol
    assert question.names == names


def test_neighbouring_words_are_also_read_together() -> None:
    assert "cookiejar" in read_question("the cookie jar").joined
    assert fold_name("CookieJar") == "cookiejar"


def test_endings_do_not_keep_words_apart() -> None:
    question = read_question("parsing requests")
    precision, recall, f1 = overlap_of(question.matches, ["pars", "request"])
    assert (precision, recall, f1) == (1.0, 1.0, 1.0)
    assert not words_match("get", "getter")


@given(draw_text(ANY, 300) | draw_text("".join(map(chr, range(128))), 300))
def test_words_are_runs_of_letters_digits_and_underscores(text: str) -> None:
    assert find_words(text) == re.findall(r"\w+", text)
