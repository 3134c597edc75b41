"""Evidence about a file -> numbers that one linear model can weigh; pure.

Each feature is named once in `FEATURES` with its reason; `ranking.weights` gives each a weight.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from sonde.ranking.candidate import OF_NAMES, Candidate, Evidence
from sonde.ranking.question import Places, Question, Report, overlap_of, shorten_word, split_path
from sonde.text.languages import language_of
from sonde.text.words import find_words, fold_name, split_identifier, unique
from sonde.types import FileState, Outline

FEATURES: Mapping[str, str] = {
    "lexical_top": "mean standard score of the file's three best chunks by BM25",
    "lexical_rel": "its best chunk against the query's best",
    "dense_rel": "the same by similarity of meaning",
    "dense_mean": "mean standard score by meaning over its retrieved chunks",
    "dense_many": "how many of the twenty nearest chunks are its own",
    "deep_rel": "as dense_rel, by the deeper model; the only one of the three while it is at work",
    "deep_unnamed": "the same, as far as no candidate's path says the question's words",
    "deep_mean": "as dense_mean, by the deeper model",
    "deep_many": "as dense_many, by the deeper model",
    "stem_f1": "query words against words of the file's name",
    "stem_f1_rel": "the same against the best name among the candidates",
    "stem_precision": "share of the file name's words that the query says",
    "stem_length": "long names are specific: they need more words matched",
    "stem_joined": "neighbouring query words written together are the file's name",
    "stem_said": "the file's name is a word of the query",
    "folder_precision": "share of its folder's words that the query says",
    "holds_name": "holds an identifier that the query spells out",
    "defines_symbol": "the query is one identifier and this file defines it",
    "stem_is_symbol": "the query is one identifier and this file is called so",
    "definition_f1": "query words against the best of the names it defines",
    "stem_is_named": "its name is written in the question, with its capitals",
    "is_test": "a test, and",
    "test_asked": "the question is about tests",
    "is_example": "an example, sample or benchmark, and",
    "example_asked": "the question is about examples",
    "is_legacy": "compatibility, vendored or generated code, and",
    "legacy_asked": "the question is about that",
    "is_old_version": "in a folder v1 while the candidates hold a newer or plain one",
    "is_data": "data or configuration, not code",
    "is_barrel": "an index file that only passes on what others define",
    "name_parts": "further parts of the name (`Writer.Json.cs`): a piece of something",
    "path_recall": "share of the query's words that its whole path says",
    "definitions_recall": "share of the query's words that its defined names say together",
    "is_shadowed_header": "a header whose implementation lies beside it",
    "depth": "folders above it",
    "length": "logarithm of its size: long files match by chance",
    "importers": "logarithm of how many files import it",
}

TEST_PATH = re.compile(
    r"(^|/)(?i:tests?|testing|specs?|__tests__|test_?data|test_?suite|unit_?tests?|fixtures?|mocks?|"
    r"e2e)(/|$)|^t/|([a-z]|[._-])(?:Tests?|Specs)/|[._-]tests/"
    r"|(^|/)(test_[^/]*|conftest)\.\w+$|[._-](test|tests|spec|specs)\.\w+$|(Test|Tests|Spec)\.\w+$"
    r"|\.t$"
)
_EXAMPLE = re.compile(
    r"(^|/)(examples?|samples?|demos?|docs?|bench|benches|benchmarks?|tutorials?|playground)(/|$)"
    r"|[._-](bench|benchmark|example)\.\w+$",
    re.IGNORECASE,
)
_LEGACY = re.compile(
    r"(^|/)(compat|legacy|deprecated|vendor(ed)?|third_party|thirdparty|generated|gen|backports?|"
    r"_vendor|old)(/|$)|[._-](compat|legacy|deprecated|generated|pb|min)\.\w+$|(^|/)_?compat\.\w+$",
    re.IGNORECASE,
)
_VERSION = re.compile(r"(?:^|/)v(\d{1,2})/")  # a folder such as `v3` above the file
_ABOUT = {
    "test": frozenset(["test", "mock", "fixture", "assert", "spec"]),
    "example": frozenset(["exampl", "sampl", "demo", "benchmark", "tutorial", "bench"]),
    "legacy": frozenset(["compat", "legacy", "deprecat", "vendor", "generat", "backport", "old"]),
}
_NOTHING = dict.fromkeys(
    """lexical_top lexical_rel dense_rel dense_mean dense_many path_recall name_parts is_data
    stem_f1 stem_precision stem_length stem_joined stem_said folder_precision stem_is_named
    stem_is_symbol definitions_recall holds_name defines_symbol definition_f1 is_test test_asked
    is_example example_asked is_legacy legacy_asked is_barrel is_shadowed_header depth length
    importers""".split(),
    0.0,
)
"""The features of a file that are always there: they are added up in this order."""
_BARREL_STEMS = frozenset(["__init__", "index", "mod", "package-info", "init", "lib"])
_PASSED_ON = re.compile(  # in JavaScript and Python; and comments
    r"(?:export|import)\b(?:[^;'\"={}\n]*(?:\{[^;'\"={}]*\}[^;'\"={}\n]*)?\bfrom)?"
    r"\s*['\"][^'\"\n]*['\"];?"
    r"|from\s+\S+\s+import\s+(?:\([^)]*\)|.*)|import\s.*|//.*|#.*|/\*(?:[^*]|\*(?!/))*\*/"
)
_KIND_WEIGHT = {"type": 1.0, "function": 2 / 3, "value": 1 / 3} | dict.fromkeys(
    ("declaration", "section", "key"), 1 / 3
)


def measure_files(question: Question, files: Sequence[Candidate]) -> list[dict[str, float]]:
    """One row of features per file; some compare a file with the other candidates."""
    lexical, dense, deep = (_spread_over(files, kind) for kind in ("lexical", "dense", "deep"))
    rows = [_measure(question, file, lexical, dense) for file in files]
    if any(file.scores["deep"] for file in files):
        unnamed = (1.0 - max(row["path_recall"] for row in rows)) ** 2
        for row, file in zip(rows, files, strict=True):
            row["deep_rel"], row["deep_mean"] = _compare_meaning(file.scores["deep"], deep)
            row["deep_unnamed"] = unnamed * row["deep_rel"]
            row["deep_many"] = math.log1p(file.deep_near)
    best_stem = max((row["stem_f1"] for row in rows), default=0.0)
    numbers = [_VERSION.search(file.state.path) for file in files]
    versions = [int(found[1]) if found else -1 for found in numbers]
    newest, mostly_plain = max(versions, default=-1), 2 * versions.count(-1) > len(versions)
    for row, version in zip(rows, versions, strict=True):
        row["stem_f1_rel"] = row["stem_f1"] / best_stem if best_stem else 0.0
        # something newer is among the candidates, or most of them need no version at all
        row["is_old_version"] = float(version >= 0 and (version < newest or mostly_plain))
    return rows


Spread = tuple[float, float, float]


def _spread_over(files: Sequence[Candidate], kind: Evidence) -> Spread:
    """Mean, deviation and maximum of all scores of one kind."""
    scores = [score for file in files for score in file.scores[kind].values()]
    if not scores:
        return 0.0, 1.0, 0.0
    mean = sum(scores) / len(scores)
    deviation = math.sqrt(sum([(s - mean) ** 2 for s in scores]) / len(scores))
    top = max(scores)
    # scores that are equal but for rounding are equal
    return mean, deviation if deviation > 1e-6 * abs(top) else 1.0, top


def _measure(
    question: Question, file: Candidate, lexical: Spread, dense: Spread
) -> dict[str, float]:
    place, matches = read_place(file.state.path), question.matches
    row = {**_NOTHING, **place.facts}
    row["lexical_top"], row["lexical_rel"] = _compare_scores(file.scores["lexical"], lexical)
    row["dense_rel"], row["dense_mean"] = _compare_meaning(file.scores["dense"], dense)
    row["dense_many"] = math.log1p(file.dense_near)
    row["path_recall"] = overlap_of(matches, place.whole)[1]
    if row["path_recall"]:
        row["stem_precision"], _, row["stem_f1"] = overlap_of(matches, place.words)
        row["folder_precision"] = overlap_of(matches, place.folder)[0]
    row["stem_joined"] = float(place.folded in question.joined)
    row["stem_said"] = float(place.short in question.words)
    row["stem_is_symbol"] = float(question.is_symbol and place.folded in question.names)
    row["stem_is_named"] = float(not question.is_symbol and place.stem in question.proper)
    if place.stem in ("index", "__init__"):
        own = "".join(chunk.text for chunk in file.chunks.values())
        is_read = 2 * len(own) > file.state.size
        row["is_barrel"] = float(is_read and not _PASSED_ON.sub("", own).strip())
    row["holds_name"] = float(file.holds_name)
    for name, about in _ABOUT.items():
        if row[f"is_{name}"] and not about.isdisjoint(question.words):
            row[f"{name}_asked"] = 1.0
    row["is_shadowed_header"] = float(file.has_implementation)
    row["length"] = math.log1p(file.state.size / 1500)
    row["importers"] = math.log1p(file.importers)
    return row


def _compare_meaning(held: Mapping[int, float], spread: Spread) -> tuple[float, float]:
    """The best against the maximum of all, and the mean standard score."""
    mean, deviation, top = spread
    scores = held.values()
    if not scores:
        return 0.0, -1.0
    rel = max(scores) / top if top > 0 else 0.0
    return rel, sum([(score - mean) / deviation for score in scores]) / len(scores)


def _compare_scores(scores: Mapping[int, float], spread: Spread) -> tuple[float, float]:
    """Mean standard score of the three best, and the best against the maximum of all."""
    mean, deviation, top = spread
    if top <= 0:
        return 0.0, 0.0
    best = sorted(scores.values(), reverse=True)[:3]
    padded = best + [0.0] * (3 - len(best))
    return sum([(score - mean) / deviation for score in padded]) / 3, padded[0] / top


class PathFacts(NamedTuple):
    """What a path says, taken apart."""

    stem: str
    words: tuple[str, ...]
    """Of the file's name."""
    folded: str
    short: str
    folder: tuple[str, ...]
    whole: frozenset[str]
    facts: Mapping[str, float]
    """The features that depend on the path alone."""


