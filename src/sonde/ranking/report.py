"""A long query (an issue report, a stack trace, a pasted error) taken apart; pure.

What names a place in a report weighs more than its words: paths, frames of a stack trace, dotted
module names, identifiers in code spans. What every report has (a template's headings, lists of
versions, remarks of the template) says nothing and is left out.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from sonde.text.languages import UNKNOWN, language_of
from sonde.text.words import index_terms, unique

_LONG = 240
"""Characters from which a query of several lines is a report; labelled questions have 30 to 90."""
_LONG_LINE = 400
"""Characters from which a query of one line is a report."""
_LONGEST = 30_000
"""Characters of a report that are read."""
_MOST_NAMES = 200
_MOST_PATHS = 100
"""Names and places that are compared with files."""
# every repetition is bounded: no query may take long to read, whatever its text
_REMARK = re.compile(r"<!--.{0,3000}?-->|</?\w+[^<>]{0,200}>", re.DOTALL)
_URL = re.compile(r"https?://[^\s)>\]\"']+")
_HEADING = re.compile(r"\s{0,3}(?:#{1,6}\s.*|\*\*[^*]+\*\*:?|_[^_]+_|[=\-~*_]{3,})\s*$")
_VERSION = re.compile(
    r"\s{0,20}(?:[-*]\s{0,5})?[\w .()/-]{1,40}?(?:\s{0,5}[:=]\s{0,5}|\s{1,5}|==)"
    r"v?(?:\d+(?:\.\w+)+|None)(?:\s|$)"
)
_FENCE = re.compile(r"\s*(?:```|~~~)")
_INDENTED = re.compile(r"(?: {4}|\t|>>> |\.\.\. |\$ |In \[)")
_SPAN = re.compile(r"`+([^`\n]{1,200})`+")
_FRAME = re.compile(
    r"File \"([^\"\n]{1,400})\", line \d+"  # Python
    r"|\bat [^\n(]{0,200}\(([^\s():]{1,400}):\d+"  # JavaScript, Java, C#
    r"|^[ \t]{0,40}(?:(?:at|from|in|-->|#\d+) )?[ \t]{0,8}([\w./\\@+-]{1,200}\.\w{1,6}):\d+",
    re.MULTILINE,
)
_PATH = re.compile(r"(?:[\w.@+-]{1,80}[/\\]){0,20}[\w@+-][\w.@+-]{0,80}\.[A-Za-z]\w{0,6}\b")
_FOLDERS = re.compile(r"(?:[\w.@+-]{1,80}/){2,20}[\w@+-]{1,80}")
_DOTTED = re.compile(r"\b[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|#)[A-Za-z_$][\w$]*)*")
_TRACE = re.compile(r"^(?:Traceback \(most recent|Exception in thread|panicked at|thread ')")


@dataclass(frozen=True, slots=True)
class Report:
    """A long query in its parts."""

    title: str
    body: str
    """Title and sentences, without code, output, templates and versions."""
    terms: tuple[str, ...]
    """Distinct terms of the whole, those said most often first."""
    paths: tuple[tuple[str, ...], ...]
    """Files that it names, each as its folders and stem, folded."""
    frames: tuple[tuple[str, ...], ...]
    """The same for the frames of stack traces, innermost last."""
    spelled: tuple[str, ...]
    """Names in code spans and dotted names, as written."""


def read_report(text: str) -> Report | None:
    """Take a long query apart; None for a question of ordinary length."""
    text = text.strip()
    if len(text) < (_LONG if "\n" in text else _LONG_LINE):
        return None
    plain = _REMARK.sub(" ", text[:_LONGEST])
    addresses = _URL.findall(plain)
    plain = _URL.sub(" ", plain)
    sentences, pasted = _divide(plain.split("\n"))
    title = _choose_title(sentences, pasted)
    if not index_terms(title):
        return None
    body = "\n".join(unique([title, *sentences]))
    code = "\n".join(pasted)
    spans = "\n".join(_SPAN.findall(body))
    places = [*_PATH.findall(plain), *_FOLDERS.findall(plain), *addresses]
    dotted = _DOTTED.findall(body) + _DOTTED.findall(code)
    counted = Counter(index_terms(body))
    counted.update(index_terms(title))
    counted.update(set(index_terms(code)))
    return Report(
        title=title,
        body=body,
        terms=tuple(term for term, _ in counted.most_common()),
        paths=_read_places([*places, *dotted])[:_MOST_PATHS],
        frames=_read_places(_frames_in(plain))[-_MOST_PATHS:],
        spelled=tuple(unique([*_NAME.findall(spans), *_DOTTED.findall(body)]))[:_MOST_NAMES],
    )


def _divide(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Sentences, and pasted code or output."""
    sentences: list[str] = []
    pasted: list[str] = []
    fenced = False
    for line in lines:
        if _FENCE.match(line):
            fenced = not fenced
        elif not line.strip() or _VERSION.match(line):
            continue
        elif fenced or (sentences and _INDENTED.match(line)):
            pasted.append(line)
        elif not sentences or not _HEADING.match(line):
            sentences.append(line.strip())
    return sentences, pasted


def _choose_title(sentences: Sequence[str], pasted: Sequence[str]) -> str:
    """The first line; of a bare stack trace, the line that says what went wrong."""
    lines = [*sentences[:1], *pasted[:1]] or [""]
    if _TRACE.match(lines[0]):
        last = sentences[-1:] if len(sentences) > 1 else pasted[-1:]
        return (last or lines)[0].strip()[:_LONG_LINE]
    return lines[0].strip("# ")[:_LONG_LINE]


def _frames_in(text: str) -> Iterator[str]:
    for match in _FRAME.finditer(text):
        yield next(filter(None, match.groups()), "")


def _read_places(places: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Each once, where it was named last."""
    read = [place for place in map(_read_place, places) if place]
    return tuple(reversed(dict.fromkeys(reversed(read))))


def _read_place(place: str) -> tuple[str, ...]:
    """Folders and stem of a path, an address or a dotted name; empty when it names no file."""
    place = place.partition("#")[0].replace("\\", "/").strip("/.")
    if "/" in place:
        path = PurePosixPath(place)
        parts = [*path.parts[:-1], path.name.split(".")[0] or path.name]
    elif language_of(place) is not UNKNOWN:
        parts = [place.split(".")[0]]
    else:
        parts = place.split(".")
        parts = parts if len(parts) > 1 else []
    return tuple(part.lower() for part in parts if part)


class Places:
    """Which of a project's paths a report names; looked up in constant time per path."""

    def __init__(self, places: Sequence[tuple[str, ...]]) -> None:
        self.names = {part for place in places for part in place}
        self._pairs = {pair for place in places for pair in itertools.pairwise(place)}

    def rate(self, path: str) -> int:
        """2 when stem and folder are named together, 1 when the stem is, else 0."""
        own = split_path(path)
        if tuple(own[-2:]) in self._pairs or (len(own) == 1 and own[0] in self.names):
            return 2
        return int(own[-1] in self.names)


def split_path(path: str) -> list[str]:
    """Folders and stem of a path, in lower case; a package's `__init__` goes by its folder."""
    *folders, name = path.lower().split("/")
    stem = name.split(".")[0] or name
    return folders if stem == "__init__" and folders else [*folders, stem]
