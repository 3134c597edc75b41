"""What a question says, in words that can be compared with names of files and definitions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from sonde.ranking.report import Report, read_report
from sonde.text.words import find_words, fold_name, index_terms, split_identifier, unique


def shorten_word(word: str) -> str:
    """A word without its common English endings, so that `parsing` meets `parser`."""
    for ending, put in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: len(word) - len(ending)] + put
    return word


_ENDINGS = (
    ("ations", "ate"),
    ("ation", "ate"),
    ("izing", "ize"),
    ("ies", "y"),
    ("ing", ""),
    ("ers", ""),
    ("ors", ""),
    ("er", ""),
    ("or", ""),
    ("ed", ""),
    ("es", ""),
    ("s", ""),
    ("e", ""),
)

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
_GROUP_OF = {word: number for number, group in enumerate(_GROUPS) for word in group}


def is_short_form(one: str, other: str) -> bool:
    """Whether two shortened words stand for the same."""
    group = _GROUP_OF.get(one)
    return group is not None and group == _GROUP_OF.get(other)


def other_forms(word: str) -> Sequence[str]:
    """How else a shortened word is spelled in names."""
    group = _GROUP_OF.get(word)
    return () if group is None else _GROUPS[group]


STOP_WORDS = frozenset(
    "a an and are as at be between by can do does for from get given has have how i if in into is "
    "it its me my of on or that the their them then there these this to use used uses using via "
    "was we what when where which who why will with within work works would you your".split()
)
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|#)[A-Za-z_$][\w$]*)*")
_LONGEST_JOIN = 4
"""Words that may be written together in a name."""
_MOST_WORDS = 64
"""A pasted stack trace is cut to its first distinct words for comparing with names."""


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
    is_symbol: bool
    """The whole query is one identifier."""
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
    spelled = _identifiers(text)
    raw = [part for word in find_words(text) for part in split_identifier(word)]
    content = [part for part in raw if part not in STOP_WORDS] or raw
    words = unique(shorten_word(part) for part in content)[:_MOST_WORDS]
    names = {fold_name(part) for name in spelled for part in _readings(name)}
    return Question(
        text=text,
        terms=tuple(unique(t for t in index_terms(text) if t not in STOP_WORDS))
        or tuple(unique(index_terms(text))),
        words=tuple(words),
        names=frozenset(name for name in names if len(name) > 1),
        spelled=tuple(unique(name.split(".")[-1].split("::")[-1] for name in spelled)),
        proper=frozenset(word for word in find_words(text) if word[0].isupper() and len(word) > 2)
        | {re.split(r"\W+", name)[-1] for name in spelled},
        joined=frozenset(_joins([part for part in raw if part not in STOP_WORDS][:_MOST_WORDS]))
        | _whole_names(text),
        is_symbol=bool(_IDENTIFIER.fullmatch(text)) and len(raw) > 0,
        matches=Matches(words),
        report=report,
    )


def _identifiers(text: str) -> list[str]:
    """Words that can only be identifiers; a one-word query counts as one."""
    if _IDENTIFIER.fullmatch(text):
        return [text]
    return unique(word for word in _IDENTIFIER.findall(text) if _looks_like_code(word))


def _looks_like_code(word: str) -> bool:
    inner = word.strip("_$")
    return (
        "_" in inner
        or "::" in word
        or "->" in word
        or "." in inner
        or (any(c.isupper() for c in inner[1:]) and any(c.islower() for c in inner))
    )


def _readings(name: str) -> list[str]:
    parts = re.split(r"\.|::|->|#", name)
    return [parts[-1], name]


def _joins(words: Sequence[str]) -> Iterable[str]:
    for size in range(2, _LONGEST_JOIN + 1):
        for start in range(len(words) - size + 1):
            yield "".join(words[start : start + size])


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
        forms = (form for word in self.query for form in (word, *other_forms(word)))
        starts = sorted({re.escape(form[:3]) for form in forms})
        self._starts = re.compile("|".join(starts) or r"(?!)", re.IGNORECASE)

    def __missing__(self, word: str) -> int:
        bits = sum(
            1 << at
            for at, one in enumerate(self.query)
            if words_match(one, word) or is_short_form(one, word)
        )
        self[word] = bits
        return bits

    def may_match(self, name: str) -> bool:
        """False only for a name none of whose words can match; cheaper than taking it apart."""
        return not name.isascii() or self._starts.search(name) is not None


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
