"""What a query is when it is no question: a path, a glob, a regular expression, a text; pure.

Only the spelling is looked at, so a reading may be wrong: `Node.js` is spelled like a file. A
reading that finds nothing is dropped in silence, unless it `is_certain`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from sonde.ranking.question import QUOTED_FRAME, STOP_WORDS
from sonde.searching.lines.pattern import is_pattern
from sonde.searching.query_language import SPECIAL
from sonde.text.languages import UNKNOWN, language_of

_LONGEST = 1_000  # characters of a query that is read here; what is longer is a report or a file
_LONGEST_PATTERN = 300  # characters of a regular expression that somebody types
_LEAST_TEXT = 4  # characters of a quoted text: shorter ones are on most lines
_WINDOW = 3  # neighbouring words of a message that a line of source must share with it
_GAP = ".{0,120}"  # what stands in the source for a value: `%s`, `{name!r}`, `" + str(value) + "`


@dataclass(frozen=True, slots=True)
class Reading:
    """A query that names a place, or spells what paths or lines look like."""

    kind: Literal["path", "glob", "regex", "text"]
    text: str
    """The path, the glob, the pattern, or the text that a line holds."""
    line: int = 0
    name: str = ""
    """A definition in the file (`tests/test_a.py::test_b`)."""
    least: int = 2
    """How many parts at the end of the path must agree, as far as it has so many."""
    loose: str = ""
    """A pattern for the text with other values, if it has any."""
    spread: str = ""
    """A pattern for any three words in a row of a message, which may span several lines."""
    is_certain: bool = False
    """It can be nothing else, so it is said when nothing is found."""


def read_literally(query: str) -> Reading | None:
    """How to look up a query that is no question; None for a question."""
    text = query.strip()
    if not text or len(text) > _LONGEST:
        return None
    if _SLASHED.fullmatch(text):
        return _read_regex(text) or _read_place(text)
    return _read_place(text) or _read_glob(text) or _read_regex(text) or _read_text(text)


# --- places; here and below every repetition is bounded, so that no query takes long to read ---

_PART = r"[\w.@+~$%\[\]-]{1,100}"
_PATH = rf"(?:{_PART}/{{1,3}}){{0,30}}{_PART}"
_CLASS_FRAME = re.compile(  # Java, Kotlin, Scala: the folders are the package
    r"\b([\w$.]{1,300})\.[\w$<>]{1,100}\(([\w$]{1,100}\.(?:java|kt|scala|groovy|clj)):(\d{1,7})\)"
)
_AT_LINE = re.compile(
    rf"(?<![\w.])({_PATH})(?::line |:|\(|#L|,? (?:on |at )?line |\s\+)(\d{{1,7}})(?![\w.])"
)
_NODE = re.compile(rf"/?({_PATH})::([\w:.]{{1,200}})(?:\[.{{0,200}}\])?")
_WHOLE = re.compile(rf"(?:\w{{1,10}}:/{{2,3}}|[A-Za-z]:|(?:---|\+\+\+) )?~?/?({_PATH})/?")
_SPACED = re.compile(r"[^\n:*?\"<>|]{1,300}/[^\n:*?\"<>|/]{1,100}")  # folders with spaces
_ENDING = re.compile(r"/[^/]*\.[A-Za-z]\w{0,9}$|(?:^|/)\.[A-Za-z][\w-]{0,60}$")
_DRIVE = re.compile(r"\b[A-Za-z]:\\\w")
_PREFIX = re.compile(r"(?:at |from |in |-->|#\d+|\([^()]{0,80}\)|[\s/.~]|[A-Za-z]:|file:)*")


def _read_place(text: str) -> Reading | None:
    """A pasted path, or a line of a stack trace."""
    if _DRIVE.search(text) or not _REGEX.search(text):
        text = text.replace("\\", "/")
    if (found := QUOTED_FRAME.search(text)) and text.count("\n") < 2:  # with its line of code
        return Reading("path", found[1], int(found[2]), is_certain=not found.start())
    if "\n" in text:
        return None
    if found := _CLASS_FRAME.search(text):
        path = "/".join([*found[1].split(".")[:-1], found[2]])
        return Reading("path", path, int(found[3]), least=1, is_certain=True)
    bare = text.strip("\"'`<>,;")
    if (found := _NODE.fullmatch(bare)) and _is_file(found[1]):
        return Reading("path", found[1], name=re.split(r"[:.]+", found[2])[-1], is_certain=True)
    for found in _AT_LINE.finditer(text):
        if _is_file(found[1]):
            certain = bool(_PREFIX.fullmatch(text, 0, found.start())) or text.startswith("at ")
            return Reading("path", found[1], int(found[2]), is_certain=certain)
    found = _WHOLE.fullmatch(bare)
    if found and (_is_file(found[1]) or "/" in bare):
        certain = _is_file(found[1]) and "/" in found[1] and "://" not in bare
        return Reading("path", found[1], is_certain=certain)
    if _SPACED.fullmatch(bare) and _is_file(bare):
        return Reading("path", bare)
    return None


def _is_file(path: str) -> bool:
    """Whether a path ends like the name of a file."""
    if language_of(path) is not UNKNOWN:
        return any(map(str.isalpha, path))
    return _ENDING.search(path) is not None


# --- patterns ---

_GLOB = re.compile(r"(?=.*\w)(?=.*(?:\*|\{[^{}]*,))[\w.@+~$/*?\[\]{}!,-]{2,300}")
_GLOB_END = re.compile(r"/|\.(?:\w+\*?|\*|\{[\w,]+\})$")


def _read_glob(text: str) -> Reading | None:
    if not _GLOB.fullmatch(text) or not _GLOB_END.search(text):
        return None
    return Reading("glob", text, is_certain=language_of(text) is not UNKNOWN or "**/" in text)


_REGEX = re.compile(
    r"\\[wdsWDS](?![A-Za-z])"  # `\w+`, not `\section`
    r"|\\b(?:\w.{0,200}\\b|[\\(\[]|\.[*+?])"
    r"|\\[.()\[\]{}*+?|^$]"
    r"|\(\?(?:[:=!#]|<[=!]|P?<\w|[imsxu-]{1,5}[:)])"
    r"|\.[*+]\??(?![*;,\d]|\s*$)"  # not `import java.util.*`
    r"|\[\^?[^\]\s]{0,40}(?:a-z|A-Z|0-9|a-f|A-F|1-9)[^\]\s]{0,40}\]"
    r"|\[\^[^\]]{1,40}\][*+?{]"
    r"|^\^(?=[A-Za-z_\\(\[@#<]\S{2})"
    r"|(?<!\w)\(\w{1,60}(?:\|\w{1,60}){1,20}\)\w"  # `(get|set)Name`, not `open(READ|WRITE)`
)
_STRING = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`|(?<=[(=,\s])/[^/\n]+/[gimsuy]{0,5}")
_LAMBDA = re.compile(r"\\(?:\(|[a-z_])[\w ,()']{0,100} ->")  # Haskell
_KEYWORDS = frozenset("and as for from get if in into is or use uses using with will do".split())
_ASKING = frozenset("how what where why which who when does can should is are".split())
_PROSE = (STOP_WORDS | {"regex", "regexp", "the", "mean"}) - _KEYWORDS


_SLASHED = re.compile(r"/((?:[^/\\\n]|\\.)+)/")


def _read_regex(text: str) -> Reading | None:
    slashed = _SLASHED.fullmatch(text)
    pattern = slashed[1] if slashed else text
    is_meant = SPECIAL.search(pattern) if slashed else _looks_like_pattern(text)
    return Reading("regex", pattern, is_certain=True) if is_meant and is_pattern(pattern) else None


def _looks_like_pattern(text: str) -> bool:
    """Code that holds an expression as a string is code, a sentence about one is a question."""
    return (
        "\n" not in text
        and len(text) <= _LONGEST_PATTERN
        and _REGEX.search(_STRING.sub("", text)) is not None
        and not _LAMBDA.search(text)
        and _PROSE.isdisjoint(text.lower().split())
    )


# --- texts ---

_QUOTES = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»"}
_LEVEL = r"(?:error|warn(?:ing)?|fatal|critical|severe|panic|exception|fail(?:ed|ure)?|info|debug)"
_MARK = re.compile(
    r"(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S{0,20}\s{1,4}|\[?\d\d:\d\d:\d\d\S{0,10}\s{1,4}"
    rf"|\[?\b{_LEVEL}\b(?:\[\w{{1,20}}\])?[\]:]{{1,2}}\s{{1,4}}"
    r"|[\w.$:]{0,200}(?:Error|Exception|Warning|Panic|Failure):\s{1,4}"
    r"|(?-i:(?:\w{1,60}\.){1,10}[A-Z]\w{1,60}:\s))",
    re.IGNORECASE,
)
_BARE_LEVEL = re.compile(rf"{_LEVEL}\s{{1,4}}", re.IGNORECASE)  # after a time
_TROUBLE = re.compile(
    r"\b(?:fail(?:ed|ure|s)?|error|cannot|\w{2,8}n't|not|unable|invalid|unexpected|expected"
    r"|refused|denied|missing|no such|unknown|undefined|unsupported|must be|timed out)\b",
    re.IGNORECASE,
)
_PRINTED = re.compile(r"(?<!\w)(?:'[^'\n]{1,200}'|\"[^\"\n]{1,200}\"|`[^`\n]{1,200}`)|: |\s/\w")
_VALUE = re.compile(
    r"'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|`[^`\n]{0,200}`|\S{0,200}[/\\]\S{1,200}|(?<==)\S{1,200}"
    r"|\S{0,100}\d\S{0,100}"
)


def _read_text(text: str) -> Reading | None:
    """A quoted text, or a message as a program printed it."""
    inner = text[1:-1]
    if _QUOTES.get(text[0]) == text[-1:] and not {text[0], text[-1]} & set(inner):
        if len(inner.strip()) < _LEAST_TEXT or not any(map(str.isalnum, inner)):
            return None
        return Reading("text", inner, loose=_loosen(inner), is_certain=True)
    first = body = text.partition("\n")[0]
    while mark := _MARK.match(body) or (body is not first and _BARE_LEVEL.match(body)):
        body = body[mark.end() :]
    marked = body is not first
    is_sentence = body.rstrip().endswith((".", "!"))  # seldom typed, and often printed
    if not (marked or is_sentence or (_TROUBLE.search(body) and _PRINTED.search(body))):
        return None
    words = body.lower().split()
    if len(words) < _WINDOW or words[-1].endswith("?") or words[0] in _ASKING:
        return None
    rows = [part.split() for part in _VALUE.split(body) if marked]
    windows = [row[at : at + _WINDOW] for row in rows for at in range(len(row) - _WINDOW + 1)]
    spread = "|".join(_spell(" ".join(window)) for window in windows)
    return Reading("text", body, loose=_loosen(body), spread=spread)


def _loosen(text: str) -> str:
    """A pattern for the text with any values; empty if it has none, or little else."""
    fixed = [part.strip() for part in _VALUE.split(text)]
    has_values = len(fixed) > 1 and max(map(len, fixed)) >= _LEAST_TEXT
    return _GAP.join(_spell(part) for part in fixed if part) if has_values else ""


def _spell(text: str) -> str:
    """A pattern for the text as a string literal may hold it, quotes escaped or not."""
    return re.sub(r"(['\"])", r"\\\\?\1", re.escape(text))
