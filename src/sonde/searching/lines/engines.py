"""The two engines that match the tree of a regular expression, and what a match needs.

RE2 is fast, but takes only ASCII letters, digits and `_` for a word. Where a pattern looks at the
edges of words, RE2 is exact for text in ASCII; other lines are left to the `Stepper`, which knows
words in any script. It follows all ways through the pattern at once, best first, so the work is
bounded by the length of the line times that of the pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache

from sonde.errors import InvalidPattern
from sonde.searching.lines import syntax
from sonde.types import AllOf, AnyOf, Needs

_EDGES = {"start": "^", "end": "$", "word": r"\b", "not_word": r"\B"}
_MOST_BRANCHES = 64  # alternatives; bounds the trigram lookups of one search
_MOST_STRINGS = 16  # spelled out per node; choices in a sequence multiply
_SHORTEST = 3  # bytes of a trigram; a shorter string narrows nothing
_MOST_STEPS = 50_000  # of a compiled pattern; counted repeats multiply
_CHECK_INTERVAL_CHARS = 4_096  # characters between two looks whether the search was cancelled

_Test = Callable[[str], bool]
_Thread = tuple[int, int]
"""The step that a way through the pattern has reached, and where its match began."""
_Step = tuple[str, int, int, _Test | syntax.Assertion | None]
"""The operation, the next step, the alternative step, and what the character must satisfy."""


def write_re2(node: syntax.Node, *, edges: bool = True) -> str:
    """The tree in RE2's notation; without `edges`, words may begin and end anywhere."""
    match node:
        case syntax.Literal(char, fold):
            return f"(?i:{syntax.quote(char)})" if fold else syntax.quote(char)
        case syntax.CharClass(text, fold):
            return f"(?i:{text})" if fold else text
        case syntax.Assertion(kind):
            return _EDGES[kind] if kind in ("start", "end") or edges else ""
        case syntax.Sequence(parts):
            texts = [(write_re2(part, edges=edges), part) for part in parts]
            return "".join(
                f"(?:{text})" if isinstance(part, syntax.Choice) else text for text, part in texts
            )
        case syntax.Choice(parts):
            return "|".join(write_re2(part, edges=edges) for part in parts)
        case syntax.Repeat(inner, least, most, greedy):
            counts = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
            counts = counts or f"{{{least},{'' if most is None else most}}}"
            return f"(?:{write_re2(inner, edges=edges)}){counts}{'' if greedy else '?'}"
        case syntax.Capture(inner, name):
            label = f"?P<{name}>" if name.isascii() and name.isidentifier() else ""
            return f"({label}{write_re2(inner, edges=edges)})"


def list_assertions(node: syntax.Node) -> Iterator[syntax.Assertion]:
    """Every look of the pattern at the edges of words."""
    match node:
        case syntax.Assertion(kind):
            if kind not in ("start", "end"):
                yield node
        case syntax.Sequence(parts) | syntax.Choice(parts):
            for part in parts:
                yield from list_assertions(part)
        case syntax.Repeat(inner) | syntax.Capture(inner):
            yield from list_assertions(inner)


def may_break(node: syntax.Node) -> bool:
    """Whether a match can hold a line break."""
    match node:
        case syntax.Literal(char):
            return char == "\n"
        case syntax.CharClass(text):
            return syntax.compile_class(text, fold=False).fullmatch("\n") is not None
        case syntax.Sequence(parts) | syntax.Choice(parts):
            return any(map(may_break, parts))
        case syntax.Repeat(inner) | syntax.Capture(inner):
            return may_break(inner)
    return False


def enclose_word(node: syntax.Node) -> syntax.Node:
    """The pattern as a whole word: no word goes on before or after it."""
    halves = _begins_in_word(node), _begins_in_word(node, backward=True)
    # next to a letter, the half edge and the edge are the same, and RE2 knows only the latter
    first = syntax.Assertion("word" if halves[0] else "half_start")
    last = syntax.Assertion("word" if halves[1] else "half_end")
    return syntax.Sequence((first, node, last))


