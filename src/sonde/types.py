"""Frozen values that every package may use. Imports nothing of ours."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

Json = dict[str, Any]
"""A JSON object whose keys are not fixed: a schema, a stored document, a client's parameters."""

Kind = Literal["code", "docs"]
"""Which of a project's two indexes a file belongs to."""

LOCAL = "local"
"""The user of a server that other machines cannot reach."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller as its surface identified it; no argument of a call can change it."""

    user: str = LOCAL  # whose data the call works on: the token decides, `local` if none is needed
    session: str = ""  # the connection, if it is lasting: replaces a handle that a call leaves out
    base_url: str = ""  # where this caller reaches the HTTP server; empty if it does not
    is_person: bool = False  # whether a browser signed in, where somebody can be asked
    list_roots: Callable[[], tuple[Path, ...]] = tuple  # asks its client which folders are open
    groups: tuple[str, ...] = ()  # that the provider of its identity says it belongs to
    config: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of this request for what neither call nor session sets; cut to their bounds."""

    def link(self, address: str) -> str:
        """An address (`jobs/7`) that this caller can open: a URL, or else an MCP resource."""
        return f"{self.base_url}/api/{address}" if self.base_url else f"sonde://{address}"


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a file: lines are 1-based and inclusive, bytes are 0-based and half-open."""

    start_line: int
    end_line: int
    start_byte: int
    end_byte: int

    def __reduce__(self) -> tuple[Any, ...]:
        # by hand here and below: pickling a dataclass takes twice as long
        return Span, (self.start_line, self.end_line, self.start_byte, self.end_byte)


class Symbol(NamedTuple):
    """A definition: its qualified name, its kind, the line that names it, and all its lines."""

    name: str
    kind: Literal["type", "function", "value", "declaration", "section", "key"]
    """A declaration names what is defined elsewhere; sections are of documents, keys of data."""
    line: int
    start_line: int  # of its decorators, attributes and documentation, if it has any
    end_line: int

    def move(self, lines: int) -> Symbol:
        """The definition that many lines further down."""
        moved = (self.line + lines, self.start_line + lines, self.end_line + lines)
        return Symbol(self.name, self.kind, *moved)


_KINDS = dict(zip("tfvdsk", "type function value declaration section key".split(), strict=True))


class Outline:
    """A file's definitions, of which a search reads a few; their lines and names say which."""

    def __init__(self, text: str = "", of_hash: str = "") -> None:
        import numpy as np  # slow to import

        self.of_hash = of_hash  # of the file that has them
        self._kinds, lines, names = text.split("\n", 2) if text else ("", "", "")
        self.names = names.split("\n") if text else []
        line, before, after = np.fromstring(lines, np.int64, sep=" ").reshape(-1, 3).T
        self._lines, self.starts, self.ends = line, line - before, line + after

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[Symbol]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, at: int) -> Symbol:
        lines = self._lines.item(at), self.starts.item(at), self.ends.item(at)
        return Symbol._make((self.names[at], _KINDS[self._kinds[at]], *lines))

    def list_names(self) -> list[tuple[str, str]]:
        """Their names and kinds."""
        return list(zip(self.names, map(_KINDS.__getitem__, self._kinds), strict=True))

    def touch(self, first: int, last: int) -> list[Symbol]:
        """Those that lie around these lines or begin in them."""
        places = (self.starts <= last) & (self.ends >= first)
        return [self[at] for at in places.nonzero()[0].tolist()]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one file, as of when it was cut.

    `text` is exactly the file's text over `span`. `header` is context that is searched and
    embedded with the text but is not in it: path, enclosing scopes, signature.
    """

    path: str
    text: str
    span: Span
    header: str = ""
    symbol: str = ""
    """Qualified name of the definition this chunk opens, if it opens one."""
    id: int = 0  # the store's key; 0 until stored
    _digest: bytes = field(default=b"", init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Chunk, (self.path, self.text, self.span, self.header, self.symbol, self.id)

    @property
    def embedded_text(self) -> str:
        """The text that a model embeds."""
        return f"{self.header}\n{self.text}" if self.header else self.text

    @property
    def digest(self) -> bytes:
        """Identifies the embedded text: equal digests have equal vectors."""
        if not self._digest:
            text = self.embedded_text.encode("utf-8", "surrogatepass")
            object.__setattr__(self, "_digest", hashlib.sha256(text).digest()[:16])
        return self._digest


class ListedFile(NamedTuple):
    """A file that may be indexed; `path` is relative to the root, with slashes."""

    path: str
    size: int
    mtime_ns: int
    stamp: int = 0  # differs whenever size, times or inode do: `policy.roots.stamp_file`
    ctime_ns: int = 0  # when it was last written, renamed or given another time; nobody can set it


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file as it was when it was read; `hash` is the SHA-256 of its bytes, in hex."""

    path: str
    text: str
    hash: str
    size: int
    mtime_ns: int
    stamp: int = 0
    withheld: str = ""
    """The kind and place of the first secret whose lines are not in the text."""


@dataclass(frozen=True, slots=True)
class FileText:
    """A file's text as UTF-8, without a byte order mark, and the file's own size and time."""

    path: str
    data: bytes
    size: int
    mtime_ns: int
    stamp: int = 0


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that is skipped, and why."""

    path: str
    reason: str
    """A key of `policy.admit.REASONS`."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class FileState:
    """An indexed file as of when it was read; `hash` is the SHA-256 of its bytes, in hex."""

    path: str
    hash: str
    size: int
    mtime_ns: int
    language: str
    kind: Kind
    stamp: int = 0  # as it was read; 0 if it may have been written at that moment

    @property
    def stem(self) -> str:
        """The name up to its first dot or backtick, to compare with words of a query."""
        name = self.path.rpartition("/")[2]
        return name.lstrip(".").replace("`", ".").split(".")[0] or name


