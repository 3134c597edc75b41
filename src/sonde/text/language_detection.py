"""Detection of a question's language by script and common words; pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

from sonde.text.words import find_words

_SCRIPTS: Mapping[str, str] = {
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "HANGUL": "Korean",
    "CJK": "Chinese",
    "CYRILLIC": "Russian",
    "ARABIC": "Arabic",
    "HEBREW": "Hebrew",
    "GREEK": "Greek",
    "THAI": "Thai",
    "DEVANAGARI": "Hindi",
}
"""First word of a character's Unicode name -> usual language of the script. Kana come before CJK,
since Japanese has both."""
OTHER_SCRIPTS = frozenset(_SCRIPTS.values())
"""Languages in other scripts than Latin."""
_COMMON: Mapping[str, frozenset[str]] = {
    "English": frozenset(
        "the of and to in is that for it with as was on are by this be at from or an what how when "
        "where who which do does did my we our not i you have has can about".split()
    ),
    "German": frozenset(
        "der die das und ist ich nicht ein eine einen einem zu den dem mit von wie wo wann wer was "
        "warum für auf im wir unser mein meine haben hat sind bei nach über wird welche".split()
    ),
    "French": frozenset(
        "le la les des et est je ne pas un une du dans que qui pour avec sur où quand comment "
        "pourquoi mon ma mes nous notre quel quelle sont au aux ce cette il elle".split()
    ),
    "Spanish": frozenset(
        "el la los las de y es no un una en que por para con dónde donde cuándo cuando cómo como "
        "quién qué mi mis nuestro nuestra se del al está son cuál su".split()
    ),
}
_FEWEST = 2  # common words of a language; a single `die` or `an` may be of another


def guess_language(text: str) -> str:
    """The English name of a text's language, such as `German`; empty if it is uncertain."""
    letters = [character for character in text if character.isalpha()]
    scripts = {unicodedata.name(each, "").partition(" ")[0].partition("-")[0] for each in letters}
    if letters and not all(each.isascii() for each in letters):
        for script, language in _SCRIPTS.items():
            if script in scripts:
                return language
    words = {word.casefold() for word in find_words(text)}
    counts = {language: len(words & common) for language, common in _COMMON.items()}
    best = max(counts, key=lambda language: counts[language])
    others = max(count for language, count in counts.items() if language != best)
    return best if counts[best] >= _FEWEST and counts[best] > others else ""
