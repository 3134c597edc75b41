"""Matches a regular expression character by character: what RE2 cannot be asked exactly.

All ways through the pattern are followed at once, best first, so the work is bounded by the length
of the line times that of the pattern. It knows words in any script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from sonde.errors import InvalidPattern
from sonde.searching.lines.classes import WORD, CharClass
from sonde.searching.lines.pattern import Assertion, Choice, Literal, Node, Repeat, Sequence
from sonde.searching.lines.ranges import compile_class

_MOST_STEPS = 50_000
"""Of a compiled pattern; counted repeats multiply."""
_CHECK_INTERVAL_CHARS = 4_096
"""Characters between two looks whether the search was cancelled."""

_Test = Callable[[str], bool]
_Step = tuple[str, int, int, _Test | Assertion | None]
"""The operation, the next step, the alternative step, and what the character must satisfy."""


class Stepper:
    """One pattern as a list of steps."""

    def __init__(self, node: Node) -> None:
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
            if start == end:
                at = end + 1
                if end == last:
                    continue
            else:
                at = end
            last = end
            yield span

    def _search(self, line: str, at: int, check: Callable[[], None]) -> tuple[int, int] | None:
        best: tuple[int, int] | None = None
        alive: list[tuple[int, int]] = []
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
            ready: list[tuple[int, int]] = []
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
        self,
        step: int,
        start: int,
        line: str,
        at: int,
        reached: set[int],
        ready: list[tuple[int, int]],
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

    def _add(self, what: str, asked: _Test | Assertion | None = None) -> int:
        here = len(self._steps)
        if here >= _MOST_STEPS:
            raise InvalidPattern("the pattern is too large", pattern="")
        self._steps.append((what, here + 1, here + 1, asked))
        return here

    def _aim(self, step: int, onward: int, other: int) -> None:
        what, _, _, asked = self._steps[step]
        self._steps[step] = (what, onward, other, asked)

    def _write(self, node: Node) -> None:
        match node:
            case Literal() | CharClass():
                self._add("char", _make_test(node))
            case Assertion():
                self._add("look", node)
            case Sequence(parts):
                for part in parts:
                    self._write(part)
            case Choice(parts):
                ends = []
                for part in parts[:-1]:
                    fork = self._add("fork")
                    self._write(part)
                    ends.append(self._add("go"))
                    self._aim(fork, fork + 1, len(self._steps))
                self._write(parts[-1])
                for end in ends:
                    self._aim(end, len(self._steps), 0)
            case Repeat():
                self._write_repeat(node)

    def _write_repeat(self, node: Repeat) -> None:
        for _ in range(node.least):
            self._write(node.inner)
        if node.most is None:
            # once is in any case an empty turn: (x*)* is (x+)?
            skip = self._add("fork")
            begin = len(self._steps)
            self._write(node.inner)
            again = self._add("fork")
            after = len(self._steps)
            self._aim(skip, *((begin, after) if node.greedy else (after, begin)))
            self._aim(again, *((begin, after) if node.greedy else (after, begin)))
            return
        forks = []
        for _ in range(node.most - node.least):
            forks.append(self._add("fork"))
            self._write(node.inner)
        for fork in forks:
            after = len(self._steps)
            self._aim(fork, *((fork + 1, after) if node.greedy else (after, fork + 1)))


@lru_cache(maxsize=256)
def _make_test(node: Literal | CharClass) -> _Test:
    """Whether a character is in the set; RE2 is consulted once per character."""
    if isinstance(node, Literal) and not node.fold:
        return node.char.__eq__
    text = f"\\x{{{ord(node.char):x}}}" if isinstance(node, Literal) else node.text
    expression = compile_class(text, fold=node.fold)
    known: dict[str, bool] = {}

    def test(char: str) -> bool:
        found = known.get(char)
        if found is None:
            found = known[char] = expression.fullmatch(char) is not None
        return found

    return test


def _holds(look: Assertion, line: str, at: int) -> bool:
    if look.kind == "start":
        return at == 0
    if look.kind == "end":
        return at == len(line)
    is_word = _is_ascii_word if look.ascii else _make_test(WORD)
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


def _is_ascii_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")


def _list_first(node: Node) -> _Test | None:
    """A test that the first character of every match passes; None when a match can be empty."""
    match node:
        case Literal() | CharClass():
            return _make_test(node)
        case Choice(parts):
            tests = [_list_first(part) for part in parts]
            known = [test for test in tests if test is not None]
            if len(known) < len(tests):
                return None
            return lambda char: any(test(char) for test in known)
        case Repeat(inner, least):
            return _list_first(inner) if least else None
        case Sequence(parts):
            for part in parts:
                if isinstance(part, Assertion):
                    continue
                return _list_first(part)
    return None
