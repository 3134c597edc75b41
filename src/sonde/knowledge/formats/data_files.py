"""Tables and JSON, with recovery of damaged JSON."""

from __future__ import annotations

import contextlib
import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any

from sonde.knowledge.formats import File, RefusedFormat

MAX_DEPTH = 16  # of containers entered during recovery; no export is deeper
SAMPLE_ROWS = 20  # from which the keys of the rows are learned
_DECODER = json.JSONDecoder()
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_GAP = re.compile(r"[\s,]*")
_KEY = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:\s*')
_NEXT_KEY = re.compile(r'(?<=,)\s*"[^"\\]{1,40}"\s*:')
_FIRST_ROW = re.compile(r'\[\s*\{\s*"([^"\\]{1,40})"\s*:')


def load_json(file: File) -> Any:
    """Parse JSON, recovering what is readable of a damaged file. Raises `RefusedFormat`."""
    text = file.text()
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        salvage = _Salvage(file, text)
        salvage.read()
        if salvage.root and salvage.root[0]:
            return salvage.root[0]
        raise RefusedFormat("broken", f"not JSON: {error}") from error


def read_table(file: File) -> Iterator[list[str]]:
    """The rows of a table separated by commas, semicolons, tabs or bars. Raises `RefusedFormat`."""
    text = file.text()
    csv.field_size_limit(1 << 24)
    head = text[:16_384].partition("\n")[0]  # the first row names the columns
    mark = max(",;\t|", key=head.count) if file.suffix != "tsv" else "\t"
    try:
        yield from csv.reader((line[0] for line in _LINE.finditer(text)), delimiter=mark)
    except csv.Error as error:
        raise RefusedFormat("broken", str(error)) from error


def read_named_rows(file: File) -> Iterator[Mapping[str, str]]:
    """The rows of a table as mappings from the lower-case names of its columns."""
    rows = read_table(file)
    names = [name.strip().lower() for name in next(rows, [])]
    return (dict(zip(names, row, strict=False)) for row in rows if row)


@dataclass(frozen=True, slots=True)
class _Rows:
    """How to recognise the next row of the innermost list of `containers`."""

    containers: tuple[Any, ...]
    start: re.Pattern[str]
    keys: frozenset[str]


class _Salvage:
    """Reads damaged JSON: after damage, reading resumes at the next row of a known list.

    Damaged lists of objects, and the objects around them, are entered. Any other damaged value is
    dropped, since a part of a row is of no use.
    """

    def __init__(self, file: File, text: str) -> None:
        self.root: list[Any] = []
        self.lists: list[_Rows] = []
        self._file = file
        self._text = text
        self._at = 0
        self._inside: list[Any] = [self.root]
        self._last: list[Any] = [self.root]

    def read(self) -> None:
        """Read all that is readable into `root`."""
        while (found := _GAP.match(self._text, self._at)) and found.end() < len(self._text):
            self._at = found.end()
            try:
                self._read_next()
            except (ValueError, RecursionError) as error:
                self._recover(error)

    def _read_next(self) -> None:
        """Read the next value of the innermost container."""
        inner, key = self._inside[-1], ""
        if isinstance(inner, dict):
            if self._text[self._at] == "}":
                self._leave()
                return
            if (named := _KEY.match(self._text, self._at)) is None:
                raise json.JSONDecodeError("Expecting a name", self._text, self._at)
            key, self._at = named[1], named.end()
        elif inner is self.root and inner:
            raise json.JSONDecodeError("Extra data", self._text, self._at)
        elif self._text[self._at] == "]":
            self._leave()
            return
        else:  # lists within the previous row are complete
            self.lists = [e for e in self.lists if len(e.containers) <= len(self._inside)]
        try:
            value, self._at = _DECODER.raw_decode(self._text, self._at)
            self._last = [*self._inside, value]
        except (ValueError, RecursionError):
            value = self._enter()
        if isinstance(inner, dict):
            inner.setdefault(key, value)  # after damage, keys may be those of a row
        else:
            inner.append(value)

    def _leave(self) -> None:
        self._inside.pop()
        self._at += 1

    def _enter(self) -> list[Any] | dict[str, Any]:
        """Enter the damaged container that comes next. Raises if it may not be entered."""
        in_row = any(isinstance(each, list) for each in self._inside[1:])
        is_row = isinstance(self._inside[-1], list)
        made: list[Any] | dict[str, Any]
        if self._text.startswith("{", self._at) and (is_row or not in_row):
            made = {}
        elif (first := _FIRST_ROW.match(self._text, self._at)) and len(self._inside) < MAX_DEPTH:
            made = []
            self._know([*self._inside, made], first[1])
        else:
            raise json.JSONDecodeError("Expecting a value", self._text, self._at)
        self._inside.append(made)
        self._last = [made]
        self._at += 1
        return made

    def _know(self, containers: Sequence[Any], name: str) -> None:
        """Learn the keys of the rows of a list from those that begin with the key `name`."""
        # an object after a colon is a value, not a row
        start = re.compile(rf'(?<![:\s])\s*\{{\s*"{re.escape(name)}"\s*:')
        _, keys = max(islice(self._decode_rows(start), SAMPLE_ROWS), default=(0, []))
        # the longest is a whole row, not an object within one
        self.lists.append(_Rows(tuple(containers), start, frozenset(keys)))

    def _know_inner(self, containers: Sequence[Any]) -> None:
        """Learn the rows of lists in a complete value: damage may have closed them too early."""
        value = containers[-1]
        if isinstance(value, dict):
            for each in value.values():
                self._know_inner([*containers, each])
        elif isinstance(value, list) and value and isinstance(value[-1], dict) and value[-1]:
            self._know(containers, next(iter(value[-1])))
            self._know_inner([*containers, value[-1]])

    def _decode_rows(self, start: re.Pattern[str]) -> Iterator[tuple[int, list[str]]]:
        for found in start.finditer(self._text, self._at):
            with contextlib.suppress(ValueError, RecursionError):
                row, end = _DECODER.raw_decode(self._text, self._text.index("{", found.start()))
                yield end - found.start(), sorted(row)

    def _recover(self, error: Exception) -> None:
        """Report damage, and move to the place where reading can resume."""
        depth = max(n for n, each in enumerate(self._inside) if isinstance(each, list))
        rows = self._inside[depth]
        self._know_inner(self._last)
        self._file.skip_part(f"row {len(rows)}", str(error))
        has_rows = any(len(each.containers) > depth + 1 for each in self.lists)
        if 0 < depth < len(self._inside) - 1 and not has_rows:
            rows.pop()
        starts = [(begin, n) for n, each in enumerate(self.lists)
                  if (begin := self._find_row(each)) is not None]  # fmt: skip
        if starts:
            self._at, number = min(starts)
            self._inside = list(self.lists[number].containers)
            return
        outside = list(takewhile(lambda each: isinstance(each, dict), self._inside[1:]))
        outside = outside or [each for each in self.root[:1] if isinstance(each, dict)]
        self._inside = [self.root, *outside]
        key = _NEXT_KEY.search(self._text, self._at) if outside else None
        self._at = key.start() if key else len(self._text)

    def _find_row(self, rows: _Rows) -> int | None:
        """The offset of the next row of a list."""
        for found in rows.start.finditer(self._text, self._at):
            begin = self._text.index("{", found.start())
            try:
                row, _ = _DECODER.raw_decode(self._text, begin)
            except (ValueError, RecursionError):
                return begin
            if 2 * len(rows.keys & set(row)) >= len(rows.keys):  # else it is a part of a row
                return begin
        return None
