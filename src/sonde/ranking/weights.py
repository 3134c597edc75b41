"""How much each piece of evidence counts.

`CODE` is fitted by `training/fit_ranking.py` and rounded. Where the labelled questions say
nothing (nobody asked for examples or legacy code) the answer to "and it was asked for" takes the
penalty back. `DOCS` is set by hand: there are no labelled questions on documents yet.
"""

from __future__ import annotations

from collections.abc import Mapping

CODE: Mapping[str, float] = {
    "lexical_top": 0.3,
    "lexical_rel": 1.6,
    "dense_rel": 2.9,
    "dense_mean": -0.2,
    "dense_many": 0.4,
    "stem_f1": 0.9,
    "stem_f1_rel": 0.4,
    "stem_precision": 1.2,
    "stem_length": -0.6,
    "stem_joined": 1.4,
    "stem_said": 0.3,
    "folder_precision": 1.5,
    "holds_name": 1.3,
    "defines_symbol": 3.5,
    "stem_is_symbol": 2.3,
    "definition_f1": 1.6,
    "is_test": -2.5,
    "test_asked": 2.5,
    "is_example": -1.2,
    "example_asked": 1.2,
    "is_legacy": -3.0,
    "legacy_asked": 3.0,
    "is_old_version": -5.2,
    "is_data": -2.6,
    "name_parts": -1.5,
    "path_recall": 1.4,
    "definitions_recall": 1.2,
    "is_shadowed_header": -4.1,
    "depth": -0.7,
    "length": -0.3,
    "importers": 0.3,
}

DOCS: Mapping[str, float] = {
    "lexical_top": 0.4,
    "lexical_rel": 1.0,
    "dense_rel": 1.5,
    "dense_mean": 0.4,
    "dense_many": 0.3,
    "stem_f1": 0.5,
    "stem_f1_rel": 0.5,
    "stem_joined": 0.5,
    "stem_said": 0.5,
    "folder_precision": 0.3,
    "depth": -0.1,
}
