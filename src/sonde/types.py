"""The frozen values everyone shares. Imports nothing of ours."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["code", "docs"]
"""Which of a project's two indexes a file belongs to."""

LOCAL = "local"
"""The user where nobody else can connect."""

SymbolKind = Literal["type", "function", "value"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as the surface found out; no argument of a call can say otherwise."""

    user: str = LOCAL
    """Whose data this is about; decided by the token, `local` where none is needed."""
    session: str = ""
    """The connection where one lasts: stands for a handle that a call leaves out."""
    base_url: str = ""
    """Where this caller reaches the HTTP server; empty when it does not."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """What the request prefers where neither the call nor the session says, within bounds."""

    def link(self, address: str) -> str:
        """An address (`jobs/7`) as this caller can open it: a URL, else an MCP resource."""
        return f"{self.base_url}/api/{address}" if self.base_url else f"sonde://{address}"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a file: lines are 1-based and inclusive, bytes are 0-based and half-open."""

    start_line: int
    end_line: int
    start_byte: int
    end_byte: int

    def __reduce__(self) -> tuple[Any, ...]:
        # by hand here and below: a dataclass takes twice as long to go to another process
        return Span, (self.start_line, self.end_line, self.start_byte, self.end_byte)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name that a file defines, where, and how (`Client.send`, function, line 12)."""

    name: str
    kind: SymbolKind
    line: int

    def __reduce__(self) -> tuple[Any, ...]:
        return Symbol, (self.name, self.kind, self.line)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one file as it was when it was cut.

    `text` is exactly the file's text over `span`. `header` is context that is searched and
    embedded with the text but is not in it: path, enclosing scopes, signature.
    """

    path: str
    text: str
    span: Span
    header: str = ""
    symbol: str = ""
    """Qualified name of the definition this chunk opens, if it opens one."""
    id: int = 0
    """The store's key; 0 until stored."""
    _digest: bytes = field(default=b"", init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Chunk, (self.path, self.text, self.span, self.header, self.symbol, self.id)

    @property
    def embedded_text(self) -> str:
        """What a model sees."""
        return f"{self.header}\n{self.text}" if self.header else self.text

    @property
    def digest(self) -> bytes:
        """Names the embedded text: equal digests have equal vectors."""
        if not self._digest:
            text = self.embedded_text.encode("utf-8", "surrogatepass")
            object.__setattr__(self, "_digest", hashlib.sha256(text).digest()[:16])
        return self._digest


@dataclass(frozen=True, slots=True)
class FileState:
    """What is known of an indexed file; `hash` is the SHA-256 of its bytes, in hex."""

    path: str
    hash: str
    size: int
    mtime_ns: int
    language: str
    kind: Kind

    @property
    def stem(self) -> str:
        """The name up to its first dot or backtick, for comparing with words of a query."""
        name = self.path.rpartition("/")[2]
        head = name.lstrip(".").replace("`", ".").split(".")[0]
        return head or name


@dataclass(frozen=True, slots=True)
class FileWords:
    """The words under which a file is found, as an index takes them: separated by spaces."""

    chunks: tuple[tuple[str, str, str], ...]
    """Of each chunk, in file order: those of its path, of the name it defines, of its text."""
    names: str
    imports: str
    grams: str


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A file ready to be stored: its state and everything cut from it."""

    state: FileState
    chunks: tuple[Chunk, ...]
    symbols: tuple[Symbol, ...] = ()
    imports: tuple[str, ...] = ()
    """Last parts of the module names that the file imports."""
    tags: tuple[str, ...] = ()
    """Those that its content names; what its path says is not repeated here."""
    words: FileWords | None = None
    """None where the store has still to find them."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which chunks may be retrieved at all; acts inside retrieval."""

    paths: frozenset[str] | None = None
    """Only these files; None means all."""


@dataclass(frozen=True, slots=True)
class AllOf:
    """A file must fit all of these."""

    parts: tuple[Needs, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A file must fit one of these."""

    parts: tuple[Needs, ...]


Needs = str | AllOf | AnyOf
"""What a file must hold to be worth reading: a string (in any letter case), or several."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One retrieved chunk and its raw score (higher is better)."""

    id: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer: where, how good, and why."""

    project: str
    kind: Kind
    path: str
    span: Span
    text: str
    score: float
    score_type: str
    language: str = ""
    symbol: str = ""
    why: tuple[tuple[str, float], ...] = ()
    stale: bool = False
    """True when the file changed since and the text could not be brought up to date."""
    state: FileState | None = None
    """The file that the text was cut from; None when it changed while it was searched."""
    compared: bool = False
    """True when the file was found to be in that state right after the search."""


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """How much a store holds."""

    files: int
    chunks: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Drift:
    """What does not fit together inside a store."""

    files: frozenset[str] = frozenset()
    """Files whose chunks, words, names or trigrams are not as they were written."""
    strays: int = 0
    """Rows that belong to no file, and counters that are wrong."""
    vectors: int = 0
    """Vectors that are not as they were written."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a long piece of work is."""

    stage: str
    done: int = 0
    total: int | None = None
    message: str = ""
    rate: float | None = None
    """Units a second."""
    eta_s: float | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that is left out, and why."""

    path: str
    reason: str
    """One of the names in `policy.admit.REASONS`."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """What one check of an index found and repaired."""

    files: int = 0
    """How many were compared."""
    changed: int = 0
    """Files whose content is not what is indexed."""
    missing: int = 0
    """Files that should be indexed and were not."""
    gone: int = 0
    """Indexed files that are no longer there, or no longer admitted."""
    broken: int = 0
    """Files whose chunks, words, names or trigrams were not as written."""
    strays: int = 0
    """Rows of the index that belonged to no file."""
    vectors: int = 0
    """Vectors that were lost or damaged."""
    thorough: bool = False
    seconds: float = 0.0

    @property
    def drift(self) -> int:
        """Everything that was not as it should be."""
        return self.changed + self.missing + self.gone + self.broken + self.strays + self.vectors

    def as_dict(self) -> dict[str, object]:
        """The shape every surface shows."""
        return {**asdict(self), "seconds": round(self.seconds, 1)}


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What one indexing run did."""

    files_indexed: int
    files_removed: int
    files_unchanged: int
    chunks_created: int
    seconds: float
    skipped: dict[str, int] = field(default_factory=dict)
    """Reason -> how many."""
    examples: tuple[Skipped, ...] = ()
    """A few skipped paths a user may want to know of."""

    def as_dict(self) -> dict[str, Any]:
        """The report as a job carries it."""
        return {
            "filesIndexed": self.files_indexed,
            "filesRemoved": self.files_removed,
            "filesUnchanged": self.files_unchanged,
            "chunksCreated": self.chunks_created,
            "seconds": round(self.seconds, 2),
        } | ({"skipped": self.skipped} if self.skipped else {})


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What is kept of a job; times are epoch milliseconds."""

    id: str
    kind: str
    status: str
    started_ms: int
    owner: str = ""
    """Empty where it belongs to everyone who may use this installation's projects."""
    subject: str = ""
    """The handle or path that it is about."""
    finished_ms: int | None = None
    stage: str = ""
    done: int = 0
    total: int | None = None
    eta_s: float | None = None
    report: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    process: str = ""
    """Names the process that runs it."""
    updated_ms: int = 0
