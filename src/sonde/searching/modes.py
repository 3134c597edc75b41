"""The search modes by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sonde.ranking.words import Question
from sonde.searching.found import Found, Search
from sonde.searching.hybrid import rank_hybrid
from sonde.searching.lexical import rank_lexical
from sonde.searching.semantic import rank_semantic

MODES: Mapping[str, Callable[[Search, Question], list[Found]]] = {
    "hybrid": rank_hybrid,
    "semantic": rank_semantic,
    "lexical": rank_lexical,
}