def _begins_in_word(node: syntax.Node, *, backward: bool = False) -> bool:
    """Whether every match is sure to begin (or end) with a character of a word."""
    match node:
        case syntax.Literal(char):
            return syntax.compile_class(syntax.WORD.text, fold=False).fullmatch(char) is not None
        case syntax.CharClass():
            return node == syntax.WORD
        case syntax.Choice(parts):
            return all(_begins_in_word(part, backward=backward) for part in parts)
        case syntax.Repeat(inner, least):
            return least > 0 and _begins_in_word(inner, backward=backward)
        case syntax.Capture(inner):
            return _begins_in_word(inner, backward=backward)
        case syntax.Sequence(parts):
            ordered = reversed(parts) if backward else iter(parts)
            first = next((part for part in ordered if not isinstance(part, syntax.Assertion)), None)
            return first is not None and _begins_in_word(first, backward=backward)
    return False


def read_literal(node: syntax.Node) -> bytes:
    """The only text in one line that the node matches, as UTF-8; empty where there is none."""
    parts = node.parts if isinstance(node, syntax.Sequence) else (node,)
    chars = [p.char for p in parts if isinstance(p, syntax.Literal) and not p.fold]
    text = "".join(chars) if len(chars) == len(parts) else ""
    return b"" if "\n" in text else text.encode("utf-8", "surrogatepass")


def list_needs(node: syntax.Node) -> Needs | None:
    """What every line with a match holds; None when nothing is sure."""
    exact, needs = _read_needs(node)
    return _join_needs([needs, _any_of(exact)])


def _read_needs(node: syntax.Node) -> tuple[tuple[str, ...] | None, Needs | None]:
    """The few strings that the node matches, if it is so simple, and what it needs beyond."""
    match node:
        case syntax.Literal(char):
            return (char,), None
        case syntax.Assertion():
            return ("",), None
        case syntax.CharClass():
            return None, None
        case syntax.Choice(parts):
            return _read_choice(parts)
        case syntax.Sequence(parts):
            return _read_sequence(parts)
        case syntax.Capture(inner):
            return _read_needs(inner)
        case syntax.Repeat(inner, least, most):
            if (least, most) == (1, 1):
                return _read_needs(inner)
            if not least:
                exact, _ = _read_needs(inner) if most == 1 else (None, None)
                return (("", *exact) if exact and len(exact) < _MOST_STRINGS else None), None
            return None, list_needs(inner)


def _read_choice(parts: tuple[syntax.Node, ...]) -> tuple[tuple[str, ...] | None, Needs | None]:
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


def _read_sequence(parts: tuple[syntax.Node, ...]) -> tuple[tuple[str, ...] | None, Needs | None]:
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


