"""Identity of entries: which stored entry an imported one is, by its key and its text.

A parser gives every entry of a file a key. An id from the program that wrote it (a Message-ID, a
GUID) is a strong key. A derived key (a time, a name) starts with `~`, and a file with one entry has
the empty key: both are weak, so that the text counts as well. In order of preference:

    same key and text  >  same text, if a key is weak  >  same key  >  the only entry of the file

Entries that left their file are looked for in the other files of the import in the same way.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from sonde.stores.knowledge.base import Entry, Source

KEY_MARK = "//"  # separates a file's path from the key of an entry inside it
DERIVED = "~"  # first character of a key that was derived
_NUMBERED = re.compile(r"#\d+\Z")
_DISTINCT_CHARS = 40  # shorter texts repeat ("ok", "see attached"), so the title counts as well
_MARKUP = re.compile(
    r"(?m)https?://[^\s)>\]]+|\[(?:\^|fn:)?\d{1,3}\]:?|^[ \t]*(?:\d{1,3}|[a-z])[.)][ \t]|"
    r"^[ \t]*(?::[\w-]+:|#\+|\.\. |\\).*$"
)
"""URLs, marks of footnotes, numbers of lists, and lines of markup in Org, reST and TeX."""
_WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|[^\W_\u3040-\u30ff\u4e00-\u9fff]+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_HEAD_CHARS = 300  # the part of a document that shows its title, author and date
_CUT_CHARS = 30_000  # texts of this length were cut before the comparison
_DIGEST_BYTES = 8  # 64 bits: among a million entries, a chance of one in 40 million


class Mark(NamedTuple):
    """The import record of an entry, stored as its `hash`: the file's state, the entry's digest."""

    file: str
    """SHA-256 of the file."""
    size: str = ""
    stamp: str = ""
    entries: str = ""
    """Number of entries in the file; a file with fewer stored ones is read again."""
    text: str = ""
    """The digest of the entry."""

    @classmethod
    def read(cls, text: str) -> Mark:
        """Parse a stored mark."""
        return cls(*text.split(":")[:5])

    def write(self) -> str:
        """The mark in the form to store."""
        return ":".join(self).rstrip(":")

    def with_text(self, text: str) -> str:
        """The form to store, with the digest of the entry with this `hash`."""
        return self._replace(text=Mark.read(text).text).write()


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """An entry of an earlier import, stored or deleted by the user."""

    source: Source
    file: str
    key: str
    mark: Mark
    entry: Entry | None = None
    """Its head; None if the user deleted it."""

    @property
    def kept_key(self) -> str:
        """The key as the parser gave it, without the number that made it unique."""
        return _NUMBERED.sub("", self.key)


def digest_text(entry: Entry) -> str:
    """A digest of an entry's text."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    parts = (f"{piece.field}\0{piece.sender}\0{piece.text}" for piece in entry.pieces)
    is_short = sum(len(piece.text) for piece in entry.pieces) < _DISTINCT_CHARS
    mark = ""
    for part in chain(parts, [entry.title] if is_short else []):
        digest.update((mark + part).encode("utf-8", "surrogatepass"))
        mark = "\1"
    return digest.hexdigest()


def _inner(key: str) -> str:
    """The key inside the member of an archive: `member!key`."""
    return key.rpartition("!")[2]


def name_file(place: str) -> str:
    """The file that an entry's place is in, with the member of an archive: `a.zip//b.md`."""
    file, _, key = place.partition(KEY_MARK)
    member = key.rpartition("!")[0]
    return f"{file}{KEY_MARK}{member}" if member else file


def _is_weak(key: str) -> bool:
    inner = _inner(key)
    return not inner or inner.startswith(DERIVED)


def _ident(key: str) -> str:
    """The strong key without its place in an archive, or the whole key if it is weak."""
    return key if _is_weak(key) else _inner(key)


def match_entries(known: Sequence[Known], made: Sequence[Entry]) -> list[Known | None]:
    """The known entry of the same file for each new one, None for those that are new."""
    found: list[Known | None] = [None] * len(made)
    left = dict.fromkeys(known)
    rows = [(entry.source, _ident(entry.path), Mark.read(entry.hash).text) for entry in made]
    weak = {at for at, entry in enumerate(made) if _is_weak(entry.path)}
    whole = dict(enumerate(rows))
    _pair(left, found, lambda one: (one.source, _ident(one.kept_key), one.mark.text), whole)
    texts = {at: (source, text) for at, (source, _, text) in enumerate(rows)}
    _pair(left, found, _name_text, {at: name for at, name in texts.items() if at in weak})
    _pair(left, found, lambda one: _name_text(one) if _is_weak(one.kept_key) else None, texts)
    keys = {at: row[:2] for at, row in enumerate(rows)}
    _pair(left, found, lambda one: (one.source, _ident(one.kept_key)), keys)
    for source in {entry.source for entry in made}:
        ours = [one for one in left if one.source == source]
        theirs = [at for at, entry in enumerate(made) if entry.source == source]
        alone = len(ours) == len(theirs) == 1 and found[theirs[0]] is None
        if alone and "" in (ours[0].key, made[theirs[0]].path):
            found[theirs[0]] = ours[0]
    return found


def _name_text(one: Known) -> Hashable:
    return one.source, one.mark.text


