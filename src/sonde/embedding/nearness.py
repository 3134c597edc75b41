"""Nearness of texts on a scale common to all models, and languages that a model cannot read."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence

from sonde.embedding.base import DEEP_NAME, Embedder, Vectors
from sonde.text.words import find_words

UNRELATED = (
    "The kettle boils in four minutes.", "Parse the header before reading the body.",
    "Her train to the coast was late again.", "Interest is paid at the end of each quarter.",
    "Cut the branch just above the bud.", "A violin has four strings.",
    "The patient was given a lower dose.", "Glaciers carry stones for miles.",
    "Retry the upload when the connection drops.", "The committee meets on Thursdays.",
    "He scored twice in the second half.", "Add salt only when the beans are soft.",
    "The lease may be ended by either side.", "Sort the list by date, newest first.",
    "My sister collects old postcards.", "The bridge was opened in 1932.",
    "Bees find the way back by the sun.", "Tighten the screw by a quarter turn.",
    "The novel has three narrators.", "Prices rose faster than wages.",
    "Wear gloves when you clean the filter.", "A cache keeps what was computed before.",
    "The museum is closed on Mondays.", "Two dogs slept under the table.",
)  # fmt: skip
"""Unrelated sentences, whose similarities calibrate a model."""
_SPREADS: dict[str, tuple[float, float]] = {
    "sonde-static-1": (0.030, 0.073),
    "sonde-everyday-1": (0.045, 0.073),
    DEEP_NAME: (0.493, 0.049),
}
"""Mean and standard deviation of the similarities of `UNRELATED` by model; others are added. The
deep model's are those that the weights of evidence were fitted with: it has (0.497, 0.060) now."""
_BUNDLED = frozenset(_SPREADS)
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
_LEAST_LETTERS = 4  # of a piece that has a meaning of its own, on average
_FEWEST = 2  # common words of a language; a single `die` or `an` may be of another


def measure_spread(model: Embedder) -> None:
    """Calibrate a model, once; the bundled ones are calibrated."""
    if model.name not in _SPREADS:
        asked = model.embed(UNRELATED[::2], "query")
        similar = asked @ model.embed(UNRELATED[1::2], "passage").T
        _SPREADS[model.name] = float(similar.mean()), float(similar.std()) or 1.0


def find_nearness(name: str, similarity: float) -> float:
    """A similarity in standard deviations above that of unrelated texts.

    The model of this name must be calibrated.
    """
    mean, spread = _SPREADS[name]
    return (similarity - mean) / spread


def open_measure(
    model: Embedder | None, question: str
) -> Callable[[Sequence[str]], list[float]] | None:
    """A function that tells how near texts are to a question; None if no model can read it."""
    if model is None or not can_read(model, question):
        return None
    vector = model.embed([question], "query")[0]
    return lambda texts: list_nearness(model.name, model.embed(texts, "passage") @ vector)


def list_nearness(name: str, similarities: Vectors) -> list[float]:
    """Each similarity as `find_nearness` gives it."""
    return [find_nearness(name, float(each)) for each in similarities]


def knows_any(words: Iterable[str]) -> bool:
    """Whether the bundled tables have a row for one of these lower-case words, or for pieces of
    some length: short ones occur in any word and say nothing of it."""
    from sonde.embedding.static import share_pieces  # slow to load

    rows = share_pieces().find_rows
    return any(len(rows(word)) <= max(1, len(word) // _LEAST_LETTERS) for word in words)


def can_read(model: Embedder, question: str) -> bool:
    """Whether a model knows the script of a question; the bundled ones know Latin letters."""
    return model.name not in _BUNDLED or guess_language(question) not in _SCRIPTS.values()


def describe_language(model: Embedder | None, question: str) -> str:
    """A note if the question is in a language that the bundled model does not understand."""
    language = guess_language(question) if model and model.name == DEEP_NAME else ""
    if language in ("", "English"):
        return ""
    return (
        f"the question seems to be in {language}, which the bundled models do not understand: "
        "only texts with its words are found. `sonde model` sets one that does"
    )


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
