"""A query taken apart: a question's words and names, a report's places and terms; pure.

What names a place in a report (an issue, a stack trace, a pasted error) weighs more than its words:
paths, frames, dotted module names, identifiers in code spans. What every report has (a template's
headings and remarks, lists of versions) says nothing and is left out.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath

from sonde.ranking.descriptions import is_description
from sonde.text.languages import UNKNOWN, language_of
from sonde.text.words import (
    find_words,
    fold_name,
    index_terms,
    query_terms,
    read_words,
    split_identifier,
    unique,
)

_LONG = 240  # characters from which several lines are a report; labelled questions have 30 to 90
_LONG_LINE = 400  # characters from which a query of one line is a report
_LONGEST = 30_000  # characters of a report that are read
_MOST_NAMES = 200  # names of a report that are compared with definitions: bounds the work
_MOST_PATHS = 100  # places of a report that are compared with files, for the same reason
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
QUOTED_FRAME = re.compile(r'\bFile "([^"\n]{1,400})", line (\d{1,7})')  # Python
_FRAME = re.compile(
    QUOTED_FRAME.pattern + r"|\bat [^\n(]{0,200}\(([^\s():]{1,400}):\d+"  # JavaScript, Java, C#
    r"|^[ \t]{0,40}(?:(?:at|from|in|-->|#\d+) )?[ \t]{0,8}([\w./\\@+-]{1,200}\.\w{1,6}):\d+",
    re.MULTILINE,
)
_CALLED = re.compile(r", in (\w{1,100})$|^\s{0,40}at ([\w.$<>]{1,200}) ?\(", re.MULTILINE)
_PATH = re.compile(r"(?:[\w.@+-]{1,80}[/\\]){0,20}[\w@+-][\w.@+-]{0,80}\.[A-Za-z]\w{0,6}\b")
_FOLDERS = re.compile(r"(?:[\w.@+-]{1,80}/){2,20}[\w@+-]{1,80}")
_DOTTED = re.compile(r"\b[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|#)[A-Za-z_$][\w$]*)*")
_NAME = re.compile(rf"(?:[.#@&*]|::)?({_IDENTIFIER.pattern})[?!]?(?:\([^()]{{0,200}}\))?[;:]?")
"""A name alone, as people paste it: `name`, `Scope#name`, `name()`, `valid?`."""
_SIGNATURE = re.compile(
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|override"
    r"|virtual|inline|extern|const|unsafe|typedef|pub(?:\(\w+\))?|open|suspend|local)\s+)*"
    r"(?:def|fn|func|function|fun|sub|proc|class|struct|interface|trait|enum|protocol|module|object"
    r"|record|type|macro|defp?|defmodule|void|int|bool|string|var|let|val)\*?\s+"
    rf"(?:\([^()]{{0,80}}?(\w+)\)\s*)?({_IDENTIFIER.pattern})[?!]?(\s*[(<:{{=].{{0,400}})?",
    re.DOTALL,
)
"""The beginning of a definition, as people paste it; a receiver in brackets is its scope."""
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
    called: tuple[str, ...] = ()
    """Functions in the frames of stack traces, as written."""


def read_report(text: str) -> Report | None:
    """Take apart a long query, such as an issue report with a stack trace; None if it is short."""
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
    frames = (next(filter(None, match.groups()), "") for match in _FRAME.finditer(plain))
    counted = Counter([*index_terms(body), *index_terms(title), *unique(index_terms(code))])
    return Report(
        title=title,
        body=body,
        terms=tuple(term for term, _ in counted.most_common()),
        paths=_read_places([*places, *dotted])[:_MOST_PATHS],
        frames=_read_places(frames)[-_MOST_PATHS:],
        spelled=tuple(unique([*_IDENTIFIER.findall(spans), *_DOTTED.findall(body)]))[:_MOST_NAMES],
        called=tuple(unique(filter(None, itertools.chain(*_CALLED.findall(plain)))))[-_MOST_NAMES:],
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


@lru_cache(maxsize=20_000)
def shorten_word(word: str) -> str:
    """A word without its common English endings, so that `parsing` meets `parser`."""
    for ending, put in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: len(word) - len(ending)] + put
    return word


_ENDINGS = (
    ("ations", "ate"), ("ation", "ate"), ("izing", "ize"), ("ies", "y"), ("ing", ""), ("ers", ""),
    ("ors", ""), ("er", ""), ("or", ""), ("ed", ""), ("es", ""), ("s", ""), ("e", ""),
)  # fmt: skip

_SHORT = """
arg argument, attr attribute, auth authenticate, btn button, calc calculate, char character,
cmd command, col column, conf config configure configuration, conn connect connection,
ctx context, db database, decl declare declaration, def define definition, del delete,
deps dependency, desc describe description, dest destination, dev develop, dir directory folder,
doc document, elem element, env environment, err error, exec execute, expr expression,
ext extension, fmt format, fn func function, gen generate, hdr header, id identifier, idx index,
impl implement, info information, init initial initialize, int integer, iter iterate, len length,
lib library, loc locate location, mem memory, msg message, num number, obj object, op operate,
opt option, param parameter, perm permission, pkg package, pos position, prev previous,
proc process, prop property, ptr pointer, ref reference, regex regexp, repo repository,
req request, res resp response, ret return, seq sequence, spec specify specification, src source,
stmt statement, str string, sync synchronize, sys system, temp tmp temporary, util utility,
val value, var variable, ver version, win window, ws websocket
"""
_GROUPS = [[shorten_word(word) for word in group.split()] for group in _SHORT.split(",")]
_FORMS = {word: group for group in _GROUPS for word in group}
"""Shortened word -> all its spellings in names."""
STOP_WORDS = frozenset(
    "a an and are as at be between by can do does for from get given has have how i if in into is "
    "it its me my of on or that the their them then there these this to use used uses using via "
    "was we what when where which who why will with within work works would you your".split()
)
_SMALL_WORDS = STOP_WORDS | frozenset(
    "about after all also am any because been being but could did during each he her here hers "
    "him his ll many much nor not off our ours out over own re s same she should so some such than "
    "they too under until up us ve very were whom while won t d m don".split()
)
_MOST_PROSE_TERMS = 256  # more than a question has; of a pasted text, the first terms count
_LINK = re.compile(r"\.|::|->|#")
_LONGEST_JOIN = 4  # words that may be written together in a name
_MOST_WORDS = 64  # a pasted stack trace is cut to its first distinct words for comparing with names


@dataclass(frozen=True, slots=True)
class Question:
    """A query, read once: terms to retrieve by, words to compare names with."""

    text: str
    terms: tuple[str, ...]
    words: tuple[str, ...]
    """Distinct content words, folded and shortened to their stems."""
    names: frozenset[str]
    """Identifiers that the query spells out, folded (`Foo.barBaz` -> `barbaz`, `foobarbaz`)."""
    spelled: tuple[str, ...]
    """The same identifiers as written."""
    proper: frozenset[str]
    """Words written with a capital, and the last parts of identifiers, as written."""
    joined: frozenset[str]
    """Two to four neighbouring words written together (`cookie jar` -> `cookiejar`)."""
    scopes: tuple[str, ...]
    """What qualifies those identifiers, folded (`pkg.Foo.bar` -> `pkg`, `foo`)."""
    is_symbol: bool
    """The whole query is one identifier."""
    is_code: bool
    """It is spelled as only code is: `cookie_jar`, `Client.send`, not `cookie`."""
    is_description: bool
    """It describes a definition, as documentation does: `Returns the first match`."""
    matches: Matches = field(compare=False)
    """`words`, ready to be compared with names."""
    report: Report | None = field(default=None, compare=False)
    """What a long query says beyond its title, from which all of the above is read."""

    @property
    def asked(self) -> tuple[str, ...]:
        """The texts whose meaning is looked for: the question, and a report's sentences."""
        return (self.text, self.report.body) if self.report else (self.text,)


