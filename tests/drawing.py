"""Texts and lists of every length: those that hypothesis draws by itself stay short."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")
ANY = st.characters(exclude_categories=["Cs"])
"""Every character but halves of pairs."""


def draw_list(elements: SearchStrategy[T], most: int, least: int = 0) -> SearchStrategy[list[T]]:
    """Lists whose lengths are spread over the whole range."""
    sizes = st.integers(least, most)
    return sizes.flatmap(lambda size: st.lists(elements, min_size=size, max_size=size))


def draw_text(
    alphabet: str | SearchStrategy[str], most: int, least: int = 0
) -> SearchStrategy[str]:
    """Texts whose lengths are spread over the whole range."""
    letters = st.sampled_from(alphabet) if isinstance(alphabet, str) else alphabet
    return draw_list(letters, most, least).map("".join)
