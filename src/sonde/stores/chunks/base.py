"""The protocol of a chunk store, and its limits; `tests/contracts` holds its contract suite."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from sonde.types import Chunk, FileState, Filter, Needs, Outline, ParsedFile, Scored, StoreCounts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# quoted, since numpy is loaded on first use: listing tools does not need it
Vectors: TypeAlias = "NDArray[np.float32]"
EVERYTHING = Filter()


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """The tuned numbers of a chunk store."""

    postings: float = 10_000  # matches a query may touch before its commonest words are left out
    spare_rows: int = 512  # unused vectors that are not worth a compaction
    spare_pages: int = 256  # unused pages of the database that are not worth a compaction
    max_fragments: int = 50  # LanceDB only: from this many of a table on, queries get slower
    kept_versions_s: float = 10.0  # LanceDB only: a query on an older version may still finish
    quiet_s: float = 12.0  # LanceDB only: after a write, longer than older versions are kept


LIMITS = ChunkLimits()


@dataclass(frozen=True, slots=True)
class Drift:
    """Inconsistencies inside a store."""

    files: frozenset[str] = frozenset()  # whose chunks or words differ from what was written
    strays: int = 0  # rows that belong to no file, and wrong counters
    vectors: int = 0  # vectors that differ from what was written


DIGEST_BYTES, LAST_PLACE = 16, 2**32 - 1  # of a chunk; the last line that a place can name


def place_digest(digest: bytes, place: int) -> bytes:
    """The digest of the definition that begins on this line of a chunk, counted from 0."""
    return digest + place.to_bytes(4, "big")


class ChunkStore(Protocol):
    """The chunks of one index (a project's code, or its docs).

    Every write is atomic and durable when the method returns; a crash leaves the state before
    or after it. Any number of threads and processes may read while one writes, and a read sees
    the newest committed state. Scores are "higher is better"; ties are broken by path, then
    line, so that every ranking is totally ordered.
    """

    def generation(self) -> int:
        """A number that grows with every committed change of files or chunks by any process; new
        vectors leave it as it is."""

    def counts(self) -> StoreCounts:
        """Files, chunks, and bytes on disk."""

    def files(
        self, paths: Collection[str] | None = None, *, under: str = ""
    ) -> Mapping[str, FileState]:
        """The indexed files by path: all, those of these paths, or a folder's (or that file)."""

    def replace(self, files: Sequence[ParsedFile], *, more: bool = False) -> None:
        """Store these files, replacing what was stored under their paths, in one transaction. With
        `more` to come, and `tidy` after that, merging their words can wait."""

    def touch(self, states: Sequence[FileState]) -> None:
        """Record new sizes and times of files whose content did not change."""

    def remove(self, paths: Collection[str]) -> None:
        """Remove these files, in one transaction; unknown paths are ignored."""

    def clear(self) -> None:
        """Remove everything."""

    def chunks(self, ids: Sequence[int]) -> list[Chunk]:
        """The chunks with these ids, in this order; ids that are gone are left out."""

    def chunks_of(self, path: str) -> list[Chunk]:
        """A file's chunks in file order; empty when the file is unknown."""

    def chunk_lines(self, paths: Collection[str]) -> Mapping[str, list[tuple[int, int, int, str]]]:
        """Key, first line, last line and symbol of each chunk of these files, in file order."""

    def symbols_of(self, paths: Collection[str]) -> Mapping[str, Outline]:
        """The symbols that each of these files defines."""

    def tags(self) -> Mapping[str, tuple[str, ...]]:
        """The tags of each file that has tags in its content."""

    def paths_named(self, names: Collection[str]) -> set[str]:
        """Files whose stem, or a symbol they define, equals one of these names (folded: lower case,
        no separators; `Foo.barBaz` is found as `barbaz` and as `foobarbaz`)."""

    def paths_beginning(self, prefix: str, limit: int) -> list[str]:
        """The first files in order that have such a name with this beginning; a few for a menu."""

    def known_names(self, shortest: int, longest: int) -> list[str]:
        """The names of so many letters that files are known by, and the stems they import; all
        folded, in any order."""

    def importers(self, stems: Collection[str]) -> Mapping[str, int]:
        """Folded stem -> how many files import it."""

    def lexical(self, terms: Sequence[str], limit: int, where: Filter = EVERYTHING) -> list[Scored]:
        """BM25 over path, defined names and text; `terms` come from `sonde.text.words`."""

    def term_counts(self, terms: Collection[str]) -> Mapping[str, int]:
        """Term -> how many chunks hold it."""

    def trigram_candidates(self, needs: Needs, where: Filter = EVERYTHING) -> set[str]:
        """Files that may contain the needed strings (of any length; case is ignored).

        No file that contains them is missing; some that do not may be included. Strings shorter
        than three bytes exclude nothing.
        """

    def whole_texts(self, paths: Collection[str]) -> Mapping[str, bytes]:
        """The text as UTF-8 of those of these files that are stored to the last byte."""

    def dense(
        self, model: str, vector: Vectors, limit: int, where: Filter = EVERYTHING
    ) -> list[Scored]:
        """Cosine similarity to the stored vectors of `model`; chunks without one are absent."""

    def vectors(self, model: str, ids: Sequence[int]) -> Mapping[int, Vectors]:
        """The stored unit vectors of these chunks under `model`, where they exist."""

    def definition_vectors(
        self, model: str, ids: Sequence[int]
    ) -> Mapping[tuple[int, int], Vectors]:
        """The same of the definitions that begin in these chunks, by chunk and place in it."""

    def put_vectors(self, model: str, digests: Sequence[bytes], vectors: Vectors) -> None:
        """Store one unit vector per digest of a chunk, or of a definition (`place_digest`); zero
        rows are stored but never retrieved.

        Those of definitions come before that of their chunk: it stands for all of them when it
        is asked which chunks have a vector, and they go when it goes.
        """

    def known_digests(self, model: str, digests: Collection[bytes]) -> set[bytes]:
        """Which of these digests have a vector under `model`, used by a chunk or not."""

    def missing(self, model: str, limit: int) -> list[Chunk]:
        """Chunks whose digest has no vector under `model`, newest files first."""

    def coverage(self, model: str) -> tuple[int, int]:
        """How many chunks have a vector under `model`, and how many there are."""

    def count_damaged(self) -> int:
        """How many chunks were read without their vectors, since those are damaged."""

    def models(self) -> list[str]:
        """The names of the models that have any vector."""

    def compact(self) -> None:
        """Reclaim the space of what was replaced; never blocks a reader for long."""

    def tidy(self) -> None:
        """Compact if enough space is wasted; cheap if not."""

    def rest(self) -> None:
        """Release caches and idle connections; the next use loads them again."""

    def verify(self) -> list[str]:
        """Problems inside the store, as sentences; empty when there are none."""

    def find_drift(self, check: Callable[[], None], *, thorough: bool) -> Drift:
        """Inconsistencies, by what repairs them; raises `IndexCorrupt` when nothing can.

        `thorough` checks every word too; `check` is called between steps and may raise.
        """

    def drop_broken(self) -> None:
        """Remove orphaned rows and damaged vectors."""

    def close(self) -> None:
        """Release files and connections; the store cannot be used after."""