@lru_cache(maxsize=4_096)
def read_place(path: str) -> PathFacts:
    """The same files are candidates again and again."""
    above, _, name = path.rpartition("/")
    stem = FileState(path, "", 0, 0, "", "code").stem
    words, folded = _stem_words(path, stem), fold_name(stem)
    folders = [_split_short(folder) for folder in above.split("/")]
    facts = {
        "name_parts": float(max(0, name.strip(".").count(".") - 1)),
        "is_data": float(language_of(path).kind == "data"),
        "stem_length": float(min(len(words), 4)),
        "is_test": float(bool(TEST_PATH.search(path))),
        "is_example": float(bool(_EXAMPLE.search(path))),
        "is_legacy": float(bool(_LEGACY.search(path))),
        "depth": float(path.count("/")),
    }
    facts = {name: value for name, value in facts.items() if value}
    whole = frozenset(words).union(*folders)
    return PathFacts(stem, words, folded, shorten_word(folded), folders[-1], whole, facts)


def _stem_words(path: str, stem: str) -> tuple[str, ...]:
    """Words of a file's name; an index file goes by its folder's name."""
    if stem.lower() in _BARREL_STEMS:
        stem = path.rpartition("/")[0].rpartition("/")[2] or stem
    return _split_short(stem)


def _split_short(name: str) -> tuple[str, ...]:
    return tuple(shorten_word(word) for word in split_identifier(name))