def read_question(text: str) -> Question:
    """Take a query apart."""
    report = read_report(text)
    text = report.title if report else text.strip()
    name = "" if report else _read_name(text)
    spelled = [name] if name else unique(filter(_looks_like_code, _IDENTIFIER.findall(text)))
    raw = [part for word in find_words(text) for part in split_identifier(word)]
    content = [part for part in raw if part not in STOP_WORDS]
    words = unique(shorten_word(part) for part in content or raw)[:_MOST_WORDS]
    parts = [_LINK.split(name) for name in spelled]
    names = {fold_name("".join(own[-size:])) for own in parts for size in (1, 2, len(own))}
    return Question(
        text=text,
        terms=tuple(unique(t for t in index_terms(text) if t not in STOP_WORDS))
        or tuple(unique(index_terms(text))),
        words=tuple(words),
        names=frozenset(name for name in names if len(name) > 1),
        spelled=tuple(unique(own[-1] for own in parts)),
        proper=frozenset(word for word in find_words(text) if word[0].isupper() and len(word) > 2)
        | {re.split(r"\W+", name)[-1] for name in spelled},
        joined=frozenset(_joins(content[:_MOST_WORDS]) | _whole_names(text)),
        scopes=tuple(unique(fold_name(part) for own in parts for part in own[:-1] if part)),
        is_symbol=bool(name) and len(raw) > 0,
        is_code=bool(name) and (name != text or _looks_like_code(name)),
        is_description=not report and is_description(_REMARK.sub(" ", text[:_LONG_LINE])),
        matches=Matches(words),
        report=report,
    )


