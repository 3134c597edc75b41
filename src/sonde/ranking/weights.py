"""How much each piece of evidence counts; `training/fit_ranking.py` fits these."""

from __future__ import annotations

from collections.abc import Mapping

CODE: Mapping[str, float] = {
    "lexical_top": 0.4,
    "lexical_rel": 0.1,
    "dense_rel": 1.2,
    "dense_mean": 0.4,
    "dense_many": 0.4,
    "stem_f1": 0.5,
    "stem_f1_rel": 1.2,
    "stem_precision": 0.4,
    "stem_length": -0.6,
    "stem_joined": 1.6,
    "stem_said": 0.7,
    "folder_precision": 1.2,
    "holds_name": 1.5,
    "defines_symbol": 2.0,
    "stem_is_symbol": 2.0,
    "definition_f1": 1.4,
    "is_test": -2.3,
    "test_asked": 2.3,
    "is_example": -2.2,
    "example_asked": 2.2,
    "is_legacy": -3.0,
    "legacy_asked": 3.0,
    "is_shadowed_header": -3.0,
    "is_barrel": 0.0,
    "depth": -0.5,
    "length": -0.3,
    "definitions": 0.3,
    "importers": 0.4,
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
