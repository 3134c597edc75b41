"""How much each piece of evidence counts, and what that says of a result in plain words.

`CODE` is fitted by `training/fit_ranking.py` with the static model and rounded. Where the labelled
questions say nothing (none is about examples or legacy code) the answer to "and it was asked
for" takes the penalty back. `REPORT` is for long queries, fitted by `training/fit_reports.py` on
issue reports of five Python projects; what those cannot teach (old versions, headers) is as in
`CODE`. `DOCS` is for long queries over documents, as served a collection of abstracts best (CISI),
and for views; others go by `ranking/evidence.py`. Barrels and names of documents are set by hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sonde.ranking.features import FEATURES
from sonde.ranking.passages import PASSAGE_FEATURES
from sonde.ranking.question import Question

CODE: Mapping[str, float] = {
    "lexical_top": 0.2,
    "lexical_rel": 1.3,
    "dense_rel": 2.5,
    "dense_many": 0.7,
    "stem_f1": 0.7,
    "stem_f1_rel": 0.4,
    "stem_precision": 1.2,
    "stem_length": -0.5,
    "stem_joined": 1.3,
    "stem_said": 0.2,
    "folder_precision": 1.2,
    "holds_name": 1.3,
    "defines_symbol": 3.0,
    "stem_is_symbol": 2.5,
    "definition_f1": 1.7,
    "stem_is_named": 1.9,
    "is_test": -2.0,
    "test_asked": 2.0,
    "is_example": -1.1,
    "example_asked": 1.1,
    "is_legacy": -1.9,
    "legacy_asked": 1.9,
    "is_old_version": -4.6,
    "is_data": -1.7,
    "is_barrel": -3.0,
    "name_parts": -1.3,
    "path_recall": 0.9,
    "definitions_recall": 0.8,
    "is_shadowed_header": -3.2,
    "depth": -0.6,
    "length": -0.2,
    "importers": 0.2,
}

REPORT: Mapping[str, float] = {
    "lexical_rel": 0.9,
    "dense_rel": 0.9,
    "dense_mean": 0.2,
    "dense_many": 0.4,
    "stem_length": -0.4,
    "stem_joined": 1.4,
    "stem_said": 0.6,
    "folder_precision": 0.6,
    "definition_f1": 1.9,
    "definitions_recall": 1.2,
    "path_recall": 0.3,
    "is_test": -2.9,
    "is_example": -1.2,
    "is_data": -1.0,
    "is_old_version": -5.3,
    "is_shadowed_header": -4.1,
    "told_lexical_top": 0.2,
    "told_lexical_rel": 1.2,
    "told_dense_rel": 1.6,
    "told_stem": 0.3,
    "told_path": 1.4,
    "told_frame": 0.9,
    "defines_told": 1.0,
}

DEEP: Mapping[str, float] = {
    **CODE,
    "deep_rel": 3.4,
    "deep_unnamed": 10.0,
    "deep_mean": 0.7,
    "deep_many": 0.6,
}
"""Where the deeper model has seen every chunk: what it adds to weights fitted without it."""

DOCS_NAMES: Mapping[str, float] = {
    "stem_f1": 0.5,
    "stem_f1_rel": 0.5,
    "stem_joined": 0.5,
    "stem_said": 0.5,
    "folder_precision": 0.3,
    "depth": -0.1,
}
"""What names of documents count, beside the evidence of `ranking/evidence.py`."""

DOCS: Mapping[str, float] = {
    "lexical_rel": 3.0,
    "dense_rel": 2.1,
    "told_lexical_rel": 3.0,
    "told_dense_rel": 2.0,
    **DOCS_NAMES,
}

DOCS_DEEP: Mapping[str, float] = {
    **DOCS,
    "dense_rel": 0.8,
    "deep_rel": 6.0,
    "told_lexical_rel": 1.5,
    "told_dense_rel": 1.0,
}
"""On prose the deeper model is worth more than words, and the static one hardly anything."""


PASSAGE_NAME: Mapping[str, float] = {
    "code_lexical": 8.0,
    "opening_lexical": 0.7,
    "name_f1": 0.4,
    "name_precision": 2.0,
    "is_named": 0.8,
    "is_spelled": 4.4,
    "is_qualified": 8.2,
    "scope_named": 0.7,
    "is_type": 1.4,
    "is_value": -0.3,
    "is_rest": 0.3,
    "has_members": -1.7,
    "nesting": -0.4,
    "lines": 0.4,
    "in_test": -2.0,
}
PASSAGE_WORDS: Mapping[str, float] = {
    "chunk_lexical": 2.1,
    "chunk_dense": 4.5,
    "code_lexical": 1.7,
    "code_dense": 7.0,
    "is_off_topic": -1.9,
    "says_all": 2.2,
    "opening_lexical": 1.7,
    "name_f1": 1.8,
    "name_dense": 2.3,
    "is_type": -0.6,
    "is_value": -3.3,
    "is_function": 1.0,
    "in_test": -4.0,
    "has_members": -0.5,
    "lines": 0.5,
}
PASSAGE_READ: Mapping[str, float] = {**PASSAGE_WORDS, "own_deep": 60.0, "says_all": 5.0}
"""Where the deeper model read the best passages only: more finds more functions without
documentation and fewer documented ones. It reads code without comments; `says_all` makes up for
those."""
PASSAGE_DEEP: Mapping[str, float] = {
    "chunk_lexical": 3.0,
    "chunk_dense": 5.2,
    "own_deep": 80.0,
    "code_lexical": 0.8,
    "code_dense": 6.0,
    "is_off_topic": -3.0,
    "says_all": 5.2,
    "opening_lexical": 4.0,
    "name_f1": 2.8,
    "name_dense": 4.0,
    "is_spelled": 5.0,
    "is_value": -2.4,
    "is_function": 4.2,
    "is_declaration": -3.0,
    "in_test": -4.5,
    "nesting": -2.0,
    "lines": 1.0,
}
"""Where it has seen every definition: between the above and what questions on functions and types
of sixteen other repositories gave. Fitted on fewer questions, those carry over less well."""
PASSAGE_REPORT: Mapping[str, float] = {
    "chunk_lexical": 1.0,
    "told_dense": 4.0,
    "told_lexical": 4.0,
    "told_name": 2.0,
    "own_dense_rel": 1.6,
    "name_f1": 2.0,
    "is_type": -1.0,
    "is_value": -2.0,
    "is_rest": -1.0,
    "has_members": -1.0,
    "lines": 0.2,
}


_TOPIC_SHARE = 0.1  # a larger one finds fewer files of topics (docs/quality.md)


def choose_passage_weights(question: Question, *, is_deep: bool = False) -> Mapping[str, float]:
    """The weights of passages for one kind of query and evidence."""
    if question.report:
        return PASSAGE_REPORT
    if question.is_symbol:
        return PASSAGE_NAME
    return PASSAGE_DEEP if is_deep else PASSAGE_WORDS


def choose_share(question: Question, *, is_named: bool = True) -> float:
    """How much a file's best passage counts beside the file's own score.

    A name is found by its definition, if there is one, unless it is an English word; the file of a
    report is known better than its lines. What is described is a definition; about a topic the file
    is known better, and a larger share finds more functions and fewer files (docs/quality.md).
    """
    if question.report:
        return 0.0
    if question.is_symbol and is_named:
        return 1.0 if question.is_code else 0.5
    if question.is_description:
        return 1.0
    return _TOPIC_SHARE


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
    ("value data rest barrel", "is a value or data", "is data, or between definitions"),
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