def read_prose_terms(text: str) -> tuple[str, ...]:
    """The terms of a query in prose, without stop words unless there are no others."""
    words = [text[word.start : word.end] for word in read_words(text)]
    content = [word for word in words if word.casefold() not in _SMALL_WORDS]
    terms = [[term for word in those for term in query_terms(word)] for those in (content, words)]
    return tuple(unique(terms[0] or terms[1])[:_MOST_PROSE_TERMS])


def _read_name(text: str) -> str:
    """The name that a query asks for, if it is nothing else: `Client.send` of
    `func (c *Client) send(ctx)`; empty if it is a question."""
    if alone := _NAME.fullmatch(text):
        return alone[1]
    if signature := _SIGNATURE.fullmatch(text):
        receiver, name, rest = signature.groups()
        # `struct redisObject` is one as it stands, `class method` is a topic
        if rest or _looks_like_code(name) or name[0].isupper():
            return ".".join(filter(None, (receiver, name)))
    called = "".join(itertools.chain(*_CALLED.findall(text)))  # of one frame
    return called if _IDENTIFIER.fullmatch(called) else ""


def _looks_like_code(word: str) -> bool:
    inner = word.strip("_$")
    if "_" in inner or "." in inner or "::" in word or "->" in word:
        return True
    return any(c.isupper() for c in inner[1:]) and any(c.islower() for c in inner)


def _joins(words: Sequence[str]) -> set[str]:
    sizes = range(2, _LONGEST_JOIN + 1)
    return {"".join(words[at : at + size]) for size in sizes for at in range(len(words) - size + 1)}


def _whole_names(text: str) -> set[str]:
    """Words that the index splits into overlapping pairs of ideographs, as names are stored."""
    words = [word for word in find_words(text) if not word.isascii()][:_MOST_WORDS]
    return {fold_name(word) for word in words if fold_name(word) != "".join(split_identifier(word))}


def words_match(one: str, other: str) -> bool:
    """Equal, or one is the other's beginning and long enough to mean it."""
    if len(one) > len(other):
        one, other = other, one
    return one == other or (len(one) >= 4 and other.startswith(one))


class Matches(dict[str, int]):
    """Word -> which of the query's words it matches, as bits; worked out once per word."""

    def __init__(self, query: Sequence[str]) -> None:
        self.query = tuple(query)
        forms = (form for word in self.query for form in (word, *_FORMS.get(word, ())))
        self.starts = frozenset(form[:3] for form in forms)

    def __missing__(self, word: str) -> int:
        bits = 0
        if word[:3] in self.starts:
            for at, one in enumerate(self.query):
                if words_match(one, word) or word in _FORMS.get(one, ()):
                    bits |= 1 << at
        self[word] = bits
        return bits


def overlap_of(matches: Matches, name: Collection[str]) -> tuple[float, float, float]:
    """Precision (share of the name matched), recall (share of the query) and F1."""
    found = [bits for bits in map(matches.__getitem__, name) if bits]
    if not found:
        return 0.0, 0.0, 0.0
    said = 0
    for bits in found:
        said |= bits
    precision = len(found) / len(name)
    recall = said.bit_count() / len(matches.query)
    return precision, recall, 2 * precision * recall / (precision + recall)