def list_definition_features(question: Question) -> tuple[str, ...]:
    """The features of the names that a file defines; they go from 0 to 1."""
    return ("defines_symbol",) if question.is_symbol else OF_NAMES


def measure_symbol(question: Question, outline: Outline | None) -> dict[str, float]:
    """Whether a file defines the name that is asked for."""
    names = outline.list_names() if outline else ()
    kinds = [kind for n, kind in names if fold_name(n.rpartition(".")[2]) in question.names]
    return {"defines_symbol": max(map(_KIND_WEIGHT.__getitem__, kinds), default=0.0)}


REPORT_FEATURES: Mapping[str, str] = {
    "told_lexical_top": "mean standard score of its three best chunks by the report's words",
    "told_lexical_rel": "its best chunk by the report's words against the best of all",
    "told_dense_rel": "the same by the meaning of the report's sentences",
    "told_stem": "share of the file name's words that the report says anywhere",
    "told_path": "the report names the file by its path or dotted name",
    "told_frame": "a frame of a stack trace is in it; the innermost counts most",
    "defines_told": "defines names that stand in code spans or are dotted; rare ones count more",
}


def measure_report(
    report: Report, files: Sequence[Candidate], defined: Mapping[str, Collection[str]]
) -> list[dict[str, float]]:
    """One row of features per file, to be added to those that the title gives; `defined` has what
    each defines of the names that the report spells."""
    lexical, dense = (_spread_over(files, kind) for kind in ("report_lexical", "report_dense"))
    said = {shorten_word(p) for word in find_words(report.body) for p in split_identifier(word)}
    frames = _place_frames(report, files)
    names = _rate_names([defined.get(file.state.path, ()) for file in files])
    places = Places(report.paths)
    rows = []
    for at, file in enumerate(files):
        state = file.state
        words = _stem_words(state.path, state.stem)
        top, rel = _compare_scores(file.scores["report_lexical"], lexical)
        rows.append(
            {
                "told_lexical_top": top,
                "told_lexical_rel": rel,
                "told_dense_rel": _compare_scores(file.scores["report_dense"], dense)[1],
                "told_stem": sum(word in said for word in words) / len(words) if words else 0.0,
                "told_path": places.rate(state.path) / 2,
                "told_frame": frames.get(state.path, 0.0),
                "defines_told": names[at],
            }
        )
    return rows


def _place_frames(report: Report, files: Sequence[Candidate]) -> dict[str, float]:
    """Path -> how near its last frame is to where the error was raised, 1 at the place itself."""
    ends: dict[tuple[str, ...], list[str]] = {}
    for file in files:
        # a lone stem such as `base` is in too many paths to mean one
        ends.setdefault(tuple(split_path(file.state.path)[-2:]), []).append(file.state.path)
    order = unique(
        path
        for frame in reversed(report.frames)
        for end in (frame[-2:], frame[-3:-1] if frame[-1] == "__init__" else ())
        for path in ends.get(end, ())
    )
    return {path: 1 / (1 + at) for at, path in enumerate(order)}


def _rate_names(found: Sequence[Collection[str]]) -> list[float]:
    """Per file the names it defines, each shared among all that define it; the best has 1."""
    holders = Counter(name for own in found for name in own)
    sums = [sum(1 / holders[name] for name in own) for own in found]
    most = max(sums, default=0.0)
    return [value / most if most else 0.0 for value in sums]