@dataclass(frozen=True, slots=True)
class FileWords:
    """The terms under which a file is found, separated by spaces."""

    chunks: tuple[tuple[str, str, str], ...]
    """For each chunk, in file order: terms of its path, of the name it defines, of its text."""
    names: str
    imports: str
    grams: str


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A file ready to be stored: its state and everything extracted from it."""

    state: FileState
    chunks: tuple[Chunk, ...]
    symbols: tuple[Symbol, ...] = ()
    imports: tuple[str, ...] = ()  # the last parts of the module names that the file imports
    tags: tuple[str, ...] = ()  # tags from its content; those from its path are not repeated here
    words: FileWords | None = None  # None if the store must still extract them


@dataclass(frozen=True, slots=True)
class Filter:
    """Restricts retrieval to some chunks."""

    paths: frozenset[str] | None = None  # only these files; None means all


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of these conditions."""

    parts: tuple[Needs, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of these conditions."""

    parts: tuple[Needs, ...]


Needs = str | AllOf | AnyOf
"""Condition on a file's text: a string in any letter case, or several conditions."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A retrieved chunk and its raw score; higher is better."""

    id: int
    score: float


class HitRow(TypedDict):
    """A hit as `search_code` and `search_docs` answer it."""

    path: str
    text: str
    score: float
    startLine: int
    endLine: int
    symbol: NotRequired[str]
    clipped: NotRequired[bool]
    definition: NotRequired[tuple[int, int]]
    parts: NotRequired[tuple[tuple[int, int], ...]]
    project: NotRequired[str]
    stale: NotRequired[bool]
    scoreType: NotRequired[str]
    why: NotRequired[dict[str, float]]


@dataclass(frozen=True, slots=True)
class Content:
    """An answer that is not JSON: a file's text, an image."""

    body: str | bytes
    mime: str = "text/plain"


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result: its place, its score, and the reasons for the score."""

    project: str
    kind: Kind
    path: str
    span: Span
    text: str
    score: float
    score_type: str
    language: str = ""
    symbol: str = ""
    definition: Symbol | None = None  # or section: all of what is shown in part or whole
    symbols: tuple[Symbol, ...] = ()  # that the lines touch, where they are no definition's own
    parts: tuple[tuple[int, int], ...] = ()  # lines shown, where some between are left out
    why: tuple[tuple[str, float], ...] = ()
    stale: bool = False  # whether the file has changed since and the text could not be updated
    state: FileState | None = None  # of the file it was cut from; None if that changed meanwhile
    compared: bool = False  # whether the file was still in that state right after the search
    focus: int = 0  # the line that answers, which is shown in any case; 0 if no single one does

    @property
    def start_line(self) -> int:
        """The first line of the text, from 1."""
        return self.span.start_line

    @property
    def end_line(self) -> int:
        """The last line of the text."""
        return self.span.end_line

    @property
    def is_clipped(self) -> bool:
        """Whether the definition or section has more lines than are shown."""
        whole = self.definition or self.span
        within = self.start_line <= whole.start_line and whole.end_line <= self.end_line
        return bool(self.parts) or not within

    @property
    def names(self) -> tuple[str, ...]:
        """The definitions that it shows, or lies in."""
        own = (self.symbol, self.definition.name if self.definition else "")
        return tuple(filter(None, (*own, *(one.name for one in self.symbols))))

    def as_dict(self, *, explain: bool = False, name_project: bool = False) -> HitRow:
        """The documented JSON; with what made the hit rank, and its project, where wanted."""
        row: HitRow = {
            "path": self.path,
            "text": self.text,
            "score": round(self.score, 4),
            "startLine": self.start_line,
            "endLine": self.end_line,
        }
        if self.symbol:
            row["symbol"] = self.symbol
        if self.is_clipped and self.definition:
            row["clipped"] = True
            row["definition"] = self.definition.start_line, self.definition.end_line
        if self.parts:
            row["parts"] = self.parts
        if name_project:
            row["project"] = self.project
        if self.stale:
            row["stale"] = True
        if explain:
            row["scoreType"], row["why"] = self.score_type, dict(self.why)
        return row


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """The size of a store."""

    files: int
    chunks: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of long work."""

    stage: str
    done: int = 0
    total: int | None = None
    message: str = ""
    rate: float | None = None  # units per second
    eta_s: float | None = None


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The outcome of one indexing run."""

    files_indexed: int
    files_removed: int
    files_unchanged: int
    chunks_created: int
    seconds: float
    skipped: dict[str, int] = field(default_factory=dict)
    """Reason -> number of files."""
    examples: tuple[Skipped, ...] = ()
    """A few skipped paths, as examples for the user."""
    note: str = ""
    """What the index started from, if that was a shared one."""

    def as_dict(self) -> dict[str, object]:
        """The report as a job carries it."""
        return {
            "filesIndexed": self.files_indexed,
            "filesRemoved": self.files_removed,
            "filesUnchanged": self.files_unchanged,
            "chunksCreated": self.chunks_created,
            "seconds": round(self.seconds, 2),
        } | ({"skipped": self.skipped} if self.skipped else {})
