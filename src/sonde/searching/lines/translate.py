"""The tree of a regular expression written for RE2, and what can be said of its matches.

RE2 takes only ASCII letters, digits and `_` for a word. Where a pattern looks at the edges of
words, RE2 is exact for text in ASCII; other lines are left to `stepping`.
"""

from __future__ import annotations

from collections.abc import Iterator

from sonde.searching.lines.classes import WORD, CharClass
from sonde.searching.lines.pattern import Assertion, Choice, Literal, Node, Repeat, Sequence
from sonde.searching.lines.ranges import compile_class
from sonde.types import AllOf, AnyOf, Needs

_EDGES = {"start": "^", "end": "$", "word": r"\b", "not_word": r"\B"}
_MOST_BRANCHES = 64
_MOST_STRINGS = 16
_SHORTEST = 3
"""Bytes of a trigram; a shorter string narrows nothing."""


def write_re2(node: Node, *, edges: bool = True) -> str:
    """The tree in RE2's notation; without `edges`, words may begin and end anywhere."""
    match node:
        case Literal(char, fold):
            text = char if char.isascii() and char.isalnum() else f"\\x{{{ord(char):x}}}"
            return f"(?i:{text})" if fold else text
        case CharClass(text, fold):
            return f"(?i:{text})" if fold else text
        case Assertion(kind):
            return _EDGES[kind] if kind in ("start", "end") or edges else ""
        case Sequence(parts):
            return "".join(_enclose(part, edges=edges) for part in parts)
        case Choice(parts):
            return "|".join(write_re2(part, edges=edges) for part in parts)
        case Repeat(inner, least, most, greedy):
            counts = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
            counts = counts or f"{{{least},{'' if most is None else most}}}"
            return f"(?:{write_re2(inner, edges=edges)}){counts}{'' if greedy else '?'}"


def _enclose(node: Node, *, edges: bool) -> str:
    text = write_re2(node, edges=edges)
    return f"(?:{text})" if isinstance(node, Choice) else text


def list_assertions(node: Node) -> Iterator[Assertion]:
    """Every look of the pattern at the edges of words."""
    match node:
        case Assertion(kind):
            if kind not in ("start", "end"):
                yield node
        case Sequence(parts) | Choice(parts):
            for part in parts:
                yield from list_assertions(part)
        case Repeat(inner):
            yield from list_assertions(inner)


def enclose_word(node: Node) -> Node:
    """The pattern as a whole word: no word goes on before or after it."""
    halves = _begins_in_word(node), _begins_in_word(node, backward=True)
    # next to a letter, the half edge and the edge are the same, and RE2 knows only the latter
    first = Assertion("word" if halves[0] else "half_start")
    last = Assertion("word" if halves[1] else "half_end")
    return Sequence((first, node, last))


def _begins_in_word(node: Node, *, backward: bool = False) -> bool:
    """Whether every match is sure to begin (or end) with a character of a word."""
    match node:
        case Literal(char):
            return compile_class(WORD.text, fold=False).fullmatch(char) is not None
        case CharClass():
            return node == WORD
        case Choice(parts):
            return all(_begins_in_word(part, backward=backward) for part in parts)
        case Repeat(inner, least):
            return least > 0 and _begins_in_word(inner, backward=backward)
        case Sequence(parts):
            ordered = reversed(parts) if backward else iter(parts)
            first = next((part for part in ordered if not isinstance(part, Assertion)), None)
            return first is not None and _begins_in_word(first, backward=backward)
    return False


def list_needs(node: Node) -> Needs | None:
    """What every line with a match holds; None when nothing is sure."""
    exact, needs = _read_needs(node)
    return _join_needs([needs, _any_of(exact)])


def _read_needs(node: Node) -> tuple[tuple[str, ...] | None, Needs | None]:
    """The few strings that the node matches, if it is so simple, and what it needs beyond."""
    match node:
        case Literal(char):
            return (char,), None
        case Assertion():
            return ("",), None
        case CharClass():
            return None, None
        case Choice(parts):
            return _read_choice(parts)
        case Sequence(parts):
            return _read_sequence(parts)
        case Repeat(inner, least, most):
            if (least, most) == (1, 1):
                return _read_needs(inner)
            if not least:
                exact, _ = _read_needs(inner) if most == 1 else (None, None)
                return (("", *exact) if exact and len(exact) < _MOST_STRINGS else None), None
            exact, needs = _read_needs(inner)
            return None, _join_needs([needs, _any_of(exact)])


def _read_choice(parts: tuple[Node, ...]) -> tuple[tuple[str, ...] | None, Needs | None]:
    read = [_read_needs(part) for part in parts[:_MOST_BRANCHES]]
    if len(parts) > _MOST_BRANCHES:
        return None, None
    strings = [text for exact, _ in read for text in exact or ()]
    simple = all(exact is not None and needs is None for exact, needs in read)
    if simple and len(strings) <= _MOST_STRINGS:
        return tuple(dict.fromkeys(strings)), None
    branches = [_join_needs([needs, _any_of(exact)]) for exact, needs in read]
    known = [branch for branch in branches if branch is not None]
    return None, AnyOf(tuple(known)) if len(known) == len(branches) else None


def _read_sequence(parts: tuple[Node, ...]) -> tuple[tuple[str, ...] | None, Needs | None]:
    """Strings grow as long as what follows is simple; where it is not, what was read is needed."""
    needs: list[Needs | None] = []
    run: tuple[str, ...] = ("",)
    whole = True
    for part in parts:
        exact, more = _read_needs(part)
        needs.append(more)
        if exact is not None and len(run) * len(exact) <= _MOST_STRINGS:
            run = tuple(dict.fromkeys(head + tail for head in run for tail in exact))
            continue
        whole = False
        needs.append(_any_of(run))
        run = exact if exact is not None else ("",)
    if whole:
        return run, _join_needs(needs)
    return None, _join_needs([*needs, _any_of(run)])


def _any_of(strings: tuple[str, ...] | None) -> Needs | None:
    if not strings or any(len(text.encode()) < _SHORTEST for text in strings):
        return None
    return strings[0] if len(strings) == 1 else AnyOf(strings)


def _join_needs(needs: list[Needs | None]) -> Needs | None:
    known = tuple(need for need in needs if need is not None)
    return AllOf(known) if len(known) > 1 else known[0] if known else None