class Stepper:
    """One pattern as a list of steps."""

    def __init__(self, node: syntax.Node) -> None:
        self._steps: list[_Step] = []
        self._write(node)
        self._steps.append(("match", 0, 0, None))
        self._first = _list_first(node)

    def find(self, line: str, check: Callable[[], None]) -> Iterator[tuple[int, int]]:
        """Every match in a line, from left to right; none lies empty at the end of another."""
        at, last = 0, -1
        while at <= len(line):
            span = self._search(line, at, check)
            if span is None:
                return
            start, end = span
            at = end + (start == end)
            if start < end or end != last:
                yield span
            last = end

    def _search(self, line: str, at: int, check: Callable[[], None]) -> tuple[int, int] | None:
        best: tuple[int, int] | None = None
        alive: list[_Thread] = []
        length = len(line)
        while True:
            if not alive:
                if best is not None:
                    return best
                while self._first and at < length and not self._first(line[at]):
                    at += 1
            if at % _CHECK_INTERVAL_CHARS == 0:
                check()
            reached = set[int]()
            ready: list[_Thread] = []
            for step, start in alive:
                self._follow(step, start, line, at, reached, ready)
            if best is None:
                self._follow(0, at, line, at, reached, ready)
            alive = []
            for step, start in ready:
                what, onward, _, test = self._steps[step]
                if what == "match":
                    best = (start, at)
                    break  # later alternatives have lower priority
                if at < length and test(line[at]):  # type: ignore[operator, misc]
                    alive.append((onward, start))
            if at >= length:
                return best
            at += 1

    def _follow(
        self, step: int, start: int, line: str, at: int, reached: set[int], ready: list[_Thread]
    ) -> None:
        """Go on without a character, as far as that goes, in order of preference."""
        waiting = [step]
        while waiting:
            step = waiting.pop()
            if step in reached:
                continue
            reached.add(step)
            what, onward, other, asked = self._steps[step]
            if what == "fork":
                waiting += (other, onward)
            elif what == "look":
                if _holds(asked, line, at):  # type: ignore[arg-type]
                    waiting.append(onward)
            elif what == "go":
                waiting.append(onward)
            else:
                ready.append((step, start))

    def _add(self, what: str, asked: _Test | syntax.Assertion | None = None) -> int:
        here = len(self._steps)
        if here >= _MOST_STEPS:
            raise InvalidPattern("the pattern is too large", pattern="")
        self._steps.append((what, here + 1, here + 1, asked))
        return here

    def _aim(self, step: int, onward: int, other: int) -> None:
        what, _, _, asked = self._steps[step]
        self._steps[step] = (what, onward, other, asked)

    def _write(self, node: syntax.Node) -> None:
        match node:
            case syntax.Literal() | syntax.CharClass():
                self._add("char", _make_test(node))
            case syntax.Assertion():
                self._add("look", node)
            case syntax.Sequence(parts):
                for part in parts:
                    self._write(part)
            case syntax.Choice(parts):
                ends = []
                for part in parts[:-1]:
                    fork = self._add("fork")
                    self._write(part)
                    ends.append(self._add("go"))
                    self._aim(fork, fork + 1, len(self._steps))
                self._write(parts[-1])
                for end in ends:
                    self._aim(end, len(self._steps), 0)
            case syntax.Repeat():
                self._write_repeat(node)
            case syntax.Capture(inner):
                self._write(inner)

    def _write_repeat(self, node: syntax.Repeat) -> None:
        for _ in range(node.least):
            self._write(node.inner)
        if node.most is None:
            # once is in any case an empty turn: (x*)* is (x+)?
            skip = self._add("fork")
            begin = len(self._steps)
            self._write(node.inner)
            again = self._add("fork")
            forks = [(skip, begin), (again, begin)]
        else:
            forks = []
            for _ in range(node.most - node.least):
                fork = self._add("fork")
                forks.append((fork, fork + 1))
                self._write(node.inner)
        after = len(self._steps)
        for fork, inner in forks:
            self._aim(fork, *((inner, after) if node.greedy else (after, inner)))


@lru_cache(maxsize=256)
def _make_test(node: syntax.Literal | syntax.CharClass) -> _Test:
    """Whether a character is in the set; RE2 is consulted once per character."""
    if isinstance(node, syntax.Literal) and not node.fold:
        return node.char.__eq__
    text = syntax.quote(node.char) if isinstance(node, syntax.Literal) else node.text
    expression = syntax.compile_class(text, fold=node.fold)
    # as bytes, since RE2 refuses a string that holds half a character
    return cache(
        lambda char: expression.fullmatch(char.encode("utf-8", "surrogatepass")) is not None
    )


def _holds(look: syntax.Assertion, line: str, at: int) -> bool:
    if look.kind == "start":
        return at == 0 or line[at - 1] == "\n"
    if look.kind == "end":
        return at == len(line) or line[at] == "\n"
    is_word = _make_test(syntax.ASCII_WORD if look.ascii else syntax.WORD)
    before = at > 0 and is_word(line[at - 1])
    after = at < len(line) and is_word(line[at])
    return {
        "word": before != after,
        "not_word": before == after,
        "opens": after and not before,
        "closes": before and not after,
        "half_start": not before,
        "half_end": not after,
    }[look.kind]


def _list_first(node: syntax.Node) -> _Test | None:
    """A test that the first character of every match passes; None when a match can be empty."""
    match node:
        case syntax.Literal() | syntax.CharClass():
            return _make_test(node)
        case syntax.Choice(parts):
            tests = [_list_first(part) for part in parts]
            known = [test for test in tests if test is not None]
            if len(known) < len(tests):
                return None
            return lambda char: any(test(char) for test in known)
        case syntax.Repeat(inner, least):
            return _list_first(inner) if least else None
        case syntax.Capture(inner):
            return _list_first(inner)
        case syntax.Sequence(parts):
            first = next((part for part in parts if not isinstance(part, syntax.Assertion)), None)
            return _list_first(first) if first else None
    return None
