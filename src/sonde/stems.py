"""English word forms -> one stem, by Porter's algorithm (1980), so that `runs` meets `running`."""

from __future__ import annotations

import re

_VOWEL = "(?:[aeiou]|(?<=[^aeiou])y)"
_CONSONANT = "(?:[^aeiouy]|(?<=[aeiou])y|^y)"
_MEASURE_1 = re.compile(f"^{_CONSONANT}*{_VOWEL}+{_CONSONANT}")
_MEASURE_2 = re.compile(f"^{_CONSONANT}*(?:{_VOWEL}+{_CONSONANT}+){{2}}")
_ONCE = re.compile(f"^{_CONSONANT}*{_VOWEL}+{_CONSONANT}+(?:{_VOWEL}+)?$")
_HAS_VOWEL = re.compile(_VOWEL)
_DOUBLE = re.compile(r"([^aeiouylsz])\1$")
_SHORT = re.compile(f"^.*{_CONSONANT}[aeiouy][^aeiouwxy]$")

_STEP_2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"),
    ("abli", "able"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"),
    ("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"),
    ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"),
)  # fmt: skip
_STEP_3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""),
    ("ness", ""),
)  # fmt: skip
_STEP_4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous",
    "ive", "ize", "ion", "al", "er", "ic", "ou",
)  # fmt: skip


def stem_word(word: str) -> str:
    """The stem of a lower case English word; words of one or two letters stay."""
    if len(word) < 3:
        return word
    word = _cut_plural(word)
    word = _cut_past(word)
    if word.endswith("y") and _HAS_VOWEL.search(word[:-1]):
        word = word[:-1] + "i"
    word = _put_ending(word, _STEP_2)
    word = _put_ending(word, _STEP_3)
    word = _cut_suffix(word)
    return _cut_last(word)


def _cut_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _cut_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _MEASURE_1.match(word[:-3]) else word
    for ending in ("ed", "ing"):
        root = word[: -len(ending)]
        if not word.endswith(ending):
            continue
        if not _HAS_VOWEL.search(root):
            return word
        if root.endswith(("at", "bl", "iz")):
            return root + "e"
        if _DOUBLE.search(root):
            return root[:-1]
        return root + "e" if _ONCE.match(root) and _SHORT.match(root) else root
    return word


def _put_ending(word: str, endings: tuple[tuple[str, str], ...]) -> str:
    for ending, put in endings:
        if word.endswith(ending):
            root = word[: -len(ending)]
            return root + put if _MEASURE_1.match(root) else word
    return word


def _cut_suffix(word: str) -> str:
    for ending in _STEP_4:
        if word.endswith(ending):
            root = word[: -len(ending)]
            fits = _MEASURE_2.match(root) and (ending != "ion" or root.endswith(("s", "t")))
            return root if fits else word
    return word


def _cut_last(word: str) -> str:
    if word.endswith("e"):
        root = word[:-1]
        if _MEASURE_2.match(root) or (
            _MEASURE_1.match(root) and not (_ONCE.match(root) and _SHORT.match(root))
        ):
            word = root
    if word.endswith("ll") and _MEASURE_2.match(word[:-1]):
        word = word[:-1]
    return word
