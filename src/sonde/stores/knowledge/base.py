"""What a store of personal knowledge promises, and the values it keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from sonde.stores.chunks.base import Vectors
from sonde.types import Scored

Source = Literal["notes", "media", "chats", "characters", "prompts"]
SOURCES: tuple[Source, ...] = get_args(Source)
NUMBERED: tuple[Source, ...] = ("media", "characters", "prompts")
"""Sources whose ids are numbers; the others are named by strings."""
TITLED: tuple[Source, ...] = ("notes", "media")
"""Sources whose title counts in every piece; elsewhere it is a piece of its own."""
Place = tuple[str, str]
"""Where an entry is from: its origin, and its path in there."""
TITLE = "title"
"""The field of a piece that holds nothing but the title."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an entry that is found and shown by itself: a chunk, a message, a field.

    The texts of an entry's pieces with the same field follow each other without gap or overlap,
    so that joined they are the field's whole text.
    """

    text: str
    place: int = 0
    """0, 1, 2 … within the entry; a title stands before, at -1."""
    start: int = 0
    """Where the text begins within its field, in characters."""
    field: str = ""
    uuid: str = ""
    """Names a chunk or a message for good."""
    sender: str = ""
    created_at: int | None = None
    """Epoch milliseconds, like every time here."""
    begins: int | None = None
    """Of speech: when it is heard, in milliseconds from the start of the recording."""
    ends: int | None = None
    number: int = 0
    """The store's key; 0 until stored."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A note, a medium, a conversation, a character or a prompt."""

    source: Source
    title: str
    pieces: tuple[Piece, ...] = ()
    """Empty where only the head was asked for."""
    id: str = ""
    """Empty for a new one: the store chooses."""
    created_at: int = 0
    last_modified: int = 0
    version: int = 1
    tags: tuple[str, ...] = ()
    media_type: str = ""
    url: str = ""
    character: str = ""
    """Of a conversation: the id of the character it is with."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else its format says, as JSON."""
    origin: str = ""
    """What it was imported from; empty when it was written by hand."""
    path: str = ""
    """Where in its origin it lies."""
    hash: str = ""
    """Of what was imported; equal hashes need no second look."""
    number: int = 0
    """The store's key; 0 until stored."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Which pieces may be found at all; acts inside retrieval. None and () ask for nothing."""

    media_types: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    tags: tuple[str, ...] = ()
    """All of them must be there."""
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
    """Everything that one user has; no method can reach what another user has.

    Every write is atomic and durable when the method returns. Any number of threads and processes
    may read while one writes. Terms are those of `sonde.text.words`; `x*` stands for every term
    that begins with x. Scores are "higher is better", ties are broken by the key.
    """

    shared: bool
    """Whether several servers work on it, so that what one remembers the next must know."""
    scale: str
    """How scores become 0 to 1: over their `range`, or divided by the `max`."""

    def generation(self, source: Source) -> int:
        """A number that grows with every committed change of a source."""

    def count(self, source: Source) -> tuple[int, int]:
        """How many entries, how many pieces."""

    def put(self, source: Source, entries: Sequence[Entry]) -> list[str]:
        """Store these just as they are, each in place of the one with its id; the ids."""

    def remove(self, source: Source, ids: Collection[str]) -> int:
        """Forget these; how many there were."""

    def get(self, source: Source, id: str, *, pieces: bool = True) -> Entry | None:  # noqa: A002
        """An entry by its id, whole or only its head."""

    def find_title(self, source: Source, title: str) -> Entry | None:
        """The head of the newest entry with this title, letter case and accents apart."""

    def read_pieces(self, source: Source, id: str, first: int, count: int) -> list[Piece]:  # noqa: A002
        """So many pieces of an entry from a place on, without its title."""

    def count_pieces(self, source: Source, id: str) -> int:  # noqa: A002
        """How many pieces an entry has, without its title."""

    def find_piece(self, source: Source, id: str, uuid: str) -> Piece | None:  # noqa: A002
        """The piece of an entry with this uuid."""

    def list_entries(self, source: Source, after: str = "", limit: int = 1000) -> list[Entry]:
        """Whole entries in the order of their keys, from behind this id on."""

    def list_origin(self, source: Source, origin: str) -> Mapping[str, Entry]:
        """The heads of what was imported from an origin, by path."""

    def bury(self, source: Source, places: Mapping[Place, str]) -> None:
        """Remember that what came from these places was deleted, and the hash it had there."""

    def unbury(self, source: Source, places: Collection[Place]) -> None:
        """Forget that."""

    def list_buried(self, source: Source) -> Mapping[Place, str]:
        """The places of what was deleted, with its hashes."""

    def list_media_types(self) -> list[str]:
        """Every kind of medium there is."""

    def rank(
        self, source: Source, terms: Sequence[str], limit: int, where: Conditions = ANYTHING
    ) -> list[Scored]:
        """The best pieces for these terms."""

    def nearest(
        self,
        source: Source,
        model: str,
        vector: Vectors,
        limit: int,
        where: Conditions = ANYTHING,
    ) -> list[Scored]:
        """The pieces nearest to a vector."""

    def locate(self, source: Source, numbers: Sequence[int]) -> Mapping[int, RankedPiece]:
        """Pieces by their keys, each with the head of its entry; those that are gone are not."""

    def list_bare(self, source: Source, model: str, limit: int) -> list[RankedPiece]:
        """Pieces that have no vector of this model yet."""

    def put_vectors(
        self, source: Source, model: str, numbers: Sequence[int], rows: Vectors
    ) -> None:
        """Keep a vector for each of these pieces; those that are gone are passed over."""

    def remember(self, key: str, value: str, seconds: float) -> None:
        """Keep something small for a while, for whoever opens this store next."""

    def recall(self, key: str) -> str | None:
        """What was kept under a key, unless it is too long ago."""

    def measure_bytes(self) -> int:
        """How much room everything takes."""

    def close(self) -> None:
        """Let go of every file and connection."""