def _pair(
    left: dict[Known, None], found: list[Known | None], name: Callable[[Known], Hashable],
    names: Mapping[int, Hashable],
) -> None:  # fmt: skip
    """Pair entries with known ones of the same name, in order, and remove those from `left`."""
    by: defaultdict[Hashable, deque[Known]] = defaultdict(deque)
    for one in left:
        if (own := name(one)) is not None:
            by[own].append(one)
    for at, wanted in names.items():
        if found[at] is None and by.get(wanted):
            one = by[wanted].popleft()
            found[at] = one
            del left[one]


def name_entries(
    entries: Sequence[Entry], known: Sequence[Known | None], used: set[tuple[Source, str]]
) -> list[str]:
    """A unique key for each entry of a file: its previous one, else its own, numbered if used."""
    keys = [one.key if one and one.kept_key == entry.path else None
            for one, entry in zip(known, entries, strict=True)]  # fmt: skip
    pairs = zip(entries, keys, strict=True)
    used |= {(entry.source, key) for entry, key in pairs if key is not None}
    for at, entry in enumerate(entries):
        key, number = keys[at], 1
        if key is None:
            key = entry.path
            while (entry.source, key) in used:
                number += 1
                key = f"{entry.path}#{number}"
            used.add((entry.source, key))
            keys[at] = key
    return [str(key) for key in keys]


class Pool:
    """Known entries that may have moved to another file."""

    def __init__(self) -> None:
        self._by: defaultdict[Hashable, list[Known]] = defaultdict(list)
        self._claimed: set[Known] = set()

    def add(self, known: Iterable[Known]) -> None:
        """Add entries that may have moved."""
        for one in known:
            for name in _list_names(one.source, one.file, one.kept_key, one.mark):
                self._by[name].append(one)

    def claim(self, one: Known) -> None:
        """Mark an entry as found."""
        self._claimed.add(one)

    def is_left(self, one: Known) -> bool:
        """Whether an entry has not been found yet."""
        return one not in self._claimed

    def find(self, file: str, entry: Entry) -> list[Known]:
        """The unclaimed entries of other files that this one may be, best first.

        Unless `is_certain`, their texts have to be compared.
        """
        names = _list_names(entry.source, file, entry.path, Mark.read(entry.hash))
        found = dict.fromkeys(one for name in names for one in self._by.get(name, ()))
        return [one for one in found if self.is_left(one) and one.file != file]


def _list_names(source: Source, file: str, key: str, mark: Mark) -> Iterator[Hashable]:
    """The names under which an entry is looked up in other files."""
    yield source, mark.file, key
    if not _is_weak(key):
        yield source, "id", _inner(key)
        return
    yield source, "text", mark.text
    if not key:
        folder, _, name = file.rpartition("/")
        yield source, "name", name
        yield source, "folder", folder


def is_certain(one: Known, file: str, entry: Entry) -> bool:
    """Whether a known entry of another file is this one, without comparing the texts."""
    mark = Mark.read(entry.hash)
    if not _is_weak(entry.path) or one.mark.file == mark.file or one.mark.text == mark.text:
        return True
    return one.entry is None and one.file.rpartition("/")[2] == file.rpartition("/")[2]


def are_alike(old: Entry, new: Entry) -> bool:
    """Whether one text is an edit of the other: they share half of their words."""
    words = [{word for piece in each.pieces for word in piece.text.lower().split()}
             for each in (old, new)]  # fmt: skip
    return 2 * len(words[0] & words[1]) >= len(words[0] | words[1]) > 0


def are_same_text(one: Entry, two: Entry, text: str, other: str) -> bool:
    """Whether two texts are the same text in two formats.

    One may show title, author, date and page numbers and the other not. Of the other words, a
    fiftieth may differ (hyphenated words, names of markup), but no number.
    """
    words, others = tally_words(text), tally_words(other)
    head = _list_head_words(one) | _list_head_words(two)
    sides = [Counter({word: count for word, count in side.items() if word not in head})
             for side in (words - others, others - words)]  # fmt: skip
    is_cut = max(len(text), len(other)) >= _CUT_CHARS  # then they end at different words
    numbers = [{word for word in side if word.isdigit()} for side in sides]
    dated = {word for each in (text, other) for found in _DATE.findall(each[:_HEAD_CHARS])
             for word in found.split("-")}  # fmt: skip
    if not is_cut and (all(numbers) or any(side - dated for side in numbers)):
        return False
    return 50 * sum(side.total() for side in sides) < min(words.total(), others.total())


def _list_head_words(entry: Entry) -> set[str]:
    """Words that only one format of a text may show: title, author, file name, page numbers."""
    name = name_file(entry.path).rpartition("/")[2]
    said = [entry.title, name, entry.facts.get("author"), *entry.tags,
            entry.facts.get("front_matter")]  # fmt: skip
    pages = str(entry.facts.get("pages") or "")
    words = {word for word in tally_words(" ".join(map(str, said))) if not word.isdigit()}
    return words | set(map(str, range(1, int(pages) + 1 if pages.isdigit() else 1)))


def tally_words(text: str) -> Counter[str]:
    """The words of a text and their counts, without URLs and markup."""
    plain = unicodedata.normalize("NFKC", _MARKUP.sub(" ", text)).casefold()
    return Counter(_WORD.findall(plain))
