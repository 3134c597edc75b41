"""The protocol of a store of personal knowledge, and the values it stores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from sonde.stores.chunks.base import Vectors
from sonde.types import Scored

Source = Literal["notes", "media", "chats", "characters", "prompts"]
SOURCES: tuple[Source, ...] = get_args(Source)
MEDIA_TYPES = tuple(
    "video audio podcast pdf epub docx pptx html markdown txt image article".split()
)
"""The media types of the specification; others may occur."""
NUMBERED: tuple[Source, ...] = ("media", "characters", "prompts")
"""Sources whose ids are numbers; those of the others are strings."""
TITLED: tuple[Source, ...] = ("notes", "media")
"""Sources whose title is indexed with every piece; in others it is a separate piece."""
Place = tuple[str, str]  # origin of an imported entry, and its path there
TITLE = "title"  # the field of a piece that holds only the title


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an entry that is indexed and shown separately: a chunk, a message, a field.

    The pieces of a field have no gaps or overlaps: joined, they are its whole text.
    """

    text: str
    place: int = 0
    """0, 1, 2 … within the entry; a title is at -1."""
    start: int = 0
    """Where the text begins within its field, in characters."""
    field: str = ""
    uuid: str = ""
    """The permanent id of a chunk or a message."""
    sender: str = ""
    created_at: int | None = None
    """Epoch milliseconds, like all times here."""
    begins: int | None = None
    """Milliseconds from the start of a recording."""
    ends: int | None = None
    number: int = 0
    """The store's key; 0 until stored."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A note, a media item, a conversation, a character or a prompt."""

    source: Source
    title: str
    pieces: tuple[Piece, ...] = ()
    """Empty if only the head was read."""
    id: str = ""
    """Empty for a new entry: the store assigns one."""
    created_at: int = 0
    last_modified: int = 0
    version: int = 1
    tags: tuple[str, ...] = ()
    media_type: str = ""
    url: str = ""
    character: str = ""
    """The id of a conversation's character."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of its format, as JSON."""
    origin: str = ""
    """The folder or file it was imported from; empty for an entry that was not imported."""
    path: str = ""
    """Its place in its origin."""
    hash: str = ""
    """The record of its import (`knowledge.identity.Mark`)."""
    number: int = 0
    """The store's key; 0 until stored."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Filters on pieces, applied inside retrieval. None and empty values allow everything."""

    media_types: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    tags: tuple[str, ...] = ()
    """An entry must have all of them."""
    fields: tuple[str, ...] = ()
    sender: str = ""
    character: str = ""


ANYTHING = Conditions()


@dataclass(frozen=True, slots=True)
class RankedPiece:
    """A piece and the head of its entry."""

    entry: Entry
    piece: Piece


class KnowledgeStore(Protocol):
    """The entries of one user; no method can reach those of another.

    Writes are atomic, and durable when the method returns. Any number of threads and processes may
    read while one writes. Terms are those of `sonde.text.words`; `x*` stands for every term with
    the prefix x. Higher scores are better, ties are ordered by key.
    """

    shared: bool
    """Whether several servers may use it, so that sessions are stored in it."""
    scale: str
    """How scores are normalised: over their `range`, or divided by the `max`."""

    def count(self, source: Source) -> tuple[int, int]:
        """The number of entries and of pieces."""

    def put(self, source: Source, entries: Sequence[Entry]) -> list[str]:
        """Store entries, each replacing the one with its id. Returns the ids."""

    def restamp(self, source: Source, rows: Mapping[str, tuple[str, str]]) -> None:
        """Set path and hash of entries by id, and nothing else."""

    def remove(self, source: Source, ids: Collection[str]) -> int:
        """Remove entries. Returns how many existed."""

    def get(self, source: Source, id: str, *, pieces: bool = True) -> Entry | None:  # noqa: A002
        """An entry by its id, with its pieces or only its head."""

    def find_title(self, source: Source, title: str) -> Entry | None:
        """The head of the newest entry with this title, ignoring case and accents."""

    def read_pieces(self, source: Source, id: str, first: int, count: int) -> list[Piece]:  # noqa: A002
        """Up to `count` pieces of an entry from a place on, without its title."""

    def count_pieces(self, source: Source, id: str) -> int:  # noqa: A002
        """How many pieces an entry has, without its title."""

    def find_piece(self, source: Source, id: str, uuid: str) -> Piece | None:  # noqa: A002
        """The piece of an entry with this uuid."""

    def list_entries(self, source: Source, after: str = "", limit: int = 1000) -> list[Entry]:
        """Entries with their pieces, in the order of their keys, after this id."""

    def list_newest(self, source: Source, limit: int) -> list[Entry]:
        """The heads of the entries that changed last, newest first."""

    def list_origin(self, source: Source, origin: str) -> Mapping[str, Entry]:
        """The heads of the entries imported from an origin, by path."""

    def list_marks(self, source: Source, origin: str) -> Mapping[str, tuple[str, str]]:
        """The ids and hashes alone of the entries imported from an origin, by path."""

    def bury(self, source: Source, places: Mapping[Place, str]) -> None:
        """Record that the user deleted the entries of these places, with their hashes."""

    def unbury(self, source: Source, places: Collection[Place]) -> None:
        """Remove such records."""

    def list_buried(self, source: Source) -> Mapping[Place, str]:
        """The places of deleted entries, with their hashes."""

    def list_media_types(self) -> list[str]:
        """All media types in use."""

    def rank(
        self, source: Source, terms: Sequence[str], limit: int, where: Conditions = ANYTHING
    ) -> list[Scored]:
        """The best pieces for these terms."""

    def weigh_terms(self, source: Source, terms: Sequence[str]) -> Mapping[str, float]:
        """The most that each term can add to a score; unknown terms have the highest value."""

    def nearest(
        self, source: Source, model: str, vector: Vectors, limit: int, where: Conditions = ANYTHING
    ) -> list[Scored]:
        """The pieces nearest to a vector; empty while damaged vectors are being rebuilt."""

    def compare(
        self, source: Source, model: str, vector: Vectors, numbers: Sequence[int]
    ) -> Mapping[int, float]:
        """The similarity of these pieces to a vector; pieces without a vector are left out."""

    def drop_damaged(self, source: Source, model: str) -> int:
        """Delete damaged vectors, to be embedded again. Returns how many.

        Vectors are verified once, when they are first used.
        """

    def coverage(self, source: Source, model: str) -> tuple[int, int]:
        """The number of pieces with a vector of this model, and of all pieces."""

    def forget_models(self, source: Source, kept: Collection[str]) -> None:
        """Delete the vectors of all other models."""

    def list_recent(self, source: Source, where: Conditions, limit: int) -> list[RankedPiece]:
        """The newest pieces that fulfil the conditions, without titles."""

    def locate(self, source: Source, numbers: Sequence[int]) -> Mapping[int, RankedPiece]:
        """Pieces by key, with the heads of their entries; missing ones are left out."""

    def list_bare(
        self, source: Source, model: str, limit: int, before: int | None = None
    ) -> list[RankedPiece]:
        """The newest pieces without a vector of this model, with keys below `before`."""

    def put_vectors(
        self, source: Source, model: str, numbers: Sequence[int], rows: Vectors
    ) -> None:
        """Store a vector for each of these pieces; missing ones are skipped."""

    def remember(self, key: str, value: str, seconds: float) -> None:
        """Store a small value for a time, for all servers that use this store."""

    def recall(self, key: str) -> str | None:
        """The value of a key; None if it expired."""

    def measure_bytes(self) -> int:
        """The size of everything in bytes."""

    def close(self) -> None:
        """Release files and connections."""
