"""Handles: short names that nobody can guess, minted here and passed back by whoever got them."""

from __future__ import annotations

import secrets

_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
"""No letter that reads like another: handles are read aloud and typed."""
_LENGTH = 12
"""Sixty random bits."""


def mint_handle(length: int = _LENGTH) -> str:
    """A new handle; one that stands in every line of a listing may be shorter."""
    return "".join(secrets.choice(_LETTERS) for _ in range(length))


def join_node(index: str, number: int) -> str:
    """The handle of a node: its index, and its number there."""
    digits = ""
    while number:
        number, digit = divmod(number, len(_LETTERS))
        digits = _LETTERS[digit] + digits
    return f"{index}.{digits or '0'}"


def split_node(handle: str) -> tuple[str, int] | None:
    """The index and the number that a node's handle stands for; None when it is none."""
    index, dot, digits = handle.partition(".")
    if not dot or not index or not 1 <= len(digits) <= _LENGTH:
        return None
    number = 0
    for digit in digits:
        value = _LETTERS.find(digit)
        if value < 0:
            return None
        number = number * len(_LETTERS) + value
    return index, number
