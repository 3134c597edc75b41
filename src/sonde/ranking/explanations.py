"""Why a result ranks where it does, in words that a person understands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sonde.ranking.features import FEATURES
from sonde.ranking.passages import PASSAGE_FEATURES

_REASONS = (
    ("lexical", "has the words of the question", "has few words of the question"),
    ("dense deep", "is close in meaning", "is not so close in meaning"),
    (
        "name definition definitions defines holds is_named is_spelled is_qualified scope",
        "defines a name that fits",
        "its names do not fit so well",
    ),
    ("stem path folder", "the name of the file fits", "the name of the file does not fit"),
    ("test in_test", "the question is about tests", "is a test"),
    ("example", "the question is about examples", "is an example"),
    ("legacy old", "the question is about such code", "is vendored, generated or old code"),
    ("importers", "many files use it", "few files use it"),
    ("depth nesting", "lies high up", "lies deep down"),
    ("length lines", "has a fitting size", "is long, and long files match by chance"),
    ("type", "is a type", "is a type"),
    ("value data rest", "is a value or data", "is data, or between definitions"),
)
"""Words that occur in the names of features; what they mean if they speak for a result; against."""


def explain_score(why: Mapping[str, float]) -> list[tuple[str, float]]:
    """The reasons of a score, strongest first; features that say the same are added up."""
    totals: defaultdict[int | str, float] = defaultdict(float)
    for name, part in why.items():
        words = {name, *name.split("_")}
        fits = (at for at, row in enumerate(_REASONS) if words & set(row[0].split()))
        totals[next(fits, name)] += part
    reasons = []
    for key, total in totals.items():
        if isinstance(key, int):
            text = _REASONS[key][1 if total > 0 else 2]
        else:
            text = FEATURES.get(key) or PASSAGE_FEATURES.get(key) or key.replace("_", " ")
        reasons.append((text, round(total, 2)))
    return sorted(reasons, key=lambda pair: -abs(pair[1]))
