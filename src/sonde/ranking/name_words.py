"""The names that a file defines, compared with a question."""

from __future__ import annotations

from collections.abc import Sequence

from sonde.ranking.features import list_name_words
from sonde.ranking.question import Matches, overlap_of


def rate_names(
    names: Sequence[tuple[str, str]], matches: Matches
) -> tuple[dict[int, float], dict[str, float]]:
    """F1 of each name that shares a word with the question, by its place, and the features of all;
    the names are given with their kinds."""
    rates: dict[int, float] = {}
    said, best = set[str](), 0.0
    for at in _find_hopeful([name for name, _ in names], matches):
        name, kind = names[at]
        words = list_name_words(name)[1]
        if any(map(matches.__getitem__, words)):
            rates[at] = overlap_of(matches, words)[2]
            # members that hold values, and keys, say little about what a file is for
            if kind in ("type", "function") or (kind == "value" and "." not in name):
                best = max(best, rates[at])
                said.update(words)
    return rates, {"definitions_recall": overlap_of(matches, said)[1], "definition_f1": best}


def _find_hopeful(names: Sequence[str], matches: Matches) -> list[int]:
    """Which names can hold a word of the question: all are looked through as one text, as taking
    each apart takes ten times as long."""
    text = "\n".join(names).lower()
    if text.count("\n") >= len(names):  # one has several lines
        return list(range(len(names)))
    found = set() if text.isascii() else {at for at, name in enumerate(names) if not name.isascii()}
    for start in matches.starts:
        at, line, end = text.find(start), 0, 0
        while at >= 0:
            line += text.count("\n", end, at)
            found.add(line)
            end = text.find("\n", at)
            at = text.find(start, end) if end >= 0 else -1
    return sorted(found)
