"""The search modes by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from sonde.ranking import weights
from sonde.ranking.words import Question
from sonde.searching.found import Found, Search
from sonde.searching.hybrid import rank_hybrid
from sonde.searching.lexical import rank_lexical
from sonde.searching.semantic import rank_semantic

MODES: Mapping[str, Callable[[Search, Question], list[Found]]] = {
    "hybrid": partial(rank_hybrid, weights={"code": weights.CODE, "docs": weights.DOCS}),
    "semantic": rank_semantic,
    "lexical": rank_lexical,
}
